"""A chat's history in pages, both ways, wherever in it one begins.

The last messages are in memory; for older ones the journal is read from the nearest mark on.
"""

from bisect import bisect_left, bisect_right
from collections.abc import AsyncGenerator

from msgspec import Struct

from agentd.chats.model import Message
from agentd.chats.repository import ChatRepository
from agentd.chats.state import INDEX_EVERY, Chat
from agentd.core.ids import MAX_ID


class HistoryPage(Struct, frozen=True):
    """A page of a chat's messages, the oldest first, and whether there are more on either side."""

    messages: list[Message]
    earlier: bool
    later: bool


class HistoryReader:
    """Reads pages; raises ``Unavailable`` where the journal turns out to be damaged."""

    def __init__(self, chats: ChatRepository) -> None:
        self._chats = chats

    async def read_before(self, chat: Chat, message_id: int | None, limit: int) -> HistoryPage:
        """Return the last messages before this id; None: the last of all."""
        edge = MAX_ID + 1 if message_id is None else message_id
        recent = chat.recent[: bisect_left(chat.recent, edge, key=_get_id)]
        if len(recent) < limit and len(chat.recent) < chat.messages:
            mark = chat.find_index_entry_before(edge) + 1 - -(-limit // INDEX_EVERY) - 1
            recent = []
            async for message in self._read_from(chat, max(mark, 0)):
                if message.id >= edge:
                    break
                recent.append(message)
        return _make_page(chat, recent[-limit:], edge)

    async def read_after(self, chat: Chat, message_id: int, limit: int) -> HistoryPage:
        """Return the first messages after this id."""
        recent = chat.recent[bisect_right(chat.recent, message_id, key=_get_id) :]
        if len(recent) == len(chat.recent) < chat.messages:
            recent = []
            async for message in self._read_from(
                chat, max(chat.find_index_entry_before(message_id + 1), 0)
            ):
                if len(recent) == limit:
                    break
                if message.id > message_id:
                    recent.append(message)
        return _make_page(chat, recent[:limit], message_id + 1)

    async def _read_from(self, chat: Chat, mark: int) -> AsyncGenerator[Message, None]:
        at = chat.marks[mark].offset if chat.marks else 0
        async for portion in self._chats.store.read_history(chat, "", at):
            for message in portion:
                yield message


def _make_page(chat: Chat, messages: list[Message], edge: int) -> HistoryPage:
    if not chat.marks:
        return HistoryPage([], False, False)
    first = chat.marks[0].id
    if messages:
        return HistoryPage(messages, messages[0].id > first, messages[-1].id < chat.highest_message)
    return HistoryPage(messages, first < edge, edge <= chat.highest_message)


def _get_id(message: Message) -> int:
    return message.id
