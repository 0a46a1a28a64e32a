"""What a person saves in a file holds for the next request, before any watcher reports it."""

from pathlib import Path
from typing import Any

import pytest

from agentd.storage.folder_watcher import FolderWatcher
from tests.gateway.conftest import PRICES, GatewaySetup
from tests.support.daemon import Client


@pytest.fixture(autouse=True)
def no_watcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watcher is as slow as can be: it watches no folder."""
    monkeypatch.setattr(FolderWatcher, "add", lambda *_: None)


def build_by_hand(setup: GatewaySetup) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the file of each kind of resource, and its content with one called ``by-hand``."""
    layout = setup.layout
    channel = setup.build_channel("by-hand", "openai-chat")
    route = {"channel": "chat", "model": "scripted-large"}
    model = {"name": "by-hand", "routes": [route], "prices": PRICES}
    return {
        "channels": (layout.channels, {"channels": [*setup.channels, channel]}),
        "models": (layout.models, {"proxy": [*setup.models, model]}),
        "budgets": (layout.budgets, {"budgets": [{"name": "by-hand", "tag": "t"}]}),
        "alert-targets": (
            layout.alert_targets,
            {"targets": [{"name": "by-hand", "kind": "text", "url": "https://example.org/a"}]},
        ),
        "secret-rules": (
            layout.secret_rules,
            {"rules": [{"id": "by-hand", "regex": "tkt_[a-z]{20}"}]},
        ),
    }


def save(setup: GatewaySetup, kind: str) -> None:
    """Save the file as a person does."""
    if kind == "keys":
        setup.add_key(name="by-hand")
        return
    path, content = build_by_hand(setup)[kind]
    Path(path).touch(mode=0o600)
    Path(path).write_text(setup.encode_yaml(content))


@pytest.mark.parametrize(
    "kind", ["channels", "models", "budgets", "alert-targets", "secret-rules", "keys"]
)
@pytest.mark.parametrize(
    ("method", "action", "body", "status"),
    [
        ("GET", "", None, 200),
        ("PATCH", "", {"enabled": False}, 200),
        ("POST", "/disable", None, 200),
        ("DELETE", "", None, 204),
    ],
)
def test_one_that_was_added_by_hand_is_there_at_once(
    setup: GatewaySetup,
    manager: Client,
    kind: str,
    method: str,
    action: str,
    body: dict[str, Any] | None,
    status: int,
) -> None:
    assert manager.get(f"/api/agent/{kind}/by-hand").status == 404
    save(setup, kind)
    assert manager.send(method, f"/api/agent/{kind}/by-hand{action}", body).status == status


def test_lists_problems_and_settings_are_those_of_the_files(
    setup: GatewaySetup, manager: Client
) -> None:
    save(setup, "channels")
    assert "by-hand" in [one["name"] for one in manager.get("/api/agent/channels")["items"]]
    Path(setup.layout.gateway_settings).write_text("time_zone: Europe/Berlin\n")
    settings = manager.get("/api/agent/settings")["settings"]
    assert "Europe/Berlin" in [one["value"] for one in settings]
    Path(setup.layout.models).write_text("proxy: 7\n")
    (problem,) = manager.get("/api/agent/summary")["problems"]
    assert setup.layout.models in problem


def test_a_channel_of_a_model_that_was_written_by_hand_is_in_use(
    setup: GatewaySetup, manager: Client
) -> None:
    new = {"name": "spare", "dialects": ["openai-chat"], "url": setup.supplier.url, "local": True}
    assert manager.post("/api/agent/channels", new).status == 201
    model = {"name": "new", "routes": [{"channel": "spare", "model": "m"}], "prices": PRICES}
    Path(setup.layout.models).write_text(setup.encode_yaml({"proxy": [*setup.models, model]}))
    refused = manager.send("DELETE", "/api/agent/channels/spare")
    assert refused.status == 409
    assert '"new"' in refused["message"]


def test_a_model_can_use_a_channel_that_was_just_written(
    setup: GatewaySetup, manager: Client
) -> None:
    save(setup, "channels")
    route = {"channel": "by-hand", "model": "m"}
    new = {"name": "new", "routes": [route], "prices": {"input": 1, "output": 1}}
    assert manager.post("/api/agent/models", new).status == 201
