"""The balance of a channel, as managers read it."""

from contextlib import closing
from typing import Any

import pytest

from tests.gateway.admin.api.described import Manager
from tests.gateway.conftest import SECRET, GatewaySetup

CHANNEL = "/api/agent/channels/chat"
SECOND = "sk-second-0123456789abcdef"


def tell(*balances: tuple[str, str]) -> dict[str, Any]:
    rows = [{"currency": currency, "total_balance": amount} for currency, amount in balances]
    return {"balance_infos": rows}


@pytest.fixture
def asked(setup: GatewaySetup) -> GatewaySetup:
    """A channel with two keys whose supplier tells its balance."""
    setup.channels[0] |= {"balance": {"source": "deepseek", "low": "5.5"}, "keys": [SECOND]}
    setup.supplier.documents["/user/balance"] = tell(("USD", "5.25"))
    return setup


def test_it_is_read_on_demand_and_shown_by_the_state_and_the_metrics(
    asked: GatewaySetup, manager: Manager
) -> None:
    before = manager.get(f"{CHANNEL}/state")["balance"]
    assert [(one["amount"], one["readAt"], one["error"]) for one in before["keys"]] == [
        (None, None, "")
    ] * 2
    assert "channel_balance" not in manager.get("/api/agent/metrics").body.decode()
    found = manager.post(f"{CHANNEL}/balance", {})
    assert found.status == 200, found.body
    assert (found["source"], found["low"]) == ("deepseek", 5.5)
    assert [(one["field"], one["amount"], one["low"]) for one in found["keys"]] == [
        ("key", 5.25, True),
        ("keys[0]", 5.25, True),
    ]
    assert manager.get(f"{CHANNEL}/state")["balance"] == found.json()
    metrics = manager.get("/api/agent/metrics").body.decode()
    labels = 'channel="chat",key="keys[0]",currency="USD"'
    assert f"agentd_gateway_channel_balance{{{labels}}} 5.25" in metrics
    for secret in (SECRET, SECOND):
        assert secret not in found.body.decode() + metrics
        assert any(secret in one.headers.get("authorization", "") for one in asked.supplier.others)


def test_a_failed_reading_keeps_the_amount_and_tells_no_key(
    asked: GatewaySetup, manager: Manager
) -> None:
    manager.post(f"{CHANNEL}/balance", {})
    asked.supplier.documents["/user/balance"] = (401, {"error": f"no such key: {SECRET}"})
    found = manager.post(f"{CHANNEL}/balance", {})
    assert found.status == 200
    first = found["keys"][0]
    assert (first["amount"], first["low"]) == (5.25, True)
    assert first["error"] == "it does not accept its key for this (HTTP 401)"
    assert SECRET not in found.body.decode()
    read = 'agentd_gateway_channel_balance_read{channel="chat",key="key"} 0'
    assert read in manager.get("/api/agent/metrics").body.decode()


def test_it_is_set_changed_and_undone_like_other_settings(
    asked: GatewaySetup, manager: Manager
) -> None:
    assert manager.get(CHANNEL)["balance"] == {"source": "deepseek", "low": 5.5}
    changed = manager.patch(CHANNEL, {"balance": {"low": 7}})
    assert changed["balance"] == {"source": "deepseek", "low": 7}
    number = manager.get("/api/agent/changes?limit=1")["items"][0]["number"]
    assert manager.send("POST", f"/api/agent/changes/{number}/undo").status < 300
    assert manager.get(CHANNEL)["balance"]["low"] == 5.5
    for wrong in ({"low": -1}, {"low": "NaN"}, {"source": "bank"}):
        assert manager.patch(CHANNEL, {"balance": wrong}).status == 400
    off = manager.patch(CHANNEL, {"balance": {"source": "off"}})
    assert off.status == 200
    assert manager.get(f"{CHANNEL}/state")["balance"] is None
    refused = manager.post(f"{CHANNEL}/balance", {})
    assert (refused.status, refused["error"]) == (400, "BadRequest")


def test_a_key_that_may_only_read_does_not_call_the_supplier(
    asked: GatewaySetup, manager: Manager
) -> None:
    made = manager.post("/api/agent/management-keys", {"name": "monitor", "scope": "read"})
    with closing(Manager(manager.url, made["key"])) as reader:
        assert reader.post(f"{CHANNEL}/balance", {}).status == 403
        assert reader.get(f"{CHANNEL}/state")["balance"]["source"] == "deepseek"
    assert asked.supplier.others == []
