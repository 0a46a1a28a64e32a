"""The endpoints below ``/api/chats``: the list of chats, and each chat as a whole.

Source: the remote-control specification, section 4, 'Extended surface'; paths and bodies below
its prefix are ours.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from typing import Annotated, Protocol, get_args

from msgspec import Meta, Struct, structs

from agentd.chats.commands import ChatCommands, require_copyable
from agentd.chats.labels.model import LabelName
from agentd.chats.labels.service import LabelService
from agentd.chats.listing import ChatFilter
from agentd.chats.model import Message, Status
from agentd.chats.records import ChatChanged
from agentd.chats.requests import get_chat_id
from agentd.chats.service import ChatService
from agentd.chats.state import ChatState, ChatSummary
from agentd.chats.trash import Trash, get_restore_deadline
from agentd.chats.views import NAME_LIMIT, Id
from agentd.chats.worktree import WorktreeBase
from agentd.core.clock import Timestamp
from agentd.core.errors import BadRequest, Conflict, Forbidden, NotFound, TooLarge, Unavailable
from agentd.core.folding import fold_text
from agentd.core.ids import MAX_ID
from agentd.http.access import RouteGroup
from agentd.http.parameters import make_choice_parameter, make_integer_parameter
from agentd.http.request import Request, Response
from agentd.http.routing import Parameter, Route

PAGE, LARGEST_PAGE = 50, 200
"""Chats in a page: the default and the maximum."""
SEARCHED_BYTES = 64 * 2**20
"""The bytes of journals that one request searches: some tenths of a second."""
SEARCHED_AT_ONCE = 20
"""Chats that are looked through in one go of a thread."""

Title = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=NAME_LIMIT,
        pattern=r"\S",
        extra={"form": "a text with more than blanks"},
    ),
]


class ChatRow(Struct, frozen=True, rename="camel"):
    """A chat as lists show it; ``state`` can also be ``created`` and ``error``."""

    chat_id: Id
    status: Status
    state: ChatState
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
    problem: str
    """Why it is read-only; empty when its journal is intact."""


class MatchView(Struct, frozen=True, rename="camel"):
    """A match in a chat: its last message with the text, and the words around it."""

    message_id: Id
    excerpt: str


class ListedChat(ChatRow, frozen=True, rename="camel", kw_only=True):
    """A chat of the list; ``match`` is null without a search, or if the title matches."""

    match: MatchView | None


class ChatsView(Struct, frozen=True):
    """A page of chats, the newest first; ``next`` is the ``before`` of the next page."""

    chats: list[ListedChat]
    next: Id | None


class RenameChat(Struct, frozen=True):
    """Rename a chat."""

    title: Title


class DuplicateChat(Struct, frozen=True):
    """The changes for a copy: another title, or no history."""

    title: Title | None = None
    history: bool = True


class SetLabels(Struct, frozen=True):
    """The chat's labels, replacing the old ones."""

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
    """List the chats that can be restored, the last deleted first."""

    chats: list[TrashedRow]


class FoundMessage(Protocol):
    """A match in a chat (``chats.search.MessageMatch``)."""

    @property
    def message(self) -> int:
        """The id of the message."""
        ...

    @property
    def excerpt(self) -> str:
        """The text around the match."""
        ...


class SearchRun(Protocol):
    """A search (``chats.search.MessageSearch``). Its methods block."""

    @property
    def exhausted(self) -> bool:
        """True if it has read as much as it may."""
        ...

    def find(self, chat_id: int) -> FoundMessage | None:
        """Return the last message of a chat that contains the text."""
        ...

    def list_matches(
        self, chat_id: int, place: int, most: int
    ) -> tuple[Sequence[FoundMessage], int | None]:
        """List the messages of a chat that contain it, and where to go on."""
        ...


class WorktreeRemover(Protocol):
    """The work trees of chats (``workspace.worktrees.service.WorktreeService``)."""

    async def drop(self, chat_id: int, by: str, *, force: bool) -> object:
        """Remove a chat's work tree, if it has one; ``Conflict`` if work would be lost."""
        ...

    async def plan_copy(self, chat_id: int) -> WorktreeBase | None:
        """Return what the work tree of a chat's duplicate begins with; None: it has none."""
        ...


