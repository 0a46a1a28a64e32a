"""Phones and tablets: their keyboards and their widths."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Serving, until
from tests.ui.support import PHONE, Person, person
from tests.ui.test_every_page import PAGES, wait_until_loaded

from playwright.sync_api import Browser, Page, expect  # isort: skip

ON_ITS_SIDE = (740, 360)
TABLET = (768, 1024)
KEYBOARD = 340
"""Pixels of the screen that it takes."""


@pytest.fixture
def phone(browser: Browser, site: Serving) -> Iterator[Person]:
    with person(browser, site, size=PHONE) as somebody:
        yield somebody


def resize(page: Page, size: tuple[int, int]) -> None:
    """Give the page another size, and return once it has heard of it."""
    page.evaluate(
        "window.resized = new Promise((done) =>"
        " addEventListener('resize', () => setTimeout(done), { once: true })); 1"
    )
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.evaluate("window.resized")


def test_a_menu_stays_as_the_keyboard_goes(phone: Person, site: Serving) -> None:
    chat = site.client().create_chat(title="One with a keyboard")
    page = phone.open(f"/{chat}")
    wait_until_loaded(page)
    width, height = PHONE
    resize(page, (width, height - KEYBOARD))
    button = page.get_by_role("button", name="Model: ")
    button.tap()
    menu = page.locator(".menu")
    expect(menu).to_be_visible()
    resize(page, PHONE)
    expect(menu).to_be_visible()
    beside, at = menu.bounding_box(), button.bounding_box()
    assert beside
    assert at
    assert beside["y"] + beside["height"] <= height
    assert min(abs(beside["y"] + beside["height"] - at["y"]), abs(beside["y"] - at["y"])) < 60
    page.get_by_role("heading", name="One with a keyboard").tap()
    expect(menu).to_have_count(0)


@pytest.mark.parametrize("size", [(320, 640), ON_ITS_SIDE, TABLET], ids=str)
def test_no_page_is_cut_at_the_side(browser: Browser, site: Serving, size: tuple[int, int]) -> None:
    """Row 39."""
    skill = Path(site.layout.config) / "skills" / "review" / "SKILL.md"
    skill.parent.mkdir(parents=True, exist_ok=True)
    skill.write_text("---\nname: review\ndescription: Reviews.\n---\nReview.\n")
    until(lambda: site.client().get("/api/skills")["skills"])
    with person(browser, site, size=size) as somebody:
        page = somebody.open("/")
        expect(page.get_by_role("button", name="Skill")).to_be_visible()
        for path in PAGES.values():
            page.goto(site.url + path)
            wait_until_loaded(page)
            cut = page.evaluate(
                "[...document.querySelectorAll('.scroll')]"
                ".filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.ariaLabel)"
            )
            assert not cut, path


@pytest.mark.parametrize("size", [ON_ITS_SIDE, TABLET], ids=str)
def test_what_a_setting_means_has_room_beside_its_field(
    browser: Browser, site: Serving, size: tuple[int, int]
) -> None:
    with person(browser, site, size=size) as somebody:
        page = somebody.open("/settings/agent")
        told = page.locator(".setting .told").first
        field = page.locator(".setting .entry").first
        expect(told).to_be_visible()
        widths = [one.evaluate("(node) => node.offsetWidth") for one in (told, field)]
        assert widths[0] > widths[1] / 2
