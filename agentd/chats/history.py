"""A chat's history in pages, both ways, wherever in it one begins.

The last messages are in memory; for older ones the journal is read from the nearest mark on.
"""

from bisect import bisect_left, bisect_right
from collections.abc import AsyncGenerator

from msgspec import Struct

from agentd.chats.chat import LARGEST_ID, Message
from agentd.chats.fold import MARK_EVERY, Chat
from agentd.chats.shelf import Shelf


class Messages(Struct, frozen=True):
    """Some messages of a chat, the oldest first, and whether there are more on either side."""

    messages: list[Message]
    earlier: bool
    later: bool


class History:
    """Reads pages; raises ``Unavailable`` where the journal turns out to be damaged."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    async def before(self, chat: Chat, message_id: int | None, limit: int) -> Messages:
        """The last messages before one that has, or would have, this id; None: the last of all."""
        edge = LARGEST_ID + 1 if message_id is None else message_id
        recent = chat.recent[: bisect_left(chat.recent, edge, key=_id)]
        if len(recent) < limit and len(chat.recent) < chat.messages:
            mark = chat.mark_before(edge) + 1 - -(-limit // MARK_EVERY) - 1
            recent = []
            async for message in self._from(chat, max(mark, 0)):
                if message.id >= edge:
                    break
                recent.append(message)
        return _page(chat, recent[-limit:], edge)

    async def after(self, chat: Chat, message_id: int, limit: int) -> Messages:
        """The first messages after the one that has, or would have, this id."""
        recent = chat.recent[bisect_right(chat.recent, message_id, key=_id) :]
        if len(recent) == len(chat.recent) < chat.messages:
            recent = []
            async for message in self._from(chat, max(chat.mark_before(message_id + 1), 0)):
                if len(recent) == limit:
                    break
                if message.id > message_id:
                    recent.append(message)
        return _page(chat, recent[:limit], message_id + 1)

    async def _from(self, chat: Chat, mark: int) -> AsyncGenerator[Message, None]:
        at = chat.marks[mark].offset if chat.marks else 0
        async for portion in self._shelf.store.history(chat, "", at):
            for message in portion:
                yield message


def _page(chat: Chat, messages: list[Message], edge: int) -> Messages:
    if not chat.marks:
        return Messages([], False, False)
    first = chat.marks[0].id
    if messages:
        return Messages(messages, messages[0].id > first, messages[-1].id < chat.highest_message)
    return Messages(messages, first < edge, edge <= chat.highest_message)


def _id(message: Message) -> int:
    return message.id
