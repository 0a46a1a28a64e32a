"""Every address with every kind of key, by the routes table itself."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentd.access.gate import DISABLED, Surface
from agentd.web import analytics, speech
from agentd.web.routes import table
from agentd.web.table import Route
from agentd.web.tables import (
    bots,
    catalog,
    chats,
    files,
    gateway,
    git,
    jobs,
    manage,
    manage_export,
    manage_reports,
)
from tests.web.conftest import Serve
from tests.web.support import HASH, KEY, Client, Serving, journals, raw, request, until

ANY = type("Any", (), {"__getattr__": lambda self, name: name})()
CHATS = chats.rows(chats.Desks(ANY, ANY, ANY, ANY, ANY, ANY))
EVERY = table(
    ANY,
    ANY,
    ANY,
    ANY,
    ANY,
    ANY,
    ANY,
    jobs.rows(ANY),
    analytics.rows(ANY),
    speech.rows(ANY),
    git.rows(ANY),
    files.rows(ANY),
    bots.rows(ANY),
    CHATS,
    catalog.rows(ANY, ANY, ANY),
    gateway.rows(ANY, 1024 * 1024),
    manage.rows(manage.Desks(*(ANY for _ in manage.Desks._fields))),
    manage_export.rows(ANY),
    manage_reports.rows(
        manage_reports.ReportDesks(*(ANY for _ in manage_reports.ReportDesks._fields))
    ),
).routes
BY_OTHER_KEYS = (Surface.MODELS, Surface.MANAGE)
"""The model gateway's doors, which ``test_kinds_of_keys`` tries."""
ROUTES = [
    route
    for route in EVERY
    if route.section != "6" and route.method != "OPTIONS" and route.surface not in BY_OTHER_KEYS
]
"""Those that answer at once; the live ones are tried in ``live`` and ``test_event_stream``."""
NAMES = [f"{route.method} {route.path}" for route in ROUTES]
GUARDED = [route for route in EVERY if route.surface not in (Surface.PUBLIC, *BY_OTHER_KEYS)]
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


def path_of(route: Route) -> str:
    """The row's path, with ids that nothing has."""
    return re.sub("{.*?}", "999999", route.path)


def ask(client: Client, route: Route) -> int:
    """The status of a request that asks for nothing sensible."""
    return client.send(route.method, path_of(route), b"" if route.takes else None).status


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
    surfaces = {route.surface for route in ROUTES if route.path.startswith("/api/remote")}
    assert surfaces == {Surface.REMOTE}


@pytest.mark.parametrize("route", GUARDED, ids=lambda route: f"{route.method} {route.path}")
def test_a_wrong_key_is_refused_on_every_route(shared: Serving, route: Route) -> None:
    """Specification 5.5 and 5.8: 401, ``Invalid or missing API key``; with a login token too."""
    lines = ["Cookie: session=good; agentd=good", "Authorization: Bearer good", "Connection: close"]
    for bad, key in BAD.items():
        (reply,) = raw(shared.port, request(route.method, path_of(route), *lines, key=key))
        if reply.status == 400 and bad in ("not ASCII", "with NUL"):  # no header's value at all
            continue
        assert (bad, reply.status, reply["error"]) == (bad, 401, "Unauthorized")
        assert reply["message"] == "Invalid or missing API key"


@pytest.mark.parametrize("route", ROUTES, ids=NAMES)
def test_without_a_key_only_open_routes_answer(shared: Serving, route: Route) -> None:
    """Specification 4: all ``/api/remote`` endpoints require the header; 5.8."""
    status = ask(shared.client(key=None), route)
    closed = route.surface in (Surface.REMOTE, Surface.EXTENDED)
    assert status == (401 if closed else 400 if route.takes else 200)


@pytest.fixture(scope="module")
def named(shared: Serving) -> str:
    """A key of the key file."""
    return shared.new_key("named")


@pytest.mark.parametrize("route", ROUTES, ids=NAMES)
def test_a_good_key_is_let_in_on_every_route(shared: Serving, route: Route, named: str) -> None:
    """Specification 5.3: either source of keys is accepted."""
    for key in (KEY, named):
        found = ask(shared.client(key), route)
        assert found in ((403,) if route.needs == "administrator" else (200, 201, 400, 404, 415))


@pytest.mark.parametrize("route", GUARDED, ids=lambda route: f"{route.method} {route.path}")
def test_a_key_sent_twice_is_refused(shared: Serving, route: Route) -> None:
    """Specification 5.1: the key is one; of two, nobody can say which was meant."""
    for first, second in [(KEY, KEY), (KEY, "bad"), ("bad", KEY)]:
        lines = [f"X-API-Key: {first}", f"x-api-key: {second}", "Connection: close"]
        (reply,) = raw(shared.port, request(route.method, path_of(route), *lines, key=None))
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


def test_health_is_told_to_all_whatever_they_bring(shared: Serving) -> None:
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
        if route.surface is Surface.REMOTE:
            reply = closed.client(key).send(route.method, path_of(route))
            assert (reply.status, reply["error"]) == (503, "Remote API is disabled")
            assert reply["message"] == DISABLED
            assert "AGENT_API_KEY" in DISABLED
            assert "keys.yml" in DISABLED
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


def test_who_called_is_recorded_by_the_keys_name(serve: Serve) -> None:
    """Specification 5.3: each device or program has its own key."""
    daemon = serve()
    daemon.client(daemon.new_key("laptop")).chat()
    daemon.client().chat()
    callers = [re.findall(b'"by":"(.*?)"', data) for data in journals(daemon.layout).values()]
    assert sorted(callers) == [[b"key:environment"], [b"key:laptop"]]


def test_numbers_and_addresses_are_refused_to_a_wrong_key(shared: Serving) -> None:
    for path in ("/metrics", "/api/openapi.json"):
        assert shared.client("bad").get(path).status == 401
        assert shared.client(None).get(path).status == 200
        assert shared.client().get(path).status == 200


@pytest.fixture
def from_afar(monkeypatch: pytest.MonkeyPatch, serve: Serve) -> Iterator[Serving]:
    """A daemon whose callers come from another machine."""
    from agentd.web.exchange import Exchange

    def exchange(desk: object, connection: object, remote_ip: str) -> Exchange:
        return Exchange(desk, connection, "192.0.2.7")  # type: ignore[arg-type]

    monkeypatch.setattr("agentd.web.server.Exchange", exchange)
    yield serve()


def test_numbers_are_told_to_this_machine_and_from_afar_with_a_key(from_afar: Serving) -> None:
    assert from_afar.client(None).get("/metrics").status == 401
    assert from_afar.client("bad").get("/metrics").status == 401
    reply = from_afar.client().get("/metrics")
    assert reply.status == 200
    assert b"\nagentd_chats 0\n" in reply.body
