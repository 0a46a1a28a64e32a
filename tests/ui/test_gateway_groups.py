"""Spending by owner and tag in a browser: charts, reports, the log's filters and limits."""

import re
from collections.abc import Iterator

import pytest

from tests.ui.gateway_site import HOSTILE, STRIPE, GatewaySite, open_gateway
from tests.ui.support import Person, person

from playwright.sync_api import Browser, Locator, Page, expect  # isort: skip


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewaySite]:
    """A gateway whose key belonged to Ann at first, and then to Bob."""
    with open_gateway(tmp_path_factory.mktemp("gateway")) as site:
        place = f"/api/agent/keys/{site.ids['laptop']}"
        site.admin.patch(place, {"owner": "ann", "tags": ["research", HOSTILE]})
        for name, group in (("Ann", {"owner": "ann"}), ("Research", {"tag": "research"})):
            budget = {"name": name, **group, "limits": {"day": 2}}
            assert site.admin.post("/api/agent/budgets", budget).status == 201
        for _ in range(2):
            assert site.ask(text=f"The key is {STRIPE}.").status_code == 200
        site.admin.patch(place, {"owner": "bob", "tags": []})
        assert site.ask().status_code == 200
        yield site


@pytest.fixture
def gus(browser: Browser, gateway: GatewaySite) -> Iterator[Person]:
    """An administrator at a desk."""
    with person(browser, gateway.serving) as somebody:
        yield somebody


def list_rows(page: Page) -> Locator:
    return page.get_by_role("region", name="Rows as a table").locator("tbody tr:not(.total)")


def test_the_overview_shows_spend_and_limits_by_owner_and_tag(gus: Person) -> None:
    page = gus.open("/gateway")
    by, limits = (page.get_by_role("group", name=name) for name in ("Spend by", "Limits of"))
    by.get_by_role("button", name="owner").click()
    legend = page.get_by_role("region", name="Spend by owner").locator(".legend")
    expect(legend.get_by_text("ann", exact=True)).to_be_visible()
    expect(legend.get_by_text("bob", exact=True)).to_be_visible()
    by.get_by_role("button", name="tag").click()
    legend = page.get_by_role("region", name="Spend by tag").locator(".legend")
    expect(legend.get_by_text("research", exact=True)).to_be_visible()
    expect(page).to_have_url(re.compile("spend=tag"))

    table = page.get_by_role("region", name="Limits as a table")
    expect(table).to_contain_text("laptop")
    limits.get_by_role("button", name="Owners").click()
    expect(table).to_contain_text("ann")
    expect(table).not_to_contain_text("laptop")
    limits.get_by_role("button", name="Tags").click()
    table.get_by_role("link", name=re.compile("a day")).click()
    expect(page.locator(".log tbody tr")).to_have_count(2)
    assert page.evaluate("window.hit") is None


def test_a_report_is_narrowed_down_to_the_owner_that_a_key_had(gus: Person) -> None:
    page = gus.open("/gateway/reports/by-owner")
    expect(list_rows(page)).to_have_count(2)
    page.get_by_label("Report", exact=True).select_option("by-tag")
    expect(list_rows(page)).to_have_count(3)  # two tags, and what has none
    page.get_by_role("button", name="Filter", exact=True).click()
    page.get_by_role("dialog").get_by_label("Owner").fill("bob")
    page.get_by_role("dialog").get_by_role("button", name="Filter").click()
    expect(list_rows(page)).to_have_count(1)
    expect(list_rows(page)).to_contain_text("none")
    page.get_by_role("button", name="Remove the filter owner bob").click()
    expect(list_rows(page)).to_have_count(3)
    list_rows(page).get_by_role("link", name="research").click()
    expect(page.locator(".log tbody tr")).to_have_count(2)


def test_times_leaks_and_limits_are_shown_by_owner(gus: Person) -> None:
    page = gus.open("/gateway/reports/latency")
    page.get_by_role("group", name="Rows are").get_by_role("button", name="owner").click()
    expect(list_rows(page).filter(has_text="bob")).to_be_visible()
    page = gus.open("/gateway/leaks?owner=ann")
    expect(
        page.get_by_role("region", name="Findings as a table").locator("tbody tr")
    ).to_have_count(1)
    page = gus.open("/gateway/leaks?owner=bob")
    expect(page.get_by_text("No secrets were found in these days")).to_be_visible()
    page = gus.open("/gateway/reports/limits?by=owner")
    expect(list_rows(page)).to_contain_text("ann")


def test_the_log_is_filtered_by_owner_and_tag(gus: Person, gateway: GatewaySite) -> None:
    """Row 24."""
    page = gus.open("/gateway/requests")
    rows = page.locator(".log tbody tr")
    expect(rows).to_have_count(3)
    page.get_by_role("button", name="Filter", exact=True).click()
    dialog = page.get_by_role("dialog")
    suggested = dialog.locator("#known-owners option")
    expect(suggested).to_have_count(2)
    assert suggested.evaluate_all("all => all.map((one) => one.value)") == ["ann", "bob"]
    dialog.get_by_label("Owner").fill("ann")
    dialog.get_by_label("Tag", exact=True).fill("research")
    dialog.get_by_role("button", name="Filter", exact=True).click()
    expect(page).to_have_url(re.compile("owner=ann&tag=research"))
    expect(rows).to_have_count(2)
    with page.expect_download() as loading:
        page.get_by_role("link", name="Download as CSV").click()
    lines = loading.value.path().read_text().splitlines()
    assert [line.split(",")[-2] for line in lines] == ["owner", "ann", "ann"]
    rows.first.click()
    drawer = page.get_by_role("complementary", name="One request")
    expect(drawer.get_by_role("link", name="ann")).to_be_visible()
    drawer.get_by_role("link", name="research").click()
    expect(page).to_have_url(re.compile("tag=research"))
    assert gateway.ask().status_code == 200  # a live row of Bob does not pass
    page.get_by_role("button", name="Remove the filter tag research").click()
    expect(rows).to_have_count(4)
    assert page.evaluate("window.hit") is None
