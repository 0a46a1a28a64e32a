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

from agentd.agent.engine import (
    ApprovalAnswer,
    ApprovalRequested,
    EngineEvent,
    EngineStarted,
    EngineStateSaved,
    Question,
    ReplyCompleted,
    ToolStarted,
    ToolUsed,
    TurnFailed,
    TurnRequest,
    UsageReported,
    UsageWindowsReported,
)
from agentd.agent.engines.claude_code.conversation import LOST, ClaudeConversation
from agentd.agent.engines.claude_code.launch import ClaudeState, build_launch
from agentd.agent.engines.external.common import (
    ModelEndpoint,
    WorkspaceBounds,
    digest_instructions,
)
from agentd.agent.engines.external.conversation import EngineConversation, ProgramLaunch
from agentd.agent.engines.external.engine import StdioEngine
from agentd.agent.engines.external.turn import TurnTimeouts
from agentd.llm.price import Usage
from agentd.models.program_state import UsageWindow
from tests.agent.engines import stand_in_claude
from tests.agent.engines.claude_code.lines import (
    SESSION,
    accept_handshake,
    answer,
    ask_permission,
    end_turn,
    report_limit,
    return_result,
    say_text,
    start_session,
    use_tool,
)

KEPT = EngineStateSaved(str(ClaudeState(SESSION, digest_instructions(""))))
ONE, COST = Usage(input=10, output=5), Decimal("0.25")
OPENED = {"hear": {"type": "control_request", "request": {"subtype": "initialize"}}}
PROMPTED = {"hear": {"type": "user", "message": {"role": "user", "content": "Do it."}}}
INTERRUPTED = {"hear": {"type": "control_request", "request": {"subtype": "interrupt"}}}

Begin = Callable[..., StdioEngine]


def say_lines(*said: bytes) -> list[dict[str, Any]]:
    return [{"say": json.loads(one)} for one in said]


BEGUN = [OPENED, *say_lines(accept_handshake()), PROMPTED, *say_lines(start_session())]


@pytest.fixture
def program(tmp_path: Path) -> Begin:
    """Return a function that makes an engine whose program plays these steps or plays."""

    def begin(
        *steps: dict[str, Any], plays: Any = None, endpoint: ModelEndpoint | None = None
    ) -> StdioEngine:
        script = tmp_path / "script.json"
        script.write_text(json.dumps(plays or [{"when": "", "steps": steps}]))
        command = (sys.executable, stand_in_claude.__file__, str(script))

        async def make(given: TurnRequest) -> tuple[ProgramLaunch, EngineConversation]:
            launched = build_launch(given, command, endpoint)
            return launched, ClaudeConversation(given, WorkspaceBounds(str(tmp_path)), launched)

        return StdioEngine(
            "claude-code", str(tmp_path), make, timeouts=lambda: TurnTimeouts(stop=60)
        )

    return begin


class Decides:
    def __init__(self, answer: ApprovalAnswer) -> None:
        self.answer = answer
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> ApprovalAnswer:
        self.asked.append(question)
        return self.answer


async def run_turn(
    engine: StdioEngine, decides: Decides | None = None, **more: Any
) -> list[EngineEvent]:
    async with asyncio.timeout(60):
        run = engine.run(TurnRequest(1, "Do it.", **more), decides or Decides(ApprovalAnswer(True)))
        async with aclosing(run) as progress:
            return [step async for step in progress if not isinstance(step, EngineStarted)]


def test_a_turn_with_a_tool_that_is_asked_about(program):
    given = {"command": "echo hi"}
    allowed = {"subtype": "success", "request_id": "q1"}
    engine = program(
        *BEGUN,
        *say_lines(
            answer("m1", say_text("I say hi.")), answer("m1", use_tool("t1", "Bash", **given))
        ),
        *say_lines(ask_permission("q1", "Bash", given)),
        {
            "hear": {
                "type": "control_response",
                "response": {**allowed, "response": {"behavior": "allow", "updatedInput": given}},
            }
        },
        *say_lines(return_result("t1", "hi"), answer("m2", say_text("Done.")), end_turn("Done.")),
    )
    decides = Decides(ApprovalAnswer(True))
    assert asyncio.run(run_turn(engine, decides)) == [
        KEPT,
        ToolStarted("Bash", "echo hi"),
        ReplyCompleted("I say hi.", ONE, Decimal(0)),
        ApprovalRequested(),
        ToolUsed("Bash", "echo hi", "hi"),
        ReplyCompleted("Done.", ONE, COST),
    ]
    assert decides.asked == [Question("shell", "Bash", "echo hi")]


