"""HTTP/1.1 client for suppliers: streaming, with kept-alive connections.

A small client of our own: general-purpose ones cost several times more per call and per chunk of a
stream than all the rest of the gateway.
"""

import asyncio
import functools
import os
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager

from agentd.core.errors import SupplierUnreachable, TooLarge
from agentd.core.inflate import SUPPORTED_ENCODINGS, Inflater
from agentd.llm.upstream.connection import ResponseHead, ResponseLimits, UpstreamConnection
from agentd.llm.upstream.dial import Dial, dial_directly
from agentd.llm.upstream.protocol import BODY_LIMIT, Timeouts, UpstreamRequest
from agentd.llm.upstream.request import Origin, encode_request, parse_origin

IDLE_SECONDS = 30.0
"""The seconds an idle connection is kept: less than most servers keep theirs."""

MAX_IDLE_CONNECTIONS = 64
"""Connections that wait, to one supplier."""

_IDEMPOTENT = ("GET", "HEAD")
"""Methods of calls that may be made twice."""

_PROXY_VARIABLES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
"""The variables by which other programs are told of a proxy."""


class HttpUpstream:
    """Calls suppliers; see ``protocol.Upstream``. ``tls`` defaults to the system's trust store.

    ``dial`` makes the connections; by default they are direct, to any host. ``through_proxy`` says
    that it does so through a proxy of the channel's. Belongs to the event loop on which it is first
    used; ``close`` it there.
    """

    def __init__(
        self,
        tls: ssl.SSLContext | None = None,
        limits: ResponseLimits | None = None,
        dial: Dial | None = None,
        *,
        through_proxy: bool = False,
    ) -> None:
        self._tls = tls
        self._limits = limits or ResponseLimits()
        self._dial = dial or dial_directly(local=True)
        self._through_proxy = through_proxy
        self._retired = False
        self._open: set[UpstreamConnection] = set()
        self._idle: dict[Origin, list[UpstreamConnection]] = {}

    @asynccontextmanager
    async def send(self, request: UpstreamRequest) -> AsyncIterator["HttpResponse"]:
        """Send a request, and enter once the response head has arrived."""
        response = await self.open(request)
        try:
            yield response
        finally:
            response.close()

    async def open(self, request: UpstreamRequest) -> "HttpResponse":
        """Send a request and return the response once its head has arrived; always ``close`` it."""
        to = parse_origin(request.url)
        wire = encode_request(request)
        end = asyncio.get_running_loop().time() + request.timeouts.total
        connection, head = await self._send_request(to, request, wire, end)
        return HttpResponse(connection, head, to, self._limits.body, self._release)

    async def close(self) -> None:
        """Close every connection, including those in use."""
        gone = [connection.gone for connection in self._open]
        for connection in list(self._open):
            connection.abort()
        await asyncio.gather(*gone)

    async def close_when_idle(self) -> None:
        """Return once the calls in progress have ended; from now on no connection is kept."""
        self._retired = True
        for resting in list(self._idle.values()):
            for connection in list(resting):
                connection.abort()
        await asyncio.gather(*(connection.gone for connection in self._open))

    async def _send_request(
        self, to: Origin, request: UpstreamRequest, wire: bytes, end: float
    ) -> tuple[UpstreamConnection, ResponseHead]:
        if kept := self._take_idle(to):
            try:
                return kept, await _call_or_abort(kept, request, wire, end)
            except SupplierUnreachable:
                # Whatever else was asked for may have been done, and charged, before the close.
                if not kept.stale or request.method not in _IDEMPOTENT:
                    raise
        fresh = await self._connect(to, request.timeouts)
        return fresh, await _call_or_abort(fresh, request, wire, end)

    def _take_idle(self, to: Origin) -> UpstreamConnection | None:
        """Return the most recently used idle connection, which is the least likely to be dead."""
        resting = self._idle.get(to, [])
        while resting:
            connection = resting.pop()
            if connection.is_reusable and connection.is_silent:
                return connection
            connection.abort()
        return None

    def _release(self, to: Origin, connection: UpstreamConnection) -> None:
        resting = self._idle.setdefault(to, [])
        kept = connection.is_reusable and not self._retired
        if kept and len(resting) < MAX_IDLE_CONNECTIONS:
            connection.keep_idle(IDLE_SECONDS)
            resting.append(connection)
        else:
            connection.abort()

    def _on_lost(self, connection: UpstreamConnection) -> None:
        self._open.discard(connection)
        for to, resting in list(self._idle.items()):
            if connection in resting:
                resting.remove(connection)
            if not resting:
                del self._idle[to]

    async def open_tcp(self, url: str, timeouts: Timeouts) -> socket.socket:
        """Open a connection to the URL's host, over which nothing has been sent yet.

        The caller closes it. Raises ``SupplierUnreachable``, as ``send`` does.
        """
        to = parse_origin(url)
        async with self._translate_errors(to, timeouts):
            return await self._dial(to.host, to.port)

    async def open_tls(self, url: str, connection: socket.socket, timeouts: Timeouts) -> None:
        """Do a TLS handshake over such a connection, then close it in any case.

        Raises as ``open_tcp``.
        """
        to = parse_origin(url)
        loop = asyncio.get_running_loop()
        async with self._translate_errors(to, timeouts):
            try:
                tls = await self._get_tls_context()
            except BaseException:
                connection.close()
                raise
            transport, _ = await loop.create_connection(
                asyncio.Protocol, sock=connection, ssl=tls, server_hostname=to.host
            )
        transport.abort()

    async def _connect(self, to: Origin, timeouts: Timeouts) -> UpstreamConnection:
        loop = asyncio.get_running_loop()
        async with self._translate_errors(to, timeouts):
            tls = await self._get_tls_context() if to.scheme == "https" else None
            _, connection = await loop.create_connection(
                lambda: UpstreamConnection(str(to), self._limits, self._on_lost),
                sock=await self._dial(to.host, to.port),
                ssl=tls,
                server_hostname=to.host if tls else None,
            )
        if not connection.gone.done():
            self._open.add(connection)
        return connection

    @asynccontextmanager
    async def _translate_errors(self, to: Origin, timeouts: Timeouts) -> AsyncIterator[None]:
        """Limit the time for connecting, and translate errors to ``SupplierUnreachable``."""
        patience = min(timeouts.connect, timeouts.total)
        hint = "" if self._through_proxy else _explain_proxies(to)
        try:
            async with asyncio.timeout(patience):
                yield
        except TimeoutError as error:
            message = f"{to} could not be connected to within {patience:g} s{hint}"
            raise SupplierUnreachable(message, "connect", str(to)) from error
        except OSError as error:
            raise _connect_error(to, error, hint) from error

    async def _get_tls_context(self) -> ssl.SSLContext:
        if self._tls is None:  # reading all the world's certificates takes a while
            self._tls = await asyncio.to_thread(_get_default_tls_context)
        return self._tls


