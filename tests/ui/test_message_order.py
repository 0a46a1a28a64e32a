"""However one moves through a long chat, each message is there once and in its order."""

import random
import re
from collections.abc import Iterator

import pytest

from tests.benchmarks.states import Maker
from tests.support.daemon import Serving, until
from tests.ui.support import Person, TalkingEngine, scroll_by

from playwright.sync_api import Page, Route, expect  # isort: skip

MESSAGES = 4_200
"""A whole number of turns of three."""
MOST = 300
WORD = "lighthouse"
FOUND_AT = 2_101
WATCH = """() => {
  window.faults = [];
  const look = () => {
    const nodes = [...document.querySelectorAll(".script-scroll [id^=m]")];
    const ids = nodes.map((node) => Number(node.id.slice(1)));
    const all = document.querySelectorAll("[id^=m]:not(#main):not(.script-scroll [id^=m])");
    if (all.length) faults.push(`elsewhere: ${[...all].map((node) => node.id)}`);
    ids.forEach((id, at) => {
      if (at && id <= ids[at - 1]) faults.push(`${id} follows ${ids[at - 1]}`);
    });
    return ids;
  };
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
  window.shown = look;
}"""
"""Note every moment at which an id is there twice, or not in its order."""
TEXTS = """() => [...document.querySelectorAll(".turn")].flatMap((turn) =>
  [turn, ...turn.querySelectorAll(".steps > [id]")].filter((node) => node.id).map((node) => {
    const text = (node === turn ? node.querySelector(".prompt") : node).textContent;
    return [Number(node.id.slice(1)), (text.match(/Message \\d+[.]/g) ?? []).join()];
  }))"""
"""What each message says: of those with a text of their own, its number."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, talking: TalkingEngine) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("messages")
    maker = Maker(str(folder))
    said = {number: f"Message {number}." for number in range(1, MESSAGES + 1) if number % 3 != 2}
    said[FOUND_AT] += f" The {WORD} is on pier 3."
    maker.add_chat(MESSAGES, title="The long chat", said=said)
    maker.add_chat(3, title="Another chat")
    maker.finish()
    with Serving(folder, talking) as serving:
        yield serving


def check(page: Page, after: str, live: list[int]) -> None:
    """Assert that what is shown is a part of the chat without a gap, each message once."""
    known = [*range(1, MESSAGES + 1), *live]
    shown = page.evaluate("shown()")
    assert not page.evaluate("faults"), (after, page.evaluate("faults.slice(0, 5)"))
    assert shown, after
    assert len(shown) <= MOST + 6, after
    first = known.index(shown[0])
    assert shown == known[first : first + len(shown)], (after, shown)
    for number, text in page.evaluate(TEXTS):
        if number <= MESSAGES and number % 3 != 2:
            assert text == f"Message {number}.", (after, number, text)


def move_by(page: Page, how: str) -> None:
    """Move through the chat in one of the ways that people use."""
    script = page.locator(".script-scroll")
    match how:
        case "Home" | "End" | "PageUp" | "PageDown" | "[" | "]":
            script.focus()
            page.keyboard.press(how)
        case "wheel up" | "wheel down":
            script.hover()
            page.mouse.wheel(0, -6000 if how == "wheel up" else 6000)
        case "drag":
            script.evaluate(
                "(node, to) => (node.scrollTop = to * node.scrollHeight)", RANDOM.random()
            )
        case "earlier":
            earlier = page.get_by_role("button", name="Earlier messages")
            if earlier.count():
                earlier.evaluate("(node) => node.click()")
        case "search hit":
            page.keyboard.press("Control+k")
            page.get_by_role("combobox").fill(WORD)
            page.get_by_role("option", name=re.compile("pier 3")).click()
            expect(script.get_by_text(f"The {WORD} is on pier 3.")).to_be_in_viewport()
        case "away and back":
            page.locator(".chats .item", has_text="Another chat").click()
            expect(page.get_by_role("heading", name="Another chat")).to_be_visible()
            page.go_back()
            expect(page.get_by_role("heading", name="The long chat")).to_be_visible()
            page.locator(".turn").first.wait_for()
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 30)))")


RANDOM = random.Random(15)  # noqa: S311
WAYS = ("Home", "End", "PageUp", "PageDown", "[", "]", "wheel up", "wheel down", "drag", "earlier",
        "search hit", "away and back", "live")  # fmt: skip


def send_prompt(site: Serving, live: list[int], text: str) -> None:
    """Have a turn of two messages run in the chat."""
    client = site.client()
    client.post("/api/remote/chats/1/queue", {"prompt": text})
    path = f"/api/chat/1/messages?after={([MESSAGES, *live])[-1]}"
    found = until(lambda: len(new := client.get(path)["messages"]) == 2 and new)
    live += [one["id"] for one in found]


def test_each_message_is_there_once_and_in_order_however_one_moves(
    ada: Person, site: Serving
) -> None:
    """Row 22."""
    page, live = ada.open("/1"), list[int]()
    expect(page.get_by_text(f"Message {MESSAGES}.")).to_be_in_viewport()
    page.evaluate(WATCH)
    ways = [*WAYS, *["wheel up"] * 6, *["drag", "live"] * 4]
    steps = [*["wheel up"] * 12, "live", "Home", *["wheel down"] * 12, "live", "End", "live"]
    steps += [RANDOM.choice(ways) for _ in range(60)]
    for number, how in enumerate([*steps, "End"]):
        if how == "live":
            send_prompt(site, live, f"live {number}")
        else:
            move_by(page, how)
        check(page, f"{number}: {how}", live)
    until(lambda: page.evaluate("shown()")[-1] == live[-1])
    check(page, "the end", live)


def test_what_was_asked_for_before_a_jump_is_not_shown_after_it(ada: Person, site: Serving) -> None:
    """Row 22."""
    page = ada.open(f"/1#m{FOUND_AT}")
    script = page.locator(".script-scroll")
    expect(script.get_by_text(f"The {WORD} is on pier 3.")).to_be_in_viewport()
    page.evaluate(WATCH)
    held = list[Route]()

    def hold(route: Route) -> None:
        held.append(route)

    page.route(re.compile("/api/chat/1/messages.*before="), hold)
    scroll_by(script, -1_000_000)
    until(lambda: page.evaluate("1") and held)
    script.focus()
    page.keyboard.press("Home")
    expect(script.get_by_text("Message 1.", exact=True)).to_be_in_viewport()
    with page.expect_response(re.compile("before=")):
        held[0].continue_()
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 30)))")
    assert page.evaluate("faults") == []
    assert page.evaluate("shown()[0]") == 1
