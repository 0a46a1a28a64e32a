"""The protocol from handshake to close: records in, records and commands out.

It does not know links: ``Connection`` reports when one was opened, is slow, or broke.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from agentd.core.errors import BadRequest, TooLarge
from agentd.live.signalr import messages
from agentd.live.signalr.framing import RecordReader
from agentd.live.signalr.hub import HubCommand
from agentd.live.signalr.listener import HubListener
from agentd.live.signalr.records import (
    COME_BACK,
    PING,
    WELCOME,
    EventRecord,
    Record,
    make_ack,
    make_close,
    make_handshake_error,
    make_sequence,
)
from agentd.live.signalr.resumption import Resumption
from agentd.live.signalr.send_buffer import SendBuffer

HANDSHAKE_WITHIN = 15.0
"""Seconds from the opening of a transport to the client's handshake."""

HOLD = 1.0
"""Seconds for which events are held back until the client's first record after the handshake."""

PING_AFTER = 10.0
"""Seconds without a record to the client after which a ping is sent."""

SILENCE = 30.0
"""Seconds without a record from a client that sends pings after which its link counts as dead."""

SEQUENCE_WITHIN = 3.0
"""Seconds from a re-attachment to the client's Sequence."""


class SessionEnd(Struct, frozen=True):
    """The end of the connection, with this ``last`` record; ``leave``: its link is left open."""

    last: Record | None = None
    leave: bool = False


Step: TypeAlias = Record | HubCommand | SessionEnd
Timer: TypeAlias = tuple[float, Callable[[], None]]


class Phase(Enum):
    """The state of a session."""

    GREETING = "no handshake yet"
    SETTLING = "events are held back until the client's first record"
    OPEN = "events are sent"
    AWAY = "no link; kept for a while"
    RESUMING = "silent until the client's Sequence"
    OVER = "ended"


