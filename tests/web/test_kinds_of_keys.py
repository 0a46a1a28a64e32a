"""Every address with every kind of key, each where it belongs and where it does not."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from agentd.access.gate import Surface
from agentd.access.login import User
from agentd.access.password import Cost, hashed
from agentd.disk.access_keys import AccessKeyFile
from agentd.disk.users import UserFile
from agentd.proxy.access_key import issue
from agentd.web.cookies import NAME
from agentd.web.table import Route
from tests.web.conftest import Serve
from tests.web.manage.conftest import HASH, MANAGEMENT_KEY
from tests.web.support import KEY, Client, Reply, Serving, raw, request
from tests.web.test_gate_matrix import EVERY, path_of

WORD = "the good word of ada"
CLOSED = [
    route
    for route in EVERY
    if route.surface not in (Surface.PUBLIC, Surface.OPEN, Surface.LIVE)
    and (route.method, route.path) not in (("GET", "/api/events"), ("DELETE", "/api/session"))
]
"""Those that let only some in, and answer at once."""
NAMES = [f"{route.method} {route.path}" for route in CLOSED]


class House(NamedTuple):
    """A daemon with one good key of each kind."""

    daemon: Serving
    keys: dict[str, str]


def furnished(daemon: Serving) -> House:
    """Let it know a remote key, an access key, a management key and an administrator."""
    letters, kept = issue("laptop", "2026-01-01T00:00:00.000Z")
    AccessKeyFile(daemon.layout).add(kept)
    UserFile(daemon.layout).add(User("ada", "administrator", hashed(WORD, Cost(14, 8, 1))))
    signing = {"user": "ada", "password": WORD, "bearer": True}
    token = daemon.client(None).post("/api/session", signing)["token"]
    keys = {"remote": KEY, "access": letters, "management": MANAGEMENT_KEY, "login": token}
    return House(daemon, keys | {"wrong": "wrong", "another": f"sk-agentd-{'x' * 43}"})


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One for all tests."""
    with Serving(tmp_path_factory.mktemp("house"), environ={"PROXY_APP_HASH": HASH}) as daemon:
        yield furnished(daemon)


WAYS = ("x-api-key", "bearer", "x-goog-api-key", "api-key", "?key", "?api_key", "cookie")
HEADERS = ("x-api-key", "x-goog-api-key", "api-key", "bearer", "?key")
"""Where clients of models put their key."""


def opens(surface: Surface, kind: str, way: str) -> bool:
    """Whether a key of this kind, sent this way, belongs to a surface."""
    match surface:
        case Surface.MODELS:
            return kind == "access" and way in HEADERS
        case Surface.MANAGE:
            return (kind, way) in (
                ("management", "x-api-key"),
                ("login", "bearer"),
                ("login", "cookie"),
            )
        case Surface.REMOTE:
            return (kind, way) == ("remote", "x-api-key")
        case _:
            return (kind, way) in (
                ("remote", "x-api-key"),
                ("login", "bearer"),
                ("login", "cookie"),
            )


def ask(house: House, route: Route, kind: str, way: str, also: str = "") -> Reply:
    """One request, which asks for nothing sensible, with a key of a kind sent in a way."""
    key, path = house.keys[kind], path_of(route)
    lines = ["Connection: close", "Sec-Fetch-Site: same-origin", also or "X-Nothing: 1"]
    match way:
        case "bearer":
            lines.append(f"Authorization: Bearer {key}")
        case "cookie":
            lines.append(f"Cookie: {NAME}={key}")
        case "?key" | "?api_key":
            path += f"{way}={key}"
        case _:
            lines.append(f"{way}: {key}")
    (reply,) = raw(house.daemon.port, request(route.method, path, *lines, key=None))
    return reply


@pytest.mark.parametrize("route", CLOSED, ids=NAMES)
def test_every_kind_of_key_opens_its_own_addresses_and_no_other(house: House, route: Route) -> None:
    """The proxy specification, section 1: neither key is good for the other's requests."""
    for kind in house.keys:
        for way in WAYS:
            reply = ask(house, route, kind, way)
            assert reply.status != 500, (kind, way, reply.body)
            refused = reply.status == 401
            assert refused is not opens(route.surface, kind, way), (kind, way, reply.body)
            assert house.keys[kind].encode() not in reply.body


