"""Stateful reconnect: both sides count messages, and resend those that were not acknowledged.

Messages carry no number: both sides count messages of types 1 to 5, from 1.
"""

from collections.abc import Iterator

from agentd.core.errors import BadRequest
from agentd.live.signalr.backlog import Backlog
from agentd.live.signalr.records import Record

ACK_AFTER = 1.0
"""Seconds from a client's message to its acknowledgement."""


class Resumption:
    """The counters of both directions of one connection, and the unacknowledged records."""

    def __init__(self) -> None:
        self._unacknowledged: Backlog[Record] = Backlog()
        self._sent = 0
        self._next = 1
        self._received = 0
        self._acknowledge_at: float | None = None

    @property
    def is_full(self) -> bool:
        """True if too many records are unacknowledged."""
        return self._unacknowledged.is_full

    @property
    def is_half_full(self) -> bool:
        """True if half of the allowed records are unacknowledged."""
        return self._unacknowledged.is_half_full

    def track_sent(self, record: Record) -> None:
        """Give a tracked record the next number, and keep it until it is acknowledged."""
        self._unacknowledged.append(record)
        self._sent += 1

    def on_acknowledged(self, number: int) -> None:
        """Drop the records up to this number, which the client has received.

        A number above the last one sent means all of them.
        """
        while self._unacknowledged and self.oldest <= number:
            self._unacknowledged.popleft()

    @property
    def oldest(self) -> int:
        """The number to announce: of the oldest unacknowledged record, or the next to be sent.

        Microsoft's document says otherwise, but the JavaScript client closes on that.
        """
        return self._sent - len(self._unacknowledged) + 1

    def iter_unacknowledged(self) -> Iterator[Record]:
        """Yield the unacknowledged records, in order."""
        return iter(self._unacknowledged)

    def count_received(self, now: float) -> bool:
        """Count a tracked message of the client; return whether it is new, not a repetition."""
        number = self._next
        self._next += 1
        if self._acknowledge_at is None:
            self._acknowledge_at = now + ACK_AFTER
        new = number > self._received
        self._received = max(number, self._received)
        return new

    def restart(self, number: int) -> None:
        """Set the number of the client's next tracked message.

        Raises ``BadRequest`` for an impossible one: below 1 all later messages would count as
        repetitions, above the count messages would be missing.
        """
        if not 1 <= number <= self._next:
            raise BadRequest(f"Sequence {number} is not between 1 and {self._next}")
        self._next = number

    @property
    def acknowledge_at(self) -> float | None:
        """The time to acknowledge the client's messages; None if there are no new ones."""
        return self._acknowledge_at

    def acknowledge(self) -> int:
        """Return the number to acknowledge, and stop the timer."""
        self._acknowledge_at = None
        return self._received
