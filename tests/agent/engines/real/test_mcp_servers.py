"""Real Codex, Claude Code and opencode use the MCP servers that they are handed."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from agentd.agent.engine import ToolUsed
from agentd.agent.engines.acp.conversation import AcpConversation
from agentd.agent.engines.acp.launch import build_launch as launch_acp
from agentd.agent.engines.claude_code.conversation import ClaudeConversation
from agentd.agent.engines.claude_code.launch import build_launch as launch_claude
from agentd.agent.engines.codex.conversation import CodexConversation
from agentd.agent.engines.codex.launch import build_launch as launch_codex
from agentd.agent.mcp_servers.handover import render_for_claude
from agentd.agent.mcp_servers.model import ReadyServer
from tests.agent.engines.real.driving import Chat
from tests.agent.engines.real.opencode_talks import answer_title
from tests.agent.engines.real.programs import CLAUDE, CODEX, OPENCODE, make_place
from tests.supplier.steps import Call, Say
from tests.supplier.supplier import Supplier

pytest.importorskip("mcp", reason="mcp is not installed: pip install '.[test]'")
pytestmark = [pytest.mark.engines, pytest.mark.gen_test(timeout=240)]

SERVER = Path(__file__).parents[2] / "mcp_servers" / "sdk_server.py"
COMMAND = (sys.executable, "-W", "ignore", str(SERVER), "stdio")
SECRET = "mint-0123456789"
TEA = ReadyServer("tea", COMMAND, {"TEA_TOKEN": SECRET})


@pytest.fixture
def supplier() -> Iterator[Supplier]:
    with Supplier() as serving:
        serving.answer_always(answer_title)
        yield serving


def make_codex(folder: Path, supplier: Supplier) -> Chat:
    return Chat(
        make_place(folder),
        supplier,
        (str(CODEX),),
        launch_codex,
        lambda assignment, bounds, _: CodexConversation(assignment, bounds, (TEA,)),
    )


def make_claude(folder: Path, supplier: Supplier) -> Chat:
    launch = partial(launch_claude, mcp_config=render_for_claude((TEA,)))
    return Chat(make_place(folder), supplier, (str(CLAUDE),), launch, ClaudeConversation)


def make_opencode(folder: Path, supplier: Supplier) -> Chat:
    return Chat(
        make_place(folder),
        supplier,
        (str(OPENCODE), "acp"),
        launch_acp,
        lambda assignment, bounds, _: AcpConversation(assignment, bounds, (TEA,)),
    )


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
    program: str,
    make: Callable[[Path, Supplier], Chat],
    tool: str,
) -> None:
    if not shutil.which(program):
        pytest.skip(f"no {program}: npm install --prefix {Path(__file__).parent}")
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
    assert [question.kind for question in chat.asked] == ["other"]
    assert any(str(program) in one or "codex" in one for one in arguments)
    assert not any(SECRET in one for one in arguments)


@pytest.mark.skipif(not shutil.which(CODEX), reason=f"no {CODEX}")
async def test_codex_goes_on_without_a_server_that_does_not_start(
    tmp_path: Path, supplier: Supplier
) -> None:
    gone = ReadyServer("gone", ("no-such-program-here",))
    chat = Chat(
        make_place(tmp_path),
        supplier,
        (str(CODEX),),
        launch_codex,
        lambda assignment, bounds, _: CodexConversation(assignment, bounds, (gone,)),
    )
    supplier.script(Say("Hello."))
    told = await chat.run_turn("Hi.")
    (use,) = [event for event in told if isinstance(event, ToolUsed)]
    assert (use.name, use.input, use.ok) == ("mcp", "gone", False)
    assert "failed:" in use.outcome
    assert chat.told[-1] is not use
