"""Specification 5, rules 5 to 8: keys and logins beside each other, on the serving daemon."""

import hashlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from agentd.auth import password
from agentd.auth.password import HashCost, hash_password
from agentd.auth.roles import User
from agentd.auth.user_store import UserFile
from agentd.http import throttle
from agentd.http.access import RouteGroup
from agentd.http.cookies import XSRF, SessionCookie
from agentd.http.routing import Route
from agentd.http.throttle import FREE_FAILURES
from tests.auth.test_gate_matrix import EVERY, GUARDED, ROUTES, build_path
from tests.live.hub.support import HUB
from tests.support.daemon import (
    KEY,
    PATIENCE,
    Beats,
    Client,
    Reply,
    Serving,
    build_request,
    send_raw,
    until,
)
from tests.support.fixtures import Serve

SESSION = "/api/session"
CHATS = "/api/chat/999999"
CHEAP = HashCost(14, 8, 1)
WORDS = {name: f"the good word of {name}" for name in ("vera", "mia", "ada")}
ROLES = {"vera": "viewer", "mia": "manager", "ada": "administrator"}
USERS = [User(name, ROLES[name], hash_password(WORDS[name], CHEAP)) for name in WORDS]
OTHER = hash_password("another good word", CHEAP)


def add_users(folder: Path) -> Path:
    """Put the users into the folder, and return it."""
    from agentd.storage.layout import Layout

    file = UserFile(Layout(str(folder / "state"), str(folder / "config")))
    for user in USERS:
        file.add(user)
    return folder


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Yield a daemon with a viewer, a manager and an administrator that no test changes."""
    with Serving(add_users(tmp_path_factory.mktemp("people"))) as serving:
        yield serving


@pytest.fixture
def own(serve: Serve, tmp_path: Path) -> Serving:
    """A daemon of the test's own, with the same people."""
    return serve(add_users(tmp_path))


def sign_in(daemon: Serving, name: str = "mia", **more: Any) -> Reply:
    """Sign in, and return the reply."""
    client = Client(daemon.url, None)
    try:
        return client.post(SESSION, {"user": name, "password": WORDS[name], **more})
    finally:
        client.close()


class Browser:
    """Somebody who is signed in by cookie, on connections of his own."""

    def __init__(self, daemon: Serving, name: str = "mia") -> None:
        reply = sign_in(daemon, name)
        assert reply.status == 200, reply.body
        self.daemon = daemon
        self.cookie = reply.headers["Set-Cookie"].partition(";")[0]
        self.xsrf = reply["xsrf"]

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
    ) -> Reply:
        """Send a request as agentd's own pages do."""
        return self.send_with_cookie(method, path, body, {XSRF: self.xsrf, **(headers or {})}, key)

    def send_with_cookie(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
    ) -> Reply:
        """Send a request that a browser sends with the cookie alone."""
        client = Client(self.daemon.url, key)
        try:
            return client.send(method, path, body, {"Cookie": self.cookie, **(headers or {})})
        finally:
            client.close()


# Signing in.


def test_a_login_answers_who_one_is_and_sets_a_cookie_that_no_script_reads(people: Serving) -> None:
    reply = sign_in(people)
    assert reply.status == 200
    assert (reply["user"], reply["role"], reply["token"]) == ("mia", "manager", None)
    assert reply["expiresAt"] > "2026"
    name, _, rest = reply.headers["Set-Cookie"].partition("=")
    assert name == SessionCookie(people.port).name
    token, *attributes = rest.split("; ")
    assert len(token) == 64
    assert set(attributes) == {"Path=/", "Max-Age=2592000", "HttpOnly", "SameSite=Strict"}
    assert token not in reply.body.decode()


