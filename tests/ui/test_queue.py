"""The queue of a chat on a phone and under the mouse, and the keys that a person may use."""

import re

import pytest

from agentd.agent.engine import RateLimited, ReplyCompleted
from tests.support.daemon import Serving, until
from tests.ui.settings.test_skills_labels_bots import pretend_role
from tests.ui.support import (
    PHONE,
    Person,
    TalkingEngine,
    find_prompt_box,
    hold_requests,
    person,
)
from tests.ui.test_chat import create_busy_chat, list_waiting

from playwright.sync_api import Browser, Page, Request, Route, expect  # isort: skip

OF_A_PROMPT = re.compile(r"/MessageQueue/\d+/\d+$")


def refuse(route: Route) -> None:
    """Answer as a daemon whose disk is full."""
    full = {"error": "Unavailable", "message": "The disk is full", "details": ""}
    route.fulfill(status=503, json=full)


def take_held(page: Page, held: list[Route]) -> Route:
    """Wait for a request that is held back: routes are told of while Playwright waits."""
    until(lambda: page.evaluate("true") and held)
    return held.pop(0)


def test_the_queue_is_held_on_a_phone(
    browser: Browser, site: Serving, talking: TalkingEngine
) -> None:
    """Row 39."""
    chat, prompt = create_busy_chat(site.client(), talking, "one", "two")
    with person(browser, site, size=PHONE) as somebody:
        page = somebody.open(f"/{chat}")
        hold = page.get_by_role("button", name="Hold all")
        hold.click()
        expect(page.get_by_role("button", name="Continue")).to_be_visible()
        assert site.client().get(f"/api/chat/{chat}")["held"]
        page.get_by_role("button", name="Continue").click()
        expect(hold).to_be_visible()
        box = hold.bounding_box()
        assert box
        assert min(box["height"], box["width"]) >= 44
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    talking.say(prompt, ReplyCompleted("done"))


