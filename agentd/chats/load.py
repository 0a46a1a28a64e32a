"""Reading chats back: folding a journal, mending its torn end, and taking stock at start.

A torn last line (a write that never finished, so was never acknowledged) is kept aside and cut
off. Damage in the middle is never skipped: the chat is readable up to there, and read-only.
"""

import logging
import os
import re
import stat
import time
from contextlib import suppress

from msgspec import Struct

from agentd.chats import checkpoint
from agentd.chats.journal_reader import JournalDamage, read_entries
from agentd.chats.state import Chat, ChatSummary
from agentd.core.errors import AgentdError, NotFound, Unavailable
from agentd.core.ids import MAX_ID, HighWaterMarks
from agentd.storage.document import (
    explain_os_error,
    make_folder,
    remove_temporaries,
    translate_os_errors,
)
from agentd.storage.journal import open_journal_at
from agentd.storage.layout import Layout

log = logging.getLogger(__name__)

JOURNAL = "journal.jsonl"
_FOLDER = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)
"""The name of a chat's folder."""


class LoadedChat(Struct):
    """A chat as loaded from its files."""

    chat: Chat
    checkpointed: int
    """Lines that the checkpoint covers; 0 without one."""


def load(
    layout: Layout,
    chat_id: int,
    *,
    repair: bool = False,
    end: int | None = None,
    path: str = "",
) -> LoadedChat:
    """Fold one chat's journal, up to the byte ``end`` where that is given. Blocking.

    The journal is at ``path``, or where that of a chat is. With ``repair`` a torn end is cut off;
    otherwise it counts as damage, for only a daemon that starts can know that nobody is writing.
    Raises ``NotFound`` without a journal, and ``Unavailable``, naming the file, when it cannot
    be read or holds no chat.
    """
    path = path or layout.get_journal_path(chat_id)
    try:
        fd = open_journal_at(path)
        try:
            _require_regular_file(chat_id, path, fd)
            return _fold(layout, chat_id, path, fd, repair, end)
        finally:
            os.close(fd)
    except FileNotFoundError:
        raise NotFound(f"Chat {chat_id} not found") from None
    except OSError as error:
        why = explain_os_error(path, "read", error).message
        raise Unavailable(f"Chat {chat_id} cannot be read", why) from error


def _require_regular_file(chat_id: int, path: str, fd: int) -> None:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise Unavailable(f"Chat {chat_id} cannot be read", f"{path} is not a regular file")


def _fold(
    layout: Layout, chat_id: int, path: str, fd: int, repair: bool, end: int | None
) -> LoadedChat:
    chat = checkpoint.read(layout.get_checkpoint_path(chat_id), chat_id, fd) or Chat(chat_id)
    checkpointed = chat.lines
    with open(fd, "rb", closefd=False) as file:
        file.seek(chat.size)
        data = file.read(-1 if end is None else max(end - chat.size, 0))
    for step in read_entries(data, chat.lines, chat.size):
        if not isinstance(step, JournalDamage):
            chat.apply(*step)
        elif not (step.torn and repair and _truncate_torn_end(path, step)):
            chat.damage = f"{path}:{step.line}: {step.reason}"
            log.error("chat %d is read-only: %s", chat_id, chat.damage)
    if not chat.lines:
        reason = chat.damage or f"{path} holds no chat"
        raise Unavailable(f"Chat {chat_id} cannot be read", reason)
    return LoadedChat(chat, checkpointed)


def _truncate_torn_end(path: str, damage: JournalDamage) -> bool:
    """Set a torn end aside and cut it off; False, and nothing is lost, when that cannot be done.

    Tried twice, for the chat is read-only until the next start otherwise.
    """
    try:
        torn = _set_end_aside(path, damage.offset)
    except OSError:
        try:
            torn = _set_end_aside(path, damage.offset)
        except OSError as error:
            log.error(
                "an unfinished write stays: %s", explain_os_error(path, "repair", error).message
            )
            return False
    log.warning(
        "%s:%d: an unfinished write of %d bytes was cut off and kept beside it",
        path, damage.line, torn,
    )  # fmt: skip
    return True


def _set_end_aside(path: str, offset: int) -> int:
    """Copy what follows a byte to a file beside, then cut it off; return how much that was."""
    aside = f"{path}.torn-{time.time_ns()}"
    with open(path, "r+b", opener=_open_for_update) as journal:
        journal.seek(offset)
        torn = journal.read()
        if torn:  # else an earlier try came that far
            copy = open(aside, "xb", opener=_open_private)  # noqa: SIM115 - to be removed where it fails
            try:
                with copy:
                    copy.write(torn)
                    copy.flush()
                    os.fsync(copy.fileno())
            except OSError:
                with suppress(OSError):
                    os.unlink(aside)
                raise
            journal.truncate(offset)
        os.fsync(journal.fileno())
    return len(torn)


