"""Sub-tasks: conversations of their own, with tools, budgets and an end that the turn reads."""

import asyncio
from decimal import Decimal
from pathlib import Path

import pytest

from agentd.agent.engine import ReplyCompleted, ToolStarted, ToolUsed, TurnFailed, UsageReported
from agentd.agent.engines.native.subtask import ALL_TOOLS, READING_TOOLS
from agentd.agent.engines.native.turn import TurnLimits
from agentd.agent.tools.files import FolderWorkspace
from agentd.agent.tools.model import TOOLS, ReadFile
from agentd.agent.tools.results import FileText
from tests.agent.engines.native.scene import Person, Scene, list_used_tools, read_replies
from tests.conftest import until
from tests.supplier.steps import Answer, Call, Say, Tokens
from tests.supplier.supplier import Supplier
from tests.support.waiting import wait_until_gone


@pytest.fixture
def supplier():
    with Supplier() as it:
        yield it


@pytest.fixture
def root(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    (work / "notes.txt").write_text("tea\n")
    return work


@pytest.fixture
def scene(root, supplier) -> Scene:
    return Scene(root, supplier)


def call_task(prompt: str, **more) -> Call:
    return Call("run_task", {"prompt": prompt, **more})


def test_a_task_ends_at_the_cost_that_the_model_gave_it(scene, supplier):
    spent = Tokens(input=1_000_000, output=0)
    supplier.script(
        call_task("Look.", cost=1.5),
        Answer((Call("read_file", {"path": "notes.txt"}),), spent),
        Say("It was too dear."),
    )
    told = scene.run()
    assert read_replies(told) == ["It was too dear."]
    (task,) = [one for one in told if isinstance(one, ToolUsed) and one.name == "run_task"]
    assert not task.ok
    assert "limit of 1.5 USD" in task.outcome
    costs = [one.cost for one in told if isinstance(one, UsageReported | ReplyCompleted)]
    assert Decimal(2) in costs


def test_tasks_run_beside_each_other_and_their_replies_are_read(scene, root, supplier):
    class SimultaneousWorkspace(FolderWorkspace):
        """Lets nobody read before two want to."""

        def __init__(self) -> None:
            super().__init__(str(root))
            self.both = asyncio.Barrier(2)

        async def read_file(self, wanted: ReadFile) -> FileText:  # type: ignore[override]
            if wanted.path == "notes.txt":
                await self.both.wait()
            return await super().read_file(wanted)

    def answer(request) -> Say | Call | list[Call]:
        if "sub-task of a larger work" not in str(request.turns[0]):
            both = [call_task("First."), call_task("Second.")]
            return Say("Both are done.") if request.results else both
        if request.results:
            return Say("Found: first" if "First." in str(request.turns) else "Found: second")
        return Call("read_file", {"path": "notes.txt"})

    scene.workspace = SimultaneousWorkspace()
    supplier.answer_always(answer)
    told = scene.run()
    assert read_replies(told) == ["Both are done."]
    last = supplier.requests[-1]
    assert [result.text for result in last.results] == ["Found: first", "Found: second"]
    assert [name for name, _ in list_used_tools(told)] == [
        "read_file",
        "read_file",
        "run_task",
        "run_task",
    ]
    assert list_used_tools(told)[-1][1] == "1 uses of tools\n\nFound: second"
    for request in supplier.requests[1:-1]:
        assert "This is a sub-task" in str(request.turns[0])
        assert "Do it." not in str(request.turns)


def test_a_task_that_only_reads_is_offered_nothing_else(scene, root, supplier):
    write = Call("write_file", {"path": "x", "text": "x"})
    supplier.script(call_task("Look."), write, Say("I may not."), Say("Done."))
    assert read_replies(scene.run()) == ["Done."]
    assert set(supplier.requests[1].tools) == set(READING_TOOLS)
    assert "There is no tool named write_file" in supplier.requests[2].results[0].text
    assert not (root / "x").exists()
    assert {"shell", "start_process", "apply_patch", "run_task"}.isdisjoint(READING_TOOLS)
    assert set(TOOLS) - set(ALL_TOOLS) == {"run_task", "ask_person", "update_todos"}


def test_what_a_task_changes_is_asked_for_and_shown(scene, root, supplier):
    scene.person = Person("shell")
    supplier.script(
        call_task("Mend.", tools="all"),
        [Call("write_file", {"path": "x", "text": "x"}), Call("shell", {"command": "touch y"})],
        Say("Mended."),
        Say("Done."),
    )
    told = scene.run()
    assert (root / "x").read_text() == "x" and not (root / "y").exists()
    assert [question.kind for question in scene.person.asked] == ["write", "shell"]
    shown = [one for one in told if isinstance(one, ToolUsed) and one.name == "write_file"]
    assert "+x" in shown[0].diff
    (task,) = (one for one in told if isinstance(one, ToolStarted) and one.name == "run_task")
    assert ToolStarted("write_file", "path=x text=x", parent=task.id) in told
    assert shown[0].parent == task.id


def test_a_task_ends_at_its_steps_and_the_turn_goes_on(scene, supplier):
    supplier.script(
        call_task("Search.", steps=2), Call("git_status"), Call("git_status"), Say("It failed.")
    )
    told = scene.run()
    assert read_replies(told) == ["It failed."]
    said = supplier.requests[-1].results[0].text
    assert "did not come to its end: The turn reached its limit of 2 steps" in said


def test_the_cost_of_a_task_is_the_turns_and_its_limit_holds(scene, supplier):
    def answer(request) -> Answer:
        if request.prompt == "Do it.":
            return Answer((call_task("Search."),), usage=Tokens(input=1000, output=0))
        return Answer((Call("git_status"),), usage=Tokens(input=2000, output=0))

    scene.limits = TurnLimits(cost=Decimal("0.01"))
    supplier.answer_always(answer)
    told = scene.run()
    assert isinstance(told[-1], TurnFailed)
    assert "its limit of 0.01 USD (0.01 USD)" in told[-1].reason
    costs = [one.cost for one in told if isinstance(one, UsageReported | ReplyCompleted)]
    assert sum(cost for cost in costs if cost) == Decimal("0.010")
    assert len(supplier.requests) == 3


def test_stopping_the_turn_ends_its_tasks_and_what_they_used_is_told(scene, supplier):
    pids = scene.root / "pids"
    command = f"echo $$ > {pids}~; mv {pids}~ {pids}; sleep 60"
    supplier.script(
        call_task("Run.", tools="all"),
        Answer((Call("shell", {"command": command}),), usage=Tokens(input=700, output=9)),
    )

    async def run() -> None:
        turn = asyncio.create_task(scene.collect_events(turn_tag="t.1"))
        await until(pids.exists)
        turn.cancel()
        await asyncio.wait([turn])
        assert turn.cancelled()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
    wait_until_gone(int(pids.read_text()))
    spent = [one.usage.input for one in scene.so_far if isinstance(one, UsageReported)]
    assert 700 in spent
