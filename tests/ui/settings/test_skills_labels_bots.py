"""Skills with colours, labels with hues, and the bots that only administrators configure."""

import re
from collections.abc import ItemsView, Iterator
from pathlib import Path
from typing import Any, cast
from unittest.mock import ANY
from urllib.parse import quote

import pytest

from tests.bots.bot_api import TOKEN, USER, BotApi
from tests.support.daemon import Client, Serving, until
from tests.ui.accessibility import check_accessibility
from tests.ui.support import DESK, PHONE, Person, person
from tests.ui.test_every_page import PAYLOADS, wait_until_loaded

from playwright.sync_api import Browser, Page, Route, expect  # isort: skip

HOSTILE = PAYLOADS[1]


@pytest.fixture(scope="module")
def client(site: Serving) -> Client:
    """Two skills, one with a hostile description, and a label that a chat bears."""
    for name, description in (("release", "Prepares a release"), ("review", HOSTILE)):
        folder = Path(site.layout.skills) / name
        folder.mkdir(parents=True)
        text = f"---\nname: {name}\ndescription: '{description}'\n---\n\n{HOSTILE} Do it well.\n"
        (folder / "SKILL.md").write_text(text)
    client = site.client()
    client.post("/api/chat-labels", {"name": "bug", "color": "#cc3b3b"})
    client.put(f"/api/chats/{client.create_chat()}/labels", {"labels": ["bug"]})
    return client


@pytest.fixture
def telegram() -> Iterator[BotApi]:
    with BotApi() as server:
        yield server


def choose_action(page: Page, name: str, action: str) -> None:
    """Choose an action of a row."""
    page.get_by_role("button", name=f"Actions for {name}").click()
    page.get_by_role("menuitem", name=action).click()


def test_a_row_that_changes_while_it_is_pressed_still_takes_the_press(
    ada: Person, client: Client
) -> None:
    page = ada.open("/settings/labels")
    page.get_by_role("button", name="Actions for bug").hover()
    page.mouse.down()
    with page.expect_response("**/api/chat-labels"):
        client.post("/api/chat-labels", {"name": "while-pressed", "color": "#2f9a63"})
    page.mouse.up()
    expect(page.get_by_role("menuitem", name="Edit")).to_be_visible()
    expect(page.locator("li", has_text="while-pressed")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.locator("li", has_text="while-pressed")).to_be_visible()


def test_the_focus_stays_in_a_list_that_is_read_again(ada: Person, client: Client) -> None:
    page = ada.open("/settings/labels")
    page.get_by_role("button", name="Actions for bug").focus()
    client.post("/api/chat-labels", {"name": "while-focused", "color": "#2f9a63"})
    expect(page.locator("li", has_text="while-focused")).to_be_visible()
    expect(page.get_by_role("button", name="Actions for bug")).to_be_focused()


def test_a_filter_stays_when_its_list_changes(ada: Person, client: Client) -> None:
    names = [f"filtered {number}" for number in range(14)]
    for name in names:
        client.post("/api/chat-labels", {"name": name, "color": "#2f9a63"})
    page = ada.open("/settings/labels")
    field = page.get_by_label("Filter labels")
    rows = page.locator(".rows > li")
    field.fill("filtered 1")
    expect(rows).to_have_count(5)
    for left in (4, 3):
        page.get_by_role("button", name=re.compile("^Actions for filtered 1")).first.click()
        page.get_by_role("menuitem", name="Delete").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(rows).to_have_count(left)
        expect(field).to_have_value("filtered 1")
    field.focus()
    client.post("/api/chat-labels", {"name": "filtered 1 more", "color": "#2f9a63"})
    expect(rows).to_have_count(4)
    expect(field).to_be_focused()
    for name in (*names[2:10], "filtered 0", "filtered 12", "filtered 13", "filtered 1 more"):
        client.delete(f"/api/chat-labels/{quote(name)}")


def test_a_label_is_added_renamed_in_its_chats_and_deleted(ada: Person, client: Client) -> None:
    page = ada.open("/settings/labels")
    expect(page.locator("li", has_text="bug")).to_contain_text("1 chat")
    page.get_by_role("button", name="Add a label").click()
    page.get_by_label("Name").fill("docs")
    page.get_by_role("button", name="Green").click()
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.locator("li", has_text="docs")).to_contain_text("0 chats")
    docs = {"name": "docs", "color": "#2f9a63", "chats": 0}
    until(lambda: client.get("/api/chat-labels")["labels"][-1] == docs)
    choose_action(page, "bug", "Edit")
    page.get_by_label("Name").fill("docs")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).not_to_be_empty()
    page.get_by_label("Name").fill("defect")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("li", has_text="defect")).to_contain_text("1 chat")
    choose_action(page, "docs", "Delete")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator("li", has_text="docs")).to_have_count(0)


