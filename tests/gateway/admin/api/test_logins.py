"""The login of an administrator opens the management as its key does; no other login does."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentd.auth.password import hash_password
from agentd.auth.roles import User
from agentd.auth.user_store import UserFile
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.support.daemon import CHEAP, KEY, WORD, Client, Serving

CHANNELS = "/api/agent/channels"
CHANNEL = {"name": "c", "url": "https://supplier.example", "dialects": ["openai-chat"]}
ROLES = ("viewer", "manager", "administrator")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A daemon with a management key and a person of each role."""
    with Serving(tmp_path_factory.mktemp("logins"), environ={"PROXY_APP_HASH": HASH}) as daemon:
        for role in ROLES:
            UserFile(daemon.layout).add(User(role, role, hash_password(WORD, CHEAP)))
        yield daemon


def sign_in_by_token(daemon: Serving, **signing: str) -> Client:
    token = daemon.client(None).post("/api/session", {**signing, "bearer": True})["token"]
    return Client(daemon.url, None, {"Authorization": f"Bearer {token}"})


@pytest.mark.parametrize("role", ROLES)
def test_only_an_administrator_manages_by_login(shared: Serving, role: str) -> None:
    """The proxy specification, section 5.6: the key grants what the administrator's login does."""
    client = sign_in_by_token(shared, user=role, password=WORD)
    expected = 200 if role == "administrator" else 403
    assert client.get(CHANNELS).status == expected
    assert client.get("/api/agent").status == expected
    client.close()


def test_a_client_that_entered_a_one_time_code_manages(shared: Serving) -> None:
    code = shared.client(MANAGEMENT_KEY).post("/api/agent/session", {})["code"]
    client = sign_in_by_token(shared, code=code)
    made = client.post(CHANNELS, CHANNEL)
    assert made.status == 201
    last = client.get("/api/agent/changes")["items"][0]
    assert last["by"] == "user:administrator"
    assert client.delete(f"{CHANNELS}/c").status in (200, 204)
    client.close()


def test_by_cookie_a_change_needs_the_token_of_our_own_page(shared: Serving) -> None:
    """Cross-site request forgery: as on the extended surface."""
    signed = shared.client(None).post("/api/session", {"user": "administrator", "password": WORD})
    cookie = {"Cookie": signed.headers["Set-Cookie"].partition(";")[0]}
    client = shared.client(None)
    assert client.get(CHANNELS, cookie).status == 200
    assert client.post(CHANNELS, CHANNEL, cookie).status == 403
    assert client.get(CHANNELS, {**cookie, "Origin": "https://evil.example"}).status == 403
    good = {**cookie, "X-XSRF-Token": signed["xsrf"]}
    assert client.post(f"{CHANNELS}?dry_run=true", CHANNEL, good).status in (200, 201)


def test_a_wrong_key_is_refused_whatever_login_comes_with_it(shared: Serving) -> None:
    """As the remote-control specification has it for its key, section 5.5."""
    client = sign_in_by_token(shared, user="administrator", password=WORD)
    assert client.get(CHANNELS).status == 200
    for wrong in (KEY, HASH, "", "x"):
        assert client.get(CHANNELS, {"X-API-Key": wrong}).status == 401
    client.close()


def test_an_administrator_needs_no_management_key_to_be_configured(tmp_path: Path) -> None:
    """The proxy specification, section 5.3, is about keys: to them the surface is off."""
    with Serving(tmp_path) as daemon:
        assert daemon.administrator().get(CHANNELS).status == 200
        assert daemon.client(None).get(CHANNELS).status == 503
        assert daemon.client(MANAGEMENT_KEY).get(CHANNELS).status == 503


def test_whoever_the_file_gives_the_name_of_the_codes_may_not_sign_in(tmp_path: Path) -> None:
    """With a lesser role, he would see and end the administrator's logins by code."""
    environ = {"PROXY_APP_HASH": HASH}
    with Serving(tmp_path, environ=environ) as daemon:
        file = UserFile(daemon.layout)
        file.add(User("administrator", "administrator", hash_password(WORD, CHEAP)))
        code = daemon.client(MANAGEMENT_KEY).post("/api/agent/session", {})["code"]
        by_code = sign_in_by_token(daemon, code=code)
        path = Path(file.path)
        edited = path.read_text().replace("role: 'administrator'", "role: viewer")
        path.write_text(edited)
        signing = {"user": "administrator", "password": WORD}
        assert daemon.client(None).post("/api/session", signing).status == 401
        assert len(by_code.get("/api/sessions")["sessions"]) == 1
        (problem,) = by_code.get("/api/settings/all")["problems"]
        assert problem["what"].startswith("a user named administrator must have the role")
        by_code.close()
