"""MCP servers of a whole daemon: a person is asked over the API, and no server outlives it."""

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentd.agent.workspace_decisions import open_server_decisions
from tests.agent.served import ServedAgent, build_native
from tests.supplier.steps import Call, Say
from tests.supplier.supplier import Supplier
from tests.support.waiting import until

pytest.importorskip("mcp", reason="mcp is not installed: pip install '.[test]'")

SERVER = Path(__file__).parent / "sdk_server.py"
STUBBORN = """
import signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.run(sys.argv[1:])
signal.pause()
"""
"""Runs a server, and neither ends with it nor by SIGTERM."""
COMMAND = [sys.executable, "-c", STUBBORN, sys.executable, "-W", "ignore", str(SERVER), "stdio"]


@pytest.fixture
def supplier() -> Iterator[Supplier]:
    with Supplier() as serving:
        yield serving


@pytest.fixture
def served(tmp_path: Path, supplier: Supplier) -> ServedAgent:
    made = build_native(tmp_path, supplier.url)
    path = tmp_path / "config" / "mcp.yml"
    path.write_text(json.dumps({"servers": [{"name": "tea", "command": COMMAND}]}))
    path.chmod(0o600)
    return made


def test_a_prompt_of_a_server_is_a_command(served: ServedAgent, supplier: Supplier) -> None:
    supplier.script(Say("Here you are."), Say("Gladly."))
    with served.running() as caller:
        assert caller.client.get("/api/commands")["commands"] == []
        chat = caller.create_chat('/tea:order "green tea"')
        caller.wait_until_idle(chat)
        (listed,) = caller.client.get(f"/api/commands?chatId={chat}")["commands"]
        assert (listed["name"], listed["argumentHint"], listed["source"]) == (
            "tea:order",
            "tea",
            "mcp",
        )
        assert listed["description"] == "Order a tea."
        messages = caller.client.get(f"/api/chat/{chat}/messages")["messages"]
        said = [(one["role"], one["content"]) for one in messages]
        assert said[0] == ("user", '/tea:order "green tea"')
        assert "MCP server tea\n\nBring me green tea." in said[1][1]
        caller.append(chat, "/tea:order")
        (*_, failed) = caller.wait_until_idle(chat)
        assert failed["role"] == "error"
        assert "tea is missing. Write /tea:order tea" in failed["content"]
        caller.append(chat, "/tea:nothing at all")
        caller.wait_until_idle(chat)
        assert served.process.end(signal.SIGTERM) == 0  # a killed one would leave the server
    first, second = supplier.requests
    assert "Bring me green tea." in str(first.body) and "/tea:order" not in str(first.body)
    assert "/tea:nothing at all" in str(second.body), "what no server has is sent as it is"


WAITS = "while ! test -e go; do sleep 0.02; done; exec"


def test_a_decision_outlives_a_daemon_that_is_killed_before_its_use(
    served: ServedAgent, supplier: Supplier
) -> None:
    command = f'{WAITS} "$0" -W ignore "$1" stdio'
    entry = {"command": "sh", "args": ["-c", command, sys.executable, str(SERVER)]}
    (served.workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"shop": entry}}))
    (served.folder / "config" / "mcp.yml").unlink()
    supplier.script(Say("Never."))
    with served.running() as caller:
        chat = caller.create_chat("Add.")
        assert caller.allow(chat)["tool"] == "mcp_server"
        path = Path(served.process.layout.mcp_decisions)
        until(path.exists)
        served.process.end(signal.SIGKILL)
    assert not supplier.requests, "the server did not start, nor the model's part"
    (served.workspace / "go").touch()
    with served.running() as caller:
        caller.append(chat, "Again.")
        until(lambda: len(caller.wait_until_idle(chat)) > 2)
        assert not caller.client.get("/api/chat/approvals")["approvals"]
        offered = json.dumps(supplier.requests[-1].body["tools"])
        assert "mcp__shop__add" in offered
    assert [one.name for one in open_server_decisions(served.process.layout).load()] == ["shop"]


def test_no_server_outlives_a_stopped_or_killed_daemon(
    served: ServedAgent, supplier: Supplier
) -> None:
    supplier.script(Call("mcp__tea__add", {"a": 40, "b": 2}), Say("42."))
    with served.running() as caller:
        chat = caller.create_chat("Add.")
        asked = caller.allow(chat)
        assert (asked["kind"], asked["tool"], asked["subject"]) == (
            "other",
            "mcp__tea__add",
            '{"a":40,"b":2}',
        )
        messages = caller.wait_until_idle(chat)
        assert messages[-1]["content"] == "42."
        before = served.marked
        assert before, "the chat's server waits for the next turn"
        served.process.end(signal.SIGKILL)
    supplier.script(Call("mcp__tea__add", {"a": 1, "b": 2}), Say("3."))
    with served.running() as caller:
        assert not set(before).intersection(served.marked), "what the killed one left has ended"
        caller.append(chat, "Again.")
        caller.allow(chat)
        assert caller.wait_until_idle(chat)[-1]["content"] == "3."
        assert served.marked
        assert served.process.end(signal.SIGTERM) == 0
    until(lambda: not served.marked)
