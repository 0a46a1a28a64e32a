"""``/api/me/push`` and what a real push service receives, over TLS, from a whole daemon."""

import asyncio
import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from py_vapid import Vapid02

from agentd.agent.engine import Question, ReplyCompleted
from agentd.app.push import create_push_client
from agentd.auth.roles import LoginSession
from agentd.auth.session_store import SessionFile
from agentd.core.errors import SupplierUnreachable, Unavailable
from agentd.llm.upstream.protocol import UpstreamRequest
from agentd.ui.push import service as push_service
from tests.support.daemon import Client, Serving, until
from tests.ui.push.scripted_service import (
    HOST,
    ScriptedPushService,
    SubscribedBrowser,
    hold_grace,
    serve_pushes,
)
from tests.ui.support import TalkingEngine
from tests.ui.test_preferences import sign_in

PUSH = "/api/me/push"


@pytest.fixture
def pushes(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedPushService]:
    monkeypatch.setattr(push_service, "RETRY_DELAYS", (0.0, 0.0))
    monkeypatch.setattr(push_service, "GRACE_SECONDS", 0.0)
    with serve_pushes() as service:
        yield service


@pytest.fixture
def serving(pushes: ScriptedPushService, tmp_path: Path) -> Iterator[Serving]:
    with Serving(tmp_path, TalkingEngine()) as serving:
        yield serving


@pytest.fixture
def ada(serving: Serving) -> Client:
    return serving.administrator()


def get_talking(serving: Serving) -> TalkingEngine:
    assert isinstance(serving.engine, TalkingEngine)
    return serving.engine


def test_a_question_reaches_the_subscribed_browser_alone_and_signed(
    serving: Serving, ada: Client, pushes: ScriptedPushService
) -> None:
    browser, talking = SubscribedBrowser(), get_talking(serving)
    key = ada.get(PUSH)["publicKey"]
    assert ada.put(PUSH, browser.subscription)["subscribed"] is True
    talking.expect("clean up")
    chat = serving.client().create_chat(prompt="clean up", title="Cleaning")
    talking.say("clean up", Question("shell", "run_command", "rm -r build"))
    (push,) = until(lambda: pushes.pushes)
    asked = serving.client().get(f"/api/chat/{chat}/approvals")["approvals"][0]
    assert browser.decrypt(push) == {
        "kind": "question",
        "chatId": chat,
        "id": asked["id"],
        "title": "Cleaning",
        "body": "Run this command?\nrm -r build",
        "answerable": True,
    }
    assert b"rm -r build" not in push.body
    assert push.path == "/send/laptop"
    assert push.headers["content-encoding"] == "aes128gcm"
    assert push.headers["urgency"] == "high"
    assert 0 < int(push.headers["ttl"]) <= 24 * 3600
    assert Vapid02.verify(push.headers["authorization"])
    assert f"k={key}" in push.headers["authorization"]
    serving.client().post(f"/api/chat/{chat}/approvals/{asked['id']}", {"decision": "deny"})
    talking.say("clean up", ReplyCompleted("Nothing is clean."))
    done = until(lambda: pushes.pushes[1:])[0]
    told = browser.decrypt(done)
    assert (told["kind"], told["body"]) == ("turn", "Nothing is clean.")
    assert done.headers["urgency"] == "normal"


def test_a_person_who_sees_a_chat_at_once_is_not_notified_of_it_and_others_are(
    serving: Serving, ada: Client, pushes: ScriptedPushService, monkeypatch: pytest.MonkeyPatch
) -> None:
    grace = hold_grace(monkeypatch)
    phone, other = SubscribedBrowser("phone"), SubscribedBrowser("other")
    vic = sign_in(serving, "vic")
    ada.put(PUSH, phone.subscription)
    vic.put(PUSH, other.subscription)
    chats = [serving.client().create_chat(prompt="hello", title=name) for name in ("one", "two")]
    until(lambda: len(grace.waiting) == 2)
    ada.put("/api/me", {"seen": {str(chats[0]): 2}})
    grace.end()
    until(lambda: len(pushes.pushes) == 3)
    told = {
        (name, browser.decrypt(push)["title"])
        for name, browser in (("phone", phone), ("other", other))
        for push in pushes.pushes
        if push.path == f"/send/{name}"
    }
    assert told == {("phone", "two"), ("other", "one"), ("other", "two")}


