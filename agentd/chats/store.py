"""The chats on disk: one folder each, whose journal is the truth and all else a cache.

``open`` folds a journal (from its checkpoint on, where there is a sound one), ``append`` adds a
line, ``history`` reads messages back. Chats that nobody uses are let go of; what every list
needs of them stays known as summaries. The format is specified in ``state/README.md``.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from msgspec import Struct

from agentd.chats import checkpoint
from agentd.chats.journal_reader import decode_entry
from agentd.chats.load import load
from agentd.chats.model import Message
from agentd.chats.records import JournalEntry, RecordBody, get_messages
from agentd.chats.state import Chat
from agentd.core.clock import Timestamp
from agentd.core.errors import AgentdError, Unavailable
from agentd.core.ids import Sequences
from agentd.storage import checksummed_json
from agentd.storage.document import explain_os_error
from agentd.storage.journal import GroupCommitter, Journal, open_journal_file
from agentd.storage.layout import Layout

log = logging.getLogger(__name__)

MAX_OPEN_CHATS = 256
"""Chats kept in memory; more only while they work."""
MAX_RECENT_BYTES = 32 * 1024 * 1024
"""About as much text of their last messages, with diffs; more only while they work."""
UNLOAD_CHECK_EVERY = 64
"""Lines of a chat between two checks of whether chats should be unloaded."""
CHECKPOINT_EVERY = 1024
"""Lines from one checkpoint to the next: what opening a chat reads at most, beside it."""
_CHUNK = 1024 * 1024


class _OpenChat(Struct, eq=False):
    chat: Chat
    journal: Journal
    checkpointed: int
    """Lines that the checkpoint covers."""


class ChatFiles:
    """The chats of one state folder; satisfies ``chats.service.ChatStore``."""

    def __init__(self, layout: Layout, sequences: Sequences, committer: GroupCommitter) -> None:
        self._layout = layout
        self._sequences = sequences
        self._committer = committer
        self._readers = ThreadPoolExecutor(4, "read")
        self._opened: dict[int, _OpenChat] = {}
        self._opening: dict[int, asyncio.Future[Chat]] = {}
        self._awaited = Counter[int]()
        """How many wait for a chat to be opened: it stays at least until they have it."""
        self._failed_journals: dict[int, tuple[int, str]] = {}
        """Journals not to be written before a restart: the bytes that are safe, and why."""

    def create(self, chat_id: int) -> Chat:
        """Create a chat that reaches the disk with its first record."""
        chat = Chat(chat_id)
        journal = self._make_journal(chat_id, 0, fresh=True)
        self._opened[chat_id] = _OpenChat(chat, journal, 0)
        self._unload_idle()
        return chat

    def get_cached(self, chat_id: int) -> Chat | None:
        """Return a chat that is in memory with nothing waiting for the disk."""
        opened = self._touch(chat_id)
        return opened.chat if opened and opened.journal.is_settled else None

    async def open(self, chat_id: int) -> Chat:
        """Return the chat's state. Raises ``NotFound``, or ``Unavailable`` naming the file."""
        if opened := self._touch(chat_id):
            return opened.chat
        if chat_id not in self._opening:
            self._opening[chat_id] = task = asyncio.ensure_future(self._load(chat_id))
            task.add_done_callback(_retrieve_exception)
        self._awaited[chat_id] += 1
        try:
            return await asyncio.shield(self._opening[chat_id])
        finally:
            self._awaited[chat_id] -= 1
            if not self._awaited[chat_id]:
                del self._awaited[chat_id]

    def append(
        self,
        chat: Chat,
        at: Timestamp,
        by: str,
        body: RecordBody,
        on_durable: Callable[[JournalEntry], None],
    ) -> "asyncio.Future[None]":
        """Add one record: the chat has it at once, ``on_durable`` is called when it is on disk.

        Raises ``Unavailable``, at once or from the future, when it cannot be written; the chat
        must then be opened again.
        """
        if chat.damage:
            raise Unavailable(f"Chat {chat.id} is read-only", chat.damage)
        opened = self._opened.get(chat.id)
        if opened is None or opened.chat is not chat:
            raise Unavailable(f"Chat {chat.id} was reloaded meanwhile", "Try again.")
        entry = JournalEntry(chat.lines + 1, self._sequences.next("seq"), at, by, body)
        line = checksummed_json.encode_checksummed(entry)

        def on_safe() -> None:
            on_durable(entry)
            if entry.n - opened.checkpointed >= CHECKPOINT_EVERY and opened.chat.lines == entry.n:
                self._write_checkpoint(opened)

        try:
            done = self._committer.append(opened.journal, line, on_safe)
        except AgentdError:
            if opened.journal.fresh and not chat.lines:
                del self._opened[chat.id]  # a chat that was not to be
            raise
        chat.apply(entry, len(line))
        if entry.n % UNLOAD_CHECK_EVERY == 0:
            self._unload_idle()
        return done

    async def wait_durable(self, chat: Chat) -> None:
        """Return when all that the chat has taken in is on disk; raises when it cannot be."""
        opened = self._opened.get(chat.id)
        if opened and opened.chat is chat and not opened.journal.is_settled:
            await opened.journal.wait_for_last()

    async def read_history(
        self, chat: Chat, since: Timestamp, at: int | None = None
    ) -> AsyncIterator[list[Message]]:
        """Read all messages from ``since`` on (empty: from the first), oldest first, in portions.

        With ``at``, those from that byte of the journal on. Raises ``Unavailable`` where the
        journal is damaged, and the chat is then read-only, or cannot be read at the moment.
        """
        loop = asyncio.get_running_loop()
        path, end = self._layout.get_journal_path(chat.id), chat.size
        place = chat.find_offset_before(since) if at is None else at
        while place < end:
            try:
                messages, place = await loop.run_in_executor(
                    self._readers, _read_messages, self._layout, chat.id, place, end, since
                )
            except (checksummed_json.ChecksumMismatch, FileNotFoundError) as error:
                damage = f"{path}, after byte {place}: {error}"
                log.error("chat %d is read-only: %s", chat.id, damage)
                if opened := self._opened.get(chat.id):
                    opened.chat.damage = damage
                raise Unavailable(f"Chat {chat.id} is damaged", damage) from error
            if messages:
                yield messages

    async def unload(self, chat: Chat) -> None:
        """Let go of a chat that was deleted and is settled, with a checkpoint that says so."""
        opened = self._opened.pop(chat.id, None)
        if opened and (writing := self._write_checkpoint(opened)):
            await asyncio.wrap_future(writing)

    async def close(self) -> None:
        """Leave a checkpoint of each open chat, so that the next start reads little."""
        for opened in list(self._opened.values()):
            if opened.journal.is_settled and opened.chat.lines > opened.checkpointed:
                self._write_checkpoint(opened)
        await asyncio.to_thread(self._readers.shutdown)

    def _touch(self, chat_id: int) -> _OpenChat | None:
        if opened := self._opened.pop(chat_id, None):
            self._opened[chat_id] = opened  # the last used is let go of last
        return opened

    async def _load(self, chat_id: int) -> Chat:
        loop = asyncio.get_running_loop()
        size, reason = self._failed_journals.get(chat_id, (None, ""))
        try:
            loaded = await loop.run_in_executor(
                self._readers, partial(load, self._layout, chat_id, end=size)
            )
        finally:
            del self._opening[chat_id]
        chat = loaded.chat
        chat.damage = chat.damage or reason
        journal = self._make_journal(chat_id, chat.size)
        self._opened[chat_id] = _OpenChat(chat, journal, loaded.checkpointed)
        self._unload_idle()
        return chat

    def _make_journal(self, chat_id: int, size: int, *, fresh: bool = False) -> Journal:
        path = self._layout.get_journal_path(chat_id)
        return Journal(path, size, fresh, partial(self._unload_failed, chat_id))

    def _unload_failed(self, chat_id: int) -> None:
        """Unload a chat after a failed write: its state has what is not on disk."""
        opened = self._opened.get(chat_id)
        if opened and opened.journal.error:
            del self._opened[chat_id]
            if opened.journal.dead:
                self._failed_journals[chat_id] = opened.journal.size, opened.journal.error.message

    def _write_checkpoint(self, opened: _OpenChat) -> "Future[None] | None":
        if opened.chat.damage:  # a cache of what a person may be about to repair
            return None
        opened.checkpointed = opened.chat.lines
        sealed = checkpoint.encode(opened.chat)
        path = self._layout.get_checkpoint_path(opened.chat.id)
        return self._readers.submit(checkpoint.write, path, sealed)

    def _unload_idle(self) -> None:
        size = sum(map(_measure_recent, self._opened.values()))
        for chat_id, opened in list(self._opened.items()):
            if len(self._opened) <= MAX_OPEN_CHATS and size <= MAX_RECENT_BYTES:
                return
            if (
                opened.journal.is_settled
                and not opened.journal.fresh
                and not opened.chat.agent.turn
                and chat_id not in self._awaited
            ):
                if opened.chat.lines - opened.checkpointed > CHECKPOINT_EVERY // 16:
                    self._write_checkpoint(opened)
                size -= _measure_recent(opened)
                del self._opened[chat_id]


