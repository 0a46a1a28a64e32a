"""Real Codex, Claude Code and opencode use the MCP servers that they are handed."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from agentd.agent.engine import EngineStateSaved, ReplyCompleted, ToolUsed, TurnFailed
from agentd.agent.engines.acp.conversation import AcpConversation
from agentd.agent.engines.acp.launch import build_launch as launch_acp
from agentd.agent.engines.claude_code.conversation import ClaudeConversation
from agentd.agent.engines.claude_code.launch import build_launch as launch_claude
from agentd.agent.engines.codex.conversation import CodexConversation
from agentd.agent.engines.codex.launch import build_launch as launch_codex
from agentd.agent.engines.external.refused_images import FORGOTTEN
from agentd.agent.mcp_servers.handover import render_for_claude
from agentd.agent.mcp_servers.model import ReadyServer
from tests.agent.engines.real.driving import Chat
from tests.agent.engines.real.opencode_talks import answer_title
from tests.agent.engines.real.programs import CLAUDE, CODEX, OPENCODE, make_place
from tests.supplier.steps import Call, Refuse, Say
from tests.supplier.supplier import Supplier

pytest.importorskip("mcp", reason="mcp is not installed: pip install '.[test]'")
pytestmark = [pytest.mark.engines, pytest.mark.gen_test(timeout=240)]

SERVER = Path(__file__).parents[2] / "mcp_servers" / "sdk_server.py"
COMMAND = (sys.executable, "-W", "ignore", str(SERVER), "stdio")
SECRET = "mint-0123456789"
TEA = ReadyServer("tea", COMMAND, {"TEA_TOKEN": SECRET})
NEVER_ANSWERS = ReadyServer(
    "tea", (sys.executable, str(SERVER.with_name("hostile_server.py")), "never answers"), seconds=1
)
LIBRARY = ReadyServer(
    "context7", (sys.executable, str(SERVER.with_name("hostile_server.py")), "library")
)
GONE = ReadyServer("tea", ("no-such-program-here",))


@pytest.fixture
def supplier() -> Iterator[Supplier]:
    with Supplier() as serving:
        serving.answer_always(answer_title)
        yield serving


def make_codex(folder: Path, supplier: Supplier, server: ReadyServer = TEA) -> Chat:
    return Chat(
        make_place(folder),
        supplier,
        (str(CODEX),),
        launch_codex,
        lambda assignment, bounds, _: CodexConversation(assignment, bounds, (server,)),
    )


def make_claude(folder: Path, supplier: Supplier, server: ReadyServer = TEA) -> Chat:
    return Chat(
        make_place(folder),
        supplier,
        (str(CLAUDE),),
        partial(launch_claude, mcp_config=render_for_claude((server,))),
        lambda given, bounds, launch: ClaudeConversation(given, bounds, launch, (server,)),
    )


def make_opencode(folder: Path, supplier: Supplier, server: ReadyServer = TEA) -> Chat:
    return Chat(
        make_place(folder),
        supplier,
        (str(OPENCODE), "acp"),
        launch_acp,
        lambda assignment, bounds, _: AcpConversation(assignment, bounds, (server,)),
    )


def require(program: Path) -> None:
    """Skip the test if the program is not installed."""
    if not shutil.which(program):
        pytest.skip(f"no {program}: npm install --prefix {Path(__file__).parent}")


@pytest.mark.parametrize(
    ("program", "make", "tool"),
    [
        pytest.param(CODEX, make_codex, "environment", id="codex"),
        pytest.param(CLAUDE, make_claude, "mcp__tea__environment", id="claude-code"),
        pytest.param(OPENCODE, make_opencode, "tea_environment", id="opencode"),
    ],
)
async def test_an_engine_is_handed_the_servers_without_secrets_in_arguments(
    tmp_path: Path,
    supplier: Supplier,
    program: Path,
    make: Callable[[Path, Supplier], Chat],
    tool: str,
) -> None:
    require(program)
    chat = make(tmp_path, supplier)
    arguments: list[str] = []

    def look(_: object) -> bool:
        for name in filter(str.isdecimal, os.listdir("/proc")):
            try:
                arguments.append(Path(f"/proc/{name}/cmdline").read_text(errors="replace"))
            except OSError:
                continue
        return False

    namespace = "mcp__tea" if program == CODEX else ""
    supplier.script(Call(tool, {"name": "TEA_TOKEN"}, namespace), Say("It is mint."))
    told = await chat.run_turn("Which tea?", until=look)
    offering = [request.body for request in supplier.requests if request.body.get("tools")]
    assert "tea" in json.dumps(offering[0]["tools"]), offering
    (use,) = [event for event in told if isinstance(event, ToolUsed)]
    assert use.ok and SECRET in use.outcome, told
    (question,) = chat.asked
    assert (question.kind, question.tool) == ("other", "mcp__tea__environment")
    if program != OPENCODE:  # which does not tell what it would call the tool with
        assert question.subject == '{"name":"TEA_TOKEN"}'
    assert any(str(program) in one or "codex" in one for one in arguments)
    assert not any(SECRET in one for one in arguments)


@pytest.mark.parametrize(
    ("program", "make"),
    [
        pytest.param(CODEX, make_codex, id="codex"),
        pytest.param(CLAUDE, make_claude, id="claude"),
        pytest.param(OPENCODE, make_opencode, id="opencode"),
    ],
)
async def test_an_engine_goes_on_without_a_server_that_does_not_start(
    tmp_path: Path, supplier: Supplier, program: Path, make: Callable[..., Chat]
) -> None:
    require(program)
    chat = make(tmp_path, supplier, GONE)
    supplier.script(Say("Hello."))
    told = await chat.run_turn("Hi.")
    (use,) = [event for event in told if isinstance(event, ToolUsed)]
    assert (use.name, use.input, use.ok) == ("mcp", "tea", False)
    assert "failed:" in use.outcome
    assert chat.told[-1] is not use


@pytest.mark.parametrize(
    ("program", "make", "tool", "namespace"),
    [
        pytest.param(CODEX, make_codex, "plain", "mcp__tea", id="codex"),
        pytest.param(CLAUDE, make_claude, "mcp__tea__plain", "", id="claude"),
    ],
)
async def test_an_engine_gives_up_a_call_that_its_server_does_not_answer_in_its_seconds(
    tmp_path: Path,
    supplier: Supplier,
    program: Path,
    make: Callable[..., Chat],
    tool: str,
    namespace: str,
) -> None:
    require(program)
    chat = make(tmp_path, supplier, NEVER_ANSWERS)
    supplier.script(Call(tool, {}, namespace), Say("It is silent."))
    told = await chat.run_turn("Which tea?")
    (use,) = [event for event in told if isinstance(event, ToolUsed)]
    assert not use.ok and "timed out" in use.outcome
    assert isinstance(told[-1], ReplyCompleted)


@pytest.mark.skipif(not shutil.which(CODEX), reason=f"no {CODEX}")
async def test_codex_asks_about_a_tool_that_its_server_calls_harmless(
    tmp_path: Path, supplier: Supplier
) -> None:
    chat = make_codex(tmp_path, supplier)
    supplier.script(Call("add", {"a": 2, "b": 40}, "mcp__tea"), Say("It is 42."))
    await chat.run_turn("Add.")
    assert [one.tool for one in chat.asked] == ["mcp__tea__add"]


@pytest.mark.skipif(not shutil.which(CODEX), reason=f"no {CODEX}")
async def test_a_session_with_a_tool_s_image_that_the_supplier_refuses_is_left(
    tmp_path: Path, supplier: Supplier
) -> None:
    """Codex would send the image again with each later prompt, of which none would be answered."""
    chat = make_codex(tmp_path, supplier)
    supplier.script(Call("draw", {}, "mcp__tea"), Refuse(400, "No image input, please"))
    told = await chat.run_turn("Draw it.")
    assert told[-2] == EngineStateSaved("")
    assert isinstance(told[-1], TurnFailed)
    assert told[-1].reason.endswith(FORGOTTEN)


@pytest.mark.skipif(not shutil.which(OPENCODE), reason=f"no {OPENCODE}")
async def test_opencode_s_searches_in_the_workspace_are_no_tools_of_a_server(
    tmp_path: Path, supplier: Supplier
) -> None:
    """It calls this server's tools searches, which need no leave, though rules name the server."""
    chat = make_opencode(tmp_path, supplier, LIBRARY)
    name, place = "context7_resolve_library_id", str(chat.where.workspace)
    grep = Call("grep", {"pattern": name, "path": place})
    supplier.script([Call(name, {"path": "notes.txt"}), grep], Say("Found."))
    await chat.run_turn("Search it.")
    asked = {(one.kind, one.tool) for one in chat.asked}
    assert asked == {("other", "mcp__context7__resolve_library_id"), ("read", "search")}
