"""Every address with every kind of key, by the routes table itself."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentd.agent import api as agent_api
from agentd.agent.custom_commands import api as commands_api
from agentd.agent.hooks import api as hooks_api
from agentd.agent.mcp_servers import api as mcp_servers_api
from agentd.agent.processes import api as processes_api
from agentd.app import about_api, setup_api, system_api
from agentd.app.http_server import build_table
from agentd.auth import keys_api, logins_api, session_api, users_api
from agentd.auth.gate import REMOTE_DISABLED
from agentd.bots import api as bots_api
from agentd.bots.api import list_remote_routes
from agentd.chats import api as chats_api
from agentd.chats import history_api, queue_api, remote_api
from agentd.chats.analytics import api as analytics_api
from agentd.chats.labels import api as labels_api
from agentd.gateway.admin.api import alerts, description, export
from agentd.gateway.admin.api import routes as manage
from agentd.gateway.relay import api as relay_api
from agentd.gateway.relay import quota_api
from agentd.http.access import RouteGroup
from agentd.http.context import ServerContext
from agentd.http.http_connection import HttpConnection
from agentd.http.routing import Route
from agentd.live import api as live_api
from agentd.mcp import api as mcp_api
from agentd.models import api as models_api
from agentd.schedules import api as schedules_api
from agentd.settings import api as settings_api
from agentd.skills import api as skills_api
from agentd.speech import api as speech_api
from agentd.ui import preferences_api, qr_api, rendering, start_api
from agentd.ui.push import api as push_api
from agentd.workspace import jobs_api
from agentd.workspace.browse import api as browse_api
from agentd.workspace.git import api as git_api
from agentd.workspace.uploads import api as uploads_api
from agentd.workspace.worktrees import api as worktrees_api
from tests.support.daemon import (
    HASH,
    KEY,
    Client,
    Serving,
    build_request,
    read_journals,
    send_raw,
    until,
)
from tests.support.fixtures import Serve

ANY = type("Any", (), {"__getattr__": lambda self, name: name})()
EVERY = build_table(
    remote_api.routes(ANY),
    list_remote_routes(ANY),
    agent_api.routes(ANY),
    session_api.routes(ANY),
    users_api.routes(ANY),
    logins_api.routes(ANY),
    live_api.routes(ANY, ANY),
    system_api.routes(ANY),
    about_api.routes(ANY),
    setup_api.routes(ANY),
    description.routes(ANY),
    settings_api.routes(ANY),
    skills_api.routes(ANY),
    commands_api.routes(ANY),
    models_api.routes(ANY),
    jobs_api.routes(ANY),
    analytics_api.routes(ANY),
    speech_api.routes(ANY),
    git_api.routes(ANY),
    worktrees_api.routes(ANY),
    uploads_api.routes(ANY),
    browse_api.routes(ANY),
    bots_api.routes(ANY),
    mcp_servers_api.routes(ANY),
    hooks_api.routes(ANY),
    processes_api.routes(ANY),
    [remote_api.build_creation_route(ANY)],
    chats_api.routes(ANY),
    history_api.routes(ANY),
    queue_api.routes(ANY),
    labels_api.routes(ANY),
    schedules_api.routes(ANY),
    keys_api.routes(ANY),
    relay_api.routes(ANY),
    quota_api.routes(ANY),
    manage.list_management_routes(
        manage.ManagementEndpoints(*(ANY for _ in manage.ManagementEndpoints._fields))._replace(
            batches=manage.BatchesByResource(ANY, ANY, ANY)
        )
    ),
    export.routes(ANY),
    alerts.routes(ANY),
    preferences_api.routes(ANY),
    push_api.routes(ANY),
    start_api.routes(ANY),
    rendering.routes(),
    qr_api.routes(),
    mcp_api.routes(ANY),
    manage.list_monitoring_routes(
        manage.MonitoringEndpoints(*(ANY for _ in manage.MonitoringEndpoints._fields))
    ),
).routes
BY_OTHER_KEYS = (RouteGroup.MODELS, RouteGroup.MANAGE)
"""The model gateway's doors, which ``test_kinds_of_keys`` tries."""
ROUTES = [
    route
    for route in EVERY
    if route.section != "6" and route.method != "OPTIONS" and route.group not in BY_OTHER_KEYS
]
"""Routes that answer at once; the live ones are tried in ``tests.live``."""
NAMES = [f"{route.method} {route.path}" for route in ROUTES]
GUARDED = [route for route in EVERY if route.group not in (RouteGroup.PUBLIC, *BY_OTHER_KEYS)]
NOWHERE = ["/api", "/api/", "/api/x", "/api/remote", "/api/remote/x", "/api/chats/", "/api/git/x"]
"""Paths that lead nowhere, behind a door all the same."""

