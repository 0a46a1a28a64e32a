"""Every address with every kind of key, each where it belongs and where it does not."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from agentd.auth.password import HashCost, hash_password
from agentd.auth.roles import User
from agentd.auth.user_store import UserFile
from agentd.gateway.keys.file import AccessKeyFile
from agentd.gateway.keys.model import issue
from agentd.http.access import RouteGroup
from agentd.http.cookies import SessionCookie
from agentd.http.routing import Route
from tests.auth.test_gate_matrix import EVERY, build_path
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.support.daemon import KEY, Client, Reply, Serving, build_request, send_raw
from tests.support.fixtures import Serve

WORD = "the good word of ada"
CLOSED = [
    route
    for route in EVERY
    if route.group not in (RouteGroup.PUBLIC, RouteGroup.OPEN, RouteGroup.LIVE)
    and (route.method, route.path)
    not in (
        ("GET", "/api/events"),
        ("GET", "/api/agent/requests/stream"),
        ("DELETE", "/api/session"),
    )
]
"""Routes that let only some in, and answer at once."""
NAMES = [f"{route.method} {route.path}" for route in CLOSED]


class DaemonWithKeys(NamedTuple):
    """A daemon with one good key of each kind."""

    daemon: Serving
    keys: dict[str, str]


def sign_in(daemon: Serving) -> str:
    """Add an administrator and return the token of a login."""
    UserFile(daemon.layout).add(
        User("ada", "administrator", hash_password(WORD, HashCost(14, 8, 1)))
    )
    signing = {"user": "ada", "password": WORD, "bearer": True}
    return str(daemon.client(None).post("/api/session", signing)["token"])


def add_keys(daemon: Serving) -> DaemonWithKeys:
    """Give the daemon a remote key, an access key, a management key and an administrator."""
    letters, kept = issue("laptop", "2026-01-01T00:00:00.000Z")
    AccessKeyFile(daemon.layout).add(kept)
    token = sign_in(daemon)
    keys = {"remote": KEY, "access": letters, "management": MANAGEMENT_KEY, "login": token}
    return DaemonWithKeys(daemon, keys | {"wrong": "wrong", "another": f"sk-agentd-{'x' * 43}"})


@pytest.fixture(scope="module")
def daemon_with_keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonWithKeys]:
    """Yield one daemon for all tests."""
    with Serving(
        tmp_path_factory.mktemp("daemon-with-keys"), environ={"PROXY_APP_HASH": HASH}
    ) as daemon:
        yield add_keys(daemon)


WAYS = ("x-api-key", "bearer", "x-goog-api-key", "api-key", "?key", "?api_key", "cookie")
HEADERS = ("x-api-key", "x-goog-api-key", "api-key", "bearer", "?key")
"""Headers in which clients of models send their key."""


def is_accepted(route: Route, kind: str, way: str) -> bool:
    """Return whether a key of this kind, sent this way, is accepted by a route."""
    if route.takes_bearer_key and (kind, way) == ("remote", "bearer"):
        return True
    match route.group:
        case RouteGroup.MODELS:
            return kind == "access" and way in HEADERS
        case RouteGroup.MANAGE:
            return (kind, way) in (
                ("management", "x-api-key"),
                ("login", "bearer"),
                ("login", "cookie"),
            )
        case RouteGroup.REMOTE:
            return (kind, way) == ("remote", "x-api-key")
        case _:
            return (kind, way) in (
                ("remote", "x-api-key"),
                ("login", "bearer"),
                ("login", "cookie"),
            )


def ask(
    daemon_with_keys: DaemonWithKeys, route: Route, kind: str, way: str, also: str = ""
) -> Reply:
    """Return a request, which asks for nothing sensible, with a key of a kind sent in a way."""
    key, path = daemon_with_keys.keys[kind], build_path(route)
    lines = ["Connection: close", "Sec-Fetch-Site: same-origin", also or "X-Nothing: 1"]
    match way:
        case "bearer":
            lines.append(f"Authorization: Bearer {key}")
        case "cookie":
            lines.append(f"Cookie: {SessionCookie(daemon_with_keys.daemon.port).name}={key}")
        case "?key" | "?api_key":
            path += f"{way}={key}"
        case _:
            lines.append(f"{way}: {key}")
    (reply,) = send_raw(
        daemon_with_keys.daemon.port, build_request(route.method, path, *lines, key=None)
    )
    return reply


@pytest.mark.parametrize("route", CLOSED, ids=NAMES)
def test_every_kind_of_key_opens_its_own_addresses_and_no_other(
    daemon_with_keys: DaemonWithKeys, route: Route
) -> None:
    """The proxy specification, section 1: neither key is good for the other's requests."""
    for kind in daemon_with_keys.keys:
        for way in WAYS:
            reply = ask(daemon_with_keys, route, kind, way)
            assert reply.status != 500, (kind, way, reply.body)
            refused = reply.status == 401
            assert refused is not is_accepted(route, kind, way), (kind, way, reply.body)
            assert daemon_with_keys.keys[kind].encode() not in reply.body


