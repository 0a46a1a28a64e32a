"""Run a program to completion: without a shell, with limits on time and output.

A program runs in its own process group, which is killed as a whole when it exceeds a limit or is
cancelled. Its environment is built from a short allowlist, so that none of the daemon's secrets
reach it.
"""

import asyncio
import os
import signal
import subprocess
from asyncio import SubprocessTransport as Transport
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeVar, cast

from msgspec import Struct

from agentd.core.errors import Unavailable
from agentd.system.process_identity import format_identity

MARK = "AGENTD_TURN"
"""The variable with the turn and daemon a program was started for (see ``orphans``)."""

DAEMON = "AGENTD_DAEMON"
"""The variable with the process that started a program (``process_identity.format_identity``)."""

INHERITED_VARIABLES = frozenset(
    (
        *("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER"),
        *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
        *("CODEX_HOME", "SSL_CERT_DIR", "SSL_CERT_FILE", MARK),
    )
)
"""The only variables of our environment that a program inherits, with ``LC_…``."""

GIT_SAFETY_VARIABLES = {
    "GIT_CONFIG_PARAMETERS": "'safe.bareRepository=explicit' 'core.fsmonitor=false'"
}
"""Git settings for agents: without them, files that an agent may write make git run programs.

A folder that holds ``HEAD``, ``objects``, ``refs`` and ``config`` counts as a bare repository,
whose settings apply; and each ``git status`` runs ``core.fsmonitor``. Git itself passes the options
of ``git -c`` on in this variable. Not in ``GIT_CONFIG_COUNT`` with ``GIT_CONFIG_KEY_0``: programs
that strip secrets from the environment (Codex) remove variables with ``KEY`` in the name, and git
fails when only the count is left.
"""

DEFAULT_UMASK = 0o022
"""The umask of programs in the workspace: only agentd's own files are private (umask 077)."""

OUTPUT_LIMIT = 10 * 2**20

_KILL_SECONDS = 5.0
"""Seconds that the kernel is given to end a killed program."""
_DRAIN_SECONDS = 1.0
"""Seconds to read on after the program exited, while a detached child holds its output open."""


class Finished(Struct, frozen=True):
    """Result of a program; ``code`` is negative when a signal ended it."""

    code: int
    output: bytes
    errors: bytes
    """The beginning of its standard error."""
    truncated: bool = False
    """True if it was killed because it wrote more than allowed."""
    late: bool = False
    """True if it was killed because it ran longer than allowed."""


