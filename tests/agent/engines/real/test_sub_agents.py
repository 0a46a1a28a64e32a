"""Sub-agents of the real Claude Code and Codex, and tasks in the background."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agentd.agent.engine import ReplyCompleted, ToolStarted, ToolUsed, TurnRequest
from agentd.agent.engines.claude_code.conversation import ClaudeConversation
from agentd.agent.engines.claude_code.launch import build_launch
from agentd.agent.engines.codex.conversation import CodexConversation
from agentd.agent.engines.codex.launch import build_launch as build_codex_launch
from agentd.agent.engines.external.common import WorkspaceBounds
from agentd.agent.engines.external.conversation import ProgramLaunch
from agentd.agent.engines.external.turn import TurnTimeouts
from agentd.llm.price import Usage
from tests.agent.engines.conversing import filter_steps, sum_usage
from tests.agent.engines.real.driving import Chat, find_processes
from tests.agent.engines.real.programs import CLAUDE, CODEX, Place, make_place
from tests.supplier.request import Request
from tests.supplier.steps import Answer, Call, Say, Tokens
from tests.supplier.supplier import Supplier

pytestmark = [pytest.mark.engines, pytest.mark.gen_test(timeout=240)]


def needs(program: Path) -> pytest.MarkDecorator:
    """Skip a test if the program is not installed."""
    reason = f"no {program}: npm install --prefix {Path(__file__).parent}"
    return pytest.mark.skipif(not shutil.which(program), reason=reason)


ONE_CALL = Tokens(input=1000, output=100)


def play_models(place: Place, *, background: bool) -> Callable[[Request], Answer]:
    """Play both models: one starts an agent, which makes a file."""
    given = {"description": "Look", "prompt": "Look into the notes."}
    kind = {"subagent_type": "general-purpose", "run_in_background": background}
    run = {"command": f"touch {place.workspace / 'made'}", "description": "runs it"}

    def answer(request: Request) -> Answer:
        seen = str(request.turns)
        step: Call | Say
        if "Look into the notes." in str(request.turns[:1]):
            step = Say("They say one.") if "tool_result" in seen else Call("Bash", run)
        elif "They say one." in seen:
            step = Say("It says one.")
        else:
            step = Say("It looks.") if "tool_result" in seen else Call("Agent", {**given, **kind})
        return Answer((step,), usage=ONE_CALL)

    return answer


@needs(CLAUDE)
@pytest.mark.parametrize("background", [False, True])
async def test_a_turn_lasts_until_its_agents_are_done_and_has_the_tokens_of_all_calls(
    tmp_path: Path, background: bool
) -> None:
    """Else what an agent in the background asks would be withdrawn and its report lost."""
    place = make_place(tmp_path)
    with Supplier() as supplier:
        supplier.answer_always(play_models(place, background=background))
        chat = Chat(place, supplier, (str(CLAUDE),), build_launch, ClaudeConversation)
        steps = await chat.run_turn("Find out what is there.", priced=True)
        calls = len(supplier.requests)
    assert [one.kind for one in chat.asked] == ["shell"]
    assert (place.workspace / "made").exists()
    assert filter_steps(steps, ReplyCompleted)[-1].text == "It says one."
    assert sum_usage(steps) == Usage(input=1000 * calls, output=100 * calls)


@needs(CLAUDE)
async def test_a_prompt_after_a_turn_that_left_a_command_in_the_background_is_carried_out(
    tmp_path: Path,
) -> None:
    """The command ended with the turn; Claude Code tells of that before it reads the prompt."""
    run = {"command": "sleep 300.5", "description": "serves", "run_in_background": True}
    with Supplier() as supplier:
        supplier.script(Call("Bash", run), Say("It serves."), Say("As I said."))
        place = make_place(tmp_path)
        chat = Chat(place, supplier, (str(CLAUDE),), build_launch, ClaudeConversation)
        await chat.run_turn("Serve.")
        assert not find_processes("sleep\x00300.5")
        steps = await chat.run_turn("And now?")
    assert [one.text for one in filter_steps(steps, ReplyCompleted)] == ["As I said."]


WORKFLOW = """export const meta = {name: "look", description: "looks", phases: [{title: "Look"}]}
return await parallel([() => agent("Look into the notes.")])
"""


@needs(CLAUDE)
async def test_what_a_workflow_used_before_a_stop_is_recorded(tmp_path: Path) -> None:
    """Claude Code tells nothing of its agents' calls until all are done."""
    place = make_place(tmp_path)

    def answer(request: Request) -> Answer:
        """Play both models: one starts the workflow, whose agent runs a long command."""
        step: Call | Say
        if "Look into the notes." in str(request.turns[:1]):
            run = {"command": "touch made; sleep 300.5", "description": "runs it"}
            step = Call("Bash", run)
        elif "tool_result" in str(request.turns):
            step = Say("It looks.")
        else:
            step = Call("Workflow", {"script": WORKFLOW})
        return Answer((step,), usage=ONE_CALL)

    with Supplier() as supplier:
        supplier.script(Answer((Say("Hello."),), usage=ONE_CALL))
        chat = Chat(place, supplier, (str(CLAUDE),), build_launch, ClaudeConversation)
        await chat.run_turn("Hi.")
        supplier.answer_always(answer)
        chat.be_patient(TurnTimeouts(stop=60))
        told = await chat.stop_when("Find out.", (place.workspace / "made").exists)
        calls = len(supplier.requests) - 1
    assert sum_usage(told) == Usage(input=1000 * calls, output=100 * calls)
    assert calls == 3
    assert not find_processes("sleep\x00300.5")


