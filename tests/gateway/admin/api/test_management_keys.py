"""Named management keys, and what each scope may call: every route is tried with every scope."""

import asyncio
import hashlib
import json
import re
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentd.gateway.admin.changes import ChangeRequest
from agentd.gateway.admin.changes_store import ChangeJournal
from agentd.gateway.ledger.ledger import Ledger
from agentd.gateway.ledger.query import RecordPage
from agentd.gateway.ledger.record import RequestRecord
from agentd.gateway.management_keys.file import ManagementKeyFile
from agentd.gateway.management_keys.model import ManagementKey
from tests.gateway.admin.api.described import Manager
from tests.gateway.conftest import GatewaySetup
from tests.support.daemon import PATIENCE, Client, until

ALL = "/api/agent/management-keys"
SCOPES = ("read", "keys", "all")
KEYS_OF_READERS = {"GET /api/agent/keys", "GET /api/agent/keys/{id}"}
RECORD = RequestRecord(
    id="r-1", at="2026-01-01T00:00:00.000Z", key="k", endpoint="/v1", status=200, outcome="ok"
)
DESCRIPTIONS = {"GET /api/agent", "GET /api/agent/openapi.json"}


@pytest.fixture
def clients(manager: Client) -> Iterator[dict[str, Client]]:
    """A client with a key of each scope, by scope."""
    made: dict[str, Client] = {}
    for scope in SCOPES:
        reply = manager.post(ALL, {"name": f"with-{scope}", "scope": scope})
        assert reply.status == 201, reply.body
        made[scope] = Manager(manager.url, reply["key"])
    yield made
    for client in made.values():
        client.close()


def list_routes(manager: Client) -> list[tuple[str, str]]:
    """Return method and path of all management routes."""
    every = manager.get("/api/agent")["endpoints"]
    return [(one["method"], one["path"]) for one in every if one["path"].startswith("/api/agent")]


def test_every_route_is_open_to_exactly_the_scopes_that_it_names(
    manager: Client, clients: dict[str, Client]
) -> None:
    routes = list_routes(manager)
    assert len(routes) > 60
    named = {
        (one["method"], one["path"]): one["scopes"]
        for one in manager.get("/api/agent")["endpoints"]
    }
    for method, path in routes:
        known = path.replace("{day}", "2026-01-01").replace("{number}", "999999")
        for scope in SCOPES:
            if scope == "all" and method != "GET":
                continue  # it would be done
            address = re.sub(r"\{\w+\}", "nothing-has-this-name", known)
            with closing(Client(manager.url, clients[scope].key)) as client:
                client.connection.request(method, address, headers={"X-API-Key": client.key or ""})
                answer = client.connection.getresponse()
            may = scope in named[method, path]
            assert (answer.status != 403) == may, (method, path, scope, answer.status)


def test_a_reader_changes_nothing_and_a_keys_key_sees_keys_alone(manager: Client) -> None:
    for one in manager.get("/api/agent")["endpoints"]:
        route, scopes = f"{one['method']} {one['path']}", set(one["scopes"])
        if not one["path"].startswith("/api/agent"):
            assert not scopes
            continue
        assert "all" in scopes
        if one["method"] != "GET" or one["path"].startswith(ALL):
            assert "read" not in scopes, route
        is_of_keys = one["path"].partition("/api/agent/keys")[1] or route in DESCRIPTIONS
        assert ("keys" in scopes) == bool(is_of_keys), route
    assert {
        f"{one['method']} {one['path']}"
        for one in manager.get("/api/agent")["endpoints"]
        if "read" in one["scopes"]
    } >= KEYS_OF_READERS


def test_a_refused_scope_is_told_the_one_that_is_needed(clients: dict[str, Client]) -> None:
    reply = clients["read"].post("/api/agent/keys", {"name": "laptop"})
    assert reply.status == 403
    assert reply["message"] == 'This needs a management key of the scope "keys" or "all"'
    assert reply["details"] == 'The scope of "with-read" is "read".'
    assert clients["keys"].post("/api/agent/keys", {"name": "laptop"}).status == 201
    assert clients["keys"].get("/api/agent/channels").status == 403
    assert clients["read"].get(ALL).status == 403


def test_a_key_is_told_its_own_scope(manager: Client, clients: dict[str, Client]) -> None:
    for scope, client in clients.items():
        assert client.get("/api/agent")["caller"] == {
            "name": f"management:with-{scope}",
            "scope": scope,
        }
        text = client.get("/api/agent", {"Accept": "text/markdown"}).body.decode()
        assert f"You are `management:with-{scope}`, with the scope `{scope}`." in text
    assert manager.get("/api/agent")["caller"] == {"name": "management", "scope": "all"}


