"""The targets of alerts, managed by a program; and what a test message is answered."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentd.cli.main import main
from tests.gateway.alerts.receiver import WEBHOOK_SECRET, AlertReceiver
from tests.gateway.alerts.setup import build_target, write_targets
from tests.gateway.conftest import GatewaySetup
from tests.support.daemon import Client
from tests.support.ports import find_free_port

ALL = "/api/agent/alert-targets"
TOKEN = "T0KEN0KEN0KEN0KEN"


@pytest.fixture
def receiver() -> Iterator[AlertReceiver]:
    with AlertReceiver() as found:
        yield found


def build_request(receiver: AlertReceiver, **more: Any) -> dict[str, Any]:
    known = {"name": "ops", "url": receiver.url, "secret": WEBHOOK_SECRET, "local": True}
    return {**known, **more}


def test_a_target_is_made_shown_changed_and_deleted(
    manager: Client, receiver: AlertReceiver, setup: GatewaySetup
) -> None:
    made = manager.post(ALL, build_request(receiver))
    assert made.status == 201
    assert made.headers["Location"] == f"{ALL}/ops"
    assert made["url"] == f"http://127.0.0.1:{receiver.port}/****0KEN"
    assert made["secret"] == "****LaSw"
    assert oct(Path(setup.layout.alert_targets).stat().st_mode & 0o777) == "0o600"
    changed = manager.patch(f"{ALL}/ops", {"minInterval": 5, "url": made["url"]})
    assert (changed.status, changed["minInterval"]) == (200, 5)
    assert manager.post(f"{ALL}/ops/disable", None)["enabled"] is False
    assert manager.post(f"{ALL}/ops/enable", None)["enabled"] is True
    assert [one["name"] for one in manager.get(ALL)["items"]] == ["ops"]
    assert manager.post(f"{ALL}/ops/test", None)["ok"]
    receiver.received[0].verify()
    assert manager.delete(f"{ALL}/ops").status == 204
    assert manager.get(f"{ALL}/ops").status == 404


def test_a_change_is_undone_with_its_secret(manager: Client, receiver: AlertReceiver) -> None:
    manager.post(ALL, build_request(receiver))
    manager.delete(f"{ALL}/ops")
    (last,) = manager.get("/api/agent/changes?limit=1")["items"]
    assert WEBHOOK_SECRET not in json.dumps(last)
    assert TOKEN not in json.dumps(last)
    assert manager.post(f"/api/agent/changes/{last['number']}/undo", None).status == 200
    assert manager.post(f"{ALL}/ops/test", None)["ok"]
    receiver.received[0].verify()


def test_a_dry_run_changes_nothing_and_an_old_etag_is_refused(
    manager: Client, receiver: AlertReceiver
) -> None:
    assert manager.post(f"{ALL}?dry_run=true", build_request(receiver)).status == 201
    assert manager.get(ALL)["items"] == []
    tag = manager.post(ALL, build_request(receiver)).headers["ETag"]
    manager.patch(f"{ALL}/ops", {"minInterval": 5})
    refused = manager.patch(f"{ALL}/ops", {"minInterval": 6}, {"If-Match": tag})
    assert refused.status == 412


def test_a_secret_is_not_sent_to_another_address(manager: Client, receiver: AlertReceiver) -> None:
    made = manager.post(ALL, build_request(receiver))
    elsewhere = "https://example.org/alerts"
    assert manager.patch(f"{ALL}/ops", {"url": elsewhere}).status == 400
    assert manager.patch(f"{ALL}/ops", {"url": elsewhere, "secret": made["secret"]}).status == 400
    changed = manager.patch(f"{ALL}/ops", {"url": elsewhere, "secret": WEBHOOK_SECRET})
    assert changed["url"] == "https://example.org/****"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"local": False}, "local: true"),
        ({"url": "ftp://example.org"}, "https://example.org/alerts"),
        ({"url": "env:HOOK"}, "by hand"),
        ({"url": ""}, "is missing"),
        ({"secret": ""}, "openssl rand"),
        ({"secret": "password"}, "openssl rand"),
        ({"kind": "slack"}, "remove it"),
        ({"kind": "telegram"}, "is missing: the id of a bot"),
        ({"bot": "helper"}, "remove it"),
        ({"alerts": ["fire"]}, "fire"),
        ({"name": "a b"}, "name"),
        ({"minInterval": -1}, "0"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(
    manager: Client, receiver: AlertReceiver, changes: dict[str, Any], why: str
) -> None:
    refused = manager.post(ALL, build_request(receiver, **changes))
    assert refused.status == 400
    assert why in refused["message"] + refused["details"]
    assert WEBHOOK_SECRET not in refused.body.decode()
    assert manager.get(ALL)["items"] == []


def test_a_test_tells_exactly_what_the_target_answered(
    manager: Client, receiver: AlertReceiver
) -> None:
    manager.post(ALL, build_request(receiver, enabled=False))
    receiver.status, receiver.answer = 403, f"no {TOKEN}, no\nentry".encode()
    assert manager.post(f"{ALL}/ops/test", None).json() == {
        "ok": False,
        "status": 403,
        "answer": f"403 no {TOKEN}, no entry",
    }
    receiver.answer = f"unknown hook {receiver.url} or {WEBHOOK_SECRET}".encode()
    assert manager.post(f"{ALL}/ops/test", None)["answer"] == "403 unknown hook *** or ***"
    receiver.status = 302
    assert "not followed" in manager.post(f"{ALL}/ops/test", None)["answer"]


def test_a_test_tells_that_nobody_listens(manager: Client, receiver: AlertReceiver) -> None:
    nobody = f"http://127.0.0.1:{find_free_port()}/{TOKEN}"
    manager.post(ALL, build_request(receiver, url=nobody))
    result = manager.post(f"{ALL}/ops/test", None).json()
    assert (result["ok"], result["status"]) == (False, None)
    assert TOKEN not in result["answer"]


def test_the_file_is_edited_by_hand_and_its_mistakes_have_a_line(
    manager: Client,
    receiver: AlertReceiver,
    setup: GatewaySetup,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_targets(setup, build_target(receiver, name="by-hand"))
    path = Path(setup.layout.alert_targets)
    path.write_text("# who is told\n" + path.read_text())
    manager.patch(f"{ALL}/by-hand", {"minInterval": 7})
    assert path.read_text().startswith("# who is told\n")
    path.write_text("format: 1\ntargets:\n  - name: ops\n    kind: pigeon\n")
    places = ["--state", setup.layout.state, "--config", setup.layout.config]
    assert main([*places, "proxy", "check"]) != 0
    told = capsys.readouterr().out
    assert f"{path}:4" in told
    path.chmod(0o644)
    path.write_text(json.dumps({"targets": [build_target(receiver)]}))
    assert main([*places, "proxy", "check"]) != 0
    assert "chmod 600" in capsys.readouterr().out


def test_a_secret_may_be_in_a_file_of_its_own(
    manager: Client, receiver: AlertReceiver, setup: GatewaySetup, tmp_path: Path
) -> None:
    secret = tmp_path / "hook-secret"
    secret.write_text(WEBHOOK_SECRET)
    secret.chmod(0o600)
    write_targets(setup, build_target(receiver, secret=f"file:{secret}"))
    assert manager.post(f"{ALL}/ops/test", None)["ok"]
    receiver.received[0].verify()
    assert manager.get(f"{ALL}/ops")["secret"] == f"file:{secret}"
    secret.unlink()
    missing = manager.post(f"{ALL}/ops/test", None)
    assert str(secret) in missing["answer"]
