"""The history of a chat: in pages, and as a document to download.

Source: the remote-control specification, section 4, 'Extended surface'; paths and bodies below
its prefixes are ours.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from decimal import Decimal
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agentd.chats.api import SEARCHED_BYTES, MatchView, SearchRun, make_chat_row
from agentd.chats.approval import ApprovalDecision
from agentd.chats.history import HistoryReader
from agentd.chats.model import Message, Role, Tokens, strip_buttons
from agentd.chats.requests import get_chat_id
from agentd.chats.service import ChatService
from agentd.chats.state import Chat
from agentd.chats.views import NAME_LIMIT, Id, make_chat_settings_view
from agentd.core.clock import Timestamp
from agentd.core.errors import BadRequest, NotFound, Unavailable
from agentd.core.ids import MAX_ID
from agentd.core.markdown import MAX_INLINE, render_markdown
from agentd.http.access import RouteGroup
from agentd.http.json_body import encode_json
from agentd.http.parameters import make_choice_parameter, make_integer_parameter
from agentd.http.request import Request, Response
from agentd.http.routing import Parameter, Route

PAGE, LARGEST_PAGE = 50, 200
"""Messages in a page: the default and the maximum."""
MOST_MATCHES = 500
"""Messages that one answer of a search has, about."""
_FENCE = re.compile("`{3,}")
_HEADS = {"user": "User", "assistant": "Assistant", "error": "Error"}


class ToolUseView(Struct, frozen=True):
    """A tool's use: its input and outcome, its duration and its diff."""

    input: str
    outcome: str
    ok: bool
    seconds: float
    """The duration; 0: unknown."""
    diff: str
    """The change in files, as a unified diff; empty: none, or unknown."""
    number: int
    """The number within its turn of a use that started a sub-agent; 0 for others."""
    parent: int
    """The number of the use that started the sub-agent whose tool this is; 0: the turn's own."""


class DecisionView(Struct, frozen=True):
    """What was decided about an action of the agent."""

    state: Literal["allowed", "denied", "expired", "withdrawn"]
    """``expired``: nobody answered in time, which counts as denied."""
    by: str
    """Who decided: ``user:anna``, ``key:laptop``, ``bot:team``; ``rule``: the settings,
    ``deadline``: nobody answered in time, ``agent``: it needed no answer any more."""
    note: str
    """Why, in the words of who decided, or which rule it was."""
    question: int
    """The id of the question's message, and of its approval; 0: nobody was asked."""
    session: bool
    """The answer holds for the same question in this chat."""


class WholeMessageView(Struct, frozen=True, rename="camel"):
    """A message with its whole text: a tool's input and outcome, a reply's buttons."""

    id: Id
    role: Role
    content: str
    tool: str
    created_at: Timestamp
    tokens: Tokens
    cost: Decimal
    tool_use: ToolUseView | None = None
    """The parts of a tool's use; null for other messages, and those of earlier versions."""
    decision: DecisionView | None = None
    """What was decided, for the tool ``decision``; null for other messages."""
    output: Any = None
    """The value of a reply that fits the output schema of its prompt; null for other messages."""
    html: str | None = None
    """The content as cleaned HTML; null for tools, and without ``html=1``."""
    html_cut: bool = False
    """True if the HTML has only the beginning, since the content is very long."""


class HistoryView(Struct, frozen=True, rename="camel"):
    """A page of messages, the oldest first, and whether there are more on either side."""

    chat_id: Id
    messages: list[WholeMessageView]
    earlier: bool
    later: bool


class FoundMessagesView(Struct, frozen=True, rename="camel"):
    """Messages that contain a text, the oldest first.

    One request reads a limited part of the chat: ``next`` is the ``place`` of the request that
    continues; null: the chat was searched to its end.
    """

    chat_id: Id
    matches: list[MatchView]
    next: int | None


