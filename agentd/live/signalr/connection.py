"""A client of the hub, over all its links, without I/O.

The caller (``live.hub_client``) reports what happened and executes, in order, the actions that are
returned. A *link* is a WebSocket, a stream or a poll of the caller; links are compared by identity.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from math import inf
from operator import itemgetter
from typing import Generic, TypeAlias, TypeVar

from msgspec import Struct

from agentd.core.errors import BadRequest, Conflict, MethodNotAllowed, NotFound
from agentd.live.signalr.hub import HubCommand
from agentd.live.signalr.negotiate import Terms, Transport
from agentd.live.signalr.polls import AnswerPoll, LongPolls
from agentd.live.signalr.records import COME_BACK, EventRecord, Record
from agentd.live.signalr.session import Phase, Session, SessionEnd, Step

L = TypeVar("L")

CONNECT_WITHIN = 15.0
"""Seconds from the negotiation to the first transport."""

RECONNECT_WITHIN = 60.0
"""Seconds for which a connection that can be resumed outlives its link."""

SLOW_CLIENT_SECONDS = 10.0
"""Seconds that a slow client has to read each batch."""


class Write(Struct, Generic[L], frozen=True, gc=False):
    """Write this record to the link: its ``frame`` to a WebSocket, its ``unit`` to a stream."""

    link: L
    record: Record


class CloseLink(Struct, Generic[L], frozen=True):
    """Write ``last``, if any, then close this link (a WebSocket with its code, or 1000)."""

    link: L
    last: Record | None = None


class RemoveConnection(Struct, frozen=True):
    """Remove the connection's token before executing anything else: the connection has ended.

    Links without a ``CloseLink`` stay open, unused, until shutdown: a client that has abandoned one
    would take its end for the end of its newer connection.
    """


Action: TypeAlias = Write[L] | CloseLink[L] | AnswerPoll[L] | HubCommand | RemoveConnection
"""An action to run. A ``Subscribe`` with ``since`` must be followed by ``finish_catch_up``."""

Timer: TypeAlias = tuple[float, Callable[[float], Sequence[Action[L]]]]


class Connection(Generic[L]):
    """The links of one client, one after the other, and their timeouts.

    After the actions are executed: while it is ``paused``, wait until the link has written
    everything, then call ``resume``. Call ``tick`` at the time ``due``.
    """

    def __init__(self, terms: Terms, now: float) -> None:
        self.link: L | None = None
        self._terms = terms
        self._transport: Transport | None = None
        self._session = Session(now)
        self._polls: LongPolls[L] = LongPolls(now)
        self._since = now

    def check(self, transport: Transport) -> None:
        """Raise if a new link of this kind would be refused, before an upgrade is made for it.

        ``NotFound`` when the connection has ended, ``BadRequest`` for another transport than
        before, ``Conflict`` when there is a link that may not be replaced.
        """
        if self._session.phase is Phase.OVER:
            raise NotFound("No such connection")
        if self._transport not in (None, transport):
            raise BadRequest(f"This connection uses {self._transport}")
        if self.link is not None and not self._outlives_its_link:
            raise Conflict("This connection is open already")

    def attach(self, link: L, transport: Transport, now: float) -> Sequence[Action[L]]:
        """Use a WebSocket or stream that was opened; raises as ``check`` does.

        It replaces the link before, even if that still looks open.
        """
        self.check(transport)
        before, again = self.link, self._transport is not None
        self.link, self._transport, self._since = link, transport, now
        self._session.stateful = self._terms.stateful and transport is Transport.WEBSOCKET
        actions = self._to_actions(self._session.attach(again=again, now=now), now)
        return actions if before is None else [CloseLink(before), *actions]

    def poll(self, link: L, now: float, *, single: bool = False) -> Sequence[Action[L]]:
        """Handle a new long poll; raises as ``check`` does.

        ``single``: its answer may have only one record (``Accept: Text``).
        """
        self.check(Transport.POLLING)
        self._transport = Transport.POLLING
        return [*self._polls.add_poll(link, now, single=single), *self._to_actions((), now)]

    def on_link_lost(self, link: L, now: float) -> Sequence[Action[L]]:
        """Handle a link that broke or was closed by the client."""
        self._polls.remove_poll(link, now)
        return self._detach(now) if link is self.link else ()

    def on_message(self, link: L, data: bytes | str, now: float) -> Sequence[Action[L]]:
        """Handle data from a WebSocket; ignored if the link has been replaced."""
        if link is not self.link:
            return ()
        given = data if isinstance(data, bytes) else data.encode(errors="replace")
        return self._to_actions(self._session.receive(given, now), now)

    def on_post(self, data: bytes, now: float) -> Sequence[Action[L]]:
        """Handle data that was posted, perhaps before a transport was opened.

        Raises ``NotFound`` when the connection has ended, ``MethodNotAllowed`` with a WebSocket.
        """
        if self._session.phase is Phase.OVER:
            raise NotFound("No such connection")
        if self._transport is Transport.WEBSOCKET:
            raise MethodNotAllowed("Send over the WebSocket of this connection", ("GET",))
        return self._to_actions(self._session.receive(data, now), now)

    def send_event(self, event: EventRecord, now: float) -> Sequence[Action[L]]:
        """Send a live event now or later, if the client subscribed to it."""
        return self._to_actions(self._session.send_event(event, now), now)

    def catch_up(self, missed: Iterable[EventRecord], now: float) -> Sequence[Action[L]]:
        """Send a part of the events that a ``Subscribe`` with ``since`` missed.

        The next part may be sent once it ``has_room``; ``finish_catch_up`` must follow.
        """
        return self._to_actions(self._session.catch_up(missed, now), now)

    @property
    def has_room(self) -> bool:
        """True if the client has read what was sent; also true when the connection has ended."""
        return self._session.phase is Phase.OVER or (self._session.has_room and not self.paused)

    def finish_catch_up(
        self, missed: Iterable[EventRecord], upto: int, now: float
    ) -> Sequence[Action[L]]:
        """Send the rest of the events that a ``Subscribe`` with ``since`` missed, up to ``upto``.

        Then the call is completed, so that the client knows that it is up to date, and the live
        events after ``upto``, which were held back meanwhile, are sent.
        """
        return self._to_actions(self._session.finish_catch_up(missed, upto, now), now)

    def pause(self, link: L, now: float) -> None:
        """Hold back further records, because the link has not written all it was given."""
        if link is self.link and self._session.send_buffer.ready:
            self._session.send_buffer.pause(now)

    @property
    def paused(self) -> bool:
        """True if ``resume`` is to be called once the link has written everything."""
        return self.link is not None and not self._session.send_buffer.ready

    def resume(self, link: L, now: float) -> Sequence[Action[L]]:
        """Send the next batch to a link that has written everything."""
        if link is not self.link or not self.paused:
            return ()
        return self._to_actions(self._session.resume(now), now)

    def end(self, now: float, last: Record | None = COME_BACK) -> Sequence[Action[L]]:
        """End the connection; ``last`` is ``make_close(…)`` for a revoked key, None on DELETE."""
        return self._to_actions(self._session.end(last), now)

    @property
    def due(self) -> float:
        """The moment at which to call ``tick``; infinite once the connection has ended."""
        return min((moment for moment, _ in self._iter_timers()), default=inf)

    def tick(self, now: float) -> Sequence[Action[L]]:
        """Run the timers that are due: pings, acknowledgements and timeouts."""
        actions: list[Action[L]] = []
        while timers := [timer for timer in self._iter_timers() if timer[0] <= now]:
            _, act = min(timers, key=itemgetter(0))
            actions += act(now)
        return actions

    @property
    def _outlives_its_link(self) -> bool:
        """True if another link may follow: version 0 clients use the same id again."""
        socket = self._transport is Transport.WEBSOCKET
        return socket and (self._terms.version == 0 or self._session.resumable)

    def _iter_timers(self) -> Iterator[Timer[L]]:
        """Yield the time and action of each timer."""
        session = self._session
        if session.phase is Phase.OVER:
            return
        for moment, step in session.iter_timers():
            yield moment, partial(self._run_timer, step)
        if self._transport is None:
            yield self._since + CONNECT_WITHIN, self._expire
        elif self._transport is Transport.POLLING:
            yield self._polls.due, self._on_poll_timeout
        elif session.phase is Phase.AWAY:
            yield self._since + RECONNECT_WITHIN, self._expire
        elif self.paused:
            yield session.send_buffer.blocked_since + SLOW_CLIENT_SECONDS, self.end
        if self.link is not None and session.silent_at is not None:
            yield session.silent_at, self._close_silent_link

    def _run_timer(self, step: Callable[[], None], now: float) -> Sequence[Action[L]]:
        return self._to_actions(self._session.run_timer(step, now), now)

    def _expire(self, now: float) -> Sequence[Action[L]]:
        return self.end(now, None)

    def _on_poll_timeout(self, now: float) -> Sequence[Action[L]]:
        if self._polls.waiting is None:
            return self.end(now, None)
        return self._polls.answer(b"", now)

    def _close_silent_link(self, now: float) -> Sequence[Action[L]]:
        cut: list[Action[L]] = [] if self.link is None else [CloseLink(self.link)]
        return [*cut, *self._detach(now)]

    def _detach(self, now: float) -> Sequence[Action[L]]:
        keeps = self._outlives_its_link
        self.link, self._since = None, now
        if self._session.phase is Phase.OVER:
            return ()
        if keeps:
            self._session.detach()
            return ()
        return self.end(now, None)

    def _to_actions(self, steps: Iterable[Step], now: float) -> Sequence[Action[L]]:
        """Return the session's steps as actions on links."""
        actions: list[Action[L]] = []
        for step in steps:
            if isinstance(step, SessionEnd):
                actions += self._end_actions(step, now)
            elif isinstance(step, Record):
                assert self.link is not None, (
                    "the session sends records only while a link is attached"
                )
                actions.append(Write(self.link, step))
            else:
                actions.append(step)
        send_buffer = self._session.send_buffer
        if self._polls.waiting is not None and not send_buffer.empty:
            body = b"".join(
                record.data for record in send_buffer.take_batch(single=self._polls.single)
            )
            actions += self._polls.answer(body, now)
        return actions

    def _end_actions(self, end: SessionEnd, now: float) -> Iterator[Action[L]]:
        yield RemoveConnection()
        if self._polls.waiting is not None:
            rest = b"".join(record.data for record in self._session.send_buffer.take_batch())
            body = rest + end.last.data if end.last else rest
            yield from self._polls.answer(body, now, 200 if body else 204)
        if self.link is not None and not end.leave:
            yield CloseLink(self.link, end.last)
        self.link = None
