"""The routes of the hub and of server-sent events."""

from agentd.core.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    LimitReached,
    MethodNotAllowed,
    NotFound,
    Unavailable,
)
from agentd.http.access import RouteGroup
from agentd.http.routing import HUB_PATH, Parameter, Route
from agentd.live.cursor import CURSOR_PATTERN
from agentd.live.hub import Hub
from agentd.live.sse_api import EventStreamEndpoint

API_KEY = Parameter(
    "api_key", "query", "The API key, for clients that cannot set headers.", {"type": "string"}
)


CONNECTION = Parameter("id", "query", "The token from the negotiation.", {"type": "string"})


_CURSOR_SCHEMA: dict[str, object] = {"type": "string", "pattern": f"^{CURSOR_PATTERN}$"}


LAST_EVENT = Parameter(
    "Last-Event-ID",
    "header",
    "The id of the last event that was received; the stream begins with the events after it.",
    _CURSOR_SCHEMA,
)


SINCE = Parameter(
    "since", "query", "As Last-Event-ID, for clients that cannot set headers.", _CURSOR_SCHEMA
)


CHATS = Parameter(
    "chats",
    "query",
    "Only the events of these chats: ids separated by commas.",
    {"type": "string", "pattern": "^[1-9][0-9]{0,14}(,[1-9][0-9]{0,14})*$"},
)


_BUSY = (Forbidden, LimitReached, Unavailable)
"""The errors of routes that open a connection."""


def routes(hub: Hub, stream: EventStreamEndpoint) -> tuple[Route, ...]:
    """Return the routes of the hub and of the stream of events."""
    return (*_list_negotiation_routes(hub), *_list_hub_routes(hub), _build_stream_route(stream))


def _list_negotiation_routes(hub: Hub) -> tuple[Route, ...]:
    path = f"{HUB_PATH}/negotiate"
    return (
        Route(
            "POST",
            path,
            RouteGroup.LIVE,
            hub.negotiate,
            "Negotiate a SignalR connection.",
            operation_id="negotiate_hub",
            extra_media_types=("application/json",),
            errors=_BUSY,
            parameters=(API_KEY,),
            section="6",
        ),
        Route(
            "OPTIONS",
            path,
            RouteGroup.PUBLIC,
            hub.options,
            "Answer a CORS preflight request; no origin is allowed.",
            operation_id="preflight_negotiation",
            status=204,
        ),
    )


def _list_hub_routes(hub: Hub) -> tuple[Route, ...]:
    return (
        Route(
            "GET",
            HUB_PATH,
            RouteGroup.LIVE,
            hub.get,
            "Open a WebSocket, a server-sent events stream, or one long poll of the SignalR hub.",
            operation_id="open_hub",
            extra_media_types=("text/event-stream", "text/plain"),
            errors=(*_BUSY, BadRequest, NotFound, Conflict),
            parameters=(API_KEY, CONNECTION),
            section="6",
        ),
        Route(
            "POST",
            HUB_PATH,
            RouteGroup.LIVE,
            hub.post,
            "Send messages of a client that uses server-sent events or long polling.",
            operation_id="send_to_hub",
            extra_media_types=("text/plain",),
            errors=(BadRequest, NotFound, MethodNotAllowed),
            parameters=(API_KEY, CONNECTION),
            section="6",
        ),
        Route(
            "DELETE",
            HUB_PATH,
            RouteGroup.LIVE,
            hub.delete,
            "Disconnect a client that uses long polling.",
            operation_id="leave_hub",
            extra_media_types=("text/plain",),
            status=202,
            errors=(BadRequest, NotFound),
            parameters=(API_KEY, CONNECTION),
            section="6",
        ),
        Route(
            "OPTIONS",
            HUB_PATH,
            RouteGroup.PUBLIC,
            hub.options,
            "Answer a CORS preflight request; no origin is allowed.",
            operation_id="preflight_hub",
            status=204,
        ),
    )


def _build_stream_route(stream: EventStreamEndpoint) -> Route:
    return Route(
        "GET",
        "/api/events",
        RouteGroup.EXTENDED,
        stream.stream_events,
        "Stream the live events as server-sent events, beginning with those that were missed.",
        operation_id="stream_events",
        extra_media_types=("text/event-stream",),
        errors=(*_BUSY, BadRequest),
        parameters=(LAST_EVENT, SINCE, CHATS),
        section="6",
    )
