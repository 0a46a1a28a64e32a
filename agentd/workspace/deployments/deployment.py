"""A deployment as a state machine: stimulus in, instructions out.

The running ``process`` is separate from what is wanted: a wanted one that ended, or does not work,
is run again by its policy, after a pause that doubles with each failure in a row.
"""

from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct, structs

from agentd.core.clock import Timestamp
from agentd.system.process_identity import Process
from agentd.workspace.definitions import Deployment

RESTART_PAUSE = 0.5
"""Seconds between the stop and the start of a restart."""
SETTLED = 60.0
"""Seconds after which a run counts as good: a later failure is the first in a row."""
LOOP = 5
"""The number of consecutive failures that count as a crash loop."""
MISSES = 3
"""Looks in a row without a sign of health before a running one counts as unhealthy."""

DeploymentState: TypeAlias = Literal[
    "stopped", "starting", "running", "unhealthy", "stopping", "waiting", "failed"
]
"""``starting``: it runs and did not show so far that it works; ``waiting``: it is run (again)
when a pause is over; ``failed``: it ended, and is not run again."""


class OutputSlice(NamedTuple):
    """A part of what a deployment said over all its runs."""

    offset: int
    """The offset of its first byte."""
    data: bytes

    @property
    def end(self) -> int:
        """The offset of the byte behind it."""
        return self.offset + len(self.data)


class DeploymentStatus(Struct, frozen=True, rename="camel"):
    """The status of a deployment."""

    name: str
    state: DeploymentState = "stopped"
    wanted: bool = False
    """True if it is to run: a restarted daemon sees to that, too."""
    run: str = ""
    """The unique mark of this run, also of the processes that it starts."""
    process: Process | None = None
    started: Timestamp = ""
    ended: Timestamp = ""
    exit_code: int | None = None
    """The exit code of the last run, negative for a signal; None if it runs or was not seen."""
    failures: int = 0
    """The number of failures in a row."""
    restarts: int = 0
    """The number of restarts since it was last started by hand."""
    message: str = ""
    workspace: str = ""
    """The workspace for which it was last started by hand; empty: it was not stored yet."""

    @property
    def crash_loop(self) -> bool:
        """True if it fails again and again."""
        return self.failures >= LOOP


class StartRequested(Struct, frozen=True):
    """Somebody wants it to run."""


class StopRequested(Struct, frozen=True):
    """Somebody wants it to end."""


class RestartRequested(Struct, frozen=True):
    """Somebody wants it to end, and to run again."""


class LaunchSucceeded(Struct, frozen=True):
    """The program runs, and that is on disk."""


class LaunchFailed(Struct, frozen=True):
    """The program could not be started."""

    why: str


class ProgramEnded(Struct, frozen=True):
    """The program ended, with this exit code; None: unknown."""

    code: int | None


class HealthChecked(Struct, frozen=True):
    """The result of a health check; empty: healthy."""

    wrong: str


class TimerFired(Struct, frozen=True):
    """The time of the last ``SetTimer`` has come."""


Stimulus: TypeAlias = (
    StartRequested
    | StopRequested
    | RestartRequested
    | LaunchSucceeded
    | LaunchFailed
    | ProgramEnded
    | HealthChecked
    | TimerFired
)


class LaunchProgram(Struct, frozen=True):
    """Start it, and report the result."""


class TerminateProgram(Struct, frozen=True):
    """Ask it to end."""


class KillProgram(Struct, frozen=True):
    """End it, whatever it does."""


class SetTimer(Struct, frozen=True):
    """Report ``TimerFired`` after so many seconds, in place of any earlier timer; None: never."""

    seconds: float | None


Instruction: TypeAlias = LaunchProgram | TerminateProgram | KillProgram | SetTimer
Instructions: TypeAlias = tuple[Instruction, ...]

_ELSEWHERE = "Start it once more to have it run in this workspace"
_ALIVE = ("starting", "running", "unhealthy")


