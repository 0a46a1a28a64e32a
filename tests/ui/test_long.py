"""A long history: a chat of 100,002 messages, the oldest of 10,000, as the store writes them."""

import re
from collections.abc import Iterator

import pytest

from agentd.agent.engine import ReplyCompleted
from tests.benchmarks.states import Maker
from tests.support.daemon import Serving, until
from tests.ui.support import Person, TalkingEngine, scroll_by

from playwright.sync_api import Page, expect  # isort: skip

MESSAGES = 100_002
"""A whole number of turns of three."""
CHATS = 10_000
MOST = 300
"""Messages in the document."""
MOST_ROWS = 150
"""Rows of chats in the document."""
IS_WITHOUT_GAPS = """() => {
  const list = document.querySelector(".side .list").getBoundingClientRect();
  const nodes = [...document.querySelectorAll(".side .chat-row")];
  const rows = nodes.map((row) => row.getBoundingClientRect());
  const seen = rows.filter((row) => row.bottom > list.top && row.top < list.bottom);
  const close = seen.every((row, at) => at === 0 || Math.abs(row.top - seen[at - 1].bottom) < 40);
  const ends = list.bottom - seen.at(-1)?.bottom;
  return seen.length > 10 && close && seen[0].top <= list.top && ends < 40;
}"""
"""Whether rows fill the whole sidebar."""
SCROLL_TO_THE_LAST = """async () => {
  const list = document.querySelector(".side .list");
  let most = 0;
  while (list.querySelector(".more")) {
    list.scrollTop = list.scrollHeight;
    await new Promise((resolve) => setTimeout(resolve, 20));
    most = Math.max(most, list.querySelectorAll(".chat-row").length);
  }
  return most;
}"""
"""Scroll until all chats are read; the most rows that were in the document."""
LIST_HAS_FOCUS = "document.activeElement === document.querySelector('.side .list')"
FIRST, FOUND, LAST = (
    "Begin with the harbour.",
    "The lighthouse is on pier 3.",
    "That was all of it.",
)
FOUND_AT = 50_001
REMEMBERED = """() => {
  const { place } = history.state ?? {};
  const node = place && document.getElementById(`m${place.id}`);
  const edge = document.querySelector(".script-scroll").getBoundingClientRect().top;
  return node && Math.abs(edge - node.getBoundingClientRect().top - place.above) < 1;
}"""
"""Whether the browser's history has the place that one reads at."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, talking: TalkingEngine) -> Iterator[Serving]:
    """A daemon with a long history."""
    folder = tmp_path_factory.mktemp("long")
    maker = Maker(str(folder))
    said = {1: FIRST, FOUND_AT: FOUND, MESSAGES: LAST}
    maker.add_chat(MESSAGES, title="The long chat", said=said)
    for number in range(2, CHATS + 1):
        maker.add_chat(3, title=f"Chat number {number}")
    maker.finish()
    with Serving(folder, talking) as serving:
        yield serving


def count_messages(page: Page) -> int:
    """Count the messages in the document."""
    return page.locator(".prompt, .steps > *").count()


def get_top(page: Page, message: int) -> float:
    """Return the distance of a message from the upper edge of the page."""
    return page.locator(f"#m{message}").evaluate("(node) => node.getBoundingClientRect().top")


def find_reading_position(page: Page) -> tuple[int, float]:
    """Return the reply at the top of the view, and where it begins."""
    return tuple(
        page.evaluate(
            """() => {
              const edge = document.querySelector('.script-scroll').getBoundingClientRect().top;
              const shown = [...document.querySelectorAll('.item-assistant:not([hidden])')];
              const node = shown.find((one) => one.getBoundingClientRect().bottom > edge + 80);
              return [Number(node.id.slice(1)), node.getBoundingClientRect().top];
            }"""
        )
    )


def test_a_chat_of_100_000_messages_opens_at_its_end(ada: Person, site: Serving) -> None:
    """Row 22."""
    page = ada.open("/1")
    expect(page.get_by_text(LAST)).to_be_in_viewport()
    assert count_messages(page) <= MOST


def test_its_start_and_its_end_are_one_key_away(ada: Person, site: Serving) -> None:
    """Row 22."""
    page = ada.open("/1")
    expect(page.get_by_text(LAST)).to_be_in_viewport()
    page.locator(".script-scroll").focus()
    page.keyboard.press("Home")
    expect(page.get_by_text(FIRST)).to_be_in_viewport()
    expect(page.get_by_role("button", name="To the start")).to_have_count(0)
    page.keyboard.press("End")
    expect(page.get_by_text(LAST)).to_be_in_viewport()


def test_the_button_to_the_start_stays_where_it_is_while_earlier_messages_come(
    ada: Person, site: Serving
) -> None:
    """Row 22."""
    page = ada.open("/1")
    expect(page.get_by_text(LAST)).to_be_in_viewport()
    button = page.get_by_role("button", name="To the start")
    expect(button).to_have_count(0)
    script = page.locator(".script-scroll")
    scroll_by(script, -300)
    place, count = button.bounding_box(), count_messages(page)
    scroll_by(script, -1_000_000)
    until(lambda: count_messages(page) > count)
    expect(button).to_be_in_viewport()
    assert button.bounding_box() == place
    button.click()
    expect(page.get_by_text(FIRST)).to_be_in_viewport()
    page.get_by_role("button", name="To the end").click()
    expect(page.get_by_text(LAST)).to_be_in_viewport()


def test_a_search_leads_to_what_was_said_in_the_middle(ada: Person, site: Serving) -> None:
    """Rows 22 and 23: it is in the oldest of 10,000 chats."""
    page = ada.open("/inbox")
    page.locator(".chats .item").first.wait_for()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("lighthouse is on")
    found = page.get_by_role("option", name="lighthouse")
    expect(found).to_contain_text("The long chat")
    found.click()
    expect(page).to_have_url(re.compile(rf"/1#m{FOUND_AT}$"))
    expect(page.locator(".script-scroll").get_by_text(FOUND)).to_be_in_viewport()


@pytest.mark.parametrize("way", [-1, 1], ids=["up", "down"])
def test_what_one_reads_stays_where_it_is_while_more_is_read(
    ada: Person, site: Serving, way: int
) -> None:
    """Row 22: also once messages at the other end are let go."""
    page = ada.open(f"/1#m{FOUND_AT}")
    expect(page.get_by_text(FOUND)).to_be_in_viewport()
    edge = f"(all) => Number(all.at({0 if way < 0 else -1}).id.slice(1))"
    for _ in range(8):
        outermost = page.locator(".item-assistant").evaluate_all(edge)
        page.locator(".script-scroll").evaluate(
            """(node, way) => {
              node.scrollTop = way < 0 ? 150 : node.scrollHeight - node.clientHeight - 300;
            }""",
            way,
        )
        message, top = find_reading_position(page)
        until(lambda one=outermost: page.locator(".item-assistant").evaluate_all(edge) != one)
        assert abs(get_top(page, message) - top) < 2
        assert count_messages(page) <= MOST


def test_one_comes_back_to_where_one_was(ada: Person, site: Serving) -> None:
    """Row 22: by the browser's history, and when the page is loaded again."""
    page = ada.open(f"/1#m{FOUND_AT}")
    expect(page.get_by_text(FOUND)).to_be_in_viewport()
    scroll_by(page.locator(".script-scroll"), 700)
    until(lambda: page.evaluate(REMEMBERED))
    message, top = find_reading_position(page)
    page.locator(".chats .item").first.click()
    expect(page).to_have_url(re.compile(rf"/{CHATS}$"))
    page.go_back()
    page.locator(f"#m{message}").wait_for()
    until(lambda: abs(get_top(page, message) - top) < 2)
    page.reload()
    page.locator(f"#m{message}").wait_for()
    until(lambda: abs(get_top(page, message) - top) < 2)


