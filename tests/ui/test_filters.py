"""Filters of lists find a text in any case, and however its accents are written."""

import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Serving
from tests.ui.support import Person

from playwright.sync_api import expect  # isort: skip

NAME = unicodedata.normalize("NFD", "Café Straße")
"""As a file of macOS or a PDF has it."""
TYPED = "CAFÉ STRASSE"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A daemon with labels that were written by hand."""
    serving = Serving(tmp_path_factory.mktemp("site"))
    file = Path(serving.layout.labels)
    file.parent.mkdir(parents=True)
    names = [*(f"label {number}" for number in range(13)), NAME]
    file.write_text(json.dumps({"labels": [{"name": name} for name in names]}))
    with serving:
        yield serving


def test_a_label_is_found_in_the_settings_and_for_a_chat(ada: Person, site: Serving) -> None:
    page = ada.open("/settings/labels")
    page.get_by_label("Filter labels").fill(TYPED)
    rows = page.locator(".rows > li")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text(NAME)
    page = ada.open(f"/{site.client().create_chat(title='Labelled')}")
    page.get_by_role("main").get_by_role("button", name="More", exact=True).click()
    page.get_by_role("menuitem", name="Labels…").click()
    dialog = page.get_by_role("dialog", name="Labels")
    dialog.get_by_label("Filter labels").fill(TYPED)
    expect(dialog.get_by_role("checkbox")).to_have_count(1)


def test_a_chat_is_found_by_its_title_and_in_the_trash(ada: Person, site: Serving) -> None:
    client = site.client()
    chat = client.create_chat(title=f"Trip to the {NAME}")
    page = ada.open("/")
    page.get_by_role("link", name="Trip to the").wait_for()
    page.route("**/api/chats?*", lambda route: route.abort())  # what the page finds by itself
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill(TYPED)
    expect(page.get_by_role("option", name="Trip to the")).to_be_visible()
    client.delete(f"/api/chats/{chat}")
    other = client.create_chat(title="Another")
    client.delete(f"/api/chats/{other}")
    page = ada.open("/chats/trash")
    rows = page.locator(".trash-row")
    expect(rows).to_have_count(2)
    page.get_by_role("searchbox").fill(TYPED)
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text(NAME)