class ChatEndpoints:
    """The list of chats, and what is done with one as a whole.

    ``search`` begins a search for some words that may read so many bytes.
    """

    def __init__(
        self,
        chats: ChatService,
        editing: ChatCommands,
        labelling: LabelService,
        trash: Trash,
        search: Callable[[str, int], SearchRun],
        worktrees: WorktreeRemover,
    ) -> None:
        self._worktrees = worktrees
        self._search = search
        self._chats = chats
        self._editing = editing
        self._labelling = labelling
        self._trash = trash

    def list_chats(self, request: Request) -> Response | Awaitable[Response]:
        """Return a page of chats, newest first."""
        wanted = ChatFilter(
            label=request.get_query("label") or "",
            status=_parse_choice(request, "status", get_args(Status)),
            state=_parse_choice(request, "state", get_args(ChatState)),
        )
        before = request.get_int("before", 1, MAX_ID)
        limit = request.get_int("limit", 1, LARGEST_PAGE) or PAGE
        if text := (request.get_query("text") or "")[:NAME_LIMIT]:
            return self._search_chats(text, wanted, before, limit)
        page = self._chats.list_page(wanted, before, limit)
        return Response(ChatsView([_list_row(chat) for chat in page.chats], page.next))

    async def _search_chats(
        self, text: str, wanted: ChatFilter, before: int | None, limit: int
    ) -> Response:
        """Look for a text in titles and messages until the page is full, or enough was read.

        Then ``next`` is the cursor of the next page, even if this page is not full, or empty.
        """
        search = self._search(text, SEARCHED_BYTES)
        rows: list[ListedChat] = []
        following: int | None = before
        while len(rows) < limit and not search.exhausted:
            page = self._chats.list_page(wanted, following, SEARCHED_AT_ONCE)
            found, following = await asyncio.to_thread(
                _search_page, page.chats, fold_text(text), search, limit - len(rows), page.next
            )
            rows += found
            if following is None:
                break
        return Response(ChatsView(rows, following))

    def get_chat(self, request: Request) -> Response:
        """Return a chat as the list has it."""
        return Response(make_chat_row(self._chats.get_summary(get_chat_id(request))))

    async def rename_chat(self, request: Request) -> Response:
        """Rename a chat."""
        body = request.parse_json(RenameChat)
        chat_id = get_chat_id(request)
        await self._chats.change_chat(
            chat_id, ChatChanged(title=body.title.strip()), request.caller.identity
        )
        return Response(make_chat_row(self._chats.get_summary(chat_id)))

    async def label_chat(self, request: Request) -> Response:
        """Replace the labels of a chat."""
        body = request.parse_json(SetLabels)
        chat_id = get_chat_id(request)
        await self._labelling.set_labels(chat_id, body.labels, request.caller.identity)
        return Response(make_chat_row(self._chats.get_summary(chat_id)))

    async def duplicate_chat(self, request: Request) -> Response:
        """Create a chat with the same settings and, unless it is not wanted, the same history."""
        body = request.parse_json(DuplicateChat)
        chat = await self._chats.get(get_chat_id(request))
        history: list[Message] = []
        if body.history:
            require_copyable(chat)
            async for portion in self._chats.read_messages(chat, ""):
                history += portion
        title = (body.title or f"{chat.title[: NAME_LIMIT - 7]} (copy)").strip()
        base = await self._worktrees.plan_copy(chat.id)
        copy = await self._editing.duplicate_chat(
            chat, history, title, request.caller.identity, worktree=base
        )
        return Response(make_chat_row(self._chats.get_summary(copy.id)), 201)

    async def delete_chat(self, request: Request) -> Response:
        """Move a chat to the trash, and drop its work tree."""
        chat_id = get_chat_id(request)
        force = request.get_optional_flag("force") or False
        await self._worktrees.drop(chat_id, request.caller.identity, force=force)
        until = await self._trash.delete(chat_id, request.caller.identity)
        return Response(DeletedView(chat_id, until))

    def list_trash(self, _: Request) -> Response:
        """List the chats that can be restored."""
        rows = [
            TrashedRow(make_chat_row(chat), chat.deleted_at, get_restore_deadline(chat.deleted_at))
            for chat in self._trash.list_deleted()
        ]
        return Response(TrashView(rows))

    async def restore_chat(self, request: Request) -> Response:
        """Restore a chat from the trash."""
        chat = await self._trash.restore(get_chat_id(request), request.caller.identity)
        return Response(make_chat_row(chat))

    async def delete_trashed_chat(self, request: Request) -> Response:
        """Delete a chat of the trash for good."""
        chat_id = get_chat_id(request)
        await self._trash.delete_for_good(chat_id, request.caller.identity)
        return Response(status=204)


def _search_page(
    chats: Sequence[ChatSummary], text: str, search: SearchRun, most: int, after: int | None
) -> tuple[list[ListedChat], int | None]:
    """Return the first matches and where to continue: ``after`` if all were searched."""
    rows: list[ListedChat] = []
    for chat in chats:
        if text in fold_text(chat.title):
            rows.append(_list_row(chat))
        elif match := search.find(chat.id):
            rows.append(_list_row(chat, MatchView(match.message, match.excerpt)))
        if (len(rows) == most or search.exhausted) and chat is not chats[-1]:
            return rows, chat.id
    return rows, after


