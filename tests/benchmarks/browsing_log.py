"""The waits of an administrator at the log of requests, beside a hundredth of the requests."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agentd.auth.password import HashCost, hash_password
from agentd.auth.roles import User
from agentd.auth.user_store import UserFile
from agentd.storage.layout import Layout
from tests.benchmarks import servers
from tests.benchmarks.books import Books
from tests.benchmarks.browsing import PASSWORD, compare, open_page, signed_in_context, wait_for
from tests.benchmarks.large_gateway import LargeGateway
from tests.benchmarks.measures import Row, Size, create_scratch_folder
from tests.benchmarks.servers import Gun, Server, running_server
from tests.benchmarks.states import Maker

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

PART = 100
"""The small log is this part of the large one; models, channels and keys are as many."""
_LOG = "/gateway/requests"
_ROW = ".log tbody tr"
_TIME = """async ([action, wanted]) => {
  const began = performance.now();
  const log = document.querySelector(".log");
  const last = [...document.querySelectorAll(".log tbody tr")].at(-1)?.dataset.id;
  if (action === "scroll") log.scrollTop = log.scrollHeight;
  else if (action === "open") document.querySelector(".log tbody tr").click();
  else if (action === "back") history.back();
  else document.querySelector(`a[href$="${action}"]`).click();
  const isThere = () => action === "scroll"
    ? [...document.querySelectorAll(".log tbody tr")].at(-1)?.dataset.id !== last
    : document.querySelector(wanted)?.checkVisibility();
  while (!isThere()) await new Promise(requestAnimationFrame);
  return performance.now() - began;
}"""
"""Milliseconds from an action to the frame that shows what it is for."""
STEPS = (
    ("scroll", "", "the next page, by scrolling"),
    ("open", ".drawer .kv", "one request in the drawer"),
    ("/gateway/leaks", "main .frame h1", ""),
    ("back", f".drawer .kv, {_ROW}", "back to it"),
)


def measure_request_log(size: Size, gun: Gun) -> Iterator[Row]:
    """Measure ratios of times in Chromium; needs ``chromium`` and playwright."""
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
        few, many = _fill(small, size.logged // PART), _fill(large, size.logged)
        browser = tool.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        with (
            running_server(servers.start_held_daemon(few)) as one,
            running_server(servers.start_held_daemon(many)) as other,
            signed_in_context(browser, one) as ours,
            signed_in_context(browser, other) as theirs,
        ):
            yield from _compare_logs(size, (theirs, other), (ours, one))
        browser.close()


def _fill(folder: str, requests: int) -> Layout:
    maker = Maker(folder)
    maker.add_chat(3)
    maker.finish()
    Books(LargeGateway(maker.layout, 10, 4, 20), requests).fill()
    UserFile(maker.layout).add(
        User("ada", "administrator", hash_password(PASSWORD, HashCost(14, 8, 1)))
    )
    return maker.layout


def _compare_logs(
    size: Size, many: "tuple[BrowserContext, Server]", few: "tuple[BrowserContext, Server]"
) -> Iterator[Row]:
    what = f"log of {size.logged:,} requests, of {size.logged // PART:,}"
    filtered = f"{_LOG}?model=vendor/model-0001&outcome=failed"
    for path, words in ((_LOG, "its first page"), (filtered, "with two filters")):
        for place in (many, few):
            _time_page(*place, path)
        ratio = compare(
            size.rounds,
            lambda path=path: _time_page(*many, path),  # type: ignore[misc]
            lambda path=path: _time_page(*few, path),  # type: ignore[misc]
        )
        yield Row(f"{what}: {words}", ratio, 1.5)
    ratios = [
        [one / other for one, other in zip(_time_steps(*many), _time_steps(*few), strict=True)]
        for _ in range(size.rounds)
    ]
    for number, (_, _, words) in enumerate(STEPS):
        if words:
            middle = sorted(round_[number] for round_ in ratios)[len(ratios) // 2]
            yield Row(f"{what}: {words}", middle, 1.5)


def _time_page(context: "BrowserContext", server: Server, path: str) -> float:
    page = open_page(context, server, path)
    waited = wait_for(page, f"{_ROW}, .log .empty")
    page.close()
    return waited


def _time_steps(context: "BrowserContext", server: Server) -> list[float]:
    """Return the milliseconds of each step, in order, in one page."""
    page = open_page(context, server, _LOG)
    wait_for(page, _ROW)
    waits = [float(page.evaluate(_TIME, [action, wanted])) for action, wanted, _ in STEPS]
    page.close()
    return waits
