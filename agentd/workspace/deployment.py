"""A deployment as a state machine: stimulus in, instructions out.

What runs (``process``) is told from what is wanted: a wanted one that ended, or does not work,
is run again by its policy, after a pause that doubles with each failure in a row.
"""

from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct, structs

from agentd.clock import Timestamp
from agentd.workspace.definition import Deployment

RESTART_PAUSE = 0.5
"""Seconds between the stop and the start of a restart."""
SETTLED = 60.0
"""Seconds after which a run counts as good: a later failure is the first in a row."""
LOOP = 5
"""Failures in a row that are told as a crash loop."""
MISSES = 3
"""Looks in a row without a sign of health before a running one counts as unhealthy."""

DeploymentState: TypeAlias = Literal[
    "stopped", "starting", "running", "unhealthy", "stopping", "waiting", "failed"
]
"""``starting``: it runs and did not show so far that it works; ``waiting``: it is run (again)
when a pause is over; ``failed``: it ended, and is not run again."""


class Output(NamedTuple):
    """A part of what a deployment said over all its runs."""

    offset: int
    """Of its first byte."""
    data: bytes

    @property
    def end(self) -> int:
        """The offset of the byte behind it."""
        return self.offset + len(self.data)


class Process(Struct, frozen=True):
    """A process as nobody else can be taken for it: a number alone comes back."""

    pid: int
    started: int
    """Clock ticks from the machine's start to its own."""
    boot: str
    """The machine's start."""


class DeploymentStatus(Struct, frozen=True, rename="camel"):
    """What is known of a deployment."""

    name: str
    state: DeploymentState = "stopped"
    wanted: bool = False
    """Whether it is to run: a restarted daemon sees to that, too."""
    run: str = ""
    """Tells this run from every other; what it starts bears it as a mark."""
    process: Process | None = None
    started: Timestamp = ""
    ended: Timestamp = ""
    exit_code: int | None = None
    """Of the last run; negative: a signal; None: it runs, or nobody was there to see it end."""
    failures: int = 0
    """In a row."""
    restarts: int = 0
    """Since it was last started by hand."""
    message: str = ""

    @property
    def crash_loop(self) -> bool:
        """Whether it fails again and again."""
        return self.failures >= LOOP


class StartAsked(Struct, frozen=True):
    """Somebody wants it to run."""


class StopAsked(Struct, frozen=True):
    """Somebody wants it to end."""


class RestartAsked(Struct, frozen=True):
    """Somebody wants it to end, and to run again."""


class Launched(Struct, frozen=True):
    """It runs, and that is on disk."""


class NotLaunched(Struct, frozen=True):
    """It could not be started."""

    why: str


class Ended(Struct, frozen=True):
    """It ended; None: nobody was there to see how."""

    code: int | None


class Checked(Struct, frozen=True):
    """Somebody looked whether it works; empty: it does."""

    wrong: str


class Woke(Struct, frozen=True):
    """The time of the last ``Wake`` has come."""


Stimulus: TypeAlias = (
    StartAsked | StopAsked | RestartAsked | Launched | NotLaunched | Ended | Checked | Woke
)


class Launch(Struct, frozen=True):
    """Start it, and say what came of it."""


class Terminate(Struct, frozen=True):
    """Ask it to end."""


class Kill(Struct, frozen=True):
    """End it, whatever it does."""


class Wake(Struct, frozen=True):
    """Say ``Woke`` after so many seconds; this replaces any earlier wish. None: do not."""

    seconds: float | None


Instruction: TypeAlias = Launch | Terminate | Kill | Wake
Instructions: TypeAlias = tuple[Instruction, ...]

_ALIVE = ("starting", "running", "unhealthy")


