"""Several access keys, channels or models changed at once: all or none, with one undo."""

from pathlib import Path
from typing import Any

import pytest

from tests.gateway.admin.api.test_keys import call_model
from tests.gateway.conftest import GatewaySetup
from tests.supplier.steps import Answer, Say, Tokens
from tests.support.daemon import Client

BATCHES = {"keys": "id", "channels": "name", "models": "name"}


@pytest.fixture(autouse=True)
def _answering(setup: GatewaySetup) -> None:
    setup.supplier.answer_always(Answer((Say("hi"),), Tokens(input=1000, output=100)))


def make(manager: Client, what: str, count: int = 3) -> list[str]:
    """Create some resources that nothing uses, and return their names or ids."""
    bodies: dict[str, dict[str, Any]] = {
        "keys": {"limits": {"day": 5}},
        "channels": {
            "dialects": ["openai-chat"],
            "url": "https://api.example.com/v1",
            "key": "sk-batch-0123456789abcdef",
        },
        "models": {"routes": [{"channel": "chat"}]},
    }
    made = [
        manager.post(f"/api/agent/{what}", {"name": f"many-{number}", **bodies[what]})
        for number in range(count)
    ]
    assert {reply.status for reply in made} == {201}
    return [reply[BATCHES[what]] for reply in made]


