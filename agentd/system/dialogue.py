"""A child process with a dialogue over its standard input and output.

It runs in its own session, so that everything it starts can be killed with it, and inherits no
descriptors but the three pipes and those passed explicitly. Every wait has a timeout, and what it
writes, or does not read, takes bounded memory.
"""

import asyncio
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Self, cast

from msgspec import Struct

from agentd.core.errors import Unavailable
from agentd.system.process import (
    DEFAULT_UMASK,
    build_start_error,
    choose_umask_option,
    kill_group,
    wait_until_started,
)

MAX_UNREAD = 16 * 2**20
"""Bytes that may wait for the program to read them."""
STDERR_TAIL_SIZE = 8 * 1024
"""Bytes of its standard error that are kept."""

_READ_AHEAD = 256 * 1024
"""Bytes of output that are buffered before reading pauses."""
_MAX_CHUNK = 16 * 1024
"""Bytes returned by one read, so that a noisy program cannot monopolise the loop."""
_DRAIN_SECONDS = 0.5
"""Seconds to read on after the program exited, while a detached child holds its output open ..."""
_MAX_DRAIN = 2 * 2**20
"""... and bytes to read; a pipe does not hold more."""
_KILL_SECONDS = 2.0
"""Seconds that the kernel is given to end a killed program and close its pipes."""


class Graces(Struct, frozen=True):
    """Seconds that a program is given at each step of its termination."""

    exit: float = 1.0
    """The time to exit once its standard input is closed."""
    terminate: float = 2.0
    """The time to exit after ``SIGTERM``."""


@contextmanager
def open_secret_memfd(secret: str) -> Iterator[int]:
    """Open a descriptor of an in-memory file with a secret, for the duration of the block.

    A program that inherits it can read ``/proc/self/fd/…`` any number of times. The program's own
    children do not inherit it unless the program passes it on.
    """
    descriptor = os.memfd_create("secret")
    try:
        os.pwrite(descriptor, secret.encode(), 0)  # does not move the offset: a reader begins at 0
        yield descriptor
    finally:
        os.close(descriptor)


class Program:
    """A running program. Always call ``end``, whatever happened."""

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
        """Start the program in ``folder``; it inherits ``descriptors`` under the same numbers.

        Raises ``Unavailable`` when it cannot be started.
        """
        loop = asyncio.get_running_loop()
        try:
            transport, pipes = await wait_until_started(
                loop.subprocess_exec(
                    lambda: _Pipes(loop),
                    *command,
                    cwd=folder,
                    env=env,
                    pass_fds=descriptors,
                    start_new_session=True,
                    **choose_umask_option(loop, DEFAULT_UMASK),
                )
            )
        except (OSError, ValueError) as error:
            raise build_start_error(command[0], folder, error) from error
        return cls(transport, pipes)

    async def read(self) -> bytes:
        """Return its next output; empty once it closed its output or exited."""
        return await self._pipes.read()

    def write(self, line: bytes) -> None:
        """Queue a line for its standard input; dropped once it closed its input or exited.

        Raises ``Unavailable`` when more than ``MAX_UNREAD`` bytes are waiting.
        """
        pipe = self._get_input()
        if pipe is None or pipe.is_closing():
            return
        if pipe.get_write_buffer_size() > MAX_UNREAD:
            raise Unavailable("The program does not read its input.")
        pipe.write(line + b"\n")

    @property
    def last_words(self) -> str:
        """The end of its standard error."""
        return bytes(self._pipes.errors[-STDERR_TAIL_SIZE:]).decode("utf-8", "replace").strip()

    @property
    def stderr_size(self) -> int:
        """Number of bytes written to its standard error."""
        return self._pipes.stderr_size

    def read_stderr_after(self, count: int) -> str:
        """Return its standard error after the first ``count`` bytes, as far as that is kept."""
        recent = min(self._pipes.stderr_size - count, STDERR_TAIL_SIZE)
        return bytes(self._pipes.errors[-recent:] if recent else b"").decode("utf-8", "replace")

    async def wait_for_exit(self, seconds: float) -> int | None:
        """Return the exit code (negative: by a signal); ``None`` when it has not exited in time."""
        await asyncio.wait([self._pipes.exited], timeout=seconds)
        return self._transport.get_returncode() if self._pipes.exited.done() else None

    async def end(self, graces: Graces) -> None:
        """Terminate the program and its process group: close its input, SIGTERM, SIGKILL.

        Cancelling this kills it at once.
        """
        try:
            if pipe := self._get_input():
                pipe.close()
            if await self.wait_for_exit(graces.exit) is None:
                kill_group(self.process, signal.SIGTERM)
                await self.wait_for_exit(graces.terminate)
        finally:
            await self._kill()
        await asyncio.wait([self._pipes.closed], timeout=_KILL_SECONDS)

    async def _kill(self) -> None:
        kill_group(self.process)
        try:
            await self.wait_for_exit(_KILL_SECONDS)
        finally:  # the waiting task may be cancelled now
            if (pipe := self._get_input()) and pipe.get_write_buffer_size():
                pipe.abort()  # unread input would keep the pipe open
            self._transport.close()

    def _get_input(self) -> asyncio.WriteTransport | None:
        return cast(asyncio.WriteTransport | None, self._transport.get_pipe_transport(0))


class _Pipes(asyncio.SubprocessProtocol):
    """The pipes of a program. Its output is read no faster than it is consumed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.errors = bytearray()
        self.stderr_size = 0
        self.exited = loop.create_future()
        self.closed = loop.create_future()
        self._loop = loop
        self._output_buffer = bytearray()
        self._output_closed = False
        self._changed = asyncio.Event()
        self._drain_seconds = _DRAIN_SECONDS
        self._drain_left = _MAX_DRAIN
        self._transport: asyncio.SubprocessTransport | None = None

    async def read(self) -> bytes:
        while not self._output_buffer and not self._output_closed and self._drain_seconds > 0:
            self._changed.clear()
            began = self._loop.time()
            ended = self.exited.done()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._drain_seconds if ended else None):
                    await self._changed.wait()
            if ended:
                self._drain_seconds -= self._loop.time() - began
        data = bytes(self._output_buffer[:_MAX_CHUNK])
        del self._output_buffer[:_MAX_CHUNK]
        if self.exited.done():
            self._drain_left -= len(data)
            self._output_closed = self._output_closed or self._drain_left < 0
        if len(self._output_buffer) < _READ_AHEAD and (pipe := self._get_output_pipe()):
            pipe.resume_reading()
        return data

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self._output_buffer += data
            self._changed.set()
            if len(self._output_buffer) >= _READ_AHEAD and (pipe := self._get_output_pipe()):
                pipe.pause_reading()
            return
        self.stderr_size += len(data)
        self.errors += data[-STDERR_TAIL_SIZE:]
        if len(self.errors) > 4 * STDERR_TAIL_SIZE:
            del self.errors[:-STDERR_TAIL_SIZE]

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self._output_closed = True
            self._changed.set()

    def process_exited(self) -> None:
        self.exited.set_result(None)
        self._changed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set_result(None)

    def _get_output_pipe(self) -> asyncio.ReadTransport | None:
        pipe = self._transport and self._transport.get_pipe_transport(1)
        return cast(asyncio.ReadTransport | None, pipe)
