"""The journal of changes, and changes taken back."""

import json
import os
import stat
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agentd.gateway.admin.changes_store import UNDO_DAYS
from tests.gateway.admin.api.described import Manager
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.gateway.conftest import SECRET, GatewaySetup
from tests.support.daemon import Client, Serving, until
from tests.support.fixtures import Serve

ALL = "/api/agent/changes"
CHANNELS = "/api/agent/channels"
NEW = {"name": "other", "dialects": ["anthropic"], "url": "https://api.example.com"}
LETTERS = "sk-0123456789abcdef"


def list_changes(manager: Client, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = manager.get(f"{ALL}?{query}")["items"]
    return found


def undo_change(manager: Client, number: int, query: str = "") -> Any:
    return manager.send("POST", f"{ALL}/{number}/undo{query}")


def test_every_change_is_noted_with_who_from_where_and_what(manager: Client) -> None:
    manager.post(CHANNELS, {**NEW, "key": LETTERS})
    manager.patch(f"{CHANNELS}/other", {"timeout": 5})
    manager.send("POST", f"{CHANNELS}/other/disable")
    manager.delete(f"{CHANNELS}/other")
    found = list_changes(manager)
    assert [one["number"] for one in found] == [4, 3, 2, 1]
    assert [one["action"] for one in found] == ["delete", "disable", "change", "create"]
    assert {one["by"] for one in found} == {"management"}
    assert {one["remote"] for one in found} == {"127.0.0.1"}
    assert {(one["resource"], one["name"]) for one in found} == {("channels", "other")}
    assert (found[3]["before"], found[3]["after"]["key"]) == (None, "****cdef")
    assert (found[2]["before"]["timeout"], found[2]["after"]["timeout"]) == (600.0, 5.0)
    assert found[0]["after"] is None


def test_each_change_says_whether_it_can_be_undone(setup: GatewaySetup, manager: Client) -> None:
    manager.post("/api/agent/management-keys", {"name": "monitor", "scope": "read"})
    days = {"from": "2026-01-01", "to": "2026-01-01"}
    manager.post("/api/agent/requests/reprice", days)
    manager.patch(f"{CHANNELS}/chat", {"timeout": 5})
    found = [(one["resource"], one["undoable"]) for one in reversed(list_changes(manager))]
    assert found == [("management-keys", True), ("requests", False), ("channels", True)]
    assert undo_change(manager, 3, "?dry_run=true").json()["undoable"] is False
    assert undo_change(manager, 3).json()["undoable"] is True
    Path(setup.layout.get_undo_path(1)).unlink()
    assert list_changes(manager, "resource=management-keys")[0]["undoable"] is False
    for one in list_changes(manager):
        status = undo_change(manager, one["number"], "?dry_run=true").status
        assert (status == 200) or not one["undoable"] or one["number"] == 3


@pytest.mark.parametrize(
    ("method", "address"),
    [
        ("DELETE", "/api/agent/channels/chat"),
        ("POST", "/api/agent/channels/chat/disable"),
        ("POST", "/api/agent/models/by-chat/disable"),
        ("DELETE", "/api/agent/models/by-chat"),
        ("POST", "/api/agent/session"),
        ("POST", "/api/agent/requests/reprice"),
    ],
)
@pytest.mark.parametrize("body", [{"dry_run": True}, {"dryRun": True}, [1], "x"])
def test_what_a_body_says_is_never_passed_over(
    manager: Client, method: str, address: str, body: Any
) -> None:
    """A change that was to be tried only, but not where options go, is refused and not made."""
    days = {"from": "2026-01-01", "to": "2026-01-01"}
    if address.endswith("reprice") and isinstance(body, dict):
        body = {**days, **body}
    reply = manager.send(method, address, body, {"Content-Type": "application/json"})
    assert reply.status == 400
    assert list_changes(manager) == []
    assert manager.get("/api/agent/channels/chat")["enabled"] is True


def test_an_empty_object_says_nothing(manager: Client) -> None:
    assert manager.send("POST", f"{CHANNELS}/chat/disable", {}).status == 200


def test_what_changes_nothing_or_is_refused_is_not_noted(manager: Client) -> None:
    manager.patch(f"{CHANNELS}/chat", {"name": "chat"})
    manager.send("POST", f"{CHANNELS}/chat/enable")
    manager.post(CHANNELS, {**NEW, "name": "chat"})
    assert list_changes(manager) == []


def test_the_journal_is_private_and_shows_no_secret(setup: GatewaySetup, manager: Client) -> None:
    manager.post(CHANNELS, {**NEW, "key": LETTERS})
    manager.delete(f"{CHANNELS}/other")
    path = Path(setup.layout.changes)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert LETTERS not in path.read_text()
    assert [json.loads(line)["number"] for line in path.read_text().splitlines()] == [1, 2]
    kept = Path(setup.layout.get_undo_path(2))
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


def test_what_undoes_changes_is_encrypted_and_removed_in_time(
    setup: GatewaySetup, start_gateway: Callable[..., Serving]
) -> None:
    """Old keys of suppliers do not lie about in the clear, nor for ever."""
    daemon = start_gateway(environ={"PROXY_APP_HASH": HASH})
    with closing(Manager(daemon.url, MANAGEMENT_KEY)) as manager:
        manager.post(CHANNELS, {**NEW, "key": LETTERS})
        manager.patch(f"{CHANNELS}/other", {"key": "sk-another-123456789"})
        manager.delete(f"{CHANNELS}/other")
    daemon.stop()
    daemon.join()
    folder = Path(setup.layout.get_undo_path(1)).parent
    for file in folder.iterdir():
        assert LETTERS.encode() not in file.read_bytes()
    old = time.time() - (UNDO_DAYS * 24 + 1) * 3600
    os.utime(setup.layout.get_undo_path(2), (old, old))
    (folder / "9.json").write_text(LETTERS)
    setup.daemon = None
    again = start_gateway(environ={"PROXY_APP_HASH": HASH})
    until(lambda: {one.name for one in folder.iterdir()} == {"1.enc", "3.enc"})
    with closing(Manager(again.url, MANAGEMENT_KEY)) as manager:
        assert undo_change(manager, 2).status == 409
        assert undo_change(manager, 3).status == 200
        assert manager.get(f"{CHANNELS}/other")["key"] == "****6789"


def test_what_was_changed_is_as_before_when_that_is_taken_back(
    setup: GatewaySetup, manager: Client
) -> None:
    before = Path(setup.layout.channels).read_text()
    manager.patch(f"{CHANNELS}/chat", {"url": "https://elsewhere.example.com", "timeout": 5})
    assert manager.get(f"{CHANNELS}/chat")["key"] == ""
    reply = undo_change(manager, 1)
    assert (reply.status, reply["action"], reply["undoes"], reply["number"]) == (200, "undo", 1, 2)
    chat = manager.get(f"{CHANNELS}/chat").json()
    assert (chat["timeout"], chat["key"]) == (600.0, f"****{SECRET[-4:]}")
    assert Path(setup.layout.channels).read_text().count(SECRET) == before.count(SECRET)


def test_a_deleted_one_comes_back_with_its_secret_and_a_created_one_goes(
    setup: GatewaySetup, manager: Client
) -> None:
    manager.post(CHANNELS, {**NEW, "key": LETTERS})
    manager.delete(f"{CHANNELS}/other")
    assert undo_change(manager, 2).status == 200
    assert manager.get(f"{CHANNELS}/other")["key"] == "****cdef"
    assert LETTERS in Path(setup.layout.channels).read_text()
    assert undo_change(manager, 1).status == 200
    assert manager.get(f"{CHANNELS}/other").status == 404
    assert undo_change(manager, 4).status == 200
    assert manager.get(f"{CHANNELS}/other")["key"] == "****cdef"


def test_what_was_changed_since_is_not_taken_back(manager: Client) -> None:
    manager.patch(f"{CHANNELS}/chat", {"timeout": 5})
    manager.patch(f"{CHANNELS}/chat", {"timeout": 6})
    reply = undo_change(manager, 1)
    assert (reply.status, reply["error"]) == (409, "Conflict")
    assert "GET /api/agent/changes" in reply["details"]
    assert manager.get(f"{CHANNELS}/chat")["timeout"] == 6.0
    manager.post(CHANNELS, NEW)
    manager.patch(f"{CHANNELS}/other", {"name": "third"})
    assert undo_change(manager, 3).status == 409
    assert len(list_changes(manager)) == 4


def test_what_is_in_use_does_not_go_by_being_taken_back(manager: Client) -> None:
    manager.post(CHANNELS, NEW)
    manager.post("/api/agent/models", {"name": "m", "routes": [{"channel": "other"}]})
    reply = undo_change(manager, 1)
    assert (reply.status, 'model "m"' in reply["message"]) == (409, True)


def test_taking_back_can_be_tried(manager: Client) -> None:
    manager.patch(f"{CHANNELS}/chat", {"timeout": 5})
    assert undo_change(manager, 1, "?dry_run=true")["after"]["timeout"] == 600.0
    assert manager.get(f"{CHANNELS}/chat")["timeout"] == 5.0
    assert len(list_changes(manager)) == 1


def test_a_change_that_never_was_is_not_found(manager: Client) -> None:
    assert undo_change(manager, 1).status == 404
    assert manager.send("POST", f"{ALL}/x/undo").status == 404


def test_the_journal_is_read_page_by_page_and_filtered(manager: Client) -> None:
    for seconds in range(1, 6):
        manager.patch(f"{CHANNELS}/chat", {"timeout": seconds})
    manager.patch("/api/agent/models/by-chat", {"maxOutput": 5})
    first = manager.get(f"{ALL}?limit=4&resource=channels").json()
    assert [one["number"] for one in first["items"]] == [5, 4, 3, 2]
    rest = manager.get(f"{ALL}?limit=4&resource=channels&cursor={first['next']}").json()
    assert ([one["number"] for one in rest["items"]], rest["next"]) == ([1], "")
    assert [one["number"] for one in list_changes(manager, "name=by-chat")] == [6]
    assert list_changes(manager, "action=delete") == []
    assert manager.get(f"{ALL}?cursor=x").status == 400


def test_numbers_go_on_after_a_restart_and_what_a_crash_cut_short_is_passed_over(
    setup: GatewaySetup, start_gateway: Callable[..., Serving], serve: Serve, manager: Client
) -> None:
    manager.patch(f"{CHANNELS}/chat", {"timeout": 5})
    daemon = start_gateway()
    daemon.stop()
    daemon.join()
    with Path(setup.layout.changes).open("ab") as file:
        file.write(b'{"number":2,"at":"20')
    again = serve(setup.folder, environ={"PROXY_APP_HASH": HASH}).client(MANAGEMENT_KEY)
    assert undo_change(again, 1).status == 200
    assert [one["number"] for one in list_changes(again)] == [2, 1]
    assert again.get(f"{CHANNELS}/chat")["timeout"] == 600.0


@pytest.mark.parametrize(
    "address",
    ["channels/chat", "models/by-chat", "keys/{key}", "budgets/b", "secret-rules/github"],
)
def test_what_was_read_can_be_sent_back_and_changes_nothing(
    setup: GatewaySetup, manager: Client, address: str
) -> None:
    key = manager.post("/api/agent/keys", {"name": "k", "models": ["*"], "limits": {"day": 5}})
    manager.post("/api/agent/budgets", {"name": "b", "tag": "b", "limits": {"day": 5}})
    before = len(list_changes(manager))
    path = f"/api/agent/{address.format(key=key['id'])}"
    read = manager.get(path)
    assert read.status == 200, read.body
    reply = manager.patch(path, read.json())
    assert reply.status == 200, reply.body
    assert reply.json() == read.json()
    assert len(list_changes(manager)) == before
