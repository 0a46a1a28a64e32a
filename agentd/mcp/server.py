"""Carries out what requests ask for."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import TypeAlias

from msgspec import Raw, Struct

from agentd.chats.listing import ChatFilter
from agentd.chats.service import ChatService
from agentd.core.errors import AgentdError, NotFound
from agentd.core.redaction import scrub
from agentd.http.json_body import encode_json
from agentd.http.request import Request
from agentd.mcp.messages import (
    INVALID_PARAMS,
    JsonObject,
    McpError,
    MessageId,
    make_notification,
)
from agentd.mcp.protocol import (
    Action,
    CallTool,
    Immediate,
    Listen,
    ListResources,
    ListTemplates,
    ListTools,
    ReadResource,
    SubscribeResource,
    UnsubscribeResource,
)
from agentd.mcp.questions import Decision, find_answers
from agentd.mcp.resources import MIME, PATHS, TEMPLATES, describe_chat, make_not_found, parse_uri
from agentd.mcp.revisions import META_SUBSCRIPTION, ClientProfile, complete_result
from agentd.mcp.route_caller import RouteCaller
from agentd.mcp.sessions import McpSession
from agentd.mcp.streams import KEEP_ALIVE_SECONDS, StreamSignal
from agentd.mcp.subscriptions import (
    LIST,
    ChangeQueue,
    SubscriptionIndex,
    make_change_notification,
)
from agentd.mcp.tools import (
    MAX_WAIT_SECONDS,
    WAIT,
    WAIT_SECONDS,
    ToolCatalog,
    read_arguments,
)
from agentd.mcp.waiting import ChatOutcome, ChatWaiter, QuestionsForClient, WaitCall

log = logging.getLogger(__name__)

PAGE = 50
"""Chats in a page of resources."""
_TOOLS_CACHE_SECONDS = 300
_DECIDE = ("POST", "/api/chat/{chatId}/approvals/{approvalId}")


class McpCaller(Struct, frozen=True):
    """A client with its request over HTTP."""

    request: Request
    profile: ClientProfile
    session: McpSession | None = None


class FinalResult(Struct, frozen=True):
    """The result that ends a stream."""

    result: JsonObject


Outgoing: TypeAlias = JsonObject | FinalResult | None
"""A message for the client; None: a sign of life."""


class McpServer:
    """The tools and resources, over the daemon's routes and chats."""

    def __init__(
        self,
        caller: RouteCaller,
        chats: ChatService,
        waiter: ChatWaiter,
        subscriptions: SubscriptionIndex,
        keep_alive: float = KEEP_ALIVE_SECONDS,
    ) -> None:
        self._caller = caller
        self._chats = chats
        self._waiter = waiter
        self._subscriptions = subscriptions
        self._keep_alive = keep_alive
        self._tools = ToolCatalog(caller)

    def find_stream(
        self, action: Action, request_id: MessageId, client: McpCaller
    ) -> Callable[[StreamSignal], AsyncGenerator[Outgoing, None]] | None:
        """Return the function that streams an action that takes long; None for any other.

        Raises ``McpError`` for wrong parameters.
        """
        if isinstance(action, Listen):
            return partial(self._listen, action, request_id, client)
        if isinstance(action, CallTool) and action.name == WAIT:
            return partial(self._wait_for_chat, _read_wait(action, client), client)
        return None

    async def answer(self, action: Action, client: McpCaller) -> JsonObject:
        """Return the result of an action that is not streamed; raises ``McpError``."""
        result, cache_seconds = await self._find_result(action, client)
        return complete_result(client.profile, result, cache_seconds)

    async def follow_session(
        self, session: McpSession, signal: StreamSignal
    ) -> AsyncGenerator[JsonObject | None, None]:
        """Yield the changes that a session has subscribed to, until the stream is ended."""
        session.streams.add(signal)
        try:
            async for news in self._follow(session.changes, signal, None):
                yield news
        finally:
            session.streams.discard(signal)
            session.wake_streams()

    async def _wait_for_chat(
        self, call: WaitCall, client: McpCaller, signal: StreamSignal
    ) -> AsyncGenerator[Outgoing, None]:
        """Yield what is told during the wait, and at last its result."""
        complete = partial(complete_result, client.profile)
        decide = partial(self._decide, client.request, call.chat_id)
        try:
            async for news in self._waiter.wait(call, signal, decide):
                match news:
                    case ChatOutcome():
                        yield FinalResult(complete(_make_tool_result(encode_json(news))))
                    case QuestionsForClient(requests=requests):
                        asking = {"resultType": "input_required", "inputRequests": requests}
                        yield FinalResult(complete(asking))
                    case _:
                        yield news
        except AgentdError as error:
            yield FinalResult(complete(_make_tool_error(error)))

    async def _listen(
        self, action: Listen, request_id: MessageId, client: McpCaller, signal: StreamSignal
    ) -> AsyncGenerator[Outgoing, None]:
        """Yield the changes that a client without a session wants, until the stream is ended."""
        wanted = action.notifications
        uris = [uri for uri in wanted.resource_subscriptions if self._is_known(uri, client)]
        agreed: JsonObject = {"resourceSubscriptions": uris} if uris else {}
        if wanted.resources_list_changed:
            agreed["resourcesListChanged"] = True
        meta: JsonObject = {META_SUBSCRIPTION: request_id}
        changes = ChangeQueue(signal.wake)
        self._subscriptions.subscribe(
            changes, (*uris, LIST) if wanted.resources_list_changed else uris
        )
        try:
            yield make_notification(
                "notifications/subscriptions/acknowledged", {"_meta": meta, "notifications": agreed}
            )
            async for news in self._follow(changes, signal, meta):
                yield news
        finally:
            self._subscriptions.remove(changes)
        yield FinalResult(complete_result(client.profile, {"_meta": meta}))

    async def _follow(
        self, changes: ChangeQueue, signal: StreamSignal, meta: JsonObject | None
    ) -> AsyncGenerator[JsonObject | None, None]:
        yield None
        while not signal.ended:
            for uri in changes.take():
                yield make_change_notification(uri, meta)
            if not await signal.wait(self._keep_alive):
                yield None

    async def _find_result(
        self, action: Action, client: McpCaller
    ) -> tuple[JsonObject, int | None]:
        """Return a result, and how many seconds a client may keep it."""
        result: JsonObject = {}
        seconds: int | None = None
        match action:
            case Immediate():
                result, seconds = action.result, action.cache_seconds
            case ListTools():
                caller = client.request.caller
                tools = await asyncio.to_thread(self._tools.list_descriptions, caller)
                result, seconds = {"tools": tools}, _TOOLS_CACHE_SECONDS
            case CallTool():
                result = await self._call_tool(action, client.request)
            case ListResources(cursor=cursor):
                result, seconds = self._list_resources(cursor), 0
            case ListTemplates():
                result, seconds = {"resourceTemplates": TEMPLATES}, _TOOLS_CACHE_SECONDS
            case ReadResource(uri=uri):
                result, seconds = await self._read_resource(uri, client), 0
            case SubscribeResource(uri=uri):
                self._subscribe(uri, client)
            case UnsubscribeResource(uri=uri):
                if client.session:
                    self._subscriptions.unsubscribe(client.session.changes, [uri])
        return result, seconds

    async def _call_tool(self, action: CallTool, request: Request) -> JsonObject:
        found = self._tools.find(action.name)
        if found is None:
            raise McpError(INVALID_PARAMS, f"There is no tool {action.name[:100]!r}")
        spec, route = found
        try:
            given = read_arguments(spec, route, action.arguments)
            data = await self._caller.call(request, route, given.path, given.query, given.body)
        except AgentdError as error:
            return _make_tool_error(error)
        if route.response_type is None and data:
            return {"content": [_make_text(data.decode("utf-8", "replace"))]}
        return _make_tool_result(data)

    async def _decide(
        self, request: Request, chat_id: int, question_id: int, decision: Decision
    ) -> None:
        route = self._caller.get_route(*_DECIDE)
        where = {"chatId": str(chat_id), "approvalId": str(question_id)}
        await self._caller.call(request, route, where, None, decision.body)

    def _list_resources(self, cursor: str | None) -> JsonObject:
        page = self._chats.list_page(ChatFilter(), int(cursor) if cursor else None, PAGE)
        result: JsonObject = {"resources": [describe_chat(chat) for chat in page.chats]}
        return result if page.next is None else {**result, "nextCursor": str(page.next)}

    async def _read_resource(self, uri: str, client: McpCaller) -> JsonObject:
        resource = parse_uri(uri, client.profile)
        route = self._caller.get_route("GET", PATHS[resource.part])
        try:
            data = await self._caller.call(client.request, route, {"chatId": str(resource.chat_id)})
        except NotFound as error:
            raise make_not_found(uri, client.profile) from error
        return {"contents": [{"uri": uri, "mimeType": MIME, "text": data.decode()}]}

    def _subscribe(self, uri: str, client: McpCaller) -> None:
        if client.session is None:
            return
        resource = parse_uri(uri, client.profile)
        try:
            self._chats.get_summary(resource.chat_id)
        except NotFound as error:
            raise make_not_found(uri, client.profile) from error
        client.session.check_room_for_subscription()
        self._subscriptions.subscribe(client.session.changes, [uri])

    def _is_known(self, uri: str, client: McpCaller) -> bool:
        try:
            self._chats.get_summary(parse_uri(uri, client.profile).chat_id)
        except (McpError, NotFound):
            return False
        return True