def build_environment(**more: str) -> dict[str, str]:
    """Return the inherited variables, the one that identifies this process, and ``more``."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name in INHERITED_VARIABLES or name.startswith("LC_")
    }
    return inherited | {DAEMON: format_identity(os.getpid())} | more


async def run(
    command: Sequence[str],
    *,
    folder: str,
    env: Mapping[str, str] | None = None,
    given: bytes = b"",
    timeout: float = 60.0,
    limit: int = OUTPUT_LIMIT,
    on_output: Callable[[bytes], None] | None = None,
    umask: int = -1,
    grace: float = 0.0,
) -> Finished:
    """Run a program to completion in ``folder``, with ``given`` as its standard input.

    ``timeout`` is in seconds, ``limit`` in bytes for each of its two outputs. Raises
    ``Unavailable`` when it cannot be started. Cancelling kills its process group.

    A program that has to be stopped gets ``SIGTERM`` and ``grace`` seconds, for example to remove
    its locks, before it is killed. What it left in the background, with its outputs open, has as
    long to end once the program itself did; without ``grace`` it is awaited until the timeout.

    With ``on_output`` both outputs are passed to it merged, as they arrive, and not kept; the call
    then ends with the program itself: children that hold its outputs open are killed, not awaited.
    """
    loop = asyncio.get_running_loop()
    try:
        transport, listener = await wait_until_started(
            loop.subprocess_exec(
                lambda: _Listener(loop, limit, on_output),
                *command,
                cwd=folder,
                env=build_environment() if env is None else env,
                start_new_session=True,
                stderr=subprocess.PIPE if on_output is None else subprocess.STDOUT,
                **choose_umask_option(loop, umask),
            )
        )
    except (OSError, ValueError) as error:
        raise build_start_error(command[0], folder, error) from error
    is_streamed = on_output is not None
    late = await _complete(transport, listener, given, timeout, grace, is_streamed=is_streamed)
    code = transport.get_returncode()
    output, errors = (bytes(listener.outputs[number][:limit]) for number in (1, 2))
    return Finished(
        -signal.SIGKILL if code is None else code, output, errors, listener.overflow.done(), late
    )


async def _complete(
    transport: Transport,
    listener: "_Listener",
    given: bytes,
    timeout: float,
    grace: float,
    *,
    is_streamed: bool,
) -> bool:
    """Give a program its input, wait for its end as ``run`` promises, and kill what is left.

    Returns True if it took too long.
    """
    end = listener.exited if is_streamed or grace else listener.silent
    try:
        listener.give(given)
        async with asyncio.timeout(timeout):
            await asyncio.wait([end, listener.overflow], return_when=asyncio.FIRST_COMPLETED)
        if end.done():
            if is_streamed:
                kill_group(transport.get_pid())
            rest = _DRAIN_SECONDS if is_streamed else grace
            await asyncio.wait([listener.silent], timeout=rest)
    except TimeoutError:
        return True
    finally:
        try:
            if grace and not end.done():
                kill_group(transport.get_pid(), signal.SIGTERM)
                await asyncio.wait([listener.exited], timeout=grace)
        finally:
            await _kill_and_wait(transport, listener.exited)
    return False


def choose_umask_option(loop: asyncio.AbstractEventLoop, umask: int) -> dict[str, Any]:
    """Return the option of ``loop.subprocess_exec`` that gives a program this umask.

    -1: the daemon's own. Loops other than asyncio's, such as uvloop's, know no ``umask``.
    """
    if isinstance(loop, asyncio.BaseEventLoop):
        return {"umask": umask}
    return {} if umask < 0 else {"preexec_fn": partial(os.umask, umask)}


class HasExit(Protocol):
    """A protocol with a future that is done when the program exited."""

    exited: asyncio.Future[None]


T = TypeVar("T", bound=HasExit)


async def wait_until_started(
    starting: Coroutine[Any, Any, tuple[Transport, T]],
) -> tuple[Transport, T]:
    """Wait until a program has started; cancelling kills its process group.

    On its own, asyncio would kill only the program itself.
    """
    task = asyncio.ensure_future(starting)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():  # also if it is cancelled again
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if task.exception() is None:
            transport, listener = task.result()
            await _kill_and_wait(transport, listener.exited)
        raise


async def _kill_and_wait(
    transport: asyncio.SubprocessTransport, exited: "asyncio.Future[None]"
) -> None:
    """Kill a program's process group and wait a few seconds for its end."""
    kill_group(transport.get_pid())
    try:
        await asyncio.wait([exited], timeout=_KILL_SECONDS)
    finally:  # the waiting task may be cancelled now
        transport.close()


class _Listener(asyncio.SubprocessProtocol):
    """Collects the output of a program.

    ``silent`` is done when it exited and its outputs are closed, ``overflow`` when its output
    exceeded the limit.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limit: int,
        on_output: Callable[[bytes], None] | None,
    ) -> None:
        self.outputs = {1: bytearray(), 2: bytearray()}
        self.exited = loop.create_future()
        self.silent = loop.create_future()
        self.overflow = loop.create_future()
        self._limit = limit
        self._on_output = on_output
        self._heard = 0
        self._transport: asyncio.SubprocessTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def give(self, given: bytes) -> None:
        """Send the program its whole input and close the pipe."""
        assert self._transport
        pipe = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(0))
        if given:
            pipe.write(given)
        pipe.close()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if self._on_output is None:
            output = self.outputs[fd]
            output += data[: self._limit + 1 - len(output)]
            size = len(output)
        else:
            self._on_output(data)
            size = self._heard = self._heard + len(data)
        if size > self._limit and not self.overflow.done():
            self.overflow.set_result(None)

    def process_exited(self) -> None:
        self.exited.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.silent.done():
            self.silent.set_result(None)


def kill_group(leader: int, number: int = signal.SIGKILL) -> None:
    """Signal a whole process group; its id is not reused while a member lives."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def spawn(
    command: Sequence[str], folder: str, env: Mapping[str, str], output: int
) -> "subprocess.Popen[bytes]":
    """Start a program whose output goes to a descriptor. Blocking. Raises ``Unavailable``.

    It leads a process group and a session of its own.
    """
    try:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            umask=DEFAULT_UMASK,
        )
    except (OSError, ValueError) as error:
        raise build_start_error(command[0], folder, error) from error


def build_start_error(program: str, folder: str, error: OSError | ValueError) -> Unavailable:
    """Return an error that says why a program could not be started."""
    if isinstance(error, ValueError):  # a NUL in an argument
        return Unavailable(f"The program {program} cannot be started: {error}.")
    if not os.path.isdir(folder):
        return Unavailable(f"The workspace {folder} is not there any more.")
    if isinstance(error, FileNotFoundError):
        return Unavailable(f"The program {program} is not installed, or not in PATH.")
    return Unavailable(f"The program {program} cannot be started: {error.strerror}.")
