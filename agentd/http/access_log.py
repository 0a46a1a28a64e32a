"""The access log: one line per response, buffered and written in batches off the loop.

Writing each line at once costs a fifth of a small request; in batches it costs next to nothing.
The query is never written: it may hold a key.
"""

import asyncio
import sys
from collections import Counter
from typing import IO, NamedTuple

from agentd.core.clock import Clock, Timestamp
from agentd.core.redaction import escape_unprintable, scrub

FLUSH_SECONDS = 0.5
_MAX_LINES = 10_000
"""Lines that are buffered; more until the next flush are dropped and counted."""
_MAX_PATH_LENGTH = 500
"""Characters of a path that are kept."""
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"))


class AccessLogLine(NamedTuple):
    """A response, as it is logged."""

    at: Timestamp
    remote_ip: str
    caller: str
    method: str
    path: str
    status: int
    seconds: float
    request_id: str

    def __str__(self) -> str:
        """Return one line of text, without secrets and without unprintable characters."""
        path = escape_unprintable(scrub(self.path))
        return (
            f"{self.at} {self.remote_ip} {escape_unprintable(self.caller)} {self.method} {path}"
            f" {self.status} {self.seconds * 1000:.1f}ms {self.request_id}"
        )


class AccessLog:
    """Writes lines to ``stream`` twice a second; counts responses by method and status."""

    def __init__(self, clock: Clock, stream: IO[str] | None = None) -> None:
        self._clock = clock
        self._stream = stream or sys.stderr
        self._lines: list[AccessLogLine] = []
        self._dropped = 0
        self._timer: asyncio.TimerHandle | None = None
        self.answers: Counter[tuple[str, int]] = Counter()
        """The number of responses sent, by method and status."""

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
        """Log one response with the next batch."""
        # A caller may send any method; without this, each would be another counter forever.
        method = method if method in _METHODS else "other"
        self.answers[method, status] += 1
        if len(self._lines) >= _MAX_LINES:
            self._dropped += 1
            return
        if len(path) > _MAX_PATH_LENGTH:
            # Scrub before cutting: half a secret would not be recognized as one.
            path = f"{scrub(path)[:_MAX_PATH_LENGTH]}..."
        self._lines.append(
            AccessLogLine(
                self._clock.now(), remote_ip, caller, method, path, status, seconds, request_id
            )
        )
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(FLUSH_SECONDS, self._flush_later)

    def flush(self) -> None:
        """Write the buffered lines now and cancel the timer. Blocks: a pipe may be slow."""
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

    def _write(self, lines: list[AccessLogLine], dropped: int) -> None:
        text = "".join(f"{line}\n" for line in lines)
        if dropped:
            text += f"{dropped} access log lines were dropped: the log stream is too slow\n"
        self._stream.write(text)
        self._stream.flush()
