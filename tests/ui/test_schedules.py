"""The page of schedules: added, run, followed, edited, paused and deleted."""

from agentd.agent.engine import ReplyCompleted
from tests.support.daemon import Serving
from tests.ui.support import Person, TalkingEngine

from playwright.sync_api import expect  # isort: skip


def test_a_schedule_is_added_run_edited_paused_and_deleted(
    ada: Person, site: Serving, talking: TalkingEngine
) -> None:
    page = ada.open("/schedules")
    expect(page.get_by_role("heading", name="No schedules yet")).to_be_visible()
    page.get_by_role("button", name="Add a schedule").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("nightly")
    dialog.get_by_label("Prompt").fill("Test it all")
    dialog.get_by_label("Times, as in cron").fill("61 * * * *")
    dialog.get_by_label("Time zone").fill("Europe/Berlin")
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("Times, as in cron: bad minute")
    expect(dialog.get_by_label("Times, as in cron")).to_be_focused()
    dialog.get_by_role("button", name="Weekdays at 8:30").click()
    dialog.get_by_role("button", name="Add", exact=True).click()
    row = page.get_by_role("list", name="Schedules").get_by_role("listitem").first
    expect(row).to_contain_text("At 08:30 on Monday through Friday")

    talking.expect("Test it all")
    row.get_by_role("button", name="Actions for nightly").click()
    page.get_by_role("menuitem", name="Run now").click()
    runs = page.get_by_role("list", name="Runs of nightly").get_by_role("listitem")
    expect(runs).to_contain_text("At work")
    talking.say("Test it all", ReplyCompleted("done"))
    expect(runs).to_contain_text("Completed")
    expect(runs).to_contain_text("by hand")

    row.get_by_role("button", name="Actions for nightly").click()
    page.get_by_role("menuitem", name="Edit").click()
    dialog.get_by_label("Prompt").fill("Test less")
    dialog.get_by_label("Budget of a run").fill("0,25")
    dialog.get_by_label("Output schema").fill('{"type": "object"')
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Output schema: This is not JSON")
    expect(dialog.get_by_label("Output schema")).to_be_focused()
    dialog.get_by_label("Output schema").fill('{"type": "object"}')
    dialog.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("Test less")
    expect(row).to_contain_text("at most $0.25 a run")
    expect(row).to_contain_text("replies are JSON that fits a schema")
    (kept,) = site.client().get("/api/schedules")["schedules"]
    assert kept["output_schema"] == {"type": "object"}
    row.get_by_role("button", name="Actions for nightly").click()
    page.get_by_role("menuitem", name="Pause").click()
    expect(row.locator(".chip", has_text="paused")).to_be_visible()
    row.get_by_role("button", name="Actions for nightly").click()
    page.get_by_role("menuitem", name="Delete").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="No schedules yet")).to_be_visible()
    runs_link = page.get_by_role("link", name="nightly").first
    expect(runs_link).to_be_visible()  # the chat of its run stays


def test_an_edit_of_the_file_is_shown_at_once(ada: Person, site: Serving) -> None:
    page = ada.open("/schedules")
    site.client().post(
        "/api/schedules", {"name": "digest", "cron": "@daily", "prompt": "<img src=x>"}
    )
    expect(page.get_by_text("At 00:00 every day")).to_be_visible()
    site.client().delete("/api/schedules/digest")
    expect(page.get_by_role("heading", name="No schedules yet")).to_be_visible()
