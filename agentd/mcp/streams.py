"""The signal that wakes or ends a stream of events to a client."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

from agentd.core.errors import Unauthorized
from agentd.http.connections import ConnectionRegistry
from agentd.http.request import Request

KEEP_ALIVE_SECONDS = 15.0
KEEP_ALIVE = b":\n\n"
"""A comment, which clients ignore."""
CLOSE_SECONDS = 0.5
"""Seconds that an ended stream has to send its last message."""

HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-store",
}


class StreamSignal:
    """Wakes the task that sends a stream, and ends it; made by that task."""

    def __init__(self) -> None:
        self.ended = False
        self._refusal = ""
        self._task = asyncio.current_task()
        self._woken = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    @contextmanager
    def register(cls, connections: ConnectionRegistry, request: Request) -> Iterator[Self]:
        """Count the stream as a live connection, which ends with its key or the daemon."""
        connections.check(request.caller, request.headers.get("Origin"), request.remote_ip)
        signal = cls()
        with connections.register(request.caller, signal.end, request.remote_ip):
            try:
                yield signal
            finally:
                signal.cancel_timer()

    def wake(self) -> None:
        """Let the task look again."""
        self._woken.set()

    def end(self, refusal: str = "") -> None:
        """End the stream with its last message, or by cancelling when that takes too long."""
        if self.ended:
            return
        self.ended, self._refusal = True, refusal
        self._woken.set()
        if self._task:
            self._timer = asyncio.get_running_loop().call_later(CLOSE_SECONDS, self._task.cancel)

    def check_caller(self) -> None:
        """Raise ``Unauthorized`` once the stream was ended because its key is no longer valid."""
        if self._refusal:
            raise Unauthorized(self._refusal)

    async def wait(self, seconds: float) -> bool:
        """Return True once woken or ended, False after ``seconds``."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        woken = self._woken.is_set()
        self._woken.clear()
        return woken or self.ended

    def cancel_timer(self) -> None:
        """Stop the timer of a stream that has ended."""
        if self._timer:
            self._timer.cancel()
