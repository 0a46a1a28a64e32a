"""The settings of ``agentd.yml``, managed by a program: the same file, and what waits is told."""

from pathlib import Path
from typing import Any

import pytest

from agentd.settings.model import IDENTITIES, Settings
from agentd.settings.status import MASK, RESTART, SECRET
from tests.gateway.conftest import GatewaySetup
from tests.support.daemon import HASH, Client, Reply

ALL = "/api/agent/settings/daemon"


@pytest.fixture
def file(setup: GatewaySetup) -> Path:
    """A hand-written ``agentd.yml``."""
    path = Path(setup.layout.settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"# ours\nport: 0\nagent_api_key: {HASH}   # of the laptop\n"
        "max_parallel_turns: 1   # one thing at a time\n"
    )
    path.chmod(0o600)
    return path


@pytest.fixture
def manager(file: Path, manager: Client) -> Client:
    """The management client of a daemon with this file."""
    return manager


def get_setting(reply: Reply, name: str) -> dict[str, Any]:
    """Return a setting of the list."""
    assert reply.status == 200, reply.body
    return {one["name"]: one for one in reply["settings"]}[name]


@pytest.mark.parametrize(
    "wrong",
    [
        {"host": "not a host"},
        {"host": "http://127.0.0.1"},
        {"host": "no-such-name.invalid"},
        {"host": "192.0.2.1"},
        {"hosts": ["box.local", "https://box.local"]},
        {"hosts": ["box.local:8750"]},
        {"budget_per_chat": -1},
        {"budget_per_day": "-0.01"},
        {"turn_cost": "NaN"},
        {"codex_command": []},
        {"claude_command": []},
        {"acp_command": []},
        {"workspace": "/"},
    ],
)
def test_what_the_next_start_would_refuse_is_refused(
    manager: Client, file: Path, wrong: dict[str, Any]
) -> None:
    before = file.read_text()
    reply = manager.patch(ALL, wrong)
    assert (reply.status, next(iter(wrong)) in reply.body.decode()) == (400, True)
    assert file.read_text() == before


@pytest.mark.parametrize("right", [{"host": "localhost"}, {"host": "::1"}, {"hosts": ["a.b", "c"]}])
def test_addresses_of_this_host_are_taken(manager: Client, right: dict[str, Any]) -> None:
    assert manager.patch(ALL, right).status == 200


def test_every_setting_is_reported_and_which_wait_for_a_restart(manager: Client) -> None:
    """The proxy specification, section 1: all but the administrator's password."""
    reply = manager.get(ALL)
    result = {one["name"]: one for one in reply["settings"]}
    assert list(result) == list(Settings.__struct_fields__)
    assert {name for name, one in result.items() if one["restart"]} == RESTART
    assert {name for name, one in result.items() if one["secret"]} == SECRET
    assert result["agent_api_key"]["value"] == MASK
    assert HASH.encode() not in reply.body
    assert result["max_parallel_turns"]["source"] == "agentd.yml:4"


def test_what_is_changed_holds_or_waits_and_the_file_keeps_its_comments(
    file: Path, manager: Client
) -> None:
    """The proxy specification, section 5.6: all product configuration."""
    wish = {"max_parallel_turns": 5, "port": 8751, "agent_api_key": MASK}
    reply = manager.patch(ALL, wish)
    now = get_setting(reply, "max_parallel_turns")
    assert (now["value"], now["next"], now["waits"]) == (5, 5, False)
    port = get_setting(reply, "port")
    assert (port["next"], port["waits"], port["restart"]) == (8751, True, True)
    text = file.read_text()
    assert "max_parallel_turns: 5   # one thing at a time\n" in text
    assert f"# ours\nport: 8751\nagent_api_key: {HASH}   # of the laptop\n" in text
    reply = manager.patch(ALL, {"max_parallel_turns": None})
    assert get_setting(reply, "max_parallel_turns")["value"] == 2
    assert "max_parallel_turns" not in file.read_text()
    assert get_setting(manager.get("/api/agent/settings/daemon"), "port")["file"] == 8751


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_parallel_turns": 0},
        {"max_parallel_turns": "4"},
        {"parallel": 4},
        {"agent_api_key": "agent_secret"},
        {"approval_rules": [{"decision": "perhaps"}]},
        *({name: None} for name in sorted(IDENTITIES)),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(
    file: Path, manager: Client, wrong: dict[str, Any]
) -> None:
    before = file.read_bytes()
    reply = manager.patch(ALL, {"drain_seconds": 1, **wrong})
    assert reply.status == 400
    assert file.read_bytes() == before
    assert manager.get("/api/agent/changes")["items"] == []


def test_a_dry_run_and_another_version_change_nothing(file: Path, manager: Client) -> None:
    before, tag = file.read_bytes(), manager.get(ALL).headers["ETag"]
    reply = manager.patch(f"{ALL}?dry_run=true", {"turn_steps": 9, "port": 8751})
    steps, port = get_setting(reply, "turn_steps"), get_setting(reply, "port")
    assert (steps["value"], steps["file"], steps["source"]) == (9, 9, "agentd.yml")
    assert (port["next"], port["waits"]) == (8751, True)
    assert file.read_bytes() == before
    assert get_setting(manager.get(ALL), "turn_steps")["value"] == 60
    assert manager.patch(ALL, {"turn_steps": 9}, {"If-Match": tag}).status == 200
    assert manager.patch(ALL, {"turn_steps": 8}, {"If-Match": tag}).status == 412
    assert get_setting(manager.get(ALL), "turn_steps")["value"] == 9


def test_a_change_is_noted_without_its_secret_and_taken_back(file: Path, manager: Client) -> None:
    other = "0" * 64
    rules = [{"decision": "allow", "kind": "shell", "subject": "git status*"}]
    wish = {"agent_api_key": other, "budget_per_day": 20.5, "approval_rules": rules}
    assert manager.patch(ALL, wish).status == 200
    assert other in file.read_text()
    reply = manager.get("/api/agent/changes")
    (change,) = reply["items"]
    assert change["resource"] == "daemon-settings"
    assert change["name"] == "agent_api_key, approval_rules, budget_per_day"
    assert other.encode() not in reply.body and HASH.encode() not in reply.body
    assert manager.patch(ALL, {"turn_steps": 7}).status == 200
    assert manager.send("POST", "/api/agent/changes/1/undo").status == 200
    assert HASH in file.read_text() and "# of the laptop" in file.read_text()
    now = manager.get(ALL)
    assert get_setting(now, "budget_per_day")["value"] is None
    assert get_setting(now, "turn_steps")["value"] == 7
    assert manager.send("POST", "/api/agent/changes/1/undo").status == 409
