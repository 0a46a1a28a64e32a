"""What is told by a colour alone, where the system replaces the colours of all pages."""

import re
from collections.abc import Iterator

import pytest

from tests.support.daemon import Serving
from tests.ui.support import Person, TalkingEngine, person

from playwright.sync_api import Browser, Locator, Page, expect  # isort: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, talking: TalkingEngine) -> Iterator[Serving]:
    """A daemon with a build."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "config").mkdir()
    (folder / "config" / "builds.yml").write_text("builds:\n  app: {command: [echo, built]}\n")
    with Serving(folder, talking) as serving:
        yield serving


@pytest.fixture
def ada(browser: Browser, site: Serving) -> Iterator[Person]:
    """Somebody whose system has colours of its own."""
    with person(browser, site, theme="dark") as somebody:
        yield somebody


def open_page(somebody: Person, path: str) -> Page:
    """Open a page in the colours of the system."""
    page = somebody.open(path)
    page.emulate_media(forced_colors="active")
    expect(page.locator(".skeleton")).to_have_count(0)
    return page


def look_at(where: Locator, style: str = "backgroundColor", part: str = "") -> str:
    """Return how something is painted."""
    found: str = where.evaluate(
        "(node, [style, part]) => getComputedStyle(node, part || null)[style]", [style, part]
    )
    return found


def test_a_switch_and_the_state_of_a_chat_are_seen(ada: Person, site: Serving) -> None:
    """Row 38."""
    chat = site.client().create_chat(title="Quick", prompt="Say hello")
    site.client().messages(chat)
    page = open_page(ada, "/workspace/builds")
    switch = page.get_by_role("switch").first
    canvas = look_at(page.locator("body"))
    off = look_at(switch)
    assert off != canvas
    assert look_at(switch, part="::after") not in (off, canvas)
    dot = page.locator(f'.side [data-chat="{chat}"] .dot')
    expect(dot).to_have_class(re.compile("good"))
    assert look_at(dot) != canvas


@pytest.mark.parametrize(
    ("path", "chosen", "other"),
    [
        ("/analytics", ".seg [aria-pressed=true]", ".seg [aria-pressed=false]"),
        ("/workspace/builds", ".bar .seg [aria-current]", ".bar .seg a:not([aria-current])"),
        ("/settings/you", ".swatches [aria-pressed=true]", ".swatches [aria-pressed=false]"),
        ("/settings/you", ".nav [aria-current]", ".nav a:not([aria-current])"),
    ],
)
def test_what_is_chosen_among_others_is_seen(
    ada: Person, path: str, chosen: str, other: str
) -> None:
    """Row 38."""
    page = open_page(ada, path)
    assert look_at(page.locator(chosen).first, "outlineStyle") == "solid"
    assert look_at(page.locator(other).first, "outlineStyle") == "none"