class HistoryEndpoints:
    """Pages, what is found in them, and documents.

    ``search`` begins a search for a text that may read so many bytes.
    """

    def __init__(
        self,
        chats: ChatService,
        history: HistoryReader,
        search: Callable[[str, int], SearchRun],
    ) -> None:
        self._chats = chats
        self._history = history
        self._search = search

    async def page_messages(self, request: Request) -> Response:
        """Return the last messages, or those before or after one."""
        before = request.get_int("before", 1, MAX_ID)
        after = request.get_int("after", 0, MAX_ID)
        limit = request.get_int("limit", 1, LARGEST_PAGE) or PAGE
        if before is not None and after is not None:
            raise BadRequest("before and after exclude each other")
        chat = await self._chats.get(get_chat_id(request))
        if after is None:
            page = await self._history.read_before(chat, before, limit)
        else:
            page = await self._history.read_after(chat, after, limit)
        if request.get_query("html") not in (None, "1"):
            raise BadRequest("html must be 1, or absent")
        if request.get_query("html") is None:
            messages = [_make_view(message) for message in page.messages]
        elif sum(len(message.text) for message in page.messages) <= MAX_INLINE:
            messages = _render_messages(page.messages)
        else:
            messages = await asyncio.to_thread(_render_messages, page.messages)
        return Response(HistoryView(chat.id, messages, page.earlier, page.later))

    async def search_messages(self, request: Request) -> Response:
        """Return the messages that contain a text, in any case of letters."""
        text = (request.get_query("text") or "")[:NAME_LIMIT]
        if not text:
            raise BadRequest("text is empty", "Say what to look for.")
        place = request.get_int("place", 0, MAX_ID) or 0
        chat = await self._chats.get(get_chat_id(request))
        search = self._search(text, SEARCHED_BYTES)
        found, following = await asyncio.to_thread(
            search.list_matches, chat.id, place, MOST_MATCHES
        )
        matches = [MatchView(one.message, one.excerpt) for one in found]
        return Response(FoundMessagesView(chat.id, matches, following))

    async def export_chat(self, request: Request) -> Response:
        """Stream the whole chat as a document."""
        form = request.get_query("format")
        form = "markdown" if form is None else form
        if form not in ("markdown", "json"):
            raise BadRequest("format must be markdown or json")
        chat = await self._chats.get(get_chat_id(request))
        kind, ending = ("text/markdown", "md") if form == "markdown" else ("application/json", form)
        headers = {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Disposition": f'attachment; filename="chat-{chat.id}.{ending}"',
        }
        portions = self._stream_markdown(chat) if form == "markdown" else self._stream_json(chat)
        return Response(headers=headers, chunks=portions)

    async def _stream_markdown(self, chat: Chat) -> AsyncGenerator[bytes, None]:
        yield _render_header(chat).encode()
        async for portion in self._chats.read_messages(chat, ""):
            yield "".join(map(_render_message, portion)).encode()

    async def _stream_json(self, chat: Chat) -> AsyncGenerator[bytes, None]:
        row, settings = (
            encode_json(make_chat_row(chat.summarize())),
            encode_json(make_chat_settings_view(chat)),
        )
        before = b'{"chat":%b,"settings":%b,"messages":[' % (row, settings)
        async for portion in self._chats.read_messages(chat, ""):
            if portion:
                yield before + encode_json([_make_view(message) for message in portion])[1:-1]
                before = b","
        yield before.removeprefix(b",") + b"]}"


def _render_messages(messages: Sequence[Message]) -> list[WholeMessageView]:
    """Return the messages with their HTML: a person's line breaks are kept, a model's are not."""
    views = []
    for message in messages:
        view = _make_view(message)
        if message.role != "tool":
            shown = strip_buttons(message.text) if message.role == "assistant" else message.text
            rendered = render_markdown(shown, keep_breaks=message.role != "assistant")
            view = replace(view, html=rendered.html, html_cut=rendered.cut)
        views.append(view)
    return views


def _make_view(message: Message) -> WholeMessageView:
    return WholeMessageView(
        id=message.id,
        role=message.role,
        content=message.text,
        tool=message.tool,
        created_at=message.at,
        tokens=message.tokens,
        cost=message.cost,
        tool_use=_make_tool_use_view(message),
        decision=_make_decision_view(message.decision) if message.decision else None,
        output=msgspec.json.decode(message.text) if message.structured else None,
    )