MODELS = [route for route in CLOSED if route.surface is Surface.MODELS]
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
MANAGED = [route for route in CLOSED if route.surface is Surface.MANAGE]


@pytest.mark.parametrize("route", MODELS, ids=lambda route: f"{route.method} {route.path}")
def test_of_two_keys_that_differ_none_is_good(house: House, route: Route) -> None:
    for second in ("X-Api-Key: x", f"api-key: {MANAGEMENT_KEY}", f"x-goog-api-key: {KEY}"):
        assert ask(house, route, "access", "bearer", second).status == 401
    same = f"X-Api-Key: {house.keys['access']}"
    assert ask(house, route, "access", "bearer", same).status != 401


@pytest.mark.parametrize("route", MODELS, ids=lambda route: f"{route.method} {route.path}")
def test_refusals_are_told_in_the_dialect_of_the_address(house: House, route: Route) -> None:
    assert route.telling
    for method, status in ((route.method, 401), ("DELETE", 405)):
        with_key = status == 405
        line = f"x-api-key: {house.keys['access']}" if with_key else "X-Nothing: 1"
        data = request(method, path_of(route), line, "Connection: close", key=None)
        (reply,) = raw(house.daemon.port, data)
        assert reply.status == status
        told = reply.json()
        assert set(told) == set(route.telling.schema["required"])  # type: ignore[call-overload]
        assert "message" in told["error"]
    assert "Allow" in reply.headers


@pytest.mark.parametrize("route", MANAGED, ids=lambda route: f"{route.method} {route.path}")
def test_what_is_nearly_the_management_key_is_refused(house: House, route: Route) -> None:
    """The proxy specification, section 5.4."""
    lines = (f"Authorization: Bearer {house.keys['login']}", "Connection: close")
    for near, key in NEARLY.items():
        (reply,) = raw(house.daemon.port, request(route.method, path_of(route), *lines, key=key))
        assert (near, reply.status, reply["error"]) == (near, 401, "Unauthorized")
        assert reply["message"] == "Invalid or missing management key"
        assert "X-API-Key" in reply["details"] and "PROXY_APP_HASH" in reply["details"]


@pytest.mark.parametrize("path", ["/api/agent/nothing", "/api/agent/", "/v1/nothing", "/v1beta/x"])
def test_a_path_that_leads_nowhere_has_the_door_of_its_neighbours(house: House, path: str) -> None:
    kind = "management" if "agent" in path else "access"
    for method in ("GET", "POST", "DELETE", "X"):
        for other, key in {**house.keys, "none": None}.items():
            data = request(method, path, "Connection: close", key=key)
            (reply,) = raw(house.daemon.port, data)
            assert reply.status == (404 if other == kind else 401)
            assert "message" in (reply.json() if kind == "management" else reply["error"])


def test_without_a_hash_only_the_management_is_disabled(serve: Serve) -> None:
    """The proxy specification, section 5.3; row 10."""
    daemon = serve()
    for key in (None, KEY, MANAGEMENT_KEY):
        client: Client = daemon.client(key)
        for route in MANAGED:
            reply = client.send(route.method, path_of(route))
            assert (reply.status, reply["error"]) == (503, "Disabled")
            assert "PROXY_APP_HASH" in reply["message"]
    assert daemon.client().get("/api/remote/bots").status == 200
    (reply,) = raw(daemon.port, request("GET", "/v1/models", "Connection: close", key=None))
    assert reply.status == 401


def test_no_log_and_no_file_has_a_key_or_its_sum(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The proxy specification, section 5.5: the caller's address is logged, and no key."""
    with Serving(tmp_path, environ={"PROXY_APP_HASH": HASH}) as daemon:
        house = furnished(daemon)
        for route in (CLOSED[0], MODELS[0], MANAGED[0]):
            for kind in house.keys:
                ask(house, route, kind, "x-api-key")
    logged = capfd.readouterr().err + caplog.text
    assert f"127.0.0.1 - {MANAGED[0].method} {path_of(MANAGED[0])} 401" in logged
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    files = [path for path in files if path.name != "agentd.yml"]  # the remote key's sum is said
    told = logged.encode() + b"".join(path.read_bytes() for path in files)
    secrets = [HASH, *(house.keys[kind] for kind in ("remote", "access", "management", "login"))]
    assert not [one for one in secrets if one.encode() in told]