MODELS = [route for route in CLOSED if route.group is RouteGroup.MODELS]
NEARLY = {
    "empty": "",
    "blank": " ",
    "cut": MANAGEMENT_KEY[:-1],
    "longer": f"{MANAGEMENT_KEY}x",
    "other case": MANAGEMENT_KEY.swapcase(),
    "the hash": HASH,
    "twice": f"{MANAGEMENT_KEY},{MANAGEMENT_KEY}",
    "Bearer": f"Bearer {MANAGEMENT_KEY}",
    "60 KB": "x" * 60_000,
}
MANAGED = [route for route in CLOSED if route.group is RouteGroup.MANAGE]


@pytest.mark.parametrize("route", MODELS, ids=lambda route: f"{route.method} {route.path}")
def test_of_two_keys_that_differ_none_is_valid(
    daemon_with_keys: DaemonWithKeys, route: Route
) -> None:
    for second in ("X-Api-Key: x", f"api-key: {MANAGEMENT_KEY}", f"x-goog-api-key: {KEY}"):
        assert ask(daemon_with_keys, route, "access", "bearer", second).status == 401
    same = f"X-Api-Key: {daemon_with_keys.keys['access']}"
    assert ask(daemon_with_keys, route, "access", "bearer", same).status != 401


@pytest.mark.parametrize("route", MODELS, ids=lambda route: f"{route.method} {route.path}")
def test_refusals_are_reported_in_the_dialect_of_the_address(
    daemon_with_keys: DaemonWithKeys, route: Route
) -> None:
    assert route.error_renderer
    for method, status in ((route.method, 401), ("DELETE", 405)):
        with_key = status == 405
        line = f"x-api-key: {daemon_with_keys.keys['access']}" if with_key else "X-Nothing: 1"
        data = build_request(method, build_path(route), line, "Connection: close", key=None)
        (reply,) = send_raw(daemon_with_keys.daemon.port, data)
        assert reply.status == status
        result = reply.json()
        assert set(result) == set(route.error_renderer.schema["required"])  # type: ignore[call-overload]
        assert "message" in result["error"]
    assert "Allow" in reply.headers


@pytest.mark.parametrize("route", MANAGED, ids=lambda route: f"{route.method} {route.path}")
def test_what_is_nearly_the_management_key_is_refused(
    daemon_with_keys: DaemonWithKeys, route: Route
) -> None:
    """The proxy specification, section 5.4."""
    lines = (f"Authorization: Bearer {daemon_with_keys.keys['login']}", "Connection: close")
    for near, key in NEARLY.items():
        (reply,) = send_raw(
            daemon_with_keys.daemon.port,
            build_request(route.method, build_path(route), *lines, key=key),
        )
        assert (near, reply.status, reply["error"]) == (near, 401, "Unauthorized")
        assert reply["message"] == "Invalid or missing management key"
        assert "X-API-Key" in reply["details"] and "PROXY_APP_HASH" in reply["details"]


@pytest.mark.parametrize("path", ["/api/agent/nothing", "/api/agent/", "/v1/nothing", "/v1beta/x"])
def test_a_path_that_leads_nowhere_has_the_door_of_its_neighbours(
    daemon_with_keys: DaemonWithKeys, path: str
) -> None:
    kind = "management" if "agent" in path else "access"
    for method in ("GET", "POST", "DELETE", "X"):
        for other, key in {**daemon_with_keys.keys, "none": None}.items():
            data = build_request(method, path, "Connection: close", key=key)
            (reply,) = send_raw(daemon_with_keys.daemon.port, data)
            assert reply.status == (404 if other == kind else 401)
            assert "message" in (reply.json() if kind == "management" else reply["error"])


def test_without_a_hash_only_the_management_is_disabled(serve: Serve) -> None:
    """The proxy specification, section 5.3; row 10."""
    daemon = serve()
    for key in (None, KEY, MANAGEMENT_KEY):
        client: Client = daemon.client(key)
        for route in MANAGED:
            reply = client.send(route.method, build_path(route))
            assert (reply.status, reply["error"]) == (503, "Disabled")
            assert "PROXY_APP_HASH" in reply["message"]
    assert daemon.client().get("/api/remote/bots").status == 200
    bearer = {"Authorization": f"Bearer {sign_in(daemon)}"}
    assert daemon.client(None).get("/api/agent", bearer).status == 200, "a login needs no key"
    (reply,) = send_raw(
        daemon.port, build_request("GET", "/v1/models", "Connection: close", key=None)
    )
    assert reply.status == 401


def test_no_log_and_no_file_has_a_key_or_its_sum(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The proxy specification, section 5.5: the caller's address is logged, and no key."""
    with Serving(tmp_path, environ={"PROXY_APP_HASH": HASH}) as daemon:
        daemon_with_keys = add_keys(daemon)
        for route in (CLOSED[0], MODELS[0], MANAGED[0]):
            for kind in daemon_with_keys.keys:
                ask(daemon_with_keys, route, kind, "x-api-key")
    logged = capfd.readouterr().err + caplog.text
    assert f"127.0.0.1 - {MANAGED[0].method} {build_path(MANAGED[0])} 401" in logged
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    files = [path for path in files if path.name != "agentd.yml"]  # the remote key's sum is said
    result = logged.encode() + b"".join(path.read_bytes() for path in files)
    secrets = [
        HASH,
        *(daemon_with_keys.keys[kind] for kind in ("remote", "access", "management", "login")),
    ]
    assert not [one for one in secrets if one.encode() in result]