class HttpResponse:
    """A response whose head has arrived; see ``llm.upstream.protocol.UpstreamResponse``."""

    def __init__(
        self,
        connection: UpstreamConnection,
        head: ResponseHead,
        origin_: Origin,
        limit: int,
        let_go: Callable[[Origin, UpstreamConnection], None],
    ) -> None:
        self.status = head.status
        self.headers = head.headers
        self._connection = connection
        self._origin = origin_
        self._limit = limit
        self._release: Callable[[Origin, UpstreamConnection], None] | None = let_go
        self._inflater = self._create_inflater(head.headers)

    def close(self) -> None:
        """Keep the connection if the response was read to its end, else close it."""
        let_go, self._release = self._release, None
        if let_go:
            let_go(self._origin, self._connection)

    async def iter_chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it arrives: one chunk for all that came since the previous one."""
        if self._inflater is None:
            while piece := await self._connection.read_chunk():
                yield piece
                self._check_open()
            return
        size = 0
        try:
            while piece := await self._connection.read_chunk():
                for plain in self._inflater.feed(piece):
                    size += len(plain)
                    if size > self._limit:
                        raise self._make_error(f"sent a body of more than {self._limit} bytes")
                    yield plain
                    self._check_open()
            for plain in self._inflater.finish():
                yield plain
        except ValueError as error:
            raise self._make_error(f"sent a body that cannot be decompressed: {error}") from error

    async def read(self, limit: int = BODY_LIMIT) -> bytes:
        """Return the rest of the body."""
        pieces: list[bytes] = []
        size = 0
        # Without a generator where none is needed: to begin one takes longer than to read.
        more = (
            self._connection.read_chunk
            if self._inflater is None
            else functools.partial(_read_chunk, self.iter_chunks())
        )
        while piece := await more():
            pieces.append(piece)
            size += len(piece)
            if size > limit:
                raise TooLarge(f"The response of {self._origin} is larger than {limit} bytes")
        return b"".join(pieces)

    def _create_inflater(self, headers: dict[str, str]) -> Inflater | None:
        """Return an inflater for a supplier that compresses although it was asked not to."""
        encoding = headers.get("content-encoding", "identity").lower()
        if encoding in ("identity", ""):
            return None
        if encoding not in SUPPORTED_ENCODINGS:
            self._connection.abort()
            raise self._make_error(f"compressed its answer, by {encoding[:20]!r}, unasked")
        del headers["content-encoding"]
        headers.pop("content-length", None)
        return Inflater()

    def _check_open(self) -> None:
        """Raise if the response was closed: its connection may belong to another call by now."""
        if self._release is None:
            raise self._make_error("is not listened to any more")

    def _make_error(self, what: str) -> SupplierUnreachable:
        host = str(self._origin)
        return SupplierUnreachable(f"{host} {what}", "body", host)


async def _read_chunk(pieces: AsyncGenerator[bytes, None]) -> bytes:
    """Return the next chunk; empty at the end."""
    return await anext(pieces, b"")


@functools.cache
def _get_default_tls_context() -> ssl.SSLContext:
    """Return the shared context: each one would load all trusted certificates again."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


