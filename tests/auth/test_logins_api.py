"""``/api/sessions``: single logins, listed without their tokens, and ended one by one."""

import json
from pathlib import Path

from tests.auth.test_login import Browser, add_users, sign_in
from tests.support.daemon import KEY, Client, Serving
from tests.support.fixtures import Serve

OWN = "/api/sessions"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


def add_login(daemon: Serving, name: str, agent: str) -> str:
    """Sign in with a program of this name; return the token."""
    client = Client(daemon.url, None)
    try:
        password = f"the good word of {name}"
        wish = {"user": name, "password": password, "bearer": True}
        return client.post("/api/session", wish, {"User-Agent": agent})["token"]
    finally:
        client.close()


def test_the_own_logins_are_told_with_their_devices_and_never_a_token(
    serve: Serve, tmp_path: Path
) -> None:
    own = serve(add_users(tmp_path))
    mia = Browser(own, "mia")
    token = add_login(own, "mia", FIREFOX)
    add_login(own, "vera", "curl/8.14.1")
    reply = mia.send("GET", OWN)
    logins = reply["sessions"]
    assert len(logins) == 2
    (firefox,) = (one for one in logins if one["device"] == "Firefox on Linux")
    (here,) = (one for one in logins if one["current"])
    assert firefox["address"] == here["address"] == "127.0.0.1"
    assert not firefox["current"]
    assert firefox["createdAt"] <= firefox["usedAt"] < firefox["expiresAt"]
    assert token not in reply.body.decode()
    stored = Path(own.layout.sessions).read_text()
    assert "Firefox on Linux" in stored
    assert token not in stored


def test_one_login_ends_and_the_others_go_on_also_after_a_restart(
    serve: Serve, tmp_path: Path
) -> None:
    own = serve(add_users(tmp_path))
    mia = Browser(own, "mia")
    token = add_login(own, "mia", "curl/8")
    bearer = {"Authorization": f"Bearer {token}"}
    (other,) = (one for one in mia.send("GET", OWN)["sessions"] if not one["current"])
    assert mia.send("DELETE", f"{OWN}/{other['id']}").status == 204
    assert own.client(None).get("/api/session", bearer).status == 401
    assert mia.send("DELETE", f"{OWN}/{other['id']}").status == 404
    assert [one["current"] for one in mia.send("GET", OWN)["sessions"]] == [True]
    stored = json.loads(Path(own.layout.sessions).read_text())["sessions"]
    assert [one["user"] for one in stored] == ["mia"]


def test_nobody_lists_or_ends_the_logins_of_others_but_administrators(
    serve: Serve, tmp_path: Path
) -> None:
    own = serve(add_users(tmp_path))
    vera, mia, ada = (Browser(own, name) for name in ("vera", "mia", "ada"))
    (login,) = mia.send("GET", OWN)["sessions"]
    path = f"/api/users/mia/sessions/{login['id']}"
    for other in (vera, mia):
        assert other.send("GET", "/api/users/mia/sessions").status == 403
        assert other.send("DELETE", path).status == 403
    assert vera.send("DELETE", f"{OWN}/{login['id']}").status == 404
    assert ada.send("DELETE", f"/api/users/vera/sessions/{login['id']}").status == 404
    (result,) = ada.send("GET", "/api/users/mia/sessions")["sessions"]
    assert result == {**login, "current": False}
    assert ada.send("GET", "/api/users/nobody/sessions").status == 404
    assert mia.send("GET", OWN).status == 200
    assert ada.send("DELETE", path).status == 204
    assert mia.send("GET", OWN).status == 401


def test_a_key_has_no_logins(serve: Serve, tmp_path: Path) -> None:
    own = serve(add_users(tmp_path))
    sign_in(own, "mia")
    assert own.client(KEY).get(OWN).status == 404
    assert own.client(KEY).delete(f"{OWN}/abc").status == 404
