"""One line per answer, gathered and written together off the loop.

A line written at once costs a fifth of a small request; gathered it costs next to nothing.
The query is never written: it may hold a key.
"""

import asyncio
import sys
from collections import Counter
from typing import IO, NamedTuple

from agentd.clock import Clock, Timestamp
from agentd.redaction import scrub, visible

FLUSH_SECONDS = 0.5
_KEPT_LINES = 10_000
"""More than that before a flush, and lines are dropped and counted: memory stays bounded."""
_LONGEST = 500
"""Characters of a path that are kept."""
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"))


class Line(NamedTuple):
    """What is noted of one answer."""

    at: Timestamp
    remote_ip: str
    caller: str
    method: str
    path: str
    status: int
    seconds: float
    request_id: str

    def __str__(self) -> str:
        """One line of text, without secrets and without anything unprintable."""
        path = scrub(visible(self.path))
        return (
            f"{self.at} {self.remote_ip} {visible(self.caller)} {self.method} {path}"
            f" {self.status} {self.seconds * 1000:.1f}ms {self.request_id}"
        )


class AccessLog:
    """Gathers lines and writes them to ``stream`` twice a second; counts answers by status."""

    def __init__(self, clock: Clock, stream: IO[str] | None = None) -> None:
        self._clock = clock
        self._stream = stream or sys.stderr
        self._lines: list[Line] = []
        self._dropped = 0
        self._timer: asyncio.TimerHandle | None = None
        self.answers: Counter[tuple[str, int]] = Counter()
        """How many answers were given, by method and status."""

    def note(
        self,
        remote_ip: str,
        caller: str,
        method: str,
        path: str,
        status: int,
        seconds: float,
        request_id: str,
    ) -> None:
        """Remember one answer."""
        method = method if method in _METHODS else "other"  # a caller's word may be anything
        self.answers[method, status] += 1
        if len(self._lines) >= _KEPT_LINES:
            self._dropped += 1
            return
        if len(path) > _LONGEST:  # scrubbed before it is cut: half a secret would not be known
            path = f"{scrub(path)[:_LONGEST]}..."
        self._lines.append(
            Line(self._clock.now(), remote_ip, caller, method, path, status, seconds, request_id)
        )
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(FLUSH_SECONDS, self._flush_later)

    def flush(self) -> None:
        """Write what was gathered, and nothing later by itself. Blocking: a pipe may be slow."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        lines, self._lines = self._lines, []
        dropped, self._dropped = self._dropped, 0
        self._write(lines, dropped)

    def _flush_later(self) -> None:
        self._timer = None
        lines, self._lines = self._lines, []
        dropped, self._dropped = self._dropped, 0
        asyncio.get_running_loop().run_in_executor(None, self._write, lines, dropped)

    def _write(self, lines: list[Line], dropped: int) -> None:
        text = "".join(f"{line}\n" for line in lines)
        if dropped:
            text += f"{dropped} access lines were dropped: the log does not keep up\n"
        self._stream.write(text)
        self._stream.flush()
