"""Prompts whose reply has to fit a schema, in the browser."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentd.agent.engine import ReplyCompleted
from tests.support.daemon import Client, Serving, until
from tests.ui.accessibility import check_accessibility
from tests.ui.support import PHONE, Person, TalkingEngine, find_prompt_box, person

from playwright.sync_api import Browser, Page, expect  # isort: skip

pytest.importorskip("jsonschema", reason="jsonschema is not installed: pip install '.[schema]'")

MODELS = "default: able\nmodels:\n  - {name: able, engine: codex}\n"
CITY: dict[str, Any] = {"type": "object", "required": ["name"]}


@pytest.fixture(scope="module")
def client(site: Serving) -> Client:
    """A client of a daemon with a model whose replies can be held to a schema."""
    Path(site.layout.models).write_text(MODELS)
    client = site.client()
    until(lambda: client.get("/api/models")["models"])
    return client


@pytest.fixture
def phone(browser: Browser, site: Serving) -> Iterator[Person]:
    """An administrator with a phone."""
    with person(browser, site, size=PHONE) as somebody:
        yield somebody


def choose_schema(page: Page, schema: dict[str, Any]) -> None:
    """Fill the dialog, which is open; return once the prompt has the schema."""
    dialog = page.get_by_role("dialog", name="Output schema")
    dialog.get_by_label("JSON Schema").fill(json.dumps(schema))
    dialog.get_by_role("button", name="Use it").click()
    expect(page.get_by_role("button", name="Output schema")).to_have_attribute(
        "aria-pressed", "true"
    )


def test_a_prompt_can_demand_a_schema_and_its_reply_is_shown_as_readable_json(
    ada: Person, client: Client, talking: TalkingEngine
) -> None:
    chat = client.create_chat(model="able", title="Cities")
    talking.expect("which city")
    page = ada.open(f"/{chat}")
    opener = page.get_by_role("button", name="Output schema")
    opener.click()
    choose_schema(page, CITY)
    find_prompt_box(page).fill("which city")
    find_prompt_box(page).press("Enter")
    expect(opener).to_have_attribute("aria-pressed", "false")
    talking.say("which city", ReplyCompleted('{"name":"Riga","size":605}'))
    expect(page.locator(".prose code.language-json")).to_have_text(
        '{\n  "name": "Riga",\n  "size": 605\n}'
    )
    given = next(one for one in talking.given if one.prompt == "which city")
    assert json.loads(given.output_schema) == CITY
    page.get_by_role("button", name="More", exact=True).click()
    with page.expect_download() as loading:
        page.get_by_role("menuitem", name="Export as JSON").click()
    exported = json.loads(loading.value.path().read_text())
    assert exported["messages"][-1]["output"] == {"name": "Riga", "size": 605}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"type": "object",}', "This is not JSON: "),
        ("", "This is not JSON: "),
        ("null", "It must describe an object"),
        ('{"type": "array"}', "It must describe an object"),
    ],
)
def test_what_is_no_schema_of_an_object_is_told_and_not_taken(
    ada: Person, client: Client, text: str, why: str
) -> None:
    page = ada.open(f"/{client.create_chat(model='able')}")
    opener = page.get_by_role("button", name="Output schema")
    opener.click()
    dialog = page.get_by_role("dialog", name="Output schema")
    dialog.get_by_label("JSON Schema").fill(text)
    dialog.get_by_role("button", name="Use it").click()
    expect(dialog.get_by_role("alert")).to_contain_text(why)
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)
    expect(opener).to_have_attribute("aria-pressed", "false")


def test_a_schema_that_the_daemon_refuses_is_told_beside_the_prompt(
    ada: Person, client: Client
) -> None:
    chat = client.create_chat(model="able")
    page = ada.open(f"/{chat}")
    page.get_by_role("button", name="Output schema").click()
    choose_schema(page, {"type": "object", "properties": 3})
    find_prompt_box(page).fill("which town")
    find_prompt_box(page).press("Enter")
    sending = page.get_by_role("list", name="Being sent")
    expect(sending).to_contain_text("outputSchema is no JSON Schema")
    sending.get_by_role("button", name="Discard").click()
    expect(sending).to_have_count(0)
    assert client.prompts(chat) == []


def test_a_chosen_schema_is_shown_again_and_taken_away(ada: Person, client: Client) -> None:
    page = ada.open(f"/{client.create_chat(model='able')}")
    opener = page.get_by_role("button", name="Output schema")
    opener.click()
    choose_schema(page, CITY)
    opener.click()
    dialog = page.get_by_role("dialog", name="Output schema")
    expect(dialog.get_by_label("JSON Schema")).to_have_value(json.dumps(CITY))
    dialog.get_by_role("button", name="No schema").click()
    expect(opener).to_have_attribute("aria-pressed", "false")


def test_a_prompt_that_waits_shows_its_schema_and_has_it_when_its_removal_is_undone(
    ada: Person, client: Client, talking: TalkingEngine
) -> None:
    talking.expect("be busy")
    chat = client.create_chat(model="able", prompt="be busy")
    client.post(f"/api/remote/chats/{chat}/queue", {"prompt": "which lake", "outputSchema": CITY})
    page = ada.open(f"/{chat}")
    row = page.get_by_role("list", name="Prompts that wait").get_by_role("listitem")
    expect(row.locator(".chip")).to_have_text("JSON")
    row.get_by_role("button", name="More for this prompt").click()
    page.get_by_role("menuitem", name="Remove").click()
    until(lambda: client.prompts(chat) == [])
    page.get_by_role("button", name="Undo").click()
    until(lambda: [one.get("outputSchema") for one in client.prompts(chat)] == [CITY])
    talking.say("be busy", ReplyCompleted("done"))


def test_a_phone_begins_a_chat_with_a_schema(
    phone: Person, client: Client, talking: TalkingEngine
) -> None:
    talking.expect("which river")
    page = phone.open("/")
    page.get_by_role("button", name="Model: able").click()
    page.get_by_role("menuitemcheckbox", name="Output schema…").click()
    expect(page.get_by_role("dialog", name="Output schema")).to_be_visible()
    check_accessibility(page)
    choose_schema(page, CITY)
    box = page.get_by_label("The first prompt")
    box.fill("which river")
    check_accessibility(page)
    page.get_by_role("button", name="Send", exact=True).click()
    talking.say("which river", ReplyCompleted('{"name": "Daugava"}'))
    expect(page.locator(".prose code.language-json")).to_contain_text('"name": "Daugava"')