def _list_row(chat: ChatSummary, match: MatchView | None = None) -> ListedChat:
    return ListedChat(**structs.asdict(make_chat_row(chat)), match=match)


def make_chat_row(chat: ChatSummary) -> ChatRow:
    """Return a chat as lists show it."""
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
        problem=chat.damage,
    )


def _parse_choice(request: Request, name: str, known: tuple[str, ...]) -> str:
    text = request.get_query(name) or ""
    if text and text not in known:
        raise BadRequest(f"{name} must be one of {', '.join(known)}")
    return text


_GROUP = RouteGroup.EXTENDED
_SECTION = "4, extended surface"
_CHAT = "/api/chats/{chatId}"
_FORCE = make_choice_parameter(
    "force",
    "true: also if work in its work tree is lost, which is not committed or not merged.",
    ("true", "false"),
)
_FILTERS = (
    Parameter("label", "query", "Only chats with this label.", {"type": "string"}),
    make_choice_parameter("status", "Only chats of this status.", get_args(Status)),
    make_choice_parameter("state", "Only chats of this state.", get_args(ChatState)),
    Parameter(
        "text",
        "query",
        "Only chats with this in their title or a message, in any case.",
        {"type": "string"},
    ),
    make_integer_parameter("before", "The value of next from the previous page.", 1, MAX_ID),
    make_integer_parameter("limit", "Maximum number of chats.", 1, LARGEST_PAGE),
)


def routes(chats: ChatEndpoints) -> tuple[Route, ...]:
    """Return the routes of the chats beyond the remote API."""
    return (*_list_routes(chats), *_list_command_routes(chats))


def _list_routes(chats: ChatEndpoints) -> tuple[Route, ...]:
    return (
        Route(
            "GET",
            "/api/chats",
            _GROUP,
            chats.list_chats,
            "The chats, the newest first, in pages.",
            response_type=ChatsView,
            errors=(BadRequest,),
            parameters=_FILTERS,
            section=_SECTION,
        ),
        Route(
            "GET",
            _CHAT,
            _GROUP,
            chats.get_chat,
            "One chat, as in the list.",
            operation_id="get_chat",
            response_type=ChatRow,
            errors=(NotFound, Unavailable),
            section=_SECTION,
        ),
        Route(
            "PUT",
            _CHAT,
            _GROUP,
            chats.rename_chat,
            "Rename a chat.",
            request_type=RenameChat,
            response_type=ChatRow,
            errors=(BadRequest, NotFound, Unavailable),
        ),
        Route(
            "PUT",
            f"{_CHAT}/labels",
            _GROUP,
            chats.label_chat,
            "Replace a chat's labels.",
            request_type=SetLabels,
            response_type=ChatRow,
            errors=(BadRequest, NotFound, Unavailable),
        ),
    )


def _list_command_routes(chats: ChatEndpoints) -> tuple[Route, ...]:
    return (
        Route(
            "POST",
            f"{_CHAT}/duplicate",
            _GROUP,
            chats.duplicate_chat,
            "Duplicate a chat with its settings, its history and the commits of its work tree.",
            request_type=DuplicateChat,
            response_type=ChatRow,
            status=201,
            errors=(BadRequest, NotFound, TooLarge, Unavailable),
        ),
        Route(
            "DELETE",
            _CHAT,
            _GROUP,
            chats.delete_chat,
            "Move a chat to the trash; a running turn must be stopped first. Its work tree is"
            " dropped, which is refused if work would be lost.",
            response_type=DeletedView,
            errors=(BadRequest, NotFound, Conflict, Forbidden, Unavailable),
            parameters=(_FORCE,),
        ),
        Route(
            "GET",
            "/api/chats/trash",
            _GROUP,
            chats.list_trash,
            "The chats that can be restored, the last deleted first.",
            response_type=TrashView,
        ),
        Route(
            "DELETE",
            "/api/chats/trash/{chatId}",
            _GROUP,
            chats.delete_trashed_chat,
            "Delete a chat of the trash for good, with its history and its queue.",
            status=204,
            errors=(NotFound, Unavailable),
        ),
        Route(
            "POST",
            f"{_CHAT}/restore",
            _GROUP,
            chats.restore_chat,
            "Restore a chat from the trash.",
            response_type=ChatRow,
            errors=(NotFound, Unavailable),
        ),
    )
