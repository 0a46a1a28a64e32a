"""``/api/bots``: an administrator configures the bots; a token comes in and never goes out."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentd.storage.folder_watcher import FolderWatcher
from tests.auth.test_login import Browser, add_users
from tests.bots.bot_api import REVOKED, TOKEN, USER, BotApi
from tests.support.daemon import KEY, Serving, until

OTHER = "987654321:" + "Zz_-" * 8 + "abc"


@pytest.fixture
def api() -> Iterator[BotApi]:
    with BotApi() as server:
        yield server


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Serving]:
    with Serving(add_users(tmp_path)) as daemon:
        yield daemon


def test_a_bot_is_configured_runs_changes_and_goes(own: Serving, api: BotApi) -> None:
    admin = Browser(own, "ada")
    assert admin.send("GET", "/api/bots").json() == {"bots": [], "problems": []}
    wish = {"id": "helper", "token": TOKEN, "users": [USER], "baseUrl": api.url}
    made = admin.send("POST", "/api/bots", wish)
    assert made.status == 201
    assert made.json() == {
        "id": "helper",
        "title": "helper",
        "kind": "telegram",
        "enabled": True,
        "running": made["running"],
        "pollingError": None,
        "token": f"****{TOKEN[-4:]}",
        "users": [USER],
        "baseUrl": api.url,
        "model": "",
        "skill": "none",
        "chatCount": 0,
        "latestChats": [],
    }
    until(lambda: admin.send("GET", "/api/bots/helper")["running"])
    api.say("hello")
    until(lambda: api.list_texts() == ["echo: hello"])
    assert admin.send("POST", "/api/bots", wish).status == 409
    assert admin.send("PUT", "/api/bots/helper", {"enabled": False})["enabled"] is False
    client = own.client()
    until(lambda: not client.get("/api/remote/bots")["bots"][0]["running"])
    mask = {"token": f"****{TOKEN[-4:]}", "title": "T", "enabled": True}
    assert admin.send("PUT", "/api/bots/helper", mask)["title"] == "T"
    api.say("again")
    until(lambda: "echo: again" in api.list_texts())
    assert TOKEN in Path(own.layout.bots_settings).read_text()
    assert admin.send("DELETE", "/api/bots/helper").status == 204
    assert admin.send("GET", "/api/bots/helper").status == 404
    assert TOKEN not in Path(own.layout.bots_settings).read_text()
    assert own.client().get("/api/remote/bots")["bots"] == []


def test_only_an_administrator_who_is_signed_in_may(own: Serving) -> None:
    calls = [("GET", ""), ("POST", ""), ("GET", "/x"), ("PUT", "/x"), ("DELETE", "/x")]
    calls.append(("POST", "/x/check"))
    for method, path in calls:
        body = {} if method in ("POST", "PUT") else None
        assert own.client(KEY).send(method, f"/api/bots{path}", body).status == 403
        assert own.client(None).send(method, f"/api/bots{path}", body).status == 401
        for name in ("vera", "mia"):
            assert Browser(own, name).send(method, f"/api/bots{path}", body).status == 403


def test_another_address_wants_the_token_again(own: Serving, api: BotApi) -> None:
    """Else whoever may configure could have the token sent to himself."""
    admin = Browser(own, "ada")
    admin.send("POST", "/api/bots", {"id": "b", "token": TOKEN, "enabled": False})
    for token in ({}, {"token": f"****{TOKEN[-4:]}"}):
        reply = admin.send("PUT", "/api/bots/b", {"baseUrl": api.url, **token})
        assert (reply.status, reply["error"]) == (400, "BadRequest")
    reply = admin.send("PUT", "/api/bots/b", {"baseUrl": api.url, "token": OTHER})
    assert (reply.status, reply["token"]) == (200, f"****{OTHER[-4:]}")
    assert not api.calls


@pytest.mark.parametrize(
    "wish",
    [
        {},
        {"id": "b"},
        {"id": "B!", "token": TOKEN},
        {"id": "b", "token": "x" * 40},
        {"id": "b", "token": "****abcd"},
        {"id": "b", "token": TOKEN + "\n"},
        {"id": "b\n", "token": TOKEN},
        {"id": "b", "token": TOKEN, "users": ["me"]},
        {"id": "b", "token": TOKEN, "users": [0]},
        {"id": "b", "token": TOKEN, "baseUrl": "ftp://x.y/"},
        {"id": "b", "token": TOKEN, "baseUrl": "http://u:p@x.y/"},
        {"id": "b", "token": TOKEN, "kind": "other"},
        {"id": "b", "token": TOKEN, "title": "x" * 500},
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_and_nothing_is_written(
    own: Serving, wish: dict[str, object]
) -> None:
    reply = Browser(own, "ada").send("POST", "/api/bots", wish)
    assert reply.status == 400, reply.body
    assert not re.search(b"[0-9]:AAcanary", reply.body)
    assert not Path(own.layout.bots_settings).exists()


def test_a_file_with_mistakes_is_reported_and_not_edited(own: Serving) -> None:
    admin = Browser(own, "ada")
    path = Path(own.layout.bots_settings)
    path.write_text("bots: [{id: b}]\n")
    path.chmod(0o600)
    until(lambda: admin.send("GET", "/api/bots")["problems"])
    assert "bots.yml:1" in admin.send("GET", "/api/bots")["problems"][0]
    reply = admin.send("POST", "/api/bots", {"id": "c", "token": TOKEN})
    assert (reply.status, "bots.yml" in reply["message"]) == (409, True)
    assert path.read_text() == "bots: [{id: b}]\n"


def test_the_schema_of_the_api_is_in_its_description(own: Serving) -> None:
    document = own.client().get("/api/openapi.json").json()
    assert set(document["paths"]["/api/bots/{botId}"]) >= {"get", "put", "delete"}


def test_the_chats_that_are_linked_to_a_bot_are_told_with_it(own: Serving, api: BotApi) -> None:
    admin, client = Browser(own, "ada"), own.client()
    wish = {"id": "helper", "token": TOKEN, "users": [USER], "baseUrl": api.url}
    admin.send("POST", "/api/bots", wish)
    client.create_chat(title="of nobody")
    linked = [client.create_chat(title=f"chat {number}", botId="helper") for number in range(7)]
    api.say("/new hello")
    until(api.list_texts)
    bot = admin.send("GET", "/api/bots/helper").json()
    assert bot["chatCount"] == 8
    assert [chat["chatId"] for chat in bot["latestChats"]][1:] == linked[:2:-1]
    assert bot["latestChats"][1] == {"chatId": linked[-1], "title": "chat 6"}
    assert admin.send("GET", "/api/bots")["bots"] == [bot]
    client.delete(f"/api/chats/{linked[0]}")
    assert admin.send("GET", "/api/bots/helper")["chatCount"] == 7


def test_a_token_is_checked_and_the_answer_names_the_account_only(
    own: Serving, api: BotApi
) -> None:
    admin = Browser(own, "ada")
    wish = {"id": "helper", "token": TOKEN, "enabled": False, "baseUrl": api.url}
    admin.send("POST", "/api/bots", wish)
    reply = admin.send("POST", "/api/bots/helper/check")
    assert reply.json() == {"ok": True, "account": "@the_bot", "problem": ""}
    assert api.sent == []
    for fault, problem in ((REVOKED, "refuses the bot's token"), ((200, b"no"), "invalid")):
        api.fault = lambda method, fault=fault: fault
        reply = admin.send("POST", "/api/bots/helper/check")
        assert (reply.status, reply["ok"], reply["account"]) == (200, False, "")
        assert problem in reply["problem"]
        assert TOKEN not in reply.body.decode()
    assert admin.send("POST", "/api/bots/none/check").status == 404


def test_a_token_that_is_nowhere_is_told_where_it_was_looked_for(own: Serving) -> None:
    admin = Browser(own, "ada")
    admin.send("POST", "/api/bots", {"id": "b", "token": "env:NOT_SET_HERE", "enabled": False})
    problem = admin.send("POST", "/api/bots/b/check")["problem"]
    assert "NOT_SET_HERE is not set" in problem


def test_a_user_who_is_removed_by_hand_is_not_obeyed_before_the_edit_is_noticed(
    own: Serving, api: BotApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watcher may need a second; here it notices nothing."""
    monkeypatch.setattr(FolderWatcher, "_scan", lambda *_: [])
    admin = Browser(own, "ada")
    wish = {"id": "helper", "token": TOKEN, "users": [USER], "baseUrl": api.url}
    assert admin.send("POST", "/api/bots", wish).status == 201
    api.say("hello")
    until(lambda: api.list_texts() == ["echo: hello"])
    file = Path(own.layout.bots_settings)
    file.write_text(file.read_text().replace(str(USER), str(USER + 1)))
    api.say("remove everything")
    api.say("welcome", user=USER + 1)
    until(lambda: "echo: welcome" in api.list_texts(USER + 1))
    assert api.list_texts() == ["echo: hello"]
    titles = [one["title"] for one in own.client().get("/api/chats")["chats"]]
    assert not any("remove everything" in one for one in titles)
