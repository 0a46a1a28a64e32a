"""Turns with an agent made with the official package of the protocol, over real pipes."""

import json
import sys
from collections.abc import Callable
from contextlib import aclosing
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from agentd.agent.acp import conversation
from agentd.agent.acp.conversation import AcpConversation
from agentd.agent.acp.launch import launch
from agentd.agent.acp.session import LOST
from agentd.agent.conversation import Conversation, Launch
from agentd.agent.engine import (
    Answer,
    Assignment,
    Failed,
    Kept,
    Limited,
    Progress,
    Question,
    Replied,
    ToolUsed,
    Wrote,
)
from agentd.agent.foreign import GO_ON, Bounds
from agentd.outside.stdio_engine import StdioEngine
from agentd.outside.stdio_turn import Patience
from agentd.proxy.price import Usage
from tests.agent.conversing import only, spent, used

pytestmark = [
    pytest.mark.gen_test,
    pytest.mark.skipif(not find_spec("acp"), reason="pip install agent-client-protocol"),
]

AGENT = Path(__file__).parent.parent / "acp_agent.py"
ONE = Usage(input=90, cache_read=10, output=7)


class Chat:
    """A chat with the scripted agent; ``asked`` are its questions."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.workspace, self.state = folder / "workspace", folder / "sessions"
        for one in (self.workspace, self.state):
            one.mkdir(exist_ok=True)
        (self.workspace / "notes.txt").write_text("one\n")
        self.asked: list[Question] = []
        self.allowed = True
        self.memory = ""
        # -P: the folder beside the script has the name of the package.
        self._command = (sys.executable, "-P", str(AGENT), str(self.state), *words)
        patience = Patience(stop=60)
        self._engine = StdioEngine(
            "acp", str(self.workspace), self._make, patience=lambda: patience
        )

    async def _make(self, assignment: Assignment) -> tuple[Launch, Conversation]:
        started = launch(assignment, self._command, None)
        return started, AcpConversation(assignment, Bounds(str(self.workspace)))

    async def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        return Answer(self.allowed)

    async def turn(
        self, prompt: str, until: Callable[[Progress], bool] = lambda _: False, **more: Any
    ) -> list[Progress]:
        assignment = Assignment(1, prompt, memory=self.memory, **more)
        told: list[Progress] = []
        async with aclosing(self._engine.run(assignment, self)) as progress:
            async for step in progress:
                told.append(step)
                if isinstance(step, Kept):
                    self.memory = step.memory
                if until(step):
                    break
        return told

    def session(self) -> dict[str, Any]:
        [path] = self.state.iterdir()
        found: dict[str, Any] = json.loads(path.read_text())
        return found


async def test_a_file_is_edited_with_leave(tmp_path: Path) -> None:
    chat = Chat(tmp_path)
    told = await chat.turn("please edit and run")
    assert (chat.workspace / "notes.txt").read_text() == "changed\n"
    assert chat.asked == [
        Question("write", "edit", "notes.txt"),
        Question("shell", "shell", "touch made.txt"),
    ]
    edit, run = only(told, ToolUsed)
    assert (edit.name, edit.input) == ("edit", "notes.txt")
    assert edit.outcome == "@@ -1 +1 @@\n-one\n+changed"
    assert run == ToolUsed("shell", "touch made.txt", "")
    assert [reply.text for reply in only(told, Replied)] == ["I begin.", "1 prompts, model small."]
    assert used(told) == ONE
    assert spent(told) == Decimal("0.01")


async def test_without_leave_nothing_is_edited(tmp_path: Path) -> None:
    chat = Chat(tmp_path)
    chat.allowed = False
    told = await chat.turn("please edit")
    assert (chat.workspace / "notes.txt").read_text() == "one\n"
    assert only(told, ToolUsed) == [ToolUsed("edit", "notes.txt", "It failed.")]


@pytest.mark.parametrize("words", [(), ("load",), ("boast",)])
async def test_a_session_goes_on_and_only_what_is_new_is_told_and_booked(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    chat = Chat(tmp_path, *words)
    await chat.turn("first", instructions="Be terse.")
    told = await chat.turn("second", instructions="Be terse.")
    assert [reply.text for reply in only(told, Replied)] == ["I begin.2 prompts, model small."]
    assert (used(told), spent(told)) == (ONE, Decimal("0.01"))
    first, second = chat.session()["prompts"]
    assert "Be terse." in first and second == "second"
    assert await chat.turn("third", instructions="Be terse.", again=True)
    assert chat.session()["prompts"][-1] == GO_ON


async def test_an_agent_without_a_memory_begins_anew_each_turn(tmp_path: Path) -> None:
    chat = Chat(tmp_path, "forgetful")
    await chat.turn("first")
    told = await chat.turn("second")
    assert only(told, Replied)[-1].text == "I begin.1 prompts, model small."
    assert spent(told) == Decimal("0.01")


async def test_a_session_that_is_gone_is_begun_anew(tmp_path: Path) -> None:
    chat = Chat(tmp_path)
    chat.memory = '{"session": "s99"}'
    told = await chat.turn("first")
    assert ToolUsed("session", "resume s99", LOST) in told
    assert only(told, Replied)


async def test_the_model_is_chosen(tmp_path: Path) -> None:
    told = await Chat(tmp_path).turn("hello", model="large")
    assert only(told, Replied)[-1].text == "I begin.1 prompts, model large."


async def test_a_late_report_of_the_cost_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "LATE", 60.0)
    told = await Chat(tmp_path).turn("late")
    assert only(told, Replied) == [Replied("I begin.1 prompts, model small.", ONE, Decimal("0.01"))]


async def test_an_agent_without_costs_ends_its_turn_all_the_same(tmp_path: Path) -> None:
    told = await Chat(tmp_path).turn("free")
    assert only(told, Replied) == [Replied("I begin.1 prompts, model small.", ONE)]


async def test_a_line_may_be_as_long_as_a_tool_s_output(tmp_path: Path) -> None:
    told = await Chat(tmp_path).turn("big")
    assert [tool.name for tool in only(told, ToolUsed)] == ["read"]
    assert only(told, Replied)


async def test_a_stop_ends_the_turn_and_the_session_goes_on(tmp_path: Path) -> None:
    chat = Chat(tmp_path)
    stopped = await chat.turn("wait", lambda step: isinstance(step, Wrote))
    told = await chat.turn("hello")
    assert only(told, Replied)[-1].text == "I begin.2 prompts, model small."
    assert spent(stopped + told) == Decimal("0.02")


@pytest.mark.parametrize(
    ("prompt", "words", "kind", "reason"),
    [
        ("limit", (), Limited, "Rate limit reached"),
        ("break", (), Failed, "The model is gone"),
        ("cut", (), Failed, "cut off"),
        ("hello", ("sign-in",), Failed, "Run `scripted login`"),
        ("die", (), Failed, "it hurts"),
    ],
)
async def test_what_went_wrong_is_told(
    tmp_path: Path, prompt: str, words: tuple[str, ...], kind: type[Failed], reason: str
) -> None:
    [end] = only(await Chat(tmp_path, *words).turn(prompt), kind)
    assert reason in end.reason
