"""The command for hooks, on real files."""

import json
import os
from pathlib import Path

import pytest

from agentd.agent.hooks.store import read_workspace_files
from agentd.agent.workspace_decisions import WorkspaceDecision, open_hook_decisions
from agentd.cli.main import main
from agentd.storage.layout import Layout

AT = "2026-01-01T00:00:00.000Z"
SOURCE = ".claude/settings.json"


@pytest.fixture(autouse=True)
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (tmp_path / "config").mkdir()
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in list(os.environ):
        if name.startswith(("AGENT", "XDG_", "STATE_DIR", "CONFIGURATION_DIR")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AGENTD_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("AGENTD_CONFIG", str(tmp_path / "config"))
    return Layout(str(tmp_path / "state"), str(tmp_path / "config"))


def write_hooks(path: Path, event: str, command: str) -> str:
    path.parent.mkdir(exist_ok=True)
    group = {"matcher": "Bash", "hooks": [{"command": command}]}
    path.write_text(json.dumps({"hooks": {event: [group]}}))
    return next((one.digest for one in read_workspace_files(os.getcwd(), os.getcwd())), "")


def call(*words: str) -> int:
    """Run ``agentd hooks`` and return its exit code."""
    return main(["hooks", *words])


def test_hooks_are_listed_with_where_they_are_from_and_whether_they_run(
    layout: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call() == 0
    assert "no hooks" in capsys.readouterr().err
    write_hooks(Path(layout.hooks_settings), "PreToolUse", "guard")
    digest = write_hooks(tmp_path / "workspace" / SOURCE, "PostToolUse", "format")
    assert call() == 0
    own, theirs = capsys.readouterr().out.splitlines()
    assert own.split() == ["hooks.yml", "runs", "PreToolUse", "(Bash)", "guard"]
    assert theirs.split() == [SOURCE, "undecided", digest[:12], "PostToolUse", "(Bash)", "format"]
    open_hook_decisions(layout).keep(WorkspaceDecision(SOURCE, digest, True, AT, "user:ann"))
    assert call("list", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    (file,) = shown["workspace"]["files"]
    assert (file["decision"], file["decidedBy"]) == ("allowed", "user:ann")
    assert [one["command"] for one in (*shown["hooks"], *file["hooks"])] == ["guard", "format"]
    Path(layout.hooks_settings).write_text("hooks:\n  Never: []\n")
    assert call() == 1
    assert "hooks.yml:2" in capsys.readouterr().err


def test_a_terminal_obeys_nothing_that_a_workspace_wrote_into_its_hooks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "workspace" / SOURCE
    path.parent.mkdir()
    group = {"matcher": "\x1b]0;owned\x07", "hooks": [{"command": "format"}]}
    path.write_text(json.dumps({"hooks": {"PreToolUse": [group]}}))
    assert call() == 0
    assert "PreToolUse (�]0;owned�)  format" in capsys.readouterr().out


def test_decisions_are_listed_and_withdrawn_by_file_or_id(
    layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("decisions") == 0
    assert "nothing was decided" in capsys.readouterr().err
    decisions = open_hook_decisions(layout)
    for name, digest in ((SOURCE, "a" * 64), (SOURCE, "b" * 64), ("other", "ab" * 32)):
        decisions.keep(WorkspaceDecision(name, digest, name == SOURCE, AT, "key:laptop"))
    assert call("decisions") == 0
    assert f"{'a' * 12}  allowed  {AT}  key:laptop  {SOURCE}" in capsys.readouterr().out
    assert call("withdraw", "none") == 1
    assert "agentd hooks decisions lists them" in capsys.readouterr().err
    assert call("withdraw", "abab", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["decidedBy"] == "key:laptop"
    assert call("withdraw", SOURCE) == 0
    assert not decisions.load()
