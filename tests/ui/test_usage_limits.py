"""Usage limits of a coding agent's sign-in, told in the browser before they are reached."""

from pathlib import Path

import pytest

from agentd.agent.engine import ReplyCompleted, UsageWindowsReported
from agentd.models.program_state import UsageWindow
from tests.support.daemon import Client, Serving, until
from tests.ui.accessibility import check_accessibility
from tests.ui.support import PHONE, Person, TalkingEngine, person

from playwright.sync_api import Browser, expect  # isort: skip

MODELS = """
models:
  - {name: signed, engine: codex, command: [sh]}
  - {name: calm, engine: claude-code, command: [sh]}
"""
RESETS = "2100-01-04T09:30:00.000Z"
PLENTY = UsageWindow("7 days", 74, RESETS)
TIGHT = UsageWindow("5 hours", 75, RESETS)


@pytest.fixture(scope="module")
def client(site: Serving) -> Client:
    """A client of a daemon with models of two programs."""
    Path(site.layout.models).write_text(MODELS)
    client = site.client()
    until(lambda: client.get("/api/models")["models"])
    return client


def report(client: Client, talking: TalkingEngine, *windows: UsageWindow) -> None:
    """Let a turn with the model ``signed`` report windows, and end it."""
    talking.expect("how much is left")
    chat = client.create_chat(model="signed", prompt="how much is left")
    talking.say("how much is left", UsageWindowsReported(windows), ReplyCompleted("This much."))
    client.status(chat, 20)


def test_a_window_that_is_nearly_used_up_is_told_beside_the_model_and_in_the_settings(
    ada: Person, client: Client, talking: TalkingEngine
) -> None:
    chat = client.create_chat(model="signed", title="Signed")
    page = ada.open(f"/{chat}")
    models, about = ada.open("/settings/models"), ada.open("/settings/about")
    expect(page.get_by_role("button", name="Model: signed")).to_be_visible()
    expect(page.locator(".composer .limits")).to_be_hidden()

    report(client, talking, TIGHT, PLENTY)
    told = page.locator(".composer .limits")
    expect(told).to_contain_text("5 hours: 75 % used, resets")
    expect(told).to_contain_text("2100")
    expect(told).not_to_contain_text("7 days")
    row = models.locator("li", has=models.get_by_text("signed", exact=True))
    expect(row).to_contain_text("5 hours: 75 % used")
    expect(models.locator("li", has=models.get_by_text("calm", exact=True))).not_to_contain_text(
        "used"
    )
    expect(about.get_by_text("Usage limits: 5 hours: 75 % used")).to_contain_text(
        "7 days: 74 % used"
    )

    page.get_by_role("button", name="Model: signed").click()
    expect(page.get_by_role("menuitemradio", name="signed")).to_contain_text("75 % used")
    page.get_by_role("menuitemradio", name="calm").click()
    expect(page.get_by_role("button", name="Model: calm")).to_be_visible()
    expect(told).to_be_hidden()

    page.get_by_role("button", name="Model: calm").click()
    page.get_by_role("menuitemradio", name="signed").click()
    expect(told).to_be_visible()
    report(client, talking, UsageWindow("5 hours", 1, RESETS))
    expect(told).to_be_hidden()


def test_on_a_phone_it_is_told_without_squeezing_what_is_beside_it(
    browser: Browser, site: Serving, client: Client, talking: TalkingEngine
) -> None:
    report(client, talking, TIGHT, UsageWindow("7 days", 99, RESETS))
    with person(browser, site, size=PHONE) as somebody:
        page = somebody.open(f"/{client.create_chat(model='signed')}")
        expect(page.locator(".composer .limits")).to_contain_text("7 days: 99 % used")
        check_accessibility(page)
