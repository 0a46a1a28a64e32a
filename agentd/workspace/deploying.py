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

from agentd import ids
from agentd.clock import Clock
from agentd.errors import AgentdError, NotFound, Unavailable, nearest
from agentd.events import Bus, DeploymentOutput, DeploymentUpdate
from agentd.workspace.definition import Definitions, Deployment, Health
from agentd.workspace.deployment import (
    Checked,
    DeploymentJob,
    DeploymentStatus,
    Ended,
    Instruction,
    Instructions,
    Kill,
    Launch,
    Launched,
    NotLaunched,
    Output,
    Process,
    RestartAsked,
    StartAsked,
    Stimulus,
    StopAsked,
    Terminate,
    Wake,
    Woke,
)
from agentd.workspace.transcript import TOLD, decode_part

log = logging.getLogger(__name__)

TRIM_SECONDS = 0.5
"""How often the outputs of what runs are looked at: told live, and cut when too long."""
STARTING_SECONDS = 0.25
"""Between two looks whether a starting one works already."""

_GONE = Deployment(command=("",), restart="never")
"""Stands in for a definition that is not written down any more."""


class Program(Protocol):
    """A running program of a deployment, which need not be our child."""

    @property
    def process(self) -> Process:
        """Which process it is."""
        ...

    @property
    def ended(self) -> "asyncio.Future[int | None]":
        """Done when nothing of it is left: its exit code, None where that is not told to us."""
        ...

    def terminate(self) -> None:
        """Ask it to end, and all in its group."""
        ...

    def kill(self) -> None:
        """End it, and all in its group."""
        ...

    def let_go(self) -> None:
        """Look after it no more; it goes on."""
        ...


class DeploymentRunner(Protocol):
    """Starts, finds and looks at programs (``outside.deployment.DeploymentPrograms``)."""

    def start(self, definition: Deployment, run: str, output: int) -> Awaitable[Program]:
        """Start one whose output goes to the descriptor, which is closed here.

        Raises ``Unavailable``.
        """
        ...

    def find(self, status: DeploymentStatus) -> Awaitable[Program | None]:
        """The program that a daemon before us started, if it is there; else none of it is."""
        ...

    def wrong(self, health: Health) -> Awaitable[str]:
        """Why it does not work; empty: it does."""
        ...


class DeploymentStore(Protocol):
    """Where they are kept (``disk.jobs.DeploymentFiles``). Its methods block."""

    def load(self) -> list[DeploymentStatus]:
        """All that were ever started."""
        ...

    def save(self, status: DeploymentStatus) -> None:
        """Keep one. Raises ``Unavailable``."""
        ...

    def open_output(self, name: str) -> int:
        """A descriptor for all that a run is going to say, behind what was said before."""
        ...

    def trim(self, name: str) -> None:
        """Keep what it says within bounds."""
        ...

    def output(self, name: str, offset: int | None = None, most: int | None = None) -> Output:
        """The end of what it said from ``offset`` on: ``most`` bytes, or all that is shown."""
        ...


class Shop:
    """What every keeper needs."""

    def __init__(
        self,
        definitions: Definitions[Deployment],
        store: DeploymentStore,
        runner: DeploymentRunner,
        clock: Clock,
        bus: Bus,
    ) -> None:
        self.definitions = definitions
        self.store = store
        self.runner = runner
        self.clock = clock
        self.bus = bus


class _OutputListener:
    """Tells live what one deployment says; what was said before it starts is not told."""

    def __init__(self, shop: Shop, name: str) -> None:
        self._shop = shop
        self._name = name
        self._told: int | None = None
        """The offset up to which all was told; None: nothing runs."""
        self._lock = asyncio.Lock()
        """The keeper looks when a run ends, the service looks all the time."""

    async def start(self) -> None:
        """Tell what is said from now on."""
        async with self._lock:
            if said := await self._read(None):
                self._told = said.end

    async def stop(self, run: str) -> None:
        """Tell the rest, and nothing after that."""
        await self.tell(run)
        self._told = None

    async def tell(self, run: str) -> None:
        """Tell what is new; of much, only the end."""
        async with self._lock:
            if self._told is None or not (said := await self._read(self._told)) or not said.data:
                return
            # A log that was deleted begins anew, at an offset that was told before.
            skipped = max(said.offset - self._told, 0)
            text, rest = decode_part(said.data)
            self._told = said.end - rest
            if text:
                event = DeploymentOutput(self._name, run, text, skipped)
                self._shop.bus.publish(event)

    async def _read(self, offset: int | None) -> Output | None:
        try:
            return await asyncio.to_thread(self._shop.store.output, self._name, offset, TOLD)
        except AgentdError as error:  # it is only not told; whoever asks for it gets the reason
            log.warning("the output of deployment %s is not told: %s", self._name, error)
            return None


