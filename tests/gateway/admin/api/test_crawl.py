"""No address of the management tells a secret, in any answer, after everything was set and read."""

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentd.gateway.service_log.note import ServiceLogFilter
from agentd.gateway.service_log.store import read_page
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.gateway.conftest import SECRET, GatewaySetup
from tests.support.daemon import KEY, Client, Reply, Serving

CANARIES = {
    "channel": "canary-channel-key-0001",
    "header": "canary-header-value-0002",
    "proxy": "canary-proxy-password-0003",
    "vpn": "canary-vpn-password-0004",
    "value": "canary-exact-value-0005",
    "export": "canary-export-password-0006",
    "before": "canary-channel-key-of-before-0007",
    "second": "canary-second-channel-key-0008",
    "third": "canary-third-channel-key-0009",
    "alert": "canary-alert-address-0010",
    "signing": "whsec_" + "Q2FuYXJ5U2lnbmluZ1NlY3JldDAwMTEtYWJjZA==",
    "bearer": "canary-alert-bearer-0012",
    "trace": "canary-tracing-header-0013",
    "short": "canary8",
}
"""One in each field that holds a secret; a short one, too, of which nothing may be shown."""


def set_every_secret(manager: Client) -> list[str]:
    """Set every secret, change it, delete and restore it; return those that must not be shown."""
    api = "/api/agent"
    channel = {"dialects": ["openai-chat"], "url": "https://api.example.com"}
    wishes: list[tuple[str, str, Any]] = [
        (
            "POST",
            f"{api}/channels",
            {
                **channel,
                "name": "canary",
                "key": CANARIES["before"],
                "keys": [CANARIES["second"], CANARIES["third"]],
                "headers": {"X-Auth-Token": CANARIES["header"]},
                "transport": {
                    "kind": "http",
                    "url": f"http://me:{CANARIES['proxy']}@proxy.example.com:3128",
                },
            },
        ),
        ("PATCH", f"{api}/channels/canary", {"key": CANARIES["channel"]}),
        ("POST", f"{api}/channels/canary/copy", {"name": "twin"}),
        ("DELETE", f"{api}/channels/twin", None),
        (
            "POST",
            f"{api}/channels",
            {
                **channel,
                "name": "vpn",
                "key": CANARIES["short"],
                "transport": {
                    "kind": "vpn",
                    "url": f"trojan://{CANARIES['vpn']}@vpn.example.com:443#one",
                },
            },
        ),
        ("POST", f"{api}/secret-rules", {"id": "canary", "value": CANARIES["value"]}),
        (
            "PATCH",
            f"{api}/settings",
            {"export": {"url": "http://127.0.0.1:9", "password": CANARIES["export"]}},
        ),
        (
            "PATCH",
            f"{api}/settings",
            {
                "tracing": {
                    "endpoint": "http://127.0.0.1:9",
                    "headers": {"X-Api-Key": CANARIES["trace"]},
                }
            },
        ),
        (
            "POST",
            f"{api}/alert-targets",
            {
                "name": "canary",
                "url": f"https://hooks.example.com/{CANARIES['alert']}",
                "secret": CANARIES["signing"],
            },
        ),
        (
            "POST",
            f"{api}/alert-targets",
            {
                "name": "text",
                "kind": "text",
                "url": f"https://hooks.example.com/{CANARIES['alert']}",
                "secret": CANARIES["bearer"],
            },
        ),
    ]
    for method, path, body in wishes:
        reply = manager.send(method, path, body)
        assert reply.status in (200, 201, 204), reply.body
    made = manager.post(f"{api}/keys", {"name": "canary", "keepBodies": True})["key"]
    other = manager.post(f"{api}/keys/canary/reissue", {"grace": 60})["key"]
    secrets = [*CANARIES.values(), SECRET, MANAGEMENT_KEY, HASH, KEY, made, other]
    return [*secrets, made[-10:], other[-10:]]