def test_what_waits_for_the_end_of_a_limit_is_tried_at_once_when_somebody_wants_it(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """A limit may have been raised meanwhile, of which the daemon hears nothing."""
    chat, prompt = create_busy_chat(site.client(), talking)
    page = ada.open(f"/{chat}")
    try_now = page.get_by_role("button", name="Try now")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    expect(try_now).to_have_count(0)
    talking.say(prompt, RateLimited("The limit is 5 USD a day.", seconds=3600))
    expect(page.locator(".queue div.cap")).to_contain_text("The limit is 5 USD a day.")
    try_now.click()
    talking.say(prompt, ReplyCompleted("It was raised."))
    expect(page.locator(".prose", has_text="It was raised.")).to_be_visible()
    expect(try_now).to_have_count(0)


def test_what_is_dragged_moves_once_it_is_paused(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Row 18."""
    chat, prompt = create_busy_chat(site.client(), talking, "one", "two", "three")
    page = ada.open(f"/{chat}")
    expect(page.locator(".queue .text")).to_have_count(3)
    held, sent = list[Route](), list[str]()

    def keep(request: Request) -> None:
        if request.method == "POST":
            sent.append(request.url.rpartition("/")[2])

    def hold(route: Route) -> None:
        held.append(route)

    page.on("request", keep)
    page.route(re.compile(r"/pause$"), hold)
    grip = page.get_by_role("button", name="Move prompt 1").bounding_box()
    below = page.locator(".queue .wait").last.bounding_box()
    assert grip
    assert below
    page.mouse.move(grip["x"] + 5, grip["y"] + 5)
    page.mouse.down()
    page.mouse.move(grip["x"] + 5, below["y"] + below["height"] - 2, steps=4)
    page.mouse.up()
    until(lambda: list_waiting(page) == ["two", "three", "one"] and held)
    page.evaluate("new Promise((done) => setTimeout(done))")
    assert sent == ["pause"]
    with page.expect_response(re.compile(r"/resume$")):
        held[0].continue_()
    assert sent == ["pause", "move", "resume"]
    assert [one["prompt"] for one in site.client().prompts(chat)] == ["two", "three", "one"]
    assert not any(one["isPaused"] for one in site.client().prompts(chat))
    talking.say(prompt, ReplyCompleted("done"))


def test_what_is_dragged_up_over_several_stays_with_the_pointer(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Row 17."""
    chat, prompt = create_busy_chat(site.client(), talking, "one", "two", "three", "four")
    page = ada.open(f"/{chat}")
    expect(page.locator(".queue .text")).to_have_count(4)
    grip = page.get_by_role("button", name="Move prompt 4").bounding_box()
    above = page.locator(".queue .wait").first.bounding_box()
    assert grip
    assert above
    page.mouse.move(grip["x"] + 5, grip["y"] + 5)
    page.mouse.down()
    page.mouse.move(grip["x"] + 5, above["y"] + 2, steps=12)
    page.mouse.up()
    order = ["four", "one", "two", "three"]
    until(lambda: [one["prompt"] for one in site.client().prompts(chat)] == order)
    until(lambda: list_waiting(page) == order)
    talking.say(prompt, ReplyCompleted("done"))


def test_a_prompt_is_moved_by_keys_as_often_as_they_are_pressed(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Rows 17 and 38: also while the daemon has not answered the first."""
    chat, prompt = create_busy_chat(site.client(), talking, "one", "two", "three", "four")
    page = ada.open(f"/{chat}")
    held = hold_requests(page, re.compile(r"/move$"))
    page.get_by_role("button", name="Move prompt 4").focus()
    for _ in range(3):
        page.keyboard.press("Alt+ArrowUp")
    order = ["four", "one", "two", "three"]
    until(lambda: list_waiting(page) == order)
    for _ in range(3):
        take_held(page, held).continue_()
        assert list_waiting(page) == order
    until(lambda: [one["prompt"] for one in site.client().prompts(chat)] == order)
    expect(page.get_by_role("button", name="Move prompt 1")).to_be_focused()
    talking.say(prompt, ReplyCompleted("done"))


def test_a_change_that_is_refused_takes_back_itself_and_no_other(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    chat, prompt = create_busy_chat(site.client(), talking, "one", "two", "three")
    page = ada.open(f"/{chat}")
    expect(page.locator(".queue .text")).to_have_count(3)
    held = hold_requests(page, re.compile(r"/pause$"))
    for _ in range(3):
        page.get_by_role("button", name="Pause", exact=True).first.click()
    expect(page.get_by_role("button", name="Resume", exact=True)).to_have_count(3)
    refuse(take_held(page, held))
    until(lambda: list_waiting(page) == ["one", "two paused", "three paused"])
    refuse(take_held(page, held))
    until(lambda: list_waiting(page) == ["one", "two", "three paused"])
    take_held(page, held).continue_()
    until(lambda: [one["isPaused"] for one in site.client().prompts(chat)] == [False, False, True])
    assert list_waiting(page) == ["one", "two", "three paused"]
    talking.say(prompt, ReplyCompleted("done"))


def test_a_prompt_that_could_not_be_removed_is_not_offered_to_be_put_back(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """It would be sent twice."""
    chat, prompt = create_busy_chat(site.client(), talking, "one", "two")
    page = ada.open(f"/{chat}")
    page.route(OF_A_PROMPT, refuse, times=1)
    page.get_by_role("button", name="More for this prompt").first.click()
    page.get_by_role("menuitem", name="Remove").click()
    expect(page.locator(".toast")).to_contain_text("The disk is full")
    until(lambda: list_waiting(page) == ["one", "two"])
    expect(page.locator(".toast", has_text="Removed")).to_have_count(0)
    page.get_by_role("button", name="Retry").click()
    expect(page.locator(".toast", has_text="Removed")).to_be_visible()
    assert [one["prompt"] for one in site.client().prompts(chat)] == ["two"]
    page.get_by_role("button", name="Undo").click()
    until(lambda: [one["prompt"] for one in site.client().prompts(chat)] == ["one", "two"])
    talking.say(prompt, ReplyCompleted("done"))


def test_a_prompt_whose_edit_could_not_be_saved_is_not_sent_as_it_was(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Row 18: the text stays in its field, and the prompt paused."""
    client = site.client()
    chat, prompt = create_busy_chat(client, talking, "delete all")
    page = ada.open(f"/{chat}")
    page.get_by_role("button", name="Edit", exact=True).click()
    until(lambda: client.prompts(chat)[0]["isPaused"])
    page.route(OF_A_PROMPT, refuse, times=1)
    field = page.get_by_label("Text of the prompt")
    field.fill("delete none")
    field.press("Enter")
    expect(page.locator(".toast")).to_contain_text("The disk is full")
    talking.say(prompt, ReplyCompleted("done"))
    expect(page.locator(".prose", has_text="done")).to_be_visible()
    assert [(one["prompt"], one["isPaused"]) for one in client.prompts(chat)] == [
        ("delete all", True)
    ]
    expect(field).to_have_value("delete none")
    expect(field).to_be_focused()
    field.press("Enter")
    expect(page.locator(".prose", has_text="echo: delete none")).to_be_visible()
    assert not [one for one in talking.given if one.prompt == "delete all"]


def test_what_is_edited_goes_on_beside_another_and_after_another_page(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    client = site.client()
    chat, prompt = create_busy_chat(client, talking, "one", "two")
    page = ada.open(f"/{chat}")
    fields = page.get_by_label("Text of the prompt")
    page.get_by_role("button", name="Edit", exact=True).first.click()
    fields.fill("one, at length")
    page.get_by_role("button", name="Edit", exact=True).click()
    expect(fields.last).to_be_focused()
    fields.last.fill("two, at length")
    page.get_by_role("link", name="Needs you").first.click()
    expect(fields).to_have_count(0)
    page.go_back()
    expect(fields.first).to_have_value("one, at length")
    expect(fields.last).to_have_value("two, at length")
    fields.first.press("Escape")
    fields.press("Enter")
    expected = [("one", False), ("two, at length", False)]
    until(lambda: [(one["prompt"], one["isPaused"]) for one in client.prompts(chat)] == expected)
    talking.say(prompt, ReplyCompleted("done"))


def test_a_prompt_that_is_edited_by_a_key_that_is_pressed_twice_is_sent_after_it(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    client = site.client()
    chat, prompt = create_busy_chat(client, talking, "one")
    page = ada.open(f"/{chat}")
    field = page.get_by_label("Text of the prompt")
    for _ in range(2):
        page.locator(".script-scroll").focus()
        page.keyboard.press("e")
        expect(field).to_be_focused()
        until(lambda: client.prompts(chat)[0]["isPaused"])
        expect(page.locator(".wait.paused")).to_be_visible()
    field.press("Escape")
    until(lambda: not client.prompts(chat)[0]["isPaused"])
    expect(page.get_by_role("button", name="More for this prompt")).to_be_focused()
    talking.say(prompt, ReplyCompleted("done"))


def test_the_focus_stays_where_a_queue_is_held_and_continued(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Row 38."""
    chat, prompt = create_busy_chat(site.client(), talking, "one")
    page = ada.open(f"/{chat}")
    page.get_by_role("button", name="Hold all").focus()
    for name in ("Continue", "Hold all"):
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name=name)).to_be_focused()
    talking.say(prompt, ReplyCompleted("done"))


@pytest.mark.parametrize("role", ["viewer", "manager"])
def test_the_list_of_keys_has_those_that_the_person_may_use(
    ada: Person, site: Serving, role: str
) -> None:
    """Row 4."""
    chat = site.client().create_chat(title="Keys")
    pretend_role(ada, role)
    page = ada.open(f"/{chat}")
    expect(page.get_by_role("heading", name="Keys")).to_be_visible()
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    expect(keys).to_contain_text("Find in this chat")
    for label in ("Allow what the agent asks", "Deny what the agent asks", "Stop the turn"):
        expect(keys.get_by_text(label)).to_have_count(int(role == "manager"))


def test_a_phone_on_its_side_shows_the_chat_over_its_queue(
    browser: Browser, site: Serving, talking: TalkingEngine
) -> None:
    """Row 39."""
    prompts = [f"prompt {number}" for number in range(6)]
    chat, prompt = create_busy_chat(site.client(), talking, *prompts)
    with person(browser, site, size=(760, 330)) as somebody:
        page = somebody.open(f"/{chat}")
        expect(page.get_by_role("list", name="Prompts that wait")).to_be_visible()
        find_prompt_box(page).fill("a long prompt\n" * 20)
        expect(find_prompt_box(page)).to_be_in_viewport()
        assert page.get_by_role("log").evaluate("(node) => node.clientHeight") > 40
    talking.say(prompt, ReplyCompleted("done"))


def test_a_long_prompt_is_in_the_queue_as_its_beginning_and_is_edited_as_a_whole(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """A queue of pasted logs kept a browser busy for seconds: it laid out each as one line."""
    long = "one word of a log " * 10_000
    chat, prompt = create_busy_chat(site.client(), talking, long)
    page = ada.open(f"/{chat}")
    waiting = page.get_by_role("list", name="Prompts that wait").get_by_role("listitem")
    expect(waiting).to_contain_text("one word of a log")
    assert waiting.evaluate("(node) => node.outerHTML.length") < 10_000
    waiting.get_by_role("button", name="Edit", exact=True).click()
    assert waiting.get_by_role("textbox").input_value() == long
    talking.say(prompt, ReplyCompleted("done"))