def test_a_label_of_another_is_shown_at_once(ada: Person, client: Client) -> None:
    page = ada.open("/settings/labels")
    wait_until_loaded(page)
    client.post("/api/chat-labels", {"name": "elsewhere", "color": ""})
    expect(page.locator("li", has_text="elsewhere")).to_be_visible()


def test_skills_get_colours_an_order_and_a_default(ada: Person, client: Client) -> None:
    page = ada.open("/settings/skills")
    expect(page.locator("li", has_text="release")).to_contain_text("Prepares a release")
    expect(page.get_by_role("button", name="Actions for review")).to_have_css("opacity", "1")
    choose_action(page, "review", "Colour")
    page.get_by_role("button", name="Plum").click()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    choose_action(page, "review", "Make it the default")
    expect(page.locator("li", has_text="review").locator(".chip")).to_have_text("default")
    choose_action(page, "review", "Move up")
    expect(page.locator(".rows li").first).to_contain_text("review")
    review = {"name": "review", "color": "#8a5fd0"}  # the page shows it before the daemon has it
    until(lambda: client.get("/api/skills-settings")["skills"][0] == review)
    assert client.get("/api/skills-settings")["default"] == "review"


WATCH_ORDER = """() => {
  window.orders = [];
  const names = () => [...document.querySelectorAll(".rows li b")].map((one) => one.innerText);
  new MutationObserver(() => window.orders.push(names().join(" "))).observe(
    document.querySelector("main"), { childList: true, subtree: true });
}"""


def test_changes_are_sent_in_their_order_and_stay_shown_meanwhile(
    ada: Person, client: Client
) -> None:
    page = ada.open("/settings/skills")
    wait_until_loaded(page)
    names = page.locator(".rows li .name b")
    first, last = names.all_inner_texts()
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/api/skills-settings", hold)
    choose_action(page, last, "Colour")
    page.get_by_role("button", name="Green").click()
    page.get_by_role("button", name="Save").click()
    choose_action(page, last, "Move up")
    expect(names).to_have_text([last, first])
    until(lambda: page.evaluate("1") and held)
    assert len(held) == 1
    page.evaluate(WATCH_ORDER)
    held[0].continue_()
    until(lambda: page.evaluate("1") and len(held) == 2)
    expect(names).to_have_text([last, first])
    held[1].continue_()
    both = [{"name": last, "color": "#2f9a63"}, {"name": first, "color": ANY}]
    until(lambda: client.get("/api/skills-settings")["skills"][:2] == both)
    expect(names).to_have_text([last, first])
    assert set(page.evaluate("window.orders")) <= {f"{last} {first}"}


def test_the_problem_of_a_skill_is_shown_with_its_file_and_line(
    ada: Person, client: Client, site: Serving
) -> None:
    """Row 33 of the acceptance."""
    page = ada.open("/settings/skills")
    wait_until_loaded(page)
    folder = Path(site.layout.skills) / "broken"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: broken\ndescription: 'a' b\n---\n")
    client.get("/api/skills")
    page.reload()
    expect(page.locator(".failure")).to_contain_text(re.compile(r"^\S*broken/SKILL.md, line 3: "))


def test_descriptions_and_instructions_of_others_stay_text(ada: Person, client: Client) -> None:
    """Row 36 of the acceptance."""
    page = ada.open("/settings/skills")
    expect(page.locator("li", has_text=HOSTILE)).to_be_visible()
    choose_action(page, "review", "Read")
    expect(page.get_by_role("dialog")).to_contain_text("Do it well.")
    assert page.evaluate("window.hit") is None
    assert page.locator("main img, dialog img").count() == 0


