"""The builds of the workspace, as callers command them.

Triggering a build that is already running, even a hundred times, returns the running one. What
a build said, and what became of it, stays on disk until it is built again.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Literal, Protocol

from msgspec import Struct

from agentd.core import ids
from agentd.core.clock import Clock
from agentd.core.errors import AgentdError, NotFound, Unavailable, suggest_name
from agentd.core.events import EventBus
from agentd.workspace.builds.build import (
    BuildEnded,
    BuildJob,
    BuildStatus,
    BuildStopRequested,
    BuildTriggered,
    DaemonLost,
    Instruction,
)
from agentd.workspace.builds.events import BuildOutput, BuildUpdate
from agentd.workspace.builds.output import BuildTranscript, KeptOutput
from agentd.workspace.definitions import Build, Definitions
from agentd.workspace.job_views import JobOutputView

log = logging.getLogger(__name__)


class BuildEnd(Struct, frozen=True):
    """The exit of a build's program; ``code`` is negative when a signal ended it."""

    code: int
    late: bool = False


class BuildStore(Protocol):
    """The storage of results (``workspace.job_store.BuildFiles``). Its methods block."""

    def load(self) -> list[BuildStatus]:
        """Load the status of every build's last run."""
        ...

    def save(self, status: BuildStatus, output: bytes) -> None:
        """Save a run and its output. Raises ``Unavailable``."""
        ...

    def read_output(self, name: str) -> bytes:
        """Return the output of the last run."""
        ...


class BuildRunner(Protocol):
    """Runs build programs (``workspace.builds.runner.BuildPrograms``)."""

    def run(
        self, build: Build, run: str, transcript: BuildTranscript, on_progress: Callable[[], None]
    ) -> Coroutine[Any, Any, BuildEnd]:
        """Run one to its end; ``on_progress`` is called on the loop now and then on new output.

        Raises ``Unavailable`` when it cannot be started. Cancelling ends it, and all it started.
        """
        ...