class _Keeper:
    """Looks after one deployment."""

    def __init__(self, shop: Shop, status: DeploymentStatus) -> None:
        self.job = DeploymentJob(status, shop.definitions.current.get(status.name, _GONE))
        self._shop = shop
        self._inbox: asyncio.Queue[tuple[Stimulus | None, asyncio.Future[None] | None]] = (
            asyncio.Queue()
        )
        self._kept = status
        self._wake_at: float | None = None
        self._program: Program | None = None
        self._health: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._listener = _OutputListener(shop, status.name)

    @property
    def at_work(self) -> bool:
        """Whether something runs, or is to run."""
        return self._program is not None or self.job.status.wanted

    async def ask(self, stimulus: Stimulus) -> None:
        """Have it done; returns when it is on disk. Raises ``Unavailable``."""
        asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._inbox.put_nowait((stimulus, asked))
        await asked

    async def begin(self) -> None:
        """Find again what runs, and go on as if the daemon had never been away."""
        status = self.job.status
        found = await self._shop.runner.find(status) if status.process or status.run else None
        self._task = asyncio.create_task(self._live())
        if found:
            await self._listener.start()
            self._follow(found)
            self.job.bears(found.process)
            await self._carry_out(self.job.adopted())
        elif status.process or (status.wanted and status.state != "waiting"):
            self._inbox.put_nowait((Ended(None), None))
        elif status.wanted:
            self._inbox.put_nowait((Woke(), None))

    async def leave(self) -> None:
        """Finish what is being done, and let the program go on."""
        if self._task:
            self._inbox.put_nowait((None, None))
            await asyncio.wait([self._task])
        if self._health:
            self._health.cancel()
            with suppress(asyncio.CancelledError):
                await self._health
        if self._program:
            self._program.let_go()

    async def look_at_output(self) -> None:
        """Tell what the program said since the last look, and keep its log within bounds."""
        await self._listener.tell(self.job.status.run)
        await asyncio.to_thread(self._shop.store.trim, self.job.status.name)

    async def _live(self) -> None:
        while True:
            stimulus, asked = await self._next()
            if stimulus is None:
                break
            try:
                await self._take(stimulus)
            except Unavailable as error:
                log.error("deployment %s: %s", self.job.status.name, error.message)
                if asked and not asked.done():
                    asked.set_exception(error)
            if asked and not asked.done():
                asked.set_result(None)
        while not self._inbox.empty():
            _, asked = self._inbox.get_nowait()
            if asked and not asked.done():
                asked.set_exception(Unavailable("The daemon is stopping."))

    async def _next(self) -> tuple[Stimulus | None, "asyncio.Future[None] | None"]:
        try:
            async with asyncio.timeout_at(self._wake_at):
                return await self._inbox.get()
        except TimeoutError:
            self._wake_at = None
            return Woke(), None

    async def _take(self, stimulus: Stimulus) -> None:
        if isinstance(stimulus, Ended):
            self._program = None
            await self._listener.stop(self.job.status.run)
            if self._health:
                self._health.cancel()
                self._health = None
        clock = self._shop.clock
        if isinstance(stimulus, StartAsked | RestartAsked) and not self.job.alive:
            known = self._shop.definitions.current.get(self.job.status.name)
            if known is None:
                return  # started once, and not written down any more: as unknown as any other
            self.job.definition = known
        steps = self.job.handle(stimulus, clock.monotonic(), clock.now())
        try:
            if Launch() not in steps:  # which keeps it itself
                await self._keep()
        finally:  # what was decided is done, also where the disk is full
            await self._carry_out(steps)

    async def _carry_out(self, steps: Instructions) -> None:
        for step in steps:
            await self._do(step)

    async def _do(self, step: Instruction) -> None:
        match step:
            case Launch():
                await self._take(await self._launch())
            case Terminate() if self._program:
                self._program.terminate()
            case Kill() if self._program:
                self._program.kill()
            case Wake(seconds):
                loop = asyncio.get_running_loop()
                self._wake_at = None if seconds is None else loop.time() + seconds

    async def _launch(self) -> Stimulus:
        """Start the program: nothing of it runs that could not be found again."""
        name = self.job.status.name
        definition = self._shop.definitions.current.get(name)
        self.job.begun(ids.new_request_id(), definition or _GONE)
        if definition is None:
            return NotLaunched("It is not written down in deployments.yml any more.")
        try:
            await self._keep()
            output = await asyncio.to_thread(self._shop.store.open_output, name)
            await self._listener.start()
            program = await self._shop.runner.start(definition, self.job.status.run, output)
        except Unavailable as error:
            return NotLaunched(error.message)
        self.job.bears(program.process)
        try:
            await asyncio.to_thread(self._shop.store.save, self.job.status)
        except Unavailable as error:
            program.kill()
            await program.ended
            return NotLaunched(error.message)
        self._follow(program)
        return Launched()

    def _follow(self, program: Program) -> None:
        self._program = program
        program.ended.add_done_callback(self._ended)
        if health := self.job.definition.health:
            self._health = asyncio.create_task(self._look(health))

    def _ended(self, ended: "asyncio.Future[int | None]") -> None:
        if not ended.cancelled():
            self._inbox.put_nowait((Ended(ended.result()), None))

    async def _look(self, health: Health) -> None:
        """See now and then whether it works."""
        while True:
            starting = self.job.status.state == "starting"
            await asyncio.sleep(min(health.every, STARTING_SECONDS) if starting else health.every)
            self._inbox.put_nowait((Checked(await self._shop.runner.wrong(health)), None))

    async def _keep(self) -> None:
        """Write down how it stands, then tell it."""
        status = self.job.status
        if status == self._kept:
            return
        await asyncio.to_thread(self._shop.store.save, status)
        self._kept = status
        self._shop.bus.publish(DeploymentUpdate(status))


