"""The deployments, as callers command them; they outlive the daemon.

Each has a keeper that takes one thing after the other, so a stop and a start never race. That a
program is about to be started, and then which process it is, is on disk before the start is
acknowledged: a daemon that was killed in between finds it again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from typing import Protocol

from msgspec import structs

from agentd.core import ids
from agentd.core.clock import Clock
from agentd.core.errors import AgentdError, NotFound, Unavailable, suggest_name
from agentd.core.events import EventBus
from agentd.core.tasks import cancel_task
from agentd.system.process_identity import Process
from agentd.workspace.builds.output import MAX_PUBLISHED, decode_part
from agentd.workspace.definitions import Definitions, Deployment, HealthCheck
from agentd.workspace.deployments.deployment import (
    DeploymentJob,
    DeploymentStatus,
    HealthChecked,
    Instruction,
    Instructions,
    KillProgram,
    LaunchFailed,
    LaunchProgram,
    LaunchSucceeded,
    OutputSlice,
    ProgramEnded,
    RestartRequested,
    SetTimer,
    StartRequested,
    Stimulus,
    StopRequested,
    TerminateProgram,
    TimerFired,
)
from agentd.workspace.deployments.events import DeploymentOutput, DeploymentUpdate
from agentd.workspace.job_views import JobOutputView

log = logging.getLogger(__name__)

TRIM_SECONDS = 0.5
"""The interval at which outputs are checked: published live, and cut when too long."""
STARTING_SECONDS = 0.25
"""The pause between two checks whether a starting deployment works already."""

_GONE = Deployment(command=("",), restart="never")
"""The definition of a deployment that is no longer configured."""


class RunningProgram(Protocol):
    """A running program of a deployment, which need not be our child."""

    @property
    def process(self) -> Process:
        """The identity of the process."""
        ...

    @property
    def ended(self) -> "asyncio.Future[int | None]":
        """Done when no process is left: the exit code, None if it is unknown to us."""
        ...

    def terminate(self) -> None:
        """Ask the program and its group to end."""
        ...

    def kill(self) -> None:
        """Kill the program and its group."""
        ...

    def release(self) -> None:
        """Stop watching the program, which keeps running."""
        ...


class DeploymentRunner(Protocol):
    """Starts, finds and looks at programs (``workspace.deployments.runner.DeploymentPrograms``)."""

    def start(self, definition: Deployment, run: str, output: int) -> Awaitable[RunningProgram]:
        """Start one whose output goes to the descriptor, which is closed here.

        Raises ``Unavailable``.
        """
        ...

    def find(self, status: DeploymentStatus) -> Awaitable[RunningProgram | None]:
        """Find the program that an earlier daemon started; what else is left of it is ended."""
        ...

    def check_health(self, health: HealthCheck) -> Awaitable[str]:
        """Explain why it is unhealthy; empty if it is healthy."""
        ...


class DeploymentStore(Protocol):
    """The storage of deployments (``workspace.job_store.DeploymentFiles``). Its methods block."""

    def load(self) -> list[DeploymentStatus]:
        """Load the status of all deployments ever started."""
        ...

    def save(self, status: DeploymentStatus) -> None:
        """Save one. Raises ``Unavailable``."""
        ...

    def open_output(self, name: str) -> int:
        """Open the output for appending; return the descriptor."""
        ...

    def trim(self, name: str) -> None:
        """Keep the output within bounds."""
        ...

    def read_output(
        self, name: str, offset: int | None = None, most: int | None = None
    ) -> OutputSlice:
        """Return the end of the output from ``offset`` on: at most ``most`` bytes."""
        ...


class DeploymentContext:
    """The services that every keeper needs."""

    def __init__(
        self,
        definitions: Definitions[Deployment],
        store: DeploymentStore,
        runner: DeploymentRunner,
        clock: Clock,
        bus: EventBus,
        workspace: str = "",
    ) -> None:
        self.workspace = workspace
        """The folder of the deployments, a path without links."""
        self.definitions = definitions
        self.store = store
        self.runner = runner
        self.clock = clock
        self.bus = bus


class _OutputPublisher:
    """Publishes a deployment's output live; output before its start is not published."""

    def __init__(self, context: DeploymentContext, name: str) -> None:
        self._context = context
        self._name = name
        self._published: int | None = None
        """The offset up to which output was published; None if nothing runs."""
        self._lock = asyncio.Lock()
        """The keeper looks when a run ends, the service looks all the time."""

    async def start(self) -> None:
        """Publish new output from now on."""
        async with self._lock:
            if chunk := await self._read(None):
                self._published = chunk.end

    async def stop(self, run: str) -> None:
        """Publish the rest, and nothing after that."""
        await self.publish_new(run)
        self._published = None

    async def publish_new(self, run: str) -> None:
        """Publish new output; if it is long, only the end."""
        async with self._lock:
            if (
                self._published is None
                or not (chunk := await self._read(self._published))
                or not chunk.data
            ):
                return
            # A log that was deleted starts again, at an offset that was published before.
            skipped = max(chunk.offset - self._published, 0)
            text, rest = decode_part(chunk.data)
            self._published = chunk.end - rest
            if text:
                output = JobOutputView(
                    self._name, run, text, skipped, chunk.offset, self._published
                )
                self._context.bus.publish(DeploymentOutput(output))

    async def _read(self, offset: int | None) -> OutputSlice | None:
        try:
            return await asyncio.to_thread(
                self._context.store.read_output, self._name, offset, MAX_PUBLISHED
            )
        except AgentdError as error:  # only not published; a request for it gets the reason
            log.warning("the output of deployment %s is not published: %s", self._name, error)
            return None


