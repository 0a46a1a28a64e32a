"""``/mcp``: the Model Context Protocol over Streamable HTTP, for clients with an API key.

The key comes as ``X-API-Key`` or ``Authorization: Bearer``. There is no authorization server, so
the challenge of a 401 names none, and clients ask their user for a key.

Clients of revision 2026-07-28 send requests that stand alone. Those of earlier revisions begin a
session with ``initialize`` and send its ``Mcp-Session-Id`` from then on.
"""

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from functools import partial
from typing import Self

from agentd.chats.service import ChatService
from agentd.core.errors import (
    BadRequest,
    Forbidden,
    LimitReached,
    NotFound,
    TooLarge,
    Unavailable,
    UnsupportedMedia,
)
from agentd.core.events import EventBus
from agentd.http.access import RouteGroup
from agentd.http.connections import ConnectionRegistry
from agentd.http.json_body import decode_json, encode_json
from agentd.http.request import Request, Response
from agentd.http.routing import Parameter, Route, Schema
from agentd.mcp.messages import (
    INVALID_REQUEST,
    JsonObject,
    McpError,
    McpMessage,
    McpNotification,
    McpReply,
    McpRequest,
    MessageId,
    find_id,
    is_object,
    make_error,
    make_result,
    read_message,
)
from agentd.mcp.protocol import plan_action
from agentd.mcp.revisions import (
    ClientProfile,
    RoutingHeaders,
    belongs_to_session,
    can_ask,
    check_session_revision,
    check_sessionless_request,
    check_sessionless_revision,
    describe_server,
    is_cancellation,
    negotiate_revision,
)
from agentd.mcp.route_caller import RouteCaller
from agentd.mcp.server import FinalResult, McpCaller, McpServer, Outgoing
from agentd.mcp.sessions import McpSession, McpSessionRegistry
from agentd.mcp.streams import HEADERS, KEEP_ALIVE, StreamSignal
from agentd.mcp.subscriptions import SubscriptionIndex
from agentd.mcp.waiting import ChatWaiter

PATH = "/mcp"
SESSION_HEADER = "Mcp-Session-Id"
_EVENTS = "text/event-stream"


class McpEndpoints:
    """The endpoint's three methods."""

    def __init__(
        self, server: McpServer, sessions: McpSessionRegistry, connections: ConnectionRegistry
    ) -> None:
        self._server = server
        self._sessions = sessions
        self._connections = connections

    @classmethod
    def from_routes(
        cls,
        routes: Iterable[Route],
        chats: ChatService,
        bus: EventBus,
        connections: ConnectionRegistry,
    ) -> Self:
        """Return the endpoints whose tools call these routes."""
        subscriptions = SubscriptionIndex(bus)
        server = McpServer(RouteCaller(routes), chats, ChatWaiter(chats, bus), subscriptions)
        return cls(server, McpSessionRegistry(subscriptions), connections)

    async def receive(self, request: Request) -> Response:
        """Take one message of a client, and answer it."""
        self._connections.check_origin(request.headers.get("Origin"))
        _check_content_type(request)
        value = decode_json(request.body, object)
        headers = RoutingHeaders(
            request.headers.get("MCP-Protocol-Version"),
            request.headers.get("Mcp-Method"),
            request.headers.get("Mcp-Name"),
        )
        with_session = False
        try:
            message = read_message(value)
            with_session = belongs_to_session(message, headers)
            if with_session:
                return await self._receive_in_session(message, headers, request)
            return await self._receive_alone(message, headers, request)
        except McpError as error:
            request_id = find_id(value)
            # To a client with a session, an answer to its request is an answer.
            is_answer = with_session and request_id is not None and error.code != INVALID_REQUEST
            status = 200 if is_answer else error.status
            return Response(make_error(request_id, error), status)

    def stream_changes(self, request: Request) -> Response:
        """Stream what a session has subscribed to."""
        self._connections.check_origin(request.headers.get("Origin"))
        if _EVENTS not in request.headers.get("Accept", ""):
            raise BadRequest("This is a stream of events", f"Send Accept: {_EVENTS}.")
        session = self._find_session(request)
        return Response(chunks=self._stream_session(session, request), headers=dict(HEADERS))

    def end_session(self, request: Request) -> Response:
        """End a session."""
        self._connections.check_origin(request.headers.get("Origin"))
        self._sessions.end(self._find_session(request))
        return Response(status=204)

    def _find_session(self, request: Request) -> McpSession:
        """Return the session that a request without a message names."""
        try:
            return self._sessions.get(request.headers.get(SESSION_HEADER), request.caller.identity)
        except McpError as error:
            kind = NotFound if error.status == 404 else BadRequest
            raise kind(error.message) from error

    async def _receive_alone(
        self, message: McpMessage, headers: RoutingHeaders, request: Request
    ) -> Response:
        if isinstance(message, McpNotification):
            check_sessionless_revision(headers.revision)
            return Response(status=202)
        if isinstance(message, McpReply):
            raise McpError(INVALID_REQUEST, "Clients of this revision send no answers")
        profile = check_sessionless_request(message, headers)
        return await self._respond(message, McpCaller(request, profile))

    async def _receive_in_session(
        self, message: McpMessage, headers: RoutingHeaders, request: Request
    ) -> Response:
        if isinstance(message, McpRequest) and message.method == "initialize":
            return self._begin_session(message, request)
        session = self._sessions.get(request.headers.get(SESSION_HEADER), request.caller.identity)
        check_session_revision(headers.revision, session.profile.revision)
        match message:
            case McpReply():
                session.take_reply(message)
            case McpNotification():
                if is_cancellation(message):
                    session.cancel_call(message.params.get("requestId"))
            case McpRequest():
                return await self._respond(message, McpCaller(request, session.profile, session))
        return Response(status=202)

    def _begin_session(self, message: McpRequest, request: Request) -> Response:
        capabilities = message.params.get("capabilities")
        profile = ClientProfile(
            negotiate_revision(message.params.get("protocolVersion")),
            is_object(capabilities) and can_ask(capabilities),
        )
        session = self._sessions.begin(request.caller.identity, profile)
        result = make_result(message.id, describe_server(profile.revision))
        return Response(result, headers={SESSION_HEADER: session.id})

    async def _respond(self, message: McpRequest, client: McpCaller) -> Response:
        action = plan_action(message, client.profile)
        open_stream = self._server.find_stream(action, message.id, client)
        if open_stream is None:
            return Response(make_result(message.id, await self._server.answer(action, client)))
        chunks = self._stream_action(message.id, client, open_stream)
        if _EVENTS in client.request.headers.get("Accept", ""):
            return Response(chunks=_encode_events(chunks), headers=dict(HEADERS))
        return Response(await _take_last(chunks))

    async def _stream_action(
        self,
        request_id: MessageId,
        client: McpCaller,
        open_stream: Callable[[StreamSignal], AsyncGenerator[Outgoing, None]],
    ) -> AsyncGenerator[JsonObject | None, None]:
        """Yield the messages that belong to a request, its answer at last."""
        calls = client.session.calls if client.session else {}
        with StreamSignal.register(self._connections, client.request) as signal:
            calls[request_id] = signal
            try:
                async with aclosing(open_stream(signal)) as news:
                    async for one in news:
                        if isinstance(one, FinalResult):
                            yield make_result(request_id, one.result)
                        else:
                            yield one
            finally:
                calls.pop(request_id, None)

    async def _stream_session(
        self, session: McpSession, request: Request
    ) -> AsyncGenerator[bytes, None]:
        with StreamSignal.register(self._connections, request) as signal:
            news = self._server.follow_session(session, signal)
            async with aclosing(_encode_events(news)) as chunks:
                async for chunk in chunks:
                    yield chunk


