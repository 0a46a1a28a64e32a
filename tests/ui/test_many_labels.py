"""The labels of a chat where there are thousands: filtered, few at once, chosen by keys."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Serving, until
from tests.ui.support import DESK, PHONE, person

from playwright.sync_api import Browser, expect  # isort: skip

MANY = 3000


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A daemon with labels that were written by hand."""
    serving = Serving(tmp_path_factory.mktemp("site"))
    file = Path(serving.layout.labels)
    file.parent.mkdir(parents=True)
    labels = [{"name": f"label {number}", "color": "#cc3b3b"} for number in range(MANY)]
    file.write_text(json.dumps({"labels": labels}))
    with serving:
        yield serving


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_labels_are_found_and_chosen_by_keys(
    browser: Browser, site: Serving, size: tuple[int, int]
) -> None:
    """Rows 38 and 39."""
    client = site.client()
    chat = client.create_chat(title="Labelled")
    client.put(f"/api/chats/{chat}/labels", {"labels": ["label 2990"]})

    def list_labels() -> list[str]:
        found: list[str] = client.get(f"/api/chats/{chat}")["labels"]
        return sorted(found)

    with person(browser, site, size=size) as somebody:
        page = somebody.open(f"/{chat}")
        page.get_by_role("main").get_by_role("button", name="More", exact=True).click()
        expect(page.get_by_role("menuitem", name="Labels…")).to_be_visible()
        assert page.get_by_role("menuitem").count() < 12
        page.get_by_role("menuitem", name="Labels…").press("Enter")
        dialog = page.get_by_role("dialog", name="Labels")
        boxes = dialog.get_by_role("checkbox")
        expect(boxes).to_have_count(50)
        expect(boxes.first).to_be_checked()
        expect(dialog.locator("li").first).to_have_text("label 2990")
        expect(dialog.get_by_text("2950 more: type to find")).to_be_visible()
        expect(dialog.get_by_label("Filter labels")).to_be_focused()
        page.keyboard.type("LABEL 123")
        expect(boxes).to_have_count(11)
        page.keyboard.press("Enter")
        expect(boxes.first).to_be_checked()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        expect(boxes.nth(1)).to_be_focused()
        page.keyboard.press("Space")
        until(lambda: list_labels() == ["label 123", "label 1230", "label 2990"])
        page.keyboard.press("Enter")
        until(lambda: list_labels() == ["label 123", "label 2990"])
        expect(boxes.nth(1)).not_to_be_checked()
        page.keyboard.press("ArrowUp")
        page.keyboard.press("ArrowUp")
        expect(dialog.get_by_label("Filter labels")).to_be_focused()
        page.keyboard.type("x")
        expect(dialog.get_by_text("No label matches.")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        page.keyboard.press("Escape")  # empties the filter
        expect(boxes).to_have_count(50)
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
