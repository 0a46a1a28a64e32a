"""The page of analytics: its numbers are the API's, read by eye, by keyboard and as a table."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from agentd.agent.engine import (
    EngineEvent,
    ReplyCompleted,
    ToolUsed,
    TurnFailed,
    TurnRequest,
    Usage,
)
from tests.benchmarks.states import Maker
from tests.support.daemon import Client, Serving, until
from tests.ui.accessibility import check_accessibility, find_wide_parts
from tests.ui.support import DESK, PHONE, Person, TalkingEngine, person
from tests.ui.test_every_page import PAYLOADS, wait_until_loaded

from playwright.sync_api import Browser, Page, Route, expect  # isort: skip

HOSTILE = PAYLOADS[1]


def build_events(assignment: TurnRequest) -> list[EngineEvent]:
    """Use a tool twice, use one with a hostile name, and send a reply that costs."""
    if "fail" in assignment.prompt:
        return [TurnFailed("it cannot be done")]
    tools = [ToolUsed("edit", "a.py", "done"), ToolUsed("edit", "b.py", "done")]
    usage = Usage(input=1000, output=500)
    return [*tools, ToolUsed(HOSTILE, "", "done"), ReplyCompleted("done", usage, Decimal("0.25"))]


@pytest.fixture(scope="module")
def busy(site: Serving, talking: TalkingEngine) -> Client:
    """Some chats of two models, one of them with a hostile title and a label."""
    talking.says = build_events
    client = site.client()
    client.post("/api/chat-labels", {"name": "bug", "color": "#cc3b3b"})
    for model, prompt, title in (
        ("m", "one", HOSTILE),
        ("mine", "two", "\u202egpj.exe"),
        ("m", "please fail", "A failure"),
    ):
        chat = client.create_chat(prompt=prompt, model=model, title=title)
        assert client.status(chat, 20)["status"] == "completed"
        client.put(f"/api/chats/{chat}/labels", {"labels": ["bug"]})
    return client


@pytest.fixture
def page(ada: Person, busy: Client) -> Iterator[Page]:
    page = ada.open("/analytics")
    yield page
    page.close()


def list_table_names(page: Page) -> list[str]:
    """List the first cells of the rows."""
    return (
        page.get_by_role("region", name="Rows as a table")
        .locator("tbody tr td:first-child")
        .all_inner_texts()
    )


def test_the_figures_are_those_of_the_api(page: Page, busy: Client) -> None:
    """Row 28 of the acceptance: what a bar says is what was counted."""
    figures = page.locator(".figures")
    expect(figures).to_contain_text("$0.50")
    expect(figures).to_contain_text("1 failed")
    total = busy.get("/api/analytics?by=model")["total"]
    assert total["turns"] == 3
    expect(figures.locator(".figure", has_text="Turns").locator(".val").first).to_have_text("3")
    expect(page.locator(".legend").first).to_contain_text("m$0.25")
    expect(page.locator(".barlist li", has_text="edit").first).to_contain_text("4")


def test_rows_are_grouped_as_asked_and_the_address_says_so(page: Page) -> None:
    assert sorted(wait_for_rows(page)) == ["m", "mine"]
    for name, rows in (("Engine", ["scripted"]), ("Label", ["bug"])):
        page.get_by_role("group", name="Group by").get_by_role("button", name=name).click()
        expect(page).to_have_url(re.compile(f"by={name.lower()}"))
        expect(page.get_by_role("heading", name=f"Spend by {name.lower()}")).to_be_visible()
        if name == "Label":
            expect(page.locator("tbody td bdi").first).to_have_text("bug")
            assert list_table_names(page) == rows
    page.get_by_role("group", name="Bars show").get_by_role("button", name="Tokens").click()
    page.reload()
    expect(page.get_by_role("heading", name="Tokens by label")).to_be_visible()


def wait_for_rows(page: Page) -> list[str]:
    expect(page.locator("tbody tr").first).to_be_visible()
    return list_table_names(page)


def test_a_chart_is_read_by_the_keyboard_and_as_a_table(page: Page) -> None:
    """Row 38 of the acceptance."""
    chart = page.get_by_role("slider", name="Spend by model")
    chart.focus()
    expect(chart).to_have_attribute("aria-valuetext", re.compile(r"\$0\.50.*m \$0\.25.*mine"))
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".tip").first).to_be_visible()
    page.keyboard.press("Home")
    expect(chart).to_have_attribute("aria-valuenow", "0")
    expect(chart).to_have_attribute("aria-valuetext", re.compile("nothing"))
    page.keyboard.press("Escape")
    expect(page.locator(".tip").first).to_be_hidden()
    page.get_by_role("button", name="As table").first.click()
    rows = page.get_by_role("region", name="Spend by model, as a table").locator("tbody tr")
    expect(rows).to_have_count(30)
    expect(rows.last).to_contain_text("$0.50")


def test_a_range_without_anything_says_what_belongs_here(page: Page) -> None:
    page.get_by_role("button", name="Custom").click()
    page.get_by_label("Last day").fill("2001-02-03")
    expect(page.get_by_text("Nothing in these days")).to_be_visible()
    expect(page).to_have_url(re.compile("from=2001-02-03&to=2001-02-03"))
    page.get_by_role("button", name="7 d").click()
    expect(page.locator(".figures")).to_contain_text("$0.50")


def test_what_the_address_says_wrong_is_left_out(ada: Person, busy: Client) -> None:
    page = ada.open("/analytics?by=x&days=-1&from=2026-02-31&to=no&show=constructor&rows=99")
    expect(page.get_by_role("heading", name="Spend by model")).to_be_visible()
    assert len(wait_for_rows(page)) == 2


def test_csv_holds_the_days_that_are_shown(page: Page) -> None:
    page.get_by_role("button", name="7 d").click()
    with page.expect_download() as loading:
        page.get_by_role("link", name="CSV").click()
    today = datetime.now(UTC).date().isoformat()
    assert re.fullmatch(rf"analytics-by-model-.*-{today}\.csv", loading.value.suggested_filename)
    assert loading.value.path().read_text().startswith("model,")


def test_a_failed_read_is_told_in_the_daemons_words_and_tried_again(
    ada: Person, busy: Client
) -> None:
    failing = '{"error": "internal", "message": "The disk is full", "details": ""}'
    ada.context.route("**/api/analytics**", lambda route: route.fulfill(status=500, body=failing))
    page = ada.open("/analytics")
    expect(page.get_by_role("alert")).to_contain_text("The disk is full")
    ada.context.unroute("**/api/analytics**")
    page.get_by_role("button", name="Retry").click()
    expect(page.locator(".figures")).to_be_visible()


def test_the_first_reading_of_a_long_history_tells_how_far_it_is(
    browser: Browser, talking: TalkingEngine, tmp_path: Path
) -> None:
    """Another client's first report is told to the page that still waits for its own."""
    maker = Maker(str(tmp_path))
    for _ in range(4):
        maker.add_chat(18_000)
    maker.finish()
    with Serving(tmp_path, talking) as serving, person(browser, serving) as somebody:
        waiting: list[Route] = []

        def hold(route: Route) -> None:
            waiting.append(route)

        somebody.context.route("**/api/analytics**", hold)
        page = somebody.open("/analytics")
        until(lambda: page.title() and waiting)
        serving.client().get("/api/analytics")
        told = page.get_by_role("status").filter(has_text="The history is read for the first time")
        expect(told).to_contain_text("100 %")
        page.screenshot(path=tmp_path / "reading.png")
        for route in waiting:
            route.continue_()
        expect(told).to_have_count(0)