def test_a_key_is_shown_once_and_kept_as_a_hash(setup: GatewaySetup, manager: Client) -> None:
    tried = manager.post(f"{ALL}?dry_run=true", {"name": "monitor", "scope": "read"})
    assert (tried.status, tried["key"]) == (201, "")
    made = manager.post(ALL, {"name": "monitor", "scope": "read"})
    key = made["key"]
    file = Path(setup.layout.management_keys)
    assert file.stat().st_mode & 0o777 == 0o600
    for text in (
        file.read_bytes(),
        manager.get(ALL).body,
        manager.get(f"{ALL}/monitor").body,
        manager.get("/api/agent/changes").body,
    ):
        assert b"monitor" in text
        assert key.encode() not in text
        assert key[-12:].encode() not in text
    assert b"sha256" not in manager.get("/api/agent/changes").body
    again = manager.post(ALL, {"name": "monitor", "scope": "read"})
    assert (again.status, "already" in again["message"]) == (409, True)


def test_last_use_is_shown_and_survives_a_restart(
    setup: GatewaySetup, manager: Client, clients: dict[str, Client]
) -> None:
    assert manager.get(f"{ALL}/with-read")["lastUsed"] is None
    assert clients["read"].get("/api/agent/summary").status == 200
    used = manager.get(f"{ALL}/with-read")["lastUsed"]
    assert used
    assert setup.daemon
    setup.daemon.stop()
    kept = until(lambda: _read_json(Path(setup.layout.management_keys_used)))
    assert used in kept["lastUsed"].values()


def _read_json(path: Path) -> Any:
    return json.loads(path.read_bytes()) if path.exists() else None


def test_the_journal_and_the_log_name_the_key_that_changed_something(
    manager: Client, clients: dict[str, Client]
) -> None:
    made = clients["keys"].post("/api/agent/keys", {"name": "laptop"}).json()
    change = manager.get("/api/agent/changes?limit=1")["items"][0]
    assert (change["by"], change["name"]) == ("management:with-keys", made["id"])
    assert manager.get(f"/api/agent/keys/{made['id']}")["createdBy"] == "management:with-keys"
    noted = until(
        lambda: [
            one["text"]
            for one in manager.get("/api/agent/service-log?kind=changed")["items"]
            if made["id"] in one["text"]
        ]
    )
    number = change["number"]
    assert noted == [f"management:with-keys: create keys {made['id']} (change {number})"]


@pytest.mark.parametrize("ending", ["remove", "disable", "by hand"])
def test_a_key_that_ended_opens_nothing_from_the_next_request_on(
    setup: GatewaySetup, manager: Client, clients: dict[str, Client], ending: str
) -> None:
    reader = clients["read"]
    assert reader.get("/api/agent/summary").status == 200
    if ending == "remove":
        assert manager.delete(f"{ALL}/with-read").status == 204
    elif ending == "disable":
        assert manager.post(f"{ALL}/with-read/disable", None)["enabled"] is False
    else:
        Path(setup.layout.management_keys).write_text("keys: []\n")
    assert reader.get("/api/agent/summary").status == 401
    assert manager.get("/api/agent/summary").status == 200


def test_an_old_copy_of_the_file_brings_no_removed_key_back_but_undo_does(
    setup: GatewaySetup, manager: Client, clients: dict[str, Client]
) -> None:
    file = Path(setup.layout.management_keys)
    old = file.read_bytes()
    assert manager.delete(f"{ALL}/with-read").status == 204
    file.write_bytes(old)
    assert clients["read"].get("/api/agent/summary").status == 401
    assert clients["keys"].get("/api/agent/keys").status == 200
    problems = [one["what"] for one in until(lambda: list_problems(setup))]
    assert any("with-read was removed, and is not accepted" in what for what in problems)
    number = manager.get("/api/agent/changes?limit=1")["items"][0]["number"]
    undone = manager.post(f"/api/agent/changes/{number}/undo", None)
    assert undone.status == 409  # the entry is there again: nothing to add
    file.write_bytes(b"keys: []\n")
    assert manager.post(f"/api/agent/changes/{number}/undo", None).status == 200
    assert clients["read"].get("/api/agent/summary").status == 200


def list_problems(setup: GatewaySetup) -> list[dict[str, Any]]:
    assert setup.daemon
    with closing(setup.daemon.client()) as client:
        return [
            one
            for one in client.get("/api/settings/all")["problems"]
            if "management-keys" in one["where"]
        ]


def test_a_changed_scope_counts_at_once_and_can_be_undone(
    manager: Client, clients: dict[str, Client]
) -> None:
    etag = manager.get(f"{ALL}/with-read").headers["ETag"]
    changed = manager.patch(f"{ALL}/with-read", {"scope": "keys"}, {"If-Match": etag})
    assert (changed.status, changed["scope"]) == (200, "keys")
    assert clients["read"].get("/api/agent/channels").status == 403
    stale = manager.patch(f"{ALL}/with-read", {"scope": "all"}, {"If-Match": etag})
    assert stale.status == 412
    number = manager.get("/api/agent/changes?limit=1")["items"][0]["number"]
    assert manager.post(f"/api/agent/changes/{number}/undo", None).status == 200
    assert clients["read"].get("/api/agent/channels").status == 200


