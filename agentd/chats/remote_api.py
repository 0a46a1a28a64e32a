"""The nine endpoints of ``/api/remote``: shapes and calls; the rules live in ``chats``.

Source: the remote-control specification, sections 2 to 4.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import Annotated, Any, Protocol

from msgspec import Meta, Struct

from agentd.chats.model import MAX_PROMPT_BYTES, Message, Prompt
from agentd.chats.queue import (
    Queue,
    QueueItem,
    parse_not_before,
    validate_queue,
    validate_text,
)
from agentd.chats.requests import get_chat_id, get_prompt_id, get_queue_version
from agentd.chats.service import DEFAULT_TITLE, ChatService, NewChat
from agentd.chats.views import (
    NAME_LIMIT,
    Id,
    MessageView,
    Name,
    PromptView,
    StatusView,
    make_message_view,
    make_prompt_view,
    make_status_view,
)
from agentd.chats.worktree import WorktreePlanner
from agentd.core.clock import Timestamp, format_iso_rounded_up, parse_iso
from agentd.core.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    NotFound,
    PreconditionFailed,
    Unavailable,
)
from agentd.core.ids import MAX_ID
from agentd.core.lru_cache import LruCache
from agentd.http.access import Caller, RouteGroup
from agentd.http.json_body import encode_json
from agentd.http.parameters import (
    ETAG,
    IDEMPOTENCY_KEY,
    IF_MATCH,
    SINCE,
    WAIT,
    WAIT_LIMIT,
)
from agentd.http.request import Request, Response
from agentd.http.routing import Route
from agentd.llm.output_schema import parse_output_schema

QUEUE_PORTION = 256 * 1024
"""Bytes of a queue that are encoded at once, and characters up to which one is short."""
MAX_ENCODED, MAX_ENCODED_BYTES = 4096, 2 * 1024 * 1024
"""Messages whose JSON is kept, and bytes of it."""

PromptId = Annotated[int, Meta(ge=0, le=MAX_ID)]
Text = Annotated[
    str,
    Meta(  # only described here: ``validate_text`` rules it, and says which element is wrong
        extra_json_schema={
            "minLength": 1,
            "maxLength": MAX_PROMPT_BYTES,
            "pattern": r"^[^\u0000]*[^\s\u0000][^\u0000]*$",
        }
    ),
]


NotBefore = Annotated[
    str,
    Meta(  # only described here: ``parse_not_before`` rules it
        extra_json_schema={
            "maxLength": 100,
            "pattern": "^([12][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"
            "T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
            "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9]))?$",
        },
        description="A time in ISO 8601 with its offset, such as 2026-11-24T09:00:00+01:00.",
    ),
]


class CreateChat(Struct, frozen=True, rename="camel"):
    """A chat to create; every field may be absent."""

    prompt: Text | None = None
    not_before: NotBefore | None = None
    """The prompt is not sent before this time."""
    output_schema: dict[str, Any] | None = None
    """The JSON Schema of an object: the reply to the prompt is JSON that fits it."""
    title: Name | None = None
    model: Name | None = None
    skill: Name | None = None
    system_prompt: str | None = None
    bot_id: str | None = None
    """Of any length: an unusable id never prevents the chat."""
    worktree: bool | None = None
    """Give it a git work tree and branch of its own, from the workspace's current commit."""
    mode: Name | None = None
    """The mode of its engine's program (``program.modes`` of a model), such as ``plan``."""


class ChatCreatedView(Struct, frozen=True, rename="camel"):
    """The created chat."""

    chat_id: Id
    url: str
    status: str
    created_at: Timestamp
    bot_linked: bool | None
    bot_link_note: str


class MessagesView(Struct, frozen=True, rename="camel"):
    """Messages of a chat, the oldest first."""

    chat_id: Id
    messages: list[MessageView]
    since: str | None


class QueueView(Struct, frozen=True, rename="camel"):
    """The waiting prompts of a chat, in dispatch order."""

    chat_id: Id
    prompts: list[PromptView]


