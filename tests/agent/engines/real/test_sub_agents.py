"""What sub-agents of the real programs do names the use of a tool that started them."""

import shutil
from pathlib import Path

import pytest

from agentd.agent.engine import ToolStarted, ToolUsed
from agentd.agent.engines.claude_code.conversation import ClaudeConversation
from agentd.agent.engines.claude_code.launch import build_launch
from tests.agent.engines.conversing import filter_steps
from tests.agent.engines.real.driving import Chat
from tests.agent.engines.real.programs import CLAUDE, make_place
from tests.supplier.request import Request
from tests.supplier.steps import Call, Say
from tests.supplier.supplier import Supplier

pytestmark = [pytest.mark.engines, pytest.mark.gen_test(timeout=240)]


async def test_the_tools_of_claude_code_s_subagent_are_below_its_task(tmp_path: Path) -> None:
    if not shutil.which(CLAUDE):
        pytest.skip(f"no {CLAUDE}: npm install --prefix {Path(__file__).parent}")
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
