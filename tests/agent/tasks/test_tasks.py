"""The tasks with a scripted model: our own engine's tools suffice, and each check can fail."""

from pathlib import Path
from typing import Any

import pytest

from agentd.agent.custom_commands.store import CommandDirectory
from agentd.agent.engine import ToolUsed, TurnFailed
from agentd.agent.hooks.directory import HookDirectory
from agentd.storage.layout import Layout
from tests.agent.engines.native.scene import Scene, list_started_tools, read_replies
from tests.agent.tasks.catalogue import TASKS
from tests.agent.tasks.task import Outcome, Task, Unsolved, make_repository
from tests.supplier.request import Request
from tests.supplier.steps import Say
from tests.supplier.supplier import Supplier

EACH = pytest.mark.parametrize("task", TASKS, ids=[task.name for task in TASKS])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def supplier() -> Any:
    with Supplier() as serving:
        yield serving


@EACH
def test_what_nobody_worked_on_is_not_solved(task: Task, root: Path) -> None:
    make_repository(task, root)
    with pytest.raises(Unsolved):
        task.check(Outcome(root, "I did nothing."))


@EACH
def test_the_native_engine_carries_out_the_moves_that_solve_it(
    task: Task, root: Path, supplier: Supplier
) -> None:
    def answer_helper(request: Request) -> Say | None:
        found = (reply for text, reply in task.helpers.items() if text in request.prompt)
        return next((Say(reply) for reply in found), None)

    make_repository(task, root)
    supplier.answer_always(answer_helper)
    supplier.script(*task.moves)
    layout = Layout(str(root.parent / "state"), str(root.parent / "config"))
    for folder in (layout.state, layout.config):
        Path(folder).mkdir()
    scene = Scene(
        root,
        supplier,
        hooks=HookDirectory(layout),
        commands=CommandDirectory(layout, str(root)),
    )
    told = scene.run(task.prompt)
    assert not [step for step in told if isinstance(step, TurnFailed)]
    assert supplier.left == 0
    assert list_started_tools(told) == [call.name for call in task.list_calls()]
    failed = {step.name for step in told if isinstance(step, ToolUsed) and not step.ok}
    assert failed == task.may_fail
    task.check(Outcome(root, read_replies(told)[-1]))