class DeploymentService:
    """All deployments."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._keepers: dict[str, _Keeper] = {}
        self._trimming: asyncio.Task[None] | None = None
        self._open = False

    async def start(self) -> None:
        """Find again what runs, and run again what should."""
        for status in await asyncio.to_thread(self._shop.store.load):
            self._keepers[status.name] = _Keeper(self._shop, status)
        for keeper in self._keepers.values():
            await keeper.begin()
        self._trimming = asyncio.create_task(self._trim())
        self._open = True

    async def stop(self) -> None:
        """Leave them alone; what runs goes on."""
        self._open = False
        for keeper in self._keepers.values():
            await keeper.leave()
        if self._trimming:
            self._trimming.cancel()
            with suppress(asyncio.CancelledError):
                await self._trimming

    async def all(self) -> list[DeploymentStatus]:
        """Those that are written down, in the file's order, then others that run."""
        defined = await self._defined()
        others = [name for name, keeper in self._keepers.items() if keeper.at_work]
        return [self._status(name, defined) for name in dict.fromkeys([*defined, *others])]

    async def status(self, name: str) -> DeploymentStatus:
        """What is known of one; ``NotFound`` for a name that is neither written down nor runs."""
        return self._status(name, await self._defined())

    def _status(self, name: str, defined: Mapping[str, Deployment]) -> DeploymentStatus:
        keeper = self._keepers.get(name)
        if name not in defined and not (keeper and keeper.at_work):
            raise NotFound(f"Deployment {name[:64]} not found{nearest(name, defined)}")
        return keeper.job.status if keeper else DeploymentStatus(name)

    async def run(self, name: str) -> DeploymentStatus | None:
        """Have it run; nothing changes when it does. None: unknown, and nothing was started."""
        return await self._ask(name, StartAsked())

    async def end(self, name: str) -> DeploymentStatus | None:
        """Have it end: it is asked to, and after a while made to. None: unknown."""
        return await self._ask(name, StopAsked())

    async def run_anew(self, name: str) -> DeploymentStatus | None:
        """Have it end, and after a short pause run again. None: unknown."""
        return await self._ask(name, RestartAsked())

    async def output(self, name: str, offset: int | None = None) -> Output:
        """The end of what it says, or what it said from an offset on, as far as that is kept.

        Raises ``NotFound`` or ``Unavailable``.
        """
        await self.status(name)
        return await asyncio.to_thread(self._shop.store.output, name, offset)

    async def _defined(self) -> Mapping[str, Deployment]:
        """The deployments of the file as it is at the call."""
        await self._shop.definitions.ensure_current()
        return self._shop.definitions.current

    async def _ask(self, name: str, stimulus: Stimulus) -> DeploymentStatus | None:
        if not self._open:
            raise Unavailable("The daemon is stopping.")
        defined = await self._defined()
        keeper = self._keepers.get(name)
        if keeper is None:
            if name not in defined:
                return None
            keeper = self._keepers[name] = _Keeper(self._shop, DeploymentStatus(name))
            await keeper.begin()
        await keeper.ask(stimulus)
        with suppress(NotFound):
            return self._status(name, self._shop.definitions.current)
        return structs.replace(keeper.job.status)

    async def _trim(self) -> None:
        while True:
            await asyncio.sleep(TRIM_SECONDS)
            for keeper in list(self._keepers.values()):
                if keeper.at_work:
                    await keeper.look_at_output()
