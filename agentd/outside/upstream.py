"""Calling suppliers over HTTP/1.1: streaming, over connections that are kept.

A small client of our own: those for general use cost several times more per call and per piece
of a stream than all the rest of the proxy.
"""

import asyncio
import functools
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager

from agentd.errors import SupplierUnreachable, TooLarge
from agentd.outside.dialing import Dial, direct
from agentd.outside.http_connection import Connection, Head, Limits
from agentd.outside.http_request import Origin, origin, written
from agentd.proxy.upstream import BODY_LIMIT, Request, Timeouts
from agentd.wire.inflate import KNOWN, Inflater

KEPT_SECONDS = 30.0
"""How long a connection waits for another call: shorter than most servers keep theirs."""

KEPT_CONNECTIONS = 64
"""Connections that wait, to one supplier."""

_REPEATABLE = ("GET", "HEAD")
"""Methods of calls that may be made twice."""


class HttpUpstream:
    """Calls suppliers; see ``proxy.upstream.Upstream``. ``tls`` is the system's default if None.

    ``dial`` is how connections are made; without one they are made directly, to any host.
    Belongs to the event loop on which it is first used; ``close`` it there.
    """

    def __init__(
        self,
        tls: ssl.SSLContext | None = None,
        limits: Limits | None = None,
        dial: Dial | None = None,
    ) -> None:
        self._tls = tls
        self._limits = limits or Limits()
        self._dial = dial or direct(local=True)
        self._retired = False
        self._open: set[Connection] = set()
        self._resting: dict[Origin, list[Connection]] = {}

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator["HttpResponse"]:
        """Call, and enter once the answer's head is there."""
        response = await self.open(request)
        try:
            yield response
        finally:
            response.close()

    async def open(self, request: Request) -> "HttpResponse":
        """Call; the answer is there once its head is. ``close`` it in any case."""
        to = origin(request.url)
        wire = written(request)
        end = asyncio.get_running_loop().time() + request.timeouts.total
        connection, head = await self._called(to, request, wire, end)
        return HttpResponse(connection, head, to, self._limits.body, self._let_go)

    async def close(self) -> None:
        """Cut every connection, those in use too."""
        gone = [connection.gone for connection in self._open]
        for connection in list(self._open):
            connection.abort()
        await asyncio.gather(*gone)

    async def retire(self) -> None:
        """Return once the calls in progress are over; no connection is kept from now on."""
        self._retired = True
        for resting in list(self._resting.values()):
            for connection in list(resting):
                connection.abort()
        await asyncio.gather(*(connection.gone for connection in self._open))

    async def _called(
        self, to: Origin, request: Request, wire: bytes, end: float
    ) -> tuple[Connection, Head]:
        if kept := self._kept(to):
            try:
                return kept, await _asked(kept, request, wire, end)
            except SupplierUnreachable:
                # Whatever else was asked for may have been done, and charged, before the close.
                if not kept.stale or request.method not in _REPEATABLE:
                    raise
        fresh = await self._connected(to, request.timeouts)
        return fresh, await _asked(fresh, request, wire, end)

    def _kept(self, to: Origin) -> Connection | None:
        """The connection that was used last, which is the least likely to be dead."""
        resting = self._resting.get(to, [])
        while resting:
            connection = resting.pop()
            if connection.reusable and connection.silent:
                return connection
            connection.abort()
        return None

    def _let_go(self, to: Origin, connection: Connection) -> None:
        resting = self._resting.setdefault(to, [])
        kept = connection.reusable and not self._retired
        if kept and len(resting) < KEPT_CONNECTIONS:
            connection.rest(KEPT_SECONDS)
            resting.append(connection)
        else:
            connection.abort()

    def _lost(self, connection: Connection) -> None:
        self._open.discard(connection)
        for to, resting in list(self._resting.items()):
            if connection in resting:
                resting.remove(connection)
            if not resting:
                del self._resting[to]

    async def dialled(self, url: str, timeouts: Timeouts) -> socket.socket:
        """A connection to the host of this address, on which nothing is said yet.

        Whoever asked for it closes it. Raises ``SupplierUnreachable``, as ``send`` does.
        """
        to = origin(url)
        async with _telling(to, timeouts):
            return await self._dial(to.host, to.port)

    async def secured(self, url: str, connection: socket.socket, timeouts: Timeouts) -> None:
        """Agree on TLS over such a connection, which is over then in any case.

        Raises as ``dialled``.
        """
        to = origin(url)
        loop = asyncio.get_running_loop()
        async with _telling(to, timeouts):
            try:
                tls = await self._context()
            except BaseException:
                connection.close()
                raise
            transport, _ = await loop.create_connection(
                asyncio.Protocol, sock=connection, ssl=tls, server_hostname=to.host
            )
        transport.abort()

    async def _connected(self, to: Origin, timeouts: Timeouts) -> Connection:
        loop = asyncio.get_running_loop()
        async with _telling(to, timeouts):
            tls = await self._context() if to.scheme == "https" else None
            _, connection = await loop.create_connection(
                lambda: Connection(str(to), self._limits, self._lost),
                sock=await self._dial(to.host, to.port),
                ssl=tls,
                server_hostname=to.host if tls else None,
            )
        if not connection.gone.done():
            self._open.add(connection)
        return connection

    async def _context(self) -> ssl.SSLContext:
        if self._tls is None:  # reading all the world's certificates takes a while
            self._tls = await asyncio.to_thread(_usual_context)
        return self._tls


