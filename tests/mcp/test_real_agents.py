"""The real Claude Code and Codex as clients of the daemon, set up by their own commands."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.engines.real import programs
from tests.agent.engines.real.programs import (
    CLAUDE,
    CLAUDE_ALONE,
    CODEX,
    MODEL,
    Place,
    build_codex_argv,
    build_codex_environment,
    build_path_without,
    make_place,
)
from tests.mcp.support import McpHandClient
from tests.supplier.steps import Call, Say
from tests.supplier.supplier import Supplier
from tests.support.daemon import KEY, PATIENCE, Serving

INSTALL = f"npm install --prefix {Path(programs.__file__).parent}"
HTTP, STDIO = "http", "stdio"
TRANSPORTS = pytest.mark.parametrize("transport", [HTTP, STDIO])


def skip_without(program: Path) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not shutil.which(program), reason=f"no {program}: {INSTALL}")


pytestmark = pytest.mark.engines


@pytest.fixture
def supplier() -> Iterator[Supplier]:
    with Supplier() as serving:
        yield serving


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path / "agent")


class Agent:
    """A program at a place of its own, whose runs all succeed."""

    def __init__(self, program: Path, place: Place, environment: dict[str, str]) -> None:
        self._program = program
        self._place = place
        self._environment = environment

    def run(self, *words: str) -> str:
        done = subprocess.run(
            [str(self._program), *words],
            env=self._environment,
            cwd=self._place.workspace,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout


def list_bridge(daemon: Serving) -> list[str]:
    return [sys.executable, "-m", "agentd", "mcp", "--url", daemon.url]


def check_chat(daemon: Serving, supplier: Supplier) -> None:
    """Check that the model's call made a chat, and that it was told so."""
    assert '"chatId":' in str(supplier.requests[-1].turns).replace("\\", "")
    with McpHandClient(daemon) as mcp:
        chats: Any = mcp.call_tool("list_chats")["structuredContent"]["chats"]
    assert [chat["title"] for chat in chats] == ["From outside"]


@TRANSPORTS
@skip_without(CLAUDE)
def test_claude_code_creates_a_chat(
    daemon: Serving, supplier: Supplier, place: Place, tmp_path: Path, transport: str
) -> None:
    environment = {
        **CLAUDE_ALONE,
        "PATH": build_path_without(tmp_path / "programs"),
        "HOME": str(place.home),
        "ANTHROPIC_BASE_URL": supplier.url,
        "ANTHROPIC_AUTH_TOKEN": programs.KEY,
        # It begins when the server is connected, however slow the machine is.
        "MCP_CONNECTION_NONBLOCKING": "0",
        "MCP_CONNECT_TIMEOUT_MS": "60000",
        "MCP_TIMEOUT": "60000",
    }
    claude = Agent(CLAUDE, place, environment)
    if transport == HTTP:
        words = ["--transport", "http", "agentd", f"{daemon.url}/mcp"]
        claude.run("mcp", "add", *words, "--header", f"X-API-Key: {KEY}")
    else:
        claude.run("mcp", "add", "agentd", "-e", f"AGENTD_KEY={KEY}", "--", *list_bridge(daemon))
    assert "Connected" in claude.run("mcp", "list")
    tool = "mcp__agentd__create_chat"
    supplier.script(Call(tool, {"title": "From outside", "prompt": "Hello"}), Say("Made."))
    said = claude.run("-p", "Begin a chat.", "--model", MODEL, "--allowedTools", tool)
    assert said.strip() == "Made."
    check_chat(daemon, supplier)


@TRANSPORTS
@skip_without(CODEX)
def test_codex_creates_a_chat(
    daemon: Serving, supplier: Supplier, place: Place, transport: str
) -> None:
    codex = Agent(CODEX, place, {**build_codex_environment(place), "AGENTD_KEY": KEY})
    if transport == HTTP:
        with_key = ("--bearer-token-env-var", "AGENTD_KEY")
        codex.run("mcp", "add", "agentd", "--url", f"{daemon.url}/mcp", *with_key)
    else:
        codex.run(
            *("mcp", "add", "agentd", "--env", f"AGENTD_KEY={KEY}", "--"), *list_bridge(daemon)
        )
    assert "agentd" in codex.run("mcp", "list")
    begin = Call("create_chat", {"title": "From outside", "prompt": "Hello"}, "mcp__agentd")
    supplier.script(begin, Say("Made."))
    _, _, *options = build_codex_argv(supplier)
    wishes = ('default_tools_approval_mode="approve"', "startup_timeout_sec=60", "required=true")
    allowed = [word for one in wishes for word in ("-c", f"mcp_servers.agentd.{one}")]
    said = codex.run("exec", *options, *allowed, "--skip-git-repo-check", "Begin a chat.")
    assert said.strip() == "Made."
    check_chat(daemon, supplier)
