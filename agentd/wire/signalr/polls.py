"""The long polls of one connection: at most one waits, a newer one takes over."""

from typing import Generic, TypeVar

from msgspec import Struct

L = TypeVar("L")

POLL_TIMEOUT = 90.0
"""Seconds that a poll waits; JavaScript gives up by itself after 100."""

GONE_AFTER = 30.0
"""Seconds without a poll, after which the client is gone."""


class Answer(Struct, Generic[L], frozen=True):
    """Answer the poll ``link`` with this status and body. A 204 carries no body at all."""

    link: L
    status: int
    body: bytes = b""


class Polls(Generic[L]):
    """Which poll waits, since when, and how much it takes at once."""

    def __init__(self, now: float) -> None:
        self.waiting: L | None = None
        self.single = False
        self._opened = False
        self._since = now

    def came(self, link: L, now: float, *, single: bool) -> list[Answer[L]]:
        """A poll came: the first is answered at once, empty; one that waited gives way."""
        self._since = now
        if not self._opened:
            self._opened = True
            return [Answer(link, 200)]
        before = self.waiting
        self.waiting, self.single = link, single
        return [] if before is None else [Answer(before, 204)]

    def answered(self, body: bytes, now: float, status: int = 200) -> list[Answer[L]]:
        """Answer the poll that waits, if any."""
        link, self.waiting = self.waiting, None
        if link is None:
            return []
        self._since = now
        return [Answer(link, status, body)]

    def left(self, link: L, now: float) -> None:
        """The client went away from this poll."""
        if self.waiting is link:
            self.waiting = None
            self._since = now

    @property
    def due(self) -> float:
        """When the poll that waits is to be answered, or else when the client is gone."""
        return self._since + (GONE_AFTER if self.waiting is None else POLL_TIMEOUT)
