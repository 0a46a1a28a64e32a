"""Running a program to its end: never through a shell, never longer or louder than allowed.

A program runs in a process group of its own, which is killed as a whole when it takes too long,
says too much, or is no longer wanted. It sees an environment made from a short list of names,
so none of the daemon's own secrets reach it.
"""

import asyncio
import os
import signal
import subprocess
from asyncio import SubprocessTransport as Transport
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from agentd.errors import Unavailable
from agentd.outside.marked import name_of

MARK = "AGENTD_TURN"
"""The variable that tells for which turn, of which daemon, a program was started (``strays``)."""

DAEMON = "AGENTD_DAEMON"
"""The variable that tells which process started a program (``marked.name_of``)."""

INHERITED = frozenset(
    (
        *("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER"),
        *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
        *("CODEX_HOME", "SSL_CERT_DIR", "SSL_CERT_FILE", MARK),
    )
)
"""The only names of our own environment that a program sees; ``LC_…`` too."""

GIT_CAUTION = {"GIT_CONFIG_PARAMETERS": "'safe.bareRepository=explicit' 'core.fsmonitor=false'"}
"""What every git obeys that an agent runs: else files that it may write make git run a program.

A folder that holds ``HEAD``, ``objects``, ``refs`` and ``config`` is a bare repository, whose
settings hold; and ``core.fsmonitor`` is run by each ``git status``. Git itself hands the options
of ``git -c`` on in this variable. Not in ``GIT_CONFIG_COUNT`` with ``GIT_CONFIG_KEY_0``: programs
that take secrets out of an environment (Codex) take out what has ``KEY`` in its name, and git
fails when only the count is left.
"""

USUAL_UMASK = 0o022
"""Our own files are private; those of the workspace are the person's, with the usual modes."""

OUTPUT_LIMIT = 10 * 2**20

_DEATH = 5.0
"""Seconds that the kernel is given to end a killed program."""
_LAST_WORDS = 1.0
"""Seconds for what an ended program said to be read, while a child that fled holds its outputs."""


class Finished(Struct, frozen=True):
    """How a program ended; ``code`` is negative when a signal ended it."""

    code: int
    output: bytes
    errors: bytes
    """The beginning of its standard error."""
    cut: bool = False
    """It said more than allowed and was ended for that."""
    late: bool = False
    """It took longer than allowed and was ended for that."""


def environment(**more: str) -> dict[str, str]:
    """What a program may see of our environment, who starts it, and ``more``."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name in INHERITED or name.startswith("LC_")
    }
    return inherited | {DAEMON: name_of(os.getpid())} | more


async def run(
    command: Sequence[str],
    *,
    folder: str,
    env: Mapping[str, str] | None = None,
    given: bytes = b"",
    timeout: float = 60.0,
    limit: int = OUTPUT_LIMIT,
    hear: Callable[[bytes], None] | None = None,
    umask: int = -1,
    grace: float = 0.0,
) -> Finished:
    """Run a program to its end, in ``folder``, with ``given`` on its standard input.

    ``timeout`` is in seconds, ``limit`` in bytes for each of its two outputs. Raises
    ``Unavailable`` when it cannot be started. Cancelling kills all that it started.

    A program that has to be ended is asked to (``SIGTERM``) and has ``grace`` seconds for it, such
    as to remove its locks, before it is killed.

    With ``hear`` both outputs are told to it as they come, as one and not kept; and the end is
    that of the program itself: children that hold its outputs open are killed, not awaited.
    """
    loop = asyncio.get_running_loop()
    try:
        transport, listener = await started(
            loop.subprocess_exec(
                lambda: _Listener(loop, limit, hear),
                *command,
                cwd=folder,
                env=environment() if env is None else env,
                start_new_session=True,
                stderr=subprocess.PIPE if hear is None else subprocess.STDOUT,
                umask=umask,
            )
        )
    except (OSError, ValueError) as error:
        raise not_started(command[0], folder, error) from error
    late = False
    end = listener.silent if hear is None else listener.exited
    try:
        listener.give(given)
        async with asyncio.timeout(timeout):
            await asyncio.wait([end, listener.overflow], return_when=asyncio.FIRST_COMPLETED)
        if hear is not None and end.done():
            kill_group(transport.get_pid())
            await asyncio.wait([listener.silent], timeout=_LAST_WORDS)
    except TimeoutError:
        late = True
    finally:
        try:
            if grace and not end.done():
                kill_group(transport.get_pid(), signal.SIGTERM)
                await asyncio.wait([listener.exited], timeout=grace)
        finally:
            await _ended(transport, listener.exited)
    code = transport.get_returncode()
    output, errors = (bytes(listener.said[number][:limit]) for number in (1, 2))
    return Finished(
        -signal.SIGKILL if code is None else code, output, errors, listener.overflow.done(), late
    )


class Exiting(Protocol):
    """Whoever listens to a program knows when it ended."""

    exited: asyncio.Future[None]


T = TypeVar("T", bound=Exiting)


async def started(starting: Coroutine[Any, Any, tuple[Transport, T]]) -> tuple[Transport, T]:
    """Wait until a program runs; cancelling kills it with all that it started meanwhile.

    Left to itself, asyncio would kill the program alone.
    """
    task = asyncio.ensure_future(starting)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if task.exception() is None:
            transport, listener = task.result()
            await _ended(transport, listener.exited)
        raise


async def _ended(transport: asyncio.SubprocessTransport, exited: "asyncio.Future[None]") -> None:
    """Kill a program with all that it started, and wait for its end, but not for long."""
    kill_group(transport.get_pid())
    try:
        await asyncio.wait([exited], timeout=_DEATH)
    finally:  # whoever waits may be cancelled now
        transport.close()


class _Listener(asyncio.SubprocessProtocol):
    """Keeps what a program says.

    ``silent`` is done when it ended and its outputs are closed, ``overflow`` when it said more than
    the limit.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limit: int,
        hear: Callable[[bytes], None] | None,
    ) -> None:
        self.said = {1: bytearray(), 2: bytearray()}
        self.exited = loop.create_future()
        self.silent = loop.create_future()
        self.overflow = loop.create_future()
        self._limit = limit
        self._hear = hear
        self._heard = 0
        self._transport: asyncio.SubprocessTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport

    def give(self, given: bytes) -> None:
        """Send the program its whole input."""
        pipe = self._transport and self._transport.get_pipe_transport(0)
        assert isinstance(pipe, asyncio.WriteTransport)
        if given:
            pipe.write(given)
        pipe.close()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if self._hear is None:
            said = self.said[fd]
            said += data[: self._limit + 1 - len(said)]
            size = len(said)
        else:
            self._hear(data)
            size = self._heard = self._heard + len(data)
        if size > self._limit and not self.overflow.done():
            self.overflow.set_result(None)

    def process_exited(self) -> None:
        self.exited.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.silent.done():
            self.silent.set_result(None)


def kill_group(leader: int, number: int = signal.SIGKILL) -> None:
    """Signal a whole process group; its number is not given away while a member lives."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def not_started(program: str, folder: str, error: OSError | ValueError) -> Unavailable:
    """Why a program could not be started, for a reader."""
    if isinstance(error, ValueError):  # a NUL in an argument
        return Unavailable(f"The program {program} cannot be started: {error}.")
    if not os.path.isdir(folder):
        return Unavailable(f"The workspace {folder} is not there any more.")
    if isinstance(error, FileNotFoundError):
        return Unavailable(f"The program {program} is not installed, or not in PATH.")
    return Unavailable(f"The program {program} cannot be started: {error.strerror}.")