@needs(CLAUDE)
async def test_the_tools_of_claude_code_s_subagent_are_below_its_task(tmp_path: Path) -> None:
    place = make_place(tmp_path)

    def answer(request: Request) -> Call | Say:
        """Play both models: one starts an agent, which reads the notes."""
        mine = "Look into the notes." in str(request.turns[:1])
        if request.results:
            return Say("They say one and two." if mine else "Done.")
        if mine:
            return Call("Read", {"file_path": str(place.notes)})
        given = {"description": "Look", "prompt": "Look into the notes."}
        more = {"subagent_type": "general-purpose", "run_in_background": False}
        return Call("Agent", {**given, **more})

    with Supplier() as supplier:
        supplier.answer_always(answer)
        chat = Chat(place, supplier, (str(CLAUDE),), build_launch, ClaudeConversation)
        steps = await chat.run_turn("Find out what is there.")
    (start,) = (one for one in filter_steps(steps, ToolStarted) if one.name in ("Agent", "Task"))
    parents = {one.parent for one in filter_steps(steps, ToolUsed) if one.name == "Read"}
    assert start.id
    assert parents == {start.id}


def play_codex(request: Request) -> Answer:
    """Play both models: one starts an agent, does not wait for it, and answers."""
    seen = str(request.turns)
    step: Call | Say
    if "Make a file." in seen and "Have it made." not in seen:
        run = Call("exec_command", {"cmd": "touch made; sleep 0.5"})
        step = Say("It is made.") if "function_call_output" in seen else run
    elif "function_call_output" in seen:
        step = Say("It is being made.")
    else:
        given = {"message": "Make a file.", "agent_type": "default"}
        step = Call("spawn_agent", given, "multi_agent_v1")
    return Answer((step,), usage=ONE_CALL)


@needs(CODEX)
async def test_a_turn_of_codex_lasts_until_its_agents_are_done(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    with Supplier() as supplier:
        supplier.answer_always(play_codex)
        chat = Chat(place, supplier, (str(CODEX),), build_codex_launch, converse_with_codex)
        steps = await chat.run_turn("Have it made.")
        calls = len(supplier.requests)
    assert (place.workspace / "made").exists()
    assert [(one.name, one.ok) for one in filter_steps(steps, ToolUsed)] == [
        ("agent", True),
        ("shell", True),
    ]
    assert [one.text for one in filter_steps(steps, ReplyCompleted)] == ["It is being made."]
    assert sum_usage(steps) == Usage(input=1000 * calls, output=100 * calls)
    assert calls == 4


@needs(CODEX)
async def test_what_an_agent_of_codex_used_before_a_stop_is_recorded(tmp_path: Path) -> None:
    place = make_place(tmp_path)

    def answer(request: Request) -> Answer:
        """Let the agent's command last."""
        made = play_codex(request)
        runs = any(call.name == "exec_command" for call in made.list_calls())
        run = Call("exec_command", {"cmd": "touch made; sleep 300.5"})
        return Answer((run,), usage=ONE_CALL) if runs else made

    with Supplier() as supplier:
        supplier.answer_always(answer)
        chat = Chat(place, supplier, (str(CODEX),), build_codex_launch, converse_with_codex)
        chat.be_patient(TurnTimeouts(stop=60))
        told = await chat.stop_when("Have it made.", (place.workspace / "made").exists)
        calls = len(supplier.requests)
    assert sum_usage(told) == Usage(input=1000 * calls, output=100 * calls)
    assert not find_processes("sleep\x00300.5")


def converse_with_codex(
    assignment: TurnRequest, bounds: WorkspaceBounds, _: ProgramLaunch
) -> CodexConversation:
    return CodexConversation(assignment, bounds)
