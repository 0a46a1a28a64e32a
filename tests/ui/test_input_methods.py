"""Text that is composed, as Chinese and Japanese are: its keys are for the input method alone."""

import pytest

from agentd.agent.engine import Question, ReplyCompleted
from tests.support.daemon import Serving, until
from tests.ui.support import Person, TalkingEngine, find_prompt_box
from tests.ui.test_chat import create_busy_chat

from playwright.sync_api import Locator, Page, expect  # isort: skip

KEYS = {
    "Enter": {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13},
    "Escape": {"key": "Escape", "code": "Escape", "windowsVirtualKeyCode": 27},
}
LAST_OF_SAFARI = """(box) => box.dispatchEvent(new KeyboardEvent('keydown',
  { key: 'Enter', keyCode: 229, bubbles: true, cancelable: true }))"""
"""The Enter with which a composition has ended there, so that it no longer belongs to one."""

LATER = "((then) => { performance.now = () => then() + 1000; })(performance.now.bind(performance))"
"""A question is answered only once it has been there for a moment."""


def compose(page: Page, box: Locator, key: str = "Enter") -> None:
    """Compose a word, press a key that is for the input method, and take the word."""
    box.focus()
    keyboard = page.context.new_cdp_session(page)
    keyboard.send(
        "Input.imeSetComposition", {"text": "にほん", "selectionStart": 3, "selectionEnd": 3}
    )
    expect(box).to_have_value("にほん")
    keyboard.send("Input.dispatchKeyEvent", {"type": "rawKeyDown", **KEYS[key]})
    keyboard.send("Input.dispatchKeyEvent", {"type": "keyUp", **KEYS[key]})
    keyboard.send("Input.insertText", {"text": "日本"})
    expect(box).to_have_value("日本")
    box.evaluate(LAST_OF_SAFARI)
    expect(box).to_have_value("日本")


def test_a_note_that_is_being_composed_answers_no_question(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    prompt = "ask who composes"
    talking.expect(prompt)
    chat = site.client().create_chat(prompt=prompt)
    talking.say(prompt, Question("shell", "run_command", "make clean"))
    page = ada.open(f"/{chat}")
    note = page.get_by_role("textbox", name="A note to the agent")
    expect(note).to_be_visible()
    page.evaluate(LATER)
    compose(page, note)
    with page.expect_request("**/approvals/*") as sent:
        note.press("Enter")
    assert sent.value.post_data_json == {
        "decision": "deny",
        "session": False,
        "note": "日本",
    }
    until(lambda: talking.notes[-1:] == ["日本"])
    talking.say(prompt, ReplyCompleted("done"))


def test_what_is_being_composed_is_not_chosen_yet_in_the_search(ada: Person, site: Serving) -> None:
    site.client().create_chat(title="にほん, and 日本")
    page = ada.open("/inbox")
    page.locator(".shell").wait_for()
    page.keyboard.press("Control+k")
    compose(page, page.get_by_role("combobox"))
    expect(page.get_by_role("option", name="にほん, and 日本")).to_have_attribute(
        "aria-selected", "true"
    )
    expect(page).to_have_url(f"{ada.url}/inbox")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="にほん, and 日本")).to_be_visible()


@pytest.mark.parametrize("key", ["Enter", "Escape"])
def test_a_prompt_that_waits_is_edited_while_it_is_composed(
    ada: Person, site: Serving, talking: TalkingEngine, key: str
) -> None:
    client = site.client()
    chat, prompt = create_busy_chat(client, talking, "the text before")
    page = ada.open(f"/{chat}")
    page.get_by_role("button", name="Edit", exact=True).click()
    until(lambda: client.prompts(chat)[0]["isPaused"])
    text = page.get_by_label("Text of the prompt")
    text.fill("")
    compose(page, text, key)
    text.press("Enter")
    until(lambda: [one["prompt"] for one in client.prompts(chat)] == ["日本"])
    talking.say(prompt, ReplyCompleted("done"))


def test_a_prompt_is_sent_once_it_is_composed(ada: Person, site: Serving) -> None:
    client = site.client()
    chat = client.create_chat()
    page = ada.open(f"/{chat}")
    compose(page, find_prompt_box(page))
    find_prompt_box(page).press("Enter")
    expect(page.locator(".prose", has_text="echo: 日本")).to_be_visible()
    said = [one["content"] for one in client.messages(chat)]
    assert said == ["日本", "echo: 日本"]