def get_every_page(manager: Client) -> dict[str, Reply]:
    """Get every address of the surface, with names that exist."""
    result = manager.get("/api/agent/openapi.json").json()["paths"]
    ids = {key["name"]: key["id"] for key in manager.get("/api/agent/keys")["items"]}
    known = {
        "channels/{name}": ["channels/canary", "channels/vpn", "channels/chat"],
        "models/{name}": ["models/by-chat"],
        "keys/{id}": [f"keys/{ids['canary']}"],
        "secret-rules/{id}": ["secret-rules/canary"],
        "alert-targets/{name}": ["alert-targets/canary", "alert-targets/text"],
        "requests/stream": ["requests/stream?to=2020-01-01"],
    }
    found = {}
    for path, methods in result.items():
        if "get" not in methods or not path.startswith("/api/agent"):
            continue
        for one in known.get(path.removeprefix("/api/agent/"), [path.removeprefix("/api/agent/")]):
            where = re.sub("{.*?}", "1", path if one == path else f"/api/agent/{one}")
            found[where] = manager.get(where)
    return found


def test_no_get_shows_a_secret(setup: GatewaySetup, manager: Client) -> None:
    """The proxy specification, sections 1 and 2: no secret is ever revealed."""
    secrets = set_every_secret(manager)
    found = get_every_page(manager)
    assert len(found) > 12
    for name in ("channels/canary", "alert-targets/canary", "alert-targets/text", "settings"):
        assert found[f"/api/agent/{name}"].status == 200
    for path, reply in found.items():
        assert reply.status in (200, 400, 404), (path, reply.body)
        result = reply.body.decode() + str(reply.headers)
        for secret in secrets:
            assert secret not in result, (path, secret)
    shown = found["/api/agent/channels/vpn"]
    assert shown["key"] == "****"


def test_no_change_or_refusal_shows_a_secret(setup: GatewaySetup, manager: Client) -> None:
    secrets = set_every_secret(manager)
    api = "/api/agent"
    answers = [
        manager.patch(f"{api}/channels/canary", {"timeout": 5}),
        manager.patch(f"{api}/channels/canary", {"url": "nonsense"}),
        manager.patch(f"{api}/channels/canary?dry_run=true", {"transport": {"server": "x"}}),
        manager.patch(f"{api}/channels/canary", {"headers": {"Host": "x"}}),
        manager.post(f"{api}/channels/canary/copy", {"name": "canary"}),
        manager.send("POST", f"{api}/channels/canary/check"),
        manager.send("POST", f"{api}/channels/vpn/check"),
        manager.patch(f"{api}/secret-rules/canary", {"regex": "x"}),
        manager.patch(f"{api}/secret-rules/canary", {"mode": "block"}),
        manager.post(f"{api}/secret-rules/test", {"text": " ".join(secrets)}),
        manager.patch(f"{api}/alert-targets/canary", {"minInterval": 5}),
        manager.patch(f"{api}/alert-targets/canary", {"secret": "nonsense"}),
        manager.patch(f"{api}/settings", {"tracing": {"sample": 2}}),
        manager.patch(f"{api}/settings", {"tracing": {"sample": 0.5}}),
        manager.patch(f"{api}/settings", {"export": {"table": "no good"}}),
        manager.patch(f"{api}/settings", {"export": {"table": "good"}}),
        *(manager.send("POST", f"{api}/changes/{number}/undo") for number in range(20, 0, -1)),
    ]
    assert {reply.status for reply in answers} >= {200, 400, 409}
    for reply in answers:
        for secret in secrets:
            assert secret not in reply.body.decode(), reply.body
    for note in read_page(setup.layout, ServiceLogFilter(), 1000).entries:
        assert not any(secret in note.text for secret in secrets)
    journal = Path(setup.layout.changes).read_text()
    assert not any(secret in journal for secret in secrets)


def test_neither_the_other_surfaces_nor_the_logs_show_one(
    setup: GatewaySetup,
    start_gateway: Callable[..., Serving],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    said = io.StringIO()
    monkeypatch.setattr("sys.stderr", said)
    serving = start_gateway(environ={"PROXY_APP_HASH": HASH})
    secrets = [
        one for one in set_every_secret(serving.client(MANAGEMENT_KEY)) if one not in (HASH, KEY)
    ]
    client = serving.client()
    for path in ("/api/openapi.json", "/api/settings/all", "/metrics", "/api/models"):
        result = client.get(path).body.decode()
        assert not any(secret in result for secret in secrets), path
    serving.stop()
    serving.join()
    logged = said.getvalue() + caplog.text
    assert " management POST /api/agent/channels 201 " in logged
    for secret in secrets:
        assert secret not in logged
