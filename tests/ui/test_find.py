"""Ctrl F in a chat: what the daemon finds in all of its messages, shown one by one."""

import unicodedata

import pytest

from agentd.agent.engine import ReplyCompleted, ToolUsed
from tests.support.daemon import Serving, until
from tests.ui.accessibility import check_accessibility
from tests.ui.support import PHONE, Person, TalkingEngine, find_prompt_box, person

from playwright.sync_api import Browser, Locator, Page, expect  # isort: skip

PAINTED = "[...(CSS.highlights.get('{}') ?? [])].map((one) => one.toString())"


def list_highlighted(page: Page, name: str) -> list[str]:
    """List the words that a highlight paints."""
    found: list[str] = page.evaluate(PAINTED.format(name))
    return found


def find_words(page: Page, words: str) -> Locator:
    """Open the bar and look for these words; return the element with their number."""
    find_prompt_box(page).press("Control+f")
    page.get_by_role("searchbox", name="Find in this chat").fill(words)
    return page.locator(".findbar .state")


@pytest.fixture(scope="module")
def long_chat(site: Serving, talking: TalkingEngine) -> str:
    """A chat of which the page shows the end only; the needle is in its first and last turn."""
    client = site.client()
    chat = client.create_chat(title="A long one", prompt="the first Needle")
    for number in range(60):
        text = f"turn {number}" if number < 59 else "the last **nee**dle"
        client.post(f"/api/remote/chats/{chat}/queue", {"prompt": text})
    until(lambda: client.status(chat, 20)["status"] == "completed")
    return f"/{chat}"


def test_messages_are_found_that_the_page_has_not_loaded(ada: Person, long_chat: str) -> None:
    page = ada.open(long_chat)
    expect(page.locator(".prompt", has_text="the last needle")).to_be_visible()
    expect(page.locator(".prompt", has_text="the first Needle")).to_have_count(0)
    count = find_words(page, "needle")
    expect(count).to_have_text("2 of 2")
    page.keyboard.press("Enter")
    expect(count).to_have_text("1 of 2")
    first = page.locator(".prompt", has_text="the first Needle")
    expect(first).to_be_in_viewport()
    until(lambda: list_highlighted(page, "found-here") == ["Needle"])
    page.keyboard.press("Shift+Enter")
    expect(count).to_have_text("2 of 2")
    expect(page.locator(".prose", has_text="echo: the first Needle")).to_be_in_viewport()
    page.keyboard.press("Escape")
    expect(page.locator(".findbar")).to_have_count(0)
    until(lambda: list_highlighted(page, "found") == list_highlighted(page, "found-here") == [])


def test_words_within_marks_are_painted_and_what_is_not_there_is_said(
    ada: Person, long_chat: str
) -> None:
    page = ada.open(long_chat)
    expect(page.locator(".prompt", has_text="the last needle")).to_be_visible()
    count = find_words(page, "the last")
    expect(count).to_have_text("1 of 2")
    until(lambda: list_highlighted(page, "found-here") == ["the last"])
    until(lambda: list_highlighted(page, "found") == ["the last"] * 2)
    find_words(page, "nobody said this")
    expect(count).to_have_text("Nothing found")
    expect(page.get_by_role("button", name="Next match")).to_be_disabled()
    find_words(page, "")
    expect(count).to_have_text("")


def test_words_are_painted_however_their_accents_are_written(ada: Person, site: Serving) -> None:
    client = site.client()
    apart = unicodedata.normalize("NFD", "Menü")
    chat = client.create_chat(title="Accents", prompt=f"the {apart} of today")
    until(lambda: client.status(chat, 20)["status"] == "completed")
    page = ada.open(f"/{chat}")
    expect(page.locator(".prompt")).to_be_visible()
    expect(find_words(page, "menü")).to_have_text("1 of 2")
    until(lambda: list_highlighted(page, "found") == [apart] * 2)


def test_a_step_that_is_folded_away_is_unfolded_to_show_what_was_found(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    talking.expect("use a tool")
    chat = site.client().create_chat(title="Folded", prompt="use a tool")
    talking.say("use a tool", ToolUsed("read_file", "path=a.txt", "one\nxylophone\nthree"))
    talking.say("use a tool", ReplyCompleted("done"))
    page = ada.open(f"/{chat}")
    expect(page.get_by_role("button", name="Worked")).to_be_visible()
    expect(page.locator(".output")).to_have_count(0)
    expect(find_words(page, "xylophone")).to_have_text("1 of 1")
    expect(page.locator(".output")).to_contain_text("xylophone")
    until(lambda: list_highlighted(page, "found-here") == ["xylophone"])


def test_what_is_said_meanwhile_is_found_too_and_the_place_is_kept(
    ada: Person, site: Serving
) -> None:
    client = site.client()
    chat = client.create_chat(title="Growing", prompt="a quokka")
    client.messages(chat)
    page = ada.open(f"/{chat}")
    expect(page.locator(".prose", has_text="echo: a quokka")).to_be_visible()
    count = find_words(page, "quokka")
    expect(count).to_have_text("1 of 2")
    client.post(f"/api/remote/chats/{chat}/queue", {"prompt": "one more quokka"})
    expect(count).to_have_text("1 of 4")


def test_finding_fits_a_phone_and_can_be_used_by_everybody(
    browser: Browser, site: Serving, long_chat: str
) -> None:
    """Rows 38 and 39."""
    with person(browser, site, size=PHONE) as somebody:
        page = somebody.open(long_chat)
        expect(page.locator(".prompt", has_text="the last needle")).to_be_visible()
        page.get_by_role("button", name="More", exact=True).click()
        page.get_by_role("menuitem", name="Find in this chat").click()
        page.get_by_role("searchbox").fill("needle")
        expect(page.locator(".findbar .state")).to_have_text("2 of 2")
        check_accessibility(page)
