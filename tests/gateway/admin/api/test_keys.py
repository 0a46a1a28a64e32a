"""Access keys, managed by a program."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentd.gateway.keys.file import AccessKeyFile
from agentd.gateway.keys.model import issue
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.gateway.conftest import GatewaySetup
from tests.supplier.steps import Answer, Say, Tokens
from tests.support.daemon import Client, Reply, Serving, until

ALL = "/api/agent/keys"


def call_model(manager: Client, key: str, model: str = "by-chat") -> Reply:
    client = Client(manager.url, None)
    try:
        body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
        connection = client.connection
        connection.request(
            "POST",
            "/v1/chat/completions",
            json.dumps(body),
            {"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
        )
        answer = connection.getresponse()
        return Reply(answer.status, answer.headers, answer.read())
    finally:
        client.close()


@pytest.fixture(autouse=True)
def _answering(setup: GatewaySetup) -> None:
    setup.supplier.answer_always(Answer((Say("hi"),), Tokens(input=1000, output=100)))


def test_a_key_is_reported_once_and_then_only_its_end(setup: GatewaySetup, manager: Client) -> None:
    """The proxy specification, section 2: a finished key is told exactly once."""
    reply = manager.post(ALL, {"name": "laptop", "limits": {"day": 5, "requestsPerMinute": 60}})
    assert reply.status == 201, reply.body
    key = reply["key"]
    assert key.startswith(f"sk-agentd-{reply['id']}-")
    shown = manager.get(reply.headers["Location"])
    assert shown.headers["ETag"] == reply.headers["ETag"]
    assert (shown["last4"], "key" in shown.json()) == (key[-4:], False)
    for found in (
        shown.body,
        manager.get(ALL).body,
        manager.get("/api/agent/changes").body,
        Path(setup.layout.access_keys).read_bytes(),
    ):
        assert key.encode() not in found
        assert key[-12:].encode() not in found
    assert "sha256" not in shown.body.decode()
    assert call_model(manager, key).status == 200


def test_a_key_is_found_by_its_id_and_by_its_name(manager: Client) -> None:
    made = manager.post(ALL, {"name": "The Laptop"}).json()
    assert manager.get(f"{ALL}/the%20laptop")["id"] == made["id"]
    reply = manager.get(f"{ALL}/the%20lapto")
    assert (reply.status, "The Laptop" in reply["message"]) == (404, True)


def test_what_is_shown_of_limits_is_what_enforces_them(
    setup: GatewaySetup, manager: Client
) -> None:
    """The proxy specification, section 2: keys have spend limits."""
    key = manager.post(ALL, {"name": "k", "limits": {"day": "0.05", "parallel": 3}}).json()
    assert call_model(manager, key["key"]).status == 200
    cost = float(setup.wait_for_records(1)[0].cost)
    assert cost > 0
    shown = manager.get(f"{ALL}/k").json()
    assert shown["limits"]["day"] == 0.05
    day, parallel = shown["limitUsage"]
    found = (day["name"], day["limit"], day["used"], day["reserved"])
    assert found == ("day", 0.05, cost, 0)
    assert day["resets"].endswith("Z")
    assert (parallel["name"], parallel["limit"]) == ("parallel", 3)
    assert shown["spent"].pop("zone") == "UTC"
    assert set(shown["spent"].values()) == {cost}


def test_another_limit_holds_from_the_next_request_on(manager: Client) -> None:
    """The proxy specification, section 1: limits are changed."""
    key = manager.post(ALL, {"name": "k"})["key"]
    assert call_model(manager, key).status == 200
    assert manager.patch(f"{ALL}/k", {"limits": {"total": 0}})["limits"]["total"] == 0
    assert call_model(manager, key).status == 429
    assert manager.patch(f"{ALL}/k", {"limits": {"total": None}}).status == 200
    assert call_model(manager, key).status == 200
    manager.patch(f"{ALL}/k", {"models": ["by-gemini"]})
    assert call_model(manager, key).status in (403, 404)


def test_a_key_that_is_disabled_or_deleted_opens_nothing_at_once(manager: Client) -> None:
    """The proxy specification, section 1: keys are disabled and deleted."""
    key = manager.post(ALL, {"name": "k"})["key"]
    assert manager.send("POST", f"{ALL}/k/disable")["enabled"] is False
    assert call_model(manager, key).status == 401
    manager.send("POST", f"{ALL}/k/enable")
    assert call_model(manager, key).status == 200
    assert manager.delete(f"{ALL}/k").status == 204
    assert call_model(manager, key).status == 401
    assert manager.get(f"{ALL}/k").status == 404


def test_letters_before_are_valid_for_the_grace_only(manager: Client) -> None:
    """The proxy specification, section 1: keys are reissued."""
    first = manager.post(ALL, {"name": "k"}).json()
    reply = manager.post(f"{ALL}/k/reissue", {"grace": 60})
    assert (reply.status, reply["id"]) == (200, first["id"])
    assert reply["key"] != first["key"]
    assert reply["previousUntil"] > reply["created"]
    assert call_model(manager, first["key"]).status == 200
    third = manager.post(f"{ALL}/k/reissue", {}).json()
    assert third["previousUntil"] is None
    assert [call_model(manager, one).status for one in (first["key"], reply["key"])] == [401, 401]
    assert call_model(manager, third["key"]).status == 200


def test_a_key_shows_who_has_seen_its_letters_first(setup: GatewaySetup, manager: Client) -> None:
    """It is only read: nobody can say that it was somebody else."""
    assert manager.post(ALL, {"name": "k", "createdBy": "user:ann"}).status == 400
    assert manager.post(ALL, {"name": "k"})["createdBy"] == "management"
    assert manager.patch(f"{ALL}/k", {"createdBy": "user:ann", "keepBodies": True}).status == 200
    assert manager.patch(f"{ALL}/k", {"createdBy": 5, "created": None}).status == 200
    assert manager.get(f"{ALL}/k")["createdBy"] == "management"
    assert re.search("created_by: .?management", Path(setup.layout.access_keys).read_text())
    made = issue("by hand", "2026-01-01T00:00:00.000Z", "cli")[1]
    AccessKeyFile(setup.layout).add(made)
    AccessKeyFile(setup.layout).add(issue("older", "2026-01-01T00:00:00.000Z")[1])
    found = [manager.get(f"{ALL}/{one}")["createdBy"] for one in (made.id, "older")]
    assert found == ["cli", ""]
    assert manager.post(f"{ALL}/{made.id}/reissue?dry_run=true", {})["createdBy"] == "management"
    assert manager.get(f"{ALL}/{made.id}")["createdBy"] == "cli"
    assert manager.post(f"{ALL}/{made.id}/reissue", {})["createdBy"] == "management"


def test_letters_before_are_buried_once_the_new_ones_were_reported(
    setup: GatewaySetup, manager: Client
) -> None:
    first = manager.post(ALL, {"name": "k"})["key"]
    second = manager.post(f"{ALL}/k/reissue", {})["key"]
    renewals, graves = map(
        Path, (setup.layout.access_keys_renewals, setup.layout.access_keys_revoked)
    )
    until(lambda: json.loads(renewals.read_bytes())["renewals"] == [])
    assert [one["name"] for one in json.loads(graves.read_bytes())["revoked"]] == ["k"]
    assert (call_model(manager, first).status, call_model(manager, second).status) == (401, 200)


def test_a_reissue_that_is_refused_leaves_the_letters_before_good(
    setup: GatewaySetup, manager: Client
) -> None:
    """As when the journal of changes cannot be written any more."""
    first = manager.post(ALL, {"name": "k"})["key"]
    journal = Path(setup.layout.changes)
    journal.rename(journal.with_suffix(".away"))
    journal.mkdir()
    reply = manager.post(f"{ALL}/k/reissue", {"grace": 1})
    assert (reply.status, "key" in reply.json()) == (503, False)
    assert "not reissued" in reply["message"]
    assert call_model(manager, first).status == 200
    until(lambda: manager.get(f"{ALL}/k")["last4"] == first[-4:])
    journal.rmdir()
    reply = manager.post(f"{ALL}/k/reissue", {})
    second = reply["key"]
    assert (call_model(manager, first).status, call_model(manager, second).status) == (401, 200)
    assert reply["last4"] == manager.get(f"{ALL}/k")["last4"] == second[-4:]


def test_what_was_done_to_a_key_is_taken_back(manager: Client) -> None:
    first = manager.post(ALL, {"name": "k"})["key"]
    second = manager.post(f"{ALL}/k/reissue", {})["key"]
    manager.delete(f"{ALL}/k")
    assert manager.send("POST", "/api/agent/changes/3/undo").status == 200
    assert (call_model(manager, first).status, call_model(manager, second).status) == (401, 200)
    assert manager.send("POST", "/api/agent/changes/2/undo").status == 200
    assert (call_model(manager, first).status, call_model(manager, second).status) == (200, 401)


def test_a_dry_run_makes_no_key(manager: Client) -> None:
    reply = manager.post(f"{ALL}?dry_run=true", {"name": "k"})
    assert (reply.status, reply["key"], reply["name"]) == (201, "", "k")
    assert manager.get(ALL)["items"] == []
    key = manager.post(ALL, {"name": "k"})["key"]
    assert manager.post(f"{ALL}/k/reissue?dry_run=true", {})["key"] == ""
    assert call_model(manager, key).status == 200


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": " x"},
        {"limits": {"day": -1}},
        {"limits": {"days": 1}},
        {"limits": {"parallel": 1.5}},
        {"expires": "tomorrow"},
        {"models": ["a b"]},
        {"secret": {}},
    ],
)
def test_what_a_key_cannot_be_is_refused(manager: Client, wrong: dict[str, Any]) -> None:
    assert manager.post(ALL, {"name": "k", **wrong}).status == 400
    manager.post(ALL, {"name": "other"})
    assert manager.patch(f"{ALL}/other", wrong).status == 400


def test_nobody_chooses_the_id_of_a_key(manager: Client) -> None:
    assert manager.post(ALL, {"name": "k", "id": "abcdefghijkl"}).status == 400
    made = manager.post(ALL, {"name": "k"})["id"]
    assert manager.patch(f"{ALL}/k", {"id": "abcdefghijkl"})["id"] == made


def test_two_names_that_look_alike_are_a_conflict(manager: Client) -> None:
    """The proxy specification, section 7: a taken name is a conflict."""
    manager.post(ALL, {"name": "Laptop"})
    assert manager.post(ALL, {"name": "laptop"}).status == 409


def test_keys_that_a_person_makes_by_hand_are_there_at_once(
    setup: GatewaySetup, manager: Client
) -> None:
    setup.add_key(name="by hand")
    assert [one["name"] for one in manager.get(ALL)["items"]] == ["by hand"]


def test_many_keys_are_paged_in_the_order_of_their_names(
    setup: GatewaySetup, start_gateway: Callable[..., Serving]
) -> None:
    for number in range(7):
        setup.add_key(name=f"k{number}", enabled=number % 2 == 0)
    manager = start_gateway(environ={"PROXY_APP_HASH": HASH}).client(MANAGEMENT_KEY)
    page = manager.get(f"{ALL}?limit=3&enabled=true").json()
    assert [one["name"] for one in page["items"]] == ["k0", "k2", "k4"]
    rest = manager.get(f"{ALL}?limit=3&enabled=true&cursor={page['next']}").json()
    assert ([one["name"] for one in rest["items"]], rest["next"]) == (["k6"], "")
