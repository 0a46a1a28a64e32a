"""Hooks over the API: what runs, what was decided about it, by whom; decisions are withdrawn."""

import json
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import ANY

import pytest

from agentd.agent.hooks.store import read_workspace_files
from agentd.agent.workspace_decisions import WorkspaceDecision, open_hook_decisions
from tests.auth.test_login import Browser, add_users
from tests.support.daemon import Serving

AT = "2026-01-01T00:00:00.000Z"
SOURCE = ".claude/settings.json"
STOP = {"hooks": {"Stop": [{"hooks": [{"command": "make test", "timeout": 5}]}]}}
NOTHING = {
    **{"hooks": [], "problems": []},
    "workspace": {"ignored": False, "files": [], "problems": []},
}


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[Browser]:
    with Serving(add_users(tmp_path)) as daemon:
        yield Browser(daemon, "ada")


def write_workspace(admin: Browser, content: object) -> str:
    """Write the hooks of the workspace; their id."""
    path = Path(admin.daemon.settings.workspace) / SOURCE
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))
    (found,) = read_workspace_files(*[admin.daemon.settings.workspace] * 2)
    return found.digest


def test_the_hooks_of_the_configuration_are_listed_with_its_problems(admin: Browser) -> None:
    assert admin.send("GET", "/api/hooks").json() == NOTHING
    path = Path(admin.daemon.layout.hooks_settings)
    group = {"matcher": "Bash", "hooks": [{"command": "guard"}]}
    path.write_text(json.dumps({"hooks": {"PreToolUse": [group]}, "workspace_hooks": False}))
    shown = admin.send("GET", "/api/hooks").json()
    assert shown["hooks"] == [
        {"event": "PreToolUse", "matcher": "Bash", "command": "guard", "seconds": 60}
    ]
    assert shown["workspace"]["ignored"] is True
    path.write_text("hooks:\n  Never: []\n")
    (problem,) = admin.send("GET", "/api/hooks").json()["problems"]
    assert "hooks.yml:2" in problem


def test_the_workspaces_hooks_are_listed_with_decisions_which_are_withdrawn(
    admin: Browser,
) -> None:
    layout = admin.daemon.layout
    digest = write_workspace(admin, {"hooks": {**STOP["hooks"], "PreToolUse": [{"hooks": 1}]}})
    hook = {"event": "Stop", "matcher": "", "command": "make test", "seconds": 5}
    undecided = {
        **{"id": digest, "source": SOURCE, "hooks": [hook], "isPresent": True},
        **{"decision": "undecided", "decidedAt": None, "decidedBy": ""},
    }
    shown = admin.send("GET", "/api/hooks").json()["workspace"]
    assert shown == {"ignored": False, "files": [undecided], "problems": [ANY]}
    assert shown["problems"][0].startswith(f"{SOURCE}: PreToolUse: expected a map")
    decisions = open_hook_decisions(layout)
    decisions.keep(WorkspaceDecision(SOURCE, digest, True, AT, "user:ada"))
    decisions.keep(WorkspaceDecision(SOURCE, "f" * 64, False, AT))
    allowed, denied = admin.send("GET", "/api/hooks").json()["workspace"]["files"]
    decided = {"decision": "allowed", "decidedAt": AT, "decidedBy": "user:ada"}
    assert allowed == {**undecided, **decided}
    assert denied == {
        **{"id": "f" * 64, "source": SOURCE, "hooks": [], "isPresent": False},
        **{"decision": "denied", "decidedAt": AT, "decidedBy": ""},
    }
    for one in (digest, "f" * 64):
        assert admin.send("DELETE", f"/api/hooks/decisions/{one}").status == 204
        assert admin.send("DELETE", f"/api/hooks/decisions/{one}").status == 404
    assert not decisions.load()
    assert admin.send("GET", "/api/hooks").json()["workspace"]["files"] == [undecided]
    Path(layout.hook_decisions).write_text("{")
    problems = admin.send("GET", "/api/hooks").json()["workspace"]["problems"]
    assert "delete it, and each of the hooks of workspaces is asked about again" in problems[1]
