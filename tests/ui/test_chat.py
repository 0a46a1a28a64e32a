"""A chat in the browser: its script, its questions, its queue."""

import re
from html.parser import HTMLParser

from agentd.agent.engine import (
    Question,
    ReplyCompleted,
    ReplyDelta,
    ThinkingProgress,
    ToolUsed,
)
from tests.support.daemon import Client, Serving, until
from tests.ui.settings.test_skills_labels_bots import pretend_role
from tests.ui.support import Person, TalkingEngine, find_prompt_box, hold_requests, person

from playwright.sync_api import Browser, Locator, Page, expect  # isort: skip


EVERY_KIND = """
# Head

3. third
4. fourth

- [x] done
- [ ] open

```python
print(1)
```

| a   |   b   |
|:---:|------:|
| *1* | ~~2~~ |

> [link](https://host/ "title") **bold**

---
"""
"""A message with what Markdown knows."""


def list_selectors(html: str) -> set[str]:
    """List a CSS selector for each element, with attributes but for ``rel``, which is set anew."""
    found: set[str] = set()
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: found.add(  # type: ignore[method-assign]
        tag + "".join(f'[{name}="{value or ""}"]' for name, value in attributes if name != "rel")
    )
    parser.feed(html)
    return found


def send_prompt(page: Page, text: str) -> None:
    """Send a prompt."""
    page.get_by_label("Prompt", exact=True).fill(text)
    page.get_by_label("Prompt", exact=True).press("Enter")


def list_waiting(page: Page) -> list[str]:
    """List the prompts in the queue, as they are shown."""
    return [text.strip() for text in page.locator(".queue .text").all_inner_texts()]


def create_busy_chat(client: Client, talking: TalkingEngine, *queue: str) -> tuple[int, str]:
    """Create a chat whose turn is held, with prompts that wait behind it."""
    prompt = f"work {len(talking.given)}"
    talking.expect(prompt)
    chat = client.create_chat(prompt=prompt)
    for text in queue:
        client.post(f"/api/remote/chats/{chat}/queue", {"prompt": text})
    return chat, prompt


def test_a_first_prompt_becomes_a_chat_with_its_answer(ada: Person, site: Serving) -> None:
    page = ada.open("/")
    page.get_by_label("The first prompt").fill("What is this folder?\nReally.")
    page.get_by_label("The first prompt").press("Enter")
    expect(page).to_have_url(re.compile(r"/\d+$"))
    expect(page.locator(".prose", has_text="echo: What is this folder?")).to_be_visible()
    expect(page.get_by_role("heading", name="What is this folder?")).to_be_visible()
    expect(page.locator(".chats .item[aria-current=page]")).to_contain_text("What is this folder?")


