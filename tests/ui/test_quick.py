"""People who are quicker than the network: what they chose last is shown, and counts."""

import re

from agentd.agent.engine import Question, ReplyCompleted
from tests.support.daemon import Serving, until
from tests.ui.support import (
    CHANGES_OF_LABELS,
    Person,
    TalkingEngine,
    find_prompt_box,
    hold_requests,
)
from tests.ui.test_chat import create_busy_chat
from tests.ui.test_queue import refuse, take_held

from playwright.sync_api import APIResponse, Locator, Page, Route, expect  # isort: skip

GRACE = 500
"""Milliseconds after which a click on a question counts."""


def open_menu(row: Locator) -> None:
    """Open the menu of a chat's row."""
    row.hover()
    row.get_by_role("button", name="Chat actions").click()


def wait_out_grace(page: Page) -> None:
    """Wait until clicks on the questions count."""
    page.wait_for_timeout(GRACE)


def test_a_choice_that_could_not_be_sent_is_the_same_when_it_is_tried_again(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Row 19."""
    chat, prompt = create_busy_chat(site.client(), talking)
    page = ada.open(f"/{chat}")
    choices = ("red", "blue")
    talking.say(prompt, Question("question", "ask", "Which?\n\n- red\n- blue", choices=choices))
    blue = page.get_by_role("button", name="blue")
    blue.wait_for()
    wait_out_grace(page)
    page.route("**/approvals/*", refuse, times=1)
    blue.click()
    page.get_by_role("button", name="Retry").click()
    until(lambda: talking.notes[-1:] == ["blue"])
    talking.say(prompt, ReplyCompleted("done"))


def test_the_key_that_allows_asks_for_words_where_the_agent_does(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    chat, prompt = create_busy_chat(site.client(), talking)
    page = ada.open(f"/{chat}")
    talking.say(prompt, Question("question", "ask", "Which name shall it have?"))
    field = page.get_by_label("Your answer")
    field.wait_for()
    wait_out_grace(page)
    before = len(talking.notes)
    page.locator("body").press("a")
    expect(field).to_be_focused()
    expect(field).to_have_value("")
    page.keyboard.press("Enter")
    field.fill("Kettle")
    page.keyboard.press("Enter")
    until(lambda: talking.notes[before:] == ["Kettle"])
    talking.say(prompt, ReplyCompleted("done"))


def test_a_second_click_does_not_answer_the_question_that_takes_the_place(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Row 19."""
    chats = []
    for subject in ("first", "second"):
        chat, prompt = create_busy_chat(site.client(), talking)
        talking.say(prompt, Question("shell", "run_command", subject))
        chats.append((chat, prompt))
    page = ada.open("/inbox")
    cards = page.get_by_role("region", name="A question of the agent")
    expect(cards).to_have_count(2)
    wait_out_grace(page)
    before = len(talking.answers)
    allow = page.get_by_role("button", name="Allow A").first.bounding_box()
    assert allow
    at = (allow["x"] + 5, allow["y"] + 5)
    page.mouse.click(*at)
    expect(cards).to_have_count(1)
    page.mouse.click(*at)
    page.wait_for_timeout(GRACE)
    assert talking.answers[before:] == [True]
    expect(cards).to_contain_text("second")
    page.mouse.click(*at)
    until(lambda: talking.answers[before:] == [True, True])
    for _, prompt in chats:
        talking.say(prompt, ReplyCompleted("done"))


def test_a_setting_that_is_refused_takes_back_nothing_else(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """A turn that ended meanwhile does not seem to go on."""
    chat, prompt = create_busy_chat(site.client(), talking)
    page = ada.open(f"/{chat}")
    stop = page.get_by_role("button", name="Stop")
    expect(stop).to_be_visible()
    held = hold_requests(page, "**/settings")
    more = page.get_by_role("main").get_by_role("button", name="More", exact=True)
    more.click()
    keeps = page.get_by_role("menuitemcheckbox", name="Keep processes")
    keeps.click()
    request = take_held(page, held)
    talking.say(prompt, ReplyCompleted("done"))
    expect(stop).to_have_count(0)
    more.click()
    expect(keeps).to_have_attribute("aria-checked", "true")
    page.keyboard.press("Escape")
    refuse(request)
    expect(page.locator(".toast")).to_contain_text("The disk is full")
    more.click()
    expect(keeps).to_have_attribute("aria-checked", "false")
    expect(stop).to_have_count(0)


def test_a_pin_that_is_refused_takes_back_no_other(ada: Person, site: Serving) -> None:
    client = site.client()
    first, second = client.create_chat(title="First"), client.create_chat(title="Second")
    page = ada.open("/schedules")
    held = hold_requests(page, re.compile(r"/api/me$"))
    for chat in (first, second):
        open_menu(page.locator(f".chat-row[data-chat='{chat}']"))
        page.get_by_role("menuitem", name="Pin", exact=True).click()
    refuse(take_held(page, held))
    expect(page.locator(".toast")).to_contain_text("The disk is full")
    request = take_held(page, held)
    pinned = page.locator("section", has=page.get_by_role("heading", name="Pinned"))
    assert pinned.locator(".chat-row .name").all_inner_texts() == ["Second"]
    request.continue_()
    until(lambda: site.administrator().get("/api/me")["pins"] == [second])
    page.unroute_all(behavior="wait")
    page.get_by_role("button", name="Retry").click()
    expect(pinned.locator(".chat-row")).to_have_count(2)


def test_a_label_that_was_refused_is_put_on_when_it_is_tried_again(
    ada: Person, site: Serving
) -> None:
    """Also if it is there by then: what is tried again is what was wanted."""
    client = site.client()
    client.post("/api/chat-labels", {"name": "urgent", "color": "#cc3b3b"})
    chat = client.create_chat(title="Labelled")
    page = ada.open("/schedules")
    page.route(CHANGES_OF_LABELS, refuse, times=1)
    for _ in range(2):
        open_menu(page.locator(f".chat-row[data-chat='{chat}']"))
        with page.expect_response(CHANGES_OF_LABELS):
            page.get_by_role("menuitemcheckbox", name="Label: urgent").click()
    assert client.get(f"/api/chats/{chat}")["labels"] == ["urgent"]
    with page.expect_response(CHANGES_OF_LABELS):
        page.get_by_role("button", name="Retry").click()
    assert client.get(f"/api/chats/{chat}")["labels"] == ["urgent"]


def test_a_name_is_the_last_that_was_given_and_else_the_last_that_was_taken(
    ada: Person, site: Serving
) -> None:
    """An answer to the first, or an event, does not bring it back before the second is answered."""
    client = site.client()
    chat = client.create_chat(title="Nameless")
    page = ada.open("/schedules")
    held = hold_requests(page, re.compile(rf"/api/chats/{chat}$"))
    row = page.locator(f".chat-row[data-chat='{chat}']")
    name = row.locator(".name")
    for title in ("First", "Second"):
        open_menu(row)
        page.get_by_role("menuitem", name="Rename").click()
        page.get_by_label("Title").fill(title)
        page.get_by_role("button", name="Rename").click()
    expect(name).to_have_text("Second")
    take_held(page, held).continue_()
    second = take_held(page, held)  # it is sent once the first is answered
    assert name.inner_text() == "Second"
    refuse(second)
    expect(page.locator(".toast")).to_contain_text("The disk is full")
    expect(name).to_have_text("First")
    assert client.get(f"/api/chats/{chat}")["title"] == "First"


def test_a_chat_that_is_put_into_the_trash_twice_is_there(ada: Person, site: Serving) -> None:
    client = site.client()
    chat = client.create_chat(title="Twice")
    page = ada.open("/schedules")
    held = hold_requests(page, re.compile(rf"/api/chats/{chat}$"))
    row = page.locator(f".chat-row[data-chat='{chat}']")
    for _ in range(2):
        open_menu(row)
        page.get_by_role("menuitem", name="Move to the trash").click()
    take_held(page, held).continue_()
    with page.expect_response(lambda one: one.status == 404):
        take_held(page, held).continue_()
    expect(row).to_have_count(0)
    assert "is in the trash" in page.locator(".toast").inner_text()


def test_a_copy_that_comes_when_one_is_elsewhere_is_offered(ada: Person, site: Serving) -> None:
    client = site.client()
    chat = client.create_chat(title="Original")
    page = ada.open("/schedules")
    held = hold_requests(page, "**/duplicate")
    open_menu(page.locator(f".chat-row[data-chat='{chat}']"))
    page.get_by_role("menuitem", name="Duplicate").click()
    request = take_held(page, held)
    page.get_by_role("link", name="New chat").click()
    page.get_by_label("The first prompt").fill("I am writing")
    request.continue_()
    offer = page.locator(".toast", has_text="duplicated")
    expect(offer).to_be_visible()
    expect(page.get_by_label("The first prompt")).to_have_value("I am writing")
    offer.get_by_role("button", name="Open").click()
    expect(page).to_have_url(re.compile(rf"/{chat + 1}$"))


def test_a_menu_that_is_ready_after_its_page_was_left_does_not_open(
    ada: Person, site: Serving
) -> None:
    chat = site.client().create_chat(title="Slow")
    page = ada.open("/schedules")
    held = hold_requests(page, re.compile(rf"/api/chat/{chat}$"))
    page.locator(f".chat-row[data-chat='{chat}'] a").click()
    page.get_by_role("main").get_by_role("button", name="More", exact=True).click()
    request = take_held(page, held)
    page.go_back()
    expect(page.get_by_role("heading", name="Schedules", exact=True)).to_be_visible()
    with page.expect_response(re.compile(rf"/api/chat/{chat}$")):
        request.continue_()
    page.evaluate("new Promise((done) => setTimeout(done, 100))")
    expect(page.get_by_role("menu")).to_have_count(0)


def test_going_back_closes_the_menu_or_the_dialog_of_the_page(ada: Person, site: Serving) -> None:
    """On a phone that is what one does to leave them; over another page they would seem its own."""
    chat = site.client().create_chat(title="Deep")
    page = ada.open("/schedules")
    more = page.get_by_role("main").get_by_role("button", name="More", exact=True)
    for dialog in (False, True):
        page.locator(f".chat-row[data-chat='{chat}'] a").click()
        more.click()
        expect(page.get_by_role("menu")).to_be_visible()
        if dialog:
            page.get_by_role("menuitem", name="Rename").click()
            expect(page.get_by_role("dialog")).to_be_visible()
        page.go_back()
        expect(page.get_by_role("heading", name="Schedules", exact=True)).to_be_visible()
        expect(page.locator("[role=menu], dialog")).to_have_count(0)


def test_the_end_is_shown_to_who_went_there_last(ada: Person, site: Serving) -> None:
    """Row 22: the start of the chat, which was asked for before and comes later, does not."""
    client = site.client()
    chat = client.create_chat(prompt="number 0")
    for number in range(1, 45):
        client.post(f"/api/remote/chats/{chat}/queue", {"prompt": f"number {number}"})
    until(lambda: client.get(f"/api/remote/chats/{chat}/status")["status"] == "completed")
    page = ada.open(f"/{chat}")
    last = page.locator(".prompt", has_text="number 44")
    expect(last).to_be_in_viewport()
    held: list[Route] = []

    def hold_start(route: Route) -> None:
        if "after=0&" in route.request.url:
            held.append(route)
        else:
            route.continue_()

    page.route(re.compile(r"/messages\?"), hold_start)
    page.locator(".script-scroll").focus()
    page.keyboard.press("Home")
    start = take_held(page, held)
    page.keyboard.press("End")
    expect(last).to_be_in_viewport()
    with page.expect_response(re.compile("after=0&")):
        start.continue_()
    page.evaluate("new Promise((done) => setTimeout(done, 100))")
    expect(last).to_be_in_viewport()


def test_the_search_opens_once_though_its_key_is_pressed_twice(ada: Person) -> None:
    page = ada.open("/schedules")
    expect(page.get_by_role("heading", name="Schedules", exact=True)).to_be_visible()
    held = hold_requests(page, "**/parts/palette.js")
    for _ in range(2):
        page.keyboard.press("Control+k")
    take_held(page, held).continue_()
    page.get_by_role("combobox").wait_for()
    page.evaluate("new Promise((done) => setTimeout(done, 100))")
    expect(page.get_by_role("dialog")).to_have_count(1)


def test_the_command_that_was_chosen_stays_chosen_when_the_list_is_read_again(
    ada: Person, site: Serving
) -> None:
    chat = site.client().create_chat(title="Commands")
    page = ada.open(f"/{chat}")
    names = [{"name": one, "description": "", "path": "", "argumentHint": ""} for one in "abc"]
    page.route("**/api/commands*", lambda route: route.fulfill(json={"commands": names}), times=1)
    box = find_prompt_box(page)
    box.fill("/")
    expect(page.get_by_role("option")).to_have_count(3)
    box.fill("")
    page.evaluate("performance.now = () => 1e9")
    held = hold_requests(page, "**/api/commands*")
    box.fill("/")
    box.press("ArrowDown")
    with page.expect_response("**/api/commands*"):
        take_held(page, held).fulfill(json={"commands": names})
    page.evaluate("Promise.resolve()")
    expect(page.get_by_role("option", name="/b")).to_have_attribute("aria-selected", "true")


def test_of_two_looks_chosen_quickly_the_later_stays(ada: Person, site: Serving) -> None:
    """Whatever the network does to the requests, and what was told of the first."""
    page = ada.open("/settings/you")
    root = page.locator("html")
    held = hold_requests(page, "**/api/me")
    page.get_by_role("button", name="Dark").click()
    page.get_by_role("button", name="Light").click()
    first = take_held(page, held)
    assert not held
    with page.expect_response("**/api/me"):
        first.continue_()
    second = take_held(page, held)
    expect(root).to_have_attribute("data-theme", "light")
    with page.expect_response("**/api/me"):
        second.continue_()
    expect(root).to_have_attribute("data-theme", "light")
    assert site.administrator().get("/api/me")["look"] == {"theme": "light"}


def test_labels_and_models_that_were_read_earlier_do_not_replace_those_read_later(
    ada: Person, site: Serving
) -> None:
    client = site.client()
    chat = client.create_chat(title="Labelled")
    page = ada.open(f"/{chat}")
    page.get_by_role("heading", name="Labelled").wait_for()
    late: list[tuple[Route, APIResponse]] = []

    def answer_late(route: Route) -> None:
        late.append((route, route.fetch()))

    page.route("**/api/chat-labels", answer_late, times=1)
    client.post("/api/chat-labels", {"name": "first", "color": "#cc3b3b"})
    until(lambda: page.evaluate("true") and late)
    client.post("/api/chat-labels", {"name": "second", "color": "#cc3b3b"})
    page.wait_for_timeout(GRACE)
    route, response = late.pop()
    with page.expect_response("**/api/chat-labels"):
        route.fulfill(response=response)

    def lists_second() -> bool:
        page.get_by_role("main").get_by_role("button", name="More", exact=True).click()
        expect(page.get_by_role("menuitemcheckbox", name="Label: first")).to_be_visible()
        listed = page.get_by_role("menuitemcheckbox", name="Label: second").is_visible()
        page.keyboard.press("Escape")
        return listed

    until(lists_second)