class AppendPrompt(Struct, frozen=True, rename="camel"):
    """A prompt to append to the queue."""

    prompt: Text
    model: Name | None = None
    not_before: NotBefore | None = None
    """It is not sent before this time; those behind it do not wait for it."""
    output_schema: dict[str, Any] | None = None
    """The JSON Schema of an object: the reply is JSON that fits it."""
    is_paused: bool | None = None
    """True: it waits in the queue until it is resumed. Null is false."""


class RewritePrompt(Struct, frozen=True):
    """The new text of a waiting prompt."""

    prompt: Text


class ReplacementPrompt(Struct, frozen=True, rename="camel"):
    """An element of a replacement; without ``id``, or with 0, it is a new prompt."""

    prompt: Text
    id: PromptId | None = None
    is_paused: bool | None = None
    not_before: NotBefore | None = None
    """It is not sent before this time; absent or null: as it was; empty: no time any more."""


class ReplaceQueue(Struct, frozen=True):
    """The prompts that become the whole queue."""

    prompts: list[ReplacementPrompt]


class BotLinks(Protocol):
    """The bots that a chat can be linked to, as they are now."""

    def link(self, bot_id: str | None) -> tuple[bool | None, str]:
        """Return ``botLinked`` and ``botLinkNote``; nothing here can prevent the chat."""
        ...


class KnownSkills(Protocol):
    """The known skills."""

    async def is_known(self, name: str) -> bool:
        """Return True when a chat can use this skill."""
        ...


class ModelAbilities(Protocol):
    """Knows which models can be held to an output schema, and the modes of their programs."""

    def check_schema_support(self, model: str) -> None:
        """Raise ``BadRequest`` if this model's engine has no output schemas; empty: the default."""
        ...

    def check_mode(self, model: str, mode: str, caller: Caller) -> None:
        """Raise ``Conflict`` if the program has no such mode, or ``Forbidden``."""
        ...


