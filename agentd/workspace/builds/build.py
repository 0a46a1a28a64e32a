"""A build as a state machine: stimulus in, instructions out.

One build of a name runs at a time: to trigger a running one changes nothing (the remote-control
specification, section 4, 'Extended surface').
"""

from enum import Enum
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from agentd.core.clock import Timestamp
from agentd.workspace.builds.problems import Problem

BuildState: TypeAlias = Literal[
    "none", "running", "succeeded", "failed", "timedOut", "stopped", "interrupted"
]
"""``none``: never built; ``interrupted``: the daemon ended before it did."""


class BuildStatus(Struct, frozen=True, rename="camel"):
    """The status of a build's last run."""

    name: str
    state: BuildState = "none"
    run: str = ""
    """The unique id of this run."""
    started_by: str = ""
    started: Timestamp = ""
    ended: Timestamp = ""
    exit_code: int | None = None
    """Negative: the signal that ended it; None if it runs, or could not be started."""
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
        """True if it failed without being stopped."""
        return self.state in ("failed", "timedOut")


class BuildTriggered(Struct, frozen=True):
    """Somebody wants it built; ``run`` is the name of the run, if there is to be one."""

    run: str
    by: str
    at: Timestamp


class BuildProgress(Struct, frozen=True):
    """The progress of a run, by its output so far."""

    errors: int
    warnings: int
    problems: tuple[Problem, ...]
    size: int
    omitted: int


class BuildEnded(Struct, frozen=True):
    """The build ended, with all processes that it started."""

    at: Timestamp
    code: int | None
    how: Literal["", "late", "stopped", "interrupted", "unstartable"] = ""
    message: str = ""


class BuildStopRequested(Struct, frozen=True):
    """Somebody wants it to end."""


class DaemonLost(Struct, frozen=True):
    """The daemon that it ran under is gone."""

    at: Timestamp


Stimulus: TypeAlias = BuildTriggered | BuildProgress | BuildEnded | BuildStopRequested | DaemonLost


class Instruction(Enum):
    """An instruction to carry out."""

    RUN = "run"
    END = "end"
    SAVE = "keep"
    """Write the status down."""
    PUBLISH = "tell"
    """Notify the listeners."""


_HOW: dict[str, BuildState] = {
    "late": "timedOut",
    "stopped": "stopped",
    "interrupted": "interrupted",
    "unstartable": "failed",
}


class BuildJob:
    """A build; ``status`` is its public status."""

    def __init__(self, status: BuildStatus) -> None:
        self.status = status

    @property
    def running(self) -> bool:
        """True during a run."""
        return self.status.state == "running"

    def handle(self, stimulus: Stimulus) -> tuple[Instruction, ...]:
        """Return the instructions that follow from an event."""
        match stimulus:
            case BuildTriggered() if not self.running:
                self.status = BuildStatus(
                    self.status.name, "running", stimulus.run, stimulus.by, stimulus.at
                )
                return Instruction.SAVE, Instruction.PUBLISH, Instruction.RUN
            case BuildStopRequested() if self.running:
                return (Instruction.END,)
            case BuildProgress() if self.running:
                return self._update_progress(stimulus)
            case BuildEnded() if self.running:
                state = _HOW.get(stimulus.how) or ("failed" if stimulus.code else "succeeded")
                self._set_state(state, stimulus.at, stimulus.code, stimulus.message)
                return Instruction.SAVE, Instruction.PUBLISH
            case DaemonLost() if self.running:
                self._set_state("interrupted", stimulus.at, None, "")
                return (Instruction.SAVE,)
        return ()

    def _update_progress(self, progress: BuildProgress) -> tuple[Instruction, ...]:
        counted = (self.status.errors, self.status.warnings)
        self.status = structs.replace(
            self.status,
            errors=progress.errors,
            warnings=progress.warnings,
            problems=progress.problems,
            size=progress.size,
            omitted=progress.omitted,
        )
        return (Instruction.PUBLISH,) if (progress.errors, progress.warnings) != counted else ()

    def _set_state(self, state: BuildState, at: Timestamp, code: int | None, message: str) -> None:
        self.status = structs.replace(
            self.status, state=state, ended=at, exit_code=code, message=message
        )