def test_over_https_the_cookie_is_secure_and_bound_to_the_host(people: Serving) -> None:
    body = json.dumps({"user": "mia", "password": WORDS["mia"]}).encode()
    lines = ["Origin: https://localhost", "Content-Type: application/json", "Connection: close"]
    (reply,) = send_raw(people.port, build_request("POST", SESSION, *lines, body=body, key=None))
    cookie = reply.headers["Set-Cookie"]
    names = SessionCookie(people.port)
    assert cookie.startswith(f"{names.secure_name}=")
    assert cookie.endswith("; Secure")
    lines = [f"Cookie: {names.name}={'0' * 64}; {cookie.partition(';')[0]}", "Connection: close"]
    (reply,) = send_raw(people.port, build_request("GET", SESSION, *lines, key=None))
    assert (reply.status, reply["user"]) == (200, "mia"), "a cookie that anybody may set loses"


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("mia", "wrong"),
        ("mia", ""),
        ("nobody", WORDS["mia"]),
        ("", ""),
        ("Mia", WORDS["mia"]),
        ("mia", WORDS["mia"] + " "),
        ("mia\0", WORDS["mia"]),
        ("mia", USERS[1].password),
        ("\ud800", "\ud800"),
    ],
)
def test_a_wrong_name_or_password_is_refused_in_the_same_words(
    people: Serving, name: str, word: str
) -> None:
    reply = people.client(None).post(SESSION, {"user": name, "password": word})
    if "\ud800" not in name:
        assert (reply.status, reply["error"]) == (401, "Unauthorized")
        assert reply["message"] == "Wrong name or password"
    assert 400 <= reply.status < 500
    assert "Set-Cookie" not in reply.headers


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b'{"user":"mia"}', b'{"user":1,"password":"x"}', b"{" * 2000]
)
def test_what_is_no_login_is_a_bad_request(people: Serving, body: bytes) -> None:
    assert people.client(None).post(SESSION, body).status == 400


