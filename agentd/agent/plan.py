"""The plan of an agent in the history: a checklist, whatever engine it comes from. Pure."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

PLAN_TOOL = "update_todos"
"""The tool by which every engine's plan is shown; each use of it replaces the plan before."""

StepStatus: TypeAlias = Literal["pending", "in_progress", "completed"]

LONGEST_STEP = 300
MOST_STEPS = 100
_STATUSES: Mapping[str, StepStatus] = {
    "in_progress": "in_progress",
    "inProgress": "in_progress",
    "completed": "completed",
}
"""The status by the words of the engines."""
_MARKS = {"pending": "- [ ] ", "in_progress": "- [ ] **", "completed": "- [x] "}


class PlanStep(Struct, frozen=True):
    """One step of a plan."""

    text: str
    status: StepStatus = "pending"


def make_step(text: str, status: str) -> PlanStep:
    """Return a step with the status as an engine calls it; an unknown one is ``pending``."""
    return PlanStep(" ".join(text.split())[:LONGEST_STEP], _STATUSES.get(status, "pending"))


def render_plan(steps: Sequence[PlanStep]) -> str:
    """Return a plan as a Markdown checklist; the step that is being done is bold."""
    return "\n".join(
        f"{_MARKS[step.status]}{step.text}{'** (now)' if step.status == 'in_progress' else ''}"
        for step in steps[:MOST_STEPS]
    )


def summarize_plan(steps: Sequence[PlanStep]) -> str:
    """Return how far a plan is, in a few words."""
    done = sum(step.status == "completed" for step in steps)
    return f"{done} of {len(steps)} done"
