"""Deleted chats: restorable for thirty days, then gone for ever.

A chat is deleted and restored by a record in its journal, so each happens at one moment, and its
files stay where they are until they are removed for ever.
"""

import asyncio
import logging
from datetime import timedelta
from typing import Protocol

from agentd.chats.fold import Summary
from agentd.chats.records import ChatDeleted, ChatRestored
from agentd.chats.shelf import Shelf
from agentd.clock import Timestamp, iso, parse_iso
from agentd.errors import AgentdError, Conflict, NotFound

log = logging.getLogger(__name__)

KEPT_FOR = timedelta(days=30)
"""How long a deleted chat can be restored."""


class Bin(Protocol):
    """Where the files of deleted chats are (``disk.trash.TrashFolder``)."""

    async def purge(self, chat_id: int) -> None:
        """Remove them for ever; ``Unavailable``."""
        ...


class Trash:
    """Deletes chats, and brings them back; one at a time."""

    def __init__(self, shelf: Shelf, files: Bin) -> None:
        self._shelf = shelf
        self._files = files
        self._lock = asyncio.Lock()

    def list(self) -> "list[Summary]":
        """What can be restored, the last deleted first."""
        return sorted(self._shelf.deleted.values(), key=lambda chat: chat.deleted_at, reverse=True)

    async def delete(self, chat_id: int, by: str) -> Timestamp:
        """From now on there is no such chat; until when it can be restored.

        Raises ``NotFound``, and ``Conflict`` while the agent works on it: it must be stopped
        first, so that nobody's work is cut off unasked.
        """
        async with self._lock:
            chat = await self._shelf.open(chat_id)
            if chat.agent.turn:
                raise Conflict(
                    f"Chat {chat_id} is at work",
                    f"Stop it first: POST /api/chat/{chat_id}/stop",
                )
            await self._shelf.record(chat, by, ChatDeleted())
            await self._shelf.store.forget(chat)
        return restorable_until(chat.deleted_at)

    async def restore(self, chat_id: int, by: str) -> Summary:
        """A deleted chat is there again, with its queue held as it was; ``NotFound``."""
        async with self._lock:
            if chat_id not in self._shelf.deleted:
                raise NotFound(f"Chat {chat_id} is not in the trash")
            chat = await self._shelf.store.open(chat_id)
            await self._shelf.record(chat, by, ChatRestored())
        return self._shelf.summary(chat_id)

    async def purge(self) -> None:
        """Remove what was deleted more than thirty days ago; what fails is tried the next time."""
        horizon = iso(parse_iso(self._shelf.clock.now()) - KEPT_FOR)
        async with self._lock:
            for chat in [one for one in self.list() if one.deleted_at < horizon]:
                try:
                    await self._files.purge(chat.id)
                except AgentdError as error:
                    log.warning("chat %d stays in the trash: %s", chat.id, error.message)
                else:
                    del self._shelf.deleted[chat.id]
                    log.info("chat %d, deleted %s, is gone for ever", chat.id, chat.deleted_at)


def restorable_until(deleted_at: Timestamp) -> Timestamp:
    """When a chat that was deleted then is removed for ever."""
    return iso(parse_iso(deleted_at) + KEPT_FOR)