def _read_wait(action: CallTool, client: McpCaller) -> WaitCall:
    """Return a wait; raises ``McpError`` for arguments that make no sense."""
    chat_id, seconds = action.arguments.get("chatId"), action.arguments.get("seconds")
    if unknown := set(action.arguments) - {"chatId", "seconds"}:
        raise McpError(INVALID_PARAMS, f"Unknown argument {min(unknown)[:40]!r}")
    if isinstance(chat_id, str) and chat_id.isascii() and chat_id.isdecimal():
        chat_id = int(chat_id[:20])
    if isinstance(chat_id, bool) or not isinstance(chat_id, int):
        raise McpError(INVALID_PARAMS, "chatId must be the id of a chat")
    seconds = WAIT_SECONDS if seconds is None else seconds
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise McpError(INVALID_PARAMS, "seconds must be a number")
    if not 0 <= seconds <= MAX_WAIT_SECONDS:
        raise McpError(INVALID_PARAMS, f"seconds must be from 0 to {MAX_WAIT_SECONDS}")
    return WaitCall(
        chat_id=chat_id,
        seconds=seconds,
        progress_token=action.progress_token,
        can_ask=client.profile.can_ask and client.request.caller.may_answer,
        session=client.session,
        answers=find_answers(action.input_responses),
    )


def _make_tool_result(data: bytes) -> JsonObject:
    """Return a tool's result with the JSON of its route, as text and as an object."""
    if not data:
        return {"content": [_make_text("Done.")], "structuredContent": {}}
    return {"content": [_make_text(data.decode())], "structuredContent": Raw(data)}


def _make_tool_error(error: AgentdError) -> JsonObject:
    """Return an error as a result, so that the client's model can read and correct it."""
    text = "\n".join(part for part in (error.message, error.details) if part)
    return {"content": [_make_text(scrub(text))], "isError": True}


def _make_text(text: str) -> JsonObject:
    return {"type": "text", "text": text}