class RemoteEndpoints:
    """The remote-control endpoints; ``get_bots`` gives the bots as they are at the request."""

    def __init__(
        self,
        chats: ChatService,
        get_bots: Callable[[], Awaitable[BotLinks]],
        skills: KnownSkills,
        worktrees: WorktreePlanner,
        abilities: ModelAbilities,
    ) -> None:
        self._chats = chats
        self._abilities = abilities
        self._worktrees = worktrees
        self._get_bots = get_bots
        self._skills = skills
        self._encoded_messages = LruCache[tuple[int, int], bytes](MAX_ENCODED, MAX_ENCODED_BYTES)
        """Messages of chats as JSON, by the ids of both; a message never changes."""

    async def create_chat(self, request: Request) -> Response:
        """Create a chat with its first prompt in the queue (endpoint 1)."""
        body = request.parse_json(CreateChat)
        if body.prompt is not None:
            validate_text(body.prompt)
        skill = body.skill or "none"
        if not await self._skills.is_known(skill):
            raise BadRequest(f"No skill is named {skill[:100]!r}")
        bot_id = (body.bot_id or "")[:NAME_LIMIT]
        schema = await self._parse_schema(body.output_schema, body.model or "")
        if body.mode:
            self._abilities.check_mode(body.model or "", body.mode, request.caller)
        linked, note = (await self._get_bots()).link(bot_id)
        new = NewChat(
            prompt=body.prompt,
            not_before=parse_not_before(body.not_before) or "",
            output_schema=schema,
            title=(body.title or "").strip() or DEFAULT_TITLE,
            model=body.model or "",
            skill=skill,
            system_prompt=body.system_prompt or "",
            bot_id=bot_id,
            bot_linked=linked,
            bot_note=note,
            mode=body.mode or "",
            once=request.get_idempotency_key(),
            worktree=await self._worktrees.plan() if body.worktree else None,
        )
        chat = await self._chats.create(new, request.caller.identity)
        view = ChatCreatedView(
            chat_id=chat.id,
            url=f"/{chat.id}",
            status="created" if body.prompt is None else "queued",
            created_at=chat.created_at,
            bot_linked=chat.bot_linked,
            bot_link_note=chat.bot_note,
        )
        return Response(view, 201)

    def get_status(self, request: Request) -> "Response | Awaitable[Response]":
        """Return the status (endpoint 2); ``?wait=SECONDS`` waits until the chat is idle."""
        wait = request.get_query("wait")
        seconds = None if wait is None else _parse_wait(wait)
        chat_id = get_chat_id(request)
        summary = self._chats.get_summary(chat_id)
        if seconds is None:
            return Response(make_status_view(summary))
        return self._wait_for_status(chat_id, seconds)

    # What is in memory is answered at once: a task of its own would cost more than the answer.

    def list_messages(self, request: Request) -> "Response | Awaitable[Response]":
        """List the history, or what came since a moment (endpoint 3)."""
        chat_id = get_chat_id(request)
        since = request.get_query("since")
        moment = _parse_since(since)
        echoed = since if moment else None
        chat = self._chats.get_cached(chat_id)
        recent = chat.get_messages_since(moment) if chat else None
        if recent is None:
            return self._read_messages_from_disk(chat_id, moment, echoed)
        return self._make_messages_response(chat_id, recent, echoed)

    def _make_messages_response(
        self, chat_id: int, messages: Sequence[Message], since: str | None
    ) -> Response:
        """Return a ``MessagesView`` of encoded messages: pollers ask for the same ones again."""
        known = self._encoded_messages.get_all((chat_id, message.id) for message in messages)
        encoded = [
            self._encode_message(chat_id, message) if view is None else view
            for view, message in zip(known, messages, strict=True)
        ]
        return Response(
            b'{"chatId":%d,"messages":[%b],"since":%b}'
            % (chat_id, b",".join(encoded), encode_json(since))
        )

    def _encode_message(self, chat_id: int, message: Message) -> bytes:
        view = encode_json(make_message_view(message))
        self._encoded_messages.put((chat_id, message.id), view, len(view))
        return view

    def list_queue(self, request: Request) -> "Response | Awaitable[Response]":
        """List the waiting prompts in dispatch order (endpoint 4)."""
        chat_id = get_chat_id(request)
        chat = self._chats.get_cached(chat_id)
        if chat is None:
            return self._read_queue_from_disk(chat_id)
        return make_queue_response(chat_id, chat.queue, chat.queue_version)

    async def append_prompt(self, request: Request) -> Response:
        """Append a prompt (endpoint 5)."""
        body, once = request.parse_json(AppendPrompt), request.get_idempotency_key()
        validate_text(body.prompt)
        chat_id = get_chat_id(request)
        later = parse_not_before(body.not_before) or ""
        schema = ""
        if body.output_schema is not None:
            chat = await self._chats.get(chat_id)
            schema = await self._parse_schema(body.output_schema, body.model or chat.model)
        prompt = await self._chats.append_prompt(
            chat_id,
            body.prompt,
            body.model or "",
            request.caller.identity,
            once,
            later,
            output_schema=schema,
            paused=bool(body.is_paused),
        )
        return Response(make_prompt_view(prompt), 201)

    async def _parse_schema(self, schema: dict[str, object] | None, model: str) -> str:
        """Return an output schema as JSON, once it is known to be one that the model can follow."""
        if schema is None:
            return ""
        self._abilities.check_schema_support(model)
        return await asyncio.to_thread(parse_output_schema, schema)

    async def rewrite_prompt(self, request: Request) -> Response:
        """Replace the text of a waiting prompt (endpoint 6)."""
        body = request.parse_json(RewritePrompt)
        validate_text(body.prompt)
        chat_id, prompt_id = get_chat_id(request), get_prompt_id(request)
        prompt = await self._chats.rewrite_prompt(
            chat_id, prompt_id, body.prompt, request.caller.identity
        )
        return Response(make_prompt_view(prompt))

    async def delete_prompt(self, request: Request) -> Response:
        """Delete a waiting prompt (endpoint 7)."""
        chat_id, prompt_id = get_chat_id(request), get_prompt_id(request)
        await self._chats.remove_prompt(chat_id, prompt_id, request.caller.identity)
        return Response(status=204)

    async def replace_queue(self, request: Request) -> Response:
        """Replace the queue (endpoint 8)."""
        body = request.parse_json(ReplaceQueue)
        wanted = [
            QueueItem(
                one.prompt,
                one.id or 0,
                one.is_paused,
                parse_not_before(one.not_before, f"prompts[{index}].notBefore"),
            )
            for index, one in enumerate(body.prompts)
        ]
        validate_queue(wanted)
        chat_id = get_chat_id(request)
        version = get_queue_version(request)
        queue, version = await self._chats.replace_queue(
            chat_id, wanted, request.caller.identity, version
        )
        return make_queue_response(chat_id, queue, version)

    async def _read_messages_from_disk(
        self, chat_id: int, moment: Timestamp, echoed: str | None
    ) -> Response:
        chat = await self._chats.get(chat_id)
        recent = chat.get_messages_since(moment)
        if recent is not None:
            return self._make_messages_response(chat_id, recent, echoed)
        portions = self._chats.read_messages(chat, moment)
        return Response(chunks=_stream_messages(chat_id, portions, echoed))

    async def _read_queue_from_disk(self, chat_id: int) -> Response:
        chat = await self._chats.get(chat_id)
        return make_queue_response(chat_id, chat.queue, chat.queue_version)

    async def _wait_for_status(self, chat_id: int, seconds: float) -> Response:
        return Response(make_status_view(await self._chats.wait_until_idle(chat_id, seconds)))


