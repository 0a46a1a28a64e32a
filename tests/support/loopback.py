"""A supplier on loopback that does exactly as it is told, byte for byte."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from agentd.llm.upstream.client import HttpUpstream
from agentd.llm.upstream.connection import ResponseLimits
from agentd.llm.upstream.protocol import Timeouts, UpstreamRequest

OK = b"HTTP/1.1 200 OK\r\n"
PATIENT = Timeouts(connect=100, head=100, idle=100, total=100)
"""No answer takes so long, however slow the machine is."""


@dataclass
class Line:
    """A connection as the supplier has it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    number: int

    async def read_request(self) -> bytes:
        """Read a whole request: its head, and its body by content-length."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        return head + await self.reader.readexactly(int(length or 0))

    def say(self, data: bytes) -> None:
        self.writer.write(data)

    def hang_up(self) -> None:
        self.writer.close()

    def cut(self) -> None:
        """Close as a program does that died: by a reset."""
        raw = self.writer.get_extra_info("socket")
        if raw is None or raw.fileno() < 0:
            return  # it is closed, and its transport has no loop any more
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def wait_until_cut(self) -> None:
        """Wait until the client has cut the connection."""
        with suppress(ConnectionError):
            while await self.reader.read(65536):
                pass


@dataclass
class Supplier:
    upstream: HttpUpstream
    url: str
    lines: list[Line] = field(default_factory=list)
    count: int = 0
    """How many lines there have been."""
    tasks: list[asyncio.Task] = field(default_factory=list)

    def send(self, method="POST", path="/", body=b"{}", timeouts=PATIENT, **headers):
        return self.upstream.send(UpstreamRequest(method, self.url + path, headers, body, timeouts))

    async def fetch(self, method="POST", path="/", body=b"{}", timeouts=PATIENT, **headers):
        """Status, headers and whole body."""
        async with self.send(method, path, body, timeouts, **headers) as response:
            return response.status, response.headers, await response.read()


@asynccontextmanager
async def supplier(
    behave: Callable[[Line], Awaitable[None]],
    *,
    limits: ResponseLimits | None = None,
    serving: ssl.SSLContext | None = None,
    calling: ssl.SSLContext | None = None,
) -> AsyncIterator[Supplier]:
    upstream = HttpUpstream(calling, limits)
    here = Supplier(upstream, "")

    over = False

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if over:  # its client had left before it was accepted; from Python 3.12 on it is waited for
            writer.transport.abort()
            return
        line = Line(reader, writer, here.count)
        here.count += 1
        here.lines.append(line)
        here.tasks.append(asyncio.current_task())
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await behave(line)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=serving)
    here.url = f"http{'s' if serving else ''}://localhost:{server.sockets[0].getsockname()[1]}"
    try:
        async with asyncio.timeout(100):
            yield here
    finally:
        over = True
        await upstream.close()
        for task in here.tasks:
            task.cancel()
        for line in here.lines:
            line.cut()
        await asyncio.gather(*here.tasks, return_exceptions=True)
        server.close()
        await server.wait_closed()


def advance_loop_clock(seconds: float) -> None:
    """Put the running loop's clock forward by ``seconds``."""
    loop = asyncio.get_running_loop()
    time = loop.time
    loop.time = lambda: time() + seconds  # type: ignore[method-assign]


def answer_each(answer: bytes) -> Callable[[Line], Awaitable[None]]:
    """Give the same answer to every request, over a connection that stays open."""

    async def behave(line: Line) -> None:
        while True:
            await line.read_request()
            line.say(answer)

    return behave


def answer_once(answer: bytes) -> Callable[[Line], Awaitable[None]]:
    """Give one answer and hang up."""

    async def behave(line: Line) -> None:
        await line.read_request()
        line.say(answer)
        line.hang_up()

    return behave
