"""What was said in a chat, whole: in pages, and as a document to keep.

Source: the remote-control specification, section 4, 'Extended surface'; paths and bodies below
its prefixes are ours.
"""

from collections.abc import AsyncGenerator
from decimal import Decimal

from msgspec import Struct

from agentd.chats import export
from agentd.chats.chat import LARGEST_ID, Message, Role, Tokens
from agentd.chats.fold import Chat
from agentd.chats.history import History
from agentd.chats.service import ChatService
from agentd.clock import Timestamp
from agentd.errors import BadRequest
from agentd.web.agent import ChatSettingsView
from agentd.web.body import encoded
from agentd.web.call import Answer, Call
from agentd.web.chats import chat_row
from agentd.web.views import Id

PAGE, LARGEST_PAGE = 50, 200
"""Messages in a page, when nobody says how many, and at most."""


class WholeMessageView(Struct, frozen=True, rename="camel"):
    """A message with all of its text: what a tool was given and said, and a reply's buttons."""

    id: Id
    role: Role
    content: str
    tool: str
    created_at: Timestamp
    tokens: Tokens
    cost: Decimal


class HistoryView(Struct, frozen=True, rename="camel"):
    """Some messages, the oldest first, and whether there are more on either side."""

    chat_id: Id
    messages: list[WholeMessageView]
    earlier: bool
    later: bool


class Histories:
    """Pages and documents."""

    def __init__(self, chats: ChatService, history: History) -> None:
        self._chats = chats
        self._history = history

    async def page_messages(self, call: Call) -> Answer:
        """The last messages, or those before or after one."""
        before = call.number("before", 1, LARGEST_ID)
        after = call.number("after", 0, LARGEST_ID)
        limit = call.number("limit", 1, LARGEST_PAGE) or PAGE
        if before is not None and after is not None:
            raise BadRequest("before and after exclude each other")
        chat = await self._chats.get(call.id("chatId", "Chat"))
        if after is None:
            page = await self._history.before(chat, before, limit)
        else:
            page = await self._history.after(chat, after, limit)
        messages = [_view(message) for message in page.messages]
        return Answer(HistoryView(chat.id, messages, page.earlier, page.later))

    async def export_chat(self, call: Call) -> Answer:
        """The whole chat as a document, in portions."""
        form = call.query("format")
        form = "markdown" if form is None else form
        if form not in ("markdown", "json"):
            raise BadRequest("format must be markdown or json")
        chat = await self._chats.get(call.id("chatId", "Chat"))
        kind, ending = ("text/markdown", "md") if form == "markdown" else ("application/json", form)
        headers = {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Disposition": f'attachment; filename="chat-{chat.id}.{ending}"',
        }
        portions = self._markdown(chat) if form == "markdown" else self._json(chat)
        return Answer(headers=headers, portions=portions)

    async def _markdown(self, chat: Chat) -> AsyncGenerator[bytes, None]:
        yield export.head(chat).encode()
        async for portion in self._chats.messages(chat, ""):
            yield "".join(map(export.part, portion)).encode()

    async def _json(self, chat: Chat) -> AsyncGenerator[bytes, None]:
        row, settings = encoded(chat_row(chat.summary())), encoded(_settings(chat))
        before = b'{"chat":%b,"settings":%b,"messages":[' % (row, settings)
        async for portion in self._chats.messages(chat, ""):
            if portion:
                yield before + encoded([_view(message) for message in portion])[1:-1]
                before = b","
        yield before.removeprefix(b",") + b"]}"


def _view(message: Message) -> WholeMessageView:
    return WholeMessageView(
        id=message.id,
        role=message.role,
        content=message.text,
        tool=message.tool,
        created_at=message.at,
        tokens=message.tokens,
        cost=message.cost,
    )


def _settings(chat: Chat) -> ChatSettingsView:
    return ChatSettingsView(chat.model, chat.skill, chat.system_prompt, chat.agent.approvals)