def test_a_bot_is_configured_switched_off_and_deleted_and_its_token_never_shown(
    ada: Person, client: Client, site: Serving, telegram: BotApi
) -> None:
    """Row 27 of the acceptance: what is shown masked is kept."""
    page = ada.open("/settings/bots")
    expect(page.get_by_text("No bots yet")).to_be_visible()
    page.get_by_role("button", name="Add a bot").first.click()
    page.get_by_label(re.compile("^Id")).fill("helper")
    page.get_by_label("Name", exact=True).fill(HOSTILE)
    page.get_by_label(re.compile("^Token")).fill(TOKEN)
    page.get_by_label(re.compile("^People")).fill(str(USER))
    page.get_by_label(re.compile("^Server")).fill(telegram.url)
    page.get_by_role("button", name="Add", exact=True).click()
    row = page.locator(".rows li")
    expect(row).to_contain_text(HOSTILE)
    expect(row).to_contain_text("Running")
    expect(row).to_contain_text(f"****{TOKEN[-4:]}")
    choose_action(page, HOSTILE, "Edit")
    page.get_by_label("Name", exact=True).fill("The helper")
    page.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("The helper")
    assert TOKEN in Path(site.layout.bots_settings).read_text()
    assert TOKEN not in page.content()
    choose_action(page, "The helper", "Check the token")
    expect(page.get_by_text("It is @the_bot.")).to_be_visible()
    telegram.token = "1:other"
    choose_action(page, "The helper", "Check the token")
    expect(page.locator(".toast.bad")).to_contain_text("refuses the bot's token")
    telegram.token = TOKEN
    expect(row).to_contain_text("No chat is linked")
    chat = client.create_chat(title=f"Linked {HOSTILE}", botId="helper")
    page.reload()
    expect(row.get_by_role("link", name="Linked")).to_have_attribute("href", f"/{chat}")
    assert page.evaluate("window.hit") is None
    choose_action(page, "The helper", "Switch off")
    expect(row.locator(".state")).to_have_text("Off")
    choose_action(page, "The helper", "Delete")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No bots yet")).to_be_visible()
    until(lambda: not client.get("/api/remote/bots")["bots"])


def test_only_an_administrator_sees_bots_and_a_viewer_changes_nothing(
    ada: Person, client: Client
) -> None:
    """Row 4 of the acceptance."""
    for role in ("viewer", "manager"):
        pretend_role(ada, role)
        page = ada.open("/settings/bots")
        expect(page.get_by_text("Only an administrator")).to_be_visible()
        page.close()
    pretend_role(ada, "viewer")
    page = ada.open("/settings/labels")
    expect(page.locator(".rows li").first).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Add a label|Actions for"))).to_have_count(0)


def pretend_role(somebody: Person, role: str) -> None:
    """Let the interface believe that the person has another role."""

    def answer(route: Route) -> None:
        reply = route.fetch()
        route.fulfill(response=reply, json={**reply.json(), "role": role})

    somebody.context.unroute_all()
    somebody.context.route(re.compile("/api/session$"), answer)


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_the_pages_can_be_used_by_everybody_and_fit_their_width(
    browser: Browser,
    site: Serving,
    client: Client,
    size: tuple[int, int],
    tmp_path: Path,
) -> None:
    """Rows 38 and 39 of the acceptance, with a dialog open."""
    with person(browser, site, size=size) as somebody:
        for name, action in (("labels", "Add a label"), ("skills", ""), ("bots", "Add a bot")):
            page = somebody.open(f"/settings/{name}")
            page.locator("h1").first.wait_for()
            wait_until_loaded(page)
            if action:
                page.get_by_role("button", name=action).first.click()
            check_accessibility(page, tmp_path / name)
            page.close()


@pytest.mark.parametrize(
    ("place", "name", "action", "path"),
    [
        ("labels", "tinted", "Edit", "**/api/chat-labels/tinted"),
        ("skills", "release", "Colour", "**/api/skills-settings"),
    ],
)
def test_a_colour_is_shown_at_once_and_taken_back_when_it_is_refused(
    ada: Person, client: Client, place: str, name: str, action: str, path: str
) -> None:
    client.post("/api/chat-labels", {"name": "tinted", "color": "#cc3b3b"})
    page = ada.open(f"/settings/{place}")
    mark = page.locator("li", has_text=name).locator(".dot").first
    hue = "(dot) => dot.style.background"
    before = mark.evaluate(hue)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(path, hold)
    choose_action(page, name, action)
    page.get_by_role("button", name="Teal").click()
    page.get_by_role("button", name="Save").click()
    until(lambda: page.evaluate("1") and held)
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert mark.evaluate(hue) == "rgb(47, 149, 139)"
    held[0].abort()
    expect(page.locator(".toast")).to_contain_text("agentd does not answer")
    until(lambda: mark.evaluate(hue) == before)
    page.unroute(path)
    page.get_by_role("button", name="Retry").click()
    until(lambda: mark.evaluate(hue) == "rgb(47, 149, 139)")
    source = "/api/chat-labels" if place == "labels" else "/api/skills"
    until(
        lambda: (
            {"name": name, "color": "#2f958b"}.items() <= get_fields(client, source, place, name)
        )
    )


def get_fields(client: Client, source: str, place: str, name: str) -> ItemsView[str, Any]:
    """Return the daemon's fields of a label or a skill."""
    found = next(one for one in client.get(source)[place] if one["name"] == name)
    return cast(dict[str, Any], found).items()
