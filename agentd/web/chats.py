"""The endpoints below ``/api/chats``: the list of chats, and each chat as a whole.

Source: the remote-control specification, section 4, 'Extended surface'; paths and bodies below
its prefix are ours.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from typing import Annotated, Protocol, get_args

from msgspec import Meta, Struct, structs

from agentd.catalog.labels import LabelName
from agentd.chats.chat import LARGEST_ID, Message, Status
from agentd.chats.editing import Editing, check_copied
from agentd.chats.fold import State, Summary
from agentd.chats.labelling import Labelling
from agentd.chats.listing import Filter
from agentd.chats.records import ChatChanged
from agentd.chats.service import ChatService
from agentd.chats.trash import Trash, restorable_until
from agentd.clock import Timestamp
from agentd.errors import BadRequest
from agentd.web.call import Answer, Call
from agentd.web.views import NAME_LIMIT, Id

PAGE, LARGEST_PAGE = 50, 200
"""Chats in a page, when nobody says how many, and at most."""
SEARCHED_BYTES = 64 * 2**20
"""Of journals that one request reads to find a text: some tenths of a second."""
SEARCHED_AT_ONCE = 20
"""Chats that are looked through in one go of a thread."""

Title = Annotated[str, Meta(min_length=1, max_length=NAME_LIMIT, pattern=r"\S")]


class ChatRow(Struct, frozen=True, rename="camel"):
    """A chat as lists show it; ``state`` also tells ``created`` and ``error``."""

    chat_id: Id
    status: Status
    state: State
    title: str
    labels: tuple[str, ...]
    created_at: Timestamp
    updated_at: Timestamp
    message_count: int
    total_cost: Decimal
    waiting: int
    """Prompts in its queue, paused ones included."""
    held: str
    waits_until: Timestamp | None
    asking: int
    damage: str
    """Why it is read-only; empty when it is sound."""


class MatchView(Struct, frozen=True, rename="camel"):
    """Where a text was found in a chat: its last message that has it, and words around it."""

    message_id: Id
    excerpt: str


class ListedChat(ChatRow, frozen=True, rename="camel", kw_only=True):
    """A chat of the list; ``match`` is null where nothing was looked for, or the title has it."""

    match: MatchView | None


class ChatsView(Struct, frozen=True):
    """A page of chats, the newest first; ``next`` is the ``before`` of the page that follows."""

    chats: list[ListedChat]
    next: Id | None


class RenameChat(Struct, frozen=True):
    """Another title."""

    title: Title


class DuplicateChat(Struct, frozen=True):
    """How a copy differs: in its title, and by beginning without the history."""

    title: Title | None = None
    history: bool = True


class SetLabels(Struct, frozen=True):
    """These and no others."""

    labels: list[LabelName]


class DeletedView(Struct, frozen=True, rename="camel"):
    """The chat is in the trash."""

    chat_id: Id
    restorable_until: Timestamp


class TrashedRow(Struct, frozen=True, rename="camel"):
    """A chat in the trash."""

    chat: ChatRow
    deleted_at: Timestamp
    restorable_until: Timestamp


class TrashView(Struct, frozen=True):
    """What can be restored, the last deleted first."""

    chats: list[TrashedRow]


class Found(Protocol):
    """What was found in a chat (``disk.chat_search.MessageMatch``)."""

    @property
    def message(self) -> int:
        """The id of the message."""
        ...

    @property
    def excerpt(self) -> str:
        """What stands around it."""
        ...


class Searching(Protocol):
    """One search (``disk.chat_search.MessageSearch``). Its methods block."""

    @property
    def exhausted(self) -> bool:
        """Whether it has read as much as it may."""
        ...

    def find(self, chat_id: int) -> Found | None:
        """The last message of a chat that has the words."""
        ...


class Chats:
    """The list of chats, and what is done with one as a whole.

    ``search`` begins a search for some words that may read so many bytes.
    """

    def __init__(
        self,
        chats: ChatService,
        editing: Editing,
        labelling: Labelling,
        trash: Trash,
        search: Callable[[str, int], Searching],
    ) -> None:
        self._search = search
        self._chats = chats
        self._editing = editing
        self._labelling = labelling
        self._trash = trash

    def list_chats(self, call: Call) -> Answer | Awaitable[Answer]:
        """A page of the list, the newest first."""
        wanted = Filter(
            label=call.query("label") or "",
            status=_one_of(call, "status", get_args(Status)),
            state=_one_of(call, "state", get_args(State)),
        )
        before = call.number("before", 1, LARGEST_ID)
        limit = call.number("limit", 1, LARGEST_PAGE) or PAGE
        if text := (call.query("text") or "")[:NAME_LIMIT]:
            return self._search_chats(text, wanted, before, limit)
        page = self._chats.page(wanted, before, limit)
        return Answer(ChatsView([_list_row(chat) for chat in page.chats], page.next))

    async def _search_chats(
        self, text: str, wanted: Filter, before: int | None, limit: int
    ) -> Answer:
        """Look for a text in titles and messages until the page is full, or enough was read.

        Then ``next`` tells where to go on, also where the page is not full, or empty.
        """
        search = self._search(text, SEARCHED_BYTES)
        rows: list[ListedChat] = []
        following: int | None = before
        while len(rows) < limit and not search.exhausted:
            page = self._chats.page(wanted, following, SEARCHED_AT_ONCE)
            found, following = await asyncio.to_thread(
                _find_in, page.chats, text.casefold(), search, limit - len(rows), page.next
            )
            rows += found
            if following is None:
                break
        return Answer(ChatsView(rows, following))

    def one_chat(self, call: Call) -> Answer:
        """One chat as the list has it."""
        return Answer(chat_row(self._chats.summary(call.id("chatId", "Chat"))))

    async def rename_chat(self, call: Call) -> Answer:
        """Another title."""
        wish = call.json(RenameChat)
        chat_id = call.id("chatId", "Chat")
        await self._chats.change(chat_id, ChatChanged(title=wish.title.strip()), call.caller.by)
        return Answer(chat_row(self._chats.summary(chat_id)))

    async def label_chat(self, call: Call) -> Answer:
        """These labels and no others."""
        wish = call.json(SetLabels)
        chat_id = call.id("chatId", "Chat")
        await self._labelling.set(chat_id, wish.labels, call.caller.by)
        return Answer(chat_row(self._chats.summary(chat_id)))

    async def duplicate_chat(self, call: Call) -> Answer:
        """Another chat with the same settings and, unless it is not wanted, the same history."""
        wish = call.json(DuplicateChat)
        chat = await self._chats.get(call.id("chatId", "Chat"))
        history: list[Message] = []
        if wish.history:
            check_copied(chat)
            async for portion in self._chats.messages(chat, ""):
                history += portion
        title = (wish.title or f"{chat.title[: NAME_LIMIT - 7]} (copy)").strip()
        copy = await self._editing.duplicate(chat, history, title, call.caller.by)
        return Answer(chat_row(self._chats.summary(copy.id)), 201)

    async def delete_chat(self, call: Call) -> Answer:
        """Into the trash."""
        chat_id = call.id("chatId", "Chat")
        until = await self._trash.delete(chat_id, call.caller.by)
        return Answer(DeletedView(chat_id, until))

    def list_trash(self, _: Call) -> Answer:
        """What can be restored."""
        rows = [
            TrashedRow(chat_row(chat), chat.deleted_at, restorable_until(chat.deleted_at))
            for chat in self._trash.list()
        ]
        return Answer(TrashView(rows))

    async def restore_chat(self, call: Call) -> Answer:
        """Out of the trash."""
        chat = await self._trash.restore(call.id("chatId", "Chat"), call.caller.by)
        return Answer(chat_row(chat))


def _find_in(
    chats: Sequence[Summary], text: str, search: Searching, most: int, after: int | None
) -> tuple[list[ListedChat], int | None]:
    """The first chats that have the text, and where to go on: ``after`` if all were looked at."""
    rows: list[ListedChat] = []
    for chat in chats:
        if text in chat.title.casefold():
            rows.append(_list_row(chat))
        elif match := search.find(chat.id):
            rows.append(_list_row(chat, MatchView(match.message, match.excerpt)))
        if (len(rows) == most or search.exhausted) and chat is not chats[-1]:
            return rows, chat.id
    return rows, after


def _list_row(chat: Summary, match: MatchView | None = None) -> ListedChat:
    return ListedChat(**structs.asdict(chat_row(chat)), match=match)


def chat_row(chat: Summary) -> ChatRow:
    """A chat as lists show it."""
    return ChatRow(
        chat_id=chat.id,
        status=chat.status,
        state=chat.state,
        title=chat.title,
        labels=chat.labels,
        created_at=chat.created_at,
        updated_at=chat.updated_at,
        message_count=chat.messages,
        total_cost=chat.cost,
        waiting=chat.waiting,
        held=chat.held,
        waits_until=chat.waits_until or None,
        asking=chat.asking,
        damage=chat.damage,
    )


def _one_of(call: Call, name: str, known: tuple[str, ...]) -> str:
    text = call.query(name) or ""
    if text and text not in known:
        raise BadRequest(f"{name} must be one of {', '.join(known)}")
    return text
