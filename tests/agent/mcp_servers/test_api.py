"""``/api/mcp-servers``: an administrator configures servers; secrets come in and never go out."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import ANY

import pytest

from agentd.agent.mcp_servers.model import DEFAULT_SECONDS
from agentd.agent.mcp_servers.project import ProjectServers
from agentd.agent.workspace_decisions import WorkspaceDecision, open_server_decisions
from tests.auth.test_login import Browser, add_users
from tests.support.daemon import Serving

SERVER = Path(__file__).parent / "sdk_server.py"
COMMAND = [sys.executable, "-W", "ignore", str(SERVER), "stdio"]
AT = "2026-01-01T00:00:00.000Z"
SECRET = "mint-0123456789abcdef"


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[Browser]:
    with Serving(add_users(tmp_path)) as daemon:
        browser = Browser(daemon, "ada")
        yield browser


def read_file(admin: Browser) -> str:
    return Path(admin.daemon.layout.mcp_settings).read_text()


def test_a_server_is_added_changed_tried_out_and_removed(admin: Browser) -> None:
    nothing = {"ignored": False, "servers": [], "problems": []}
    empty = {"servers": [], "problems": [], "states": {}, "project": nothing}
    assert admin.send("GET", "/api/mcp-servers").json() == empty
    wish = {"name": "tea", "command": COMMAND, "env": {"TOKEN": SECRET, "OTHER": "env:OTHER"}}
    made = admin.send("POST", "/api/mcp-servers", wish)
    shown = {
        **{"name": "tea", "enabled": True, "command": COMMAND, "url": "", "headers": {}},
        "env": {"TOKEN": "****cdef", "OTHER": "env:OTHER"},
        **{"allow": [], "allow_reading": False, "engines": [], "seconds": DEFAULT_SECONDS},
    }
    assert (made.status, made.json()) == (201, shown)
    assert admin.send("POST", "/api/mcp-servers", wish).status == 409
    changed = {**shown, "enabled": False, "env": {"TOKEN": "****cdef"}, "allow": ["add"]}
    assert admin.send("PUT", "/api/mcp-servers/tea", changed).json() == changed
    assert SECRET in read_file(admin) and "OTHER" not in read_file(admin)
    assert "url:" not in read_file(admin) and "engines:" not in read_file(admin), "no defaults"
    assert admin.send("GET", "/api/mcp-servers").json()["servers"] == [changed]
    assert admin.send("DELETE", "/api/mcp-servers/tea").status == 204
    assert admin.send("DELETE", "/api/mcp-servers/tea").status == 404


def test_a_check_lists_the_tools_or_says_what_is_wrong(admin: Browser) -> None:
    pytest.importorskip("mcp", reason="mcp is not installed: pip install '.[test]'")
    for name, command in (("tea", COMMAND), ("gone", ["no-such-program-here"])):
        assert admin.send("POST", "/api/mcp-servers", {"name": name, "command": command})
    found = admin.send("POST", "/api/mcp-servers/tea/check").json()
    assert found["ok"] and not found["problem"]
    assert {"name": "add", "description": "Add two numbers.", "reads": True} in found["tools"]
    states = admin.send("GET", "/api/mcp-servers").json()["states"]
    assert states["gone"] == {"running": 0, "tools": None, "problem": "", "at": None}
    assert states["tea"] == {"running": 0, "tools": len(found["tools"]), "problem": "", "at": ANY}
    wrong = admin.send("POST", "/api/mcp-servers/gone/check").json()
    assert not wrong["ok"] and "not installed" in wrong["problem"]
    state = admin.send("GET", "/api/mcp-servers").json()["states"]["gone"]
    assert (state["problem"], state["tools"]) == (wrong["problem"], None)
    assert admin.send("POST", "/api/mcp-servers/none/check").status == 404


def test_the_workspaces_servers_are_listed_with_their_decisions_which_are_withdrawn(
    admin: Browser, tmp_path: Path
) -> None:
    servers = {
        "lint": {"command": "lint", "args": ["-q"], "env": {"KEY": SECRET}},
        "web": {"type": "http", "url": "https://docs.example/mcp"},
        "old": {"type": "sse", "url": "https://docs.example/sse"},
    }
    folder = Path(admin.daemon.settings.workspace)
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    layout = admin.daemon.layout
    (lint, web), *_ = ProjectServers(layout, workspace=str(folder)).read(str(folder))
    open_server_decisions(layout).keep(WorkspaceDecision("lint", lint.digest, True, AT, "user:ada"))
    open_server_decisions(layout).keep(WorkspaceDecision("gone", "f" * 64, False, AT))
    shown = admin.send("GET", "/api/mcp-servers").json()
    assert shown["project"]["servers"] == [
        {
            **{"id": lint.digest, "name": "lint", "launch": "lint -q\nKEY=****cdef"},
            **{"decision": "allowed", "decidedAt": AT, "isPresent": True},
            "decidedBy": "user:ada",
        },
        {
            **{"id": web.digest, "name": "web", "launch": "https://docs.example/mcp"},
            **{"decision": "undecided", "decidedAt": None, "isPresent": True},
            "decidedBy": "",
        },
        {
            **{"id": "f" * 64, "name": "gone", "launch": ""},
            **{"decision": "denied", "decidedAt": AT, "isPresent": False},
            "decidedBy": "",
        },
    ]
    assert "sse is not supported" in shown["project"]["problems"][0]
    assert set(shown["states"]) == {"lint", "web"}
    for one in (lint.digest, "f" * 64):
        assert admin.send("DELETE", f"/api/mcp-servers/decisions/{one}").status == 204
        assert admin.send("DELETE", f"/api/mcp-servers/decisions/{one}").status == 404
    assert not open_server_decisions(layout).load()
    Path(layout.mcp_decisions).write_text("{")
    (problem,) = admin.send("GET", "/api/mcp-servers").json()["project"]["problems"][1:]
    assert "delete it, and each of the MCP servers of workspaces is asked about again" in problem


def test_headers_are_not_sent_to_another_address_by_their_mask(admin: Browser) -> None:
    headers = {"Authorization": f"Bearer {SECRET}"}
    wish = {"name": "web", "url": "http://127.0.0.1:1/mcp", "headers": headers}
    made = admin.send("POST", "/api/mcp-servers", wish).json()
    assert made["headers"] == {"Authorization": "****cdef"}
    moved = {**made, "url": "http://127.0.0.1:2/mcp"}
    assert admin.send("PUT", "/api/mcp-servers/web", moved).status == 400
    assert admin.send("PUT", "/api/mcp-servers/web", {**moved, "headers": headers}).status == 200
    assert SECRET not in json.dumps(admin.send("GET", "/api/mcp-servers").json())


@pytest.mark.parametrize(
    ("launch", "shown"),
    [
        (
            {"command": ["serve", "--token", SECRET, f"--key={SECRET}"]},
            {"command": ["serve", "--token", "****cdef", "--key=****cdef"]},
        ),
        (
            {"url": f"https://docs.example/s/{SECRET}/mcp", "headers": {"X-Key": SECRET}},
            {"url": "https://docs.example/s/****cdef/mcp", "headers": {"X-Key": "****cdef"}},
        ),
    ],
)
def test_a_key_in_an_address_or_argument_is_masked_and_its_mask_keeps_it(
    admin: Browser, launch: dict[str, object], shown: dict[str, object]
) -> None:
    made = admin.send("POST", "/api/mcp-servers", {"name": "web", **launch}).json()
    assert {**made, **shown} == made
    changed = {**made, "name": "docs", "enabled": False}
    assert admin.send("PUT", "/api/mcp-servers/web", changed).json() == changed
    listed = admin.send("GET", "/api/mcp-servers").json()
    assert listed["servers"] == [changed]
    assert SECRET not in json.dumps(listed)
    file = read_file(admin)
    assert file.count(SECRET) == 2 and "****" not in file
    assert admin.send("POST", "/api/mcp-servers", {**made, "name": "copy"}).status == 400
    assert read_file(admin) == file


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"url": "docs.example/mcp"}, "Expected an address such as https://docs.example/mcp"),
        ({"command": ["x"], "env": {"A-B": "1"}}, "digits and _, not beginning with a digit"),
        ({"command": ["x"], "name": "a b"}, "Expected at most 32 letters, digits, - and _"),
    ],
)
def test_what_is_written_in_another_way_is_told_without_a_pattern(
    admin: Browser, wrong: dict[str, object], told: str
) -> None:
    refused = admin.send("POST", "/api/mcp-servers", {"name": "a", **wrong})
    assert refused.status == 400
    assert told in refused.body.decode() and "regex" not in refused.body.decode()


@pytest.mark.parametrize(
    "wrong",
    [
        {"command": ["x"], "url": "http://x"},
        {},
        {"command": ["x"], "env": {"not a name": "1"}},
        {"command": ["x"], "env": {"A": "****cdef"}},
        {"url": "ftp://x"},
        {"url": "http://x", "headers": {"Host": "y"}},
    ],
)
def test_what_is_not_valid_is_refused_and_changes_nothing(
    admin: Browser, wrong: dict[str, object]
) -> None:
    assert admin.send("POST", "/api/mcp-servers", {"name": "a", **wrong}).status == 400
    assert not Path(admin.daemon.layout.mcp_settings).exists()


def test_only_administrators_configure_servers(admin: Browser) -> None:
    someone = Browser(admin.daemon, "mia")
    assert someone.send("GET", "/api/mcp-servers").status == 403


def test_a_chats_servers_are_named_by_who_may_command_it(admin: Browser) -> None:
    client = admin.daemon.client()
    chat = client.create_chat()
    path = f"/api/chat/{chat}/mcp-servers"
    servers = {"shop": {"command": "shop", "env": {"TOKEN": SECRET}}, "web": {"url": "http://x"}}
    assert client.put(path, {"mcpServers": servers}).status == 204
    assert Browser(admin.daemon, "vera").send("PUT", path, {"mcpServers": {}}).status == 403
    assert client.put("/api/chat/999999/mcp-servers", {"mcpServers": servers}).status == 404
    for wrong in ({"a b": {"command": "x"}}, {"a": {}}, {"a": {"url": "ftp://x"}}):
        refused = client.put(path, {"mcpServers": wrong})
        assert refused.status == 400 and next(iter(wrong)) in refused["message"]
    kept = b"".join(one.read_bytes() for one in Path(admin.daemon.layout.state).rglob("*.jsonl"))
    assert SECRET.encode() not in kept