async def _stream_messages(
    chat_id: int, portions: AsyncIterator[Sequence[Message]], since: str | None
) -> AsyncGenerator[bytes, None]:
    """Stream a ``MessagesView``, so that a long history is never in memory as a whole."""
    before = b'{"chatId":%d,"messages":[' % chat_id
    async for portion in portions:
        yield before + encode_json([make_message_view(message) for message in portion])[1:-1]
        before = b","
    yield before.removeprefix(b",") + b'],"since":%b}' % encode_json(since)


def make_queue_response(chat_id: int, queue: Queue, version: int) -> Response:
    """Return a queue as endpoint 4 does, with its version as ``ETag``.

    A long one is streamed: to encode it in one step would keep all other requests waiting.
    """
    headers = {"ETag": f'"{version}"'}
    if sum(_count_characters(prompt) for prompt in queue) > QUEUE_PORTION:
        return Response(chunks=_stream_queue(chat_id, queue), headers=headers)
    view = QueueView(chat_id, [make_prompt_view(prompt) for prompt in queue])
    return Response(view, headers=headers)


async def _stream_queue(chat_id: int, queue: Queue) -> AsyncGenerator[bytes, None]:
    """Stream a ``QueueView`` in portions."""
    before, size = b'{"chatId":%d,"prompts":[' % chat_id, 0
    portion: list[bytes] = []
    for prompt in queue:
        portion.append(encode_json(make_prompt_view(prompt)))
        size += len(portion[-1])
        if size > QUEUE_PORTION:
            yield before + b",".join(portion)
            before, size, portion = b",", 0, []
            await asyncio.sleep(0)  # a client that reads as fast as this writes is not waited for
    yield (before if portion else b"") + b",".join(portion) + b"]}"


def _count_characters(prompt: Prompt) -> int:
    return len(prompt.text) + len(prompt.output_schema)


def _parse_since(since: str | None) -> Timestamp:
    """Parse ``since``; empty, before everything, when it is not a time (rule 2)."""
    try:
        return format_iso_rounded_up(parse_iso(since)) if since else ""
    except ValueError:
        return ""


def _parse_wait(text: str) -> float:
    number = re.fullmatch(r"-?[0-9]{1,3}(\.[0-9]{1,20})?(e-?[0-9]{1,3})?", text)
    if not number or not 0 <= float(text) <= WAIT_LIMIT:
        raise BadRequest(f"wait must be a number of seconds from 0 to {WAIT_LIMIT:.0f}")
    return float(text)


CHAT = "/api/remote/chats/{chatId}"


