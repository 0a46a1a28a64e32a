"""The labels of a chat where there are thousands: filtered, few at once, chosen by keys."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Serving, until
from tests.ui.support import CHANGES_OF_LABELS, DESK, PHONE, hold_requests, person

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


def test_a_label_is_taken_off_again_before_the_daemon_answered(
    browser: Browser, site: Serving
) -> None:
    """Row 38: an answer to what was chosen before does not undo what was chosen since."""
    client = site.client()
    chat = client.create_chat(title="Labelled")
    with person(browser, site) as somebody:
        page = somebody.open(f"/{chat}")
        held = hold_requests(page)

        def answer() -> None:
            until(lambda: page.evaluate("true") and held)  # routes are told of while one waits
            held.pop().continue_()

        page.get_by_role("main").get_by_role("button", name="More", exact=True).click()
        page.get_by_role("menuitem", name="Labels…").click()
        boxes = page.get_by_role("dialog", name="Labels").get_by_role("checkbox")
        boxes.nth(0).click()
        boxes.nth(1).click()
        answer()
        until(lambda: page.evaluate("true") and held)  # the second is sent after the first's answer
        expect(boxes.nth(1)).to_be_checked()
        boxes.nth(1).click()
        expect(boxes.nth(1)).not_to_be_checked()
        answer()
        answer()
        page.unroute(CHANGES_OF_LABELS)
        until(lambda: client.get(f"/api/chats/{chat}")["labels"] == ["label 0"])
        expect(boxes.nth(1)).not_to_be_checked()


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