async def _encode_events(
    news: AsyncGenerator[JsonObject | None, None],
) -> AsyncGenerator[bytes, None]:
    async with aclosing(news):
        async for one in news:
            yield KEEP_ALIVE if one is None else b"data: %b\n\n" % encode_json(one)


async def _take_last(news: AsyncGenerator[JsonObject | None, None]) -> JsonObject | None:
    """Return the answer alone, for a client that takes no events."""
    last: JsonObject | None = None
    async with aclosing(news):
        async for one in news:
            last = one or last
    return last


def _check_content_type(request: Request) -> None:
    kind = request.headers.get("Content-Type", "application/json").partition(";")[0]
    if kind.strip().lower() != "application/json":
        raise UnsupportedMedia(
            "The body must be JSON in UTF-8", "Send Content-Type: application/json."
        )


_TEXT: Schema = {"type": "string"}
_SESSION = Parameter(
    SESSION_HEADER,
    "header",
    "The session, as the answer to initialize named it; until revision 2025-11-25.",
    _TEXT,
)
_HEADERS = (
    _SESSION,
    Parameter("MCP-Protocol-Version", "header", "The revision of the protocol.", _TEXT),
    Parameter("Mcp-Method", "header", "The message's method; since 2026-07-28.", _TEXT),
    Parameter("Mcp-Name", "header", "The tool or resource; since 2026-07-28.", _TEXT),
)
_MESSAGE: Schema = {
    "type": "object",
    "description": "A JSON-RPC message of the Model Context Protocol.",
    "required": ["jsonrpc"],
    "properties": {
        "jsonrpc": {"const": "2.0"},
        "id": {"type": ["string", "integer"], "description": "Absent in notifications."},
        "method": {"type": "string", "description": "What is asked for, or what happened."},
        "params": {"type": "object", "description": "The method's parameters."},
        "result": {"type": "object", "description": "The answer to a request."},
        "error": {"type": "object", "description": "Why a request failed: code and message."},
    },
}


def routes(mcp: McpEndpoints) -> tuple[Route, ...]:
    """Return the routes of the Model Context Protocol."""
    build = partial(Route, path=PATH, group=RouteGroup.REMOTE, takes_bearer_key=True)
    busy = (Forbidden, LimitReached, Unavailable)
    return (
        build(
            "POST",
            endpoint=mcp.receive,
            summary="Send a message of the Model Context Protocol; the answer to a request is one"
            " message, or a stream of events that ends with it.",
            operation_id="send_mcp_message",
            raw_request_schema=_MESSAGE,
            raw_response_schema=_MESSAGE,
            extra_media_types=(_EVENTS,),
            response_headers={SESSION_HEADER: "The new session, in the answer to initialize."},
            errors=(*busy, BadRequest, NotFound, TooLarge, UnsupportedMedia),
            parameters=_HEADERS,
            ends_with_caller=True,
        ),
        build(
            "GET",
            endpoint=mcp.stream_changes,
            summary="Stream the changes of the resources that a session of the Model Context"
            " Protocol has subscribed to.",
            operation_id="stream_mcp_changes",
            extra_media_types=(_EVENTS,),
            errors=(*busy, BadRequest, NotFound),
            parameters=(_SESSION,),
        ),
        build(
            "DELETE",
            endpoint=mcp.end_session,
            summary="End a session of the Model Context Protocol.",
            operation_id="end_mcp_session",
            status=204,
            errors=(Forbidden, BadRequest, NotFound),
            parameters=(_SESSION,),
        ),
    )
