"""``/liveChatHub``: the SignalR hub, for the clients that people already have.

``wire.signalr`` decides what is said; here are the sockets, streams and polls that carry it, and
the clock. Each client is a ``Client`` that may come by several links, one after the other.
Source: the remote-control specification, sections 5 and 6.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import parse_qsl

from agentd import ids
from agentd.errors import BadRequest, NotFound, Unavailable
from agentd.web.call import Answer, Call
from agentd.web.feed import Feed, Told, told_in
from agentd.web.hub_client import Client
from agentd.web.links import PollLink, StreamLink
from agentd.web.live import REFUSED_SECONDS, Roll
from agentd.web.mark import Mark
from agentd.wire.signalr import negotiate
from agentd.wire.signalr.hub import Subscribe
from agentd.wire.signalr.negotiate import DIRECT, Terms, Transport
from agentd.wire.signalr.records import Event

log = logging.getLogger(__name__)

SLICE = 200
"""Clients that an event goes to before the loop has a turn for others."""
BATCH = 64 * 1024
"""Bytes of events that gathered, and are told together."""

_STREAM_HEAD = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-cache, no-store",
    "Content-Encoding": "identity",
    "X-Accel-Buffering": "no",
}


class Hub:
    """All clients of the hub."""

    def __init__(self, feed: Feed, roll: Roll, monotonic: Callable[[], float]) -> None:
        self.roll = roll
        self._feed = feed
        self._now = monotonic
        self._clients: dict[str, Client] = {}
        self._told: deque[Told | asyncio.Future[None]] = deque()
        self._teller: asyncio.Task[None] | None = None

    # The requests of the hub.

    def negotiate(self, call: Call) -> Answer:
        """``POST …/negotiate``: a connection to be opened within 15 s."""
        self._check(call)
        try:
            agreed = negotiate.terms(_query(call))
        except BadRequest as error:
            return Answer(negotiate.refused(error.message))
        public, secret = ids.new_connection_id(), ids.new_connection_id()
        token = secret if agreed.version else public
        self._begin(token, agreed, call)
        return Answer(negotiate.body(negotiate.negotiated(agreed, public, token)))

    async def get(self, call: Call) -> Answer:
        """``GET``: a WebSocket, a stream of server-sent events, or one long poll."""
        if call.headers.get("Upgrade", "").lower() == "websocket":
            from agentd.web.websocket import (  # noqa: PLC0415 - not at the start: it is large
                check_upgrade,
                upgrade,
            )

            check_upgrade(call.headers)
            return Answer(status=101, upgrade=upgrade(self._opening(call)))
        try:
            client = self._client(call)
        except NotFound:
            await asyncio.sleep(REFUSED_SECONDS)
            raise
        if "text/event-stream" in call.headers.get("Accept", ""):
            link = StreamLink(client)
            client.connection.check(Transport.STREAM)
            return Answer(portions=link.units(), headers=dict(_STREAM_HEAD))
        return await PollLink(client).polled(single=call.headers.get("Accept") == "Text")

    def post(self, call: Call) -> Answer:
        """``POST``: what a client says that cannot say it over its link."""
        client = self._client(call)
        client.drive(client.connection.posted(call.body, self._now()))
        return Answer(b"", headers={"Content-Type": "text/plain"})

    def delete(self, call: Call) -> Answer:
        """``DELETE``: a client that polls goes."""
        client = self._client(call)
        client.drive(client.connection.end(self._now(), None))
        return Answer(b"", 202, {"Content-Type": "text/plain"})

    def options(self, call: Call) -> Answer:
        """``OPTIONS``: a browser asks; no foreign origin is allowed, so nothing is said."""
        return Answer(status=204)

    def close(self) -> None:
        """The daemon stops: ``Roll.close`` has told the clients; hear nothing more."""
        self._feed.unsubscribe(self._hear)
        if self._teller:
            self._teller.cancel()

    # What clients need of the hub.

    def now(self) -> float:
        """Seconds of the monotonic clock."""
        return self._now()

    def forget(self, client: Client) -> None:
        """Its token is found no more."""
        self._clients.pop(client.token, None)
        self.roll.remove(client.end)
        if not self._clients:
            self._feed.unsubscribe(self._hear)

    async def catch_up(self, client: Client, wish: Subscribe) -> None:
        """Tell a client what it missed since the seq that it names."""
        assert wish.since is not None
        upto = self._feed.position
        live: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._hear(live)
        gap_from = await self._tell_missed(client, wish, upto)
        await live  # what is on its way waits with the client, which knows what it gets twice
        rest = [] if gap_from is None else [Event("gap", [{"from": gap_from, "to": upto}])]
        client.drive(client.connection.caught_up(rest, upto, self._now()))

    async def _tell_missed(self, client: Client, wish: Subscribe, upto: int) -> int | None:
        """Tell it part by part, no faster than the client takes it.

        Returns the seq after which the rest cannot be told; None when all was.
        """
        reached = wish.since or 0
        portions = await self._feed.missed(Mark(reached, life=wish.life), upto, wish.chats)
        if portions is None:
            return reached
        try:
            async for portion in portions:
                await client.catch_up(await asyncio.to_thread(told_in, portion))
                reached = portion.upto
        except Unavailable:
            return reached
        return None

    def _check(self, call: Call) -> None:
        self.roll.check(call.caller, call.headers.get("Origin"), call.remote_ip)

    def _begin(self, token: str, agreed: Terms, call: Call) -> Client:
        client = Client(self, token, agreed, call.caller)
        self._clients[token] = client
        self._feed.subscribe(self._hear)
        self.roll.add(call.caller, client.end, call.remote_ip)
        return client

    def _opening(self, call: Call) -> Client:
        """The client that opens a WebSocket; without ``id`` a new one, that did not negotiate."""
        if not _query(call).get("id"):
            self._check(call)
            return self._begin(ids.new_connection_id(), DIRECT, call)
        client = self._client(call)
        client.connection.check(Transport.WEBSOCKET)
        return client

    def _client(self, call: Call) -> Client:
        query = _query(call)
        token = query.get("id")
        if not token:
            raise BadRequest("The parameter id is missing", "Negotiate first.")
        client = self._clients.get(token)
        if client is None or client.caller != call.caller:
            raise NotFound("No such connection", "Negotiate a new one.")
        return client

    def _hear(self, event: "Told | asyncio.Future[None]") -> None:
        """Have an event told in its turn; a future is done when its turn comes."""
        self._told.append(event)
        if self._teller is None:
            self._teller = asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self) -> None:
        """Every event to each client, with turns for others between slices of them.

        What gathers meanwhile is told together: a burst costs each client few writes, not many.
        """
        while self._told:
            events = list(self._batch())
            clients = list(self._clients.values())
            for start in range(0, len(clients), SLICE):
                now = self._now()
                for client in clients[start : start + SLICE]:
                    self._tell_one(client, events, now)
                if start + SLICE < len(clients):
                    await asyncio.sleep(0)
        self._teller = None

    def _tell_one(self, client: Client, events: Sequence[Event], now: float) -> None:
        try:
            client.tell(events, now)
        except Exception:  # a task boundary: what one client breaks silences no other
            log.exception("a live connection failed; it is forgotten")
            self.forget(client)

    def _batch(self) -> Iterator[Told]:
        """What is to be told next, up to a future, which is done when all before it was told."""
        size = 0
        while self._told and size < BATCH:
            event = self._told[0]
            if isinstance(event, asyncio.Future):
                if size:
                    return
                if not event.done():  # else whoever waits for it has left
                    event.set_result(None)
            else:
                size += len(event.data)
                yield event
            self._told.popleft()


def _query(call: Call) -> dict[str, str]:
    return dict(parse_qsl(call.query_text, max_num_fields=100))
