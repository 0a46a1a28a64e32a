"""The queue of a chat on a phone and under the mouse, and the keys that a person may use."""

import re

import pytest

from agentd.agent.engine import ReplyCompleted
from tests.support.daemon import Serving, until
from tests.ui.settings.test_skills_labels_bots import pretend_role
from tests.ui.support import PHONE, Person, TalkingEngine, person
from tests.ui.test_chat import create_busy_chat, list_waiting

from playwright.sync_api import Browser, Request, Route, expect  # isort: skip


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