def _open_for_update(path: str, _: int) -> int:
    return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def scan_chats(
    layout: Layout, known: dict[int, ChatSummary], *, repair: bool
) -> tuple[dict[int, ChatSummary], HighWaterMarks]:
    """Summarize every chat and find the highest ids. Blocking; before anything is written.

    Deleted ones are among them. ``known`` is the index: a chat whose journal still has
    the size named there is not opened. Damage by a crash is repaired, unless the folder cannot be
    written (``repair``).
    """
    chats: dict[int, ChatSummary] = {}
    marks = HighWaterMarks()
    for chat_id in _list_chat_ids(layout):
        summary = known.get(chat_id)
        if (
            summary is None
            or summary.damage
            or _get_size(layout.get_journal_path(chat_id)) != summary.size
        ):
            chat = _load_at_start(layout, chat_id, repair=repair)
            marks = marks.merge(HighWaterMarks(chat_id))
            if chat is None:
                continue
            seen = HighWaterMarks(chat_id, chat.highest_prompt, chat.highest_message, chat.seq)
            marks = marks.merge(seen)
            summary = chat.summarize()
        chats[chat_id] = summary
    return chats, marks


def _list_chat_ids(layout: Layout) -> list[int]:
    with translate_os_errors(layout.chats, "read"):
        try:
            names = os.listdir(layout.chats)
        except FileNotFoundError:
            return []
    ids = (int(name) for name in names if _FOLDER.fullmatch(name))
    return sorted(chat_id for chat_id in ids if chat_id <= MAX_ID)


def _get_size(path: str) -> int:
    try:
        info = os.stat(path, follow_symlinks=False)
    except OSError:
        return -1
    return info.st_size if stat.S_ISREG(info.st_mode) else -1


def _load_at_start(layout: Layout, chat_id: int, *, repair: bool) -> Chat | None:
    """Load a chat as a start finds it; None for a folder that holds none.

    Where the system fails, it gets a second chance: a failure that passes is not to cost a chat
    the whole life of the daemon.
    """
    with suppress(OSError):
        return _try_load(layout, chat_id, repair=repair)
    try:
        return _try_load(layout, chat_id, repair=repair)
    except OSError as error:
        why = explain_os_error(layout.get_journal_path(chat_id), "read", error).message
        return _report_unreadable(chat_id, f"{why}; the next start tries again")


def _try_load(layout: Layout, chat_id: int, *, repair: bool) -> Chat | None:
    """Load a chat as ``_load_at_start`` does; raises ``OSError``."""
    if repair:
        _remove_temporary_files(layout.get_chat_folder(chat_id))
    try:
        return load(layout, chat_id, repair=repair).chat
    except AgentdError as error:
        if isinstance(error.__cause__, OSError):
            raise error.__cause__ from error
        if _was_never_written(layout, chat_id) or _was_purged(layout, chat_id):
            if repair:
                _set_aside(layout, chat_id)
            return None
        if isinstance(error, NotFound):
            return _report_unreadable(chat_id, f"{layout.get_journal_path(chat_id)} is missing")
        return _report_unreadable(chat_id, error.details or error.message)


def _report_unreadable(chat_id: int, damage: str) -> Chat:
    log.error("chat %d cannot be read: %s", chat_id, damage)
    return Chat(chat_id, damage=damage)


def _remove_temporary_files(folder: str) -> None:
    """Remove what a crash left half written; a failure does no harm."""
    try:
        if os.path.isdir(folder):
            remove_temporaries(folder)
    except AgentdError as error:
        log.warning("%s", error.message)


def _was_never_written(layout: Layout, chat_id: int) -> bool:
    """Return True for a chat without a first line, so never acknowledged; ``OSError``."""
    journal = _stat_file(layout.get_journal_path(chat_id))
    empty = journal is None or (stat.S_ISREG(journal.st_mode) and journal.st_size == 0)
    return empty and _stat_file(layout.get_checkpoint_path(chat_id)) is None


def _was_purged(layout: Layout, chat_id: int) -> bool:
    """Return True for the rest of a deleted chat that was purged; ``OSError``.

    That is a checkpoint, which says that the chat was deleted, without a journal.
    """
    if _stat_file(layout.get_journal_path(chat_id)):
        return False
    found = checkpoint.read_without_journal(layout.get_checkpoint_path(chat_id), chat_id)
    return found is not None and bool(found.deleted_at)


def _stat_file(path: str) -> os.stat_result | None:
    """Return the status of a file; None where there is none. Other failures are raised."""
    try:
        return os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _set_aside(layout: Layout, chat_id: int) -> None:
    """Move a folder that holds no chat out of the way; a failure is reported, and harmless."""
    folder = layout.get_chat_folder(chat_id)
    aside = os.path.join(layout.trash, f"{chat_id}.unborn-{time.time_ns()}")
    try:
        if not os.listdir(folder):
            os.rmdir(folder)
            return
        make_folder(layout.trash)
        os.rename(folder, aside)
    except (AgentdError, OSError) as error:
        log.error("%s holds no chat, and stays where it is: %s", folder, error)
    else:
        log.warning("%s holds no chat (any more); it is now %s", folder, aside)
