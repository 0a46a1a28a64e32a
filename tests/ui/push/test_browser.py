"""Push notifications in a real browser: the switch, and what the worker shows.

Chromium without a screen has no push service of its own: the subscription is scripted, and pushes
are delivered by the developer tools.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

from agentd.agent.engine import Question, ReplyCompleted
from tests.support.daemon import Serving, until
from tests.support.reverse_proxy import reverse_proxy
from tests.ui.push.scripted_service import (
    ScriptedPushService,
    SubscribedBrowser,
    hold_grace,
    serve_pushes,
)
from tests.ui.support import Person, TalkingEngine, get_service_worker, person, sign_in

from playwright.sync_api import Browser, Page, expect  # isort: skip

SHOWN = (
    "registration.getNotifications().then((all) => all.map((one) =>"
    " [one.title, one.body, one.tag, one.actions.map((each) => each.action).join()]))"
)
RECORD = """() => {
  const show = registration.showNotification.bind(registration);
  self.silences = [];
  registration.showNotification = (title, options) => {
    self.silences.push(options.silent);
    return show(title, options);
  };
}"""
"""Have the worker remember what it showed, and whether silently."""
SUBSCRIBE = """(subscription) => {
  let made = null;
  const unsubscribe = async () => ((made = null), true);
  const make = () => ({ toJSON: () => subscription, unsubscribe });
  PushManager.prototype.subscribe = async (options) => {
    const key = options.applicationServerKey.replaceAll("-", "+").replaceAll("_", "/");
    if (!options.userVisibleOnly || atob(key).length !== 65) throw new TypeError("a wrong key");
    return (made = make());
  };
  PushManager.prototype.getSubscription = async () => made;
}"""


@pytest.fixture(scope="module")
def pushes() -> Iterator[ScriptedPushService]:
    with serve_pushes() as service:
        yield service


@pytest.fixture(scope="module")
def site(
    pushes: ScriptedPushService,
    tmp_path_factory: pytest.TempPathFactory,
    talking: TalkingEngine,
) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("site"), talking) as serving:
        yield serving


class Delivery:
    """Delivers pushes to the worker of a page."""

    def __init__(self, page: Page, url: str) -> None:
        self._url = url
        self._tools = page.context.new_cdp_session(page)
        self._ids: list[str] = []
        self._tools.on("ServiceWorker.workerRegistrationUpdated", self._hear)
        self._tools.send("ServiceWorker.enable")
        until(lambda: page.evaluate("1") and self._ids)

    def _hear(self, event: dict[str, Any]) -> None:
        self._ids += [
            one["registrationId"]
            for one in event["registrations"]
            if one["scopeURL"].startswith(self._url)
        ]

    def deliver(self, notice: dict[str, Any]) -> None:
        """Deliver a notification, as the daemon makes it."""
        self._tools.send(
            "ServiceWorker.deliverPushMessage",
            {
                "origin": urljoin(self._url, "/").rstrip("/"),
                "registrationId": self._ids[-1],
                "data": json.dumps(notice),
            },
        )


def open_page(somebody: Person, path: str) -> Page:
    """Open a page whose worker is ready."""
    somebody.context.grant_permissions(["notifications"], origin=somebody.url)
    page = somebody.open(path)
    page.locator(".shell").wait_for()
    page.evaluate("navigator.serviceWorker.ready.then(() => 1)")
    return page


def test_a_device_is_notified_once_it_is_switched_on_and_until_it_is_switched_off(
    browser: Browser, site: Serving, pushes: ScriptedPushService
) -> None:
    device = SubscribedBrowser()
    with person(browser, site, workers=True) as somebody:
        somebody.context.add_init_script(f"({SUBSCRIBE})({json.dumps(device.subscription)})")
        page = open_page(somebody, "/settings/you")
        card = page.get_by_role("region", name="Notifications")
        expect(card).to_contain_text("This device is not notified.")
        card.get_by_role("button", name="Notify this device").click()
        expect(card).to_contain_text("This device is notified until it is signed out.")
        site.client().create_chat(prompt="hello", title="Told")
        (push,) = until(lambda: pushes.pushes)
        assert device.decrypt(push)["title"] == "Told"
        card.get_by_role("button", name="Stop notifying this device").click()
        expect(card).to_contain_text("This device is not notified.")
        until(lambda: "endpoint" not in Path(site.layout.push).read_text())


@pytest.mark.parametrize("looks", [True, False])
def test_what_is_looked_at_is_not_pushed_to_the_phone(
    browser: Browser,
    site: Serving,
    talking: TalkingEngine,
    pushes: ScriptedPushService,
    monkeypatch: pytest.MonkeyPatch,
    looks: bool,
) -> None:
    grace, phone, told = hold_grace(monkeypatch), SubscribedBrowser("phone"), len(pushes.pushes)
    ada, prompt = site.administrator(), f"looked at: {looks}"
    ada.put("/api/me/push", phone.subscription)
    talking.expect(prompt)
    chat = ada.post("/api/chats", {"prompt": prompt, "title": "Mine"})["chatId"]
    with person(browser, site) as somebody:
        if not looks:
            somebody.context.add_init_script(
                "Object.defineProperty(document, 'hidden', { get: () => true })"
            )
        page = somebody.open(f"/{chat}")
        expect(page.get_by_role("log")).to_contain_text(prompt)
        talking.say(prompt, Question("shell", "run_command", "make push"))
        expect(page.get_by_role("button", name="Allow")).to_be_visible()
        until(lambda: grace.waiting)
        until(lambda: not looks or grace.waiting[0].seen_by == {"ada"})
        grace.end()
        until(lambda: looks or len(pushes.pushes) > told)
        later = hold_grace(monkeypatch)
        asked = ada.get(f"/api/chat/{chat}/approvals")["approvals"][0]
        ada.post(f"/api/chat/{chat}/approvals/{asked['id']}", {"decision": "allow"})
        talking.say(prompt, ReplyCompleted("All done."))
        expect(page.get_by_role("log")).to_contain_text("All done.")
        until(lambda: later.waiting)
        until(lambda: not looks or later.waiting[0].seen_by == {"ada"})
        later.end()
        until(lambda: looks or len(pushes.pushes) == told + 2)
        page.goto("about:blank")
        site.client().create_chat(prompt="hello", title="Another")
        kinds = ["Another"] if looks else ["Mine", "Mine", "Another"]
        until(lambda: len(pushes.pushes) == told + len(kinds))
        assert [phone.decrypt(push)["title"] for push in pushes.pushes[told:]] == kinds
    ada.delete("/api/me/push")


def test_a_subscription_that_the_daemon_lost_is_told_again_by_the_next_page(
    browser: Browser, site: Serving
) -> None:
    device = SubscribedBrowser("again")
    with person(browser, site, workers=True) as somebody:
        somebody.context.add_init_script(f"({SUBSCRIBE})({json.dumps(device.subscription)})")
        page = open_page(somebody, "/settings/you")
        page.get_by_role("button", name="Notify this device").click()
        expect(page.get_by_text("This device is notified until")).to_be_visible()
        page.evaluate(
            "fetch('/api/session').then((one) => one.json()).then(({ xsrf }) =>"
            " fetch('/api/me/push', { method: 'DELETE', headers: { 'X-XSRF-Token': xsrf } }))"
        )
        until(lambda: "send/again" not in Path(site.layout.push).read_text())
        page.goto(site.url + "/inbox")
        until(lambda: "send/again" in Path(site.layout.push).read_text())


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("delete window.PushManager", "This browser cannot receive notifications"),
        (
            "Object.defineProperty(Notification, 'permission', { get: () => 'denied' })",
            "blocked in the settings of this browser",
        ),
        ("Object.defineProperty(window, 'isSecureContext', { get: () => false })", "agentd tls"),
        (
            "delete window.PushManager; Object.defineProperty(navigator, 'userAgent',"
            " { get: () => 'Mozilla/5.0 (iPhone; CPU iPhone OS 18_0)' })",
            "Add to Home Screen",
        ),
    ],
)
def test_where_there_are_none_the_reason_is_told(
    browser: Browser, site: Serving, script: str, words: str
) -> None:
    with person(browser, site) as somebody:
        somebody.context.add_init_script(script)
        page = somebody.open("/settings/you")
        card = page.get_by_role("region", name="Notifications")
        expect(card).to_contain_text(words)
        expect(card.get_by_role("button")).to_have_count(0)


def test_that_the_browser_refuses_the_worker_is_told(browser: Browser, site: Serving) -> None:
    """As browsers do where somebody went on after the warning about a certificate."""
    with person(browser, site, workers=True) as somebody:
        somebody.context.grant_permissions(["notifications"], origin=site.url)
        somebody.context.add_init_script(
            "ServiceWorkerContainer.prototype.register = async () => {"
            " throw new DOMException('An SSL certificate error occurred.', 'SecurityError'); }"
        )
        page = somebody.open("/settings/you")
        button = page.get_by_role("button", name="Notify this device")
        button.click()
        expect(page.locator(".toast")).to_contain_text("An SSL certificate error occurred.")
        expect(button).to_be_enabled()


def test_without_the_extra_the_card_says_what_to_install(
    browser: Browser, site: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentd.ui.push.encryption.is_installed", lambda: False)
    with person(browser, site) as somebody:
        page = somebody.open("/settings/you")
        card = page.get_by_role("region", name="Notifications")
        expect(card).to_contain_text("pip install 'agentd-workstation[push]'")


def test_a_push_is_shown_while_no_page_is_open_and_silent_while_one_is_looked_at(
    browser: Browser, site: Serving, talking: TalkingEngine
) -> None:
    prompt = "ask while it is closed"
    talking.expect(prompt)
    chat = site.client().create_chat(prompt=prompt, title="Closed")
    talking.say(prompt, Question("shell", "run_command", "make push"))
    asked = until(lambda: site.client().get(f"/api/chat/{chat}/approvals")["approvals"])[0]
    notice = {
        "kind": "question",
        "chatId": chat,
        "id": asked["id"],
        "title": "Closed",
        "body": "Run this command?\nmake push",
        "answerable": True,
    }
    tag = f"question {chat} {asked['id']}"
    finished = {"kind": "turn", "chatId": chat, "id": 2, "title": "Closed", "body": "Done."}
    with person(browser, site, workers=True) as somebody:
        page = open_page(somebody, "/inbox")
        worker = get_service_worker(somebody)
        delivery = Delivery(page, site.url)
        page.goto("about:blank")
        delivery.deliver(notice)
        wanted = [["Closed", notice["body"], tag, "allow,deny"]]
        until(lambda: worker.evaluate(SHOWN) == wanted)
        delivery.deliver(notice)
        delivery.deliver(finished)
        wanted += [["Closed", "Done.", f"turn {chat}", ""]]
        until(lambda: sorted(worker.evaluate(SHOWN)) == sorted(wanted))
        worker.evaluate(
            """async (tag) => {
              const [shown] = await registration.getNotifications({ tag });
              const click = { action: "allow", notification: shown };
              self.dispatchEvent(new NotificationEvent("notificationclick", click));
            }""",
            tag,
        )
        until(lambda: talking.answers[-1:] == [True])
        worker.evaluate(RECORD)
        delivery.deliver(notice)  # it comes late: the question was answered
        until(lambda: set(worker.evaluate("silences")) == {False})  # once, or more often (sw.js)
        until(lambda: worker.evaluate(SHOWN) == wanted[1:])
        page.goto(site.url + "/inbox")
        page.locator(".shell").wait_for()
        delivery.deliver(finished)
        until(lambda: worker.evaluate("silences.at(-1)"))
        until(lambda: worker.evaluate(SHOWN) == [])
        talking.say(prompt, ReplyCompleted("done"))


def test_a_tab_of_another_program_of_the_same_origin_silences_nothing(
    browser: Browser, site: Serving
) -> None:
    site.administrator()
    finished = {"kind": "turn", "chatId": 1, "id": 2, "title": "Elsewhere", "body": "Done."}
    with reverse_proxy(site.port) as url:
        context = browser.new_context()
        somebody = Person(context, url)
        context.grant_permissions(["notifications"], origin=urljoin(url, "/"))
        page = somebody.open("/login")
        sign_in(page)
        page.evaluate("navigator.serviceWorker.ready.then(() => 1)")
        worker = get_service_worker(somebody)
        delivery = Delivery(page, url)
        worker.evaluate(RECORD)
        page.goto(urljoin(url, "/another-program"))
        delivery.deliver(finished)
        until(lambda: set(worker.evaluate("silences")) == {False})  # once, or more often (sw.js)
        until(lambda: [one[0] for one in worker.evaluate(SHOWN)] == ["Elsewhere"])
        context.close()


def test_notifications_that_were_answered_elsewhere_go_when_a_page_opens(
    browser: Browser, site: Serving
) -> None:
    with person(browser, site, workers=True) as somebody:
        page = open_page(somebody, "/inbox")
        worker = get_service_worker(somebody)
        worker.evaluate("registration.showNotification('Old', { tag: 'question 1 99' })")
        worker.evaluate("registration.showNotification('Done', { tag: 'turn 1' })")
        page.reload()
        until(lambda: [one[0] for one in worker.evaluate(SHOWN)] == ["Done"])
