"""Where the focus is once what had it is elsewhere, or gone."""

from agentd.agent.engine import ReplyCompleted
from tests.support.daemon import Serving
from tests.ui.support import Person, TalkingEngine

from playwright.sync_api import Locator, Page, expect  # isort: skip


def find_row(page: Page, chat: int) -> Locator:
    """Find the row of a chat in the sidebar."""
    return page.get_by_label("Navigation").locator(f'[data-chat="{chat}"]')


def choose(page: Page, button: Locator, item: str) -> None:
    """Choose an entry of a menu by the keyboard."""
    button.press("Enter")
    page.get_by_role("menuitem", name=item).press("Enter")


def test_a_chat_that_changes_its_group_keeps_the_focus(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Row 38."""
    client = site.client()
    chat = client.create_chat(title="Moves")
    client.create_chat(title="Stays")
    page = ada.open("/analytics")
    row = find_row(page, chat)
    link, group = (
        row.get_by_role("link"),
        page.locator(".side section").filter(has=page.locator(f'[data-chat="{chat}"]')),
    )
    link.focus()
    talking.expect("work")
    client.post(f"/api/remote/chats/{chat}/queue", {"prompt": "work"})
    expect(group.get_by_role("heading")).to_contain_text("At work")
    expect(link).to_be_focused()
    talking.say("work", ReplyCompleted("done"))
    expect(group.get_by_role("heading")).to_contain_text("Today")
    expect(link).to_be_focused()
    menu = row.get_by_role("button", name="Chat actions")
    choose(page, menu, "Pin")
    expect(group.get_by_role("heading")).to_contain_text("Pinned")
    expect(menu).to_be_focused()
    choose(page, menu, "Move to the trash")
    expect(row).to_have_count(0)
    expect(page.get_by_role("group", name="Navigation")).to_be_focused()


def test_a_row_that_is_renamed_or_deleted_leaves_the_focus_at_its_place(
    ada: Person, site: Serving
) -> None:
    """Row 38."""
    for name in ("alpha", "beta", "gamma"):
        site.client().post("/api/chat-labels", {"name": name, "color": "#cc3b3b"})
    page = ada.open("/settings/labels")

    def find_menu(name: str) -> Locator:
        return page.get_by_role("button", name=f"Actions for {name}")

    dialog = page.get_by_role("dialog")
    choose(page, find_menu("beta"), "Edit")
    dialog.get_by_label("Name").fill("better")
    page.keyboard.press("Enter")
    expect(find_menu("better")).to_be_focused()
    choose(page, find_menu("better"), "Delete")
    dialog.get_by_role("button", name="Delete").press("Enter")
    expect(find_menu("better")).to_have_count(0)
    expect(find_menu("gamma")).to_be_focused()
