"""Chats that are not among the newest 200, which a page reads first."""

import re
from collections.abc import Iterator

import pytest

from agentd.agent.engine import Question, TurnFailed
from tests.benchmarks.states import Maker
from tests.support.daemon import Serving, until
from tests.ui.support import Person, TalkingEngine

from playwright.sync_api import Locator, Page, expect  # isort: skip

CHATS = 600
PINNED, HELD, FAILED, QUEUED, RECENT, LABELLED, UNLABELLED = 1, 2, 3, 4, 5, 6, 7
IS_AT_THE_END = """(list) => {
  list.scrollTop = list.scrollHeight;
  return list.querySelector(".chat-row") && !list.querySelector(".more");
}"""
"""Whether all chats are read; else it scrolls to the last so far."""
COLLECT_ROWS = """async () => {
  const list = document.querySelector(".side .list");
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const idOf = (row) => Number(row.dataset.chat);
  const found = new Map();
  list.scrollTop = 0;
  for (;;) {
    for (let drawn = 0; drawn < 3; drawn++) await frame();
    const rows = [...list.querySelectorAll("[data-chat]")].map(idOf);
    if (new Set(rows).size < rows.length) throw new Error(`twice in the document: ${rows}`);
    for (const one of rows) found.set(one, true);
    if (list.scrollTop + list.clientHeight >= list.scrollHeight - 1) return [...found.keys()];
    list.scrollTop += 400;
  }
}"""
"""Scroll through the sidebar, and return the chats that have a row."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, talking: TalkingEngine) -> Iterator[Serving]:
    """A daemon whose oldest chats are the ones that matter."""
    folder = tmp_path_factory.mktemp("old")
    maker = Maker(str(folder))
    for number in range(1, CHATS + 1):
        labels = ("bug",) if number in (PINNED, LABELLED) else ()
        maker.add_chat(3, int(number == QUEUED), f"Chat number {number}", labels=labels)
    maker.finish()
    with Serving(folder, talking) as serving:
        client, ada = serving.client(), serving.administrator()
        for label in ("bug", "idea"):
            client.post("/api/chat-labels", {"name": label, "color": "#cc3b3b"})
        ada.put("/api/me", {"pin": [PINNED], "seen": {str(FAILED): 100}})
        client.post(f"/api/MessageQueue/{HELD}/hold", {})
        client.post(f"/api/remote/chats/{HELD}/queue", {"prompt": "wait"})
        talking.says = lambda _: [TurnFailed("no more")]
        client.post(f"/api/remote/chats/{FAILED}/queue", {"prompt": "fail"})
        until(lambda: client.get(f"/api/chats/{FAILED}")["state"] == "error")
        client.put(f"/api/chats/{RECENT}", {"title": "Renamed today"})
        yield serving


def find_group(page: Page, name: str) -> Locator:
    """Find the rows of a group of the sidebar."""
    heading = page.get_by_role("heading", name=name)
    return page.locator(".side .chats section", has=heading).locator(".item")


def open_menu(page: Page) -> None:
    """Open the menu of the chat's page."""
    page.get_by_role("button", name="More", exact=True).click()
    page.get_by_role("menu").wait_for()


def test_the_oldest_chat_is_where_it_belongs_after_a_reload(ada: Person, site: Serving) -> None:
    page = ada.open("/inbox")
    for _ in range(2):
        expect(find_group(page, "Pinned")).to_contain_text(f"Chat number {PINNED}")
        expect(find_group(page, "Today").filter(has_text="Renamed today")).to_have_count(1)
        for title, chat in (("Failed", FAILED), ("Waiting or on hold", HELD)):
            section = page.locator("main section", has=page.get_by_role("heading", name=title))
            expect(section.locator(".item")).to_have_text([re.compile(f"^Chat number {chat}\\D")])
        page.reload()


def test_one_that_asks_and_one_that_works_come_first_though_they_are_old(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    asking, working = 8, 9
    for chat, prompt in ((working, "work long"), (asking, "ask me")):
        talking.expect(prompt)
        site.client().post(f"/api/remote/chats/{chat}/queue", {"prompt": prompt})
        until(lambda chat=chat: site.client().get(f"/api/chats/{chat}")["status"] == "processing")
    talking.say("ask me", Question("shell", "run_command", "ls"))
    until(lambda: site.client().get(f"/api/chats/{asking}")["asking"])
    page = ada.open("/analytics")
    expect(find_group(page, "Needs you")).to_contain_text(f"Chat number {asking}")
    expect(find_group(page, "At work")).to_contain_text(f"Chat number {working}")
    for chat in (asking, working):
        site.client().post(f"/api/chat/{chat}/stop", {})


def test_paging_brings_each_other_chat_once(ada: Person, site: Serving) -> None:
    page = ada.open("/analytics")
    page.locator(".side .item").first.wait_for()
    until(lambda: page.locator(".side .list").evaluate(IS_AT_THE_END))
    assert sorted(page.evaluate(COLLECT_ROWS)) == list(range(1, CHATS + 1))


def test_the_page_of_a_chat_that_was_not_read_has_its_labels_and_keeps_them(
    ada: Person, site: Serving
) -> None:
    client = site.client()
    page = ada.open(f"/{LABELLED}")
    expect(page.locator(".chip")).to_have_text(["bug"])
    open_menu(page)
    expect(page.get_by_role("menuitemcheckbox", name="Label: bug")).to_be_checked()
    page.get_by_role("menuitemcheckbox", name="Label: idea").click()
    expect(page.locator(".chip")).to_have_text(["bug", "idea"])
    until(lambda: "idea" in client.get(f"/api/chats/{LABELLED}")["labels"])
    assert client.get(f"/api/chats/{LABELLED}")["labels"] == ["bug", "idea"]


def test_no_label_can_be_set_while_those_of_the_chat_are_not_known(
    ada: Person, site: Serving
) -> None:
    ada.context.route(f"**/api/chats/{UNLABELLED}", lambda route: route.abort())
    page = ada.open(f"/{UNLABELLED}")
    expect(page.get_by_role("heading", name=f"Chat number {UNLABELLED}")).to_be_visible()
    open_menu(page)
    expect(page.get_by_role("menuitemcheckbox", name="Label: bug")).to_be_disabled()
    page.keyboard.press("Escape")
    ada.context.unroute_all()
    open_menu(page)
    page.get_by_role("menuitemcheckbox", name="Label: bug").click()
    expect(page.locator(".chip")).to_have_text(["bug"])
