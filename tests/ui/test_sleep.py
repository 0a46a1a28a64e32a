"""A device that slept: what happened is shown once it wakes, and nobody reloads the page."""

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from agentd.agent.engine import Question, ReplyCompleted, ReplyDelta
from tests.support.daemon import Serving, until
from tests.support.reverse_proxy import reverse_proxy
from tests.ui.support import PHONE, Person, TalkingEngine, person
from tests.ui.test_chat import create_busy_chat, list_waiting

from playwright.sync_api import Browser, Page, expect  # isort: skip

HIDE = """(hidden) => {
  Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event('visibilitychange'));
}"""
NO_LOCKS = "delete Navigator.prototype.locks"
"""As for a page that came by plain http from another machine."""


class Phone:
    """A page whose clock and whose network stand still while the device sleeps."""

    def __init__(self, page: Page, asleep: threading.Event) -> None:
        self.page = page
        self._asleep = asleep

    def sleep(self, *, hides: bool) -> None:
        """Let no timer run from now on, and lose what is sent to the page."""
        if hides:
            self.page.evaluate(HIDE, True)
        self.page.clock.pause_at(self._now() + timedelta(seconds=5))
        self._asleep.set()

    def wake(self, *, hides: bool) -> None:
        """Go on ten minutes later, of which the page's timers know nothing."""
        self.page.clock.set_system_time(self._now() + timedelta(minutes=10))
        self._asleep.clear()
        if hides:
            self.page.evaluate(HIDE, False)
        self.page.clock.run_for(2000)

    def until(self, condition: Callable[[], object]) -> None:
        """Wait for what needs the daemon alone: the page's own clock all but stands still."""
        until(lambda: condition() or self.page.clock.run_for(1))

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.page.evaluate("Date.now()") / 1000, UTC)


@pytest.fixture
def asleep() -> threading.Event:
    return threading.Event()


@pytest.fixture
def sleeper(browser: Browser, site: Serving, asleep: threading.Event) -> Iterator[Person]:
    """An administrator with a phone, by a connection that may be lost."""
    with reverse_proxy(site.port, asleep) as url, person(browser, site, size=PHONE) as somebody:
        somebody.url = url
        yield somebody


@pytest.mark.parametrize(
    ("hides", "script"),
    [(False, ""), (True, ""), (True, NO_LOCKS)],
    ids=["with the page in sight", "with the page hidden", "without locks"],
)
def test_a_phone_that_slept_ten_minutes_shows_all_that_happened_once(
    sleeper: Person,
    site: Serving,
    talking: TalkingEngine,
    asleep: threading.Event,
    hides: bool,
    script: str,
) -> None:
    """Row 13."""
    client = site.client()
    talking.expect("the next one")
    chat, prompt = create_busy_chat(client, talking, "the next one", "a third", "a last")
    name = f"while-{chat}"
    page = sleeper.context.new_page()
    page.clock.install()
    if script:
        page.add_init_script(script)
    page.goto(f"{sleeper.url}/{chat}")
    talking.say(prompt, ReplyDelta("one "))
    expect(page.locator(".growing .tail")).to_have_text("one")
    page.evaluate("window.isTheSame = true")
    phone = Phone(page, asleep)
    phone.sleep(hides=hides)

    last = client.prompts(chat)[-1]["id"]
    client.post(f"/api/MessageQueue/{chat}/{last}/move", {"position": 1})
    talking.say(prompt, ReplyDelta("two "), ReplyCompleted("one two"))
    talking.say("the next one", ReplyDelta("three "), ReplyDelta("four "))
    client.put(f"/api/chats/{chat}", {"title": f"Renamed {chat}"})
    client.post("/api/chat-labels", {"name": name, "color": "#cc3b3b"})
    asking = f"asks {chat}"
    talking.expect(asking)
    other = client.create_chat(prompt=asking, title=asking)
    talking.say(asking, Question("shell", "run_command", "make"))
    until(lambda: client.get(f"/api/chat/{other}/approvals")["approvals"])
    reply = f"/api/chat/{chat}"
    until(lambda: client.get(reply)["runningReply"]["text"] == "three four ")

    phone.wake(hides=hides)
    phone.until(lambda: page.locator("h1").inner_text() == f"Renamed {chat}")
    phone.until(lambda: page.locator(".prose", has_text="one two").count())
    phone.until(lambda: read_growing_reply(page) == "three four")
    phone.until(lambda: list_waiting(page) == ["a last", "a third"])
    phone.until(lambda: page.title().startswith("(1) "))
    phone.until(lambda: f"Label: {name}" in list_menu(page))

    talking.say("the next one", ReplyDelta("five"))
    phone.until(lambda: read_growing_reply(page) == "three four five")
    talking.say("the next one", ReplyCompleted("three four five"))
    phone.until(lambda: page.locator(".prose", has_text="echo: a third").count())
    phone.until(lambda: not page.locator(".growing").count())
    assert page.locator(".turn .prompt").count() == 4
    assert page.locator(".prose", has_text="one two").count() == 1
    assert page.locator(".prose", has_text="three four five").count() == 1
    assert page.evaluate("window.isTheSame"), "nobody reloaded it"
    answer_all(site, other)
    talking.say(asking, ReplyCompleted("done"))


