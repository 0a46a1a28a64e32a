"""The chats as a service holds them: opened, recorded upon, and told.

Each change is one record in the chat's journal; once it is safe, the events of the change are
published, in the order of all changes.
"""

import asyncio
from bisect import bisect_left, insort
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from agentd.chats.chat import Message, Role
from agentd.chats.fold import Chat, Summary
from agentd.chats.records import Body, ChatRestored, Entry
from agentd.clock import Clock, Timestamp
from agentd.errors import NotFound, Unavailable
from agentd.events import Bus, told_by
from agentd.ids import Sequences

AGENT = "agent"
"""Who causes what happens during a turn."""


class ChatStore(Protocol):
    """Where chats are kept (``disk.chats.ChatFiles``)."""

    def create(self, chat_id: int) -> Chat:
        """A chat that exists once its first record is appended."""
        ...

    async def open(self, chat_id: int) -> Chat:
        """The state of a chat; ``NotFound`` or ``Unavailable``."""
        ...

    def at_hand(self, chat_id: int) -> Chat | None:
        """The state of a chat that is in memory and ``settled``; None: ``open`` it."""
        ...

    def append(
        self, chat: Chat, at: Timestamp, by: str, body: Body, told: Callable[[Entry], None]
    ) -> "asyncio.Future[None]":
        """Apply a record at once; the future is done when it is safe."""
        ...

    async def settled(self, chat: Chat) -> None:
        """Return when the state shows nothing that a crash could undo."""
        ...

    def history(
        self, chat: Chat, since: Timestamp, at: int | None = None
    ) -> AsyncIterator[list[Message]]:
        """Messages from a moment on, oldest first, in portions; from the byte ``at`` on."""
        ...

    async def forget(self, chat: Chat) -> None:
        """Let go of a chat that was deleted and is settled."""
        ...


class Shelf:
    """Every chat of the daemon, and the one way to change one."""

    def __init__(
        self,
        store: ChatStore,
        clock: Clock,
        sequences: Sequences,
        bus: Bus,
        known: dict[int, Summary],
    ) -> None:
        self.store = store
        self.clock = clock
        self.sequences = sequences
        self.bus = bus
        self.known = {one.id: one for one in known.values() if not one.deleted_at}
        self.deleted = {one.id: one for one in known.values() if one.deleted_at}
        """What is in the trash."""
        self.ids = sorted(self.known)
        """The ids of all that is known, the oldest first."""

    def summary(self, chat_id: int) -> Summary:
        """A chat at a glance, as it is on disk.

        Raises ``NotFound``, or ``Unavailable`` for a chat of which nothing could be read.
        """
        found = self.known.get(chat_id)
        if found is None:
            raise NotFound(f"Chat {chat_id} not found")
        if not found.created_at:
            raise Unavailable(f"Chat {chat_id} cannot be read", found.damage)
        return found

    async def open(self, chat_id: int) -> Chat:
        """The state of a chat, to be changed; raises as ``summary``."""
        self.summary(chat_id)
        chat = await self.store.open(chat_id)
        if chat.deleted_at:
            raise NotFound(f"Chat {chat_id} not found")
        if chat.damage and not self.known[chat_id].damage:
            self.known[chat_id] = chat.summary()
        return chat

    def moment(self, chat: Chat) -> Timestamp:
        """The time for the chat's next record."""
        return chat.moment(self.clock.now())

    def message(self, role: Role, text: str, at: Timestamp) -> Message:
        """A new message, not yet in any history."""
        return Message(self.sequences.next("message"), role, text, at)

    def record(self, chat: Chat, by: str, body: Body, at: Timestamp = "") -> "asyncio.Future[None]":
        """Apply and append; once the record is safe, what it changed is known and told.

        Nothing but its restoration follows in a chat that is deleted: ``NotFound``.
        """
        if chat.deleted_at and not isinstance(body, ChatRestored):
            raise NotFound(f"Chat {chat.id} not found")

        def told(entry: Entry) -> None:
            self._know(summary)
            for event in told_by(entry, chat.id, queue, summary):
                self.bus.publish(event)

        done = self.store.append(chat, at or self.moment(chat), by, body, told)
        queue, summary = chat.queue, chat.summary()
        return asyncio.shield(done)  # many wait for it: one who leaves must not cancel the rest

    def _know(self, chat: Summary) -> None:
        if chat.deleted_at:
            self.deleted[chat.id] = chat
            if self.known.pop(chat.id, None):
                del self.ids[bisect_left(self.ids, chat.id)]
            return
        self.deleted.pop(chat.id, None)
        if chat.id not in self.known:
            insort(self.ids, chat.id)
        self.known[chat.id] = chat
