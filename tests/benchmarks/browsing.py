"""The waits of a person at a browser: the first page, long chats, many chats, a key pressed."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from statistics import median
from typing import TYPE_CHECKING, Any

from agentd.auth.password import HashCost, hash_password
from agentd.auth.roles import User
from agentd.auth.user_store import UserFile
from tests.benchmarks import servers
from tests.benchmarks.held_engine import STREAM
from tests.benchmarks.measures import Row, Size, create_scratch_folder
from tests.benchmarks.servers import Gun, Server, running_server
from tests.benchmarks.states import Maker

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

FEW = 100
KEYS = 40
PASSWORD = "nobody else knows it"
_SEEN = """(wanted) => {
  const node = document.querySelector(wanted);
  return node && node.checkVisibility() && performance.now();
}"""
_HEAR_KEYS = """() => {
  window.waits = [];
  addEventListener("keydown", ({ timeStamp }) => requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => waits.push(performance.now() - timeStamp);
    port2.postMessage(0);
  }), true);
}"""


def measure_browsing(size: Size, gun: Gun) -> Iterator[Row]:
    """Measure ratios of times and of memory in Chromium; needs ``chromium`` and playwright."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return  # as the suite's tests in a browser are skipped
    from tests.ui.support import ARGUMENTS, CHROMIUM

    if not CHROMIUM:
        return
    with (
        create_scratch_folder() as small,
        create_scratch_folder() as large,
        sync_playwright() as tool,
    ):
        few, many = Maker(small), Maker(large)
        for messages in (FEW // 3 * 3, size.long // 3 * 3, *[3] * (FEW - 2)):
            few.add_chat(messages)
        for _ in range(size.chats):
            many.add_chat(3)
        for maker in (few, many):
            maker.finish()
            user = User("ada", "administrator", hash_password(PASSWORD, HashCost(14, 8, 1)))
            UserFile(maker.layout).add(user)
        browser = tool.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        with (
            running_server(servers.start_held_daemon(few.layout)) as one,
            running_server(servers.start_held_daemon(many.layout)) as other,
        ):
            yield from _measure_first_page(size, browser, one)
            yield from _measure_long_chat(size, browser, one)
            yield from _measure_many_chats(size, browser, one, other)
            yield from _measure_keys(size, browser, one)
        browser.close()


@contextmanager
def signed_in_context(browser: "Browser", server: Server) -> "Iterator[BrowserContext]":
    """A browser with an empty cache and a login."""
    context = browser.new_context(service_workers="block", bypass_csp=True)  # to wait by a function
    answer = _send(server, "/api/session", {"user": "ada", "password": PASSWORD, "bearer": True})
    name, url = f"agentd-session-{server.port}", f"http://127.0.0.1:{server.port}"
    context.add_cookies([{"name": name, "value": answer["token"], "url": url}])
    try:
        yield context
    finally:
        context.close()


def _send(server: Server, path: str, body: dict[str, Any], token: str = "") -> Any:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    connection.request("POST", path, json.dumps(body), headers)
    answer = connection.getresponse()
    found = json.loads(answer.read())
    connection.close()
    assert answer.status < 300, found
    return found


def open_page(context: "BrowserContext", server: Server, path: str) -> "Page":
    """Open a page of the server, without waiting for it."""
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{server.port}{path}", wait_until="commit")
    return page


def wait_for(page: "Page", wanted: str) -> float:
    """Milliseconds from the navigation until this is shown."""
    return float(page.wait_for_function(_SEEN, arg=wanted, polling="raf").json_value())


def _time_page(context: "BrowserContext", server: Server, path: str, wanted: str) -> float:
    page = open_page(context, server, path)
    waited = wait_for(page, wanted)
    page.close()
    return waited


def compare(rounds: int, one: Callable[[], float], other: Callable[[], float]) -> float:
    """Return the median of the ratios of two measures in turn."""
    return median(one() / other() for _ in range(rounds))


def _measure_first_page(size: Size, browser: "Browser", server: Server) -> Iterator[Row]:
    """Measure the time until one can write, beside an empty page of the same server."""

    def cold() -> float:
        with signed_in_context(browser, server) as context:
            return _time_page(context, server, "/", "textarea")

    with signed_in_context(browser, server) as context:

        def empty() -> float:
            return _time_page(context, server, "/healthz", "body")

        def warm() -> float:
            return _time_page(context, server, "/", "textarea")

        warm()
        yield Row("first page, cold: of an empty page", compare(size.rounds, cold, empty), 6)
        yield Row("first page, warm: of an empty page", compare(size.rounds, warm, empty), 6)


def _measure_long_chat(size: Size, browser: "Browser", server: Server) -> Iterator[Row]:
    """Measure a chat's end, and the memory of its page."""
    with signed_in_context(browser, server) as context:

        def show(chat: int) -> float:
            return _time_page(context, server, f"/{chat}", ".turn:last-child .ends")

        def weigh(chat: int) -> float:
            page = open_page(context, server, f"/{chat}")
            wait_for(page, ".turn:last-child .ends")
            session = context.new_cdp_session(page)
            session.send("Performance.enable")
            session.send("HeapProfiler.collectGarbage")
            metrics = session.send("Performance.getMetrics")["metrics"]
            page.close()
            return next(one["value"] for one in metrics if one["name"] == "JSHeapUsedSize")

        show(1)
        what = f"chat of {size.long:,} messages, of {FEW}"
        ratio = compare(size.rounds, lambda: show(2), lambda: show(1))
        yield Row(f"{what}: time until its end is shown", ratio, 1.5)
        ratio = compare(size.rounds, lambda: weigh(2), lambda: weigh(1))
        yield Row(f"{what}: memory of its page", ratio, 1.3)


def _measure_many_chats(size: Size, browser: "Browser", few: Server, many: Server) -> Iterator[Row]:
    with signed_in_context(browser, few) as one, signed_in_context(browser, many) as other:
        row = ".chats .item"
        for context, server in ((one, few), (other, many)):
            _time_page(context, server, "/inbox", row)
        ratio = compare(
            size.rounds,
            lambda: _time_page(other, many, "/inbox", row),
            lambda: _time_page(one, few, "/inbox", row),
        )
        yield Row(f"list of {size.chats:,} chats, of {FEW}: time until it is shown", ratio, 1.5)


def _measure_keys(size: Size, browser: "Browser", server: Server) -> Iterator[Row]:
    """Measure from a key to the next frame, beside a reply that grows by 200 tokens a second."""
    with signed_in_context(browser, server) as context:
        token = context.cookies()[0]["value"]
        quiet = _send(server, "/api/chats", {"title": "Quiet"}, token)["chatId"]
        loud = _send(server, "/api/chats", {"title": "Loud", "prompt": STREAM}, token)["chatId"]

        def press(chat: int) -> float:
            page = open_page(context, server, f"/{chat}")
            wait_for(page, "textarea" if chat == quiet else ".growing")
            page.evaluate(_HEAR_KEYS)
            page.locator("textarea").focus()
            page.keyboard.type("x" * (KEYS if size.rounds > 1 else 4), delay=35)
            waits = page.wait_for_function("waits.length > 3 && waits").json_value()
            page.close()
            return median(waits)

        ratio = compare(size.rounds, lambda: press(loud), lambda: press(quiet))
        yield Row("key to frame beside 200 tokens a second: median, of a quiet chat", ratio, 1.5)
