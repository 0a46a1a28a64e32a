"""The builds of the workspace, as callers command them.

Who triggers a build that runs already, even a hundred at once, is told of the running one. What
a build said, and what became of it, stays on disk until it is built again.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Literal, Protocol

from msgspec import Struct

from agentd import ids
from agentd.clock import Clock
from agentd.errors import NotFound, Unavailable, nearest
from agentd.events import BuildOutput, BuildUpdate, Bus
from agentd.workspace.build import (
    BuildJob,
    BuildStatus,
    Daemonless,
    Ended,
    Instruction,
    StopAsked,
    Triggered,
)
from agentd.workspace.definition import Build, Definitions
from agentd.workspace.transcript import Transcript

log = logging.getLogger(__name__)


class BuildEnd(Struct, frozen=True):
    """How a build's program ended; ``code`` is negative when a signal ended it."""

    code: int
    late: bool = False


class BuildStore(Protocol):
    """Where results are kept (``disk.jobs.BuildFiles``). Its methods block."""

    def load(self) -> list[BuildStatus]:
        """Every build's last run."""
        ...

    def save(self, status: BuildStatus, output: bytes) -> None:
        """Keep a run, and what it said. Raises ``Unavailable``."""
        ...

    def output(self, name: str) -> bytes:
        """What the last run said."""
        ...


class BuildRunner(Protocol):
    """Runs build programs (``outside.build.BuildPrograms``)."""

    def run(
        self, build: Build, run: str, transcript: Transcript, said: Callable[[], None]
    ) -> Coroutine[Any, Any, BuildEnd]:
        """Run one to its end; ``said`` is called on the loop, now and then, when it said more.

        Raises ``Unavailable`` when it cannot be started. Cancelling ends it, and all it started.
        """
        ...


class _Run:
    """A build of one name, and what it says while it runs."""

    def __init__(self, status: BuildStatus) -> None:
        self.job = BuildJob(status)
        self.transcript: Transcript | None = None
        self.started: asyncio.Future[None] | None = None
        """Done when that it runs is on disk."""
        self.task: asyncio.Task[None] | None = None
        """From being triggered until its result is on disk."""
        self.program: asyncio.Task[BuildEnd] | None = None
        self.unwanted: Literal["", "stopped", "interrupted"] = ""

    def end(self, why: Literal["stopped", "interrupted"]) -> None:
        """End the program, or never start it."""
        self.unwanted = self.unwanted or why
        if self.program:
            self.program.cancel()