class Session:
    """The protocol with one client, over all its links."""

    def __init__(self, now: float) -> None:
        self.send_buffer = SendBuffer()
        self.stateful = False
        """True if a handshake of version 2 enables stateful reconnect."""
        self.phase = Phase.GREETING
        self._listener = HubListener()
        self._records = RecordReader()
        self._steps: list[Step] = []
        self._now = self._since = self._sent = self._heard = now
        self._pings = False

    @property
    def resumable(self) -> bool:
        """True if another link can continue without a handshake."""
        return self.send_buffer.resumption is not None

    @property
    def silent_at(self) -> float | None:
        """The moment at which the client was silent too long; None until its first ping."""
        return self._heard + SILENCE if self._pings else None

    def attach(self, *, again: bool, now: float) -> list[Step]:
        """Start using a link; ``again``: it is not the first one."""
        self._now = self._since = self._sent = self._heard = now
        if again:
            self._records = RecordReader()
            self.send_buffer.reset()
            self._listener.reset()
            self.phase = Phase.RESUMING if self.resumable else Phase.GREETING
        self._release()
        return self._take_steps()

    def detach(self) -> None:
        """Handle the loss of the link: events wait for another one."""
        self.phase = Phase.AWAY
        self.send_buffer.reset()

    def receive(self, data: bytes, now: float) -> list[Step]:
        """Handle data from the client; invalid data ends the session."""
        self._now = now
        try:
            for record in self._records.feed(data):
                if self.phase is Phase.OVER:
                    break
                self._handle_record(record)
        except TooLarge as error:
            self._end(make_close(error.message))
        return self._take_steps()

    def send_event(self, event: EventRecord, now: float) -> list[Step]:
        """Send a live event now or later, if the client subscribed to it."""
        self._now = now
        if self.phase is not Phase.OVER and self._listener.accepts(event):
            self._put(event)
        return self._take_steps()

    @property
    def has_room(self) -> bool:
        """True if the client has read what was sent, so that more may be sent."""
        waits_for_client = self.phase in (Phase.GREETING, Phase.AWAY, Phase.RESUMING)
        return not waits_for_client and self.send_buffer.has_room

    def catch_up(self, missed: Iterable[EventRecord], now: float) -> list[Step]:
        """Send a part of the events that a ``Subscribe`` with ``since`` missed."""
        self._now = now
        if self.phase is not Phase.OVER:
            for record in self._listener.catch_up(missed):
                self._put(record)
        return self._take_steps()

    def finish_catch_up(self, missed: Iterable[EventRecord], upto: int, now: float) -> list[Step]:
        """Send the rest of the events that a ``Subscribe`` missed, up to the seq ``upto``."""
        self._now = now
        if self.phase is not Phase.OVER:
            for record in self._listener.finish_catch_up(missed, upto):
                self._put(record)
        return self._take_steps()

    def resume(self, now: float) -> list[Step]:
        """Send the next batch: the link has written all it was given."""
        self._now = now
        self._release()
        return self._take_steps()

    def iter_timers(self) -> Iterator[Timer]:
        """Yield the time and action of each timer."""
        match self.phase:
            case Phase.GREETING:
                yield self._since + HANDSHAKE_WITHIN, self._end
            case Phase.RESUMING:
                yield self._since + SEQUENCE_WITHIN, self._abandon
            case Phase.SETTLING:
                yield self._since + HOLD, self._open
        if self.send_buffer.ready and self.phase in (Phase.SETTLING, Phase.OPEN):
            yield self._sent + PING_AFTER, lambda: self._put_front(PING)
            resumption = self.send_buffer.resumption
            if resumption and resumption.acknowledge_at is not None:
                yield resumption.acknowledge_at, self._acknowledge

    def run_timer(self, act: Callable[[], None], now: float) -> list[Step]:
        """Run the action of a timer."""
        self._now = now
        act()
        return self._take_steps()

    def end(self, last: Record | None) -> list[Step]:
        """End the session, unless it has ended."""
        self._end(last)
        return self._take_steps()

    def _handle_record(self, record: bytes) -> None:
        try:
            if self.phase is Phase.GREETING:
                self._handle_handshake(record)
            else:
                self._handle_message(messages.parse_message(record))
        except BadRequest as error:
            greeting = self.phase is Phase.GREETING
            self._end(
                make_handshake_error(error.message) if greeting else make_close(error.message)
            )

    def _handle_handshake(self, record: bytes) -> None:
        version = messages.parse_handshake(record)
        if version == 2 and self.stateful:
            self.send_buffer.resumption = Resumption()
        self.phase, self._since = Phase.SETTLING, self._now
        self._heard = self._now
        self._put_front(WELCOME)

    def _handle_message(self, message: messages.Message) -> None:
        if self.phase is Phase.RESUMING and not isinstance(message, messages.Sequence):
            return
        self._heard = self._now
        if self.phase is Phase.SETTLING:
            self._open()
        resumption = self.send_buffer.resumption
        match message:
            case messages.Ping():
                self._pings = True
            case messages.Close():
                self._end()
            case messages.Call() if resumption is None or resumption.count_received(self._now):
                self._handle_call(message)
            case messages.IgnoredMessage() if resumption:
                resumption.count_received(self._now)
            case messages.Ack(number) if resumption:
                resumption.on_acknowledged(number)
            case messages.Sequence(number) if resumption:
                self._restart(resumption, number)

    def _handle_call(self, call: messages.Call) -> None:
        for step in self._listener.handle_call(call):
            if isinstance(step, Record):
                self._put(step)
            else:
                self._steps.append(step)

    def _restart(self, resumption: Resumption, number: int) -> None:
        resumption.restart(number)
        if self.phase is Phase.RESUMING:
            self._put_front(make_sequence(resumption.oldest))
            self.send_buffer.send_again()
            self._open()

    def _open(self) -> None:
        self.phase, self.send_buffer.is_blocked = Phase.OPEN, False
        if self.send_buffer.ready:
            self._release()

    def _release(self) -> None:
        self._write(*self.send_buffer.take_batch())
        self.send_buffer.finish_batch(self._now)

    def _acknowledge(self) -> None:
        if self.send_buffer.resumption:
            self._put_front(make_ack(self.send_buffer.resumption.acknowledge()))

    def _put(self, record: Record) -> None:
        if self.send_buffer.put(record):
            self._write(record)

    def _put_front(self, record: Record) -> None:
        if self.send_buffer.put_front(record):
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
            self._steps.append(SessionEnd(last, leave))

    def _take_steps(self) -> list[Step]:
        if self.send_buffer.is_full or self._listener.is_full:
            self._end(COME_BACK)
        steps, self._steps = self._steps, []
        return steps
