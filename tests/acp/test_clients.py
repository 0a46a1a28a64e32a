"""The protocol's official clients as editors of a whole daemon."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from agentd.agent.mcp_servers.chat_servers import ChatServers
from agentd.agent.mcp_servers.model import ProjectServer
from tests.acp.support import say_all
from tests.support.daemon import KEY, PATIENCE, Serving

CLIENTS = Path(__file__).parent / "clients"
PYTHON, TYPESCRIPT = "python", "typescript"


def explain_missing(client: str) -> str:
    """Return why a client cannot be tried here; empty if it can."""
    if client == PYTHON:
        found = find_spec("acp")
        return "" if found else "agent-client-protocol is not installed: pip install '.[test]'"
    if not shutil.which("node"):
        return "node is not installed"
    if not (CLIENTS / "node_modules/@agentclientprotocol/sdk").is_dir():
        return f"@agentclientprotocol/sdk is not installed: npm install --prefix {CLIENTS}"
    return ""


def go_through(client: str, serving: Serving, folder: Path) -> dict[str, Any]:
    """Let a client go through all that there is, and return what it saw."""
    if why := explain_missing(client):
        pytest.skip(why)
    folders = ["--state", serving.layout.state, "--config", serving.layout.config]
    wish = {
        "command": [sys.executable, "-m", "agentd", "acp", *folders],
        "env": {**os.environ, "AGENTD_KEY": KEY, "PYTHONPATH": os.pathsep.join(sys.path)},
        "folder": str(folder),
    }
    program = {
        PYTHON: [sys.executable, "-W", "ignore", str(CLIENTS / "with_python.py")],
        TYPESCRIPT: ["node", str(CLIENTS / "with_typescript.mjs")],
    }[client]
    done = subprocess.run(
        [*program, json.dumps(wish)],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("client", [PYTHON, TYPESCRIPT])
def test_an_official_client_can_do_all_that_an_editor_does(
    house: Serving, client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named: list[list[str]] = []
    put = ChatServers.put

    def note(self: ChatServers, chat: int, servers: Sequence[ProjectServer]) -> None:
        named.append([one.server.name for one in servers])
        put(self, chat, servers)

    monkeypatch.setattr(ChatServers, "put", note)
    house.engine.says = say_all
    found = go_through(client, house, tmp_path)
    assert named[0] == ["a", "b"] and named[-1] == [], "for as long as the session is open"
    assert found["agent"] == "agentd"
    assert {"agent_message_chunk", "plan", "tool_call"} <= set(found["kinds"])
    assert (found["told"], found["stopped"]) == ("end_turn", "end_turn")
    assert found["asked"] == ["ls"]
    assert found["reply"] == "allowed: "
    assert {"user_message_chunk", "agent_message_chunk", "plan"} <= set(found["replayed"])
    assert found["models"][:2] == ["deny", "mine"]
    assert found["listed"] is True
