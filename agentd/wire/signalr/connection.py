"""One client of the hub, over all the sockets that it comes by.

The shell tells what happened and carries out, in order, the actions that come back. A *link* is
whatever the shell calls a socket, a stream or a poll; links are told apart by identity.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from math import inf
from operator import itemgetter
from typing import Generic, TypeAlias, TypeVar

from msgspec import Struct

from agentd.errors import BadRequest, Conflict, MethodNotAllowed, NotFound
from agentd.wire.signalr.hub import Command
from agentd.wire.signalr.negotiate import Terms, Transport
from agentd.wire.signalr.polls import Answer, Polls
from agentd.wire.signalr.records import COME_BACK, Event, Record
from agentd.wire.signalr.session import Over, Phase, Session, Step

L = TypeVar("L")

CONNECT_WITHIN = 15.0
"""Seconds from the negotiation to the first transport."""

KEEP_LOST = 60.0
"""Seconds for which a connection that can come back outlives its link."""

BLOCKED = 10.0
"""Seconds that a slow client has for each portion."""


class Write(Struct, Generic[L], frozen=True, gc=False):
    """Write this record to the link: its ``frame`` to a WebSocket, its ``unit`` to a stream."""

    link: L
    record: Record


class Cut(Struct, Generic[L], frozen=True):
    """Write ``last``, if there is one, then end this link (a WebSocket with code 1000)."""

    link: L
    last: Record | None = None


class Forget(Struct, frozen=True):
    """The connection is over: its token is to be found no more, before anything else is done.

    A link that no ``Cut`` names stays open, unheeded, until shutdown: a client that abandoned it
    would take its end for the end of its newer connection.
    """


Action: TypeAlias = Write[L] | Cut[L] | Answer[L] | Command | Forget
"""What to do. A ``Subscribe`` that has ``since`` is to be followed by ``Connection.caught_up``."""

Timer: TypeAlias = tuple[float, Callable[[float], Sequence[Action[L]]]]


class Connection(Generic[L]):
    """The links of one client, one after the other, and how long each may take.

    After the actions are carried out: as long as it is ``paused``, wait until the link has
    written everything, then carry out ``resume``. Call ``tick`` when the moment ``due`` has come.
    """

    def __init__(self, terms: Terms, now: float) -> None:
        self.link: L | None = None
        self._terms = terms
        self._transport: Transport | None = None
        self._session = Session(now)
        self._polls: Polls[L] = Polls(now)
        self._since = now

    def check(self, transport: Transport) -> None:
        """Raise what a new link of this kind would meet, so that no upgrade is wasted on it.

        ``NotFound`` when the connection is over, ``BadRequest`` for another transport than
        before, ``Conflict`` when a link is there that may not be replaced.
        """
        if self._session.phase is Phase.OVER:
            raise NotFound("No such connection")
        if self._transport not in (None, transport):
            raise BadRequest(f"This connection uses {self._transport}")
        if self.link is not None and not self._outlives_its_link:
            raise Conflict("This connection is open already")

    def attach(self, link: L, transport: Transport, now: float) -> Sequence[Action[L]]:
        """A WebSocket or a stream was opened for it; raises as ``check`` does.

        A link that was there is replaced, even if it still looks open.
        """
        self.check(transport)
        before, again = self.link, self._transport is not None
        self.link, self._transport, self._since = link, transport, now
        self._session.stateful = self._terms.stateful and transport is Transport.WEBSOCKET
        actions = self._carried(self._session.took(again=again, now=now), now)
        return actions if before is None else [Cut(before), *actions]

    def poll(self, link: L, now: float, *, single: bool = False) -> Sequence[Action[L]]:
        """A long poll came; ``single``: it takes one record at most (``Accept: Text``).

        Raises as ``check`` does.
        """
        self.check(Transport.POLLING)
        self._transport = Transport.POLLING
        return [*self._polls.came(link, now, single=single), *self._carried((), now)]

    def lost(self, link: L, now: float) -> Sequence[Action[L]]:
        """The link broke, or the client closed it."""
        self._polls.left(link, now)
        return self._parted(now) if link is self.link else ()

    def received(self, link: L, data: bytes | str, now: float) -> Sequence[Action[L]]:
        """The client sent this over its WebSocket; over a former one it means nothing."""
        if link is not self.link:
            return ()
        given = data if isinstance(data, bytes) else data.encode(errors="replace")
        return self._carried(self._session.take(given, now), now)

    def posted(self, data: bytes, now: float) -> Sequence[Action[L]]:
        """The client posted this, perhaps before it opened a transport.

        Raises ``NotFound`` when the connection is over, ``MethodNotAllowed`` on a WebSocket.
        """
        if self._session.phase is Phase.OVER:
            raise NotFound("No such connection")
        if self._transport is Transport.WEBSOCKET:
            raise MethodNotAllowed("A WebSocket takes its records itself", ("GET",))
        return self._carried(self._session.take(data, now), now)

    def tell(self, event: Event, now: float) -> Sequence[Action[L]]:
        """Something changed: it goes out, or waits, or is not wanted here."""
        return self._carried(self._session.tell(event, now), now)

    def catch_up(self, missed: Iterable[Event], now: float) -> Sequence[Action[L]]:
        """Tell a part of what a ``Subscribe`` with ``since`` missed; ``caught_up`` is to follow.

        The connection's bounds hold here too: tell the next part once it ``has_room``.
        """
        return self._carried(self._session.catch_up(missed, now), now)

    @property
    def has_room(self) -> bool:
        """Whether the client has taken what it was told; so, too, when the connection is over."""
        return self._session.phase is Phase.OVER or (self._session.has_room and not self.paused)

    def caught_up(self, missed: Iterable[Event], upto: int, now: float) -> Sequence[Action[L]]:
        """Tell the rest of what a ``Subscribe`` with ``since`` missed, up to the seq ``upto``.

        Live events waited meanwhile; those that were missed are not told twice. The call is
        answered in between, so that its caller knows when it is up to date.
        """
        return self._carried(self._session.caught_up(missed, upto, now), now)

    def pause(self, link: L, now: float) -> None:
        """The link has more to write than it should: what comes now waits here."""
        if link is self.link and self._session.outlet.ready:
            self._session.outlet.pause(now)

    @property
    def paused(self) -> bool:
        """Whether the link is to be asked to ``resume`` once it has written everything."""
        return self.link is not None and not self._session.outlet.ready

    def resume(self, link: L, now: float) -> Sequence[Action[L]]:
        """The link has written everything: here is a portion of what waits."""
        if link is not self.link or not self.paused:
            return ()
        return self._carried(self._session.resume(now), now)

    def end(self, now: float, last: Record | None = COME_BACK) -> Sequence[Action[L]]:
        """End it: at shutdown as it is, for a revoked key with ``closing(…)``, None on DELETE."""
        return self._carried(self._session.end(last), now)

    @property
    def due(self) -> float:
        """The moment at which to call ``tick``; infinite once it is over."""
        return min((moment for moment, _ in self._timers()), default=inf)

    def tick(self, now: float) -> Sequence[Action[L]]:
        """Time went by: pings, acknowledgements, and the ends of all waiting."""
        actions: list[Action[L]] = []
        while timers := [timer for timer in self._timers() if timer[0] <= now]:
            _, act = min(timers, key=itemgetter(0))
            actions += act(now)
        return actions

    @property
    def _outlives_its_link(self) -> bool:
        """Version 0 dials the same id with a new handshake, a resumption without one."""
        socket = self._transport is Transport.WEBSOCKET
        return socket and (self._terms.version == 0 or self._session.resumable)

    def _timers(self) -> Iterator[Timer[L]]:
        """When to do what, if nothing else happens before."""
        session = self._session
        if session.phase is Phase.OVER:
            return
        for moment, step in session.timers():
            yield moment, partial(self._passed, step)
        if self._transport is None:
            yield self._since + CONNECT_WITHIN, self._expired
        elif self._transport is Transport.POLLING:
            yield self._polls.due, self._poll_passed
        elif session.phase is Phase.AWAY:
            yield self._since + KEEP_LOST, self._expired
        elif self.paused:
            yield session.outlet.blocked + BLOCKED, self.end
        if self.link is not None and session.silent_at is not None:
            yield session.silent_at, self._unheard

    def _passed(self, step: Callable[[], None], now: float) -> Sequence[Action[L]]:
        return self._carried(self._session.passed(step, now), now)

    def _expired(self, now: float) -> Sequence[Action[L]]:
        return self.end(now, None)

    def _poll_passed(self, now: float) -> Sequence[Action[L]]:
        if self._polls.waiting is None:
            return self.end(now, None)
        return self._polls.answered(b"", now)

    def _unheard(self, now: float) -> Sequence[Action[L]]:
        cut: list[Action[L]] = [] if self.link is None else [Cut(self.link)]
        return [*cut, *self._parted(now)]

    def _parted(self, now: float) -> Sequence[Action[L]]:
        keeps = self._outlives_its_link
        self.link, self._since = None, now
        if self._session.phase is Phase.OVER:
            return ()
        if keeps:
            self._session.left()
            return ()
        return self.end(now, None)

    def _carried(self, steps: Iterable[Step], now: float) -> Sequence[Action[L]]:
        """The session's steps as actions on links."""
        actions: list[Action[L]] = []
        for step in steps:
            if isinstance(step, Over):
                actions += self._ended(step, now)
            elif isinstance(step, Record):
                assert self.link is not None, "only what a link takes is put out"
                actions.append(Write(self.link, step))
            else:
                actions.append(step)
        outlet = self._session.outlet
        if self._polls.waiting is not None and not outlet.empty:
            body = b"".join(record.data for record in outlet.portion(single=self._polls.single))
            actions += self._polls.answered(body, now)
        return actions

    def _ended(self, over: Over, now: float) -> Iterator[Action[L]]:
        yield Forget()
        if self._polls.waiting is not None:
            rest = b"".join(record.data for record in self._session.outlet.portion())
            body = rest + over.last.data if over.last else rest
            yield from self._polls.answered(body, now, 200 if body else 204)
        if self.link is not None and not over.leave:
            yield Cut(self.link, over.last)
        self.link = None
