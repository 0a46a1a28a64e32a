"""Whole turns over real pipes, with the stand-in for Claude Code."""

import asyncio
import json
import sys
from collections.abc import Callable
from contextlib import aclosing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agentd.agent.claude_code.conversation import LOST, ClaudeConversation
from agentd.agent.claude_code.launch import Memory, launch
from agentd.agent.conversation import Conversation, Launch
from agentd.agent.engine import (
    Alive,
    Answer,
    Assignment,
    Failed,
    Kept,
    Progress,
    Question,
    Replied,
    Spent,
    ToolStarted,
    ToolUsed,
)
from agentd.agent.foreign import Bounds, Endpoint
from agentd.outside.stdio_engine import StdioEngine
from agentd.outside.stdio_turn import Patience
from agentd.proxy.price import Usage
from tests.agent import stand_in_claude
from tests.agent.claude_code.lines import (
    SESSION,
    answer,
    asks,
    came_back,
    init,
    ready,
    result,
    text,
    tool,
)

KEPT = Kept(str(Memory(SESSION)))
ONE, COST = Usage(input=10, output=5), Decimal("0.25")
OPENED = {"hear": {"type": "control_request", "request": {"subtype": "initialize"}}}
PROMPTED = {"hear": {"type": "user", "message": {"role": "user", "content": "Do it."}}}
INTERRUPTED = {"hear": {"type": "control_request", "request": {"subtype": "interrupt"}}}

Begin = Callable[..., StdioEngine]


def says(*said: bytes) -> list[dict[str, Any]]:
    return [{"say": json.loads(one)} for one in said]


BEGUN = [OPENED, *says(ready()), PROMPTED, *says(init())]


@pytest.fixture
def program(tmp_path: Path) -> Begin:
    """An engine of which the program plays these steps, or these plays by its arguments."""

    def begin(
        *steps: dict[str, Any], plays: Any = None, endpoint: Endpoint | None = None
    ) -> StdioEngine:
        script = tmp_path / "script.json"
        script.write_text(json.dumps(plays or [{"when": "", "steps": steps}]))
        command = (sys.executable, stand_in_claude.__file__, str(script))

        async def make(given: Assignment) -> tuple[Launch, Conversation]:
            launched = launch(given, command, endpoint)
            return launched, ClaudeConversation(given, Bounds(str(tmp_path)), launched)

        return StdioEngine("claude-code", str(tmp_path), make, patience=lambda: Patience(stop=60))

    return begin


class Decides:
    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        return self.answer


async def carried_out(
    engine: StdioEngine, decides: Decides | None = None, **more: Any
) -> list[Progress]:
    async with asyncio.timeout(60):
        run = engine.run(Assignment(1, "Do it.", **more), decides or Decides(Answer(True)))
        async with aclosing(run) as progress:
            return [step async for step in progress if not isinstance(step, Alive)]


def test_a_turn_with_a_tool_that_is_asked_about(program):
    given = {"command": "echo hi"}
    allowed = {"subtype": "success", "request_id": "q1"}
    engine = program(
        *BEGUN,
        *says(answer("m1", text("I say hi.")), answer("m1", tool("t1", "Bash", **given))),
        *says(asks("q1", "Bash", given)),
        {
            "hear": {
                "type": "control_response",
                "response": {**allowed, "response": {"behavior": "allow", "updatedInput": given}},
            }
        },
        *says(came_back("t1", "hi"), answer("m2", text("Done.")), result("Done.")),
    )
    decides = Decides(Answer(True))
    assert asyncio.run(carried_out(engine, decides)) == [
        KEPT,
        ToolStarted("Bash", "echo hi"),
        Replied("I say hi.", ONE, Decimal(0)),
        ToolUsed("Bash", "echo hi", "hi"),
        Replied("Done.", ONE, COST),
    ]
    assert decides.asked == [Question("shell", "Bash", "echo hi")]


def test_a_denial_reaches_the_program(program):
    denied = {"response": {"request_id": "q1", "response": {"behavior": "deny", "message": "No."}}}
    engine = program(
        *BEGUN, *says(asks("q1", "Bash", {"command": "x"})), {"hear": denied}, *says(result("Oh."))
    )
    steps = asyncio.run(carried_out(engine, Decides(Answer(False, reason="No."))))
    assert steps == [KEPT, Replied("Oh.", cost=COST)]


def test_a_session_is_resumed_and_one_that_is_gone_is_begun_anew(program):
    gone = result(failed=True, subtype="error_during_execution", errors=["No conversation found"])
    plays = [
        {"when": f"--resume={SESSION}", "steps": [OPENED, *says(ready(), gone), {"exit": 1}]},
        {"when": "", "steps": [*BEGUN, *says(result("Anew."))]},
    ]
    engine = program(plays=plays)
    memory = str(Memory(SESSION))
    assert asyncio.run(carried_out(engine, memory=memory)) == [
        ToolUsed("claude-code", f"resume {SESSION}", LOST),
        KEPT,
        Replied("Anew.", cost=COST),
    ]
    silent = [{**plays[0], "steps": [OPENED, {"errors": "No conversation"}, {"exit": 1}]}, plays[1]]
    assert Replied("Anew.", cost=COST) in asyncio.run(
        carried_out(program(plays=silent), memory=memory)
    )


def test_a_stopped_turn_is_interrupted_and_its_cost_counts_in_the_next_one(program):
    aborted = result(failed=True, subtype="error_during_execution", terminal_reason="aborted_tools")
    plays = [
        {"when": "--model=first", "steps": [*BEGUN, *says(answer("m1", tool("t1", "Bash")))]},
        {"when": "", "steps": [*BEGUN, *says(result("Again.", cost=0.5))]},
    ]
    plays[0]["steps"] += [INTERRUPTED, *says(aborted)]
    engine = program(plays=plays)

    async def scene() -> list[Progress]:
        run = engine.run(Assignment(1, "Do it.", model="first"), Decides(Answer(True)))
        async with asyncio.timeout(60), aclosing(run) as progress:
            async for step in progress:
                if isinstance(step, ToolStarted):
                    break
        return await carried_out(engine)

    assert asyncio.run(scene()) == [
        Spent(ONE, COST),
        KEPT,
        Replied("Again.", cost=Decimal("0.5")),
    ]


def test_a_death_in_the_middle_is_told_without_the_key(program):
    endpoint = Endpoint("http://127.0.0.1:1", "a-key-of-mine")
    engine = program(
        *BEGUN,
        *says(answer("m1", text("Half."))),
        {"raw": '{"type": "assis'},
        {"errors": "key a-key-of-mine"},
        {"exit": 9},
        endpoint=endpoint,
    )
    words = "Its last words:\n\nkey ***"
    assert asyncio.run(carried_out(engine)) == [
        KEPT,
        Replied("Half.", ONE, None),
        Failed(f"claude-code ended in the middle of the turn with exit code 9. {words}"),
    ]


def test_noise_between_the_lines_is_passed_over(program):
    engine = program(
        {"raw": "[debug] starting\n\n"}, *BEGUN, {"raw": "warn: x\n{}\n"}, *says(result("Hi."))
    )
    assert asyncio.run(carried_out(engine)) == [KEPT, Replied("Hi.", cost=COST)]