class _Run:
    """A build of one name, and what it says while it runs."""

    def __init__(self, status: BuildStatus) -> None:
        self.job = BuildJob(status)
        self.transcript: BuildTranscript | None = None
        self.started: asyncio.Future[None] | None = None
        """Done when that it runs is on disk."""
        self.task: asyncio.Task[None] | None = None
        """The task of the run, from its trigger until its result is on disk."""
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
        bus: EventBus,
    ) -> None:
        self._definitions = definitions
        self._store = store
        self._runner = runner
        self._clock = clock
        self._bus = bus
        self._runs: dict[str, _Run] = {}
        self._open = False

    async def start(self) -> None:
        """Load the builds; mark those that ran when the daemon was killed as interrupted."""
        for status in await asyncio.to_thread(self._store.load):
            run = self._runs[status.name] = _Run(status)
            await self._apply(run, run.job.handle(DaemonLost(self._clock.now())))
        self._open = True

    async def stop(self) -> None:
        """Stop running builds, and save their results."""
        self._open = False
        for run in self._runs.values():
            run.end("interrupted")
        tasks = [run.task for run in self._runs.values() if run.task]
        if tasks:
            await asyncio.wait(tasks)

    async def list_builds(self) -> list[BuildStatus]:
        """List builds that can be triggered or run, in the file's order."""
        await self._definitions.ensure_current()
        running = [name for name, run in self._runs.items() if run.job.running]
        return [
            self._get_status(name) for name in dict.fromkeys([*self._definitions.current, *running])
        ]

    async def get_status(self, name: str) -> BuildStatus:
        """Return the status of a build's last run. Raises ``NotFound``."""
        await self._definitions.ensure_current()
        return self._get_status(name)

    def get_folder(self, name: str) -> str:
        """Return a build's folder in the workspace; ``.`` unless it is configured."""
        build = self._definitions.current.get(name)
        return build.folder if build else "."

    def _get_status(self, name: str) -> BuildStatus:
        run = self._runs.get(name)
        defined = self._definitions.current
        if name not in defined and not (run and run.job.running):
            raise NotFound(f"Build {name[:64]} not found{suggest_name(name, defined)}")
        return run.job.status if run else BuildStatus(name)

    async def trigger(self, name: str, by: str) -> BuildStatus:
        """Start a build, unless it runs; that it runs is on disk then.

        Raises ``NotFound``, or ``Unavailable`` when the disk does not take it.
        """
        run = self._runs.setdefault(name, _Run(await self.get_status(name)))
        while run.task and not run.job.running:  # what became of the last one is being kept
            await asyncio.wait([run.task])
        if not self._open:
            raise Unavailable("The daemon is stopping.")
        triggered = BuildTriggered(ids.generate_request_id(), by, self._clock.now())
        if instructions := run.job.handle(triggered):
            run.started = asyncio.get_running_loop().create_future()
            run.unwanted = ""
            run.task = asyncio.create_task(self._execute(run, instructions))
        if run.started:
            await asyncio.shield(run.started)
        return run.job.status

    async def stop_build(self, name: str) -> BuildStatus:
        """Stop a running build with all that it started; nothing happens if it is not running."""
        run = self._runs.setdefault(name, _Run(await self.get_status(name)))
        if Instruction.END in run.job.handle(BuildStopRequested()):
            run.end("stopped")
            if run.task:
                await asyncio.wait([run.task])
        return run.job.status

    async def read_output(self, name: str) -> KeptOutput:
        """Return the output of the last run so far. Raises ``NotFound`` or ``Unavailable``."""
        status = await self.get_status(name)
        run = self._runs.get(name)
        if run and run.transcript:
            return await asyncio.to_thread(run.transcript.get_output)
        return KeptOutput(await asyncio.to_thread(self._store.read_output, name), status.size)

    async def _execute(self, run: _Run, instructions: Iterable[Instruction]) -> None:
        """Run a build from its trigger until its result is saved."""
        assert run.started
        try:
            await self._apply(run, instructions)
        except AgentdError as error:  # not even that it runs could be written down
            run.job.handle(BuildEnded(self._clock.now(), None, "unstartable", error.message))
            run.started.set_exception(error)
            run.started.exception()  # its caller may have disconnected
        finally:
            run.task = run.transcript = None

    async def _apply(self, run: _Run, instructions: Iterable[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case Instruction.SAVE:
                    await self._save(run)
                case Instruction.PUBLISH:
                    self._bus.publish(BuildUpdate(run.job.status))
                case Instruction.RUN:
                    assert run.started
                    run.started.set_result(None)
                    await self._apply(run, run.job.handle(await self._run_program(run)))

    async def _run_program(self, run: _Run) -> BuildEnded:
        """Run the program; return how it ended."""
        status = run.job.status
        build = self._definitions.current.get(status.name)
        if build is None:  # taken out of the file in this very moment
            return BuildEnded(
                self._clock.now(), None, "unstartable", "It is not written down any more."
            )
        transcript = run.transcript = BuildTranscript(build.patterns)

        def on_output() -> None:
            if Instruction.PUBLISH in run.job.handle(transcript.get_progress()):
                self._bus.publish(BuildUpdate(run.job.status))
            if news := transcript.take_news():
                self._bus.publish(BuildOutput(JobOutputView(status.name, status.run, *news)))

        running = self._runner.run(build, status.run, transcript, on_output)
        program = run.program = asyncio.create_task(running)
        if run.unwanted:
            program.cancel()
        await asyncio.wait([program])
        run.program = None
        transcript.close()
        on_output()
        return self._to_ended(run, program)

    def _to_ended(self, run: _Run, program: "asyncio.Task[BuildEnd]") -> BuildEnded:
        at = self._clock.now()
        if program.cancelled():
            return BuildEnded(at, None, run.unwanted or "interrupted")
        if error := program.exception():
            if isinstance(error, AgentdError):
                return BuildEnded(at, None, "unstartable", error.message)
            log.error("the build %s failed unexpectedly", run.job.status.name, exc_info=error)
            return BuildEnded(at, None, "unstartable", f"{type(error).__name__}: {error}")
        end = program.result()
        return BuildEnded(at, end.code, "late" if end.late else "")

    async def _save(self, run: _Run) -> None:
        """Save the status. Raises an ``AgentdError`` if the build is about to run."""
        status, transcript = run.job.status, run.transcript
        try:
            output = (
                await asyncio.to_thread(transcript.get_output) if transcript else KeptOutput(b"", 0)
            )
            await asyncio.to_thread(self._store.save, status, output.data)
        except AgentdError as error:  # also where a folder is in the place of its file
            if run.job.running:
                raise
            log.error("the build %s is not kept: %s", status.name, error.message)
