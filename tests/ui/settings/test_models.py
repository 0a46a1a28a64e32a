"""Settings, Models and About."""

import re
from pathlib import Path

from agentd import __version__
from tests.support.daemon import Serving, until
from tests.ui.support import Person

from playwright.sync_api import Locator, Page, expect  # isort: skip


def find_row(page: Page, name: str) -> Locator:
    """Find the row of a model."""
    return page.locator("li", has=page.get_by_text(name, exact=True))


def choose_from_menu(page: Page, name: str, item: str) -> None:
    """Choose from the menu of a model."""
    page.get_by_role("button", name=f"Actions for {name}", exact=True).click()
    page.get_by_role("menuitem", name=item).click()


def test_models_are_added_edited_made_the_default_and_removed(ada: Person, site: Serving) -> None:
    page = ada.open("/settings/models")
    page.get_by_role("button", name="Add a model").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label(re.compile("^Name")).fill("new")
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("missing")
    dialog.get_by_label(re.compile("^Supplier")).select_option("none")
    dialog.get_by_label(re.compile("^Model")).fill("the new")
    dialog.get_by_label("Price of input").fill("0.25")
    dialog.get_by_label("Price of output").fill("2")
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(find_row(page, "new")).to_contain_text("$0.25 in, $2.00 out")
    choose_from_menu(page, "new", "Edit")
    dialog.get_by_label(re.compile("^Name")).fill("newer")
    dialog.get_by_role("button", name="Save").click()
    expect(find_row(page, "newer")).to_contain_text("the new")
    choose_from_menu(page, "newer", "Make it the default")
    expect(find_row(page, "newer")).to_contain_text("default")
    choose_from_menu(page, "newer", "No default")
    expect(find_row(page, "newer")).not_to_contain_text("default")
    choose_from_menu(page, "newer", "Remove")
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(find_row(page, "newer")).to_have_count(0)
    assert "newer" not in Path(site.layout.models).read_text()


def test_a_web_search_is_refused_where_a_supplier_has_none_and_kept_where_it_has(
    ada: Person, site: Serving
) -> None:
    file = Path(site.layout.models)
    before = file.read_text()
    searching = "  searching: {dialect: anthropic, url: 'http://127.0.0.1:9'}\n"
    try:
        file.write_text(before.replace("suppliers:\n", f"suppliers:\n{searching}"))
        until(lambda: "searching" in site.client().get("/api/models")["suppliers"])
        page = ada.open("/settings/models")
        page.get_by_role("button", name="Add a model").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label(re.compile("^Name")).fill("finder")
        dialog.get_by_label(re.compile("^Supplier")).select_option("none")
        dialog.get_by_label(re.compile("^Model")).fill("m")
        dialog.get_by_label(re.compile("^Web search")).check()
        dialog.get_by_label("Price of a search").fill("0.01")
        dialog.get_by_role("button", name="Add", exact=True).click()
        expect(dialog.get_by_role("alert")).to_contain_text("needs a supplier whose dialect is")
        dialog.get_by_label(re.compile("^Supplier")).select_option("searching")
        dialog.get_by_role("button", name="Add", exact=True).click()
        expect(find_row(page, "finder")).to_be_visible()
        choose_from_menu(page, "finder", "Edit")
        expect(dialog.get_by_label(re.compile("^Web search"))).to_be_checked()
        expect(dialog.get_by_label("Price of a search")).to_have_value("0.01")
        dialog.get_by_role("button", name="Save").click()
        expect(dialog).to_have_count(0)
        assert "web_search: true" in file.read_text()
    finally:
        file.write_text(before)


def test_a_hand_edit_of_the_models_is_shown(ada: Person, site: Serving) -> None:
    """Row 34."""
    file = Path(site.layout.models)
    before = file.read_text()
    page = ada.open("/settings/models")
    expect(find_row(page, "mine")).to_be_visible()
    try:
        file.write_text(before + "  - {name: by-hand, engine: offline}\n")
        expect(find_row(page, "by-hand")).to_be_visible()
    finally:
        file.write_text(before)


def test_a_model_that_cannot_be_used_says_why(ada: Person, site: Serving) -> None:
    file = Path(site.layout.models)
    before = file.read_text()
    page = ada.open("/settings/models")
    try:
        file.write_text(before + "  - {name: gone, engine: codex, command: [/no/such/codex]}\n")
        expect(find_row(page, "gone")).to_contain_text("/no/such/codex is not installed")
        expect(find_row(page, "gone")).to_contain_text("Not ready")
    finally:
        file.write_text(before)


def test_about_tells_the_version_and_the_engines(ada: Person) -> None:
    page = ada.open("/settings/about")
    expect(page.get_by_role("heading", name=f"agentd {__version__}")).to_be_visible()
    engines = page.get_by_role("region", name="Engines")
    for name in ("offline", "codex", "claude-code", "acp"):
        expect(engines.locator("code", has_text=name).first).to_be_visible()


def test_a_size_that_is_no_number_is_refused_and_stays(ada: Person, site: Serving) -> None:
    page = ada.open("/settings/models")
    page.get_by_role("button", name="Add a model").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label(re.compile("^Name")).fill("sized")
    dialog.get_by_label(re.compile("^Model")).fill("sized")
    dialog.get_by_label(re.compile("^Supplier")).select_option("none")
    for label in ("Context", "Longest reply"):
        dialog.get_by_label(label).fill("200k")
        dialog.get_by_role("button", name="Add", exact=True).click()
        expect(dialog.get_by_role("alert")).to_contain_text(f"{label}: this is not a number")
        expect(dialog.get_by_label(label)).to_have_value("200k")
        dialog.get_by_label(label).fill("200000")
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(find_row(page, "sized")).to_contain_text("200,000 tokens")
    choose_from_menu(page, "sized", "Remove")
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(find_row(page, "sized")).to_have_count(0)