def test_an_unknown_name_takes_as_long_as_a_wrong_password(
    people: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, costs, digest = people.client(None), [], password._digest

    def hash_and_note(presented: str, salt: str, cost: HashCost) -> str:
        costs.append(cost)
        return digest(presented, salt, cost)

    monkeypatch.setattr(password, "_digest", hash_and_note)
    for name in ("mia", "nobody"):
        client.post(SESSION, {"user": name, "password": "wrong"})
        assert costs == [CHEAP], f"{name} is told by the speed"
        costs.clear()


def test_every_login_has_a_session_of_its_own(people: Serving) -> None:
    tokens = {sign_in(people).headers["Set-Cookie"] for _ in range(3)}
    assert len(tokens) == 3


def test_a_login_ends_the_one_that_came_along(people: Serving) -> None:
    """Row 20: a new id at login; the session of before is not left lying about."""
    browser = Browser(people)
    before = browser.cookie
    reply = browser.send_with_cookie("POST", SESSION, {"user": "mia", "password": WORDS["mia"]})
    assert reply.headers["Set-Cookie"].partition(";")[0] != before
    assert browser.send_with_cookie("GET", SESSION).status == 401


def test_a_program_gets_the_token_itself_and_needs_no_xsrf(people: Serving) -> None:
    reply = sign_in(people, bearer=True)
    assert "Set-Cookie" not in reply.headers
    bearer = {"Authorization": f"Bearer {reply['token']}"}
    client = people.client(None)
    assert client.get(SESSION, bearer)["user"] == "mia"
    assert client.send("PUT", f"{CHATS}/settings", {}, bearer).status == 404
    left = client.send("DELETE", SESSION, None, bearer)
    assert (left.status, left.headers.get("Set-Cookie")) == (204, None), "a browser's login stays"
    assert client.get(SESSION, bearer).status == 401


def test_an_explicit_token_decides_before_a_cookie(people: Serving) -> None:
    browser = Browser(people)
    wrong = {"Authorization": f"Bearer {'0' * 64}"}
    assert browser.send("GET", SESSION, headers=wrong).status == 401


def test_two_different_cookies_of_one_name_are_none(people: Serving) -> None:
    one, other = Browser(people), Browser(people, "ada")
    headers = {"Cookie": f"{one.cookie}; {other.cookie}"}
    assert people.client(None).get(SESSION, headers).status == 401
    headers = {"Cookie": f"a=b; {one.cookie}; {one.cookie}; agentd=c"}
    assert people.client(None).get(SESSION, headers).status == 200


def test_two_daemons_of_one_host_do_not_sign_each_other_out(people: Serving, own: Serving) -> None:
    """A browser sends the cookies of all ports of a host to each of them."""
    here, there = Browser(people), Browser(own, "ada")
    both = {"Cookie": f"{here.cookie}; {there.cookie}"}
    assert people.client(None).get(SESSION, both)["user"] == "mia"
    assert own.client(None).get(SESSION, both)["user"] == "ada"


# Who one is.


def test_a_key_is_reported_as_a_key(people: Serving) -> None:
    found = people.client().get(SESSION).json()
    assert found == {
        "kind": "key", "user": "environment", "role": "manager", "xsrf": "", "expiresAt": None
    }  # fmt: skip
    assert people.client().delete(SESSION).status == 404
    assert people.client(None).get(SESSION).status == 401


def test_a_login_is_reported_with_its_xsrf(people: Serving) -> None:
    browser = Browser(people)
    found = browser.send_with_cookie("GET", SESSION).json()
    assert (found["kind"], found["user"], found["role"]) == ("user", "mia", "manager")
    assert found["xsrf"] == browser.xsrf


# Keys and logins beside each other.


@pytest.mark.parametrize("route", GUARDED, ids=lambda route: f"{route.method} {route.path}")
def test_a_wrong_key_is_refused_on_every_route_beside_a_valid_login(
    people: Serving, route: Route, tokens: dict[str, str]
) -> None:
    """Specification 5.5; row 1."""
    name = SessionCookie(people.port).name
    for login in (f"Cookie: {name}={tokens['ada']}", f"Authorization: Bearer {tokens['ada']}"):
        for key in ("bad", ""):
            lines = (login, "Connection: close")
            asked = build_request(route.method, build_path(route), *lines, key=key)
            (reply,) = send_raw(people.port, asked)
            assert (reply.status, reply["message"]) == (401, "Invalid or missing API key"), login


@pytest.fixture(scope="module")
def tokens(people: Serving) -> dict[str, str]:
    """A session of each."""
    return {name: sign_in(people, name, bearer=True)["token"] for name in WORDS}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_by_key_and_login(
    people: Serving, route: Route, tokens: dict[str, str]
) -> None:
    """Specification 5.5 to 5.8: {no, good, bad key} times {no login, a good one}."""
    if (route.method, route.path) == ("DELETE", SESSION):
        return
    body = b"" if route.request_type else None
    for key, login in product((None, KEY, "bad"), (False, True)):
        headers = {"Authorization": f"Bearer {tokens['ada']}"} if login else {}
        status = people.client(key).send(route.method, build_path(route), body, headers).status
        assert status in _list_expected(route, key, login), (key, login)


def _list_expected(route: Route, key: str | None, login: bool) -> tuple[int, ...]:
    """Return the statuses that an empty or senseless request may be answered with."""
    if route.group is RouteGroup.PUBLIC:
        return (200,)
    if key == "bad":
        return (401,)
    if route.group is RouteGroup.OPEN:
        return (200, 400)
    if key == KEY and route.min_role == "administrator":
        return (403,)
    if key == KEY or (login and route.group is RouteGroup.EXTENDED):
        return (200, 201, 204, 400, 404, 415, 503)
    return (401,)


@pytest.mark.parametrize("name", WORDS)
def test_each_role_may_what_the_table_says(
    people: Serving, tokens: dict[str, str], name: str
) -> None:
    """Specification 5.6: a manager's login has the rights of a key; a viewer only reads."""
    client = people.client(None)
    bearer = {"Authorization": f"Bearer {tokens[name]}"}
    for route in [route for route in EVERY if route.group is RouteGroup.EXTENDED]:
        if route.path in ("/api/events", SESSION):
            continue
        status = client.send(
            route.method, build_path(route), b"" if route.request_type else None, bearer
        ).status
        allowed = name == "ada" or (
            route.min_role != "administrator" and (route.min_role == "viewer" or name == "mia")
        )
        assert (status == 403) is not allowed, f"{route.method} {route.path}: {status}"


def test_a_viewer_signs_out_and_follows(people: Serving) -> None:
    browser = Browser(people, "vera")
    reply = browser.send("POST", f"{HUB}/negotiate?negotiateVersion=1", b"")
    assert (reply.status, bool(reply["connectionToken"])) == (200, True)
    assert browser.send("DELETE", SESSION).status == 204


def test_without_any_key_the_extended_surface_works_by_login_and_the_remote_one_is_off(
    serve: Serve, tmp_path: Path
) -> None:
    """Specification 5.7 and 5.8; row 2."""
    browser = Browser(serve(add_users(tmp_path), agent_api_key=""))
    assert browser.send("GET", SESSION)["user"] == "mia"
    assert browser.send("GET", SESSION, key="bad").status == 200, "no key is looked at"
    assert browser.send("GET", "/api/remote/bots").status == 503


def test_the_key_decides_when_both_are_valid(people: Serving) -> None:
    browser = Browser(people, "vera")
    assert browser.send_with_cookie("GET", SESSION, key=KEY)["kind"] == "key"
    assert browser.send_with_cookie("PUT", f"{CHATS}/settings", {}, key=KEY).status == 404, (
        "no XSRF is needed"
    )


# Pages of others (CSRF).


OTHERS = [
    {"Origin": "http://evil.example"},
    {"Origin": "http://127.0.0.1:9999"},
    {"Origin": "null"},
    {"Origin": ""},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
]


@pytest.mark.parametrize("headers", OTHERS, ids=str)
def test_pages_of_others_may_do_nothing_with_a_cookie(
    people: Serving, headers: dict[str, str]
) -> None:
    """Row 21: another port of this machine is the same site to a browser, and is refused too."""
    browser = Browser(people)
    for method, path in (("GET", SESSION), ("POST", "/api/chat/1/stop"), ("GET", "/api/events")):
        assert browser.send(method, path, headers=headers).status == 403
    wish = {"user": "mia", "password": WORDS["mia"]}
    assert people.client(None).post(SESSION, wish, headers).status == 403, "nor sign one in"
    assert browser.send("GET", SESSION).status == 200


def test_our_own_page_is_admitted(people: Serving) -> None:
    headers = {"Origin": people.url, "Sec-Fetch-Site": "same-origin"}
    browser = Browser(people)
    assert browser.send("POST", "/api/chat/999999/stop", headers=headers).status == 404
    assert browser.send("GET", SESSION, headers={"Sec-Fetch-Site": "none"}).status == 200


@pytest.mark.parametrize("xsrf", [None, "", "wrong", "0" * 64, "é"])
def test_what_changes_something_needs_the_header(people: Serving, xsrf: str | None) -> None:
    browser = Browser(people)
    headers = {} if xsrf is None else {XSRF: xsrf}
    assert browser.send_with_cookie("POST", "/api/chat/999999/stop", None, headers).status == 403
    assert browser.send_with_cookie("DELETE", SESSION, None, headers).status == 403
    assert browser.send_with_cookie("POST", f"{HUB}/negotiate", b"", headers).status == 403
    other = Browser(people)
    headers = {XSRF: other.xsrf}
    assert browser.send_with_cookie("DELETE", SESSION, None, headers).status == 403, (
        "each has its own"
    )
    assert browser.send_with_cookie("GET", SESSION).status == 200


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded",
     "multipart/form-data; boundary=x", ""],
)  # fmt: skip
def test_a_body_as_a_form_sends_it_is_refused(people: Serving, kind: str) -> None:
    """Row 21: JSON in ``text/plain`` is how a page of another sends it without being asked."""
    browser = Browser(people)
    headers = {"Content-Type": kind}
    for method, path in (("PUT", f"{CHATS}/settings"), ("POST", SESSION)):
        assert browser.send(method, path, b"{}", headers).status == 415


