"""Answers of the gateway's API that fail, come late, or are of days elsewhere in the world."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.daemon import until
from tests.ui.gateway_site import GatewaySite, open_gateway
from tests.ui.support import Person, hold_requests, person

from playwright.sync_api import Browser, Route, expect  # isort: skip


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewaySite]:
    with open_gateway(tmp_path_factory.mktemp("gateway")) as site:
        site.ask()
        site.setup.wait_for_records(1)
        yield site


@pytest.fixture
def gus(browser: Browser, gateway: GatewaySite) -> Iterator[Person]:
    """An administrator at a desk."""
    with person(browser, gateway.serving) as somebody:
        yield somebody


def fail(route: Route) -> None:
    route.fulfill(
        status=503, json={"error": "Unavailable", "message": "The disk is full", "details": ""}
    )


@pytest.mark.parametrize(
    ("address", "read", "button"),
    [
        ("reports/by-model", "**/reports/by-model?**", "7 d"),
        ("leaks", "**/api/agent/leaks?**", "7 d"),
        ("log", "**/service-log?**", "Errors"),
    ],
)
def test_what_was_read_for_other_filters_is_not_left_when_reading_fails(
    gus: Person, address: str, read: str, button: str
) -> None:
    page = gus.open(f"/gateway/{address}")
    content = page.locator("main [aria-label=Page]")
    expect(content.locator("tbody tr, .rows > li, .empty").first).to_be_visible()
    page.route(read, fail)
    page.get_by_role("button", name=button, exact=True).click()
    expect(content.get_by_role("alert")).to_contain_text("The disk is full")
    expect(content.locator("tbody tr, .rows > li")).to_have_count(0)
    page.unroute(read)
    page.get_by_role("button", name="Retry").click()
    expect(content.get_by_role("alert")).to_have_count(0)


def test_a_name_that_could_not_be_looked_for_is_told(gus: Person, gateway: GatewaySite) -> None:
    for number in range(13):
        gateway.admin.post("/api/agent/keys", {"name": f"numbered {number}"})
    page = gus.open("/gateway/keys")
    field = page.get_by_label("Find keys by name")
    field.wait_for()
    page.route("**/api/agent/keys?**", fail)
    field.fill("numbered 12")
    expect(page.get_by_text("The disk is full")).to_be_visible()
    page.unroute("**/api/agent/keys?**")
    page.get_by_role("button", name="Retry").click()
    expect(page.locator(".rows > li")).to_have_count(1)
    expect(field).to_have_value("numbered 12")


def test_newer_requests_stay_when_older_ones_come_late(gus: Person, gateway: GatewaySite) -> None:
    """Row 24."""
    newest = gateway.requests()[0]
    rows = [{**newest, "id": f"{number:06}"} for number in range(300, 0, -1)]

    def answer(route: Route) -> None:
        cursor = route.request.url.partition("cursor=")[2].partition("&")[0]
        start = int(cursor) if cursor else 0
        route.fulfill(
            json={"items": rows[start : start + 100], "next": str(start + 100), "scanned": 1}
        )

    page = gus.open("/inbox")
    page.route("**/api/agent/requests?**", answer)
    page.goto(f"{gus.url}/gateway/requests")
    line = page.locator("tbody tr")
    expect(line).to_have_count(100)
    table = page.get_by_role("region", name="Requests")
    held = hold_requests(page, "**/api/agent/requests?**cursor=100**")
    table.evaluate("node => node.scrollTo(0, node.scrollHeight)")
    until(lambda: page.evaluate("true") and held)
    rows[:0] = [{**newest, "id": f"{number:06}"} for number in range(303, 300, -1)]
    gateway.ask()
    page.get_by_role("button", name="3 new").click()
    expect(line.first).to_have_attribute("data-id", "000303")
    with page.expect_response(lambda one: "cursor=100" in one.url):
        held.pop().fulfill(json={"items": rows[103:203], "next": "203", "scanned": 1})
    expect(page.get_by_role("button", name="Older", exact=True)).to_be_enabled()
    expect(line.first).to_have_attribute("data-id", "000303")


@pytest.mark.parametrize("language", ["en-US", "fi-FI", "ar-EG"])
def test_what_was_today_is_not_called_yesterday_in_any_language(
    browser: Browser, gateway: GatewaySite, language: str
) -> None:
    """Whatever stands between the hours and the minutes there, and in whatever digits."""
    now = datetime.now(UTC)
    twenty_minutes_ago = (now - timedelta(minutes=20)).isoformat().replace("+00:00", "Z")
    newest = {**gateway.requests()[0], "at": twenty_minutes_ago}
    noon = f"Etc/GMT{now.hour - 12:+}"  # where it is between noon and one
    with person(browser, gateway.serving, language=language, time_zone=noon) as somebody:
        page = somebody.open("/inbox")
        page.route(
            "**/api/agent/requests?**",
            lambda route: route.fulfill(json={"items": [newest], "next": "", "scanned": 1}),
        )
        page.goto(f"{somebody.url}/gateway/requests")
        time = page.locator("tbody tr td").first
        expect(time).to_be_visible()
        expect(time).not_to_contain_text("yesterday")


@pytest.mark.parametrize("report", ["reports/by-day", "leaks"])
def test_the_last_day_of_a_report_is_that_of_the_gateways_time_zone(
    gus: Person, gateway: GatewaySite, report: str
) -> None:
    """Row 28."""
    for zone, hours in (("Pacific/Kiritimati", 14), ("Pacific/Pago_Pago", -11)):
        gateway.admin.patch("/api/agent/settings", {"time_zone": zone})
        today = (datetime.now(UTC) + timedelta(hours=hours)).date().isoformat()
        page = gus.open(f"/gateway/{report}")
        with page.expect_response(lambda one, today=today: f"to={today}" in one.url):
            page.get_by_role("button", name="24 h").click()
        page.get_by_role("button", name="Custom").click()
        expect(page.get_by_label("Last day")).to_have_value(today)
        page.close()
    gateway.admin.patch("/api/agent/settings", {"time_zone": "UTC"})