class BuildService:
    """All builds of ``definitions``, as the file is when a method is called."""

    def __init__(
        self,
        definitions: Definitions[Build],
        store: BuildStore,
        runner: BuildRunner,
        clock: Clock,
        bus: Bus,
    ) -> None:
        self._definitions = definitions
        self._store = store
        self._runner = runner
        self._clock = clock
        self._bus = bus
        self._runs: dict[str, _Run] = {}
        self._open = False

    async def start(self) -> None:
        """Know again what was built; what ran when the daemon was killed was interrupted."""
        for status in await asyncio.to_thread(self._store.load):
            run = self._runs[status.name] = _Run(status)
            await self._carry_out(run, run.job.handle(Daemonless(self._clock.now())))
        self._open = True

    async def stop(self) -> None:
        """End what runs, and keep what became of it."""
        self._open = False
        for run in self._runs.values():
            run.end("interrupted")
        tasks = [run.task for run in self._runs.values() if run.task]
        if tasks:
            await asyncio.wait(tasks)

    async def all(self) -> list[BuildStatus]:
        """Every build that can be triggered, or runs; in the file's order."""
        await self._definitions.ensure_current()
        running = [name for name, run in self._runs.items() if run.job.running]
        return [self._known(name) for name in dict.fromkeys([*self._definitions.current, *running])]

    async def status(self, name: str) -> BuildStatus:
        """What is known of a build's last run. ``NotFound`` when there is no such build."""
        await self._definitions.ensure_current()
        return self._known(name)

    def _known(self, name: str) -> BuildStatus:
        run = self._runs.get(name)
        defined = self._definitions.current
        if name not in defined and not (run and run.job.running):
            raise NotFound(f"Build {name[:64]} not found{nearest(name, defined)}")
        return run.job.status if run else BuildStatus(name)

    async def trigger(self, name: str, by: str) -> BuildStatus:
        """Start a build, unless it runs; that it runs is on disk then.

        Raises ``NotFound``, or ``Unavailable`` when the disk does not take it.
        """
        run = self._runs.setdefault(name, _Run(await self.status(name)))
        while run.task and not run.job.running:  # what became of the last one is being kept
            await asyncio.wait([run.task])
        if not self._open:
            raise Unavailable("The daemon is stopping.")
        triggered = Triggered(ids.new_request_id(), by, self._clock.now())
        if instructions := run.job.handle(triggered):
            run.started = asyncio.get_running_loop().create_future()
            run.unwanted = ""
            run.task = asyncio.create_task(self._live(run, instructions))
        if run.started:
            await asyncio.shield(run.started)
        return run.job.status

    async def end(self, name: str) -> BuildStatus:
        """End a running build with all that it started; nothing when it does not run."""
        run = self._runs.setdefault(name, _Run(await self.status(name)))
        if Instruction.END in run.job.handle(StopAsked()):
            run.end("stopped")
            if run.task:
                await asyncio.wait([run.task])
        return run.job.status

    async def output(self, name: str) -> bytes:
        """What the last run said, or has said so far. Raises ``NotFound`` or ``Unavailable``."""
        await self.status(name)
        run = self._runs.get(name)
        if run and run.transcript:
            return await asyncio.to_thread(run.transcript.output)
        return await asyncio.to_thread(self._store.output, name)

    async def _live(self, run: _Run, instructions: Iterable[Instruction]) -> None:
        """One run, from being triggered until its result is kept."""
        assert run.started
        try:
            await self._carry_out(run, instructions)
        except Unavailable as error:  # not even that it runs could be written down
            run.job.handle(Ended(self._clock.now(), None, "unstartable", error.message))
            run.started.set_exception(error)
            run.started.exception()  # whoever triggered it may have left
        finally:
            run.task = run.transcript = None

    async def _carry_out(self, run: _Run, instructions: Iterable[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case Instruction.KEEP:
                    await self._keep(run)
                case Instruction.TELL:
                    self._bus.publish(BuildUpdate(run.job.status))
                case Instruction.RUN:
                    assert run.started
                    run.started.set_result(None)
                    await self._carry_out(run, run.job.handle(await self._ran(run)))

    async def _ran(self, run: _Run) -> Ended:
        """Run the program; how that ended."""
        status = run.job.status
        build = self._definitions.current.get(status.name)
        if build is None:  # taken out of the file in this very moment
            return Ended(self._clock.now(), None, "unstartable", "It is not written down any more.")
        transcript = run.transcript = Transcript(build.patterns)

        def said() -> None:
            if Instruction.TELL in run.job.handle(transcript.said()):
                self._bus.publish(BuildUpdate(run.job.status))
            if news := transcript.news():
                self._bus.publish(BuildOutput(status.name, status.run, news.text, news.skipped))

        running = self._runner.run(build, status.run, transcript, said)
        program = run.program = asyncio.create_task(running)
        if run.unwanted:
            program.cancel()
        await asyncio.wait([program])
        run.program = None
        transcript.end()
        said()
        return self._ended(run, program)

    def _ended(self, run: _Run, program: "asyncio.Task[BuildEnd]") -> Ended:
        at = self._clock.now()
        if program.cancelled():
            return Ended(at, None, run.unwanted or "interrupted")
        error = program.exception()
        if isinstance(error, Unavailable):
            return Ended(at, None, "unstartable", error.message)
        end = program.result()
        return Ended(at, end.code, "late" if end.late else "")

    async def _keep(self, run: _Run) -> None:
        """Write down how it stands. Raises ``Unavailable`` where it is about to run."""
        status, transcript = run.job.status, run.transcript
        try:
            output = await asyncio.to_thread(transcript.output) if transcript else b""
            await asyncio.to_thread(self._store.save, status, output)
        except Unavailable as error:
            if run.job.running:
                raise
            log.error("the build %s is not kept: %s", status.name, error.message)
