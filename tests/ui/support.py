"""A person at a browser: a real Chromium before a real daemon whose engine does as told."""

import asyncio
import re
import shutil
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from agentd.agent.engine import (
    Approver,
    EngineEvent,
    Question,
    RateLimited,
    ReplyCompleted,
    TurnRequest,
)
from tests.support.daemon import PATIENCE, WORD, Engine, Serving

playwright = pytest.importorskip("playwright.sync_api", reason="needs: pip install playwright")

from playwright.sync_api import (  # noqa: E402
    Browser,
    BrowserContext,
    Locator,
    Page,
    Route,
    Worker,
    expect,
)

CHROMIUM = shutil.which("chromium")
HEADLESS_SHELL = shutil.which("chromium-headless-shell") or CHROMIUM
"""The same browser without the windows around its pages, which take most of its processor time."""
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-fake-device-for-media-stream",
]
DESK, PHONE = (1440, 900), (390, 844)
CHANGES_OF_LABELS = "**/api/chats/*/labels"
WAIT = 60_000
"""Milliseconds after which what should have appeared will not, also on a machine that is busy."""
expect.set_options(timeout=WAIT)


class TalkingEngine(Engine):
    """Carries out each prompt as far as the test says: pieces of its reply, questions, its end.

    A prompt that the test has not spoken for is answered at once, as the engine of other tests.
    """

    def __init__(self) -> None:
        super().__init__()
        self._turns: dict[str, asyncio.Queue[EngineEvent | Question]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begun = threading.Event()
        self.answers: list[bool] = []
        """What was decided, in order."""
        self.notes: list[str] = []

    def expect(self, prompt: str) -> None:
        """Let the turn of this prompt wait until ``say`` tells it what to do."""
        self._turns[prompt] = asyncio.Queue()
        self._begun.clear()

    def say(self, prompt: str, *events: EngineEvent | Question) -> None:
        """Let the turn of this prompt say something; a reply or a limit is its end."""
        assert self._begun.wait(PATIENCE), "the turn did not begin"
        assert self._loop
        for event in events:
            self._loop.call_soon_threadsafe(self._turns[prompt].put_nowait, event)

    async def run(
        self, assignment: TurnRequest, approver: Approver
    ) -> AsyncGenerator[EngineEvent, None]:
        """Say what the test says."""
        told = self._turns.get(assignment.prompt)
        if told is None:
            async for event in super().run(assignment, approver):
                yield event
            return
        self.given.append(assignment)
        self._loop = asyncio.get_running_loop()
        self._begun.set()
        while True:
            event = await told.get()
            if isinstance(event, Question):
                answer = await approver.ask(event)
                self.answers.append(answer.allowed)
                self.notes.append(answer.reason)
                continue
            yield event
            if isinstance(event, ReplyCompleted | RateLimited):
                return


class Person:
    """Somebody with a browser of their own, whose tabs share its storage and its cookies."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.context = context
        self.url = url
        self.complaints: list[str] = []
        """What the browser complained of: errors of scripts, breaches of the policy."""

    def open(self, path: str = "/") -> Page:
        """Open a tab."""
        page = self.context.new_page()
        page.set_default_timeout(WAIT)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._hear)
        page.goto(self.url + path)
        return page

    def _hear(self, message: Any) -> None:
        # That a request failed is told as an error, too; what follows from it the tests look at.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.complaints.append(message.text)


def get_service_worker(somebody: Person) -> Worker:
    """Return the worker of the person's pages, which the browser reports with a delay."""
    known = somebody.context.service_workers
    return known[0] if known else somebody.context.wait_for_event("serviceworker")


def sign_in(page: Page, user: str = "ada", password: str = WORD) -> None:
    """Fill in the form."""
    page.get_by_label("Name").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.locator(".shell").wait_for()


def find_prompt_box(page: Page) -> Locator:
    """Find the box for a chat's next prompt."""
    return page.get_by_label("Prompt", exact=True)


def hold_requests(
    sender: Page | BrowserContext, address: str | re.Pattern[str] = CHANGES_OF_LABELS
) -> list[Route]:
    """Return the requests that are held back, as they come."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    sender.route(address, hold)
    return held


def scroll_by(scroller: Locator, pixels: int) -> None:
    """Scroll as far as it goes, and return once the page has heard of it."""
    scroller.evaluate(
        """(node, pixels) => new Promise((done) => {
          const before = node.scrollTop;
          node.addEventListener("scroll", () => setTimeout(done), { once: true });
          node.scrollTop += pixels;
          if (node.scrollTop === before) done();
        })""",
        pixels,
    )


@contextmanager
def person(
    browser: Browser,
    serving: Serving,
    *,
    size: tuple[int, int] = DESK,
    theme: str = "light",
    workers: bool = False,
    language: str | None = None,
    time_zone: str | None = None,
) -> Iterator[Person]:
    """A browser with an administrator's login; its errors fail the test."""
    token = serving.administrator().headers["Authorization"].removeprefix("Bearer ")
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if theme == "dark" else "light",
        has_touch=size == PHONE,
        reduced_motion="reduce",
        service_workers="allow" if workers else "block",
        locale=language,
        timezone_id=time_zone,
    )
    try:
        context.add_cookies(
            [{"name": get_cookie_name(serving), "value": token, "url": serving.url}]
        )
        somebody = Person(context, serving.url)
        yield somebody
        assert not somebody.complaints
    finally:
        # What a page still asks for while it closes concerns no test.
        context.unroute_all(behavior="ignoreErrors")
        context.close()


def get_cookie_name(serving: Serving) -> str:
    """Return the name of the session's cookie."""
    return f"agentd-session-{serving.port}"
