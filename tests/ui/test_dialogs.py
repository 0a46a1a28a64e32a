"""Dialogs: what was typed into one is not lost by a slip."""

import re
from collections.abc import Callable

import pytest

from tests.support.daemon import Serving
from tests.ui.support import Person, hold_requests

from playwright.sync_api import Locator, Page, expect  # isort: skip

QUESTION = "Discard what you entered?"


def press_escape(page: Page) -> None:
    """Leave a dialog by the keyboard."""
    page.keyboard.press("Escape")


def click_beside(page: Page) -> None:
    """Leave a dialog by the mouse."""
    page.mouse.click(5, 5)


def click_close(page: Page) -> None:
    """Leave the dialog on top by the button in its head."""
    page.get_by_role("dialog").last.get_by_role("button", name="Close").click()


LEAVE = pytest.mark.parametrize("leave", [press_escape, click_beside, click_close])


def open_form(somebody: Person) -> tuple[Page, Locator]:
    """Open a form."""
    page = somebody.open("/settings/labels")
    page.get_by_role("button", name="Add a label").first.click()
    return page, page.get_by_role("dialog", name="Add a label")


@LEAVE
def test_a_filled_form_is_left_only_after_a_question(
    ada: Person, leave: Callable[[Page], None]
) -> None:
    """Row 15."""
    page, dialog = open_form(ada)
    name = dialog.get_by_label("Name")
    name.fill("urgent")
    leave(page)
    question = page.get_by_role("dialog", name=QUESTION)
    expect(question.get_by_role("button", name="Keep editing")).to_be_focused()
    leave(page)
    expect(question).to_have_count(0)
    expect(name).to_have_value("urgent")
    leave(page)
    question.get_by_role("button", name="Discard").click()
    expect(page.get_by_role("dialog")).to_have_count(0)


@LEAVE
def test_a_form_that_was_not_filled_is_left_at_once(
    ada: Person, leave: Callable[[Page], None]
) -> None:
    page, dialog = open_form(ada)
    expect(dialog.get_by_label("Name")).to_be_focused()
    leave(page)
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_browser_asks_before_a_reload_loses_a_filled_form(ada: Person) -> None:
    page, dialog = open_form(ada)
    dialog.get_by_label("Name").press_sequentially("urgent")
    with page.expect_event("dialog") as asked:
        page.evaluate("() => void setTimeout(() => location.reload())")
    assert asked.value.type == "beforeunload"
    asked.value.dismiss()
    expect(dialog.get_by_label("Name")).to_have_value("urgent")
    press_escape(page)
    page.get_by_role("button", name="Discard").click()
    page.reload()  # which would wait for ever for an answer
    expect(page.get_by_role("button", name="Add a label").first).to_be_visible()


def test_a_form_that_is_saved_meanwhile_takes_its_question_with_it(
    ada: Person, site: Serving
) -> None:
    page, dialog = open_form(ada)
    dialog.get_by_label("Name").fill("saved")
    held = hold_requests(page, "**/api/chat-labels")
    dialog.get_by_role("button", name="Add", exact=True).click()
    press_escape(page)
    expect(page.get_by_role("dialog", name=QUESTION)).to_be_visible()
    (request,) = held
    request.continue_()
    expect(page.get_by_role("dialog")).to_have_count(0)
    names = [label["name"] for label in site.client().get("/api/chat-labels")["labels"]]
    assert "saved" in names


