"""A request's body, read while it comes."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

from agentd.errors import BadRequest, TooLarge

STREAMED_SECONDS = 900.0
"""That a streamed body may take."""
SILENCE_SECONDS = 30.0
"""After which a body that stops coming is given up."""
HELD = 1024 * 1024
"""Bytes that wait to be taken before the sender is made to wait."""
WELCOME_SECONDS = 0.5
"""How often it is made sure that the sender still may send; at the end once more."""


class Incoming(AsyncIterator[bytes]):
    """The body in portions, as they came; no more than about ``HELD`` wait to be taken.

    They are given only as long as the sender may send: ``welcome`` raises otherwise. Raises
    ``TooLarge`` as soon as there is more than ``limit`` bytes.
    """

    def __init__(self, limit: int, welcome: Callable[[], Awaitable[None]]) -> None:
        self.wanted = True
        """False once nobody takes it any more."""
        self._limit = limit
        self._welcome = welcome
        self._chunks: deque[bytes] = deque()
        self._held = 0
        self._size = 0
        self._ended = False
        self._welcomed = 0.0
        self._came = asyncio.Event()
        self._taken = asyncio.Event()

    def feed(self, chunk: bytes) -> Awaitable[None] | None:
        """Bytes that came; what is to be awaited before further ones are read, if anything."""
        self._size += len(chunk)
        if self._size <= self._limit:
            self._chunks.append(chunk)
            self._held += len(chunk)
        self._came.set()
        return self._room() if self._held >= HELD else None

    def end(self) -> None:
        """It is whole."""
        self._ended = True
        self._came.set()

    def close(self) -> None:
        """Nobody takes it any more."""
        self.wanted = False
        self._chunks.clear()
        self._taken.set()

    async def __anext__(self) -> bytes:
        patience = SILENCE_SECONDS
        while not (self._chunks or self._ended):
            if patience <= 0:
                told = f"Nothing came for {SILENCE_SECONDS:.0f} seconds."
                raise BadRequest("The body stopped coming", told)
            patience -= WELCOME_SECONDS
            self._came.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(WELCOME_SECONDS):
                    await self._came.wait()
            await self._ask_again()
        await self._ask_again()
        if self._size > self._limit:
            raise TooLarge("The body is too large", f"At most {self._limit} bytes.")
        if not self._chunks:
            raise StopAsyncIteration
        portion = self._chunks.popleft()
        self._held -= len(portion)
        if self._held < HELD:
            self._taken.set()
        return portion

    async def _ask_again(self) -> None:
        now = time.monotonic()
        over = self._ended and not self._chunks
        if over or now - self._welcomed >= WELCOME_SECONDS:
            await self._welcome()
            self._welcomed = now

    async def _room(self) -> None:
        if self.wanted and self._held >= HELD:
            self._taken.clear()
            await self._taken.wait()