def test_what_comes_at_the_end_moves_nothing_that_one_reads(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Row 22."""
    client = site.client()
    page = ada.open("/1")
    expect(page.locator(".ends").last).to_be_in_viewport()
    scroll_by(page.locator(".script-scroll"), -900)
    message, top = find_reading_position(page)
    client.post("/api/remote/chats/1/queue", {"prompt": "meanwhile"})
    expect(page.get_by_role("button", name="2 new")).to_be_visible()
    assert abs(get_top(page, message) - top) < 2
    page.get_by_role("button", name="2 new").click()
    expect(page.locator(".prose", has_text="echo: meanwhile")).to_be_in_viewport()
    page.close()
    middle = ada.open(f"/1#m{FOUND_AT}")
    expect(middle.get_by_text(FOUND)).to_be_in_viewport()
    message, top = find_reading_position(middle)
    talking.expect("much later")
    client.post("/api/remote/chats/1/queue", {"prompt": "much later"})
    expect(middle.locator("header .state", has_text="At work").last).to_be_visible()
    assert middle.locator(".turn .running").count() == 0, "the last turn that is shown is not it"
    talking.say("much later", ReplyCompleted("the reply to it"))
    expect(middle.locator("header .state", has_text="At work")).to_have_count(0)
    assert abs(get_top(middle, message) - top) < 2
    middle.get_by_role("button", name="To the end").click()
    expect(middle.get_by_text("the reply to it")).to_be_in_viewport()


def scroll_chats_to_end(page: Page) -> None:
    """Scroll the list of chats to its end as it is so far; asserts that few rows are there."""
    page.locator(".side .list").evaluate("(node) => (node.scrollTop = node.scrollHeight)")
    assert page.locator(".chats .item").count() <= MOST_ROWS


def test_10_000_chats_are_scrolled_to_the_last_and_few_rows_are_in_the_document(
    ada: Person, site: Serving
) -> None:
    """Row 23."""
    page = ada.open("/analytics")
    rows = page.locator(".chats .item")
    expect(rows.first).to_be_visible()
    assert page.evaluate(SCROLL_TO_THE_LAST) <= MOST_ROWS
    until(lambda: scroll_chats_to_end(page) or page.evaluate(IS_WITHOUT_GAPS))
    expect(rows.last).to_be_in_viewport()
    oldest = rows.last.locator(".name").inner_text()
    rows.last.click()
    expect(page.get_by_role("heading", name=oldest, exact=True)).to_be_visible()
    expect(rows.last).to_have_attribute("aria-current", "page")
    page.locator("main").focus()
    page.keyboard.press("k")
    expect(page.locator(".chats .item[aria-current]")).to_contain_text("Chat number")
    page.locator(".side .list").evaluate("(node) => (node.scrollTop = 0)")
    expect(rows.first).to_be_in_viewport()
    expect(page.locator(".chats .item[aria-current]")).to_have_count(0)
    page.keyboard.press("j")
    expect(page.locator(".chats .item[aria-current]")).to_be_in_viewport()
    assert rows.count() <= MOST_ROWS


def test_the_rows_of_the_list_stand_where_they_would_if_all_were_there(
    ada: Person, site: Serving
) -> None:
    page = ada.open("/analytics")
    rows = page.locator(".chats .item")
    rows.first.wait_for()
    scroll_chats_to_end(page)
    for place in (2000, 4000, 1000):
        page.locator(".side .list").evaluate("(node, to) => (node.scrollTop = to)", place)
        until(lambda: page.evaluate(IS_WITHOUT_GAPS))


def test_the_focus_stays_in_the_list_when_its_row_is_scrolled_away(
    ada: Person, site: Serving
) -> None:
    page = ada.open("/inbox")
    rows = page.locator(".chats .item")
    rows.first.focus()
    until(lambda: scroll_chats_to_end(page) or page.evaluate(LIST_HAS_FOCUS))
    page.keyboard.press("Home")
    expect(page.locator(".side .nav")).to_be_in_viewport()


def test_the_list_of_what_finished_unseen_shows_a_hundred_more_on_demand(
    ada: Person, site: Serving
) -> None:
    page = ada.open("/inbox")
    section = page.locator(".card.rows", has=page.get_by_role("heading", name="Finished, unseen"))
    expect(section.get_by_role("listitem")).to_have_count(100)
    section.get_by_role("button", name="Show 100 more").click()
    expect(section.get_by_role("listitem").nth(150)).to_be_visible()
    for count in range(300, 700, 100):  # more than the page has at first
        section.get_by_role("button", name="Show 100 more").click()
        expect(section.get_by_role("listitem")).to_have_count(count)


def test_any_of_10_000_chats_is_found_by_its_title(ada: Person, site: Serving) -> None:
    """Row 23."""
    page = ada.open("/inbox")
    page.locator(".chats .item").first.wait_for()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("number 5123")
    page.get_by_role("option", name="Chat number 5123").click()
    expect(page.get_by_role("heading", name="Chat number 5123")).to_be_visible()


def test_a_chat_that_nobody_scrolled_to_comes_to_the_top_when_it_is_at_work(
    ada: Person, site: Serving
) -> None:
    """Row 23."""
    client = site.client()
    page = ada.open("/inbox")
    page.locator(".chats .item").first.wait_for()
    client.post("/api/remote/chats/77/queue", {"prompt": "wake up"})
    today = page.locator(".chats section", has=page.get_by_role("heading", name="Today"))
    expect(today.locator(".item", has_text="Chat number 77").first).to_be_visible()