def test_who_goes_back_leaves_a_filled_form_only_after_a_question(ada: Person) -> None:
    """Row 15."""
    page = ada.open("/settings/models")
    page.get_by_role("link", name="Labels").click()
    page.get_by_role("button", name="Add a label").first.click()
    dialog = page.get_by_role("dialog", name="Add a label")
    name = dialog.get_by_label("Name")
    name.fill("urgent")
    question = page.get_by_role("dialog", name=QUESTION)
    for _ in range(2):
        page.go_back()
        expect(question).to_be_visible()
        expect(page).to_have_url(re.compile("/settings/labels$"))
    question.get_by_role("button", name="Keep editing").click()
    expect(question).to_have_count(0)
    expect(name).to_have_value("urgent")
    expect(page).to_have_title(re.compile("^Labels"))
    page.go_back()
    question.get_by_role("button", name="Discard").click()
    expect(page).to_have_url(re.compile("/settings/models$"))
    expect(page).to_have_title(re.compile("^Models"))
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_who_goes_back_leaves_a_form_that_was_not_filled_at_once(ada: Person) -> None:
    page = ada.open("/settings/models")
    page.get_by_role("link", name="Labels").click()
    page.get_by_role("button", name="Add a label").first.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.go_back()
    expect(page).to_have_title(re.compile("^Models"))
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_enter_does_not_answer_the_question_whether_to_delete_something_that_it_opened(
    ada: Person, site: Serving
) -> None:
    site.administrator().post("/api/chat-labels", {"name": "precious", "color": "#2f9a63"})
    page = ada.open("/settings/labels")
    page.get_by_role("button", name="Actions for precious").press("Enter")
    page.get_by_role("menuitem", name="Delete").focus()
    question = page.get_by_role("dialog")
    page.keyboard.down("Enter")
    expect(question).to_be_visible()
    page.keyboard.down("Enter")  # as the keyboard repeats it
    page.keyboard.up("Enter")
    expect(question.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Enter")
    expect(question).to_have_count(0)
    expect(page.locator("li", has_text="precious")).to_be_visible()
    page.get_by_role("button", name="Actions for precious").press("Enter")
    page.get_by_role("menuitem", name="Delete").press("Enter")
    page.keyboard.press("Tab")
    expect(question.get_by_role("button", name="Delete")).to_be_focused()
    page.keyboard.press("Enter")
    expect(question).to_have_count(0)
    expect(page.locator("li", has_text="precious")).to_have_count(0)


@pytest.mark.parametrize("height", [900, 420])
def test_the_buttons_of_a_long_form_and_why_it_is_refused_are_in_view(
    ada: Person, site: Serving, height: int
) -> None:
    name_taken = f"taken-{height}"
    site.administrator().post("/api/mcp-servers", {"name": name_taken, "command": ["node"]})
    page = ada.open("/settings/mcp-servers")
    page.set_viewport_size({"width": 1280, "height": height})
    page.get_by_role("button", name="Add a server").first.click()
    dialog = page.get_by_role("dialog", name="Add an MCP server")
    add = dialog.get_by_role("button", name="Add", exact=True)
    name = dialog.get_by_role("textbox", name="Name Letters")
    for button in (add, dialog.get_by_role("button", name="Close"), name):
        expect(button).to_be_in_viewport(ratio=1)
    name.fill(name_taken)
    dialog.get_by_label("Program and arguments").fill("node")
    name.press("Enter")
    why = dialog.get_by_role("alert").locator(".failure")
    expect(why).to_be_in_viewport(ratio=1)
    assert is_uncovered(why)
    dialog.get_by_label("Variables").focus()
    assert is_uncovered(dialog.get_by_label("Variables"))
    expect(add).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize(
    ("field", "text", "message"),
    [
        ("command", "", ""),
        ("env", "A B=1", "Variables: expected at most 100 letters, digits and _"),
        ("url", "ftp://docs.example", "Address: expected an address such as"),
        ("headers", "A B: c", "Headers: A B: is not a valid header name"),
        ("headers", "Host: docs.example", "Headers: Host: is set by agentd itself"),
    ],
)
def test_a_refused_value_of_an_mcp_server_is_told_at_its_field(
    ada: Person, field: str, text: str, message: str
) -> None:
    page = ada.open("/settings/mcp-servers")
    page.get_by_role("button", name="Add a server").first.click()
    dialog = page.get_by_role("dialog", name="Add an MCP server")
    dialog.locator("[name=name]").fill("docs")
    dialog.locator("[name=command]").fill("node")
    if field in ("url", "headers"):
        dialog.get_by_label("An address").check()
        dialog.locator("[name=url]").fill("https://docs.example/mcp")
    control = dialog.locator(f"[name={field}]")
    control.fill(text)
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text(message)
    expect(control).to_be_focused()
    assert control.evaluate("(control) => control.validationMessage")


@pytest.mark.parametrize(
    ("path", "button", "values", "message"),
    [
        ("labels", "Add a label", {"name": "-"}, "Name: expected letters, digits"),
        ("configuration", "Add a person", {"name": "a b", "password": "twelve letters"}, "Name: "),
        ("configuration", "Generate key", {"name": "a..b c"}, "Name: expected at most 64"),
    ],
)
def test_a_refused_name_is_told_at_its_field(
    ada: Person, path: str, button: str, values: dict[str, str], message: str
) -> None:
    page = ada.open(f"/settings/{path}")
    page.get_by_role("button", name=button).first.click()
    dialog = page.get_by_role("dialog")
    name = dialog.locator("[name=name]")
    name.evaluate("(name) => name.removeAttribute('pattern')")
    for field, text in values.items():
        dialog.locator(f"[name={field}]").fill(text)
    dialog.locator("footer button").last.click()
    expect(dialog.get_by_role("alert")).to_contain_text(message)
    expect(name).to_be_focused()


def is_uncovered(locator: Locator) -> bool:
    """Return whether nothing lies over an element, at its beginning and at its end."""
    return bool(
        locator.evaluate(
            """(node) => {
              const { left, top, bottom } = node.getBoundingClientRect();
              const find = (y) => document.elementFromPoint(left + 9, y);
              return [top + 2, bottom - 2].every((y) => node.contains(find(y)));
            }"""
        )
    )