class _Keeper:
    """Looks after one deployment."""

    def __init__(self, context: DeploymentContext, status: DeploymentStatus) -> None:
        self.job = DeploymentJob(status, context.definitions.current.get(status.name, _GONE))
        self._context = context
        self._inbox: asyncio.Queue[tuple[Stimulus | None, asyncio.Future[None] | None]] = (
            asyncio.Queue()
        )
        self._kept = status
        self._wake_at: float | None = None
        self._program: RunningProgram | None = None
        self._health: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._output = _OutputPublisher(context, status.name)

    @property
    def at_work(self) -> bool:
        """True if something runs, or is to run."""
        return self._program is not None or self.job.status.wanted

    async def ask(self, stimulus: Stimulus) -> None:
        """Handle a stimulus; return when it is on disk. Raises ``Unavailable``."""
        asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._inbox.put_nowait((stimulus, asked))
        await asked

    async def start(self) -> None:
        """Find the running program, and go on as if the daemon had never been away."""
        status = self.job.status
        found = await self._context.runner.find(status) if status.process or status.run else None
        self._task = asyncio.create_task(self._run_inbox())
        if found:
            await self._output.start()
            self._follow(found)
            self.job.set_process(found.process)
            await self._apply(self.job.adopt())
        elif status.process or (status.wanted and status.state != "waiting"):
            self._inbox.put_nowait((ProgramEnded(None), None))
        elif status.wanted:
            self._inbox.put_nowait((TimerFired(), None))

    async def stop(self) -> None:
        """Finish pending work, and leave the program running."""
        if self._task:
            self._inbox.put_nowait((None, None))
            await asyncio.wait([self._task])
        if self._health:
            await cancel_task(self._health)
        if self._program:
            self._program.release()

    async def check_output(self) -> None:
        """Publish new output, and keep the log within bounds."""
        await self._output.publish_new(self.job.status.run)
        await asyncio.to_thread(self._context.store.trim, self.job.status.name)

    async def _run_inbox(self) -> None:
        while True:
            stimulus, asked = await self._wait_for_stimulus()
            if stimulus is None:
                break
            try:
                await self._handle(stimulus)
            except Exception as error:  # a task boundary: those who ask next wait for this task
                self._log_failure(error)
                if asked and not asked.done():
                    asked.set_exception(error)
            if asked and not asked.done():
                asked.set_result(None)
        while not self._inbox.empty():
            _, asked = self._inbox.get_nowait()
            if asked and not asked.done():
                asked.set_exception(Unavailable("The daemon is stopping."))

    def _log_failure(self, error: Exception) -> None:
        name = self.job.status.name
        if isinstance(error, AgentdError):
            log.error("deployment %s: %s", name, error.message)
        else:
            log.error("deployment %s failed unexpectedly", name, exc_info=error)

    async def _wait_for_stimulus(self) -> tuple[Stimulus | None, "asyncio.Future[None] | None"]:
        try:
            async with asyncio.timeout_at(self._wake_at):
                return await self._inbox.get()
        except TimeoutError:
            self._wake_at = None
            return TimerFired(), None

    async def _handle(self, stimulus: Stimulus) -> None:
        if isinstance(stimulus, ProgramEnded):
            self._program = None
            await self._output.stop(self.job.status.run)
            await asyncio.to_thread(self._context.store.trim, self.job.status.name)
            if self._health:
                self._health.cancel()
                self._health = None
        clock = self._context.clock
        if isinstance(stimulus, StartRequested | RestartRequested) and not self.job.alive:
            known = self._context.definitions.current.get(self.job.status.name)
            if known is None:
                return  # started once, and not written down any more: as unknown as any other
            self.job.definition = known
            self.job.set_workspace(self._context.workspace)
        elif isinstance(stimulus, RestartRequested):
            self.job.set_workspace(self._context.workspace)
        steps = self.job.handle(stimulus, clock.monotonic(), clock.now())
        try:
            if LaunchProgram() not in steps:  # which keeps it itself
                await self._save()
        finally:  # what was decided is done, also where the disk is full
            await self._apply(steps)

    async def _apply(self, steps: Instructions) -> None:
        for step in steps:
            await self._apply_step(step)

    async def _apply_step(self, step: Instruction) -> None:
        match step:
            case LaunchProgram():
                await self._handle(await self._launch())
            case TerminateProgram() if self._program:
                self._program.terminate()
            case KillProgram() if self._program:
                self._program.kill()
            case SetTimer(seconds):
                loop = asyncio.get_running_loop()
                self._wake_at = None if seconds is None else loop.time() + seconds

    async def _launch(self) -> Stimulus:
        """Start the program, in a way that a later daemon can find it again."""
        name = self.job.status.name
        definition = self._context.definitions.current.get(name)
        self.job.prepare_run(ids.generate_request_id(), definition or _GONE)
        if definition is None:
            return LaunchFailed("It is not written down in deployments.yml any more.")
        if why := self.job.explain_other_workspace(self._context.workspace):
            return LaunchFailed(why)
        self.job.set_workspace(self._context.workspace)
        try:
            await self._save()
            output = await asyncio.to_thread(self._context.store.open_output, name)
            await self._output.start()
            program = await self._context.runner.start(definition, self.job.status.run, output)
        except AgentdError as error:  # also where a link is in the place of its log
            return LaunchFailed(error.message)
        self.job.set_process(program.process)
        try:
            await asyncio.to_thread(self._context.store.save, self.job.status)
        except AgentdError as error:
            program.kill()
            await program.ended
            return LaunchFailed(error.message)
        self._follow(program)
        return LaunchSucceeded()

    def _follow(self, program: RunningProgram) -> None:
        self._program = program
        program.ended.add_done_callback(self._on_ended)
        if health := self.job.definition.health:
            self._health = asyncio.create_task(self._watch_health(health))

    def _on_ended(self, ended: "asyncio.Future[int | None]") -> None:
        if not ended.cancelled():
            self._inbox.put_nowait((ProgramEnded(ended.result()), None))

    async def _watch_health(self, health: HealthCheck) -> None:
        """Check periodically whether it works."""
        while True:
            starting = self.job.status.state == "starting"
            await asyncio.sleep(
                min(health.interval_seconds, STARTING_SECONDS)
                if starting
                else health.interval_seconds
            )
            self._inbox.put_nowait(
                (HealthChecked(await self._context.runner.check_health(health)), None)
            )

    async def _save(self) -> None:
        """Save the status, then publish it."""
        status = self.job.status
        if status == self._kept:
            return
        await asyncio.to_thread(self._context.store.save, status)
        self._kept = status
        self._context.bus.publish(DeploymentUpdate(status))