def test_a_question_that_is_answered_at_once_is_not_pushed(
    serving: Serving, ada: Client, pushes: ScriptedPushService, monkeypatch: pytest.MonkeyPatch
) -> None:
    grace, talking, phone = hold_grace(monkeypatch), get_talking(serving), SubscribedBrowser()
    ada.put(PUSH, phone.subscription)
    talking.expect("ask")
    chat = serving.client().create_chat(prompt="ask")
    talking.say("ask", Question("shell", "run_command", "make"))
    until(lambda: len(grace.waiting) == 1)
    asked = serving.client().get(f"/api/chat/{chat}/approvals")["approvals"][0]
    serving.client().post(f"/api/chat/{chat}/approvals/{asked['id']}", {"decision": "allow"})
    talking.say("ask", ReplyCompleted("done"))
    until(lambda: len(grace.waiting) == 2)
    grace.end()
    (push,) = until(lambda: pushes.pushes)
    assert phone.decrypt(push)["kind"] == "turn"


def test_a_viewer_is_notified_without_buttons(
    serving: Serving, pushes: ScriptedPushService
) -> None:
    browser, talking = SubscribedBrowser(), get_talking(serving)
    sign_in(serving, "vic").put(PUSH, browser.subscription)
    talking.expect("ask")
    serving.client().create_chat(prompt="ask")
    talking.say("ask", Question("shell", "run_command", "make"))
    (push,) = until(lambda: pushes.pushes)
    assert "answerable" not in browser.decrypt(push)
    talking.say("ask", ReplyCompleted("done"))


@pytest.mark.parametrize("command", ["make\nrm -rf .", f"make {'x' * 300}; rm .", "make \u202e"])
def test_a_command_that_a_notification_cannot_show_as_it_is_has_no_buttons(
    serving: Serving, ada: Client, pushes: ScriptedPushService, command: str
) -> None:
    browser, talking = SubscribedBrowser(), get_talking(serving)
    ada.put(PUSH, browser.subscription)
    talking.expect("ask")
    serving.client().create_chat(prompt="ask")
    talking.say("ask", Question("shell", "run_command", command))
    (push,) = until(lambda: pushes.pushes)
    assert "answerable" not in browser.decrypt(push)
    talking.say("ask", ReplyCompleted("done"))


@pytest.mark.parametrize("status", [404, 410])
def test_a_subscription_that_the_service_no_longer_knows_is_forgotten(
    serving: Serving, ada: Client, pushes: ScriptedPushService, status: int
) -> None:
    ada.put(PUSH, SubscribedBrowser().subscription)
    pushes.statuses = [status]
    serving.client().create_chat(prompt="hello")
    until(lambda: not ada.get(PUSH)["subscribed"])
    assert HOST not in Path(serving.layout.push).read_text()


def test_a_delivery_that_fails_for_a_passing_reason_is_tried_again(
    serving: Serving, ada: Client, pushes: ScriptedPushService
) -> None:
    browser = SubscribedBrowser()
    ada.put(PUSH, browser.subscription)
    pushes.statuses = [503, 429, 201]
    serving.client().create_chat(prompt="hello")
    until(lambda: len(pushes.pushes) == 3)
    assert {browser.decrypt(push)["body"] for push in pushes.pushes} == {"echo: hello"}
    assert ada.get(PUSH)["subscribed"] is True


def test_a_subscription_ends_with_its_login_and_others_stay(
    serving: Serving, ada: Client, pushes: ScriptedPushService
) -> None:
    phone, laptop = SubscribedBrowser("phone"), SubscribedBrowser()
    vic = sign_in(serving, "vic")
    vic.put(PUSH, phone.subscription)
    ada.put(PUSH, laptop.subscription)
    vic.delete("/api/session")
    until(lambda: "/send/phone" not in Path(serving.layout.push).read_text())
    serving.client().create_chat(prompt="hello")
    (push,) = until(lambda: pushes.pushes)
    assert laptop.decrypt(push)["body"] == "echo: hello"


def test_it_is_switched_off(serving: Serving, ada: Client) -> None:
    ada.put(PUSH, SubscribedBrowser().subscription)
    ada.delete(PUSH)
    assert ada.get(PUSH)["subscribed"] is False
    assert HOST not in Path(serving.layout.push).read_text()
    ada.delete(PUSH)


def test_the_key_and_the_subscriptions_outlast_a_restart_in_a_private_file(
    pushes: ScriptedPushService, tmp_path: Path
) -> None:
    browser = SubscribedBrowser()
    with Serving(tmp_path) as serving:
        ada = serving.administrator()
        key = ada.get(PUSH)["publicKey"]
        ada.put(PUSH, browser.subscription)
        token = ada.headers["Authorization"]
    path = Path(serving.layout.push)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "Bearer" not in path.read_text()
    with Serving(tmp_path) as again:
        client = Client(again.url, None, {"Authorization": token})
        assert client.get(PUSH).json() == {
            "available": True,
            "problem": "",
            "publicKey": key,
            "subscribed": True,
        }
        client.close()
        again.client().create_chat(prompt="hello")
        (push,) = until(lambda: pushes.pushes)
        assert f"k={key}" in push.headers["authorization"]
        browser.decrypt(push)