def test_a_body_of_no_type_is_refused_unless_a_key_comes_along(people: Serving) -> None:
    browser = Browser(people)
    lines = [f"Cookie: {browser.cookie}", f"{XSRF}: {browser.xsrf}", "Connection: close"]
    for key, status in ((None, 415), (KEY, 404)):
        data = build_request("PUT", f"{CHATS}/settings", *lines, body=b"{}", key=key)
        (reply,) = send_raw(people.port, data)
        assert reply.status == status


def test_a_manager_creates_a_chat_and_a_viewer_does_not(people: Serving) -> None:
    """Specification 5.6 and 5.7: the extended surface works by login, with a key's rights."""
    manager, viewer = Browser(people, "mia"), Browser(people, "vera")
    made = manager.send("POST", "/api/chats", {"prompt": "help", "title": "By login"})
    assert (made.status, made["status"]) == (201, "queued")
    assert manager.send("GET", f"/api/chats/{made['chatId']}")["title"] == "By login"
    assert viewer.send("POST", "/api/chats", {}).status == 403


# Signing out, and being signed out.


def test_signing_out_ends_this_session_only(people: Serving) -> None:
    one, other = Browser(people), Browser(people)
    reply = one.send("DELETE", SESSION)
    assert reply.status == 204
    name = SessionCookie(people.port).name
    assert reply.headers["Set-Cookie"].startswith(f"{name}=; Path=/; Max-Age=0")
    assert one.send("GET", SESSION).status == 401
    assert other.send("GET", SESSION).status == 200


