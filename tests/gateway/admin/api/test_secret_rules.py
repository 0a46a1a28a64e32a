"""The rules of hiding, managed by a program and tried on samples."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentd.gateway.secrets.builtin import BUILT_IN
from tests.gateway.conftest import SECRET, GatewaySetup
from tests.support.daemon import Client

ALL = "/api/agent/secret-rules"
PATTERN = {"id": "ticket", "regex": "TICKET-[0-9]{6}", "description": "Our tickets"}
CANARY = "the-exact-value-0123456789"
VALUE = {"id": "canary", "value": CANARY, "mode": "block"}
AWS = "AKIAIOSFODNN7EXAMPL2"


def find_secrets(manager: Client, text: str, **more: Any) -> list[dict[str, Any]]:
    reply = manager.post(f"{ALL}/test", {"text": text, **more})
    assert reply.status == 200, reply.body
    told: list[dict[str, Any]] = reply["findings"]
    return told


def test_built_in_rules_are_listed_and_can_only_be_switched(manager: Client) -> None:
    names: list[str] = []
    cursor = ""
    while True:
        page = manager.get(f"{ALL}?limit=20&cursor={cursor}").json()
        names += [one["id"] for one in page["items"]]
        if not (cursor := page["next"]):
            break
    assert names == sorted(rule.id for rule in BUILT_IN)
    rule = BUILT_IN[0].id
    assert manager.patch(f"{ALL}/{rule}", {"mode": "block"})["mode"] == "block"
    assert manager.send("POST", f"{ALL}/{rule}/disable")["enabled"] is False
    shown = manager.get(f"{ALL}/{rule}").json()
    assert (shown["kind"], shown["mode"], shown["enabled"]) == ("built-in", "block", False)
    assert manager.patch(f"{ALL}/{rule}", {"regex": "x{9}"}).status == 400
    reply = manager.delete(f"{ALL}/{rule}")
    assert (reply.status, "disable it" in reply["message"]) == (409, True)
    manager.patch(f"{ALL}/{rule}", {"mode": None, "enabled": True})


def test_a_rule_holds_from_when_it_is_written(setup: GatewaySetup, manager: Client) -> None:
    """The proxy specification, section 1: rules are maintained."""
    text = "see TICKET-123456"
    assert find_secrets(manager, text) == []
    reply = manager.post(ALL, PATTERN)
    assert (reply.status, reply["kind"], reply["mode"]) == (201, "pattern", "hide")
    (one,) = find_secrets(manager, text)
    assert one == {"rule": "ticket", "mode": "hide", "line": 1, "offset": 4, "length": 13}
    manager.patch(f"{ALL}/ticket", {"mode": "block", "keywords": ["ticket"]})
    assert manager.post(f"{ALL}/test", {"text": text})["blocked"] == "ticket"
    manager.send("POST", f"{ALL}/ticket/disable")
    assert find_secrets(manager, text) == []
    assert manager.delete(f"{ALL}/ticket").status == 204
    assert "ticket" not in Path(setup.layout.secret_rules).read_text()


def test_a_value_is_never_shown_again(setup: GatewaySetup, manager: Client) -> None:
    reply = manager.post(ALL, VALUE)
    assert (reply.status, reply["kind"], reply["value"]) == (201, "value", "****6789")
    (one,) = find_secrets(manager, f"a\nb {CANARY}!")
    assert one == {"rule": "canary", "mode": "block", "line": 2, "offset": 4, "length": len(CANARY)}
    path = Path(setup.layout.secret_rules)
    assert (CANARY in path.read_text(), path.stat().st_mode & 0o077) == (True, 0)
    shown = manager.get(f"{ALL}/canary")
    kept = manager.patch(f"{ALL}/canary", {"value": shown["value"], "mode": "hide"})
    assert (kept.status, kept["mode"]) == (200, "hide")
    assert CANARY in path.read_text()
    manager.delete(f"{ALL}/canary")
    for where in (ALL, f"{ALL}?limit=200", "/api/agent/changes"):
        assert CANARY.encode() not in manager.get(where).body
    assert manager.send("POST", "/api/agent/changes/3/undo").status == 200
    assert find_secrets(manager, CANARY)[0]["rule"] == "canary"


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "x"},
        {"id": "test", "regex": "x{9}"},
        {"id": "X", "regex": "x{9}"},
        {"id": "x", "regex": "(?=a)b"},
        {"id": "x", "regex": ".*"},
        {"id": "x", "regex": "x{9}", "value": CANARY},
        {"id": "x", "value": "short"},
        {"id": "x", "value": "env:HOME"},
        {"id": "x", "value": "file:/etc/passwd"},
        {"id": "x", "value": "****6789"},
        {"id": "x", "value": CANARY, "entropy": 3},
        {"id": "x", "regex": "x{9}", "mode": "burn"},
        {"id": "x", "regex": "x{9}", "kind": "built-in"},
    ],
)
def test_what_a_rule_cannot_be_is_refused(
    setup: GatewaySetup, manager: Client, wrong: dict[str, Any]
) -> None:
    reply = manager.post(ALL, wrong)
    assert reply.status == 400, reply.body
    assert CANARY.encode() not in reply.body
    assert not Path(setup.layout.secret_rules).exists()


def test_a_taken_id_is_a_conflict(manager: Client) -> None:
    manager.post(ALL, PATTERN)
    for name in ("ticket", BUILT_IN[0].id):
        assert manager.post(ALL, {"id": name, "regex": "x{9}"}).status == 409
        assert manager.post(ALL, {"id": name, "value": CANARY}).status == 409
    reply = manager.get(f"{ALL}/tickett")
    assert (reply.status, 'mean "ticket"' in reply["message"]) == (404, True)


def test_a_dry_run_and_another_version_change_nothing(setup: GatewaySetup, manager: Client) -> None:
    assert manager.post(f"{ALL}?dry_run=true", PATTERN).status == 201
    assert not Path(setup.layout.secret_rules).exists()
    tag = manager.post(ALL, PATTERN).headers["ETag"]
    assert manager.patch(f"{ALL}/ticket", {"mode": "block"}, {"If-Match": tag}).status == 200
    assert manager.patch(f"{ALL}/ticket", {"mode": "hide"}, {"If-Match": tag}).status == 412
    rule = BUILT_IN[0].id
    tag = manager.get(f"{ALL}/{rule}").headers["ETag"]
    assert manager.patch(f"{ALL}/{rule}?dry_run=true", {"mode": "block"})["mode"] == "block"
    assert manager.get(f"{ALL}/{rule}").headers["ETag"] == tag


def test_comments_and_the_rest_of_the_file_stay(setup: GatewaySetup, manager: Client) -> None:
    path = Path(setup.layout.secret_rules)
    rule = BUILT_IN[0].id
    text = "# ours\nrules:\n  # tickets\n  - id: ticket\n    regex: 'TICKET-[0-9]{6}'   # six\n"
    path.write_text(text)
    path.chmod(0o600)
    assert manager.patch(f"{ALL}/{rule}", {"mode": "block"}).status == 200
    assert manager.patch(f"{ALL}/ticket", {"entropy": 2}).status == 200
    assert path.read_text().startswith(text)
    assert manager.patch(f"{ALL}/{rule}", {"mode": None}).status == 200


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# ours\n",
        "rules:\n- id: ticket\n  regex: 'TICKET-[0-9]{6}'   # six\n",
        "built_in:\n  # soft\n  {rule}: {mode: report}  # for now\n",
        "built_in:\n  {rule}:\n    mode: report # for now\n  {other}: {enabled: false}\n",
    ],
)
def test_a_built_in_rule_that_is_switched_off_and_on_leaves_the_file_as_it_was(
    setup: GatewaySetup, manager: Client, text: str
) -> None:
    path = Path(setup.layout.secret_rules)
    rule, other = BUILT_IN[0].id, BUILT_IN[1].id
    text = text.replace("{rule}", rule).replace("{other}", other)
    path.write_text(text)
    path.chmod(0o600)
    assert manager.send("POST", f"{ALL}/{rule}/disable").status == 200
    assert path.read_text() != text
    assert manager.send("POST", f"{ALL}/{rule}/enable").status == 200
    assert path.read_text() == text


def test_a_change_of_a_built_in_rule_is_taken_back(manager: Client) -> None:
    rule = BUILT_IN[0].id
    before = manager.get(f"{ALL}/{rule}").json()
    manager.patch(f"{ALL}/{rule}", {"mode": "block", "enabled": False})
    assert manager.send("POST", "/api/agent/changes/1/undo").status == 200
    assert manager.get(f"{ALL}/{rule}").json() == before


def test_a_rule_can_be_tried_before_it_is_written(setup: GatewaySetup, manager: Client) -> None:
    """The proxy specification, sections 1 and 2: rules are tested as a dry run."""
    text = f"TICKET-123456 and {AWS}"
    rules = [one["rule"] for one in find_secrets(manager, text, rule={**PATTERN, "mode": "report"})]
    assert rules[0] == "ticket"
    assert "ticket" not in [one["rule"] for one in find_secrets(manager, text)]
    assert manager.post(f"{ALL}/test", {"text": "x", "rule": {"id": "x"}}).status == 400


def test_a_sample_is_neither_reported_nor_kept(setup: GatewaySetup, manager: Client) -> None:
    text = json.dumps({"key": AWS, "ours": SECRET})
    reply = manager.post(f"{ALL}/test", {"text": text})
    assert len(reply["findings"]) >= 2
    for secret in (AWS, SECRET):
        assert secret.encode() not in reply.body
    state = Path(setup.layout.state)
    for path in state.rglob("*"):
        if path.is_file():
            assert AWS.encode() not in path.read_bytes()
