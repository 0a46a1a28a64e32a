"""The controls of a chat, and the keys of every page: each does what it says."""

from pathlib import Path

import pytest

from agentd.agent.engine import Question, ReplyCompleted
from agentd.ui.assets import AssetBundle, load_assets
from tests.support.daemon import Serving, until
from tests.ui.support import (
    PHONE,
    Person,
    TalkingEngine,
    find_prompt_box,
    get_service_worker,
    person,
)
from tests.ui.test_chat import create_busy_chat, list_waiting
from tests.ui.test_live import BODIES, HIDDEN

from playwright.sync_api import Browser, Page, Route, expect  # isort: skip


def choose(page: Page, menu: str, entry: str) -> None:
    """Open the first menu of this name, and choose an entry."""
    page.get_by_role("button", name=menu, exact=True).first.click()
    page.get_by_role("menuitem", name=entry).click()


def test_a_chat_is_duplicated(ada: Person, site: Serving) -> None:
    chat = site.client().create_chat(prompt="copy me", title="The first of two")
    page = ada.open(f"/{chat}")
    expect(page.locator(".prose", has_text="echo: copy me")).to_be_visible()
    choose(page, "More", "Duplicate")
    expect(page).not_to_have_url(f"{ada.url}/{chat}")
    expect(page.locator(".prose", has_text="echo: copy me")).to_be_visible()
    find_prompt_box(page).fill("to the copy only")
    find_prompt_box(page).press("Enter")
    expect(page.locator(".prose", has_text="echo: to the copy only")).to_be_visible()
    told = [one["content"] for one in site.client().messages(chat)]
    assert told == ["copy me", "echo: copy me"]


def test_a_chat_is_exported_as_markdown(ada: Person, site: Serving) -> None:
    chat = site.client().create_chat(prompt="write me down", title="To be kept")
    page = ada.open(f"/{chat}")
    expect(page.locator(".prose", has_text="echo: write me down")).to_be_visible()
    with page.expect_download() as started:
        choose(page, "More", "Export as Markdown")
    assert started.value.suggested_filename.endswith(".md")
    text = Path(started.value.path()).read_text()
    assert "# To be kept" in text
    assert "echo: write me down" in text
    expect(page.locator(".foot small")).to_contain_text("live")


def test_the_outline_leads_to_a_prompt(ada: Person, site: Serving) -> None:
    client = site.client()
    filling = "\n".join(f"line {number}" for number in range(80))
    chat = client.create_chat(prompt=f"The beginning\n{filling}")
    for name in ("The middle", "The end"):
        client.post(f"/api/remote/chats/{chat}/queue", {"prompt": f"{name}\n{filling}"})
    client.messages(chat)
    page = ada.open(f"/{chat}?panel=details")
    page.get_by_role("button", name="Outline").click()
    entries = page.locator(".outline li")
    expect(entries).to_have_text(["The beginning", "The middle", "The end"])
    expect(page.locator(".prose").last).to_be_in_viewport()
    for number in range(3):
        entries.nth(number).get_by_role("button").click()
        top = page.locator(".turn").nth(number)
        expect(top).to_be_in_viewport()
        until(lambda top=top: abs(measure_from_top(page, top.bounding_box()["y"])) < 60)


def measure_from_top(page: Page, height: float) -> float:
    """How far below the beginning of the script this is."""
    box = page.locator(".scroll").bounding_box()
    assert box
    return height - box["y"]


