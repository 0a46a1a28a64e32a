"""The way out of one connection: what may go now, what waits, and how much of it at most."""

from collections import deque
from collections.abc import Iterator

from agentd.wire.signalr.backlog import Backlog
from agentd.wire.signalr.records import Event, Record
from agentd.wire.signalr.resumption import Resumption

PORTION = 256 * 1024
"""Bytes that are let go at a time to a client that was slow."""


class Outlet:
    """Puts records out in order, and keeps what cannot go.

    ``ready``: a socket takes what is put out, and has not too much to write. ``held``: nothing
    tracked may go yet, only answers that may go ahead of it. Ready and not held, nothing waits.
    ``resumption`` is there under stateful reconnect.
    """

    def __init__(self) -> None:
        self.ready = False
        self.held = True
        self.resumption: Resumption | None = None
        self.blocked = 0.0
        """The moment at which a slow socket was last given something."""
        self._away = False
        self._ahead: deque[Record] = deque()
        self._waiting: Backlog[Record] = Backlog()

    @property
    def empty(self) -> bool:
        """Whether nothing waits that could go if only a socket took it."""
        return not (self._ahead or (self._waiting and not self.held))

    @property
    def has_room(self) -> bool:
        """Whether nothing waits here, and little to be acknowledged."""
        much = self.resumption is not None and self.resumption.half_full
        return not (self._ahead or self._waiting or much)

    @property
    def full(self) -> bool:
        """Whether more waits than may be kept for one client."""
        kept = self.resumption is not None and self.resumption.full
        return kept or self._waiting.full

    def put(self, record: Record) -> bool:
        """Whether this tracked record is to be written now; if not, it waits."""
        if self.resumption:
            self.resumption.keep(record)
        if self.ready and not self.held:
            return True
        if not self._away:
            self._waiting.append(record)
        return False

    def put_ahead(self, record: Record) -> bool:
        """Whether this untracked answer is to be written now; if not, it goes before all else."""
        if not self.ready:
            self._ahead.append(record)
        return self.ready

    def portion(self, *, single: bool = False) -> Iterator[Record]:
        """What may go now: about ``PORTION`` bytes, or a ``single`` record."""
        room = PORTION
        while not self.empty and room > 0:
            record = self._ahead.popleft() if self._ahead else self._waiting.popleft()
            room = 0 if single else room - len(record.data)
            yield record

    def pause(self, now: float) -> None:
        """The socket has too much to write: what comes now waits."""
        self.ready, self.blocked = False, now

    def rest(self, now: float) -> None:
        """A portion went to the socket: it is ready for more only if it was all."""
        self.ready, self.blocked = self.empty, now

    def renew(self) -> None:
        """The socket is gone: of what waits only events are still of use to the next one.

        Under stateful reconnect the resumption keeps these, and will have them sent again.
        """
        waiting, self._waiting = self._waiting, Backlog()
        self._ahead.clear()
        self._away = self.resumption is not None
        self.ready, self.held = False, True
        for record in waiting:
            if isinstance(record, Event) and not self._away:
                self._waiting.append(record)

    def send_again(self) -> None:
        """All that the client has not acknowledged goes out first."""
        self._away = False
        for record in self.resumption.again() if self.resumption else ():
            self._waiting.append(record)
