"""Pages of the gateway that stay open while another day begins."""

import re
from collections.abc import Iterator

import pytest
from tornado.httputil import format_timestamp

from agentd.core.clock import SystemClock, parse_iso
from agentd.http.context import ServerContext
from tests.ui.gateway_site import GatewaySite, open_gateway
from tests.ui.support import Person, person

from playwright.sync_api import Browser, Page, expect  # isort: skip

EVENING, MORNING = "2026-07-15T23:59:50.000Z", "2026-07-16T00:00:10.000Z"
SECONDS = 20
"""Between the two."""
TODAY, TOMORROW = "2026-07-15", "2026-07-16"


@pytest.fixture(scope="module")
def moment() -> Iterator[list[str]]:
    """The daemon's time, which stands until a test replaces it."""
    moment = [EVENING]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SystemClock, "now", lambda _: moment[0])
        patch.setattr(ServerContext, "get_date", lambda _: format_timestamp(parse_iso(moment[0])))
        yield moment


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, moment: list[str]) -> Iterator[GatewaySite]:
    with open_gateway(tmp_path_factory.mktemp("gateway")) as site:
        site.ask()
        site.setup.wait_for_records(1)
        yield site


@pytest.fixture
def gus(browser: Browser, gateway: GatewaySite, moment: list[str]) -> Iterator[Person]:
    """An administrator at a desk, in the evening."""
    moment[0] = EVENING
    with person(browser, gateway.serving) as somebody:
        somebody.context.clock.install(time=EVENING)
        yield somebody


def pass_midnight(page: Page, moment: list[str]) -> None:
    moment[0] = MORNING
    page.clock.run_for(1000 * SECONDS)  # a page that did not run for a while reads all again


@pytest.mark.parametrize("report", ["reports/by-model", "leaks"])
def test_a_report_that_stays_open_goes_on_to_the_next_day(
    gus: Person, moment: list[str], report: str
) -> None:
    page = gus.open(f"/gateway/{report}?days=1")
    page.get_by_role("button", name="Custom").click()
    day = page.get_by_label("Last day")
    expect(day).to_have_value(TODAY)
    with page.expect_response(lambda one: f"to={TOMORROW}" in one.url):
        pass_midnight(page, moment)
    expect(day).to_have_value(TOMORROW)


def test_days_that_were_chosen_stay_when_another_begins(gus: Person, moment: list[str]) -> None:
    page = gus.open(f"/gateway/reports/by-model?from=2026-07-01&to={TODAY}")
    day = page.get_by_label("Last day")
    expect(day).to_have_value(TODAY)
    with page.expect_response(re.compile("/reports/by-model")) as answer:
        pass_midnight(page, moment)
    assert f"to={TODAY}" in answer.value.url
    expect(day).to_have_value(TODAY)


@pytest.mark.parametrize(
    ("address", "before", "after"),
    [
        ("", r"Spent today\$0\.00\d+\$0\.00 yesterday", r"Spent today\$0\.00\$0\.00\d+ yesterday"),
        ("/keys", r"laptop.*\$0\.00\d+ today", r"laptop.*\$0\.00 today"),
    ],
)
def test_what_is_told_of_today_is_told_of_the_next_day_though_no_request_comes(
    gus: Person, moment: list[str], address: str, before: str, after: str
) -> None:
    page = gus.open(f"/gateway{address}")
    content = page.get_by_role("region", name="Page")
    expect(content).to_contain_text(re.compile(before))
    pass_midnight(page, moment)
    expect(content).to_contain_text(re.compile(after))


@pytest.mark.parametrize("report", ["reports/by-model", "leaks"])
def test_the_time_zone_may_have_a_name_that_browsers_do_not_list(
    gus: Person, gateway: GatewaySite, report: str
) -> None:
    """Chromium lists Asia/Calcutta and Europe/Kiev, and knows the present names, too."""
    gateway.admin.patch("/api/agent/settings", {"time_zone": "Asia/Kolkata"})
    try:
        page = gus.open(f"/gateway/{report}?days=1")
        page.get_by_role("button", name="Custom").click()
        expect(page.get_by_label("Last day")).to_have_value(TOMORROW)
    finally:
        gateway.admin.patch("/api/agent/settings", {"time_zone": "UTC"})
