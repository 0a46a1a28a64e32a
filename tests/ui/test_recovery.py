"""A page survives kill -9 of the daemon, clocks that differ, and a crash of the tab."""

import json
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path

import pytest

from agentd.agent.engine import Question, ReplyCompleted
from agentd.auth.password import hash_password
from agentd.auth.roles import User
from agentd.auth.user_store import UserFile
from tests.supplier.steps import Answer, Call, Say, Stall
from tests.supplier.supplier import Supplier
from tests.support.daemon import CHEAP, WORD, Serving, until
from tests.support.ports import find_free_port
from tests.test_daemon import Process
from tests.ui.support import PHONE, Person, TalkingEngine, find_prompt_box, person, sign_in
from tests.ui.test_chat import create_busy_chat, list_waiting

from playwright.sync_api import Browser, Page, expect  # isort: skip


class Daemon:
    """``agentd serve`` as a process of its own at one address, which can be killed."""

    def __init__(self, folder: Path, supplier: Supplier, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._port = find_free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        config = folder / "config"
        config.mkdir()
        (folder / "workspace").mkdir()
        model = {"name": "scripted", "engine": "native", "model": "m", "supplier": "here"}
        here = {"dialect": "openai-chat", "url": supplier.url}
        models = {"default": "scripted", "suppliers": {"here": here}, "models": [model]}
        (config / "models.yml").write_text(json.dumps(models))
        (config / "agentd.yml").write_text(json.dumps({"workspace": str(folder / "workspace")}))
        self.start()
        UserFile(self.process.layout).add(User("ada", "administrator", hash_password(WORD, CHEAP)))

    def start(self) -> None:
        """Begin, or begin again."""
        self.process = Process(self._folder, "--port", str(self._port))
        self._stack.callback(self.process.child.wait, 60)
        self._stack.callback(self.process.child.kill)
        self.process.up()

    def kill(self) -> None:
        """Kill it, as the system does without memory."""
        self.process.end(signal.SIGKILL)


@pytest.fixture
def supplier() -> Iterator[Supplier]:
    with Supplier() as supplier:
        yield supplier


@pytest.fixture
def daemon(tmp_path: Path, supplier: Supplier) -> Iterator[Daemon]:
    with ExitStack() as stack:
        yield Daemon(tmp_path, supplier, stack)


def test_kill_9_in_the_middle_of_a_reply_loses_and_doubles_nothing(
    browser: Browser, daemon: Daemon, supplier: Supplier
) -> None:
    """Row 10."""
    stall = Stall(3)
    reply = Answer((Say("one two three four five six"),), faults=(stall,))
    supplier.script(Say("The answer before"), reply, Say("The answer after"))
    context = browser.new_context(reduced_motion="reduce", service_workers="block")
    page = context.new_page()
    try:
        page.goto(daemon.url)
        sign_in(page)
        page.get_by_label("The first prompt").fill("before the crash")
        page.get_by_label("The first prompt").press("Enter")
        expect(page.locator(".prose", has_text="The answer before")).to_be_visible()
        send_prompt(page, "in the middle")
        send_prompt(page, "after the crash")
        expect(page.locator(".growing")).to_contain_text("one two")
        find_prompt_box(page).fill("a draft")
        daemon.kill()
        expect(page.get_by_text("agentd does not answer · trying again")).to_be_visible()
        expect(page.locator(".prose", has_text="The answer before")).to_be_visible()
        daemon.start()
        expect(page.locator(".banner")).to_have_count(0)
        expect(page.locator(".prose", has_text="The answer after")).to_be_visible()
        expect(page.locator(".growing")).to_have_count(0)
        told = page.locator(".turn .prompt").all_inner_texts()
        assert [text.splitlines()[-1] for text in told] == [
            "before the crash",
            "in the middle",
            "after the crash",
        ]
        expect(page.locator(".failure")).to_contain_text("Interrupted")
        assert find_prompt_box(page).input_value() == "a draft"
        expect(page.locator(".running")).to_have_count(0)
        shown = page.locator(".script").inner_text()
        page.reload()
        expect(page.locator(".turn")).to_have_count(3)
        expect(page.locator(".prose", has_text="The answer after")).to_be_visible()
        expect(page.locator(".script")).to_have_text(shown, use_inner_text=True)
    finally:
        stall.release()
        context.close()


def test_a_question_whose_turn_a_kill_9_ended_is_no_longer_shown(
    browser: Browser, daemon: Daemon, supplier: Supplier
) -> None:
    supplier.script(Call("ask_person", {"question": "Which tea?", "choices": ["green", "black"]}))
    context = browser.new_context(reduced_motion="reduce", service_workers="block")
    page = context.new_page()
    try:
        page.goto(daemon.url)
        sign_in(page)
        page.get_by_label("The first prompt").fill("ask me")
        page.get_by_label("The first prompt").press("Enter")
        expect(page.locator(".ask")).to_contain_text("Which tea?")
        expect(page.locator(".chat-row")).to_contain_text("The agent asks you")
        daemon.kill()
        expect(page.get_by_text("agentd does not answer · trying again")).to_be_visible()
        daemon.start()
        expect(page.locator(".failure")).to_contain_text("Interrupted")
        expect(page.locator(".ask")).to_have_count(0)
        expect(page.locator(".chat-row")).not_to_contain_text("The agent asks you")
    finally:
        context.close()


def send_prompt(page: Page, text: str) -> None:
    """Send a prompt."""
    find_prompt_box(page).fill(text)
    find_prompt_box(page).press("Enter")


@pytest.mark.parametrize("hours", [-7, 7])
def test_times_are_right_by_the_daemons_clock_when_the_devices_is_wrong(
    ada: Person, site: Serving, talking: TalkingEngine, hours: int
) -> None:
    prompt = f"a clock that differs by {hours}"
    talking.expect(prompt)
    chat = site.client().create_chat(prompt=prompt, title=f"Clocks {hours}")
    talking.say(prompt, Question("shell", "run_command", "make"))
    until(lambda: site.client().get(f"/api/chat/{chat}/approvals")["approvals"])
    page = ada.context.new_page()
    page.clock.install(time=datetime.now(UTC) + timedelta(hours=hours))
    page.goto(f"{ada.url}/{chat}")
    left = page.locator(".ask .left")
    expect(left).to_have_text(re.compile(r"^Denied in \d{1,2}:\d\d$"))
    minutes, seconds = map(int, re.findall(r"\d+", left.inner_text()))
    asked = site.client().get(f"/api/chat/{chat}/approvals")["approvals"][0]
    whole = datetime.fromisoformat(asked["deadline"]) - datetime.fromisoformat(asked["askedAt"])
    passed = ceil(whole.total_seconds()) - (60 * minutes + seconds)
    assert -2 <= passed <= 180  # a page minds a difference only from a second and a half on
    row = page.locator(".chat-row", has_text=f"Clocks {hours}")
    expect(row.locator("time")).to_have_text(re.compile("now|[1-9] m"))
    expect(page.locator("section", has=row).get_by_role("heading")).to_contain_text("Needs you")
    running = page.locator(".running .ends span").filter(has_text=re.compile(r"^\d"))
    assert not running.count() or re.match(r"^\d+(\.\d)? (s|m)", running.inner_text())
    page.close()
    asked_id = asked["id"]
    site.client().post(f"/api/chat/{chat}/approvals/{asked_id}", {"decision": "deny"})
    talking.say(prompt, ReplyCompleted("done"))


def test_a_draft_outlives_a_crash_of_the_tab(ada: Person, site: Serving) -> None:
    """Row 15."""
    chat = site.client().create_chat(title="Crashed")
    page = ada.open(f"/{chat}")
    find_prompt_box(page).press_sequentially("typed right before")
    kept = "Object.entries(localStorage).some(([name, text]) => text.includes('right before'))"
    until(lambda: page.evaluate(kept))
    with page.expect_event("crash"):
        session = ada.context.new_cdp_session(page)
        session.send("Page.enable")
        page.evaluate("1")
        crash_tab(page)
    again = ada.open(f"/{chat}")
    expect(find_prompt_box(again)).to_have_value("typed right before")


def crash_tab(page: Page) -> None:
    """End the tab's process as a fault of the browser does."""
    from playwright.sync_api import Error

    try:
        page.goto("chrome://crash", wait_until="commit")
    except Error:
        return  # of course


def test_the_queue_is_ordered_by_a_finger(
    browser: Browser, site: Serving, talking: TalkingEngine
) -> None:
    """Row 17."""
    with person(browser, site, size=PHONE) as somebody:
        client = site.client()
        chat, prompt = create_busy_chat(client, talking, "one", "two", "three")
        page = somebody.open(f"/{chat}")
        page.get_by_role("button", name="Show the queue").click()
        expect(page.locator(".queue .text")).to_have_count(3)
        session = somebody.context.new_cdp_session(page)
        grip = page.get_by_role("button", name="Move prompt 1").bounding_box()
        below = page.locator(".queue .wait").last.bounding_box()
        assert grip and below
        x, y = grip["x"] + grip["width"] / 2, grip["y"] + grip["height"] / 2
        end = below["y"] + below["height"] - 3

        def touch(kind: str, *points: tuple[float, float]) -> None:
            session.send(
                "Input.dispatchTouchEvent",
                {"type": kind, "touchPoints": [{"x": one, "y": other} for one, other in points]},
            )

        touch("touchStart", (x, y))
        for step in range(1, 9):
            touch("touchMove", (x, y + (end - y) * step / 8))
        until(lambda: page.evaluate("1") and client.prompts(chat)[0]["isPaused"])
        touch("touchEnd")
        until(lambda: list_waiting(page) == ["two", "three", "one"])
        until(lambda: [one["prompt"] for one in client.prompts(chat)] == ["two", "three", "one"])
        until(lambda: not any(one["isPaused"] for one in client.prompts(chat)))
        talking.say(prompt, ReplyCompleted("done"))
