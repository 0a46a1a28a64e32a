"""A build as a state machine: stimulus in, instructions out.

One build of a name runs at a time: to trigger a running one changes nothing (the remote-control
specification, section 4, 'Extended surface').
"""

from enum import Enum
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from agentd.clock import Timestamp
from agentd.workspace.problems import Problem

BuildState: TypeAlias = Literal[
    "none", "running", "succeeded", "failed", "timedOut", "stopped", "interrupted"
]
"""``none``: never built; ``interrupted``: the daemon ended before it did."""


class BuildStatus(Struct, frozen=True, rename="camel"):
    """What is known of a build's last run."""

    name: str
    state: BuildState = "none"
    run: str = ""
    """Tells this run from every other."""
    started_by: str = ""
    started: Timestamp = ""
    ended: Timestamp = ""
    exit_code: int | None = None
    """Negative: the signal that ended it; None: it runs, or could not be started."""
    errors: int = 0
    warnings: int = 0
    problems: tuple[Problem, ...] = ()
    """The first of them, errors before warnings."""
    size: int = 0
    """Bytes that it said ..."""
    omitted: int = 0
    """... and how many from their middle were not kept."""
    message: str = ""
    """Why it could not be started."""

    @property
    def failing(self) -> bool:
        """Whether it ended by itself, and not well."""
        return self.state in ("failed", "timedOut")


class Triggered(Struct, frozen=True):
    """Somebody wants it built; ``run`` is the name of the run, if there is to be one."""

    run: str
    by: str
    at: Timestamp


class Said(Struct, frozen=True):
    """What its output amounts to so far."""

    errors: int
    warnings: int
    problems: tuple[Problem, ...]
    size: int
    omitted: int


class Ended(Struct, frozen=True):
    """It is over, with all that it started."""

    at: Timestamp
    code: int | None
    how: Literal["", "late", "stopped", "interrupted", "unstartable"] = ""
    message: str = ""


class StopAsked(Struct, frozen=True):
    """Somebody wants it to end."""


class Daemonless(Struct, frozen=True):
    """The daemon that it ran under is gone."""

    at: Timestamp


Stimulus: TypeAlias = Triggered | Said | Ended | StopAsked | Daemonless


class Instruction(Enum):
    """What to do now."""

    RUN = "run"
    END = "end"
    KEEP = "keep"
    """Write the status down."""
    TELL = "tell"
    """Tell those who listen."""


_HOW: dict[str, BuildState] = {
    "late": "timedOut",
    "stopped": "stopped",
    "interrupted": "interrupted",
    "unstartable": "failed",
}


class BuildJob:
    """One build; ``status`` is what can be told of it."""

    def __init__(self, status: BuildStatus) -> None:
        self.status = status

    @property
    def running(self) -> bool:
        """Whether a run is going on."""
        return self.status.state == "running"

    def handle(self, stimulus: Stimulus) -> tuple[Instruction, ...]:
        """What follows from what happened."""
        match stimulus:
            case Triggered() if not self.running:
                self.status = BuildStatus(
                    self.status.name, "running", stimulus.run, stimulus.by, stimulus.at
                )
                return Instruction.KEEP, Instruction.TELL, Instruction.RUN
            case StopAsked() if self.running:
                return (Instruction.END,)
            case Said() if self.running:
                return self._said(stimulus)
            case Ended() if self.running:
                state = _HOW.get(stimulus.how) or ("failed" if stimulus.code else "succeeded")
                self._be(state, stimulus.at, stimulus.code, stimulus.message)
                return Instruction.KEEP, Instruction.TELL
            case Daemonless() if self.running:
                self._be("interrupted", stimulus.at, None, "")
                return (Instruction.KEEP,)
        return ()

    def _said(self, said: Said) -> tuple[Instruction, ...]:
        counted = (self.status.errors, self.status.warnings)
        self.status = structs.replace(
            self.status,
            errors=said.errors,
            warnings=said.warnings,
            problems=said.problems,
            size=said.size,
            omitted=said.omitted,
        )
        return (Instruction.TELL,) if (said.errors, said.warnings) != counted else ()

    def _be(self, state: BuildState, at: Timestamp, code: int | None, message: str) -> None:
        self.status = structs.replace(
            self.status, state=state, ended=at, exit_code=code, message=message
        )
