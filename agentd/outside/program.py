"""A program that is spoken with while it runs, and that is ended whatever it does.

It runs in a session of its own, so that all it starts can be ended with it, and it inherits no
descriptor but the three pipes and those that it is given. Nothing here waits for it without an
end, and nothing that it says, or does not read, takes memory without an end.
"""

import asyncio
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Self

from msgspec import Struct

from agentd.errors import Unavailable
from agentd.outside.process import USUAL_UMASK, kill_group, not_started, started

UNREAD = 16 * 2**20
"""Bytes that may wait for a program to read them."""
LAST_WORDS = 8 * 1024
"""Bytes of its standard error that are kept."""

_AHEAD = 256 * 1024
"""Bytes that are read before anybody asks for them."""
_AT_ONCE = 16 * 1024
"""Bytes that are given to whoever reads: the loop sees to others before it goes on."""
_ECHO = 0.5
"""Seconds to wait for what an ended program said, while a child that fled holds its output ..."""
_LEFT = 2 * 2**20
"""... and bytes of it; more does not fit into a pipe."""
_DEATH = 2.0
"""Seconds that the kernel is given to end a killed program, and to close its pipes."""


class Graces(Struct, frozen=True):
    """Seconds that a program is given to do what it should, before it is made to."""

    exit: float = 1.0
    """To exit, once its standard input ended."""
    terminate: float = 2.0
    """To exit, after ``SIGTERM``."""


@contextmanager
def secret_descriptor(secret: str) -> Iterator[int]:
    """Offer the descriptor of a file in memory that holds a secret, while the block lasts.

    A program that inherits it reads it as ``/proc/self/fd/…``, as often as it likes. What that
    program starts in turn does not inherit it unless the program wants it to.
    """
    descriptor = os.memfd_create("secret")
    try:
        os.pwrite(descriptor, secret.encode(), 0)  # the offset stays where a reader begins
        yield descriptor
    finally:
        os.close(descriptor)


class Program:
    """A running program; ``process`` is its id. End it, whatever happened."""

    def __init__(self, transport: asyncio.SubprocessTransport, pipes: "_Pipes") -> None:
        self.process = transport.get_pid()
        self._transport = transport
        self._pipes = pipes

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        folder: str,
        env: Mapping[str, str],
        descriptors: Sequence[int] = (),
    ) -> Self:
        """Start it in ``folder``; it inherits ``descriptors`` by their numbers.

        Raises ``Unavailable`` when it cannot be started.
        """
        loop = asyncio.get_running_loop()
        try:
            transport, pipes = await started(
                loop.subprocess_exec(
                    lambda: _Pipes(loop),
                    *command,
                    cwd=folder,
                    env=env,
                    pass_fds=descriptors,
                    start_new_session=True,
                    umask=USUAL_UMASK,
                )
            )
        except (OSError, ValueError) as error:
            raise not_started(command[0], folder, error) from error
        return cls(transport, pipes)

    async def read(self) -> bytes:
        """What it wrote next; nothing once it closed its output or ended."""
        return await self._pipes.read()

    def write(self, line: bytes) -> None:
        """Send it a line, sooner or later; nothing once it closed its input or ended.

        Raises ``Unavailable`` when too much waits already.
        """
        pipe = self._input()
        if pipe is None or pipe.is_closing():
            return
        if pipe.get_write_buffer_size() > UNREAD:
            raise Unavailable("It does not read what it is told.")
        pipe.write(line + b"\n")

    @property
    def last_words(self) -> str:
        """The end of what it wrote to its standard error."""
        return bytes(self._pipes.errors[-LAST_WORDS:]).decode("utf-8", "replace").strip()

    async def exit_code(self, seconds: float) -> int | None:
        """How it ended, negative: by a signal; None when it did not within this time."""
        await asyncio.wait([self._pipes.exited], timeout=seconds)
        return self._transport.get_returncode() if self._pipes.exited.done() else None

    async def end(self, graces: Graces) -> None:
        """End it and all in its group, the gentler ways first.

        Cancelling this leaves it running.
        """
        if pipe := self._input():
            pipe.close()
        if await self.exit_code(graces.exit) is None:
            kill_group(self.process, signal.SIGTERM)
            await self.exit_code(graces.terminate)
        kill_group(self.process)
        await self.exit_code(_DEATH)
        if (pipe := self._input()) and pipe.get_write_buffer_size():
            pipe.abort()  # what nobody reads would keep it open
        self._transport.close()
        await asyncio.wait([self._pipes.closed], timeout=_DEATH)

    def _input(self) -> asyncio.WriteTransport | None:
        pipe = self._transport.get_pipe_transport(0)
        return pipe if isinstance(pipe, asyncio.WriteTransport) else None


class _Pipes(asyncio.SubprocessProtocol):
    """What a program says. Its output is read no faster than somebody takes it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.errors = bytearray()
        self.exited = loop.create_future()
        self.closed = loop.create_future()
        self._loop = loop
        self._said = bytearray()
        self._silent = False
        self._news = asyncio.Event()
        self._echo = _ECHO
        self._left = _LEFT
        self._transport: asyncio.SubprocessTransport | None = None

    async def read(self) -> bytes:
        while not self._said and not self._silent and self._echo > 0:
            self._news.clear()
            began = self._loop.time()
            ended = self.exited.done()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._echo if ended else None):
                    await self._news.wait()
            if ended:
                self._echo -= self._loop.time() - began
        said = bytes(self._said[:_AT_ONCE])
        del self._said[:_AT_ONCE]
        if self.exited.done():
            self._left -= len(said)
            self._silent = self._silent or self._left < 0
        if len(self._said) < _AHEAD and (pipe := self._output()):
            pipe.resume_reading()
        return said

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self._said += data
            self._news.set()
            if len(self._said) >= _AHEAD and (pipe := self._output()):
                pipe.pause_reading()
            return
        self.errors += data[-LAST_WORDS:]
        if len(self.errors) > 4 * LAST_WORDS:
            del self.errors[:-LAST_WORDS]

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self._silent = True
            self._news.set()

    def process_exited(self) -> None:
        self.exited.set_result(None)
        self._news.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set_result(None)

    def _output(self) -> asyncio.ReadTransport | None:
        pipe = self._transport and self._transport.get_pipe_transport(1)
        return pipe if isinstance(pipe, asyncio.ReadTransport) else None