def test_a_reply_is_shown_while_it_grows_and_is_whole_for_who_comes_later(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Rows 8 and 9."""
    chat, prompt = create_busy_chat(site.client(), talking)
    page = ada.open(f"/{chat}")
    expect(page.get_by_text("At work").last).to_be_visible()
    talking.say(prompt, ReplyDelta("The first **block**.\n\nThe second "))
    expect(page.locator(".growing strong", has_text="block")).to_be_visible()
    late = ada.open(f"/{chat}")
    expect(late.locator(".growing")).to_contain_text("The first block.")
    talking.say(prompt, ReplyDelta("goes on"))
    for tab in (page, late):
        expect(tab.locator(".growing .tail")).to_have_text("The second goes on")
    talking.say(prompt, ReplyCompleted("The first **block**.\n\nThe second goes on."))
    for tab in (page, late):
        expect(tab.locator(".growing")).to_have_count(0)
        expect(tab.locator(".prose", has_text="The second goes on.")).to_have_count(1)


GROW = """(pixels) => new Promise((done) => {
  const scroll = document.querySelector('.script-scroll');
  scroll.firstElementChild.style.minHeight = `${pixels}px`;
  scroll.dispatchEvent(new Event('scroll'));
  const below = () => scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight;
  requestAnimationFrame(() => requestAnimationFrame(() => done(below())));
})"""
"""The script grows before the browser tells of the last move; then, what is below what is seen."""


def test_the_end_is_followed_whatever_comes_at_once_until_somebody_scrolls_up(
    ada: Person, site: Serving
) -> None:
    site.client().create_chat(prompt="follow me", title="Followed")
    page = ada.open("/")
    page.get_by_role("link", name="Followed").click()
    expect(page.get_by_text("echo: follow me")).to_be_visible()
    for pixels in (900, 2500, 400, 3000):
        assert page.evaluate(GROW, pixels) < 1
    page.locator(".script-scroll").hover()
    page.mouse.wheel(0, -500)
    page.wait_for_function(
        "() => { const one = document.querySelector('.script-scroll');"
        " return one.scrollHeight - one.scrollTop - one.clientHeight >= 500; }"
    )
    assert page.evaluate(GROW, 4000) >= 1500


def test_a_table_of_a_message_looks_the_same_whatever_page_was_there_before(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """The gateway's style sheet, which stays when one leaves its pages, changes no message."""
    chat, prompt = create_busy_chat(site.client(), talking)
    talking.say(prompt, ReplyCompleted("| kind | files |\n| --- | ---: |\n| `.py` | 7 |"))
    page = ada.open(f"/{chat}")
    cell = page.get_by_role("cell", name="7")
    look = """(cell) => {
        const style = getComputedStyle(cell), first = getComputedStyle(cell.previousElementSibling);
        return [style.textAlign, style.borderTopWidth, first.paddingLeft];
    }"""
    expect(cell).to_be_visible()
    assert cell.evaluate(look) == ["right", "1px", "0px"]
    page.get_by_role("link", name="Gateway").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.go_back()
    expect(cell).to_be_visible()
    assert cell.evaluate(look) == ["right", "1px", "0px"]


def test_a_message_keeps_all_that_the_daemon_rendered_though_browsers_clean_it_again(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    chat, prompt = create_busy_chat(site.client(), talking)
    talking.say(prompt, ReplyCompleted(EVERY_KIND))
    page = ada.open(f"/{chat}")
    shown = page.locator(".prose", has=page.get_by_role("heading", name="Head"))
    expect(shown).to_be_visible()
    html = site.client().get(f"/api/chat/{chat}/messages?html=1")["messages"][-1]["html"]
    selectors = list_selectors(html)
    assert len(selectors) > 15
    assert [one for one in selectors if shown.locator(one).count() == 0] == []


def test_steps_fold_into_a_line_when_the_turn_is_done(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    chat, prompt = create_busy_chat(site.client(), talking)
    page = ada.open(f"/{chat}")
    talking.say(prompt, ToolUsed("read_file", "path=a.txt", "one\ntwo"))
    step = page.get_by_role("button", name="Read a.txt")
    expect(step).to_be_visible()
    step.click()
    expect(page.locator(".output")).to_contain_text("two")
    talking.say(prompt, ReplyCompleted("done"))
    folded = page.get_by_role("button", name=re.compile(r"Worked.*1 step · read 1 file"))
    expect(folded).to_be_visible()
    expect(step).to_be_hidden()
    folded.click()
    expect(step).to_be_visible()


def test_a_step_tells_its_short_outcome_or_how_many_lines_it_has(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    chat, prompt = create_busy_chat(site.client(), talking)
    page = ada.open(f"/{chat}")
    for name, outcome in (("a", "short"), ("b", "long " * 20), ("c", "one\ntwo")):
        talking.say(prompt, ToolUsed("read_file", f"path={name}.txt", outcome))
    for name, told in (("a", "short"), ("b", "1 line"), ("c", "2 lines")):
        expect(
            page.get_by_role("button", name=f"Read {name}.txt {told}", exact=True)
        ).to_be_visible()
    talking.say(prompt, ReplyCompleted("done"))


def test_what_is_pressed_is_clicked_though_a_message_comes_meanwhile(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    client = site.client()
    chat, prompt = create_busy_chat(client, talking)
    page = ada.open(f"/{chat}")
    talking.say(prompt, ToolUsed("read_file", "path=a.txt", "one\ntwo"), ReplyCompleted("done"))
    folded = page.get_by_role("button", name="Worked")
    expect(folded).to_be_visible()
    press(page, folded)
    client.post(f"/api/remote/chats/{chat}/queue", {"prompt": "more"})
    expect(page.locator(".prose", has_text="echo: more")).to_be_visible()
    page.mouse.up()
    expect(page.get_by_role("button", name="Read a.txt")).to_be_visible()


def test_what_is_pressed_in_the_search_is_opened_though_more_is_found_meanwhile(
    ada: Person, site: Serving
) -> None:
    chat = site.client().create_chat(title="Walrus")
    pretend_role(ada, "manager")  # who has no gateway, whose names would be looked up meanwhile
    held = hold_requests(ada.context, re.compile("/api/chats.*text=walrus"))
    page = ada.open("/inbox")
    page.locator(".chats .item").first.wait_for()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("walrus")
    until(lambda: page.evaluate("1") and held)
    found = page.get_by_role("option", name="Walrus")
    press(page, found)
    node = found.element_handle()
    with page.expect_response(lambda answer: "text=walrus" in answer.url):
        held[0].continue_()
    page.evaluate("new Promise((done) => setTimeout(done))")
    assert node.evaluate("(row) => row.isConnected")
    page.mouse.up()
    expect(page).to_have_url(re.compile(rf"/{chat}$"))


def press(page: Page, button: Locator) -> None:
    """Press the mouse upon it, and do not let it go."""
    button.hover()
    page.mouse.down()


def test_a_question_is_answered_by_a_key_with_a_note(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Row 19."""
    chat, prompt = create_busy_chat(site.client(), talking)
    page = ada.open(f"/{chat}")
    talking.say(prompt, Question("shell", "run_command", "rm -rf build", "It is in the way."))
    card = page.get_by_role("region", name="A question of the agent")
    expect(card).to_contain_text("rm -rf build")
    expect(card).to_contain_text(re.compile(r"Denied in \d+:\d\d"))
    expect(page).to_have_title(re.compile(r"^\(1\) "))
    card.get_by_label("A note to the agent").fill("keep it")
    page.wait_for_timeout(450)  # no click counts before, for it may have been meant for another
    card.get_by_role("button", name="Deny").click()
    expect(card).to_have_count(0)
    until(lambda: talking.notes[-1:] == ["keep it"])
    assert talking.answers[-1:] == [False]
    talking.say(prompt, Question("shell", "run_command", "ls"))
    expect(card).to_contain_text("ls")
    page.locator(".scroll").focus()
    page.wait_for_timeout(450)
    page.keyboard.press("a")
    expect(card).to_have_count(0)
    until(lambda: talking.answers[-1])
    decided = page.locator(".step.decision")
    expect(decided).to_have_text(["Denied by ada.“keep it”", "Allowed by ada."])
    talking.say(prompt, ReplyCompleted("done"))


def test_nothing_in_a_command_hides_or_turns_around_what_is_allowed(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    chat, prompt = create_busy_chat(site.client(), talking)
    page = ada.open(f"/{chat}")
    command = "echo '\u202ex fr- mr' \u2066#\u2069\n\tls\x08 \u00fc"
    talking.say(prompt, Question("shell", "run_command", command))
    card = page.get_by_role("region", name="A question of the agent")
    shown = "echo '<U+202E>x fr- mr' <U+2066>#<U+2069>\n\tls<U+0008> \u00fc"
    until(lambda: card.locator("pre.command code").text_content() == shown)
    page.wait_for_timeout(450)  # no click counts before
    card.get_by_role("button", name="Deny").click()
    expect(card).to_have_count(0)
    talking.say(prompt, ReplyCompleted("done"))


def test_what_is_always_allowed_in_a_chat_is_not_asked_again(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Row 19."""
    chat, prompt = create_busy_chat(site.client(), talking)
    page = ada.open(f"/{chat}")
    answered = len(talking.answers)
    talking.say(prompt, Question("shell", "run_command", "make always"))
    card = page.get_by_role("region", name="A question of the agent")
    expect(card).to_contain_text("make always")
    page.wait_for_timeout(450)  # no click counts before
    card.get_by_role("button", name="Always…").click()
    page.get_by_role("menuitem", name="Allow this in this chat").click()
    expect(card).to_have_count(0)
    talking.say(prompt, Question("shell", "run_command", "make always"), ReplyCompleted("built"))
    expect(page.locator(".prose", has_text="built")).to_be_visible()
    assert talking.answers[answered:] == [True, True]


def test_a_question_to_the_person_is_answered_by_a_choice_or_in_words(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    chat, prompt = create_busy_chat(site.client(), talking)
    page = ada.open(f"/{chat}")
    card = page.get_by_role("region", name="A question of the agent")
    for answer in ("blue", "Neither: green."):
        subject = f"Which colour, {len(answer)}?"
        listed = f"{subject}\n\n- red\n- blue"
        talking.say(prompt, Question("question", "ask_person", listed, choices=("red", "blue")))
        expect(card.get_by_role("heading", name="The agent asks you")).to_be_visible()
        expect(card.locator(".subject")).to_have_text(subject)
        page.wait_for_timeout(450)  # no click counts before
        if answer == "blue":
            card.get_by_role("button", name="blue").click()
        else:
            card.get_by_label("Your answer").fill(answer)
            card.get_by_role("button", name="Answer", exact=True).click()
        expect(card).to_have_count(0)
        until(lambda wanted=answer: talking.notes[-1:] == [wanted])
        assert talking.answers[-1:] == [True]
    talking.say(prompt, ReplyCompleted("done"))


def test_a_question_that_is_answered_elsewhere_goes_everywhere(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Row 20."""
    chat, prompt = create_busy_chat(site.client(), talking)
    pages = [ada.open(f"/{chat}"), ada.open("/inbox")]
    talking.say(prompt, Question("outside", "write_file", "/etc/hosts"))
    for page in pages:
        expect(page.get_by_text("Change a file outside the workspace?").last).to_be_visible()
    asked = site.client().get("/api/chat/approvals")["approvals"][0]
    site.client().post(f"/api/chat/{chat}/approvals/{asked['id']}", {"decision": "allow"})
    for page in pages:
        expect(page.locator(".ask")).to_have_count(0)
    talking.say(prompt, ReplyCompleted("done"))


def test_the_queue_is_ordered_by_keys_and_by_mouse_and_other_tabs_see_it(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Row 17."""
    chat, prompt = create_busy_chat(site.client(), talking, "one", "two", "three")
    page, other = ada.open(f"/{chat}"), ada.open(f"/{chat}")
    for tab in (page, other):
        expect(tab.locator(".queue .text")).to_have_count(3)
    page.bring_to_front()
    page.get_by_role("button", name="Move prompt 3").focus()
    page.keyboard.press("Alt+ArrowUp")
    for tab in (page, other):
        until(lambda tab=tab: list_waiting(tab) == ["one", "three", "two"])
    grip = page.get_by_role("button", name="Move prompt 1").bounding_box()
    below = page.locator(".queue .wait").last.bounding_box()
    assert grip
    assert below
    page.mouse.move(grip["x"] + 5, grip["y"] + 5)
    page.mouse.down()
    page.mouse.move(grip["x"] + 5, below["y"] + below["height"] - 2, steps=4)
    page.mouse.up()
    for tab in (page, other):
        until(lambda tab=tab: list_waiting(tab) == ["three", "two", "one"])
    until(lambda: not any(one["isPaused"] for one in site.client().prompts(chat)))
    talking.say(prompt, ReplyCompleted("done"))


def test_a_prompt_that_is_edited_is_not_sent_meanwhile(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Row 18."""
    client = site.client()
    chat, prompt = create_busy_chat(client, talking, "half done")
    page = ada.open(f"/{chat}")
    page.get_by_role("button", name="Edit", exact=True).click()
    until(lambda: client.prompts(chat)[0]["isPaused"])
    talking.say(prompt, ReplyCompleted("done"))
    expect(page.locator(".prose", has_text="done")).to_be_visible()
    assert [one["prompt"] for one in client.prompts(chat)] == ["half done"]
    page.get_by_label("Text of the prompt").fill("all done")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".prose", has_text="echo: all done")).to_be_visible()
    assert not [one for one in talking.given if one.prompt == "half done"]


def test_prompts_are_paused_removed_and_put_back(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    client = site.client()
    chat, prompt = create_busy_chat(client, talking, "one", "two")
    page = ada.open(f"/{chat}")
    page.get_by_role("button", name="Pause", exact=True).first.click()
    until(lambda: client.prompts(chat)[0]["isPaused"])
    page.get_by_role("button", name="Resume").click()
    until(lambda: not client.prompts(chat)[0]["isPaused"])
    page.get_by_role("button", name="More for this prompt").first.click()
    page.get_by_role("menuitem", name="Remove").click()
    until(lambda: [one["prompt"] for one in client.prompts(chat)] == ["two"])
    page.get_by_role("button", name="Undo").click()
    until(lambda: [one["prompt"] for one in client.prompts(chat)] == ["one", "two"])
    until(lambda: not client.prompts(chat)[0]["isPaused"])
    talking.say(prompt, ReplyCompleted("done"))


def test_a_paused_prompt_that_is_removed_and_put_back_is_still_paused(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    client = site.client()
    chat, prompt = create_busy_chat(client, talking, "draft", "other")
    client.post(f"/api/MessageQueue/{chat}/{client.prompts(chat)[0]['id']}/pause", {})
    page = ada.open(f"/{chat}")
    page.get_by_role("button", name="More for this prompt").first.click()
    page.get_by_role("menuitem", name="Remove").click()
    until(lambda: [one["prompt"] for one in client.prompts(chat)] == ["other"])
    page.get_by_role("button", name="Undo").click()
    expected = [("draft", True), ("other", False)]
    until(lambda: [(one["prompt"], one["isPaused"]) for one in client.prompts(chat)] == expected)
    talking.say(prompt, ReplyCompleted("done"))
    expect(page.locator(".prose", has_text="echo: other")).to_be_visible()
    assert not [one for one in talking.given if one.prompt == "draft"]


def test_a_prompt_is_sent_later_and_its_time_is_changed_and_taken_away(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    talking.expect("In the morning")
    chat = site.client().create_chat(title="Later")
    page = ada.open(f"/{chat}")
    box = find_prompt_box(page)
    expect(page.get_by_role("button", name="Send later…")).to_be_hidden()
    box.fill("In the morning")
    page.get_by_role("button", name="Send later…").click()
    page.get_by_role("button", name="Tomorrow, 9:00").click()
    row = page.get_by_role("list", name="Prompts that wait").get_by_role("listitem")
    expect(row).to_contain_text(re.compile("In the morning.*from .* 09:00"))
    expect(page.locator(".queue .cap")).to_contain_text("on")
    row.get_by_role("button", name="More for this prompt").click()
    page.get_by_role("menuitem", name="Another time…").click()
    page.get_by_label("Not before").fill("2999-03-04T10:30")
    page.get_by_role("dialog").get_by_role("button", name="Send later").click()
    expect(row).to_contain_text(re.compile("from (4 Mar|Mar 4,) 2999 10:30"))
    until(lambda: site.client().prompts(chat)[0]["notBefore"].startswith("2999-03-04T"))
    page.reload()
    row.get_by_role("button", name="More for this prompt").click()
    page.get_by_role("menuitem", name="At its turn").click()
    until(lambda: site.client().prompts(chat) == [])
    expect(page.locator(".prompt", has_text="In the morning")).to_be_visible()
    talking.say("In the morning", ReplyCompleted("done"))


def test_stop_asks_first_and_then_holds_the_queue(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    client = site.client()
    chat, _ = create_busy_chat(client, talking, "later")
    page = ada.open(f"/{chat}")
    page.get_by_role("button", name="Stop", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Cancel").click()
    assert client.status(chat)["status"] == "processing"
    page.locator(".scroll").focus()
    page.keyboard.press("Escape")
    dialog.get_by_role("button", name="Stop").click()
    expect(page.locator(".state.not-phone", has_text="On hold")).to_be_visible()
    page.get_by_role("button", name="Continue").click()
    expect(page.locator(".prose", has_text="echo: later")).to_be_visible()


def test_an_interrupting_prompt_comes_before_those_that_wait(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    chat, _ = create_busy_chat(site.client(), talking, "later")
    page = ada.open(f"/{chat}")
    page.get_by_label("Prompt", exact=True).fill("right now")
    page.get_by_label("Prompt", exact=True).press("Control+Enter")
    expect(page.locator(".prose", has_text="echo: later")).to_be_visible()
    prompts = [one.prompt for one in talking.given]
    assert prompts.index("right now") < prompts.index("later", prompts.index("right now") - 1)


def test_a_draft_outlives_the_tab(ada: Person, site: Serving) -> None:
    """Row 15."""
    chat = site.client().create_chat(title="Drafts")
    page = ada.open(f"/{chat}")
    page.get_by_label("Prompt", exact=True).fill("not yet sent")
    page.get_by_label("Prompt", exact=True).blur()
    page.close()
    again = ada.open(f"/{chat}")
    expect(again.get_by_label("Prompt", exact=True)).to_have_value("not yet sent")
    again.get_by_label("Prompt", exact=True).press("Enter")
    expect(again.locator(".prose", has_text="echo: not yet sent")).to_be_visible()
    third = ada.open(f"/{chat}")
    expect(third.locator(".turn")).to_have_count(1)
    expect(third.get_by_label("Prompt", exact=True)).to_have_value("")


def test_a_chat_is_renamed_labelled_and_put_into_the_trash_and_back(
    ada: Person, site: Serving
) -> None:
    client = site.client()
    client.post("/api/chat-labels", {"name": "bug", "color": "#cc3b3b"})
    chat = client.create_chat(title="Old name")
    page = ada.open(f"/{chat}")

    def choose(kind: str, name: str) -> None:
        page.get_by_role("button", name="More", exact=True).click()
        page.get_by_role(kind, name=name).click()

    choose("menuitem", "Rename")
    page.get_by_label("Title").fill("New name")
    page.get_by_role("dialog").get_by_role("button", name="Rename").click()
    expect(page.get_by_role("heading", name="New name")).to_be_visible()
    set_label(page, "bug")
    choose("menuitem", "Move to the trash")
    expect(page.locator(".chats .item", has_text="New name")).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("heading", name="New name")).to_be_visible()
    until(lambda: client.get(f"/api/chats/{chat}").status == 200)
    assert client.get(f"/api/chats/{chat}")["labels"] == ["bug"]


def set_label(page: Page, name: str) -> None:
    """Set a label in the menu of the chat's page."""
    page.get_by_role("button", name="More", exact=True).click()
    page.get_by_role("menuitemcheckbox", name=f"Label: {name}").click()
    expect(page.locator(".chip", has_text=name)).to_be_visible()


def test_a_chat_is_put_into_the_trash_after_what_was_changed_before(
    ada: Person, site: Serving
) -> None:
    client = site.client()
    client.post("/api/chat-labels", {"name": "before", "color": "#cc3b3b"})
    chat = client.create_chat(title="Changed, then deleted")
    page = ada.open(f"/{chat}")
    held = hold_requests(page)
    set_label(page, "before")
    page.get_by_role("button", name="More", exact=True).click()
    page.get_by_role("menuitem", name="Move to the trash").click()
    until(lambda: page.evaluate("1") and held)
    assert client.get(f"/api/chats/{chat}").status == 200
    held[0].continue_()
    page.get_by_role("button", name="Undo").click()
    until(lambda: client.get(f"/api/chats/{chat}").status == 200)
    assert client.get(f"/api/chats/{chat}")["labels"] == ["before"]


def test_a_chat_that_is_gone_does_not_come_back_with_a_refused_change(
    ada: Person, site: Serving
) -> None:
    client = site.client()
    client.post("/api/chat-labels", {"name": "refused", "color": "#cc3b3b"})
    chat = client.create_chat(title="Deleted elsewhere")
    page = ada.open(f"/{chat}")
    row = page.locator(".chats .item", has_text="Deleted elsewhere")
    held = hold_requests(page)
    set_label(page, "refused")
    until(lambda: page.evaluate("1") and held)
    client.delete(f"/api/chats/{chat}")
    expect(row).to_have_count(0)
    with page.expect_response("**/labels"):
        held[0].continue_()
    expect(page.locator(".toast.bad")).to_be_visible()
    expect(row).to_have_count(0)


def test_the_buttons_of_a_reply_send_their_prompt(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    chat, prompt = create_busy_chat(site.client(), talking)
    page = ada.open(f"/{chat}")
    talking.say(prompt, ReplyCompleted("Which?\n[[Both|Do both]] [[None]]"))
    page.get_by_role("button", name="Both").click()
    expect(page.locator(".prose", has_text="echo: Do both")).to_be_visible()
    expect(page.locator(".prose", has_text="[[")).to_have_count(0)


def test_the_search_finds_a_chat_by_its_title_and_by_what_was_said(
    ada: Person, site: Serving
) -> None:
    client = site.client()
    chat = client.create_chat(title="Zebra crossing", prompt="the quick okapi")
    client.messages(chat)
    page = ada.open("/inbox")
    page.locator(".chats .item").first.wait_for()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("zebra")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(rf"/{chat}$"))
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("okapi")
    expect(page.get_by_role("option", name="okapi").first).to_be_visible()


def test_the_keys_are_listed_and_lead_from_chat_to_chat(ada: Person, site: Serving) -> None:
    for name in ("first", "second"):
        site.client().create_chat(title=name)
    page = ada.open("/inbox")
    page.locator(".chats .item").nth(1).wait_for()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("New chat")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    first = page.locator(".chats .item").first
    expect(first).to_have_attribute("aria-current", "page")
    page.locator(".scroll").first.focus()
    page.keyboard.press("j")
    expect(page.locator(".chats .item").nth(1)).to_have_attribute("aria-current", "page")


def test_what_was_seen_and_pinned_is_the_same_in_another_browser(
    browser: Browser, ada: Person, site: Serving
) -> None:
    client = site.client()
    chat = client.create_chat(title="Seen by ada", prompt="hello there")
    client.messages(chat)
    page = ada.open("/inbox")
    item = page.locator(".chats .item", has_text="Seen by ada")
    expect(item).to_have_class(re.compile("unseen"))
    item.click()
    expect(item).not_to_have_class(re.compile("unseen"))
    page.get_by_role("button", name="More", exact=True).click()
    page.get_by_role("menuitem", name="Pin").click()
    expect(page.locator(".chats section", has_text="Pinned").locator(".item")).to_have_count(1)
    until(lambda: site.administrator().get("/api/me")["seen"].get(str(chat)))
    with person(browser, site) as other:
        there = other.open("/inbox")
        pinned = there.locator(".chats section", has_text="Pinned").locator(".item")
        expect(pinned).to_contain_text("Seen by ada")
        expect(pinned).not_to_have_class(re.compile("unseen"))


def test_what_is_seen_and_pinned_on_one_device_is_so_on_another_at_once(
    browser: Browser, ada: Person, site: Serving
) -> None:
    client = site.client()
    chat = client.create_chat(title="Seen elsewhere", prompt="hello")
    client.messages(chat)
    page = ada.open("/inbox")
    item = page.locator(".chats .item", has_text="Seen elsewhere")
    expect(item).to_have_class(re.compile("unseen"))
    with person(browser, site) as other:
        there = other.open(f"/{chat}")
        expect(there.locator(".prose", has_text="echo: hello")).to_be_visible()
        expect(item).not_to_have_class(re.compile("unseen"))
        there.get_by_role("button", name="More", exact=True).click()
        there.get_by_role("menuitem", name="Pin").click()
        pinned = page.locator(".chats section", has_text="Pinned")
        expect(pinned.locator(".item", has_text="Seen elsewhere")).to_have_count(1)


def test_thinking_is_folded_while_it_grows_and_gone_with_the_next_step(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    chat, prompt = create_busy_chat(site.client(), talking)
    page = ada.open(f"/{chat}")
    expect(page.get_by_text("At work").last).to_be_visible()
    talking.say(prompt, ThinkingProgress("Which file "))
    fold = page.get_by_role("button", name="Thinking")
    expect(fold).to_contain_text("2 words")
    expect(page.get_by_text("Which file")).to_have_count(0)
    fold.click()
    expect(page.get_by_text("Which file")).to_be_visible()
    late = ada.open(f"/{chat}")
    expect(late.get_by_role("button", name="Thinking")).to_contain_text("2 words")
    talking.say(prompt, ThinkingProgress("is it?"))
    expect(page.get_by_text("Which file is it?")).to_be_visible()
    expect(late.get_by_role("button", name="Thinking")).to_contain_text("4 words")
    talking.say(prompt, ToolUsed("read_file", "path=a.txt", "one"))
    for tab in (page, late):
        expect(tab.get_by_role("button", name="Read a.txt")).to_be_visible()
        expect(tab.get_by_role("button", name="Thinking")).to_have_count(0)
    talking.say(prompt, ThinkingProgress("There."), ReplyDelta("In "))
    expect(page.get_by_role("button", name="Thinking")).to_contain_text("1 word")
    talking.say(prompt, ReplyCompleted("In a.txt."))
    expect(page.locator(".prose", has_text="In a.txt.")).to_be_visible()
    expect(page.get_by_role("button", name="Thinking")).to_have_count(0)


def test_a_reply_in_several_messages_loses_nothing_between_them(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    prompt = "several messages"
    talking.expect(prompt)
    chat = site.client().create_chat(prompt=prompt)
    page = ada.open(f"/{chat}")
    expect(page.get_by_text("At work").last).to_be_visible()
    talking.say(prompt, ReplyDelta("first, "), ReplyDelta("whole"))
    expect(page.locator(".growing .tail")).to_have_text("first, whole")
    talking.say(prompt, ToolUsed("read_file", "path=a.txt", "one"), ReplyDelta(" and second"))
    expect(page.get_by_role("button", name="Read a.txt")).to_be_visible()
    expect(page.locator(".growing .tail")).to_contain_text("and second")
    talking.say(prompt, ReplyCompleted("first, whole and second"))
    expect(page.locator(".prose", has_text="first, whole and second")).to_have_count(1)
    expect(page.locator(".growing")).to_have_count(0)
