"""A streamed answer while it is passed on: booked before its end goes out, whoever leaves first."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeAlias

from agentd.errors import SupplierUnreachable, Unavailable
from agentd.proxy.dialects.conversation import Finished, SupplierError
from agentd.proxy.entry import Outcome
from agentd.proxy.gateway.bill import Bill
from agentd.proxy.gateway.calling import Calling
from agentd.proxy.gateway.refusing import unanswered
from agentd.proxy.routing import Choice
from agentd.proxy.secrets.restoring import restorer
from agentd.proxy.upstream import Response

TRAILING_SECONDS = 2.0
"""How long a supplier may keep its answer open after the reply's end."""

DRAINING_SECONDS = 600.0
"""How long the rest of a reply is heard out whose caller has left."""

GONE = SupplierError("authentication", "The access key is good no more")
"""What a caller is told in the middle of a reply."""


Close: TypeAlias = Callable[[Outcome, str], Awaitable[None]]
"""Settle and book: the outcome, and the error's kind. Raises ``Unavailable``."""


class Later(Protocol):
    """Has something done that nobody waits for."""

    def __call__(self, work: Coroutine[Any, Any, None], *, waits: str = "") -> None:
        """Begin it; what ``waits`` for a supplier, with the access key of that id, may be cut."""
        ...


class Stream:
    """One streamed answer of status 200: ``begin`` it, and let it be read.

    The answer is closed with the stream, or when it does not begin. ``kept`` gathers it as it is
    before secrets are put back.
    """

    def __init__(
        self,
        response: Response,
        calling: Calling,
        choice: Choice,
        bill: Bill,
        close: Close,
        later: Later,
        kept: list[bytes] | None,
    ) -> None:
        self._response = response
        self._chunks = response.chunks()
        self._calling = calling
        self._channel = choice.channel
        self._line = calling.line(choice)
        secrets = calling.secrets
        self._restorer = restorer(calling.dialect, secrets) if secrets else None
        self._bill = bill
        self._close = close
        self._later = later
        self._kept = kept
        self._drains = choice.channel.on_leave == "drain"
        self._first = b""
        self._over = False
        self._dismissed = False
        self._coming: asyncio.Task[bytes] | None = None

    async def begin(self) -> SupplierError | None:
        """Wait for the first bytes for the caller; a failure before them is given instead."""
        begun = False
        try:
            while not self._first and not self._over:
                self._first = await self._heard()
                end = self._line.end
                if isinstance(end, SupplierError) and not self._bill.sent:
                    return end
            begun = True
        finally:
            if not begun:
                await self._end()
        self._bill.mark("first")
        return None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The portions, in their order; the last one once the call is booked."""
        portion, self._first = self._first, b""
        while True:
            self._bill.gave(portion)
            if self._line.end and not self._bill.closed:
                try:
                    await self._settled()
                except Unavailable as error:
                    yield self._line.event(SupplierError("server", error.message))
                    return
            if portion:
                yield portion
            if self._over:
                return
            portion = await self._heard()

    async def aclose(self) -> None:
        """The end, or the caller left: then the call is cut, or heard out for its count."""
        if self._bill.closed:
            await self._end()
        elif self._drains and not self._over:
            self._later(self._drained(), waits=self._bill.key.id)
        else:
            self._later(self._left())

    def dismiss(self) -> None:
        """The key is good no more: the supplier is let go of at once, and the caller told why.

        It is booked though the caller may take a while to take what he is told.
        """
        self._dismissed = True
        self._response.close()  # whoever waits for its next piece is woken
        self._later(self._cut())

    async def _heard(self) -> bytes:
        """The next bytes for the caller; none when the supplier's say nothing to him."""
        if self._dismissed:
            return self._broken(None)
        try:
            piece = await (self._trailing() if self._line.end else self._next())
        except SupplierUnreachable as error:
            return self._broken(error)
        if piece:
            return self._restored(self._line.feed(piece))
        self._over = True
        return self._restored(self._line.close())

    def _broken(self, error: SupplierUnreachable | None) -> bytes:
        """The end in the middle of the reply: ours, or the supplier's by this error."""
        self._over = True
        end = GONE
        if error and not self._dismissed:
            self._bill.gave_up = error.gave_up
            end = unanswered(self._calling.asked.id, self._channel.name, error)
        return self._restored(self._line.broken(end))

    async def _next(self) -> bytes:
        """What the supplier says next; where it is to be heard out, whoever waits may leave."""
        if not self._drains:
            return await anext(self._chunks, b"")
        if self._coming is None:
            self._coming = asyncio.get_running_loop().create_task(_piece(self._chunks))
        piece = await asyncio.shield(self._coming)
        self._coming = None
        return piece

    async def _trailing(self) -> bytes:
        """The reply has ended; its connection is kept only if the answer does, too."""
        try:
            async with asyncio.timeout(TRAILING_SECONDS):
                return await anext(self._chunks, b"")
        except TimeoutError:
            return b""

    def _restored(self, told: bytes) -> bytes:
        if self._kept is not None:
            self._kept.append(told)
        if self._restorer is None:
            return told
        told = self._restorer.feed(told)
        return told + self._restorer.close() if self._over else told

    async def _settled(self) -> None:
        end = self._line.end
        self._bill.counted(self._line.usage, told=isinstance(end, Finished))
        if end is GONE:
            await self._close("left", "")
        elif isinstance(end, SupplierError):
            await self._close("broken", end.kind)
        else:
            await self._close("ok", "")

    async def _drained(self) -> None:
        try:
            async with asyncio.timeout(DRAINING_SECONDS):
                while not self._over and not self._line.end:
                    await self._heard()
        except TimeoutError:
            pass
        finally:
            await self._left()

    async def _left(self) -> None:
        await self._end()
        await self._cut()

    async def _cut(self) -> None:
        self._bill.counted(self._line.usage, told=isinstance(self._line.end, Finished))
        await self._close("left", "")

    async def _end(self) -> None:
        """Let go of the supplier's answer, wherever it is."""
        if self._coming:
            self._coming.cancel()
            await asyncio.wait([self._coming])
        try:
            await self._chunks.aclose()
        finally:
            self._response.close()


async def _piece(chunks: AsyncGenerator[bytes, None]) -> bytes:
    return await anext(chunks, b"")