def _measure_recent(opened: _OpenChat) -> int:
    return opened.chat.recent_bytes + opened.chat.recent_diffs


def _retrieve_exception(task: "asyncio.Future[Chat]") -> None:
    """Mark a failure as seen: waiters get it, and asyncio need not log it."""
    if not task.cancelled():
        task.exception()


def _read_messages(
    layout: Layout, chat_id: int, at: int, end: int, since: Timestamp
) -> tuple[list[Message], int]:
    """Read the messages of about one chunk from ``at`` on; return them and the end offset.

    Raises ``ChecksumMismatch`` and ``FileNotFoundError`` for a journal that is damaged, and
    ``Unavailable`` for one that cannot be read at the moment.
    """
    try:
        with open(open_journal_file(layout, chat_id), "rb") as file:
            file.seek(at)
            data = file.read(min(_CHUNK, end - at))
            if not data.endswith(b"\n"):
                data += file.readline()
    except FileNotFoundError:
        raise
    except OSError as error:  # such as too many open files
        why = explain_os_error(layout.get_journal_path(chat_id), "read", error).message
        raise Unavailable(f"Chat {chat_id} cannot be read", why) from error
    if not data:
        raise checksummed_json.ChecksumMismatch("it is shorter than it was")
    messages: list[Message] = []
    for line in data.splitlines():
        found = get_messages(decode_entry(line).body)
        messages += (message for message in found if message.at >= since)
    return messages, at + len(data)