def test_a_hash_written_by_hand_opens_and_a_mistake_is_told_by_line(
    setup: GatewaySetup, manager: Client
) -> None:
    digest = hashlib.sha256(b"made elsewhere").hexdigest()
    file = Path(setup.layout.management_keys)
    entry = f"keys:\n  - name: elsewhere\n    scope: read\n    sha256: {digest}\n"
    file.write_text(entry)
    with closing(Client(manager.url, "made elsewhere")) as client:
        assert client.get("/api/agent/summary").status == 200
        file.write_text(entry.replace("scope: read", "scope: reed"))
        assert client.get("/api/agent/summary").status == 401
        assert manager.get("/api/agent/summary").status == 200
        (problem,) = list_problems(setup)
        assert (problem["where"].endswith("management-keys.yml"), problem["line"]) == (True, 3)
        assert manager.post(ALL, {"name": "other", "scope": "read"}).status == 409
        file.write_text(entry)
        assert client.get("/api/agent/summary").status == 200


def test_a_named_key_issues_no_login_that_would_outlive_it(clients: dict[str, Client]) -> None:
    reply = clients["all"].post("/api/agent/session", None)
    assert (reply.status, "outlive" in reply["message"]) == (403, True)


def test_named_keys_open_without_the_environment_and_nothing_is_disabled_then(
    setup: GatewaySetup, start_gateway: Any
) -> None:
    daemon = start_gateway()
    digest = hashlib.sha256(b"elsewhere").hexdigest()
    with closing(daemon.client("elsewhere")) as client:
        assert client.get("/api/agent").status == 503
        Path(setup.layout.management_keys).write_text(
            f"keys: [{{name: elsewhere, scope: read, sha256: {digest}}}]\n"
        )
        assert client.get("/api/agent").status == 200
    with closing(daemon.client("wrong")) as client:
        assert client.get("/api/agent").status == 401


def test_an_open_stream_ends_when_its_key_is_revoked(
    manager: Client, clients: dict[str, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read_endlessly(*_: Any, **__: Any) -> RecordPage:
        await asyncio.sleep(0.01)
        return RecordPage([RECORD], "more")

    monkeypatch.setattr(Ledger, "read_page", read_endlessly)
    headers = {"X-API-Key": clients["read"].key or ""}
    url = f"{manager.url}/api/agent/requests?format=csv"
    with httpx.stream("GET", url, headers=headers, timeout=60) as answer:
        lines = answer.iter_lines()
        assert answer.status_code == 200
        assert next(lines).startswith("id,at")
        assert manager.delete(f"{ALL}/with-read").status == 204
        with pytest.raises(httpx.RemoteProtocolError):
            for _ in range(5000):  # some minute
                assert next(lines)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (ALL, {"name": "child", "scope": "all"}),
        ("/api/agent/keys", {"name": "child"}),
    ],
)
def test_a_change_that_waits_for_its_turn_is_refused_once_its_key_is_revoked(
    manager: Client,
    clients: dict[str, Client],
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    body: dict[str, Any],
) -> None:
    """Whoever has a leaked key must not get another one with it."""
    removing, waits = threading.Event(), threading.Event()
    hold, remove = ChangeJournal.hold, ManagementKeyFile.remove

    def note(self: ChangeJournal, request: ChangeRequest) -> AbstractAsyncContextManager[None]:
        if request.by == "management:with-all":
            waits.set()
        return hold(self, request)

    def remove_later(self: ManagementKeyFile, *given: Any, **more: Any) -> ManagementKey:
        removing.set()
        assert waits.wait(PATIENCE)
        return remove(self, *given, **more)

    monkeypatch.setattr(ChangeJournal, "hold", note)
    monkeypatch.setattr(ManagementKeyFile, "remove", remove_later)
    with ThreadPoolExecutor() as pool:
        removal = pool.submit(manager.delete, f"{ALL}/with-all")
        assert removing.wait(PATIENCE)
        assert clients["all"].post(path, body).status == 401
        assert removal.result().status == 204
    names = {one["name"] for one in manager.get(ALL)["items"]}
    assert names == {"with-read", "with-keys"}
    assert manager.get("/api/agent/keys")["items"] == []


@pytest.mark.parametrize("path", [ALL, "/api/agent/keys"])
def test_a_key_that_a_terminal_revokes_meanwhile_gets_no_other_key(
    setup: GatewaySetup,
    clients: dict[str, Client],
    monkeypatch: pytest.MonkeyPatch,
    path: str,
) -> None:
    hold = ChangeJournal.hold

    @asynccontextmanager
    async def revoke_after(self: ChangeJournal, request: ChangeRequest) -> AsyncIterator[None]:
        async with hold(self, request):
            yield
            file = ManagementKeyFile(setup.layout)
            await asyncio.to_thread(file.remove, "with-all", at=RECORD.at)

    monkeypatch.setattr(ChangeJournal, "hold", revoke_after)
    body = {"name": "child", **({"scope": "all"} if path == ALL else {})}
    reply = clients["all"].post(path, body)
    assert (reply.status, b"agentd-" in reply.body) == (401, False)
