"""A request body that is read while it arrives."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from agentd.core.errors import BadRequest, TooLarge

IDLE_TIMEOUT = 30.0
"""Seconds without any bytes after which a body is given up."""
MAX_BUFFERED = 1024 * 1024
"""Bytes that are buffered before reading from the connection pauses."""
RECHECK_SECONDS = 0.5
"""The seconds between checks of the caller's credentials; also checked at the end."""


class BodyStream(AsyncIterator[bytes]):
    """The chunks of a body as they arrive; buffers about ``MAX_BUFFERED`` bytes at most.

    ``check_caller`` raises once the caller may no longer send, and so does the iteration then.
    Raises ``TooLarge`` as soon as there are more than ``limit`` bytes.
    """

    def __init__(self, limit: int, check_caller: Callable[[], Awaitable[None]]) -> None:
        self.is_open = True
        """False once the consumer has closed it; what still arrives is to be discarded."""
        self._limit = limit
        self._check_caller = check_caller
        self._chunks: deque[bytes] = deque()
        self._buffered = 0
        self._size = 0
        self._ended = False
        self._checked_at = 0.0
        self._arrived = asyncio.Event()
        self._taken = asyncio.Event()

    def feed(self, chunk: bytes) -> Coroutine[Any, Any, None] | None:
        """Add received bytes; return what to await before reading more, if anything."""
        self._size += len(chunk)
        if self._size <= self._limit:
            self._chunks.append(chunk)
            self._buffered += len(chunk)
        self._arrived.set()
        return self._wait_for_room() if self._buffered >= MAX_BUFFERED else None

    def finish(self) -> None:
        """Mark the body as complete."""
        self._ended = True
        self._arrived.set()

    def close(self) -> None:
        """Drop the buffer: the consumer stopped reading."""
        self.is_open = False
        self._chunks.clear()
        self._taken.set()

    async def __anext__(self) -> bytes:
        remaining = IDLE_TIMEOUT
        while not (self._chunks or self._ended):
            if remaining <= 0:
                raise BadRequest(
                    "The body stopped arriving",
                    f"No bytes were received for {IDLE_TIMEOUT:.0f} seconds.",
                )
            remaining -= RECHECK_SECONDS
            self._arrived.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(RECHECK_SECONDS):
                    await self._arrived.wait()
            await self._recheck_caller()
        await self._recheck_caller()
        if self._size > self._limit:
            raise TooLarge("The body is too large", f"At most {self._limit} bytes.")
        if not self._chunks:
            raise StopAsyncIteration
        chunk = self._chunks.popleft()
        self._buffered -= len(chunk)
        if self._buffered < MAX_BUFFERED:
            self._taken.set()
        return chunk

    async def _recheck_caller(self) -> None:
        now = time.monotonic()
        over = self._ended and not self._chunks
        if over or now - self._checked_at >= RECHECK_SECONDS:
            await self._check_caller()
            self._checked_at = now

    async def _wait_for_room(self) -> None:
        if self.is_open and self._buffered >= MAX_BUFFERED:
            self._taken.clear()
            await self._taken.wait()
