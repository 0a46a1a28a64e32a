"""Plans of the real programs, which enter the history as one checklist each time."""

import shutil
from pathlib import Path

import pytest

from agentd.agent.engine import ToolStarted, ToolUsed, TurnRequest
from agentd.agent.engines.acp.conversation import AcpConversation
from agentd.agent.engines.acp.launch import build_launch as acp_launch
from agentd.agent.engines.claude_code.conversation import ClaudeConversation
from agentd.agent.engines.claude_code.launch import build_launch as claude_launch
from agentd.agent.engines.codex.conversation import CodexConversation
from agentd.agent.engines.codex.launch import build_launch as codex_launch
from agentd.agent.engines.external.common import WorkspaceBounds
from agentd.agent.engines.external.conversation import EngineConversation, ProgramLaunch
from agentd.agent.plan import PLAN_TOOL
from tests.agent.engines.conversing import filter_steps
from tests.agent.engines.real.driving import Chat, Launcher
from tests.agent.engines.real.opencode_talks import answer_title
from tests.agent.engines.real.programs import CLAUDE, CODEX, OPENCODE, make_place
from tests.supplier.steps import Call, Say, Step
from tests.supplier.supplier import Supplier

pytestmark = [pytest.mark.engines, pytest.mark.gen_test(timeout=240)]

SHOWN = "- [x] read\n- [ ] **write** (now)"
TODOS = [
    {"content": "read", "status": "completed", "activeForm": "reading", "priority": "high"},
    {"content": "write", "status": "in_progress", "activeForm": "writing", "priority": "low"},
]
PLAN = [{"step": "read", "status": "completed"}, {"step": "write", "status": "in_progress"}]
TASKS = [
    Call("TaskCreate", {"subject": "read", "description": "all"}),
    Call("TaskCreate", {"subject": "write", "description": "all"}),
    Call("TaskUpdate", {"taskId": "1", "status": "completed"}),
    Call("TaskUpdate", {"taskId": "2", "status": "in_progress"}),
]
SWITCH = "CLAUDE_CODE_ENABLE_TASKS"


def converse(
    assignment: TurnRequest, bounds: WorkspaceBounds, launch: ProgramLaunch
) -> EngineConversation:
    """Begin the conversation of the program that is launched."""
    if "app-server" in launch.command:
        return CodexConversation(assignment, bounds)
    if "acp" in launch.command:
        return AcpConversation(assignment, bounds)
    return ClaudeConversation(assignment, bounds, launch)


@pytest.mark.parametrize(
    ("program", "command", "launch", "steps", "environment"),
    [
        (CODEX, (), codex_launch, [Call("update_plan", {"plan": PLAN})], {}),
        (OPENCODE, ("acp",), acp_launch, [Call("todowrite", {"todos": TODOS})], {}),
        (CLAUDE, (), claude_launch, [Call("TodoWrite", {"todos": TODOS})], {SWITCH: "0"}),
        (CLAUDE, (), claude_launch, TASKS, {SWITCH: "1"}),
    ],
    ids=["codex", "opencode", "claude todos", "claude tasks"],
)
async def test_a_plan_enters_the_history_as_a_checklist(
    tmp_path: Path,
    program: Path,
    command: tuple[str, ...],
    launch: Launcher,
    steps: list[Step],
    environment: dict[str, str],
) -> None:
    if not shutil.which(program):
        pytest.skip(f"no {program}: npm install --prefix {Path(__file__).parent}")
    with Supplier() as supplier:
        supplier.answer_always(*([answer_title] if program == OPENCODE else []))
        supplier.script(*steps, Say("Planned."))
        place = make_place(tmp_path)
        settings = place.home / "codex" / "config.toml"
        settings.write_text("[tools.update_plan]\nenabled = true\n")
        chat = Chat(place, supplier, (str(program), *command), launch, converse)
        chat.environment |= {"CLAUDE_CODE_ENABLE_TODO_TOOLS": "1", **environment}
        received = await chat.run_turn("Plan it.")
    used = filter_steps(received, ToolUsed)
    assert {one.name for one in used} == {PLAN_TOOL}, received
    assert (used[-1].input, used[-1].outcome, used[-1].ok) == ("1 of 2 done", SHOWN, True)
    assert not filter_steps(received, ToolStarted)
    assert chat.asked == []
