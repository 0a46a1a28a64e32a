"""Running the programs of builds: in a thread each, so that no output is too much.

The thread reads no faster than it understands what it reads, so a program that says more waits
in its pipe, and memory stays bounded. Its group and all strays (``strays``) are ended with it.
"""

import asyncio
import fcntl
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from agentd.errors import Unavailable
from agentd.outside.process import MARK, USUAL_UMASK, environment, kill_group, not_started
from agentd.outside.strays import end_strays_now
from agentd.workspace.building import BuildEnd
from agentd.workspace.definition import Build
from agentd.workspace.transcript import Transcript

TELL_SECONDS = 0.2
"""What a build says is gathered that long before it is told."""

_PORTION = 256 * 1024
_TICK = 0.05
"""Seconds between two looks whether the program itself has ended."""
_LAST_WORDS = 1.0
"""Seconds for what an ended program said to be read, while something holds its output."""
_DEATH = 5.0


def inside(root: str, folder: str) -> str:
    """The folder below ``root``. Raises ``Unavailable`` when it is none, or leads out of it."""
    top = os.path.realpath(root)
    path = os.path.realpath(os.path.join(top, folder))
    if os.path.commonpath([path, top]) != top:
        raise Unavailable(f"The folder {folder} leads out of the workspace.")
    if not os.path.isdir(path):
        raise Unavailable(f"There is no folder {folder} in the workspace.")
    return path


class BuildPrograms:
    """Runs builds in the workspace ``root``; satisfies ``workspace.building.BuildRunner``.

    ``generation`` marks what they start as this state folder's.
    """

    def __init__(self, root: str, generation: str) -> None:
        self._root = root
        self._generation = generation

    async def run(
        self, build: Build, run: str, transcript: Transcript, said: Callable[[], None]
    ) -> BuildEnd:
        """Run one to its end; ``said`` is called now and then, when it said more.

        Raises ``Unavailable`` when it cannot be started. Cancelling ends it, and all it started.
        """
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[BuildEnd] = loop.create_future()
        reader = _Reader(self._root, build, f"{self._generation}.build-{run}", transcript)
        reader.say = lambda: loop.call_soon_threadsafe(said)

        def live() -> None:
            try:
                end = reader.run()
            except (Unavailable, OSError) as error:
                told = error if isinstance(error, Unavailable) else Unavailable(str(error))
                loop.call_soon_threadsafe(ended.set_exception, told)
            else:
                loop.call_soon_threadsafe(ended.set_result, end)

        threading.Thread(target=live, name=f"build {run}").start()
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            reader.unwanted.set()
            await asyncio.wait([ended])
            ended.exception()
            raise


class _Reader:
    """One run's thread."""

    def __init__(self, root: str, build: Build, mark: str, transcript: Transcript) -> None:
        self.unwanted = threading.Event()
        self.say: Callable[[], object] = lambda: None
        self._root = root
        self._build = build
        self._mark = mark
        self._transcript = transcript
        self._told = 0.0
        self._more = False

    def run(self) -> BuildEnd:
        """From the program's start until nothing of it is left. Raises ``Unavailable``."""
        folder = inside(self._root, self._build.folder)
        try:
            output, theirs = os.pipe()
        except OSError as error:
            raise Unavailable(f"A build cannot be started: {error.strerror}.") from error
        try:
            try:
                program = self._started(folder, theirs)
            finally:
                os.close(theirs)
            return self._followed(program, output)
        finally:
            os.close(output)

    def _started(self, folder: str, output: int) -> "subprocess.Popen[bytes]":
        command = self._build.command
        with suppress(OSError):  # fewer, larger portions, where the system allows them
            fcntl.fcntl(output, fcntl.F_SETPIPE_SZ, _PORTION)
        try:
            return subprocess.Popen(
                command,
                cwd=folder,
                env=environment(**self._build.environment) | {MARK: self._mark},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                umask=USUAL_UMASK,
            )
        except (OSError, ValueError) as error:
            raise not_started(command[0], folder, error) from error

    def _followed(self, program: "subprocess.Popen[bytes]", output: int) -> BuildEnd:
        deadline = time.monotonic() + self._build.timeout
        late, open_ = False, True
        try:
            while not self._exited(program, 0 if open_ else _TICK):
                late = time.monotonic() >= deadline
                if late or self.unwanted.is_set():
                    break
                open_ = open_ and self._read(output, _TICK)
        finally:
            kill_group(program.pid)
            with suppress(subprocess.TimeoutExpired):
                program.wait(_DEATH)
            end_strays_now(self._mark)
        until = time.monotonic() + _LAST_WORDS
        while open_ and time.monotonic() < until:
            open_ = self._read(output, _TICK)
        code = program.returncode
        return BuildEnd(-signal.SIGKILL if code is None else code, late)

    def _exited(self, program: "subprocess.Popen[bytes]", seconds: float) -> bool:
        """Whether the program ended; its number stays its own until ``wait``."""
        deadline = time.monotonic() + seconds
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while os.waitid(os.P_PID, program.pid, flags) is None:
            if time.monotonic() >= deadline:
                return False
            time.sleep(min(_TICK, seconds) / 10)
        return True

    def _read(self, output: int, seconds: float) -> bool:
        """Take in what it says within this time; False once it can say no more."""
        poll = select.poll()
        poll.register(output, select.POLLIN)
        if poll.poll(seconds * 1000):
            data = os.read(output, _PORTION)
            if not data:
                return False
            self._transcript.take(data)
            self._more = True
        now = time.monotonic()
        if self._more and now - self._told >= TELL_SECONDS:
            self._told, self._more = now, False
            self.say()
        return True
