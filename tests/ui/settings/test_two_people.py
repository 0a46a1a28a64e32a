"""Two people who change the same thing: each keeps what the other has changed beside it."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Client, Serving, until
from tests.ui.support import Person

from playwright.sync_api import Locator, Page, expect  # isort: skip

NIGHTLY = {"name": "nightly", "cron": "0 3 * * *", "prompt": "Run the tests.", "zone": "UTC"}
BOT = {"id": "helper", "title": "Helper", "token": "1000:" + "A" * 35, "users": [1, 2]}
SHOP = {"name": "shop", "command": ["npx", "shop"]}
LARGE = {"name": "large", "engine": "codex", "model": "big-1", "effort": "high"}


def open_edit(somebody: Person, path: str, name: str) -> tuple[Page, Locator]:
    """Open the form of an entry of a list."""
    page = somebody.open(path)
    page.get_by_role("button", name=f"Actions for {name}").click()
    page.get_by_role("menuitem", name="Edit").click()
    return page, page.get_by_role("dialog", name=f"Edit {name}")


def save(dialog: Locator) -> None:
    """Save the form, and wait until it is saved."""
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)


def find(client: Client, path: str, kind: str, name: str, key: str = "name") -> dict[str, Any]:
    """Find an entry of a list."""
    (found,) = [one for one in client.get(path)[kind] if one[key] == name]
    return dict(found)


@pytest.fixture
def client(site: Serving) -> Client:
    return site.administrator()


def test_a_schedule_that_somebody_pauses_stays_so_when_another_saves_its_times(
    ada: Person, client: Client
) -> None:
    client.post("/api/schedules", NIGHTLY)
    _, dialog = open_edit(ada, "/schedules", "nightly")
    client.post("/api/schedules/nightly/pause", {})
    dialog.get_by_label("Times").fill("0 4 * * *")
    save(dialog)
    now = find(client, "/api/schedules", "schedules", "nightly")
    assert (now["paused"], now["cron"], now["prompt"]) == (True, "0 4 * * *", "Run the tests.")


def test_who_is_taken_off_a_bot_does_not_come_back_when_another_renames_it(
    ada: Person, client: Client
) -> None:
    client.post("/api/bots", {**BOT, "baseUrl": "http://127.0.0.1:9"})
    _, dialog = open_edit(ada, "/settings/bots", "Helper")
    client.put("/api/bots/helper", {"users": [1]})
    dialog.get_by_label("Name", exact=True).fill("Our helper")
    save(dialog)
    now = find(client, "/api/bots", "bots", "helper", "id")
    assert (now["users"], now["title"]) == ([1], "Our helper")


def test_a_server_that_somebody_switches_off_stays_off_when_another_saves_it(
    ada: Person, client: Client
) -> None:
    client.post("/api/mcp-servers", SHOP)
    _, dialog = open_edit(ada, "/settings/mcp-servers", "shop")
    client.put("/api/mcp-servers/shop", {**SHOP, "enabled": False})
    dialog.get_by_label("Seconds without progress").fill("90")
    save(dialog)
    now = find(client, "/api/mcp-servers", "servers", "shop")
    assert (now["enabled"], now["seconds"], now["command"]) == (False, 90, ["npx", "shop"])


def test_a_model_keeps_what_another_has_added_meanwhile(ada: Person, client: Client) -> None:
    client.post("/api/models", LARGE)
    _, dialog = open_edit(ada, "/settings/models", "large")
    client.put("/api/models/large", {**LARGE, "context": 200_000, "effort": "low"})
    dialog.get_by_label("The supplier's name for the model").fill("big-2")
    save(dialog)
    now = client.get("/api/models/large").json()
    assert (now["model"], now["effort"], now["context"]) == ("big-2", "low", 200_000)
    client.delete("/api/models/large")


def test_a_field_that_both_have_changed_is_told_before_it_is_replaced(
    ada: Person, client: Client
) -> None:
    """Row 35."""
    client.post("/api/schedules", {**NIGHTLY, "name": "weekly"})
    _, dialog = open_edit(ada, "/schedules", "weekly")
    theirs = {**NIGHTLY, "name": "weekly", "prompt": "Of the other."}
    client.put("/api/schedules/weekly", theirs)
    dialog.get_by_label("Prompt").fill("Mine.")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text('prompt is now "Of the other."')
    assert find(client, "/api/schedules", "schedules", "weekly")["prompt"] == "Of the other."
    save(dialog)
    assert find(client, "/api/schedules", "schedules", "weekly")["prompt"] == "Mine."


def test_a_label_keeps_the_colour_of_one_when_another_renames_it(
    ada: Person, client: Client
) -> None:
    client.post("/api/chat-labels", {"name": "bug", "color": "#cc3b3b"})
    _, dialog = open_edit(ada, "/settings/labels", "bug")
    client.put("/api/chat-labels/bug", {"color": "#2f9a63"})
    dialog.get_by_label("Name").fill("defect")
    save(dialog)
    assert find(client, "/api/chat-labels", "labels", "defect")["color"] == "#2f9a63"


def test_a_colour_that_both_have_changed_is_told_before_it_is_replaced(
    ada: Person, client: Client
) -> None:
    """Row 35."""
    client.post("/api/chat-labels", {"name": "idea", "color": "#cc3b3b"})
    _, dialog = open_edit(ada, "/settings/labels", "idea")
    client.put("/api/chat-labels/idea", {"color": "#2f9a63"})
    dialog.get_by_role("button", name="Plum").click()
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text('color is now "#2f9a63"')
    assert find(client, "/api/chat-labels", "labels", "idea")["color"] == "#2f9a63"
    save(dialog)
    until(lambda: find(client, "/api/chat-labels", "labels", "idea")["color"] == "#8a5fd0")


def test_the_colour_of_a_skill_that_both_have_changed_is_told(
    ada: Person, client: Client, site: Serving
) -> None:
    """Row 35."""
    folder = Path(site.layout.skills) / "tidy"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: tidy\ndescription: Tidies up\n---\nDo.\n")
    page = ada.open("/settings/skills")
    page.get_by_role("button", name="Actions for tidy").click()
    page.get_by_role("menuitem", name="Colour").click()
    dialog = page.get_by_role("dialog")
    with page.expect_response("**/api/skills"):
        theirs = {"skills": [{"name": "tidy", "color": "#2f9a63"}]}
        client.put("/api/skills-settings", theirs)
    dialog.get_by_role("button", name="Plum").click()
    expect(page.locator("li .dot[style*='rgb(47, 154, 99)']")).to_have_count(1)
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text('color is now "#2f9a63"')
    save(dialog)
    plum = {"name": "tidy", "color": "#8a5fd0"}
    until(lambda: client.get("/api/skills-settings")["skills"] == [plum])
