"""Schedules and their runs: types and rules, without I/O."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import replace

from agentd.chats.model import MAX_PROMPT_BYTES
from agentd.chats.state import Chat
from agentd.core.clock import Timestamp
from agentd.core.errors import Conflict, NotFound, suggest_name
from agentd.core.ids import MAX_ID

MAX_SCHEDULES = 200
LONGEST_NOTE = 500
"""Characters of a failure's reason."""
RUNS_KEPT = 50
"""Runs of a schedule that its history has."""

ScheduleName: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^[a-z0-9](?:[a-z0-9_-]{0,38}[a-z0-9])?$",
        extra={"form": "at most 40 lower-case letters, digits, - and _; no - or _ at either end"},
    ),
]
"""1 to 40 lower-case letters, digits, ``-`` and ``_``."""
Text: TypeAlias = Annotated[str, Meta(max_length=1000)]

RunState: TypeAlias = Literal[
    "queued", "running", "completed", "failed", "stopped", "interrupted", "skipped"
]
"""``queued``: its prompt waits in the chat's queue; ``skipped``: it was not begun, on purpose."""
RunCause: TypeAlias = Literal["due", "missed", "hand"]
"""``missed``: the daemon was off, or the machine asleep, when it was due."""


class Schedule(Struct, frozen=True, omit_defaults=True):
    """A prompt, and when it is sent."""

    name: ScheduleName
    cron: Annotated[str, Meta(max_length=200)]
    """Minute, hour, day of the month, month, day of the week, as cron has them; or ``@daily``."""
    prompt: Annotated[str, Meta(max_length=MAX_PROMPT_BYTES)]
    zone: Annotated[str, Meta(max_length=100)] = "UTC"
    """The time zone that the expression is read in, such as ``Europe/Berlin``."""
    chat: Annotated[int, Meta(ge=1, le=MAX_ID)] | None = None
    """The chat that each run continues; None: each run has a chat of its own."""
    title: Text = ""
    """The title of new chats; empty: the schedule's name."""
    model: Text = ""
    skill: Text = ""
    mode: Text = ""
    """The mode of the engine's program in new chats, such as ``plan``; empty: the usual one."""
    worktree: bool = False
    """New chats have a git work tree and branch of their own."""
    budget: Decimal | None = None
    """USD after which the turn of a run is ended; None: as much as its chat may cost."""
    output_schema: dict[str, Any] | None = None
    """The JSON Schema of an object: the reply of each run is JSON that fits it."""
    paused: bool = False
    missed: Literal["skip", "once"] = "skip"
    """What to do about runs that were missed: nothing, or one run for all of them."""
    overlap: Literal["skip", "queue"] = "skip"
    """What to do while the run before has not ended: skip this one, or begin it all the same."""

    @property
    def timing(self) -> tuple[str, str, bool]:
        """What its firings depend on: if that changes, nothing was missed before."""
        return self.cron, self.zone, self.paused


class ScheduleList(Struct, frozen=True):
    """The content of ``schedules.yml``."""

    schedules: Annotated[tuple[Schedule, ...], Meta(max_length=MAX_SCHEDULES)] | None = None


class ScheduleRun(Struct, frozen=True, omit_defaults=True):
    """A run of a schedule, or why there was none."""

    due: Timestamp
    """The time of the firing; of one by hand, when that was."""
    cause: RunCause
    state: RunState
    key: str
    """Identifies the run in the chat's journal, so that it is never begun twice."""
    at: Timestamp = ""
    """The time at which its prompt was queued."""
    missed: int = 0
    """Earlier firings that this run stands for as well."""
    chat: int = 0
    prompt: int = 0
    cost_before: Decimal | None = None
    """What the chat had cost when the turn began; None: it has not."""
    cost: Decimal = Decimal(0)
    """USD."""
    ended_at: Timestamp = ""
    note: str = ""
    """Why it was skipped, could not begin, or failed."""

    @property
    def is_open(self) -> bool:
        """True until it has ended."""
        return self.state in ("queued", "running")


class ScheduleProgress(Struct, frozen=True):
    """What is remembered of a schedule."""

    timing: tuple[str, str, bool]
    considered: Timestamp
    """Firings up to this time are decided: run, skipped or missed."""
    begun: ScheduleRun | None = None
    """A run that is being begun; after a crash it may have a prompt or not."""
    runs: tuple[ScheduleRun, ...] = ()
    """The latest ones, the newest last."""
    passed: Timestamp = ""
    """``considered`` when the clock was set back; empty: it was not, or has come there again."""

    def with_run(self, run: ScheduleRun) -> "ScheduleProgress":
        """Return it with a run that was begun, or another state of one."""
        others = tuple(one for one in self.runs if one.key != run.key)
        index = next((n for n, one in enumerate(self.runs) if one.key == run.key), len(others))
        runs = (*others[:index], run, *others[index:])[-RUNS_KEPT:]
        begun = None if self.begun and self.begun.key == run.key else self.begun
        return replace(self, begun=begun, runs=runs)


def keep_listed(
    progress: Mapping[str, ScheduleProgress],
    listed: Iterable[Schedule],
    new_names: Mapping[str, str],
) -> dict[str, ScheduleProgress]:
    """Return the progress of the listed schedules; renamed ones have ``new_names`` by their old."""
    names = {one.name for one in listed}
    kept = {name: known for name, known in progress.items() if name in names}
    for name, known in progress.items():
        if name not in names and (new := new_names.get(name)) in names:
            kept.setdefault(new, known)
    return kept


def judge_run(run: ScheduleRun, chat: Chat, before: Decimal | None, now: Timestamp) -> ScheduleRun:
    """Return the run as its chat shows it; ``before``: what that had cost when a turn began."""
    turn = chat.agent.turn
    if any(one.id == run.prompt for one in chat.queue):
        return replace(run, state="queued")
    if run.cost_before is None:
        run = replace(run, cost_before=chat.cost if before is None else before)
    spent = chat.cost - (run.cost_before or Decimal(0))
    if turn and turn.given.id == run.prompt:
        return replace(run, state="running", cost=spent)
    if run.prompt not in chat.sent:
        note = "Its prompt was removed from the queue."
        return replace(run, state="stopped", ended_at=now, note=note)
    outcome = chat.agent.outcome or "completed"
    last = chat.recent[-1] if chat.recent else None
    why = last.text[:LONGEST_NOTE] if last and last.role == "error" else ""
    note = why if outcome == "failed" else ""
    return replace(run, state=outcome, cost=spent, ended_at=now, note=note)


def find_index(schedules: Iterable[Schedule], name: str) -> int:
    """Return the index of the schedule with this name; ``NotFound``."""
    names = [one.name for one in schedules]
    if name not in names:
        raise NotFound(f"No schedule is named {name[:100]!r}{suggest_name(name, names)}")
    return names.index(name)


def require_unused_name(schedules: Iterable[Schedule], name: str) -> None:
    """Raise ``Conflict`` when a schedule has this name."""
    if any(one.name == name for one in schedules):
        raise Conflict(f"There is a schedule {name!r} already")
