"""The commands for MCP servers, on real files and a real server."""

import json
import os
import sys
from pathlib import Path

import pytest

from agentd.agent.workspace_decisions import WorkspaceDecision, open_server_decisions
from agentd.cli.main import main
from agentd.storage.layout import Layout
from tests.support.paths import REPOSITORY

SERVER = REPOSITORY / "tests" / "agent" / "mcp_servers" / "sdk_server.py"
COMMAND = [sys.executable, "-W", "ignore", str(SERVER), "stdio"]
AT = "2026-01-01T00:00:00.000Z"
SECRET = "mint-0123456789abcdef"


@pytest.fixture(autouse=True)
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in list(os.environ):
        if name.startswith(("AGENT", "XDG_", "STATE_DIR", "CONFIGURATION_DIR")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AGENTD_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("AGENTD_CONFIG", str(tmp_path / "config"))
    return Layout(str(tmp_path / "state"), str(tmp_path / "config"))


def call(*words: str) -> int:
    """Run ``agentd mcp-servers`` and return its exit code."""
    return main(["mcp-servers", *words])


def test_servers_are_added_listed_and_removed_with_the_comments_kept(
    layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call() == 0
    assert "no servers" in capsys.readouterr().err
    options = ["--env", f"TOKEN={SECRET}", "--allow", "get_*", "--engine", "native"]
    assert call("add", "tea", *options, "--command", *COMMAND) == 0
    header = "Authorization: Bearer ${DOCS_TOKEN}"
    assert call("add", "docs", "--url", "https://docs.example/mcp", "--header", header) == 0
    path = Path(layout.mcp_settings)
    assert path.stat().st_mode & 0o777 == 0o600 and SECRET in path.read_text()
    path.write_text(f"# ours\n{path.read_text()}")
    capsys.readouterr()
    assert call("list", "--json") == 0
    tea, docs = json.loads(capsys.readouterr().out)
    assert (tea["command"], tea["env"], tea["allow"]) == (COMMAND, {"TOKEN": "****cdef"}, ["get_*"])
    assert docs["headers"] == {"Authorization": "Bearer ${DOCS_TOKEN}"}
    assert call("remove", "tea") == 0 and call() == 0
    shown = capsys.readouterr().out
    assert "docs" in shown and "tea" not in shown and SECRET not in shown
    assert path.read_text().startswith("# ours\n")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["add", "a"], "expected either a command or a url"),
        (["add", "a", "--url", "ftp://x"], "--url: expected an address such as https://docs.exam"),
        (["add", "a", "--url", "http://h", "--seconds", "0"], "--seconds: expected `int` >= 1"),
        (["add", "a", "--env", "A-b=c", "--command", "x"], "--env: expected at most 100 letters"),
        (["add", "a b", "--command", "x"], "NAME: expected at most 32 letters"),
        (["add", "a", "--env", "X", "--command", "x"], "--env: expected NAME=VALUE"),
        (["add", "a", "--env", "X=1", "--env", "X=2", "--command", "x"], "X is given twice"),
        (
            ["add", "a", "--url", "http://h", "--header", "A:1", "--header", "a:2"],
            "a is given twice",
        ),
        (["add", "a", "--engine", "none", "--command", "x"], "--engine: invalid"),
        (["remove", "none"], 'There is no MCP server "none"'),
        (["test", "none"], 'There is no MCP server "none"'),
        (["withdraw", "none"], 'No decision has the name or id "none"'),
    ],
)
def test_what_is_wrong_is_said_and_changes_nothing(
    layout: Layout, capsys: pytest.CaptureFixture[str], words: list[str], why: str
) -> None:
    assert call(*words) != 0
    assert why in capsys.readouterr().err
    assert not Path(layout.mcp_settings).exists()


def test_a_server_is_tested_by_starting_it(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mcp", reason="mcp is not installed: pip install '.[test]'")
    call("add", "tea", "--command", *COMMAND)
    call("add", "gone", "--command", "no-such-program-here")
    capsys.readouterr()
    assert call("test", "tea") == 0
    assert "Add two numbers." in capsys.readouterr().out
    assert call("test", "tea", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {"name": "add", "description": "Add two numbers.", "reads": True} in found["tools"]
    assert call("test", "gone") == 1
    assert "not installed" in capsys.readouterr().err


def test_decisions_are_listed_and_withdrawn_by_name_or_id(
    layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, digest in (("shop", "a" * 64), ("shop", "b" * 64), ("lint", "ab" * 32)):
        open_server_decisions(layout).keep(WorkspaceDecision(name, digest, name == "shop", AT))
    assert call("decisions") == 0
    assert f"{'a' * 12}  allowed  {AT}  -  shop" in capsys.readouterr().out
    assert call("decisions", "--json") == 0
    assert json.loads(capsys.readouterr().out)[2] == {
        **{"id": "ab" * 32, "name": "lint", "decision": "denied", "decidedAt": AT},
        "decidedBy": "",
    }
    assert call("withdraw", "aba") == 1, "an id of three characters is too short"
    assert call("withdraw", "abab") == 0
    assert [one.name for one in open_server_decisions(layout).load()] == ["shop", "shop"]
    assert call("withdraw", "shop") == 0
    assert not open_server_decisions(layout).load()