class DeploymentJob:
    """A deployment. ``definition`` is the one with which the program was last started."""

    def __init__(self, status: DeploymentStatus, definition: Deployment) -> None:
        self.status = status
        self.definition = definition
        self._again = False
        """True if it is being ended to be run again."""
        self._sick = False
        """True if it is being ended because it does not work."""
        self._misses = 0
        self._since = float("-inf")

    @property
    def alive(self) -> bool:
        """True if it runs and is to go on."""
        return self.status.state in _ALIVE

    def handle(self, stimulus: Stimulus, now: float, at: Timestamp) -> Instructions:
        """Return the instructions that follow from an event, ``now`` by the monotonic clock."""
        steps: Instructions = ()
        match stimulus:
            case StartRequested():
                steps = self._start()
            case StopRequested():
                steps = self._stop()
            case RestartRequested():
                steps = self._restart()
            case LaunchSucceeded():
                steps = self._on_launched(now, at)
            case LaunchFailed(why):
                self._update(process=None, ended=at, exit_code=None, message=why)
                steps = self._schedule_retry()
            case ProgramEnded(code):
                steps = self._on_ended(code, now, at)
            case HealthChecked(wrong) if self.alive:
                steps = self._on_health(wrong)
            case TimerFired():
                steps = self._on_timer()
        return steps

    def prepare_run(self, run: str, definition: Deployment) -> None:
        """Prepare a run of this name and definition."""
        self.definition = definition
        self._update(run=run, process=None)

    def explain_other_workspace(self, workspace: str) -> str:
        """Explain why it is not run in a workspace unasked; empty if it is.

        There the same command may be another program.
        """
        own = self.status.workspace
        return "" if own in ("", workspace) else f"{_ELSEWHERE}: it was started for {own}."

    def set_workspace(self, workspace: str) -> None:
        """Set the workspace in which it is to run."""
        self._update(workspace=workspace)

    def set_process(self, process: Process) -> None:
        """Set the process that it runs as."""
        self._update(process=process)

    def adopt(self) -> Instructions:
        """Adopt a program that an earlier daemon started and that is still running."""
        if not self.status.wanted:
            self._update("stopping")
            return TerminateProgram(), SetTimer(self.definition.stop_seconds)
        health = self.definition.health
        self._update("starting" if health else "running")
        return (SetTimer(health.start_seconds),) if health else ()

    def _start(self) -> Instructions:
        wanted_before = self.status.wanted
        self._update(wanted=True)
        if self.status.state == "stopping":
            self._again = self._again or not wanted_before
            return ()
        if self.alive:
            return ()
        self._update(failures=0, restarts=0)
        return SetTimer(None), LaunchProgram()

    def _stop(self) -> Instructions:
        self._update(wanted=False)
        self._again = self._sick = False
        if self.alive:
            self._update("stopping")
            return TerminateProgram(), SetTimer(self.definition.stop_seconds)
        if self.status.state == "waiting":
            return self._settle("stopped")
        return ()

    def _restart(self) -> Instructions:
        self._update(wanted=True, failures=0, restarts=0)
        self._sick = False
        if self.status.state == "stopping":
            self._again = True
            return ()
        if self.alive:
            self._again = True
            self._update("stopping")
            return TerminateProgram(), SetTimer(self.definition.stop_seconds)
        self._update("waiting", message="")
        return (SetTimer(RESTART_PAUSE),)

    def _on_launched(self, now: float, at: Timestamp) -> Instructions:
        self._since = now
        self._misses = 0
        self._again = self._sick = False
        health = self.definition.health
        self._update(
            "starting" if health else "running", started=at, ended="", exit_code=None, message=""
        )
        return (SetTimer(health.start_seconds if health else None),)

    def _on_ended(self, code: int | None, now: float, at: Timestamp) -> Instructions:
        stopping, again, sick = self.status.state == "stopping", self._again, self._sick
        self._again = self._sick = False
        self._update(process=None, ended=at, exit_code=code)
        if stopping and not sick:
            if not again:
                return self._settle("stopped")
            self._update("waiting")
            return (SetTimer(RESTART_PAUSE),)
        if now - self._since >= SETTLED:
            self._update(failures=0)
        if code == 0 and not sick and self.definition.restart != "always":
            self._update(wanted=False)
            return self._settle("stopped")
        if not sick:
            self._update(message=_describe_exit(code))
        return self._schedule_retry()

    def _schedule_retry(self) -> Instructions:
        """Schedule another run after a pause, if the policy says so."""
        if self.definition.restart == "never":
            self._update(wanted=False)
            return self._settle("failed")
        failures = self.status.failures + 1
        self._update("waiting", failures=failures, restarts=self.status.restarts + 1)
        pause = self.definition.backoff * 2 ** min(failures - 1, 30)
        return (SetTimer(min(pause, self.definition.backoff_max)),)

    def _on_health(self, wrong: str) -> Instructions:
        if not wrong:
            self._misses = 0
            if self.status.state == "running":
                return ()
            self._update("running", message="")
            return (SetTimer(None),)
        self._misses += 1
        if self.status.state != "running" or self._misses < MISSES:
            return ()
        return self._on_unhealthy(f"It worked, and does not any more: {wrong}")

    def _on_unhealthy(self, why: str) -> Instructions:
        self._update("unhealthy", message=why)
        if self.definition.restart == "never":
            return (SetTimer(None),)
        self._sick = True
        self._update("stopping")
        return TerminateProgram(), SetTimer(self.definition.stop_seconds)

    def _on_timer(self) -> Instructions:
        match self.status.state:
            case "waiting":
                return (LaunchProgram(),)
            case "stopping":
                return (KillProgram(),)
            case "starting" if health := self.definition.health:
                return self._on_unhealthy(
                    f"It did not work within {health.start_seconds:g} seconds."
                )
        return ()

    def _settle(self, state: DeploymentState) -> Instructions:
        self._update(state)
        return (SetTimer(None),)

    def _update(self, state: DeploymentState | None = None, **changes: object) -> None:
        if state:
            changes["state"] = state
        self.status = structs.replace(self.status, **changes)


def _describe_exit(code: int | None) -> str:
    if code is None:
        return "It ended while no daemon was there to see how."
    return f"It was ended by signal {-code}." if code < 0 else f"It ended with exit code {code}."
