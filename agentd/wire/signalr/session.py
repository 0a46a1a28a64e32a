"""The protocol between handshake and close: records in, records and commands out.

It knows nothing of sockets: ``Connection`` tells it when one came, was slow, or broke.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from agentd.errors import BadRequest, TooLarge
from agentd.wire.signalr import messages
from agentd.wire.signalr.framing import Records
from agentd.wire.signalr.handshake import handshake
from agentd.wire.signalr.hub import Command
from agentd.wire.signalr.listener import Listener
from agentd.wire.signalr.outlet import Outlet
from agentd.wire.signalr.records import (
    COME_BACK,
    PING,
    WELCOME,
    Event,
    Record,
    acknowledgement,
    closing,
    refusal,
    sequence,
)
from agentd.wire.signalr.resumption import Resumption

GREET_WITHIN = 15.0
"""Seconds from a new transport to the client's handshake."""

HOLD = 1.0
"""Seconds for which events wait for the client's first record after the handshake."""

PING_AFTER = 10.0
"""Seconds without a record to the client, after which it gets a ping."""

SILENCE = 30.0
"""Seconds without a record from a client that has pinged, after which its link is dead."""

SEQUENCE_WITHIN = 3.0
"""Seconds from a re-attachment to the client's Sequence."""


class Over(Struct, frozen=True):
    """The connection ends, with this ``last`` record; ``leave``: its socket stays untouched."""

    last: Record | None = None
    leave: bool = False


Step: TypeAlias = Record | Command | Over
Timer: TypeAlias = tuple[float, Callable[[], None]]


class Phase(Enum):
    """Where a session stands."""

    GREETING = "no handshake yet"
    SETTLING = "events wait for the client's first record"
    OPEN = "events flow"
    AWAY = "no socket; kept for a while"
    RESUMING = "silent until the client's Sequence"
    OVER = "nothing is taken any more"