def read_all(manager: Client, what: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = manager.get(f"/api/agent/{what}")["items"]
    return items


def list_enabled(manager: Client, what: str) -> dict[str, bool]:
    return {one[BATCHES[what]]: one["enabled"] for one in read_all(manager, what)}


def undo(manager: Client, number: int) -> int:
    reply = manager.post(f"/api/agent/changes/{number}/undo", None)
    assert reply.status == 200, reply.body
    again: int = reply["number"]
    return again


@pytest.mark.parametrize("what", BATCHES)
@pytest.mark.parametrize("action", ["disable", "delete"])
def test_all_are_changed_by_one_change_and_one_undo_restores_all(
    manager: Client, what: str, action: str
) -> None:
    names = make(manager, what)
    before, last = read_all(manager, what), manager.get("/api/agent/changes?limit=1")["items"][0]
    body = {"action": action, "names": names}
    tried = manager.post(f"/api/agent/{what}/batch?dry_run=true", body)
    assert (tried.status, tried["changed"], tried["change"]) == (200, names, None)
    assert read_all(manager, what) == before
    reply = manager.post(f"/api/agent/{what}/batch", body)
    assert (reply["changed"], reply["unchanged"]) == (names, [])
    (change, previous) = manager.get("/api/agent/changes?limit=2")["items"]
    assert (change["number"], previous["number"]) == (reply["change"], last["number"])
    assert (change["action"], change["resource"]) == (action, what)
    assert change["name"] == "many-0, many-1, many-2"
    assert set(change["before"]) == set(names)
    now = list_enabled(manager, what)
    assert [now.get(name) for name in names] == [None if action == "delete" else False] * 3
    again = undo(manager, reply["change"])
    assert sorted(map(str, read_all(manager, what))) == sorted(map(str, before))
    undo(manager, again)
    assert list_enabled(manager, what) == now


def test_what_is_so_already_is_told_and_nothing_is_logged(manager: Client) -> None:
    names = make(manager, "keys")
    manager.post(f"/api/agent/keys/{names[0]}/disable", None)
    reply = manager.post("/api/agent/keys/batch", {"action": "disable", "names": names})
    assert (reply["changed"], reply["unchanged"]) == (names[1:], names[:1])
    again = manager.post("/api/agent/keys/batch", {"action": "disable", "names": names})
    assert (again["changed"], again["change"]) == ([], None)
    undo(manager, reply["change"])
    assert list_enabled(manager, "keys") == dict(zip(names, [False, True, True], strict=True))


@pytest.mark.parametrize("what", BATCHES)
def test_with_one_that_is_missing_nothing_is_changed(
    setup: GatewaySetup, manager: Client, what: str
) -> None:
    names = make(manager, what)
    files = [Path(setup.layout.channels), Path(setup.layout.models), Path(setup.layout.access_keys)]
    before = [path.read_bytes() for path in files if path.exists()]
    reply = manager.post(
        f"/api/agent/{what}/batch", {"action": "delete", "names": [*names, "nothing"]}
    )
    assert (reply.status, "nothing" in reply["message"]) == (404, True)
    assert [path.read_bytes() for path in files if path.exists()] == before


def test_one_that_is_in_use_keeps_all(manager: Client) -> None:
    names = make(manager, "channels")
    reply = manager.post(
        "/api/agent/channels/batch", {"action": "delete", "names": [*names, "chat"]}
    )
    assert (reply.status, "by-chat" in reply["message"]) == (409, True)
    assert set(names) < set(list_enabled(manager, "channels"))


def test_a_batch_is_refused_if_one_was_changed_since_the_dry_run(manager: Client) -> None:
    names = make(manager, "keys")
    body = {"action": "delete", "names": names}
    etag = manager.post("/api/agent/keys/batch?dry_run=true", body).headers["ETag"]
    manager.patch(f"/api/agent/keys/{names[1]}", {"limits": {"day": 7}})
    assert manager.post("/api/agent/keys/batch", body, {"If-Match": etag}).status == 412
    assert len(list_enabled(manager, "keys")) == 3
    etag = manager.post("/api/agent/keys/batch?dry_run=true", body).headers["ETag"]
    assert manager.post("/api/agent/keys/batch", body, {"If-Match": etag}).status == 200


def test_an_undo_is_refused_if_one_was_changed_since(manager: Client) -> None:
    names = make(manager, "models")
    number = manager.post("/api/agent/models/batch", {"action": "disable", "names": names})[
        "change"
    ]
    manager.patch("/api/agent/models/many-1", {"context": 100_000})
    reply = manager.post(f"/api/agent/changes/{number}/undo", None)
    assert (reply.status, "many-1" in reply["message"]) == (409, True)
    assert set(list_enabled(manager, "models").items()) >= {(name, False) for name in names}


def test_deleted_keys_are_refused_at_once_and_open_again_after_the_undo(manager: Client) -> None:
    made = [manager.post("/api/agent/keys", {"name": f"k{number}"}) for number in range(2)]
    secrets = [reply["key"] for reply in made]
    assert [call_model(manager, one).status for one in secrets] == [200, 200]
    names = ["k0", "k1"]
    number = manager.post("/api/agent/keys/batch", {"action": "delete", "names": names})["change"]
    assert [call_model(manager, one).status for one in secrets] == [401, 401]
    undo(manager, number)
    assert [call_model(manager, one).status for one in secrets] == [200, 200]


def test_tags_are_added_and_removed_together_with_one_undo(manager: Client) -> None:
    ids = make(manager, "keys")
    manager.patch(f"/api/agent/keys/{ids[0]}", {"tags": ["old", "research"]})

    def tags() -> list[list[str]]:
        return [manager.get(f"/api/agent/keys/{one}")["tags"] for one in ids]

    body = {"action": "tag", "names": ids, "tags": ["research", "2026"]}
    tried = manager.post("/api/agent/keys/batch?dry_run=true", body)
    assert (tried["changed"], tags()[1]) == (ids, [])
    reply = manager.post("/api/agent/keys/batch", body)
    assert tags() == [["old", "research", "2026"], ["research", "2026"], ["research", "2026"]]
    change = manager.get("/api/agent/changes?limit=1")["items"][0]
    assert (change["action"], change["number"]) == ("tag", reply["change"])
    again = manager.post("/api/agent/keys/batch", body)
    assert (again["changed"], again["change"]) == ([], None)
    gone = manager.post("/api/agent/keys/batch", {**body, "action": "untag"})
    assert tags() == [["old"], [], []]
    undo(manager, gone["change"])
    assert tags()[0] == ["old", "research", "2026"]


def test_tags_that_no_key_can_have_change_nothing(manager: Client) -> None:
    ids = make(manager, "keys")
    many = [f"tag-{number}" for number in range(15)]
    manager.patch(f"/api/agent/keys/{ids[1]}", {"tags": many})
    for body in (
        {"action": "tag", "tags": ["new", " blank"]},
        {"action": "tag", "tags": [f"more-{number}" for number in range(6)]},
        {"action": "tag"},
        {"action": "disable", "tags": ["new"]},
    ):
        refused = manager.post("/api/agent/keys/batch", {"names": ids, **body})
        assert (refused.status, refused["error"]) == (400, "BadRequest")
    assert [manager.get(f"/api/agent/keys/{one}")["tags"] for one in ids] == [[], many, []]
    channels = make(manager, "channels")
    body = {"action": "tag", "names": channels, "tags": ["a"]}
    assert manager.post("/api/agent/channels/batch", body).status == 400
