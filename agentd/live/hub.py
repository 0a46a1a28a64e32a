"""``/liveChatHub``: the SignalR hub, for existing SignalR clients.

``live.signalr`` has the protocol; here are its endpoints, the clock, and sending events to all
clients. Each client is a ``HubClient``, which may use several links, one after the other.
Source: the remote-control specification, sections 5 and 6.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import parse_qsl

from agentd.core import ids
from agentd.core.errors import BadRequest, NotFound, Unavailable
from agentd.http.connections import REFUSED_POLL_DELAY, ConnectionRegistry
from agentd.http.request import Request, Response
from agentd.live.cursor import EventCursor
from agentd.live.feed import EncodedEvent, Feed, decode_batch
from agentd.live.hub_client import HubClient
from agentd.live.signalr import negotiate
from agentd.live.signalr.hub import Subscribe
from agentd.live.signalr.negotiate import DIRECT, Terms, Transport
from agentd.live.signalr.records import EventRecord
from agentd.live.transports import PollLink, StreamLink

log = logging.getLogger(__name__)

CLIENTS_PER_TURN = 200
"""Clients that get an event before the loop runs other tasks."""
BATCH_BYTES = 64 * 1024
"""Bytes of queued events that are sent together."""

_STREAM_HEAD = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-cache, no-store",
    "Content-Encoding": "identity",
}


class Hub:
    """The endpoints and clients of the hub."""

    def __init__(
        self, feed: Feed, connections: ConnectionRegistry, monotonic: Callable[[], float]
    ) -> None:
        self.connections = connections
        self._feed = feed
        self._now = monotonic
        self._clients: dict[str, HubClient] = {}
        self._queue: deque[EncodedEvent | asyncio.Future[None]] = deque()
        self._broadcaster: asyncio.Task[None] | None = None

    # The endpoints.

    def negotiate(self, call: Request) -> Response:
        """Negotiate a connection, which must be opened within 15 seconds."""
        self._check(call)
        try:
            agreed = negotiate.parse_terms(_parse_query(call))
        except BadRequest as error:
            return Response(negotiate.encode_refusal(error.message))
        public, secret = ids.generate_connection_id(), ids.generate_connection_id()
        token = secret if agreed.version else public
        self._add_client(token, agreed, call)
        return Response(negotiate.encode_answer(negotiate.build_answer(agreed, public, token)))

    async def get(self, call: Request) -> Response:
        """Open a WebSocket, a stream of server-sent events, or one long poll."""
        if call.headers.get("Upgrade", "").lower() == "websocket":
            from agentd.live.websocket import (  # noqa: PLC0415 - not at the start: it is large
                check_upgrade,
                upgrade,
            )

            check_upgrade(call.headers)
            client = self._get_client_for_upgrade(call)
            return Response(status=101, upgrade=upgrade(client, call.request_id))
        try:
            client = self._get_client(call)
        except NotFound:
            await asyncio.sleep(REFUSED_POLL_DELAY)
            raise
        if "text/event-stream" in call.headers.get("Accept", ""):
            link = StreamLink(client)
            client.connection.check(Transport.STREAM)
            return Response(chunks=link.iter_chunks(), headers=dict(_STREAM_HEAD))
        return await PollLink(client).wait_for_response(single=call.headers.get("Accept") == "Text")

    def post(self, call: Request) -> Response:
        """Take messages of a client whose transport only receives."""
        client = self._get_client(call)
        client.apply(client.connection.on_post(call.body, self._now()))
        return Response(b"", headers={"Content-Type": "text/plain"})

    def delete(self, call: Request) -> Response:
        """End the connection of a client that polls."""
        client = self._get_client(call)
        client.apply(client.connection.end(self._now(), None))
        return Response(b"", 202, {"Content-Type": "text/plain"})

    def options(self, call: Request) -> Response:
        """Answer a CORS preflight request without headers: no foreign origin is allowed."""
        return Response(status=204)

    def close(self) -> None:
        """Stop receiving events on shutdown; ``ConnectionRegistry`` has closed the clients."""
        self._feed.unsubscribe(self._enqueue)
        if self._broadcaster:
            self._broadcaster.cancel()

    # The services for ``HubClient``.

    def now(self) -> float:
        """Return the seconds of the monotonic clock."""
        return self._now()

    def remove_client(self, client: HubClient) -> None:
        """Forget a client whose connection has ended."""
        self._clients.pop(client.token, None)
        self.connections.remove(client.close)
        if not self._clients:
            self._feed.unsubscribe(self._enqueue)

    async def catch_up(self, client: HubClient, request: Subscribe) -> None:
        """Send a client the events after the seq of its request."""
        assert request.since is not None
        upto = self._feed.position
        live: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._enqueue(live)
        gap_from = await self._send_missed(client, request, upto)
        await live  # events still queued reach the client's listener, which drops duplicates
        rest = [] if gap_from is None else [EventRecord("gap", [{"from": gap_from, "to": upto}])]
        client.apply(client.connection.finish_catch_up(rest, upto, self._now()))

    async def _send_missed(self, client: HubClient, request: Subscribe, upto: int) -> int | None:
        """Send the missed events in batches, no faster than the client reads them.

        Return the seq after which events are not available; None when all were sent.
        """
        reached = request.since or 0
        batches = await self._feed.read_missed(
            EventCursor(reached, run_id=request.run_id), upto, request.chats
        )
        if batches is None:
            return reached
        try:
            async for batch in batches:
                await client.send_missed(await asyncio.to_thread(decode_batch, batch))
                reached = batch.upto
        except Unavailable:
            return reached
        return None

    def _check(self, call: Request) -> None:
        self.connections.check(call.caller, call.headers.get("Origin"), call.remote_ip)

    def _add_client(self, token: str, agreed: Terms, call: Request) -> HubClient:
        client = HubClient(self, token, agreed, call.caller)
        self._clients[token] = client
        self._feed.subscribe(self._enqueue)
        self.connections.add(call.caller, client.close, call.remote_ip)
        return client

    def _get_client_for_upgrade(self, call: Request) -> HubClient:
        """Return the client that opens a WebSocket; without ``id`` a new one, not negotiated."""
        if not _parse_query(call).get("id"):
            self._check(call)
            return self._add_client(ids.generate_connection_id(), DIRECT, call)
        client = self._get_client(call)
        client.connection.check(Transport.WEBSOCKET)
        return client

    def _get_client(self, call: Request) -> HubClient:
        query = _parse_query(call)
        token = query.get("id")
        if not token:
            raise BadRequest("The parameter id is missing", "Negotiate first.")
        client = self._clients.get(token)
        if client is None or client.caller != call.caller:
            raise NotFound("No such connection", "Negotiate a new one.")
        return client

    def _enqueue(self, event: "EncodedEvent | asyncio.Future[None]") -> None:
        """Queue an event for all clients; a future is set when its turn comes."""
        self._queue.append(event)
        if self._broadcaster is None:
            self._broadcaster = asyncio.get_running_loop().create_task(self._broadcast())

    async def _broadcast(self) -> None:
        """Send every queued event to each client, yielding to other tasks between slices of them.

        Events that are queued meanwhile are sent together, so a burst costs each client few writes.
        """
        while self._queue:
            events = list(self._take_batch())
            is_private = any(event.is_private for event in events)
            clients = list(self._clients.values())
            for start in range(0, len(clients), CLIENTS_PER_TURN):
                now = self._now()
                for client in clients[start : start + CLIENTS_PER_TURN]:
                    self._send_to(client, events, now, is_private=is_private)
                if start + CLIENTS_PER_TURN < len(clients):
                    await asyncio.sleep(0)
        self._broadcaster = None

    def _send_to(
        self, client: HubClient, events: Sequence[EncodedEvent], now: float, *, is_private: bool
    ) -> None:
        """Send the events to a client; ``is_private``: some are not for everybody."""
        if is_private:
            events = [event for event in events if event.is_for(client.caller)]
        try:
            client.send_events(events, now)
        except Exception:  # a task boundary: one client's failure must not affect the others
            log.exception("a live connection failed and is removed")
            self.remove_client(client)

    def _take_batch(self) -> Iterator[EncodedEvent]:
        """Remove and yield the next events, up to a future, which is set when it is the first."""
        size = 0
        while self._queue and size < BATCH_BYTES:
            event = self._queue[0]
            if isinstance(event, asyncio.Future):
                if size:
                    return
                if not event.done():  # otherwise the waiting task was cancelled
                    event.set_result(None)
            else:
                size += len(event.data)
                yield event
            self._queue.popleft()


def _parse_query(call: Request) -> dict[str, str]:
    return dict(parse_qsl(call.query_string, max_num_fields=100))