BAD = {
    "wrong": "wrong",
    "empty": "",
    "blank": " ",
    "cut": KEY[:-1],
    "longer": KEY + "x",
    "other case": KEY.swapcase(),
    "the hash": HASH,
    "quoted": f'"{KEY}"',
    "Bearer": f"Bearer {KEY}",
    "another": "agent_" + "x" * 32,
    "not ASCII": "\u00e9" * 38,
    "60 KB": "x" * 60_000,
    "with itself": f"{KEY},{KEY}",
    "with NUL": f"{KEY}\\0",
}


def build_path(route: Route) -> str:
    """Return the route's path, with ids that nothing has."""
    return re.sub("{.*?}", "999999", route.path)


def ask(client: Client, route: Route) -> int:
    """Return the status of a request without a sensible content."""
    return client.send(route.method, build_path(route), b"" if route.request_type else None).status


def test_the_table_holds_the_nine_endpoints() -> None:
    """Specification 4: endpoints 1 to 9."""
    found = {f"{route.method} {route.path}": route.section for route in ROUTES}
    chat = "/api/remote/chats/{chatId}"
    nine = [
        "POST /api/remote/chats",
        f"GET {chat}/status",
        f"GET {chat}/messages",
        f"GET {chat}/queue",
        f"POST {chat}/queue",
        f"PUT {chat}/queue/{{promptId}}",
        f"DELETE {chat}/queue/{{promptId}}",
        f"PUT {chat}/queue",
        "GET /api/remote/bots",
    ]
    assert [found[name] for name in nine] == [f"4, E{number}" for number in range(1, 10)]
    surfaces = {route.group for route in ROUTES if route.path.startswith("/api/remote")}
    assert surfaces == {RouteGroup.REMOTE}


@pytest.mark.parametrize("route", GUARDED, ids=lambda route: f"{route.method} {route.path}")
def test_a_wrong_key_is_refused_on_every_route(shared: Serving, route: Route) -> None:
    """Specification 5.5 and 5.8: 401, ``Invalid or missing API key``; with a login token too."""
    lines = ["Cookie: session=good; agentd=good", "Authorization: Bearer good", "Connection: close"]
    for bad, key in BAD.items():
        (reply,) = send_raw(
            shared.port, build_request(route.method, build_path(route), *lines, key=key)
        )
        if reply.status == 400 and bad in ("not ASCII", "with NUL"):  # no header's value at all
            continue
        assert (bad, reply.status, reply["error"]) == (bad, 401, "Unauthorized")
        assert reply["message"] == "Invalid or missing API key"


@pytest.mark.parametrize("route", ROUTES, ids=NAMES)
def test_without_a_key_only_open_routes_answer(shared: Serving, route: Route) -> None:
    """Specification 4: all ``/api/remote`` endpoints require the header; 5.8."""
    status = ask(shared.client(key=None), route)
    closed = route.group in (RouteGroup.REMOTE, RouteGroup.EXTENDED)
    assert status == (401 if closed else 400 if route.request_type else 200)


@pytest.fixture(scope="module")
def named(shared: Serving) -> str:
    """A key of the key file."""
    return shared.new_key("named")


@pytest.mark.parametrize("route", ROUTES, ids=NAMES)
def test_a_valid_key_is_admitted_on_every_route(shared: Serving, route: Route, named: str) -> None:
    """Specification 5.3: either source of keys is accepted."""
    for key in (KEY, named):
        found = ask(shared.client(key), route)
        assert found in (
            (403,) if route.min_role == "administrator" else (200, 201, 204, 400, 404, 415)
        )


@pytest.mark.parametrize("route", GUARDED, ids=lambda route: f"{route.method} {route.path}")
def test_a_key_sent_twice_is_refused(shared: Serving, route: Route) -> None:
    """Specification 5.1: the key is one; of two, nobody can say which was meant."""
    for first, second in [(KEY, KEY), (KEY, "bad"), ("bad", KEY)]:
        lines = [f"X-API-Key: {first}", f"x-api-key: {second}", "Connection: close"]
        (reply,) = send_raw(
            shared.port, build_request(route.method, build_path(route), *lines, key=None)
        )
        assert reply.status == 401


@pytest.mark.parametrize("path", NOWHERE)
def test_an_api_path_that_leads_nowhere_has_a_door_too(shared: Serving, path: str) -> None:
    """Specification 5.5: an invalid key is rejected on every API path."""
    for method in ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "X"):
        assert shared.client("bad").send(method, path).status == 401
        assert shared.client(None).send(method, path).status == 401
        assert shared.client().send(method, path).status == 404


@pytest.mark.parametrize("method", ["OPTIONS", "HEAD", "PATCH", "X"])
def test_the_gate_stands_before_the_method(shared: Serving, method: str) -> None:
    for path in ("/api/remote/chats", "/api/remote/chats/1/queue/1"):
        assert shared.client("bad").send(method, path).status == 401
        assert shared.client(None).send(method, path).status == 401
        assert shared.client().send(method, path).status == 405


def test_the_gate_stands_before_the_body(shared: Serving) -> None:
    for body in (b"", b"{", b'{"prompt":""}', b"x" * (2 * 1024 * 1024)):
        assert shared.client("bad").send("POST", "/api/remote/chats", body).status == 401


