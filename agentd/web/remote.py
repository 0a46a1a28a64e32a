"""The nine endpoints of ``/api/remote``: shapes and calls; the rules live in ``chats``.

Source: the remote-control specification, sections 2 to 4.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import Annotated, Protocol

from msgspec import Meta, Struct

from agentd.catalog.bots import Bots
from agentd.chats.chat import LARGEST_ID, PROMPT_LIMIT, Message
from agentd.chats.queue import Queue, Wanted, check_wanted, checked_text
from agentd.chats.service import DEFAULT_TITLE, ChatService, NewChat
from agentd.clock import Timestamp, not_before, parse_iso
from agentd.errors import BadRequest, PreconditionFailed
from agentd.web.body import encoded
from agentd.web.bot_views import BotView, bot_view
from agentd.web.call import Answer, Call
from agentd.web.views import (
    NAME_LIMIT,
    Id,
    MessageView,
    Name,
    PromptView,
    message_view,
    prompt_view,
    status_view,
)

WAIT_LIMIT = 60.0
"""The longest that a status may wait, in seconds."""
PromptId = Annotated[int, Meta(ge=0, le=LARGEST_ID)]
Text = Annotated[
    str,
    Meta(  # only described here: ``checked_text`` rules it, and says which element is wrong
        extra_json_schema={
            "minLength": 1,
            "maxLength": PROMPT_LIMIT,
            "pattern": r"^[^\u0000]*[^\s\u0000][^\u0000]*$",
        }
    ),
]


class CreateChat(Struct, frozen=True, rename="camel"):
    """Request of endpoint 1; every field may be absent."""

    prompt: Text | None = None
    title: Name | None = None
    model: Name | None = None
    skill: Name | None = None
    system_prompt: str | None = None
    bot_id: str | None = None
    """Of any length: linking can never prevent the chat (specification, section 2)."""


class ChatCreatedView(Struct, frozen=True, rename="camel"):
    """Answer of endpoint 1."""

    chat_id: Id
    url: str
    status: str
    created_at: Timestamp
    bot_linked: bool | None
    bot_link_note: str


class MessagesView(Struct, frozen=True, rename="camel"):
    """Answer of endpoint 3."""

    chat_id: Id
    messages: list[MessageView]
    since: str | None


class QueueView(Struct, frozen=True, rename="camel"):
    """Answer of endpoints 4 and 8."""

    chat_id: Id
    prompts: list[PromptView]


class AppendPrompt(Struct, frozen=True):
    """Request of endpoint 5."""

    prompt: Text
    model: Name | None = None


class RewritePrompt(Struct, frozen=True):
    """Request of endpoint 6."""

    prompt: Text


class WantedPrompt(Struct, frozen=True, rename="camel"):
    """One element of a replacement; without ``id``, or with 0, it is a new prompt."""

    prompt: Text
    id: PromptId | None = None
    is_paused: bool | None = None


class ReplaceQueue(Struct, frozen=True):
    """Request of endpoint 8: these become the whole queue."""

    prompts: list[WantedPrompt]


class BotsView(Struct, frozen=True):
    """Answer of endpoint 9."""

    bots: list[BotView]


class Skills(Protocol):
    """Which skills there are."""

    async def known(self, name: str) -> bool:
        """True when a chat can be given this skill."""
        ...


class Remote:
    """The remote-control endpoints; ``get_bots`` gives the bots as they are at the call."""

    def __init__(
        self, chats: ChatService, get_bots: Callable[[], Awaitable[Bots]], skills: Skills
    ) -> None:
        self._chats = chats
        self._get_bots = get_bots
        self._skills = skills

    async def create_chat(self, call: Call) -> Answer:
        """Endpoint 1: a chat, and its first prompt in the queue."""
        wish = call.json(CreateChat)
        if wish.prompt is not None:
            checked_text(wish.prompt)
        skill = wish.skill or "none"
        if not await self._skills.known(skill):
            raise BadRequest(f"No skill is named {skill[:100]!r}")
        bot_id = (wish.bot_id or "")[:NAME_LIMIT]
        linked, note = (await self._get_bots()).link(bot_id)
        new = NewChat(
            prompt=wish.prompt,
            title=(wish.title or "").strip() or DEFAULT_TITLE,
            model=wish.model or "",
            skill=skill,
            system_prompt=wish.system_prompt or "",
            bot_id=bot_id,
            bot_linked=linked,
            bot_note=note,
            once=call.once(),
        )
        chat = await self._chats.create(new, call.caller.by)
        view = ChatCreatedView(
            chat_id=chat.id,
            url=f"/{chat.id}",
            status="created" if wish.prompt is None else "queued",
            created_at=chat.created_at,
            bot_linked=chat.bot_linked,
            bot_link_note=chat.bot_note,
        )
        return Answer(view, 201)

    def status(self, call: Call) -> "Answer | Awaitable[Answer]":
        """Endpoint 2; with ``?wait=SECONDS`` the answer comes when the chat is at rest."""
        wait = call.query("wait")
        seconds = None if wait is None else _seconds(wait)
        chat_id = call.id("chatId", "Chat")
        summary = self._chats.summary(chat_id)
        if seconds is None:
            return Answer(status_view(summary))
        return self._status_at_rest(chat_id, seconds)

    # What is in memory is answered at once: a task of its own would cost more than the answer.

    def messages(self, call: Call) -> "Answer | Awaitable[Answer]":
        """Endpoint 3: the history, or what came since a moment."""
        chat_id = call.id("chatId", "Chat")
        since = call.query("since")
        moment = _moment(since)
        echoed = since if moment else None
        chat = self._chats.at_hand(chat_id)
        recent = chat.since(moment) if chat else None
        if recent is None:
            return self._messages_from_disk(chat_id, moment, echoed)
        return _recent(chat_id, recent, echoed)

    def queue(self, call: Call) -> "Answer | Awaitable[Answer]":
        """Endpoint 4: the prompts that wait, in dispatch order."""
        chat_id = call.id("chatId", "Chat")
        chat = self._chats.at_hand(chat_id)
        if chat is None:
            return self._queue_from_disk(chat_id)
        return queue_answer(chat_id, chat.queue, chat.queue_version)

    async def append(self, call: Call) -> Answer:
        """Endpoint 5: one more prompt at the end."""
        wish, once = call.json(AppendPrompt), call.once()
        checked_text(wish.prompt)
        chat_id = call.id("chatId", "Chat")
        prompt = await self._chats.append(
            chat_id, wish.prompt, wish.model or "", call.caller.by, once
        )
        return Answer(prompt_view(prompt), 201)

    async def rewrite(self, call: Call) -> Answer:
        """Endpoint 6: another text for a prompt that waits."""
        wish = call.json(RewritePrompt)
        checked_text(wish.prompt)
        chat_id, prompt_id = call.id("chatId", "Chat"), call.id("promptId", "Prompt")
        prompt = await self._chats.rewrite(chat_id, prompt_id, wish.prompt, call.caller.by)
        return Answer(prompt_view(prompt))

    async def remove(self, call: Call) -> Answer:
        """Endpoint 7: one prompt less."""
        chat_id, prompt_id = call.id("chatId", "Chat"), call.id("promptId", "Prompt")
        await self._chats.remove(chat_id, prompt_id, call.caller.by)
        return Answer(status=204)

    async def replace(self, call: Call) -> Answer:
        """Endpoint 8: another queue."""
        wish = call.json(ReplaceQueue)
        wanted = [Wanted(one.prompt, one.id or 0, one.is_paused) for one in wish.prompts]
        check_wanted(wanted)
        chat_id = call.id("chatId", "Chat")
        version = _version(call.headers.get("If-Match"))
        queue, version = await self._chats.replace(chat_id, wanted, call.caller.by, version)
        return queue_answer(chat_id, queue, version)

    async def bots(self, call: Call) -> Answer:
        """Endpoint 9: the configured bots."""
        bots = await self._get_bots()
        return Answer(BotsView([bot_view(bot) for bot in bots.list()]))

    async def _messages_from_disk(
        self, chat_id: int, moment: Timestamp, echoed: str | None
    ) -> Answer:
        chat = await self._chats.get(chat_id)
        recent = chat.since(moment)
        if recent is not None:
            return _recent(chat_id, recent, echoed)
        portions = self._chats.messages(chat, moment)
        return Answer(portions=_streamed(chat_id, portions, echoed))

    async def _queue_from_disk(self, chat_id: int) -> Answer:
        chat = await self._chats.get(chat_id)
        return queue_answer(chat_id, chat.queue, chat.queue_version)

    async def _status_at_rest(self, chat_id: int, seconds: float) -> Answer:
        return Answer(status_view(await self._chats.rest(chat_id, seconds)))


def _recent(chat_id: int, messages: Sequence[Message], since: str | None) -> Answer:
    return Answer(MessagesView(chat_id, _messages(messages), since))


def _messages(messages: Sequence[Message]) -> list[MessageView]:
    return [message_view(message) for message in messages]


async def _streamed(
    chat_id: int, portions: AsyncIterator[Sequence[Message]], since: str | None
) -> AsyncGenerator[bytes, None]:
    """A ``MessagesView`` in portions: a long history never stands in memory as a whole."""
    before = b'{"chatId":%d,"messages":[' % chat_id
    async for portion in portions:
        yield before + encoded(_messages(portion))[1:-1]
        before = b","
    yield before.removeprefix(b",") + b'],"since":%b}' % encoded(since)


def queue_answer(chat_id: int, queue: Queue, version: int) -> Answer:
    """A queue as endpoint 4 answers it, with its version as ``ETag``."""
    view = QueueView(chat_id, [prompt_view(prompt) for prompt in queue])
    return Answer(view, headers={"ETag": f'"{version}"'})


def _moment(since: str | None) -> Timestamp:
    """The moment of ``since``; empty, which is before everything, when it is none (rule 2)."""
    try:
        return not_before(parse_iso(since)) if since else ""
    except ValueError:
        return ""


def _seconds(text: str) -> float:
    number = re.fullmatch(r"-?[0-9]{1,3}(\.[0-9]{1,20})?(e-?[0-9]{1,3})?", text)
    if not number or not 0 <= float(text) <= WAIT_LIMIT:
        raise BadRequest(f"wait must be a number of seconds from 0 to {WAIT_LIMIT:.0f}")
    return float(text)


def _version(if_match: str | None) -> int | None:
    """The queue's version that the caller believes in; None when any will do."""
    if if_match is None or if_match.strip() == "*":
        return None
    tag = re.fullmatch(r'\s*"([0-9]{1,16})"\s*', if_match)
    if not tag:
        raise PreconditionFailed("If-Match is no ETag of this queue", "Read the queue anew.")
    return int(tag[1])
