"""The outgoing records of one connection: which may be sent now, and which wait."""

from collections import deque
from collections.abc import Iterator

from agentd.live.signalr.backlog import Backlog
from agentd.live.signalr.records import EventRecord, Record
from agentd.live.signalr.resumption import Resumption

BATCH_BYTES = 256 * 1024
"""The approximate size of a batch for a client that was slow, in bytes."""


class SendBuffer:
    """Passes records on in order, and keeps those that cannot be sent yet.

    ``ready``: there is a link, and it has written what it was given. ``is_blocked``: no tracked
    record may be sent yet, only answers, which go first. While it is ready and not blocked, nothing
    waits. ``resumption`` is set with stateful reconnect.
    """

    def __init__(self) -> None:
        self.ready = False
        self.is_blocked = True
        self.resumption: Resumption | None = None
        self.blocked_since = 0.0
        """The time at which a slow link was last given records."""
        self._detached = False
        self._front: deque[Record] = deque()
        self._waiting: Backlog[Record] = Backlog()

    @property
    def empty(self) -> bool:
        """True if nothing waits that a ready link could take."""
        return not (self._front or (self._waiting and not self.is_blocked))

    @property
    def has_room(self) -> bool:
        """True if nothing waits, and few records are unacknowledged."""
        many_unacknowledged = self.resumption is not None and self.resumption.is_half_full
        return not (self._front or self._waiting or many_unacknowledged)

    @property
    def is_full(self) -> bool:
        """True if more waits than is allowed for one client."""
        too_many_unacknowledged = self.resumption is not None and self.resumption.is_full
        return too_many_unacknowledged or self._waiting.is_full

    def put(self, record: Record) -> bool:
        """Add a tracked record; return whether to write it now, otherwise it waits."""
        if self.resumption:
            self.resumption.track_sent(record)
        if self.ready and not self.is_blocked:
            return True
        if not self._detached:
            self._waiting.append(record)
        return False

    def put_front(self, record: Record) -> bool:
        """Add an untracked answer; return whether to write it now, otherwise it goes first."""
        if not self.ready:
            self._front.append(record)
        return self.ready

    def take_batch(self, *, single: bool = False) -> Iterator[Record]:
        """Remove and yield what may be sent now: about ``BATCH_BYTES``, or a ``single`` record."""
        room = BATCH_BYTES
        while not self.empty and room > 0:
            record = self._front.popleft() if self._front else self._waiting.popleft()
            room = 0 if single else room - len(record.data)
            yield record

    def pause(self, now: float) -> None:
        """Make records wait: the link has not written what it was given."""
        self.ready, self.blocked_since = False, now

    def finish_batch(self, now: float) -> None:
        """Note that a batch was written; the link stays ready only if nothing waits."""
        self.ready, self.blocked_since = self.empty, now

    def reset(self) -> None:
        """Prepare for another link: of what waits, only events are kept for it.

        With stateful reconnect the resumption has them, and they will be resent.
        """
        waiting, self._waiting = self._waiting, Backlog()
        self._front.clear()
        self._detached = self.resumption is not None
        self.ready, self.is_blocked = False, True
        for record in waiting:
            if isinstance(record, EventRecord) and not self._detached:
                self._waiting.append(record)

    def send_again(self) -> None:
        """Queue all unacknowledged records for the new link."""
        self._detached = False
        for record in self.resumption.iter_unacknowledged() if self.resumption else ():
            self._waiting.append(record)
