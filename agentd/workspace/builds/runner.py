"""Running the programs of builds: in a thread each, so that no output is too much.

The thread reads no faster than it understands what it reads, so a program that says more waits
in its pipe, and memory stays bounded. Its group and all strays (``orphans``) are ended with it.
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

from agentd.core.errors import Unavailable
from agentd.system.limit_mark import mark_process
from agentd.system.orphans import kill_orphans_now
from agentd.system.process import MARK, build_environment, kill_group, spawn
from agentd.workspace.builds.output import BuildTranscript
from agentd.workspace.builds.service import BuildEnd
from agentd.workspace.definitions import Build

TELL_SECONDS = 0.2
"""The seconds for which output is collected before it is published."""

_PORTION = 256 * 1024
_TICK = 0.05
"""Seconds between two looks whether the program itself has ended."""
_LAST_WORDS = 1.0
"""Seconds for what an ended program said to be read, while something holds its output."""
_DEATH = 5.0


def resolve_inside(root: str, folder: str) -> str:
    """Return the folder below ``root``. Raises ``Unavailable`` if it is missing or outside."""
    top = os.path.realpath(root)
    path = os.path.realpath(os.path.join(top, folder))
    if os.path.commonpath([path, top]) != top:
        raise Unavailable(f"The folder {folder} leads out of the workspace.")
    if not os.path.isdir(path):
        raise Unavailable(f"There is no folder {folder} in the workspace.")
    return path


class BuildPrograms:
    """Runs builds in the workspace ``root``; satisfies ``workspace.builds.service.BuildRunner``.

    ``generation`` marks what they start as this state folder's.
    """

    def __init__(self, root: str, generation: str) -> None:
        self._root = root
        self._generation = generation

    async def run(
        self, build: Build, run: str, transcript: BuildTranscript, on_progress: Callable[[], None]
    ) -> BuildEnd:
        """Run one to its end; ``on_progress`` is called now and then, when it said more.

        Raises ``Unavailable`` when it cannot be started. Cancelling ends it, and all it started.
        """
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[BuildEnd] = loop.create_future()
        reader = _Reader(self._root, build, f"{self._generation}.build-{run}", transcript)
        reader.say = lambda: loop.call_soon_threadsafe(on_progress)

        def report(value: BuildEnd | Exception) -> None:
            if isinstance(value, BuildEnd):
                loop.call_soon_threadsafe(ended.set_result, value)
            else:
                loop.call_soon_threadsafe(ended.set_exception, value)

        try:
            threading.Thread(target=_run, args=(reader, report), name=f"build {run}").start()
        except RuntimeError as error:  # the system allows no more threads
            raise Unavailable(f"A build cannot be started: {error}.") from error
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            reader.unwanted.set()
            await asyncio.wait([ended])
            ended.exception()
            raise


def _run(reader: "_Reader", report: Callable[[BuildEnd | Exception], None]) -> None:
    try:
        end = reader.run()
    except OSError as error:
        report(Unavailable(str(error)))
    except Exception as error:  # a thread boundary: the build would run for ever
        report(error)
    else:
        report(end)


class _Reader:
    """The thread of one run."""

    def __init__(self, root: str, build: Build, mark: str, transcript: BuildTranscript) -> None:
        self.unwanted = threading.Event()
        self.say: Callable[[], object] = lambda: None
        self._root = root
        self._build = build
        self._mark = mark
        self._transcript = transcript
        self._published = 0.0
        self._more = False

    def run(self) -> BuildEnd:
        """Run the program until nothing of it is left. Raises ``Unavailable``."""
        folder = resolve_inside(self._root, self._build.folder)
        try:
            output, theirs = os.pipe()
        except OSError as error:
            raise Unavailable(f"A build cannot be started: {error.strerror}.") from error
        try:
            try:
                program = self._start(folder, theirs)
            finally:
                os.close(theirs)
            return self._follow(program, output)
        finally:
            os.close(output)

    def _start(self, folder: str, output: int) -> "subprocess.Popen[bytes]":
        with suppress(OSError):  # fewer, larger portions, where the system allows them
            fcntl.fcntl(output, fcntl.F_SETPIPE_SZ, _PORTION)
        env = build_environment(**self._build.environment) | {MARK: self._mark}
        program = spawn(self._build.command, folder, env, output)
        mark_process(program.pid, self._mark)  # what it started before this has the other mark
        return program

    def _follow(self, program: "subprocess.Popen[bytes]", output: int) -> BuildEnd:
        deadline = time.monotonic() + self._build.timeout
        late, open_ = False, True
        try:
            while not self._wait_for_exit(program, 0 if open_ else _TICK):
                late = time.monotonic() >= deadline
                if late or self.unwanted.is_set():
                    break
                open_ = open_ and self._read(output, _TICK)
        finally:
            kill_group(program.pid)
            with suppress(subprocess.TimeoutExpired):
                program.wait(_DEATH)
            kill_orphans_now(self._mark)
        until = time.monotonic() + _LAST_WORDS
        while open_ and time.monotonic() < until:
            open_ = self._read(output, _TICK)
        code = program.returncode
        return BuildEnd(-signal.SIGKILL if code is None else code, late)

    def _wait_for_exit(self, program: "subprocess.Popen[bytes]", seconds: float) -> bool:
        """Return whether the program ended; its number stays its own until ``wait``."""
        deadline = time.monotonic() + seconds
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while os.waitid(os.P_PID, program.pid, flags) is None:
            if time.monotonic() >= deadline:
                return False
            time.sleep(min(_TICK, seconds) / 10)
        return True

    def _read(self, output: int, seconds: float) -> bool:
        """Read its output for this time; False once its output has ended."""
        poll = select.poll()
        poll.register(output, select.POLLIN)
        if poll.poll(seconds * 1000):
            data = os.read(output, _PORTION)
            if not data:
                return False
            self._transcript.append(data)
            self._more = True
        now = time.monotonic()
        if self._more and now - self._published >= TELL_SECONDS:
            self._published, self._more = now, False
            self.say()
        return True
