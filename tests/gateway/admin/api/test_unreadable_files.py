"""What cannot be read from its file is unavailable, and not told to be gone."""

from pathlib import Path
from typing import Any

import pytest

from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.gateway.conftest import GatewaySetup
from tests.support.daemon import Client, Serving, until

KEYS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "access_keys": ("keys", {"name": "laptop"}, {"enabled": False}),
    "management_keys": ("management-keys", {"name": "laptop", "scope": "all"}, {"scope": "read"}),
}
"""Their file in the layout, their path, one of them and a patch for it."""


@pytest.mark.parametrize("file", list(KEYS))
def test_a_key_is_unavailable_while_its_file_cannot_be_read(
    setup: GatewaySetup, manager: Client, file: str
) -> None:
    kind, new, patch = KEYS[file]
    assert manager.post(f"/api/agent/{kind}", new).status == 201
    address = f"/api/agent/{kind}/laptop"
    path = Path(getattr(setup.layout, file))
    kept = path.rename(path.with_name("kept"))
    path.mkdir()
    for method, body in (("GET", None), ("PATCH", patch), ("DELETE", None)):
        refused = manager.send(method, address, body)
        assert refused.status == 503, (method, refused.body)
        assert str(path) in refused["details"]
    path.rmdir()
    kept.rename(path)
    assert manager.send("PATCH", address, patch).status == 200
    assert manager.send("DELETE", address).status == 204
    assert manager.get(address).status == 404


FOLLOWED = [
    ("channels", "channels"),
    ("models", "models"),
    ("budgets", "budgets"),
    ("alert_targets", "alert-targets"),
]
"""Files whose last valid content stays in force, and their paths."""


@pytest.mark.parametrize(("file", "kind"), FOLLOWED)
def test_what_a_file_may_have_is_unavailable_while_it_is_not_in_force(
    setup: GatewaySetup, manager: Client, file: str, kind: str
) -> None:
    path = Path(getattr(setup.layout, file))
    before = path.read_text() if path.exists() else "{}"
    path.write_text(before + "\n- [")
    address = f"/api/agent/{kind}/by-hand"
    until(lambda: manager.get(address).status == 503)
    for method, body in (("GET", None), ("PATCH", {"enabled": False}), ("DELETE", None)):
        refused = manager.send(method, address, body)
        assert refused.status == 503, (method, refused.body)
        assert f"{path}:" in refused["details"]
    path.write_text(before)
    until(lambda: manager.get(address).status == 404)


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        *FOLLOWED,
        ("secret_rules", "secret-rules"),
        *((file, kind) for file, (kind, *_) in KEYS.items()),
    ],
)
def test_a_list_is_not_empty_but_unavailable_if_its_file_was_invalid_at_the_start(
    setup: GatewaySetup, file: str, kind: str
) -> None:
    """A program that makes what is missing would else believe that nothing is there."""
    path = Path(getattr(setup.layout, file))
    setup.write()
    before = path.read_text() if path.exists() else "{}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(before + "\n- [")
    path.chmod(0o600)
    with Serving(setup.folder, environ={"PROXY_APP_HASH": HASH}) as daemon:
        manager = daemon.client(MANAGEMENT_KEY)
        refused = manager.get(f"/api/agent/{kind}")
        assert (refused.status, refused["error"]) == (503, "Unavailable")
        assert f"{path}:" in refused["details"]
        path.write_text(before)
        until(lambda: manager.get(f"/api/agent/{kind}").status == 200)


def test_a_rule_that_is_not_built_in_is_unavailable_while_the_file_cannot_be_read(
    setup: GatewaySetup, manager: Client
) -> None:
    path = Path(setup.layout.secret_rules)
    path.mkdir(parents=True)
    address = "/api/agent/secret-rules"
    for method, body in (("GET", None), ("PATCH", {"enabled": False}), ("DELETE", None)):
        refused = manager.send(method, f"{address}/ticket", body)
        assert refused.status == 503, (method, refused.body)
        assert str(path) in refused["details"]
    assert manager.get(f"{address}/github").status == 200
    path.rmdir()
    assert manager.get(f"{address}/ticket").status == 404
    path.write_text("rules: [{id: ticket, regex: 'T-[0-9]{6}'}]\n")
    path.chmod(0o600)
    assert manager.send("PATCH", f"{address}/ticket", {"enabled": False}).status == 200
    assert manager.send("DELETE", f"{address}/ticket").status == 204


def test_no_text_is_called_free_of_secrets_by_rules_that_were_never_valid(
    setup: GatewaySetup,
) -> None:
    setup.write()
    path = Path(setup.layout.secret_rules)
    path.write_text("rules: [{id: ticket, regex: 'T-([0-9]{6}'}]\n")
    path.chmod(0o600)
    sample = {"text": "see T-123456"}
    with Serving(setup.folder, environ={"PROXY_APP_HASH": HASH}) as daemon:
        manager = daemon.client(MANAGEMENT_KEY)
        refused = manager.post("/api/agent/secret-rules/test", sample)
        assert (refused.status, refused["error"]) == (503, "Unavailable")
        assert f"{path}:" in refused["details"]
        path.write_text("rules: [{id: ticket, regex: 'T-[0-9]{6}'}]\n")
        until(lambda: manager.get("/api/agent/secret-rules/ticket").status == 200)
        found = manager.post("/api/agent/secret-rules/test", sample)
        assert [one["rule"] for one in found["findings"]] == ["ticket"]