def test_signing_out_everywhere_ends_all_of_this_person(own: Serving) -> None:
    one, other, somebody = Browser(own), Browser(own), Browser(own, "ada")
    assert one.send("DELETE", f"{SESSION}?everywhere=true").status == 204
    assert [browser.send("GET", SESSION).status for browser in (one, other, somebody)] == [
        401, 401, 200
    ]  # fmt: skip


@pytest.mark.parametrize("how", ["password", "role", "removed", "file", "emptied"])
def test_a_client_that_is_another_now_is_signed_out_from_the_next_request_on(
    own: Serving, how: str
) -> None:
    browser, somebody = Browser(own), Browser(own, "ada")
    file = UserFile(own.layout)
    match how:
        case "password":
            file.change("mia", password=OTHER)
        case "role":
            file.change("mia", role="viewer")
        case "removed":
            file.remove("mia")
        case "file":
            Path(file.path).unlink()
        case "emptied":
            Path(file.path).write_text("")
    assert browser.send("GET", SESSION).status == 401
    gone = how in ("file", "emptied")
    assert somebody.send("GET", SESSION).status == (401 if gone else 200)


@pytest.mark.parametrize("text", ["users: [", "users:\n  - name: x\n", "format: 2\n"])
def test_a_broken_edit_signs_nobody_out_and_lets_nobody_else_in(own: Serving, text: str) -> None:
    browser = Browser(own)
    file = Path(own.layout.users)
    good = file.read_bytes()
    file.write_text(text)
    assert browser.send("GET", SESSION).status == 200
    assert sign_in(own).status == 200
    file.write_bytes(good.replace(b"mia", b"max"))
    assert browser.send("GET", SESSION).status == 401


def test_a_file_that_others_may_read_is_not_taken(serve: Serve, tmp_path: Path) -> None:
    add_users(tmp_path)
    (tmp_path / "config" / "users.yml").chmod(0o644)
    assert sign_in(serve(tmp_path)).status == 401


def test_the_administrator_of_the_environment_signs_in(serve: Serve) -> None:
    daemon = serve(admin_user="mia", admin_password_hash=USERS[1].password)
    reply = sign_in(daemon)
    assert (reply.status, reply["role"]) == (200, "administrator")


# Crashes and restarts.


def test_a_login_survives_a_restart_and_another_password_meanwhile_ends_it(
    serve: Serve, tmp_path: Path
) -> None:
    first = serve(add_users(tmp_path))
    mia, ada = Browser(first), Browser(first, "ada")
    first.stop()
    first.join()
    UserFile(first.layout).change("ada", password=OTHER)
    mia.daemon = ada.daemon = serve(tmp_path, port=first.port)
    assert mia.send("GET", SESSION).status == 200
    assert ada.send("GET", SESSION).status == 401


