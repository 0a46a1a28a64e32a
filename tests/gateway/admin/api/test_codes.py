"""One-time codes over HTTP (the proxy specification, section 3)."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from agentd.core.clock import parse_iso
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.support.daemon import Client, Serving


def create_code(manager: Client) -> str:
    reply = manager.post("/api/agent/session", None)
    assert reply.status == 201
    return reply["code"]


def enter_code(daemon: Serving, code: str, source: str = "127.0.0.1", **more):
    """Enter a code from an address of this machine."""
    client = Client(daemon.url, None)
    client.connection.source_address = (source, 0)  # type: ignore[attr-defined]
    try:
        return client.post("/api/session", {"code": code, **more})
    finally:
        client.close()


@pytest.fixture
def daemon(setup, manager) -> Serving:
    return setup.daemon


def test_a_code_is_ten_letters_good_for_five_minutes(manager):
    """The proxy specification, sections 3, 4 and 8."""

    def now() -> datetime:
        return parse_iso(manager.get("/api/agent/summary")["at"])

    before, reply, after = now(), manager.post("/api/agent/session", None), now()
    assert len(reply["code"]) == 10
    begun = parse_iso(reply["expiresAt"]) - timedelta(minutes=5)
    assert before <= begun <= after


def test_it_signs_an_administrator_in_for_ninety_days_by_cookie(daemon, manager):
    """The proxy specification, sections 3 and 8."""
    reply = enter_code(daemon, create_code(manager).lower())
    assert reply.status == 200
    assert reply["role"] == "administrator"
    assert "Max-Age=7776000" in reply.headers["Set-Cookie"]
    assert "HttpOnly; SameSite=Strict" in reply.headers["Set-Cookie"]
    cookie = reply.headers["Set-Cookie"].partition(";")[0]
    browser = daemon.client(None)
    assert browser.get("/api/session", {"Cookie": cookie})["role"] == "administrator"
    assert browser.get("/api/users", {"Cookie": cookie}).status == 200
    again = browser.get("/api/session", {"Cookie": cookie})
    assert again["expiresAt"] == reply["expiresAt"]


def test_a_session_by_code_grants_what_the_management_key_does_and_is_none(daemon, manager):
    token = enter_code(daemon, create_code(manager), bearer=True)["token"]
    person = daemon.client(None)
    bearer = {"Authorization": f"Bearer {token}"}
    assert person.get("/api/users", bearer).status == 200
    assert person.get("/api/agent/summary", bearer).status == 200
    assert person.get("/api/agent/summary", {"X-API-Key": token}).status == 401
    assert manager.get("/api/users").status == 401


def test_fifty_at_once_get_one_session(daemon, manager):
    """The proxy specification, sections 3 and 8: a code is good for one use."""
    for number in range(2, 5):
        code, here = create_code(manager), f"127.0.0.{number}"
        with ThreadPoolExecutor(50) as pool:
            replies = list(pool.map(lambda _: enter_code(daemon, code, here), range(50)))  # noqa: B023
        assert sorted(reply.status for reply in replies)[:2] == [200, 401]
        assert {reply.status for reply in replies} == {200, 401, 429}


def test_five_wrong_tries_stop_their_address_and_void_no_code(daemon, manager):
    code = create_code(manager)
    for _ in range(5):
        assert enter_code(daemon, "AAAAAAAAAA", "127.0.0.2").status == 401
    refused = enter_code(daemon, code, "127.0.0.2")
    assert refused.status == 429
    assert 0 < int(refused.headers["Retry-After"]) <= 300
    assert enter_code(daemon, code, "127.0.0.3").status == 200


def test_the_session_survives_a_restart_and_the_code_does_not(setup, manager, serve):
    daemon = setup.daemon
    code, unused = create_code(manager), create_code(manager)
    token = enter_code(daemon, code, bearer=True)["token"]
    daemon.stop()
    daemon.join()
    again = serve(setup.folder, environ={"PROXY_APP_HASH": HASH})
    bearer = {"Authorization": f"Bearer {token}"}
    assert again.client(None).get("/api/session", bearer)["role"] == "administrator"
    assert enter_code(again, unused).status == 401


def test_another_management_key_ends_the_sessions_of_its_codes(setup, manager, serve):
    token = enter_code(setup.daemon, create_code(manager), bearer=True)["token"]
    setup.daemon.stop()
    setup.daemon.join()
    again = serve(setup.folder, environ={"PROXY_APP_HASH": "0" * 64})
    bearer = {"Authorization": f"Bearer {token}"}
    assert again.client(None).get("/api/session", bearer).status == 401


@pytest.mark.parametrize(
    "wish",
    [{}, {"user": "a"}, {"password": "b"}, {"code": "c", "user": "a"}, {"code": "x" * 101}],
)
def test_what_is_neither_a_password_nor_a_code_is_refused(daemon, wish):
    assert daemon.client(None).post("/api/session", wish).status == 400


def test_no_code_is_in_a_file_or_the_journal(setup, manager):
    code = create_code(manager)
    enter_code(setup.daemon, code)
    unused = create_code(manager)
    (newest, *_) = manager.get("/api/agent/changes?resource=session")["items"]
    assert (newest["action"], newest["by"]) == ("issue", "management")
    for path in setup.folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert code.encode() not in data, path
            assert unused.encode() not in data, path
            assert MANAGEMENT_KEY.encode() not in data, path
    assert json.loads(Path(setup.layout.sessions).read_text())["sessions"][0]["by_code"] is True


def test_without_the_management_key_there_are_no_codes(setup, start_gateway):
    daemon = start_gateway()
    assert daemon.client(MANAGEMENT_KEY).post("/api/agent/session", None).status == 503
    assert enter_code(daemon, "AAAAAAAAAA").status == 401
