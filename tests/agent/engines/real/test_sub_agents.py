"""Sub-agents of the real Claude Code, and its tasks in the background."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agentd.agent.engine import ReplyCompleted, ToolStarted, ToolUsed
from agentd.agent.engines.claude_code.conversation import ClaudeConversation
from agentd.agent.engines.claude_code.launch import build_launch
from agentd.llm.price import Usage
from tests.agent.engines.conversing import filter_steps, sum_usage
from tests.agent.engines.real.driving import Chat, find_processes
from tests.agent.engines.real.programs import CLAUDE, Place, make_place
from tests.supplier.request import Request
from tests.supplier.steps import Answer, Call, Say, Tokens
from tests.supplier.supplier import Supplier

pytestmark = [
    pytest.mark.engines,
    pytest.mark.gen_test(timeout=240),
    pytest.mark.skipif(
        not shutil.which(CLAUDE),
        reason=f"no {CLAUDE}: npm install --prefix {Path(__file__).parent}",
    ),
]

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
