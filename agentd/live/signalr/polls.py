"""The long polls of one connection: at most one waits, and a newer one replaces it."""

from typing import Generic, TypeVar

from msgspec import Struct

L = TypeVar("L")

POLL_TIMEOUT = 90.0
"""Seconds that a poll waits; the JavaScript client gives up after 100."""

GONE_AFTER = 30.0
"""Seconds without a poll after which the client is considered gone."""


class AnswerPoll(Struct, Generic[L], frozen=True):
    """Answer the poll ``link`` with this status and body. A 204 carries no body at all."""

    link: L
    status: int
    body: bytes = b""


class LongPolls(Generic[L]):
    """The waiting poll, since when it waits, and how many records it accepts."""

    def __init__(self, now: float) -> None:
        self.waiting: L | None = None
        self.single = False
        self._opened = False
        self._since = now

    def add_poll(self, link: L, now: float, *, single: bool) -> list[AnswerPoll[L]]:
        """Add a poll; the first is answered at once with nothing, a waiting one with 204."""
        self._since = now
        if not self._opened:
            self._opened = True
            return [AnswerPoll(link, 200)]
        before = self.waiting
        self.waiting, self.single = link, single
        return [] if before is None else [AnswerPoll(before, 204)]

    def answer(self, body: bytes, now: float, status: int = 200) -> list[AnswerPoll[L]]:
        """Answer the waiting poll, if there is one."""
        link, self.waiting = self.waiting, None
        if link is None:
            return []
        self._since = now
        return [AnswerPoll(link, status, body)]

    def remove_poll(self, link: L, now: float) -> None:
        """Remove a poll that the client abandoned."""
        if self.waiting is link:
            self.waiting = None
            self._since = now

    @property
    def due(self) -> float:
        """When the poll must be answered or, without one, the client counts as gone."""
        return self._since + (GONE_AFTER if self.waiting is None else POLL_TIMEOUT)