async def _call_or_abort(
    connection: UpstreamConnection, request: UpstreamRequest, wire: bytes, end: float
) -> ResponseHead:
    """Return the response head; the connection is aborted on errors and cancellation."""
    bodiless = request.method == "HEAD"
    try:
        return await connection.send_request(
            wire, bodiless=bodiless, timeouts=request.timeouts, end=end
        )
    except BaseException:
        connection.abort()
        raise


def _connect_error(to: Origin, error: OSError, hint: str) -> SupplierUnreachable:
    match error:
        case socket.gaierror():
            stage, what = "name", f"The name {to.host} cannot be resolved: {error.strerror}"
            what += hint
        case ssl.SSLCertVerificationError():
            stage, what = "tls", f"{to} has no certificate that is trusted: {error.verify_message}"
        case ssl.SSLError():
            stage, what = "tls", f"{to} does not speak TLS as it should: {error.reason}"
        case _:
            stage, what = "connect", f"{to} cannot be connected to: {error.strerror or error}"
            what += hint
    return SupplierUnreachable(what, stage, str(to))


def _explain_proxies(to: Origin) -> str:
    """Return that the environment's proxy is not used, if it names one; else nothing.

    A channel says itself how its supplier is reached, as what is sent there is confidential.
    """
    named = [name for name in _PROXY_VARIABLES if os.environ.get(name)]
    if not named or to.host == "localhost" or to.host.startswith("127."):
        return ""
    return f" ({named[0]} of the environment is not used: proxies are set by a channel's transport)"
