"""The gateway's settings, managed by a program."""

from pathlib import Path
from typing import Any

import pytest

from agentd.gateway.settings.model import GatewaySettings
from tests.gateway.conftest import GatewaySetup
from tests.support.daemon import Client, Reply

ALL = "/api/agent/settings"
PASSWORD = "clickhouse-password-0123"


def get_value(reply: Reply, name: str) -> Any:
    return {one["name"]: one["value"] for one in reply["settings"]}[name]


def test_every_setting_is_reported_with_its_default_and_use(manager: Client) -> None:
    """The proxy specification, section 2: settings are read."""
    reply = manager.get(ALL)
    assert [one["name"] for one in reply["settings"]] == list(GatewaySettings.__struct_fields__)
    assert all(one["description"].endswith(".") for one in reply["settings"])
    assert all(one["value"] == one["default"] for one in reply["settings"])
    assert get_value(reply, "bodies") == {"keep_days": 7, "max_bytes": 2**20}
    assert reply["problems"] == []


def test_what_is_changed_is_in_the_file_and_its_comments_stay(
    setup: GatewaySetup, manager: Client
) -> None:
    """The proxy specification, section 1: what is written lands in the same files."""
    path = Path(setup.layout.gateway_settings)
    path.write_text("# ours\ntries: 2   # enough\nbodies: {keep_days: 3, max_bytes: 2048}\n")
    reply = manager.patch(ALL, {"tries": 3, "bodies": {"keep_days": 5}, "mask_secrets": False})
    assert reply.status == 200, reply.body
    assert (get_value(reply, "tries"), get_value(reply, "mask_secrets")) == (3, False)
    text = path.read_text()
    assert "# ours\ntries: 3   # enough\n" in text
    assert get_value(manager.get(ALL), "bodies") == {"keep_days": 5, "max_bytes": 2048}
    assert get_value(manager.patch(ALL, {"tries": None}), "tries") == 4
    assert "tries" not in path.read_text()


@pytest.mark.parametrize(
    "wrong",
    [
        {"tries": 0},
        {"tries": "4"},
        {"try": 4},
        {"time_zone": "Europe/Berlln"},
        {"bodies": {"keep_days": 0}},
        {"export": {"password": "env:HOME"}},
        {"export": {"password": "****"}},
        {"assumed_prices": {"input": -1}},
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(
    setup: GatewaySetup, manager: Client, wrong: dict[str, Any]
) -> None:
    before = Path(setup.layout.gateway_settings).read_bytes()
    reply = manager.patch(ALL, {"mask_secrets": False, **wrong})
    assert reply.status == 400
    assert Path(setup.layout.gateway_settings).read_bytes() == before
    assert manager.get("/api/agent/changes")["items"] == []


def test_a_dry_run_and_another_version_change_nothing(manager: Client) -> None:
    tag = manager.get(ALL).headers["ETag"]
    assert get_value(manager.patch(f"{ALL}?dry_run=true", {"tries": 9}), "tries") == 9
    assert get_value(manager.get(ALL), "tries") == 4
    assert manager.patch(ALL, {"tries": 9}, {"If-Match": tag}).status == 200
    assert manager.patch(ALL, {"tries": 8}, {"If-Match": tag}).status == 412
    assert get_value(manager.get(ALL), "tries") == 9


def test_a_change_of_settings_is_noted_and_taken_back(setup: GatewaySetup, manager: Client) -> None:
    prices = {"input": 0.1, "output": "0.30"}
    manager.patch(ALL, {"tries": 9, "assumed_prices": prices})
    (change,) = manager.get("/api/agent/changes")["items"]
    assert (change["resource"], change["name"]) == ("settings", "assumed_prices, tries")
    assert (change["before"]["tries"], change["after"]["tries"]) == (4, 9)
    manager.patch(ALL, {"mask_secrets": False})
    assert manager.send("POST", "/api/agent/changes/1/undo").status == 200
    now = manager.get(ALL)
    assert (get_value(now, "tries"), get_value(now, "mask_secrets")) == (4, False)
    assert get_value(now, "assumed_prices")["input"] == 5
    assert manager.send("POST", "/api/agent/changes/1/undo").status == 409
    assert manager.send("POST", "/api/agent/changes/3/undo").status == 200
    assert get_value(manager.get(ALL), "assumed_prices")["input"] == 0.1


def test_the_databases_password_is_masked_kept_and_goes_nowhere_else(
    setup: GatewaySetup, manager: Client
) -> None:
    export = {"url": "http://127.0.0.1:9", "password": PASSWORD}
    reply = manager.patch(ALL, {"export": export})
    assert get_value(reply, "export")["password"] == "****0123"
    reply = manager.patch(ALL, {"export": get_value(reply, "export") | {"user": "me"}})
    assert reply.status == 200
    path = Path(setup.layout.gateway_settings)
    assert PASSWORD in path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    elsewhere = {"url": "http://127.0.0.1:10"}
    reply = manager.patch(ALL, {"export": {**elsewhere, "password": "****0123"}})
    assert (reply.status, PASSWORD in path.read_text()) == (400, True)
    assert reply["message"].startswith("export.password: ")
    reply = manager.patch(ALL, {"export": {**elsewhere, "password": PASSWORD}})
    assert get_value(reply, "export")["password"] == "****0123"
    reply = manager.patch(ALL, {"export": {"url": "http://127.0.0.1:11"}})
    assert get_value(reply, "export")["password"] == ""
    assert PASSWORD not in path.read_text()
    assert PASSWORD.encode() not in manager.get("/api/agent/changes").body


def test_the_headers_of_the_collector_are_masked_and_never_sent_elsewhere(
    setup: GatewaySetup, manager: Client
) -> None:
    headers = {"Authorization": f"Bearer {PASSWORD}", "X-Scope": "short"}
    tracing = {"endpoint": "http://127.0.0.1:9", "headers": headers, "enabled": False}
    reply = manager.patch(ALL, {"tracing": tracing})
    masked = {"Authorization": "****0123", "X-Scope": "****"}
    assert get_value(reply, "tracing")["headers"] == masked
    back = get_value(reply, "tracing") | {"sample": 0.5}
    assert get_value(manager.patch(ALL, {"tracing": back}), "tracing")["sample"] == 0.5
    path = Path(setup.layout.gateway_settings)
    assert f"Bearer {PASSWORD}" in path.read_text()  # a mask stands for what is there
    assert path.stat().st_mode & 0o077 == 0

    reply = manager.patch(ALL, {"tracing": {"endpoint": "http://127.0.0.1:10", "headers": masked}})
    assert reply.status == 400
    assert reply["message"].startswith("tracing.headers.Authorization: ")
    reply = manager.patch(ALL, {"tracing": {"endpoint": "http://127.0.0.1:10"}})
    assert get_value(reply, "tracing")["headers"] == {}
    assert PASSWORD not in path.read_text()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-Key", "env:HOME"),
        ("X-Key", "Bearer file:/etc/shadow"),
        ("X-Key", "****"),
        ("Host", "elsewhere"),
        ("X Key", "a"),
        ("X-Key", "a\r\nX-Other: b"),
    ],
)
def test_a_header_of_the_collector_that_cannot_be_is_refused(
    manager: Client, name: str, value: str
) -> None:
    reply = manager.patch(ALL, {"tracing": {"headers": {name: value}}})
    assert reply.status == 400
    assert get_value(manager.get(ALL), "tracing")["headers"] == {}
