"""Stateful reconnect: both sides count what they send, and send again what was not acknowledged.

No number travels with a message: both sides count alike, from 1, messages of types 1 to 5.
"""

from collections.abc import Iterator

from agentd.errors import BadRequest
from agentd.wire.signalr.backlog import Backlog
from agentd.wire.signalr.records import Record

ACK_AFTER = 1.0
"""Seconds from a client's message to its acknowledgement."""


class Resumption:
    """Both directions of one connection."""

    def __init__(self) -> None:
        self._unacknowledged: Backlog[Record] = Backlog()
        self._sent = 0
        self._next = 1
        self._received = 0
        self._acknowledge_at: float | None = None

    @property
    def full(self) -> bool:
        """More waits to be acknowledged than may be kept."""
        return self._unacknowledged.full

    @property
    def half_full(self) -> bool:
        """Half of what may be kept waits to be acknowledged."""
        return self._unacknowledged.half_full

    def keep(self, record: Record) -> None:
        """A tracked record is sent, or would be: it gets the next number."""
        self._unacknowledged.append(record)
        self._sent += 1

    def acknowledged(self, number: int) -> None:
        """The client has all up to this number; one that was never sent says no more than that."""
        while self._unacknowledged and self.oldest <= number:
            self._unacknowledged.popleft()

    @property
    def oldest(self) -> int:
        """The number to announce: of the oldest unacknowledged record, or the next to be sent.

        Microsoft's document has it otherwise; the JavaScript client closes on that.
        """
        return self._sent - len(self._unacknowledged) + 1

    def again(self) -> Iterator[Record]:
        """The unacknowledged records, in order."""
        return iter(self._unacknowledged)

    def counted(self, now: float) -> bool:
        """A tracked message of the client arrived: whether it is new, not one sent again."""
        number = self._next
        self._next += 1
        if self._acknowledge_at is None:
            self._acknowledge_at = now + ACK_AFTER
        new = number > self._received
        self._received = max(number, self._received)
        return new

    def restart(self, number: int) -> None:
        """The client's next tracked message has this number.

        Raises ``BadRequest`` for one that never was: below 1 it would silence the connection for
        good, above the count messages would be missing.
        """
        if not 1 <= number <= self._next:
            raise BadRequest(f"Sequence {number} is not between 1 and {self._next}")
        self._next = number

    @property
    def acknowledge_at(self) -> float | None:
        """When the client's messages are to be acknowledged; None: nothing is new."""
        return self._acknowledge_at

    def acknowledge(self) -> int:
        """The number to acknowledge, now that it is done."""
        self._acknowledge_at = None
        return self._received
