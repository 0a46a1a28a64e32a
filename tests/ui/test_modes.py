"""The mode of a chat's program, chosen in the browser: to plan first, and then to work."""

from pathlib import Path

import pytest

from tests.support.daemon import Client, Serving, until
from tests.ui.accessibility import check_accessibility
from tests.ui.support import PHONE, Person, TalkingEngine, find_prompt_box, person

from playwright.sync_api import Browser, Page, expect  # isort: skip

MODELS = """
models:
  - {name: planner, engine: codex, command: [sh]}
  - {name: plain, engine: offline}
"""


@pytest.fixture(scope="module")
def client(site: Serving) -> Client:
    """A client of a daemon with a model whose program has modes, and one without."""
    Path(site.layout.models).write_text(MODELS)
    client = site.client()
    until(lambda: client.get("/api/models")["models"])
    return client


def choose(page: Page, label: str, item: str) -> None:
    """Choose from the menu of the model that is shown so."""
    page.get_by_role("button", name=f"Model: {label}", exact=True).click()
    page.get_by_role("menuitemradio", name=item).click()


def test_a_chat_that_has_begun_plans_until_its_usual_mode_or_another_model_is_chosen(
    ada: Person, client: Client
) -> None:
    chat = client.create_chat(model="planner", title="Planned")
    page = ada.open(f"/{chat}")
    choose(page, "planner", "Mode: Plan")
    expect(page.get_by_role("button", name="Model: planner · Plan", exact=True)).to_be_visible()
    until(lambda: client.get(f"/api/chat/{chat}")["settings"]["mode"] == "plan")
    page.reload()
    choose(page, "planner · Plan", "Usual mode")
    until(lambda: client.get(f"/api/chat/{chat}")["settings"]["mode"] == "")
    choose(page, "planner", "Mode: Plan")
    choose(page, "planner · Plan", "plain")
    until(lambda: client.get(f"/api/chat/{chat}")["settings"]["model"] == "plain")
    assert client.get(f"/api/chat/{chat}")["settings"]["mode"] == ""
    page.get_by_role("button", name="Model: plain", exact=True).click()
    expect(page.get_by_role("menuitemradio", name="planner")).to_be_visible()
    expect(page.get_by_role("menuitemradio", name="Usual mode")).to_have_count(0)


def test_a_new_chat_can_plan_from_its_first_prompt_on(
    browser: Browser, site: Serving, client: Client, talking: TalkingEngine
) -> None:
    with person(browser, site, size=PHONE) as somebody:
        page = somebody.open("/")
        choose(page, "Default engine", "planner")
        choose(page, "planner", "Mode: Plan")
        expect(page.get_by_role("button", name="Model: planner · Plan", exact=True)).to_be_visible()
        check_accessibility(page)
        box = page.get_by_label("The first prompt", exact=True)
        box.fill("plan the garden")
        page.get_by_role("button", name="Send", exact=True).click()
        expect(find_prompt_box(page)).to_be_visible()
        expect(page.get_by_role("button", name="Model: planner · Plan", exact=True)).to_be_visible()
    given = [one.mode for one in talking.given if one.prompt == "plan the garden"]
    assert given == ["plan"]


def test_a_schedule_has_a_mode_where_its_models_program_has_modes(
    ada: Person, client: Client
) -> None:
    page = ada.open("/schedules")
    page.get_by_role("button", name="Add a schedule").first.click()
    dialog = page.get_by_role("dialog")
    model = dialog.get_by_role("combobox", name="Model")
    mode = dialog.get_by_role("combobox", name="Mode", exact=True)
    expect(mode).to_be_hidden()
    model.select_option("planner")
    mode.select_option(label="Plan")
    model.select_option("plain")
    expect(mode).to_be_hidden()
    model.select_option("planner")
    expect(mode).to_have_value("")
    mode.select_option(label="Plan")
    dialog.get_by_label("Name").fill("planned")
    dialog.get_by_label("Prompt").fill("Plan the week")
    dialog.get_by_role("button", name="Add", exact=True).click()
    row = page.get_by_role("list", name="Schedules").get_by_role("listitem").first
    row.get_by_role("button", expanded=False).first.click()
    expect(row).to_contain_text("planner · mode plan")
    (kept,) = client.get("/api/schedules")["schedules"]
    assert (kept["model"], kept["mode"]) == ("planner", "plan")
    client.delete("/api/schedules/planned")
