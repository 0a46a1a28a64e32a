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

from agentd.agent.engine import (
    ApprovalAnswer,
    EngineEvent,
    EngineStateSaved,
    Question,
    RateLimited,
    ReplyCompleted,
    ReplyDelta,
    ToolUsed,
    TurnFailed,
    TurnRequest,
)
from agentd.agent.engines.acp import conversation
from agentd.agent.engines.acp.conversation import AcpConversation
from agentd.agent.engines.acp.launch import build_launch
from agentd.agent.engines.acp.session import LOST
from agentd.agent.engines.external.common import CONTINUE_PROMPT, WorkspaceBounds
from agentd.agent.engines.external.conversation import EngineConversation, ProgramLaunch
from agentd.agent.engines.external.engine import StdioEngine
from agentd.agent.engines.external.turn import TurnTimeouts
from agentd.llm.price import Usage
from tests.agent.engines.conversing import filter_steps, sum_cost, sum_usage

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
        patience = TurnTimeouts(stop=60)
        self._engine = StdioEngine(
            "acp", str(self.workspace), self._make, timeouts=lambda: patience
        )

    async def _make(self, assignment: TurnRequest) -> tuple[ProgramLaunch, EngineConversation]:
        started = build_launch(assignment, self._command, None)
        return started, AcpConversation(assignment, WorkspaceBounds(str(self.workspace)))

    async def ask(self, question: Question) -> ApprovalAnswer:
        self.asked.append(question)
        return ApprovalAnswer(self.allowed)

    async def run_turn(
        self, prompt: str, until: Callable[[EngineEvent], bool] = lambda _: False, **more: Any
    ) -> list[EngineEvent]:
        assignment = TurnRequest(1, prompt, engine_state=self.memory, **more)
        result: list[EngineEvent] = []
        async with aclosing(self._engine.run(assignment, self)) as progress:
            async for step in progress:
                result.append(step)
                if isinstance(step, EngineStateSaved):
                    self.memory = step.engine_state
                if until(step):
                    break
        return result

    def read_session(self) -> dict[str, Any]:
        [path] = self.state.iterdir()
        found: dict[str, Any] = json.loads(path.read_text())
        return found


async def test_a_file_is_edited_with_leave(tmp_path: Path) -> None:
    chat = Chat(tmp_path)
    result = await chat.run_turn("please edit and run")
    assert (chat.workspace / "notes.txt").read_text() == "changed\n"
    assert chat.asked == [
        Question("write", "edit", "notes.txt"),
        Question("shell", "shell", "touch made.txt"),
    ]
    edit, run = filter_steps(result, ToolUsed)
    assert (edit.name, edit.input) == ("edit", "notes.txt")
    assert edit.outcome == "@@ -1 +1 @@\n-one\n+changed"
    assert run == ToolUsed("shell", "touch made.txt", "")
    assert [reply.text for reply in filter_steps(result, ReplyCompleted)] == [
        "I begin.",
        "1 prompts, model small.",
    ]
    assert sum_usage(result) == ONE
    assert sum_cost(result) == Decimal("0.01")


async def test_without_leave_nothing_is_edited(tmp_path: Path) -> None:
    chat = Chat(tmp_path)
    chat.allowed = False
    result = await chat.run_turn("please edit")
    assert (chat.workspace / "notes.txt").read_text() == "one\n"
    assert filter_steps(result, ToolUsed) == [ToolUsed("edit", "notes.txt", "It failed.", ok=False)]


@pytest.mark.parametrize("words", [(), ("load",), ("boast",)])
async def test_a_session_goes_on_and_only_what_is_new_is_reported_and_recorded(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    chat = Chat(tmp_path, *words)
    await chat.run_turn("first", instructions="Be terse.")
    result = await chat.run_turn("second", instructions="Be terse.")
    assert [reply.text for reply in filter_steps(result, ReplyCompleted)] == [
        "I begin.2 prompts, model small."
    ]
    assert (sum_usage(result), sum_cost(result)) == (ONE, Decimal("0.01"))
    first, second = chat.read_session()["prompts"]
    assert "Be terse." in first and second == "second"
    assert await chat.run_turn("third", instructions="Be terse.", is_retry=True)
    assert chat.read_session()["prompts"][-1] == CONTINUE_PROMPT


async def test_an_agent_without_a_memory_starts_again_each_turn(tmp_path: Path) -> None:
    chat = Chat(tmp_path, "forgetful")
    await chat.run_turn("first")
    result = await chat.run_turn("second")
    assert filter_steps(result, ReplyCompleted)[-1].text == "I begin.1 prompts, model small."
    assert sum_cost(result) == Decimal("0.01")


async def test_a_session_that_is_gone_is_restarted(tmp_path: Path) -> None:
    chat = Chat(tmp_path)
    chat.memory = '{"session": "s99"}'
    result = await chat.run_turn("first")
    assert ToolUsed("session", "resume s99", LOST, ok=False) in result
    assert filter_steps(result, ReplyCompleted)


async def test_the_model_is_chosen(tmp_path: Path) -> None:
    result = await Chat(tmp_path).run_turn("hello", model="large")
    assert filter_steps(result, ReplyCompleted)[-1].text == "I begin.1 prompts, model large."


async def test_a_late_report_of_the_cost_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "LATE", 60.0)
    result = await Chat(tmp_path).run_turn("late")
    assert filter_steps(result, ReplyCompleted) == [
        ReplyCompleted("I begin.1 prompts, model small.", ONE, Decimal("0.01"))
    ]


async def test_an_agent_without_costs_ends_its_turn_all_the_same(tmp_path: Path) -> None:
    result = await Chat(tmp_path).run_turn("free")
    assert filter_steps(result, ReplyCompleted) == [
        ReplyCompleted("I begin.1 prompts, model small.", ONE)
    ]


async def test_a_line_may_be_as_long_as_a_tool_s_output(tmp_path: Path) -> None:
    result = await Chat(tmp_path).run_turn("big")
    assert [tool.name for tool in filter_steps(result, ToolUsed)] == ["read"]
    assert filter_steps(result, ReplyCompleted)


async def test_a_stop_ends_the_turn_and_the_session_goes_on(tmp_path: Path) -> None:
    chat = Chat(tmp_path)
    stopped = await chat.run_turn("wait", lambda step: isinstance(step, ReplyDelta))
    result = await chat.run_turn("hello")
    assert filter_steps(result, ReplyCompleted)[-1].text == "I begin.2 prompts, model small."
    assert sum_cost(stopped + result) == Decimal("0.02")


@pytest.mark.parametrize(
    ("prompt", "words", "kind", "reason"),
    [
        ("limit", (), RateLimited, "Rate limit reached"),
        ("break", (), TurnFailed, "The model is gone"),
        ("cut", (), TurnFailed, "cut off"),
        ("hello", ("sign-in",), TurnFailed, "Run `scripted login`"),
        ("die", (), TurnFailed, "it hurts"),
    ],
)
async def test_what_went_wrong_is_reported(
    tmp_path: Path, prompt: str, words: tuple[str, ...], kind: type[TurnFailed], reason: str
) -> None:
    [end] = filter_steps(await Chat(tmp_path, *words).run_turn(prompt), kind)
    assert reason in end.reason
