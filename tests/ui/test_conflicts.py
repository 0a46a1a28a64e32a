"""Conflicting changes: both versions are shown, and the person chooses."""

import re
from pathlib import Path

from agentd.agent.engine import ReplyCompleted
from tests.support.daemon import Client, Serving, until
from tests.ui.support import PHONE, Person, TalkingEngine, find_prompt_box, person
from tests.ui.test_chat import create_busy_chat

from playwright.sync_api import Browser, Page, Route, expect  # isort: skip


def list_waiting_texts(client: Client, chat: int) -> list[str]:
    """List the texts of the queue, in order."""
    return [one["prompt"] for one in client.prompts(chat)]


def begin_edit(page: Page, client: Client, chat: int, text: str) -> None:
    """Begin to edit the only prompt that waits, and type."""
    page.get_by_role("button", name="Edit", exact=True).click()
    until(lambda: client.prompts(chat)[0]["isPaused"])
    page.get_by_label("Text of the prompt").fill(text)


def test_a_prompt_that_two_have_edited_is_shown_in_both_versions(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Row 35."""
    client = site.client()
    for action, kept in (("Save mine", "my text"), ("Keep that", "their text")):
        chat, prompt = create_busy_chat(client, talking, "the text before")
        page = ada.open(f"/{chat}")
        begin_edit(page, client, chat, "my text")
        waiting = client.prompts(chat)[0]["id"]
        client.put(f"/api/MessageQueue/{chat}/{waiting}", {"prompt": "their text"})
        page.get_by_role("button", name="Save", exact=True).click()
        dialog = page.get_by_role("dialog", name="This prompt was edited elsewhere")
        expect(dialog.get_by_role("region", name="Yours")).to_contain_text("my text")
        expect(dialog.get_by_role("region", name="Saved elsewhere")).to_contain_text("their text")
        dialog.get_by_role("button", name=action).click()
        until(lambda chat=chat, kept=kept: list_waiting_texts(client, chat) == [kept])
        until(lambda chat=chat: not client.prompts(chat)[0]["isPaused"])
        expect(page.locator(".queue .text")).to_have_text(kept)
        talking.say(prompt, ReplyCompleted("done"))


def test_on_a_phone_both_versions_and_the_choice_are_seen_at_once(
    browser: Browser, site: Serving, talking: TalkingEngine
) -> None:
    """Rows 35 and 39."""
    client = site.client()
    chat, prompt = create_busy_chat(client, talking, "the text before")
    with person(browser, site, size=PHONE) as somebody:
        page = somebody.open(f"/{chat}")
        page.get_by_role("button", name="Show the queue").click()
        page.get_by_role("button", name="More for this prompt").click()
        page.get_by_role("menuitem", name="Edit").click()
        until(lambda: client.prompts(chat)[0]["isPaused"])
        page.get_by_label("Text of the prompt").fill("my text\n" * 60)
        waiting = client.prompts(chat)[0]["id"]
        client.put(f"/api/MessageQueue/{chat}/{waiting}", {"prompt": "their text\n" * 60})
        page.get_by_role("button", name="Save", exact=True).click()
        dialog = page.get_by_role("dialog", name="This prompt was edited elsewhere")
        for name in ("Yours", "Saved elsewhere"):
            expect(dialog.get_by_role("region", name=name)).to_be_in_viewport(ratio=1)
        for name in ("Keep that", "Save mine"):
            expect(dialog.get_by_role("button", name=name)).to_be_in_viewport(ratio=1)
        dialog.get_by_role("button", name="Keep that").click()
        until(lambda: not client.prompts(chat)[0]["isPaused"])
    talking.say(prompt, ReplyCompleted("done"))


def test_an_edit_that_comes_between_reading_and_saving_is_noticed(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Row 35."""
    client = site.client()
    chat, prompt = create_busy_chat(client, talking, "the text before")
    page = ada.open(f"/{chat}")
    begin_edit(page, client, chat, "my text")
    path = f"/api/MessageQueue/{chat}/{client.prompts(chat)[0]['id']}"
    slipped: list[int] = []

    def slip_in(route: Route) -> None:
        if route.request.method == "PUT" and not slipped:
            slipped.append(site.client().put(path, {"prompt": "slipped in"}).status)
        route.continue_()

    page.route(f"**{path}", slip_in)
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("button", name="Save mine").wait_for()
    assert slipped == [200]
    assert list_waiting_texts(client, chat) == ["slipped in"]
    page.unroute_all(behavior="wait")  # its function would not run while this thread waits
    page.get_by_role("button", name="Save mine").click()
    until(lambda: list_waiting_texts(client, chat) == ["my text"])
    talking.say(prompt, ReplyCompleted("done"))


def test_a_prompt_that_was_sent_while_it_was_edited_may_be_queued_as_it_is_now(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Row 35."""
    client = site.client()
    chat, prompt = create_busy_chat(client, talking, "sent too soon")
    page = ada.open(f"/{chat}")
    begin_edit(page, client, chat, "as it was meant")
    client.post(f"/api/MessageQueue/{chat}/{client.prompts(chat)[0]['id']}/resume", None)
    talking.say(prompt, ReplyCompleted("done"))
    dialog = page.get_by_role("dialog", name="This prompt was sent already")
    expect(dialog.get_by_role("region", name="Yours")).to_contain_text("as it was meant")
    expect(dialog).to_contain_text("sent too soon")
    dialog.get_by_role("button", name="Queue mine as well").click()
    expect(page.locator(".prose", has_text="echo: as it was meant")).to_be_visible()


def test_a_setting_that_was_changed_by_hand_meanwhile_is_shown_beside_what_was_typed(
    ada: Person, site: Serving
) -> None:
    """Rows 34 and 35."""
    page = ada.open("/settings/agent")
    field = page.get_by_label("Turn steps", exact=True)
    field.fill("77")
    file = Path(site.layout.settings)
    file.write_text(file.read_text().replace("{", '{"turn_steps": 55, ', 1))
    card = page.locator(".setting", has=field)
    expect(card.locator(".other")).to_contain_text("Changed elsewhere meanwhile, to: 55")
    expect(field).to_have_value("77")
    card.get_by_role("button", name="Take that").click()
    expect(field).to_have_value("55")


def test_a_name_that_the_daemon_refuses_is_taken_back_and_can_be_tried_again(
    ada: Person, site: Serving
) -> None:
    client = site.client()
    client.post("/api/chat-labels", {"name": "urgent", "color": "#cc3b3b"})
    chat = client.create_chat(title="As it was")
    page = ada.open("/inbox")
    row = page.locator(".chat-row", has_text=re.compile("As it was|Renamed"))
    refused: list[str] = []

    def refuse(route: Route) -> None:
        if route.request.method != "PUT" or len(refused) > 1:
            return route.continue_()
        refused.append(row.locator(".name").inner_text())
        return route.fulfill(
            status=503, json={"error": "Unavailable", "message": "The disk is full", "details": ""}
        )

    page.route(f"**/api/chats/{chat}", refuse)
    page.route(f"**/api/chats/{chat}/labels", refuse)
    row.hover()
    row.get_by_role("button", name="Chat actions").click()
    page.get_by_role("menuitem", name="Rename").click()
    page.get_by_label("Title").fill("Renamed")
    page.get_by_role("button", name="Rename").click()
    expect(page.locator(".toast")).to_contain_text("The disk is full")
    assert refused == ["Renamed"], "it was shown before the daemon answered"
    expect(row.locator(".name")).to_have_text("As it was")
    page.get_by_role("button", name="Retry").click()
    expect(page.locator(".toast")).to_contain_text("The disk is full")
    # The route's function runs only while Playwright waits: so each answer is waited for there.
    with page.expect_response(lambda one: one.request.method == "PUT" and one.ok):
        page.get_by_role("button", name="Retry").click()
    expect(row.locator(".name")).to_have_text("Renamed")
    page.unroute_all(behavior="wait")
    until(lambda: client.get(f"/api/chats/{chat}")["title"] == "Renamed")
    row.get_by_role("button", name="Chat actions").click()
    page.get_by_role("menuitemcheckbox", name="Label: urgent").click()
    until(lambda: client.get(f"/api/chats/{chat}")["labels"] == ["urgent"])


def test_a_chat_is_put_into_the_trash_and_back_from_its_row(ada: Person, site: Serving) -> None:
    chat = site.client().create_chat(title="Of the row")
    page = ada.open(f"/{chat}")
    find_prompt_box(page).wait_for()
    row = page.locator(".chat-row", has_text="Of the row")
    row.hover()
    row.get_by_role("button").click()
    page.get_by_role("menuitem", name="Move to the trash").click()
    expect(row).to_have_count(0)
    expect(page).to_have_url(f"{ada.url}/chats")
    page.get_by_role("button", name="Undo").click()
    expect(page).to_have_url(f"{ada.url}/{chat}")
    expect(row).to_have_count(1)


def test_a_label_is_put_on_and_taken_off_in_the_menu_of_a_row(ada: Person, site: Serving) -> None:
    client = site.client()
    for name in ("first", "second"):
        client.post("/api/chat-labels", {"name": name, "color": "#2f6de0"})
    chat = client.create_chat(title="Labelled in its row")
    page = ada.open("/inbox")
    row = page.locator(".chat-row", has_text="Labelled in its row")
    has: list[str] = []
    for name in ("first", "second", "first", "second"):
        has = [one for one in has if one != name] if name in has else [*has, name]
        row.hover()
        row.get_by_role("button", name="Chat actions").click()
        page.get_by_role("menuitemcheckbox", name=f"Label: {name}").click()
        until(lambda has=has: client.get(f"/api/chats/{chat}")["labels"] == has)
        row.get_by_role("button", name="Chat actions").click()
        for known in ("first", "second"):
            expect(page.get_by_role("menuitemcheckbox", name=f"Label: {known}")).to_have_attribute(
                "aria-checked", str(known in has).lower()
            )
        page.keyboard.press("Escape")