def read_growing_reply(page: Page) -> str:
    """Return the visible part of the reply that is being written."""
    return " ".join(text.strip() for text in page.locator(".growing").all_inner_texts())


def list_menu(page: Page) -> list[str]:
    """Return the entries of the chat's menu."""
    page.get_by_role("button", name="More", exact=True).click()
    entries = page.locator(".menu .grow").all_inner_texts()
    page.keyboard.press("Escape")
    return entries


def answer_all(site: Serving, chat: int) -> None:
    """Answer what a chat asks."""
    for asked in site.client().get(f"/api/chat/{chat}/approvals")["approvals"]:
        site.client().post(f"/api/chat/{chat}/approvals/{asked['id']}", {"decision": "deny"})


def test_a_tab_listens_itself_when_the_one_that_does_so_for_all_does_not_answer(
    ada: Person, site: Serving
) -> None:
    """Rows 12 and 13."""
    chat = site.client().create_chat(title="Before")
    silent = ada.open("/login")
    silent.evaluate(
        "new Promise((held) => navigator.locks.request('agentd-live /',"
        " () => { held(); return new Promise(() => {}); }).catch(() => {}))"
    )
    page = ada.context.new_page()
    page.clock.install()
    page.goto(f"{ada.url}/{chat}")
    page.get_by_role("heading", name="Before").wait_for()
    site.client().put(f"/api/chats/{chat}", {"title": "Told to nobody"})
    page.clock.set_system_time(datetime.now(UTC) + timedelta(minutes=10))
    expect(page.get_by_role("heading", name="Told to nobody")).to_be_visible()


def test_a_frozen_tab_lets_another_listen_and_catches_up(ada: Person, site: Serving) -> None:
    """Rows 12 and 13."""
    client = site.client()
    opened: list[str] = []
    ada.context.on(
        "request", lambda request: "/api/events" in request.url and opened.append(request.url)
    )
    chat = client.create_chat(title="Before")
    frozen, page = ada.open(f"/{chat}"), ada.open(f"/{chat}")
    for tab in (frozen, page):
        expect(tab.locator(".foot small")).to_contain_text("live")
    frozen.evaluate("document.dispatchEvent(new Event('freeze'))")
    until(lambda: page.evaluate("1") and len(opened) == 2)
    client.put(f"/api/chats/{chat}", {"title": "While it was frozen"})
    expect(page.get_by_role("heading", name="While it was frozen")).to_be_visible()
    page.close()
    frozen.evaluate("document.dispatchEvent(new Event('resume'))")
    client.put(f"/api/chats/{chat}", {"title": "After it"})
    expect(frozen.get_by_role("heading", name="After it")).to_be_visible()


def test_what_the_daemon_did_not_answer_is_asked_again(ada: Person, site: Serving) -> None:
    """Row 10: a message was told of, but could not be read at once."""
    client = site.client()
    chat = client.create_chat(title="Read later")
    page = ada.open(f"/{chat}")
    expect(page.locator(".foot small")).to_contain_text("live")
    failed: list[str] = []
    page.route(
        f"**/api/chat/{chat}/messages**",
        lambda route: (failed.append(route.request.url), route.abort()),
    )
    client.post(f"/api/remote/chats/{chat}/queue", {"prompt": "read me"})
    client.messages(chat)
    until(lambda: page.evaluate("1") and failed)
    expect(page.locator(".chat-row", has_text="Read later")).to_contain_text("done")
    page.unroute_all()
    expect(page.locator(".prose", has_text="echo: read me")).to_have_count(1)
