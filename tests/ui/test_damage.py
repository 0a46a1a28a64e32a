"""A chat whose journal was damaged is shown as what it is: read-only."""

from pathlib import Path

from tests.support.daemon import Serving
from tests.ui.support import person

from playwright.sync_api import Browser, expect  # isort: skip


def test_a_damaged_chat_says_in_the_lists_that_it_is_read_only(
    browser: Browser, tmp_path: Path
) -> None:
    with Serving(tmp_path) as site:
        client = site.client()
        chat = client.create_chat(title="Damaged", prompt="hello")
        client.messages(chat)
        client.create_chat(title="Intact")
        journal = Path(site.layout.get_journal_path(chat))
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:2], b"not a record\n", *lines[2:]]))
    with Serving(tmp_path) as site, person(browser, site) as somebody:
        page = somebody.open("/inbox")
        row = page.locator(".chats .item", has_text="Damaged")
        expect(row.locator(".why")).to_contain_text("Read-only: ")
        expect(page.get_by_role("heading", name="Failed")).to_be_visible()
        expect(page.locator("main a", has_text="Damaged").first).to_be_visible()
