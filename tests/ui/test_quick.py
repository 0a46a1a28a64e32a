"""People who are quicker than the network: what they chose last is shown, and counts."""

from agentd.agent.engine import Question, ReplyCompleted
from tests.support.daemon import Serving, until
from tests.ui.support import (
    Person,
    TalkingEngine,
)
from tests.ui.test_chat import create_busy_chat
from tests.ui.test_queue import refuse

from playwright.sync_api import Locator, Page, expect  # isort: skip

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