def test_a_prompt_is_sent_now_before_those_that_wait_longer(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    chat, _ = create_busy_chat(site.client(), talking, "has time", "is urgent")
    page = ada.open(f"/{chat}")
    expect(page.locator(".queue .wait")).to_have_count(2)
    page.get_by_role("button", name="More for this prompt").last.click()
    page.get_by_role("menuitem", name="Send now").click()
    expect(page.locator(".prose", has_text="echo: has time")).to_be_visible()
    sent = [one.prompt for one in talking.given]
    assert sent[-2:] == ["is urgent", "has time"]
    expect(page.locator(".queue .wait")).to_have_count(0)


def test_a_prompt_that_is_sent_now_is_not_stopped_when_the_turn_before_it_ends_by_itself(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    client = site.client()
    talking.expect("is very urgent")
    chat, running = create_busy_chat(client, talking, "is very urgent")
    path = f"/api/remote/chats/{chat}/messages"
    page = ada.open(f"/{chat}")

    def end_first(route: Route) -> None:
        talking.say(running, ReplyCompleted("It ended by itself."))
        until(lambda: any("It ended" in one["content"] for one in client.get(path)["messages"]))
        route.continue_()

    page.route(f"**/api/chat/{chat}/stop", end_first)
    choose(page, "More for this prompt", "Send now")
    until(lambda: page.evaluate("1") and talking.given[-1].prompt == "is very urgent")
    talking.say("is very urgent", ReplyCompleted("Done at once."))
    expect(page.locator(".prose", has_text="Done at once.")).to_be_visible()


def test_a_prompt_that_cannot_be_sent_now_leaves_a_held_queue_held(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    client = site.client()
    chat, _ = create_busy_chat(client, talking, "waits")
    client.post(f"/api/MessageQueue/{chat}/hold", {})
    page = ada.open(f"/{chat}")
    expect(page.locator("div.cap")).to_contain_text("1 prompt on hold")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    gone = {"error": "NotFound", "message": "It is gone", "details": ""}
    page.route("**/move", lambda route: route.fulfill(status=404, json=gone))
    choose(page, "More for this prompt", "Send now")
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    assert "move" in asked
    assert not {"hold", "release", "stop"} & set(asked)


def test_a_prompt_that_is_sent_now_does_not_allow_more_than_the_budget(
    ada: Person, site: Serving
) -> None:
    client, administrator = site.client(), site.administrator()
    assert administrator.post("/api/settings/set", {"budget_per_chat": 0}).status == 200
    try:
        chat = client.create_chat(prompt="costs something")
        client.post(f"/api/remote/chats/{chat}/queue", {"prompt": "is urgent"})
        page = ada.open(f"/{chat}")
        expect(page.locator(".ask")).to_contain_text("its budget is 0")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
        page.get_by_role("button", name="More for this prompt").last.click()
        with page.expect_response("**/stop"):
            page.get_by_role("menuitem", name="Send now").click()
        page.get_by_role("button", name="Pause", exact=True).first.click()
        expect(page.get_by_role("button", name="Resume")).to_be_visible()
        assert [one["prompt"] for one in client.prompts(chat)] == ["is urgent", "costs something"]
        assert "release" not in asked
        expect(page.locator(".ask")).to_be_visible()
    finally:
        administrator.post("/api/settings/set", {"budget_per_chat": None})
        client.delete(f"/api/chats/{chat}")


def test_the_whole_queue_is_held_and_goes_on(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    client = site.client()
    chat, prompt = create_busy_chat(client, talking, "held")
    page = ada.open(f"/{chat}")
    page.get_by_role("button", name="Hold all").click()
    expect(page.locator("div.cap")).to_contain_text("1 prompt on hold")
    talking.say(prompt, ReplyCompleted("The turn ends."))
    expect(page.locator(".prose", has_text="The turn ends.")).to_be_visible()
    until(lambda: client.status(chat)["status"] != "processing")
    assert [one["prompt"] for one in client.prompts(chat)] == ["held"]
    page.get_by_role("button", name="Continue").click()
    expect(page.locator(".prose", has_text="echo: held")).to_be_visible()


def test_the_queue_is_ordered_by_menu_on_a_phone(
    browser: Browser, site: Serving, talking: TalkingEngine
) -> None:
    """Row 17."""
    client = site.client()
    chat, prompt = create_busy_chat(client, talking, "one", "two", "three")
    with person(browser, site, size=PHONE) as somebody:
        page = somebody.open(f"/{chat}")
        page.get_by_role("button", name="Show the queue").tap()
        for number, entry, order in (
            (2, "Move up", ["one", "three", "two"]),
            (0, "Move down", ["three", "one", "two"]),
        ):
            page.get_by_role("button", name="More for this prompt").nth(number).tap()
            page.get_by_role("menuitem", name=entry).tap()
            until(lambda order=order: [one["prompt"] for one in client.prompts(chat)] == order)
            until(lambda order=order: list_waiting(page) == order)
        page.get_by_role("button", name="More for this prompt").first.tap()
        expect(page.get_by_role("menuitem", name="Move up")).to_be_disabled()
        page.keyboard.press("Escape")
        talking.say(prompt, ReplyCompleted("done"))


def test_what_is_dragged_to_the_edge_scrolls_the_queue_while_it_rests_there(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Row 17."""
    client = site.client()
    names = [f"prompt {number:02}" for number in range(30)]
    chat, prompt = create_busy_chat(client, talking, *names)
    page = ada.open(f"/{chat}")
    rows = page.get_by_role("list", name="Prompts that wait")
    expect(rows.get_by_role("listitem")).to_have_count(30)
    grip = page.get_by_role("button", name="Move prompt 1:").bounding_box()
    box = rows.bounding_box()
    assert grip
    assert box
    page.mouse.move(grip["x"] + 5, grip["y"] + 5)
    page.mouse.down()
    page.mouse.move(grip["x"] + 5, box["y"] + box["height"] - 4, steps=4)
    until(lambda: list_waiting(page)[-1] == names[0])
    page.mouse.up()
    moved = [*names[1:], names[0]]
    until(lambda: [one["prompt"] for one in client.prompts(chat)] == moved)
    until(lambda: not any(one["isPaused"] for one in client.prompts(chat)))
    assert list_waiting(page) == moved
    client.post(f"/api/MessageQueue/{chat}/hold", {})
    talking.say(prompt, ReplyCompleted("done"))


def test_keys_open_a_new_chat_and_the_search(ada: Person) -> None:
    """Row 38."""
    page = ada.open("/inbox")
    page.locator(".shell").wait_for()
    page.keyboard.press("/")
    expect(page.get_by_role("combobox")).to_be_focused()
    page.keyboard.press("n")  # is typed
    expect(page.get_by_role("combobox")).to_have_value("n")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page).to_have_url(f"{ada.url}/inbox")
    page.keyboard.press("n")
    expect(page).to_have_url(f"{ada.url}/")
    expect(page.get_by_label("The first prompt")).to_be_focused()


STOPPED_CLOCK = """
  let stopped = null;
  const now = performance.now.bind(performance);
  performance.now = () => stopped ?? now();
  window.setTime = (milliseconds) => (stopped = milliseconds);
"""


def test_a_click_counts_only_when_a_question_has_been_there_for_a_moment(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Row 19: what was meant for something else answers no question; the key ``D`` denies."""
    chat, prompt = create_busy_chat(site.client(), talking)
    ada.context.add_init_script(STOPPED_CLOCK)
    page = ada.open(f"/{chat}")
    expect(page.locator(".running")).to_be_visible()
    answers: list[str] = []
    page.on("request", lambda one: one.method == "POST" and answers.append(one.post_data or ""))
    page.evaluate("window.setTime(1_000_000)")
    before = len(talking.answers)
    talking.say(prompt, Question("shell", "run_command", "make"))
    card = page.get_by_role("region", name="A question of the agent")
    card.get_by_role("button", name="Allow").click()
    page.evaluate("window.setTime(1_000_399)")
    card.get_by_role("button", name="Allow").click()
    page.locator(".scroll").focus()
    page.keyboard.press("a")
    page.evaluate("window.setTime(1_000_400)")
    page.keyboard.press("d")
    expect(card).to_have_count(0)
    until(lambda: len(talking.answers) > before)
    assert talking.answers[before:] == [False]
    assert len([one for one in answers if "decision" in one]) == 1
    talking.say(prompt, ReplyCompleted("done"))


UNDECIDED = """
  let decided = "default";
  Object.defineProperty(Notification, "permission", { get: () => decided });
  Notification.requestPermission = async () => (decided = "granted");
"""
"""A browser that has not been asked yet, and whose person will allow it."""


def test_notifications_are_asked_for_at_a_question(
    browser: Browser, site: Serving, talking: TalkingEngine
) -> None:
    """Row 21."""
    chat, prompt = create_busy_chat(site.client(), talking)
    with person(browser, site, workers=True) as somebody:
        somebody.context.grant_permissions(["notifications"], origin=site.url)
        somebody.context.add_init_script(UNDECIDED)
        page = somebody.open(f"/{chat}")
        worker = get_service_worker(somebody)
        page.evaluate("navigator.serviceWorker.ready.then(() => 1)")
        offer = page.get_by_role("button", name="Notify me of questions")
        expect(page.locator(".running")).to_be_visible()
        expect(offer).to_have_count(0)
        talking.say(prompt, Question("shell", "run_command", "make first"))
        offer.click()
        expect(offer).to_have_count(0)
        page.evaluate(HIDDEN)
        other = "ask again"
        talking.expect(other)
        site.client().create_chat(prompt=other, title=other)
        talking.say(other, Question("shell", "run_command", "make second"))
        until(lambda: any("make second" in one for one in worker.evaluate(BODIES)))
        assert not any("make first" in one for one in worker.evaluate(BODIES)), "it was seen"
    for asked in site.client().get("/api/chat/approvals")["approvals"]:
        address = f"/api/chat/{asked['chatId']}/approvals/{asked['id']}"
        site.client().post(address, {"decision": "deny"})
    for one in (prompt, other):
        talking.say(one, ReplyCompleted("done"))


def test_a_reply_and_its_code_are_copied(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    chat, prompt = create_busy_chat(site.client(), talking)
    reply = "Run *this*:\n\n```sh\nmake <all>\n```"
    talking.say(prompt, ReplyCompleted(reply))
    ada.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=ada.url)
    page = ada.open(f"/{chat}")
    for name, text in (("Copy the reply", reply), ("Copy this code", "make <all>\n")):
        page.get_by_role("button", name=name).click()
        until(lambda text=text: page.evaluate("navigator.clipboard.readText()") == text)


def test_a_page_of_an_earlier_version_says_so(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Serving(tmp_path) as serving, person(browser, serving) as somebody:
        page = somebody.open("/inbox")
        expect(page.locator(".foot small")).to_contain_text("live")
        serving.stop()
        serving.join()
        expect(page.get_by_text("agentd does not answer · trying again")).to_be_visible()
        files = {name: one.content for name, one in load_assets().assets.items()}
        newer = AssetBundle({**files, "newer.js": b""})
        monkeypatch.setattr("agentd.app.components.load_assets", lambda: newer)
        with Serving(tmp_path, port=serving.port):
            expect(page.locator(".banner")).to_contain_text("agentd was updated")
            page.locator(".banner").get_by_role("button", name="Reload").click()
            version = f"script[src*='{newer.version}']"
            expect(page.locator(version)).to_be_attached()
            expect(page.get_by_role("heading", name="Needs you", exact=True)).to_be_visible()
            expect(page.locator(".banner")).to_have_count(0)
        somebody.complaints.clear()