def test_the_subscriptions_outlast_a_start_that_cannot_read_the_logins(
    pushes: ScriptedPushService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: SessionFile) -> list[LoginSession]:
        raise Unavailable("The disk does not answer")

    with Serving(tmp_path, TalkingEngine()) as first:
        ada = first.administrator()
        ada.put(PUSH, SubscribedBrowser().subscription)
    with monkeypatch.context() as patch:
        patch.setattr(SessionFile, "load", fail)
        with Serving(tmp_path, TalkingEngine()) as second:
            stored = Path(second.layout.push).read_bytes()
            second.client().create_chat(prompt="hello")
    assert Path(second.layout.push).read_bytes() == stored
    with Serving(tmp_path, TalkingEngine()) as third:
        again = Client(third.url, None, ada.headers)
        assert again.get(PUSH)["subscribed"] is True
        again.close()


def test_the_subscriptions_outlast_a_start_with_a_mistake_in_users_yml(
    pushes: ScriptedPushService, tmp_path: Path
) -> None:
    with Serving(tmp_path, TalkingEngine()) as first:
        ada = first.administrator()
        ada.put(PUSH, SubscribedBrowser().subscription)
        users = Path(first.layout.users)
    stored, valid = Path(first.layout.push).read_bytes(), users.read_bytes()
    users.write_bytes(valid + b"oops\n")
    with Serving(tmp_path, TalkingEngine()) as second:
        second.client().create_chat(prompt="hello")
    assert Path(second.layout.push).read_bytes() == stored
    users.write_bytes(valid)
    with Serving(tmp_path, TalkingEngine()) as third:
        again = Client(third.url, None, ada.headers)
        assert again.get(PUSH)["subscribed"] is True
        again.close()


def test_without_the_extra_it_says_what_to_install(
    ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentd.ui.push.encryption.is_installed", lambda: False)
    told = ada.get(PUSH).json()
    assert told["available"] is False
    assert "pip install 'agentd-workstation[push]'" in told["problem"]
    reply = ada.put(PUSH, SubscribedBrowser().subscription)
    assert (reply.status, reply["details"]) == (503, told["problem"])


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://push.example.com/x",
        "https://127.0.0.1/x",
        "https://localhost/x",
        "https://169.254.169.254/latest",
        "https://[::1]/x",
        "https://2130706433/",
        "https://who@push.example.com/",
        "push",
    ],
)
def test_an_address_that_is_no_public_push_service_is_refused(
    serving: Serving, ada: Client, endpoint: str
) -> None:
    asked = {**SubscribedBrowser().subscription, "endpoint": endpoint}
    reply = ada.put(PUSH, asked)
    assert reply.status == 400
    assert "endpoint" in reply["message"]
    assert ada.get(PUSH)["subscribed"] is False


def test_keys_that_are_no_point_of_the_curve_are_refused(ada: Client) -> None:
    asked = SubscribedBrowser().subscription
    asked["keys"]["p256dh"] = "BA" + "A" * 85
    reply = ada.put(PUSH, asked)
    assert reply.status == 400
    assert "p256dh" in reply["message"]


def test_an_api_key_is_no_login(serving: Serving) -> None:
    client = serving.client()
    assert client.put(PUSH, SubscribedBrowser().subscription).status == 403
    assert client.get(PUSH)["available"] is False
    assert "Sign in" in client.get(PUSH)["problem"]
    assert client.delete(PUSH).status == 204


def test_a_name_that_resolves_to_this_machine_is_not_called() -> None:
    async def call() -> None:
        client = create_push_client()
        try:
            await client.open(UpstreamRequest("POST", "https://localhost:9/x"))
        finally:
            await client.close()

    with pytest.raises(SupplierUnreachable, match="not a public host"):
        asyncio.run(call())


def test_a_damaged_file_is_logged_and_stops_nothing(
    pushes: ScriptedPushService, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Serving(tmp_path) as serving:
        serving.administrator().put(PUSH, SubscribedBrowser().subscription)
    path = Path(serving.layout.push)
    path.write_text(json.dumps({"format": 1, "subscriptions": [{}]}))
    path.chmod(0o600)
    with Serving(tmp_path) as again:
        assert any("push.json" in record.getMessage() for record in caplog.records)
        ada = again.administrator()
        assert ada.put(PUSH, SubscribedBrowser().subscription)["subscribed"] is True