def test_usage_windows_are_reported_while_the_turn_runs(program):
    engine = program(
        *BEGUN,
        *say_lines(
            report_limit("allowed_warning", 4_102_444_800, utilization=0.9),
            answer("m1", say_text("Done.")),
            end_turn("Done."),
        ),
    )
    assert asyncio.run(run_turn(engine)) == [
        KEPT,
        UsageWindowsReported((UsageWindow("5 hours", 90, "2100-01-01T00:00:00.000Z"),)),
        ReplyCompleted("Done.", ONE, COST),
    ]


def test_a_denial_reaches_the_program(program):
    denied = {"response": {"request_id": "q1", "response": {"behavior": "deny", "message": "No."}}}
    engine = program(
        *BEGUN,
        *say_lines(ask_permission("q1", "Bash", {"command": "x"})),
        {"hear": denied},
        *say_lines(end_turn("Oh.")),
    )
    steps = asyncio.run(run_turn(engine, Decides(ApprovalAnswer(False, reason="No."))))
    assert steps == [KEPT, ApprovalRequested(), ReplyCompleted("Oh.", cost=COST)]


def test_a_session_is_resumed_and_one_that_is_gone_is_restarted(program):
    gone = end_turn(failed=True, subtype="error_during_execution", errors=["No conversation found"])
    plays = [
        {
            "when": f"--resume={SESSION}",
            "steps": [OPENED, *say_lines(accept_handshake(), gone), {"exit": 1}],
        },
        {"when": "", "steps": [*BEGUN, *say_lines(end_turn("Anew."))]},
    ]
    engine = program(plays=plays)
    memory = str(ClaudeState(SESSION))
    assert asyncio.run(run_turn(engine, engine_state=memory)) == [
        ToolUsed("claude-code", f"resume {SESSION}", LOST, ok=False),
        KEPT,
        ReplyCompleted("Anew.", cost=COST),
    ]
    silent = [{**plays[0], "steps": [OPENED, {"errors": "No conversation"}, {"exit": 1}]}, plays[1]]
    assert ReplyCompleted("Anew.", cost=COST) in asyncio.run(
        run_turn(program(plays=silent), engine_state=memory)
    )


def test_a_stopped_turn_is_interrupted_and_its_cost_counts_in_the_next_one(program):
    aborted = end_turn(
        failed=True, subtype="error_during_execution", terminal_reason="aborted_tools"
    )
    plays = [
        {
            "when": "--model=first",
            "steps": [*BEGUN, *say_lines(answer("m1", use_tool("t1", "Bash")))],
        },
        {"when": "", "steps": [*BEGUN, *say_lines(end_turn("Again.", cost=0.5))]},
    ]
    plays[0]["steps"] += [INTERRUPTED, *say_lines(aborted)]
    engine = program(plays=plays)

    async def stop_and_run_again() -> list[EngineEvent]:
        run = engine.run(TurnRequest(1, "Do it.", model="first"), Decides(ApprovalAnswer(True)))
        async with asyncio.timeout(60), aclosing(run) as progress:
            async for step in progress:
                if isinstance(step, ToolStarted):
                    break
        return await run_turn(engine)

    assert asyncio.run(stop_and_run_again()) == [
        UsageReported(ONE, COST),
        KEPT,
        ReplyCompleted("Again.", cost=Decimal("0.5")),
    ]


def test_a_death_in_the_middle_is_reported_without_the_key(program):
    endpoint = ModelEndpoint("http://127.0.0.1:1", "a-key-of-mine")
    engine = program(
        *BEGUN,
        *say_lines(answer("m1", say_text("Half."))),
        {"raw": '{"type": "assis'},
        {"errors": "key a-key-of-mine"},
        {"exit": 9},
        endpoint=endpoint,
    )
    words = "Its last words:\n\nkey ***"
    assert asyncio.run(run_turn(engine)) == [
        KEPT,
        ReplyCompleted("Half.", ONE, None),
        TurnFailed(f"claude-code ended in the middle of the turn with exit code 9. {words}"),
    ]


def test_noise_between_the_lines_is_passed_over(program):
    engine = program(
        {"raw": "[debug] starting\n\n"},
        *BEGUN,
        {"raw": "warn: x\n{}\n"},
        *say_lines(end_turn("Hi.")),
    )
    assert asyncio.run(run_turn(engine)) == [KEPT, ReplyCompleted("Hi.", cost=COST)]