@pytest.mark.parametrize("query", [f"api_key={KEY}", f"X-API-Key={KEY}", f"key={KEY}"])
def test_the_address_carries_no_key_here(shared: Serving, query: str) -> None:
    """Specification 5.2: the address parameter is for live connections."""
    assert shared.client(None).get(f"/api/remote/bots?{query}").status == 401
    assert shared.client("bad").get(f"/api/remote/bots?{query}").status == 401


def test_a_wrong_key_in_the_address_does_not_shut_out_a_good_header(shared: Serving) -> None:
    assert shared.client().get("/api/remote/bots?api_key=wrong").status == 200


def test_health_is_reported_to_all_whatever_they_bring(shared: Serving) -> None:
    for key in (None, "bad", KEY):
        reply = shared.client(key).get("/healthz")
        assert (reply.status, reply.json()) == (200, {"status": "ok"})


# Without any source of keys.


@pytest.fixture
def closed(serve: Serve) -> Serving:
    """A daemon that knows no key."""
    return serve(agent_api_key="")


@pytest.mark.parametrize("key", [None, KEY, "bad", ""])
def test_without_any_key_the_remote_api_is_disabled_and_says_why(
    closed: Serving, key: str | None
) -> None:
    """Specification 5.8 and 7, row 'Remote API is disabled': 503, its message names both."""
    for route in ROUTES:
        if route.group is RouteGroup.REMOTE:
            reply = closed.client(key).send(route.method, build_path(route))
            assert (reply.status, reply["error"]) == (503, "Remote API is disabled")
            assert reply["message"] == REMOTE_DISABLED
            assert "AGENT_API_KEY" in REMOTE_DISABLED
            assert "keys.yml" in REMOTE_DISABLED
    assert closed.client(key).get("/api/remote/x").status == 503


def test_without_any_key_open_addresses_are_open_and_extended_ones_want_a_login(
    closed: Serving,
) -> None:
    """Specification 5.7: without a key, the extended paths go by the interface login."""
    assert closed.client(None).get("/healthz").status == 200
    assert closed.client("bad").get("/api/openapi.json").status == 200
    assert closed.client("bad").get("/api/chats").status == 401


@pytest.mark.parametrize("content", ["", "# nothing\n", "format: 1\nkeys: []\n", "keys:\n"])
def test_a_key_file_without_keys_is_no_source(closed: Serving, content: str) -> None:
    """Specification 5.8: disabled when ``keys.yml`` defines no keys."""
    keys = Path(closed.layout.keys)
    keys.write_text(content)
    keys.chmod(0o600)
    client = closed.client()
    until(lambda: client.get("/api/remote/bots").status == 503)


# Keys that come and go.


def test_a_key_opens_the_api_without_a_restart_and_a_deleted_one_no_more(closed: Serving) -> None:
    """Specification 5.3: takes effect at once; revoking one does not affect the others."""
    laptop, phone = closed.new_key("laptop"), closed.new_key("phone")
    one, other = closed.client(laptop), closed.client(phone)
    assert [client.get("/api/remote/bots").status for client in (one, other)] == [200, 200]
    keys = Path(closed.layout.keys)
    entries = keys.read_text().split("- name: ")
    keys.write_text("- name: ".join([entries[0], *(e for e in entries[1:] if "laptop" not in e)]))
    assert one.get("/api/remote/bots").status == 401
    assert other.get("/api/remote/bots").status == 200


def test_a_client_that_called_is_recorded_by_the_keys_name(serve: Serve) -> None:
    """Specification 5.3: each device or program has its own key."""
    daemon = serve()
    daemon.client(daemon.new_key("laptop")).create_chat()
    daemon.client().create_chat()
    callers = [re.findall(b'"by":"(.*?)"', data) for data in read_journals(daemon.layout).values()]
    assert sorted(callers) == [[b"key:environment"], [b"key:laptop"]]


def test_numbers_and_addresses_are_refused_to_a_wrong_key(shared: Serving) -> None:
    for path in ("/metrics", "/api/openapi.json"):
        assert shared.client("bad").get(path).status == 401
        assert shared.client(None).get(path).status == 200
        assert shared.client().get(path).status == 200


@pytest.fixture
def from_afar(monkeypatch: pytest.MonkeyPatch, serve: Serve) -> Iterator[Serving]:
    """A daemon whose callers come from another machine."""
    from agentd.http.request_handler import RequestHandler

    def handle_from_afar(context: ServerContext, connection: HttpConnection) -> RequestHandler:
        connection.remote_ip = "192.0.2.7"
        return RequestHandler(context, connection)

    monkeypatch.setattr("agentd.http.server.RequestHandler", handle_from_afar)
    yield serve()


def test_numbers_are_sent_to_this_machine_and_from_afar_with_a_key(from_afar: Serving) -> None:
    assert from_afar.client(None).get("/metrics").status == 401
    assert from_afar.client("bad").get("/metrics").status == 401
    reply = from_afar.client().get("/metrics")
    assert reply.status == 200
    assert b"\nagentd_chats 0\n" in reply.body
