"""The repository of chats: opens them, records changes, and publishes events.

Each change is one record in the chat's journal; once it is safe, the events of the change are
published, in the order of all changes.
"""

import asyncio
from bisect import bisect_left, insort
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

from agentd.chats.events import derive_events
from agentd.chats.model import Message, Role
from agentd.chats.records import ChatChanged, ChatRestored, JournalEntry, RecordBody
from agentd.chats.state import Chat, ChatSummary
from agentd.core.clock import Clock, Timestamp
from agentd.core.errors import NotFound, Unavailable
from agentd.core.events import EventBus
from agentd.core.ids import Sequences

AGENT = "agent"
"""The author of records during a turn."""


class ChatStore(Protocol):
    """The storage of chats (``chats.store.ChatFiles``)."""

    def create(self, chat_id: int) -> Chat:
        """Return a new chat, which exists once its first record is appended."""
        ...

    async def open(self, chat_id: int) -> Chat:
        """Return the state of a chat; ``NotFound`` or ``Unavailable``."""
        ...

    def get_cached(self, chat_id: int) -> Chat | None:
        """Return a chat that is in memory and durable; None: ``open`` it."""
        ...

    def append(
        self,
        chat: Chat,
        at: Timestamp,
        by: str,
        body: RecordBody,
        on_durable: Callable[[JournalEntry], None],
    ) -> "asyncio.Future[None]":
        """Apply a record at once; the future is done when it is safe."""
        ...

    async def wait_durable(self, chat: Chat) -> None:
        """Return when the state shows nothing that a crash could undo."""
        ...

    def read_history(
        self, chat: Chat, since: Timestamp, at: int | None = None
    ) -> AsyncIterator[list[Message]]:
        """Read messages from a moment on, oldest first, in portions; from the byte ``at`` on."""
        ...

    async def unload(self, chat: Chat) -> None:
        """Let go of a chat that was deleted and is settled."""
        ...


class ChatRepository:
    """Every chat of the daemon, and the one way to change one."""

    def __init__(
        self,
        store: ChatStore,
        clock: Clock,
        sequences: Sequences,
        bus: EventBus,
        summaries: dict[int, ChatSummary],
    ) -> None:
        self.store = store
        self.clock = clock
        self.sequences = sequences
        self.bus = bus
        self.summaries = {one.id: one for one in summaries.values() if not one.deleted_at}
        self.deleted = {one.id: one for one in summaries.values() if one.deleted_at}
        """The chats in the trash."""
        self.on_removed: list[Callable[[ChatSummary], Awaitable[None]]] = []
        """Called with a chat that was removed for ever."""
        self.ids = sorted(self.summaries)
        """The ids of all that is known, the oldest first."""

    def get_summary(self, chat_id: int) -> ChatSummary:
        """Return the summary of a chat, as it is on disk.

        Raises ``NotFound``, or ``Unavailable`` for a chat of which nothing could be read.
        """
        found = self.summaries.get(chat_id)
        if found is None:
            raise NotFound(f"Chat {chat_id} not found")
        if not found.created_at:
            raise Unavailable(f"Chat {chat_id} cannot be read", found.damage)
        return found

    async def open(self, chat_id: int) -> Chat:
        """Return the state of a chat, to be changed; raises as ``get_summary``."""
        self.get_summary(chat_id)
        chat = await self.store.open(chat_id)
        if chat.deleted_at:
            raise NotFound(f"Chat {chat_id} not found")
        if chat.damage and not self.summaries[chat_id].damage:
            self.summaries[chat_id] = chat.summarize()
        return chat

    def get_next_timestamp(self, chat: Chat) -> Timestamp:
        """Return the time for the chat's next record."""
        return chat.get_next_timestamp(self.clock.now())

    def make_message(self, role: Role, text: str, at: Timestamp) -> Message:
        """Create a message that is not yet in any history."""
        return Message(self.sequences.next("message"), role, text, at)

    def record(
        self, chat: Chat, by: str, body: RecordBody, at: Timestamp = ""
    ) -> "asyncio.Future[None]":
        """Apply and append; once the record is durable, the change is applied and published.

        In a chat that is deleted, only changes of its labels and its restoration follow: else
        ``NotFound``.
        """
        if chat.deleted_at and not _may_follow_deletion(body):
            raise NotFound(f"Chat {chat.id} not found")

        def publish_events(entry: JournalEntry) -> None:
            self._remember_summary(summary)
            for event in derive_events(entry, chat.id, queue, summary):
                self.bus.publish(event)

        done = self.store.append(
            chat, at or self.get_next_timestamp(chat), by, body, publish_events
        )
        queue, summary = chat.queue, chat.summarize()
        return done

    def _remember_summary(self, chat: ChatSummary) -> None:
        if chat.deleted_at:
            self.deleted[chat.id] = chat
            if self.summaries.pop(chat.id, None):
                del self.ids[bisect_left(self.ids, chat.id)]
            return
        self.deleted.pop(chat.id, None)
        if chat.id not in self.summaries:
            insort(self.ids, chat.id)
        self.summaries[chat.id] = chat


def _may_follow_deletion(body: RecordBody) -> bool:
    is_relabelling = isinstance(body, ChatChanged) and body == ChatChanged(labels=body.labels)
    return is_relabelling or isinstance(body, ChatRestored)