def start_daemon(folder: Path) -> tuple["subprocess.Popen[bytes]", str]:
    """Start a daemon in a process of its own; return it and its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "agentd", "serve", "--port", "0",
         "--state", str(folder / "state"), "--config", str(folder / "config")],
        env={**os.environ, "AGENT_API_KEY": hashlib.sha256(KEY.encode()).hexdigest()},
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    announced = folder / "state" / "daemon.json"

    def read_url() -> str:
        if announced.exists():
            found = json.loads(announced.read_bytes())
            if found["pid"] == process.pid:
                return str(found["url"])
        return ""

    return process, until(read_url)


def test_a_login_that_was_answered_survives_a_kill(tmp_path: Path) -> None:
    add_users(tmp_path)
    process, url = start_daemon(tmp_path)
    try:
        client = Client(url, None)
        wish = {"user": "mia", "password": WORDS["mia"], "bearer": True}
        token = client.post(SESSION, wish)["token"]
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)
        client.close()
        process, url = start_daemon(tmp_path)
        client = Client(url, None)
        bearer = {"Authorization": f"Bearer {token}"}
        assert client.get(SESSION, bearer)["user"] == "mia"
        assert client.send("DELETE", SESSION, None, bearer).status == 204
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)
        client.close()
        process, url = start_daemon(tmp_path)
        client = Client(url, None)
        assert client.get(SESSION, bearer).status == 401, "who signed out is out"
        client.close()
    finally:
        process.kill()
        process.wait(PATIENCE)


def test_neither_token_nor_password_is_kept_or_logged(
    own: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    token = sign_in(own, bearer=True)["token"]
    client = own.client(None)
    client.post(SESSION, {"user": "mia", "password": "a wrong secret word"})
    client.post(SESSION, {"user": "my password by mistake", "password": "x"})
    own.stop()
    own.join()
    kept = b"".join(path.read_bytes() for path in Path(own.layout.state).rglob("*.json"))
    assert hashlib.sha256(token.encode()).hexdigest().encode() in kept
    for secret in (token, WORDS["mia"], "secret word", "by mistake", USERS[1].password):
        assert secret.encode() not in kept
        assert secret not in caplog.text
    assert "failed login of mia from 127.0.0.1" in caplog.text
    assert "failed login from 127.0.0.1" in caplog.text


# Who may sign in.


def test_an_administrator_adds_changes_and_removes_people(own: Serving) -> None:
    admin = Browser(own, "ada")
    people = Path(own.layout.users)
    people.write_text(people.read_text() + "# my own words\n")
    wish = {"name": "zoe", "role": "viewer", "password": "a word that is good"}
    reply = admin.send("POST", "/api/users", wish)
    assert (reply.status, reply.json()) == (201, {"name": "zoe", "role": "viewer"})
    listed = admin.send("GET", "/api/users")
    assert [one["name"] for one in listed["users"]] == ["vera", "mia", "ada", "zoe"]
    assert b"scrypt" not in listed.body
    client = own.client(None)
    login = {"user": "zoe", "password": "a word that is good", "bearer": True}
    bearer = {"Authorization": f"Bearer {client.post(SESSION, login)['token']}"}
    assert admin.send("PUT", "/api/users/zoe", {"role": "manager"})["role"] == "manager"
    assert client.get(SESSION, bearer).status == 401, "signed out when the answer comes"
    assert client.post(SESSION, login)["role"] == "manager"
    other = {"password": "another word that is good"}
    assert admin.send("PUT", "/api/users/zoe", other).status == 200
    assert client.post(SESSION, login).status == 401
    assert client.post(SESSION, {**login, **other}).status == 200
    assert admin.send("DELETE", "/api/users/zoe").status == 204
    assert client.post(SESSION, {**login, **other}).status == 401
    assert "# my own words" in people.read_text()


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "", {"name": "MIA", "role": "viewer", "password": "a word that is good"}, 409),
        ("POST", "", {"name": "x y", "role": "viewer", "password": "a word that is good"}, 400),
        ("POST", "", {"name": "x\n", "role": "viewer", "password": "a word that is good"}, 400),
        ("POST", "", {"name": "zoe", "role": "boss", "password": "a word that is good"}, 400),
        ("POST", "", {"name": "zoe", "role": "viewer", "password": "short"}, 400),
        ("POST", "", {"name": "zoe", "role": "viewer", "password": "abcdefghijklm"}, 400),
        ("PUT", "/mia", {}, 400),
        ("PUT", "/mia", {"password": "aaaaaaaaaaaaaaa"}, 400),
        ("PUT", "/nobody", {"role": "viewer"}, 404),
        ("PUT", "/ada", {"role": "viewer"}, 409),
        ("DELETE", "/ada", None, 409),
        ("DELETE", "/nobody%0a", None, 404),
        ("DELETE", "/..", None, 404),
    ],
)
def test_what_cannot_be_done_to_people_changes_nothing(
    people: Serving, method: str, path: str, body: Any, status: int
) -> None:
    before = Path(people.layout.users).read_bytes()
    assert Browser(people, "ada").send(method, f"/api/users{path}", body).status == status
    assert Path(people.layout.users).read_bytes() == before


def test_the_last_administrator_stays_one(own: Serving) -> None:
    ada = Browser(own, "ada")
    assert ada.send("PUT", "/api/users/mia", {"role": "administrator"}).status == 200
    assert ada.send("PUT", "/api/users/ada", {"role": "viewer"}).status == 200
    refused = Browser(own, "mia").send("PUT", "/api/users/mia", {"role": "manager"})
    assert refused.json() == {
        "error": "Conflict",
        "message": "mia is the only administrator",
        "details": "Make somebody else an administrator first.",
    }


def test_where_the_settings_name_an_administrator_the_last_of_the_file_may_go(
    serve: Serve, tmp_path: Path
) -> None:
    add_users(tmp_path)
    daemon = serve(admin_user="root", admin_password_hash=USERS[1].password)
    assert Browser(daemon, "ada").send("DELETE", "/api/users/ada").status == 204


def test_a_person_changes_the_own_password_with_the_present_one(own: Serving) -> None:
    here, there = Browser(own, "vera"), Browser(own, "vera")
    path, new = f"{SESSION}/password", "another word that is good"
    wrong = {"password": "not the present one", "newPassword": new}
    assert here.send("PUT", path, wrong).status == 403
    weak = {"password": WORDS["vera"], "newPassword": "aaaaaaaaaaaaaaa"}
    assert here.send("PUT", path, weak).status == 400
    assert own.client().put(path, wrong).status == 403, "a key is no person"
    assert here.send("GET", SESSION).status == 200
    assert here.send("PUT", path, {**weak, "newPassword": new}).status == 204
    assert [one.send("GET", SESSION).status for one in (here, there)] == [401, 401]
    client = own.client(None)
    assert client.post(SESSION, {"user": "vera", "password": new}).status == 200
    assert client.post(SESSION, {"user": "vera", "password": WORDS["vera"]}).status == 401


def test_an_administrator_signs_a_person_out_everywhere(own: Serving) -> None:
    admin, mia, again = Browser(own, "ada"), Browser(own), Browser(own)
    path = "/api/users/mia/sessions"
    assert mia.send("DELETE", path).status == 403
    assert admin.send("DELETE", "/api/users/nobody/sessions").status == 404
    assert admin.send("DELETE", path).status == 204
    assert [one.send("GET", SESSION).status for one in (mia, again, admin)] == [401, 401, 200]


# Many at once.


def test_100_logins_at_once_all_succeed_and_requests_go_on(own: Serving, beats: Beats) -> None:
    client, done, waits = own.client(), threading.Event(), []

    def sign_in_and_read() -> None:
        while not (waits and done.is_set()):
            began = beats.seconds
            assert client.get("/api/remote/bots").status == 200
            waits.append(beats.seconds - began)

    worker = threading.Thread(target=sign_in_and_read)
    worker.start()
    try:
        with ThreadPoolExecutor(100) as crowd:
            replies = list(crowd.map(lambda _: sign_in(own, bearer=True), range(100)))
    finally:
        done.set()
        worker.join()
    assert {reply.status for reply in replies} == {200}
    tokens = {reply["token"] for reply in replies}
    assert len(tokens) == 100
    assert sorted(waits)[len(waits) // 2] < 0.5, "hashing keeps the loop waiting"
    for token in tokens:
        assert client.get(SESSION, {"Authorization": f"Bearer {token}"}).status == 200


def test_guessers_are_slowed_and_the_right_person_still_gets_in(
    own: Serving, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(throttle, "DELAY_SECONDS", 0.6)
    monkeypatch.setattr(throttle, "WINDOW_SECONDS", 1000.0)
    done, seconds = threading.Event(), []

    def guess(number: int) -> None:
        while not done.is_set():
            began = time.monotonic()
            client = Client(own.url, None)
            reply = client.post(SESSION, {"user": "mia", "password": f"guess {number}"})
            client.close()
            assert reply.status == 401
            seconds.append(time.monotonic() - began)

    guessers = [threading.Thread(target=guess, args=(number,)) for number in range(8)]
    for guesser in guessers:
        guesser.start()
    try:
        until(lambda: len(seconds) > FREE_FAILURES)
        for _ in range(3):
            assert sign_in(own).status == 200
        until(lambda: len(seconds) > FREE_FAILURES + 8)
    finally:
        done.set()
        for guesser in guessers:
            guesser.join()
    assert sum(one < 0.6 for one in seconds) <= FREE_FAILURES
    assert caplog.text.count("refusals are delayed") == 1
    assert "guess" not in caplog.text


# The live connections.


def open_stream(browser: Browser, path: str) -> Any:
    """Open a stream with the cookie."""
    client = browser.daemon.client(None)
    client.connection.request("GET", path, headers={"Cookie": browser.cookie})
    response = client.connection.getresponse()
    assert response.status == 200
    response.readline()
    return response


@pytest.mark.parametrize("how", ["out", "everywhere", "password", "removed"])
def test_a_client_that_is_signed_out_receives_nothing_more(
    own: Serving, beats: Beats, how: str
) -> None:
    """Row 11: what a login opened ends within a second."""
    browser, somebody = Browser(own), Browser(own, "ada")
    mine, other = open_stream(browser, "/api/events"), open_stream(somebody, "/api/events")
    match how:
        case "out":
            browser.send("DELETE", SESSION)
        case "everywhere":
            Browser(own).send("DELETE", f"{SESSION}?everywhere=true")
        case "password":
            UserFile(own.layout).change("mia", password=OTHER)
        case "removed":
            UserFile(own.layout).remove("mia")
    began = beats.seconds
    while mine.readline():
        assert beats.seconds - began < 5  # one, and what the machine needs
    own.client().create_chat()
    assert any(b"chatUpdate" in other.readline() for _ in range(20)), "others listen on"
    other.close()
    mine.close()


def open_websocket(daemon: Serving, path: str, *lines: str) -> int:
    """Return the status that the opening of a WebSocket is answered with."""
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=PATIENCE) as connection:
        connection.sendall(build_request("GET", path, *lines, key=None))
        with connection.makefile("rb") as answer:
            return int(answer.readline().split()[1])


def test_a_websocket_opens_by_cookie_for_our_own_page_only(people: Serving) -> None:
    """Rule 16: the origin is checked when a cookie signs in."""
    browser = Browser(people, "vera")
    lines = [
        f"Cookie: {browser.cookie}", "Upgrade: websocket", "Connection: Upgrade",
        "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    ]  # fmt: skip
    for origin, status in (
        ("http://localhost", 101),
        ("http://localhost:3000", 403),
        ("http://evil.example", 403),
    ):
        assert open_websocket(people, HUB, *lines, f"Origin: {origin}") == status
    assert open_websocket(people, f"{HUB}?api_key=bad", *lines, "Origin: http://localhost") == 401


def test_what_a_person_does_is_recorded_by_its_name(own: Serving) -> None:
    chat = own.client().create_chat()
    browser = Browser(own)
    assert browser.send("POST", f"/api/MessageQueue/{chat}/hold", {"reason": "wait"}).status == 200
    journal = Path(own.layout.get_journal_path(chat)).read_text()
    assert '"by":"user:mia"' in journal