class Session:
    """One client's side of the protocol, over however many sockets."""

    def __init__(self, now: float) -> None:
        self.outlet = Outlet()
        self.stateful = False
        """Whether a handshake of version 2 brings stateful reconnect."""
        self.phase = Phase.GREETING
        self._listener = Listener()
        self._records = Records()
        self._steps: list[Step] = []
        self._now = self._since = self._sent = self._heard = now
        self._pings = False

    @property
    def resumable(self) -> bool:
        """Whether another socket goes on where this one ends, without a handshake."""
        return self.outlet.resumption is not None

    @property
    def silent_at(self) -> float | None:
        """When the client has been silent too long; None until its first ping."""
        return self._heard + SILENCE if self._pings else None

    def took(self, *, again: bool, now: float) -> list[Step]:
        """A socket is there; ``again``: not the first one."""
        self._now = self._since = self._sent = self._heard = now
        if again:
            self._records = Records()
            self.outlet.renew()
            self._listener.renew()
            self.phase = Phase.RESUMING if self.resumable else Phase.GREETING
        self._release()
        return self._done()

    def left(self) -> None:
        """The socket broke: events wait for another one."""
        self.phase = Phase.AWAY
        self.outlet.renew()

    def take(self, data: bytes, now: float) -> list[Step]:
        """What the client's bytes lead to; never an error, however wrong they are."""
        self._now = now
        try:
            for record in self._records.feed(data):
                if self.phase is Phase.OVER:
                    break
                self._record(record)
        except TooLarge as error:
            self._end(closing(error.message))
        return self._done()

    def tell(self, event: Event, now: float) -> list[Step]:
        """Something changed: it goes out, or waits, or is not wanted."""
        self._now = now
        if self.phase is not Phase.OVER and self._listener.takes(event):
            self._put(event)
        return self._done()

    @property
    def has_room(self) -> bool:
        """Whether the client has taken what it was told, so that it may be told more."""
        waits_for_client = self.phase in (Phase.GREETING, Phase.AWAY, Phase.RESUMING)
        return not waits_for_client and self.outlet.has_room

    def catch_up(self, missed: Iterable[Event], now: float) -> list[Step]:
        """A part of what a ``Subscribe`` with ``since`` missed; ``caught_up`` is to follow."""
        self._now = now
        if self.phase is not Phase.OVER:
            for record in self._listener.catch_up(missed):
                self._put(record)
        return self._done()

    def caught_up(self, missed: Iterable[Event], upto: int, now: float) -> list[Step]:
        """The rest of what a ``Subscribe`` with ``since`` missed, up to the seq ``upto``."""
        self._now = now
        if self.phase is not Phase.OVER:
            for record in self._listener.caught_up(missed, upto):
                self._put(record)
        return self._done()

    def resume(self, now: float) -> list[Step]:
        """The socket has written all that it was given: another portion of what waits."""
        self._now = now
        self._release()
        return self._done()

    def timers(self) -> Iterator[Timer]:
        """When to do what, if nothing else happens before."""
        match self.phase:
            case Phase.GREETING:
                yield self._since + GREET_WITHIN, self._end
            case Phase.RESUMING:
                yield self._since + SEQUENCE_WITHIN, self._abandon
            case Phase.SETTLING:
                yield self._since + HOLD, self._open
        if self.outlet.ready and self.phase in (Phase.SETTLING, Phase.OPEN):
            yield self._sent + PING_AFTER, lambda: self._put_ahead(PING)
            resumption = self.outlet.resumption
            if resumption and resumption.acknowledge_at is not None:
                yield resumption.acknowledge_at, self._acknowledge

    def passed(self, act: Callable[[], None], now: float) -> list[Step]:
        """The moment of one of the ``timers`` has come."""
        self._now = now
        act()
        return self._done()

    def end(self, last: Record | None) -> list[Step]:
        """End it from outside; once it is over, that is nothing."""
        self._end(last)
        return self._done()

    def _record(self, record: bytes) -> None:
        try:
            if self.phase is Phase.GREETING:
                self._greet(record)
            else:
                self._heed(messages.message(record))
        except BadRequest as error:
            greeting = self.phase is Phase.GREETING
            self._end(refusal(error.message) if greeting else closing(error.message))

    def _greet(self, record: bytes) -> None:
        version = handshake(record)
        if version == 2 and self.stateful:
            self.outlet.resumption = Resumption()
        self.phase, self._since = Phase.SETTLING, self._now
        self._heard = self._now
        self._put_ahead(WELCOME)

    def _heed(self, message: messages.Message) -> None:
        if self.phase is Phase.RESUMING and not isinstance(message, messages.Sequence):
            return
        self._heard = self._now
        if self.phase is Phase.SETTLING:
            self._open()
        resumption = self.outlet.resumption
        match message:
            case messages.Ping():
                self._pings = True
            case messages.Close():
                self._end()
            case messages.Call() if resumption is None or resumption.counted(self._now):
                self._called(message)
            case messages.Passing() if resumption:
                resumption.counted(self._now)
            case messages.Ack(number) if resumption:
                resumption.acknowledged(number)
            case messages.Sequence(number) if resumption:
                self._restart(resumption, number)

    def _called(self, call: messages.Call) -> None:
        for step in self._listener.called(call):
            if isinstance(step, Record):
                self._put(step)
            else:
                self._steps.append(step)

    def _restart(self, resumption: Resumption, number: int) -> None:
        resumption.restart(number)
        if self.phase is Phase.RESUMING:
            self._put_ahead(sequence(resumption.oldest))
            self.outlet.send_again()
            self._open()

    def _open(self) -> None:
        self.phase, self.outlet.held = Phase.OPEN, False
        if self.outlet.ready:
            self._release()

    def _release(self) -> None:
        self._write(*self.outlet.portion())
        self.outlet.rest(self._now)

    def _acknowledge(self) -> None:
        if self.outlet.resumption:
            self._put_ahead(acknowledgement(self.outlet.resumption.acknowledge()))

    def _put(self, record: Record) -> None:
        if self.outlet.put(record):
            self._write(record)

    def _put_ahead(self, record: Record) -> None:
        if self.outlet.put_ahead(record):
            self._write(record)

    def _write(self, *records: Record) -> None:
        if records:
            self._steps += records
            self._sent = self._now

    def _abandon(self) -> None:
        self._end(leave=True)

    def _end(self, last: Record | None = None, *, leave: bool = False) -> None:
        if self.phase is not Phase.OVER:
            self.phase = Phase.OVER
            self._steps.append(Over(last, leave))

    def _done(self) -> list[Step]:
        if self.outlet.full or self._listener.full:
            self._end(COME_BACK)
        steps, self._steps = self._steps, []
        return steps