class DeploymentJob:
    """One deployment. ``definition`` is as it was when the program was last started."""

    def __init__(self, status: DeploymentStatus, definition: Deployment) -> None:
        self.status = status
        self.definition = definition
        self._again = False
        """It ends to be run again."""
        self._sick = False
        """It is ended because it does not work."""
        self._misses = 0
        self._since = float("-inf")

    @property
    def alive(self) -> bool:
        """Whether it runs and is to go on."""
        return self.status.state in _ALIVE

    def handle(self, stimulus: Stimulus, now: float, at: Timestamp) -> Instructions:
        """What follows from what happened, ``now`` by the monotonic clock."""
        steps: Instructions = ()
        match stimulus:
            case StartAsked():
                steps = self._start()
            case StopAsked():
                steps = self._stop()
            case RestartAsked():
                steps = self._restart()
            case Launched():
                steps = self._launched(now, at)
            case NotLaunched(why):
                self._be(process=None, ended=at, exit_code=None, message=why)
                steps = self._failed()
            case Ended(code):
                steps = self._ended(code, now, at)
            case Checked(wrong) if self.alive:
                steps = self._checked(wrong)
            case Woke():
                steps = self._woke()
        return steps

    def begun(self, run: str, definition: Deployment) -> None:
        """It is about to be started, under this name and by this definition."""
        self.definition = definition
        self._be(run=run, process=None)

    def bears(self, process: Process) -> None:
        """It runs as this process."""
        self._be(process=process)

    def adopted(self) -> Instructions:
        """It ran under a daemon that is gone, and runs still."""
        if not self.status.wanted:
            self._be("stopping")
            return Terminate(), Wake(self.definition.stop_seconds)
        health = self.definition.health
        self._be("starting" if health else "running")
        return (Wake(health.seconds),) if health else ()

    def _start(self) -> Instructions:
        wanted_before = self.status.wanted
        self._be(wanted=True)
        if self.status.state == "stopping":
            self._again = self._again or not wanted_before
            return ()
        if self.alive:
            return ()
        self._be(failures=0, restarts=0)
        return Wake(None), Launch()

    def _stop(self) -> Instructions:
        self._be(wanted=False)
        self._again = self._sick = False
        if self.alive:
            self._be("stopping")
            return Terminate(), Wake(self.definition.stop_seconds)
        if self.status.state == "waiting":
            return self._rest("stopped")
        return ()

    def _restart(self) -> Instructions:
        self._be(wanted=True, failures=0, restarts=0)
        self._sick = False
        if self.status.state == "stopping":
            self._again = True
            return ()
        if self.alive:
            self._again = True
            self._be("stopping")
            return Terminate(), Wake(self.definition.stop_seconds)
        self._be("waiting", message="")
        return (Wake(RESTART_PAUSE),)

    def _launched(self, now: float, at: Timestamp) -> Instructions:
        self._since = now
        self._misses = 0
        self._again = self._sick = False
        health = self.definition.health
        self._be(
            "starting" if health else "running", started=at, ended="", exit_code=None, message=""
        )
        return (Wake(health.seconds if health else None),)

    def _ended(self, code: int | None, now: float, at: Timestamp) -> Instructions:
        stopping, again, sick = self.status.state == "stopping", self._again, self._sick
        self._again = self._sick = False
        self._be(process=None, ended=at, exit_code=code)
        if stopping and not sick:
            if not again:
                return self._rest("stopped")
            self._be("waiting")
            return (Wake(RESTART_PAUSE),)
        if now - self._since >= SETTLED:
            self._be(failures=0)
        if code == 0 and not sick and self.definition.restart != "always":
            self._be(wanted=False)
            return self._rest("stopped")
        if not sick:
            self._be(message=_how(code))
        return self._failed()

    def _failed(self) -> Instructions:
        """Run it again after a pause, where the policy says so."""
        if self.definition.restart == "never":
            self._be(wanted=False)
            return self._rest("failed")
        failures = self.status.failures + 1
        self._be("waiting", failures=failures, restarts=self.status.restarts + 1)
        pause = self.definition.backoff * 2 ** min(failures - 1, 30)
        return (Wake(min(pause, self.definition.backoff_longest)),)

    def _checked(self, wrong: str) -> Instructions:
        if not wrong:
            self._misses = 0
            if self.status.state == "running":
                return ()
            self._be("running", message="")
            return (Wake(None),)
        self._misses += 1
        if self.status.state != "running" or self._misses < MISSES:
            return ()
        return self._unhealthy(f"It worked, and does not any more: {wrong}")

    def _unhealthy(self, why: str) -> Instructions:
        self._be("unhealthy", message=why)
        if self.definition.restart == "never":
            return (Wake(None),)
        self._sick = True
        self._be("stopping")
        return Terminate(), Wake(self.definition.stop_seconds)

    def _woke(self) -> Instructions:
        match self.status.state:
            case "waiting":
                return (Launch(),)
            case "stopping":
                return (Kill(),)
            case "starting" if health := self.definition.health:
                return self._unhealthy(f"It did not work within {health.seconds:g} seconds.")
        return ()

    def _rest(self, state: DeploymentState) -> Instructions:
        self._be(state)
        return (Wake(None),)

    def _be(self, state: DeploymentState | None = None, **changes: object) -> None:
        if state:
            changes["state"] = state
        self.status = structs.replace(self.status, **changes)


def _how(code: int | None) -> str:
    if code is None:
        return "It ended while no daemon was there to see how."
    return f"It was ended by signal {-code}." if code < 0 else f"It ended with exit code {code}."
