"""``GET /api/agent/requests/stream``: the request log as server-sent events, as it is written.

Each event is a request with a cursor as its ``id``, for resuming also after a restart of the
daemon. What a slow client has not taken yet waits in the ledger's files, not in memory.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from datetime import tzinfo
from typing import Any, Protocol

from agentd.core import sse
from agentd.core.clock import Clock
from agentd.core.errors import AgentdError, BadRequest, Forbidden, LimitReached, Unavailable
from agentd.gateway.admin.api import shapes
from agentd.gateway.admin.api.requests import FILTERS, RequestView, parse_filter
from agentd.gateway.admin.api.route_builders import build_route
from agentd.gateway.admin.api.spans import FROM, TO
from agentd.gateway.ledger.query import RequestFilter
from agentd.gateway.ledger.record import RequestRecord
from agentd.gateway.ledger.tail import CURSOR_PATTERN, LedgerTail, LeftOut, TailBatch
from agentd.http.connections import ConnectionRegistry
from agentd.http.json_body import encode_json
from agentd.http.request import Request, Response
from agentd.http.routing import Parameter, Route

log = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 15.0
GATHER_SECONDS = 0.05
"""Seconds from the first of several requests to the reading that finds them together."""
CLOSE_SECONDS = 0.5
"""Seconds that an ended stream has to deliver what is being sent."""
_RETRY_SECONDS = 1.0
_COMMENT = b":\n\n"

_HEAD = {
    "Content-Type": "text/event-stream; charset=utf-8",
}
_CURSOR_SCHEMA: dict[str, object] = {"type": "string", "pattern": CURSOR_PATTERN}
LAST_EVENT = Parameter(
    "Last-Event-ID",
    "header",
    "The id of the last event that was received: the stream goes on after it.",
    _CURSOR_SCHEMA,
)
CURSOR = Parameter(
    "cursor", "query", "As Last-Event-ID, for clients that cannot set headers.", _CURSOR_SCHEMA
)


class FollowedLedger(Protocol):
    """The ledger (``gateway.ledger.ledger.Ledger``)."""

    on_recorded: list[Callable[[RequestRecord], object]]
    """Called for each request once it is recorded."""


class RequestStreamEndpoint:
    """The endpoint; ``open_tail`` returns a reader after a cursor, since a moment, or from now on.

    ``key_id`` resolves a key's id or name, ``zone`` is that of days.
    """

    def __init__(
        self,
        ledger: FollowedLedger,
        open_tail: Callable[[str, str], LedgerTail],
        connections: ConnectionRegistry,
        key_id: Callable[[str], str],
        zone: Callable[[], tzinfo],
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._ledger = ledger
        self._open_tail = open_tail
        self._connections = connections
        self._key_id = key_id
        self._zone = zone

    async def stream_requests(self, call: Request) -> Response:
        """Stream the requests to one client."""
        self._connections.check(call.caller, call.headers.get("Origin"), call.remote_ip)
        wanted = parse_filter(call, self._key_id, self._zone())
        cursor = call.headers.get("Last-Event-ID") or call.get_query("cursor") or ""
        tail = await asyncio.to_thread(self._open_tail, cursor, wanted.since)
        return Response(chunks=self._stream(call, tail, wanted), headers=dict(_HEAD))

    async def _stream(
        self, call: Request, tail: LedgerTail, wanted: RequestFilter
    ) -> AsyncGenerator[bytes, None]:
        follower = _Follower()
        with self._connections.register(call.caller, follower.end, call.remote_ip):
            self._ledger.on_recorded.append(follower.on_recorded)
            try:
                yield sse.encode_retry(_RETRY_SECONDS) + sse.encode_id(tail.cursor)
                async for chunk in self._follow(follower, tail, wanted):
                    yield chunk
            except AgentdError as error:  # the client comes back with its last id
                log.error("a stream of requests ended: %s", error.message)
            finally:
                self._ledger.on_recorded.remove(follower.on_recorded)
                follower.cancel_timer()

    async def _follow(
        self, follower: "_Follower", tail: LedgerTail, wanted: RequestFilter
    ) -> AsyncGenerator[bytes, None]:
        """Yield what is recorded as it comes, and something every ``KEEP_ALIVE_SECONDS``."""
        now = asyncio.get_running_loop().time
        sent_cursor, due = tail.cursor, now() + KEEP_ALIVE_SECONDS
        while not follower.ended:
            is_over = bool(wanted.until) and self._clock.now() >= wanted.until
            batch, encoded = await asyncio.to_thread(_read, tail, wanted)
            if encoded:
                sent_cursor = batch.entries[-1][0]
                yield encoded
            if now() >= due or (batch.cursor != sent_cursor and not batch.is_last):
                yield _COMMENT if batch.cursor == sent_cursor else sse.encode_id(batch.cursor)
                sent_cursor, due = batch.cursor, now() + KEEP_ALIVE_SECONDS
            if batch.is_last and is_over:
                return
            if batch.is_last and await follower.wait(max(due - now(), 0)):
                await asyncio.sleep(GATHER_SECONDS)


def _read(tail: LedgerTail, wanted: RequestFilter) -> tuple[TailBatch, bytes]:
    """Read on, and encode what was found. Blocking."""
    batch = tail.read(wanted)
    return batch, b"".join(_encode(cursor, entry) for cursor, entry in batch.entries)


def _encode(cursor: str, entry: RequestRecord | LeftOut) -> bytes:
    if isinstance(entry, LeftOut):
        return sse.encode_json_event(encode_json(entry), "leftOut", cursor)
    view: Any = shapes.to_view(entry, RequestView)
    return sse.encode_json_event(encode_json(view), "request", cursor)


class _Follower:
    """One stream; created by the task that sends it."""

    def __init__(self) -> None:
        self.ended = False
        self._recorded = asyncio.Event()
        self._task = asyncio.current_task()
        self._timer: asyncio.TimerHandle | None = None

    def on_recorded(self, _: RequestRecord) -> None:
        """Note that there is something to read."""
        self._recorded.set()

    def end(self, _reason: str) -> None:
        """End the stream after what is being sent, or by cancelling when that takes too long."""
        if self.ended:
            return
        self.ended = True
        self._recorded.set()
        if self._task:
            self._timer = asyncio.get_running_loop().call_later(CLOSE_SECONDS, self._task.cancel)

    def cancel_timer(self) -> None:
        """Stop the timer of a stream that has ended."""
        if self._timer:
            self._timer.cancel()

    async def wait(self, seconds: float) -> bool:
        """Return True once something was recorded, False after so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._recorded.wait()
        was_set = self._recorded.is_set()
        self._recorded.clear()
        return was_set


def routes(endpoint: RequestStreamEndpoint) -> tuple[Route, ...]:
    """Return the route of the stream."""
    return (
        build_route(
            "GET",
            "/api/agent/requests/stream",
            endpoint=endpoint.stream_requests,
            summary="Stream requests as server-sent events once they are recorded: from now on,"
            " from a moment on, or after the last event that was received. With `to`, the stream"
            " ends soon after that moment. Each event `request` is as in the list; `leftOut` tells"
            " which requests cannot be shown.",
            operation_id="stream_requests",
            extra_media_types=("text/event-stream",),
            errors=(BadRequest, Forbidden, LimitReached, Unavailable),
            parameters=(LAST_EVENT, CURSOR, FROM, TO, *FILTERS),
        ),
    )
