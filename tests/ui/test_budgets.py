"""The size of the first page: requests and bytes, which are the same on every machine."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.support.daemon import Serving
from tests.ui.support import Person, person
from tests.ui.test_every_page import wait_until_loaded

from playwright.sync_api import Browser, expect  # isort: skip

MODULES = 24
"""Of the entry and what it imports at once; the others are loaded when they are wanted."""
COLD, WARM = 32, 5
"""Requests with an empty cache, and those that reach the daemon when everything is cached."""
JS, CSS = 60_000, 12_000
"""Bytes, compressed, with the heads of the answers."""


@dataclass
class Load:
    """The requests of a page's load."""

    urls: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, float] = field(default_factory=dict)
    cached: set[str] = field(default_factory=set)

    def sum_bytes(self, ending: str) -> float:
        """Sum the bytes of all files with this ending."""
        return sum(size for one, size in self.sizes.items() if self.urls[one].endswith(ending))

    def list_api_paths(self) -> list[str]:
        """List the daemon's addresses that were asked for."""
        return sorted(url for one, url in self.urls.items() if one not in self.cached)


def load_page(somebody: Person, path: str) -> Load:
    """Open a page, and record its requests."""
    found = Load()
    page = somebody.context.new_page()
    session = somebody.context.new_cdp_session(page)

    def receive(event: dict) -> None:
        if event["response"].get("fromDiskCache"):
            found.cached.add(event["requestId"])

    session.on(
        "Network.requestWillBeSent",
        lambda event: found.urls.__setitem__(event["requestId"], event["request"]["url"]),
    )
    session.on("Network.requestServedFromCache", lambda event: found.cached.add(event["requestId"]))
    session.on("Network.responseReceived", receive)
    session.on(
        "Network.loadingFinished",
        lambda event: found.sizes.__setitem__(event["requestId"], event["encodedDataLength"]),
    )
    session.send("Network.enable")
    page.goto(somebody.url + path)
    expect(page.get_by_label("The first prompt")).to_be_visible()
    wait_until_loaded(page)
    return found


@pytest.fixture
def fresh(browser: Browser, site: Serving) -> Iterator[Person]:
    """Somebody who was never here."""
    with person(browser, site) as somebody:
        yield somebody


def test_the_first_page_keeps_its_budget_without_and_with_a_cache(fresh: Person) -> None:
    """Row 40."""
    cold = load_page(fresh, "/")
    assert 10_000 < cold.sum_bytes(".js") <= JS
    assert 4_000 < cold.sum_bytes(".css") <= CSS
    assert 10 < len(cold.urls) <= COLD, "\n".join(cold.list_api_paths())
    warm = load_page(fresh, "/")
    assert 0 < len(warm.list_api_paths()) <= WARM, "\n".join(warm.list_api_paths())


def test_what_the_entry_imports_at_once_are_few_modules(fresh: Person) -> None:
    """Row 40."""
    page = fresh.open("/")
    preloaded = page.locator("link[rel=modulepreload]").count()
    assert 10 < preloaded <= MODULES
