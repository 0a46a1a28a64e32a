"""What every page must do for everybody (acceptance rows 38 and 39), in both themes."""

from pathlib import Path
from typing import Any

import pytest

from tests.ui.support import PHONE

from playwright.sync_api import Page  # isort: skip

axe = pytest.importorskip("axe_playwright_python.sync_playwright")

_LEVELS = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"]
_CONTRAST = {"type": "rule", "values": ["color-contrast"]}


def check_accessibility(page: Page, picture: Path | None = None) -> None:
    """Check that axe finds nothing, that nothing is sideways, and a phone's targets for fingers.

    The page is shown in the light theme. The dark one differs from it in colours only
    (``light-dark()`` in the style sheets), so there the contrasts are measured, and nothing else.
    ``picture``: the path of its pictures, to which ``.png`` and ``-dark.png`` are added.
    """
    size = page.viewport_size
    assert size
    _take_picture(page, picture, ".png")
    found = _run_axe(page, _LEVELS)
    assert found["passes"]
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    if size["width"] == PHONE[0]:
        assert not find_small_targets(page)
    page.emulate_media(color_scheme="dark")
    assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    _take_picture(page, picture, "-dark.png")
    _run_axe(page, _CONTRAST)
    page.emulate_media(color_scheme="light")


def find_small_targets(page: Page) -> list[str]:
    """Find the buttons and links that are too small for a finger, but for those within text."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll('button, a[href], input, textarea')]
          .filter((one) => one.checkVisibility() && !one.closest('.prose') && !one.matches('.skip'))
          .map((one) => [one, one.closest('.pick label, .choose-row, .mcp-form label') ?? one])
          .map(([one, target]) => [one, target.getBoundingClientRect()])
          .filter(([one, box]) => box.width && (box.height < 43.5 || box.width < 23.5))
          .map(([one, box]) => `${one.outerHTML.slice(0, 90)} ${box.width}x${box.height}`)"""
    )
    return found


def find_wide_parts(page: Page, scrollers: str) -> list[str]:
    """Find the scrolled parts whose content is wider than the window."""
    parts = page.locator(scrollers)
    assert parts.count()
    found: list[str] = parts.evaluate_all(
        """(all) => all.filter((one) => one.scrollWidth > innerWidth)
          .map((one) => `${one.outerHTML.slice(0, 90)} ${one.scrollWidth}`)"""
    )
    return found


def _run_axe(page: Page, rules: object) -> Any:
    found = axe.Axe().run(page, options={"runOnly": rules, "resultTypes": ["violations"]})
    assert not found.response["violations"], found.generate_report()
    return found.response


def _take_picture(page: Page, picture: Path | None, ending: str) -> None:
    if picture:
        page.screenshot(path=picture.with_name(picture.name + ending))