class DeploymentService:
    """All deployments."""

    def __init__(self, context: DeploymentContext) -> None:
        self._context = context
        self._keepers: dict[str, _Keeper] = {}
        self._trimming: asyncio.Task[None] | None = None
        self._open = False

    async def start(self) -> None:
        """Find running deployments, and start those that should run."""
        for status in await asyncio.to_thread(self._context.store.load):
            self._keepers[status.name] = _Keeper(self._context, status)
        for keeper in self._keepers.values():
            await keeper.start()
        self._trimming = asyncio.create_task(self._trim())
        self._open = True

    async def stop(self) -> None:
        """Stop watching; running programs go on."""
        self._open = False
        for keeper in self._keepers.values():
            await keeper.stop()
        if self._trimming:
            await cancel_task(self._trimming)

    async def list_deployments(self) -> list[DeploymentStatus]:
        """List defined deployments, in the file's order, then others that run."""
        defined = await self._load_definitions()
        others = [name for name, keeper in self._keepers.items() if keeper.at_work]
        return [self._make_status(name, defined) for name in dict.fromkeys([*defined, *others])]

    async def get_status(self, name: str) -> DeploymentStatus:
        """Return a deployment's status; ``NotFound`` if it is neither defined nor running."""
        return self._make_status(name, await self._load_definitions())

    def _make_status(self, name: str, defined: Mapping[str, Deployment]) -> DeploymentStatus:
        keeper = self._keepers.get(name)
        if name not in defined and not (keeper and keeper.at_work):
            raise NotFound(f"Deployment {name[:64]} not found{suggest_name(name, defined)}")
        return keeper.job.status if keeper else DeploymentStatus(name)

    async def start_deployment(self, name: str) -> DeploymentStatus | None:
        """Start a deployment, unless it runs. None: the name is unknown."""
        return await self._ask(name, StartRequested())

    async def stop_deployment(self, name: str) -> DeploymentStatus | None:
        """Stop a deployment: terminate it, and kill it after a while. None: the name is unknown."""
        return await self._ask(name, StopRequested())

    async def restart_deployment(self, name: str) -> DeploymentStatus | None:
        """Stop a deployment, and start it after a short pause. None: the name is unknown."""
        return await self._ask(name, RestartRequested())

    async def read_output(self, name: str, offset: int | None = None) -> OutputSlice:
        """Return the end of the output, or the output from an offset on, as far as it is kept.

        Raises ``NotFound`` or ``Unavailable``.
        """
        await self.get_status(name)
        return await asyncio.to_thread(self._context.store.read_output, name, offset)

    async def _load_definitions(self) -> Mapping[str, Deployment]:
        """Return the deployments of the current file."""
        await self._context.definitions.ensure_current()
        return self._context.definitions.current

    async def _ask(self, name: str, stimulus: Stimulus) -> DeploymentStatus | None:
        if not self._open:
            raise Unavailable("The daemon is stopping.")
        defined = await self._load_definitions()
        keeper = self._keepers.get(name)
        if keeper is None:
            if name not in defined:
                return None
            keeper = self._keepers[name] = _Keeper(self._context, DeploymentStatus(name))
            await keeper.start()
        await keeper.ask(stimulus)
        with suppress(NotFound):
            return self._make_status(name, self._context.definitions.current)
        return structs.replace(keeper.job.status)

    async def _trim(self) -> None:
        while True:
            await asyncio.sleep(TRIM_SECONDS)
            for keeper in list(self._keepers.values()):
                if keeper.at_work:
                    await keeper.check_output()
