"""Deleted chats: restorable for thirty days, then gone for ever.

A chat is deleted and restored by a record in its journal, so each happens at one moment, and its
files stay where they are until they are removed for ever.
"""

import asyncio
import logging
from collections.abc import Iterable
from datetime import timedelta
from typing import Protocol

from agentd.chats.commands import replace_labels
from agentd.chats.records import ChatChanged, ChatDeleted, ChatRestored
from agentd.chats.repository import ChatRepository
from agentd.chats.state import ChatSummary
from agentd.core.clock import Timestamp, format_iso, parse_iso
from agentd.core.errors import AgentdError, Conflict, NotFound

log = logging.getLogger(__name__)

RETENTION = timedelta(days=30)
"""The time for which a deleted chat can be restored."""
AT_ONCE = 50
"""Deleted chats that are changed at the same time."""


class TrashStore(Protocol):
    """The storage of deleted chats (``chats.trash_store.TrashFolder``)."""

    async def purge(self, chat_id: int, seq: int) -> None:
        """Remove one for ever, whose last record is ``seq``; ``Unavailable``."""
        ...


class Trash:
    """Deletes chats, and brings them back; one at a time."""

    def __init__(self, chats: ChatRepository, files: TrashStore) -> None:
        self._chats = chats
        self._files = files
        self._lock = asyncio.Lock()

    def list_deleted(self) -> "list[ChatSummary]":
        """List the chats that can be restored, the last deleted first."""
        return sorted(self._chats.deleted.values(), key=lambda chat: chat.deleted_at, reverse=True)

    async def delete(self, chat_id: int, by: str) -> Timestamp:
        """Move the chat to the trash; return until when it can be restored.

        Raises ``NotFound``, and ``Conflict`` while the agent works on it: it must be stopped
        first, so that no work is interrupted unasked.
        """
        async with self._lock:
            chat = await self._chats.open(chat_id)
            if chat.agent.turn:
                raise Conflict(
                    f"The agent is working on chat {chat_id}",
                    f"Stop it first: POST /api/chat/{chat_id}/stop",
                )
            await self._chats.record(chat, by, ChatDeleted())
            await self._chats.store.unload(chat)
        return get_restore_deadline(chat.deleted_at)

    async def restore(self, chat_id: int, by: str) -> ChatSummary:
        """Restore a deleted chat, with its queue as it was; ``NotFound``."""
        async with self._lock:
            if chat_id not in self._chats.deleted:
                raise NotFound(f"Chat {chat_id} is not in the trash")
            chat = await self._chats.store.open(chat_id)
            await self._chats.record(chat, by, ChatRestored())
        return self._chats.get_summary(chat_id)

    async def change_label(self, name: str, by: str, *, add: Iterable[str]) -> None:
        """Put other labels in the place of one; a chat that cannot be written keeps it.

        Chats that are restored meanwhile may keep it, too.
        """
        found = [one.id for one in self.list_deleted() if name in one.labels]
        for at in range(0, len(found), AT_ONCE):
            async with self._lock:  # others may come in between
                portion = [one for one in found[at : at + AT_ONCE] if one in self._chats.deleted]
                await asyncio.gather(*(self._relabel(one, name, by, add) for one in portion))

    async def _relabel(self, chat_id: int, name: str, by: str, add: Iterable[str]) -> None:
        try:
            chat = await self._chats.store.open(chat_id)
            labels = replace_labels(chat.labels, add, [name])
            await self._chats.record(chat, by, ChatChanged(labels=labels))
            await self._chats.store.unload(chat)
        except AgentdError as error:
            log.warning("chat %d keeps the label %r: %s", chat_id, name, error.message)

    async def delete_for_good(self, chat_id: int, by: str) -> None:
        """Remove a chat of the trash with all its files; ``NotFound``, ``Unavailable``."""
        async with self._lock:
            if chat_id not in self._chats.deleted:
                raise NotFound(f"Chat {chat_id} is not in the trash")
            await self._remove(chat_id)
            log.info("chat %d is deleted for good by %s", chat_id, by)

    async def purge(self, now: Timestamp) -> None:
        """Remove what was deleted more than thirty days ago; what fails is tried the next time.

        ``now`` is the time of a ``SettledClock``: nobody gets a chat back.
        """
        horizon = format_iso(parse_iso(now) - RETENTION)
        for chat in [one for one in self.list_deleted() if one.deleted_at < horizon]:
            async with self._lock:  # who deletes or restores a chat waits for one, not for all
                if self._chats.deleted.get(chat.id) is chat:
                    await self._purge_chat(chat)

    async def _purge_chat(self, chat: ChatSummary) -> None:
        try:
            await self._remove(chat.id)
        except AgentdError as error:
            log.warning("chat %d stays in the trash: %s", chat.id, error.message)
        else:
            log.info("chat %d, deleted %s, is gone for ever", chat.id, chat.deleted_at)

    async def _remove(self, chat_id: int) -> None:
        await self._files.purge(chat_id, self._chats.deleted[chat_id].seq)
        removed = self._chats.deleted.pop(chat_id)
        for listener in self._chats.on_removed:
            await listener(removed)


def get_restore_deadline(deleted_at: Timestamp) -> Timestamp:
    """Return when a chat that was deleted at that time is removed for ever."""
    return format_iso(parse_iso(deleted_at) + RETENTION)