class HttpResponse:
    """An answer whose head is there; see ``proxy.upstream.Response``."""

    def __init__(
        self,
        connection: Connection,
        head: Head,
        origin_: Origin,
        limit: int,
        let_go: Callable[[Origin, Connection], None],
    ) -> None:
        self.status = head.status
        self.headers = head.headers
        self._connection = connection
        self._origin = origin_
        self._limit = limit
        self._let_go: Callable[[Origin, Connection], None] | None = let_go
        self._inflater = self._for_encoding(head.headers)

    def close(self) -> None:
        """The connection is kept if the answer was read to its end, else cut."""
        let_go, self._let_go = self._let_go, None
        if let_go:
            let_go(self._origin, self._connection)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes in: one piece for all that came since the last one was taken."""
        if self._inflater is None:
            while piece := await self._connection.body():
                yield piece
                self._check_held()
            return
        size = 0
        try:
            while piece := await self._connection.body():
                for plain in self._inflater.feed(piece):
                    size += len(plain)
                    if size > self._limit:
                        raise self._wrong(f"sent a body of more than {self._limit} bytes")
                    yield plain
                    self._check_held()
            for plain in self._inflater.finish():
                yield plain
        except ValueError as error:
            raise self._wrong(f"sent a body that cannot be decompressed: {error}") from error

    async def read(self, limit: int = BODY_LIMIT) -> bytes:
        """The rest of the body."""
        pieces: list[bytes] = []
        size = 0
        # Without a generator where none is needed: to begin one takes longer than to read.
        more = (
            self._connection.body
            if self._inflater is None
            else functools.partial(_next, self.chunks())
        )
        while piece := await more():
            pieces.append(piece)
            size += len(piece)
            if size > limit:
                raise TooLarge(f"The answer of {self._origin} is larger than {limit} bytes")
        return b"".join(pieces)

    def _for_encoding(self, headers: dict[str, str]) -> Inflater | None:
        """For a supplier that compresses although it was asked not to."""
        encoding = headers.get("content-encoding", "identity").lower()
        if encoding in ("identity", ""):
            return None
        if encoding not in KNOWN:
            self._connection.abort()
            raise self._wrong(f"compressed its answer, by {encoding[:20]!r}, unasked")
        del headers["content-encoding"]
        headers.pop("content-length", None)
        return Inflater()

    def _check_held(self) -> None:
        """The connection is another call's once this answer was let go of."""
        if self._let_go is None:
            raise self._wrong("is not listened to any more")

    def _wrong(self, what: str) -> SupplierUnreachable:
        host = str(self._origin)
        return SupplierUnreachable(f"{host} {what}", "body", host)


async def _next(pieces: AsyncGenerator[bytes, None]) -> bytes:
    """The next one; empty at the end."""
    return await anext(pieces, b"")


@functools.cache
def _usual_context() -> ssl.SSLContext:
    """One for all: each would hold the world's certificates anew."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


@asynccontextmanager
async def _telling(to: Origin, timeouts: Timeouts) -> AsyncIterator[None]:
    """Let connecting take its time, and no more; say what is wrong in our words."""
    patience = min(timeouts.connect, timeouts.total)
    try:
        async with asyncio.timeout(patience):
            yield
    except TimeoutError as error:
        message = f"{to} could not be connected to within {patience:g} s"
        raise SupplierUnreachable(message, "connect", str(to)) from error
    except OSError as error:
        raise _not_connected(to, error) from error


async def _asked(connection: Connection, request: Request, wire: bytes, end: float) -> Head:
    """The head of the answer; the connection is cut when it does not come, or is not wanted."""
    bodiless = request.method == "HEAD"
    try:
        return await connection.call(wire, bodiless=bodiless, timeouts=request.timeouts, end=end)
    except BaseException:
        connection.abort()
        raise


def _not_connected(to: Origin, error: OSError) -> SupplierUnreachable:
    match error:
        case socket.gaierror():
            stage, what = "name", f"The name {to.host} cannot be resolved: {error.strerror}"
        case ssl.SSLCertVerificationError():
            stage, what = "tls", f"{to} has no certificate that is trusted: {error.verify_message}"
        case ssl.SSLError():
            stage, what = "tls", f"{to} does not speak TLS as it should: {error.reason}"
        case _:
            stage, what = "connect", f"{to} cannot be connected to: {error.strerror or error}"
    return SupplierUnreachable(what, stage, str(to))