def test_titles_tools_and_labels_of_others_stay_text(page: Page) -> None:
    """Row 36 of the acceptance."""
    page.get_by_role("group", name="Group by").get_by_role("button", name="Chat").click()
    expect(page.locator("tbody a", has_text=HOSTILE)).to_be_visible()
    expect(page.locator(".legend").first).to_contain_text(HOSTILE)
    expect(page.locator(".barlist")).to_contain_text(HOSTILE)
    page.locator(".chartbox").first.press("End")
    expect(page.locator(".tip").first).to_contain_text(HOSTILE)
    assert page.evaluate("window.hit") is None
    assert page.locator("main img, main script, main iframe").count() == 0


def test_many_rows_come_in_pages(ada: Person, busy: Client) -> None:
    row = busy.get("/api/analytics?by=chat&daily=true")["rows"][0]
    report = busy.get("/api/analytics?by=chat&daily=true").json()
    report["rows"] = [
        {**row, "name": str(number), "title": f"Chat {number}"} for number in range(5000)
    ]
    ada.context.route("**/api/analytics?by=chat**", lambda route: route.fulfill(json=report))
    page = ada.open("/analytics?by=chat")
    rows = page.get_by_role("region", name="Rows as a table").locator("tbody tr")
    expect(rows).to_have_count(100)
    page.get_by_role("button", name="Next").click()
    expect(page.locator(".pager")).to_contain_text("101–200")
    expect(rows.first).to_contain_text("Chat 100")
    expect(page.locator(".legend").first).to_contain_text("4,995 others")


def test_the_numbers_follow_while_turns_end(ada: Person, busy: Client) -> None:
    """Last in the file: it adds a turn."""
    page = ada.open("/analytics")
    turns = page.locator(".figure", has_text="Turns").locator(".val").first
    expect(turns).to_have_text("3")
    wait_until_loaded(page)
    busy.status(busy.create_chat(prompt="one more", model="m"), 20)
    expect(turns).to_have_text("4")


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_the_page_can_be_used_by_everybody_and_fits_its_width(
    browser: Browser,
    site: Serving,
    busy: Client,
    size: tuple[int, int],
    tmp_path: Path,
) -> None:
    """Rows 38 and 39 of the acceptance, with the table of a chart open and closed."""
    with person(browser, site, size=size) as somebody:
        page = somebody.open("/analytics?by=chat")
        wait_for_rows(page)
        wait_until_loaded(page)
        page.get_by_role("button", name="As table").last.click()
        check_accessibility(page, tmp_path / "analytics")
        assert not find_wide_parts(page, ".scroll")


def test_a_chart_whose_values_are_all_0_says_so_until_there_is_one(
    browser: Browser, tmp_path: Path
) -> None:
    engine = TalkingEngine()
    with Serving(tmp_path, engine) as serving, person(browser, serving) as somebody:
        client = serving.client()
        free = client.create_chat(prompt="one", model="m")
        assert client.status(free, 20)["status"] == "completed"
        page = somebody.open("/analytics")
        spend = page.get_by_role("region", name="Spend by model")
        expect(spend).to_contain_text("all values are 0")
        expect(spend.locator(".chartbox")).to_have_count(0)
        page.screenshot(path=tmp_path / "flat.png")
        engine.says = build_events
        client.create_chat(prompt="two", model="m")
        expect(spend.locator(".chartbox svg")).to_be_visible()
        expect(spend).not_to_contain_text("all values are 0")