def _make_decision_view(decided: ApprovalDecision) -> DecisionView:
    assert decided.state != "open"
    return DecisionView(decided.state, decided.by, decided.note, decided.question, decided.session)


def _make_tool_use_view(message: Message) -> ToolUseView | None:
    report = message.report
    if report is None:
        return None
    text, end = message.text, report.input_length
    return ToolUseView(
        text[:end],
        text[end:].strip(),
        report.ok,
        report.seconds,
        report.diff,
        report.number,
        report.parent,
    )


def _render_header(chat: Chat) -> str:
    """Render the title and the facts about the chat."""
    facts = [f"Chat {chat.id}", f"created {chat.created_at}", f"{chat.messages} messages"]
    facts += [f"model {chat.model}"] if chat.model else []
    facts += [f"skill {chat.skill}"] if chat.skill != "none" else []
    facts += [f"labels {', '.join(chat.labels)}"] if chat.labels else []
    facts += [f"cost {chat.cost} USD"] if chat.cost else []
    return f"# {' '.join(chat.title.split())}\n\n{' · '.join(facts)}\n"


def _render_message(message: Message) -> str:
    """Render a message. A tool's output is in a fence that nothing in it can close."""
    text = message.text.rstrip()
    name = _HEADS.get(message.role) or f"Tool: {message.tool}"
    if message.role == "tool":
        text = _render_fence(text)
    elif message.structured:
        text = _render_fence(text, "json")
    if message.report and message.report.diff:
        text += f"\n\n{_render_fence(message.report.diff.rstrip(), 'diff')}"
    facts = [name, message.at]
    used = message.tokens
    facts += [f"{used.input} tokens in, {used.output} out"] if used.input or used.output else []
    facts += [f"{message.cost} USD"] if message.cost else []
    return f"\n## {' · '.join(facts)}\n\n{text}\n"


def _render_fence(text: str, language: str = "") -> str:
    fence = "`" * (max(map(len, _FENCE.findall(text)), default=2) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


_GROUP = RouteGroup.EXTENDED
_PAGING = (
    make_integer_parameter("before", "Only messages before the one with this id.", 1, MAX_ID),
    make_integer_parameter("after", "Only messages after the one with this id.", 0, MAX_ID),
    make_integer_parameter("limit", "Maximum number of messages.", 1, LARGEST_PAGE),
    make_choice_parameter("html", "1 adds each message's content as cleaned HTML.", ("1",)),
)
_SEARCH = (
    Parameter("text", "query", "What to look for; it must not be empty.", {"type": "string"}),
    make_integer_parameter("place", "The value of next from the previous response.", 0, MAX_ID),
)
_FORMAT = make_choice_parameter("format", "The kind of document.", ("markdown", "json"))


def routes(histories: HistoryEndpoints) -> tuple[Route, ...]:
    """Return the routes of a chat's messages."""
    return (
        Route(
            "GET",
            "/api/chat/{chatId}/messages",
            _GROUP,
            histories.page_messages,
            "Whole messages in pages: the last ones, or those before or after one.",
            response_type=HistoryView,
            errors=(BadRequest, NotFound, Unavailable),
            parameters=_PAGING,
            section="4, extended surface",
        ),
        Route(
            "GET",
            "/api/chat/{chatId}/search",
            _GROUP,
            histories.search_messages,
            "Find the messages of a chat that contain a text, ignoring case.",
            response_type=FoundMessagesView,
            errors=(BadRequest, NotFound, Unavailable),
            parameters=_SEARCH,
            section="4, extended surface",
        ),
        Route(
            "GET",
            "/api/chats/{chatId}/export",
            _GROUP,
            histories.export_chat,
            "A chat as a document in Markdown or JSON.",
            extra_media_types=("text/markdown", "application/json"),
            errors=(BadRequest, NotFound, Unavailable),
            parameters=(_FORMAT,),
        ),
    )