def routes(remote: RemoteEndpoints) -> tuple[Route, ...]:
    """Return the routes of chats and their queues: endpoints 1 to 8."""
    return (
        *_list_chat_routes(remote),
        *_list_queue_routes(remote),
        *_list_prompt_routes(remote),
    )


def _list_chat_routes(remote: RemoteEndpoints) -> tuple[Route, ...]:
    return (
        Route(
            "POST",
            "/api/remote/chats",
            RouteGroup.REMOTE,
            remote.create_chat,
            "Create a chat; its prompt, if any, is queued and processed automatically.",
            request_type=CreateChat,
            response_type=ChatCreatedView,
            status=201,
            errors=(BadRequest, Forbidden, Conflict),
            parameters=(IDEMPOTENCY_KEY,),
            section="4, E1",
        ),
        Route(
            "GET",
            f"{CHAT}/status",
            RouteGroup.REMOTE,
            remote.get_status,
            "A chat's status: processing, queued or completed.",
            operation_id="get_status",
            response_type=StatusView,
            errors=(BadRequest, NotFound),
            parameters=(WAIT,),
            section="4, E2",
        ),
        Route(
            "GET",
            f"{CHAT}/messages",
            RouteGroup.REMOTE,
            remote.list_messages,
            "The messages of a chat, all or since a moment.",
            operation_id="list_messages",
            response_type=MessagesView,
            errors=(NotFound,),
            parameters=(SINCE,),
            section="4, E3",
        ),
    )


def _list_queue_routes(remote: RemoteEndpoints) -> tuple[Route, ...]:
    return (
        Route(
            "GET",
            f"{CHAT}/queue",
            RouteGroup.REMOTE,
            remote.list_queue,
            "The waiting prompts in dispatch order, including paused ones.",
            operation_id="list_queue",
            response_type=QueueView,
            response_headers=ETAG,
            errors=(NotFound,),
            section="4, E4",
        ),
        Route(
            "POST",
            f"{CHAT}/queue",
            RouteGroup.REMOTE,
            remote.append_prompt,
            "Append a prompt to the queue.",
            operation_id="append_prompt",
            request_type=AppendPrompt,
            response_type=PromptView,
            status=201,
            errors=(BadRequest, NotFound, Conflict),
            parameters=(IDEMPOTENCY_KEY,),
            section="4, E5",
        ),
        Route(
            "PUT",
            f"{CHAT}/queue",
            RouteGroup.REMOTE,
            remote.replace_queue,
            "Replace the whole queue; the array's order becomes the dispatch order.",
            operation_id="replace_queue",
            request_type=ReplaceQueue,
            response_type=QueueView,
            response_headers=ETAG,
            errors=(BadRequest, NotFound, PreconditionFailed),
            parameters=(IF_MATCH,),
            section="4, E8",
        ),
    )


def _list_prompt_routes(remote: RemoteEndpoints) -> tuple[Route, ...]:
    return (
        Route(
            "PUT",
            f"{CHAT}/queue/{{promptId}}",
            RouteGroup.REMOTE,
            remote.rewrite_prompt,
            "Change the text of a waiting prompt.",
            operation_id="rewrite_prompt",
            request_type=RewritePrompt,
            response_type=PromptView,
            errors=(BadRequest, NotFound),
            section="4, E6",
        ),
        Route(
            "DELETE",
            f"{CHAT}/queue/{{promptId}}",
            RouteGroup.REMOTE,
            remote.delete_prompt,
            "Delete a waiting prompt.",
            operation_id="delete_prompt",
            status=204,
            errors=(NotFound,),
            section="4, E7",
        ),
    )


def build_creation_route(remote: RemoteEndpoints) -> Route:
    """Return endpoint 1 for callers that are signed in rather than hold a key."""
    return Route(
        "POST",
        "/api/chats",
        RouteGroup.EXTENDED,
        remote.create_chat,
        "Create a chat; a prompt in it is queued at once.",
        request_type=CreateChat,
        response_type=ChatCreatedView,
        status=201,
        errors=(BadRequest, Forbidden, Conflict, Unavailable),
        parameters=(IDEMPOTENCY_KEY,),
        section="4, extended surface",
    )
