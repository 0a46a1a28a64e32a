"""The real codex-acp as an engine over the Agent Client Protocol, with a scripted supplier.

It is a server between the protocol and the Codex that ``package.json`` installs.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentd.agent.engine import Question, ReplyCompleted, ToolUsed, UsageReported
from agentd.agent.engines.acp.conversation import AcpConversation
from agentd.agent.engines.acp.launch import build_launch
from agentd.agent.engines.external.turn import TurnTimeouts
from agentd.agent.mcp_servers.model import ReadyServer
from agentd.llm.price import Usage
from tests.agent.engines.conversing import filter_steps, sum_usage
from tests.agent.engines.real.driving import Chat, list_group
from tests.agent.engines.real.programs import CODEX, CODEX_ACP, KEY, MODEL, make_place
from tests.agent.engines.real.test_mcp_servers import SECRET, TEA
from tests.supplier.request import Request
from tests.supplier.steps import Answer, Call, Say, Tokens
from tests.supplier.supplier import Supplier

pytestmark = [
    pytest.mark.engines,
    pytest.mark.gen_test(timeout=240),
    pytest.mark.skipif(
        not (shutil.which(CODEX) and shutil.which(CODEX_ACP)),
        reason=f"no {CODEX_ACP}: npm install --prefix {Path(__file__).parent}",
    ),
]

ONE_CALL = Tokens(input=100, cached=900, output=20, reasoning=8)
BOOKED = Usage(input=100, cache_read=900, output=12, reasoning=8)


def answer_title(request: Request) -> Say | None:
    """Answer what codex-acp asks another model for by itself: a title of the session."""
    return None if request.model == MODEL else Say("A title")


@pytest.fixture
def supplier() -> Iterator[Supplier]:
    with Supplier() as serving:
        serving.answer_always(answer_title)
        yield serving


@pytest.fixture
def servers() -> tuple[ReadyServer, ...]:
    """The MCP servers that it is handed."""
    return ()


@pytest.fixture
def chat(tmp_path: Path, supplier: Supplier, servers: tuple[ReadyServer, ...]) -> Chat:
    """A chat whose program knows the supplier by its own settings: the protocol tells it none."""
    made = Chat(
        make_place(tmp_path),
        None,
        (str(CODEX_ACP),),
        build_launch,
        lambda assignment, bounds, _: AcpConversation(assignment, bounds, servers),
    )
    settings = {
        "model": MODEL,
        "model_provider": "scripted",
        "features.plugins": False,
        "model_providers.scripted.name": "Scripted",
        "model_providers.scripted.base_url": supplier.base,
        "model_providers.scripted.wire_api": "responses",
        "model_providers.scripted.env_key": "SCRIPTED_KEY",
    }
    lines = [f"{name} = {json.dumps(value)}\n" for name, value in settings.items()]
    (made.where.home / "codex" / "config.toml").write_text("".join(lines))
    made.environment |= {"CODEX_PATH": str(CODEX), "SCRIPTED_KEY": KEY, "NO_BROWSER": "1"}
    return made


async def test_each_turn_records_the_tokens_of_its_own_calls(
    chat: Chat, supplier: Supplier
) -> None:
    """It tells tokens and no cost: what they cost is told by the prices of the model."""
    run = Call("exec_command", {"cmd": "echo three"})
    supplier.script(
        Answer((Say("I run it."), run), usage=ONE_CALL), Answer((Say("Done."),), usage=ONE_CALL)
    )
    result = await chat.run_turn("Run it.")
    assert [reply.text for reply in filter_steps(result, ReplyCompleted)][-1] == "Done.", result
    assert [tool.name for tool in filter_steps(result, ToolUsed)] == ["shell"]
    assert sum_usage(result) == BOOKED + BOOKED
    assert {
        step.cost
        for step in filter_steps(result, ReplyCompleted) + filter_steps(result, UsageReported)
    } == {None}

    supplier.script(Answer((Say("As I said."),), usage=ONE_CALL))
    again = await chat.run_turn("And now?")
    assert filter_steps(again, ReplyCompleted)[-1].text == "As I said."
    assert sum_usage(again) == BOOKED
    assert "Run it." in str(supplier.requests[-1].turns)


async def test_a_call_that_was_over_before_a_stop_is_recorded(
    chat: Chat, supplier: Supplier
) -> None:
    run = Call("exec_command", {"cmd": "touch begun; sleep 300"})
    supplier.script(Answer((Say("I sleep."), run), usage=ONE_CALL))
    chat.be_patient(TurnTimeouts(stop=60))  # the tokens come with the answer to the stop
    result = await chat.stop_when("Sleep.", (chat.where.workspace / "begun").exists)
    assert sum_usage(result) == BOOKED, result
    assert not list_group(chat.process)


@pytest.mark.parametrize("servers", [(TEA,)], ids=["tea"])
async def test_a_tool_of_an_mcp_server_is_asked_about_as_such_with_its_arguments(
    chat: Chat, supplier: Supplier
) -> None:
    """codex-acp tells it as a command, so rules for commands would decide about it."""
    call = Call("environment", {"name": "TEA_TOKEN"}, "mcp__tea")
    supplier.script(call, Say("It is mint."))
    result = await chat.run_turn("Which tea?", mode="read-only")
    asked = Question("other", "mcp__tea__environment", '{"name":"TEA_TOKEN"}')
    assert chat.asked == [asked], result
    [use] = filter_steps(result, ToolUsed)
    assert (use.name, use.input, use.ok) == ("tea.environment", asked.subject, True)
    assert use.outcome == SECRET
