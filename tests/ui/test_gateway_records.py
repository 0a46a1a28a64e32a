"""The gateway's records and settings, in a browser."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import until
from tests.ui.accessibility import check_accessibility, find_wide_parts
from tests.ui.gateway_site import HOSTILE, STRIPE, GatewaySite, open_gateway
from tests.ui.support import DESK, PHONE, Person, person
from tests.ui.test_every_page import wait_until_loaded

from playwright.sync_api import Browser, Route, expect  # isort: skip

NOBODY = "http://127.0.0.1:9"
"""Where nothing listens."""

PAGES = {
    "by-model": "/gateway/reports",
    "by-day": "/gateway/reports/by-day",
    "latency": "/gateway/reports/latency?by=hour",
    "limits": "/gateway/reports/limits",
    "export": "/gateway/export",
    "log": "/gateway/log",
    "changes": "/gateway/changes",
    "settings": "/gateway/settings",
}

DAYS = [
    {"day": f"2026-01-{day:02}", "state": state, "rows": day, "requested": False, "error": ""}
    for day, state in ((3, "changed"), (2, "partial"), (1, "done"), (4, "pending"))
]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewaySite]:
    """A gateway with requests and changes, which exports to where nobody listens."""
    with open_gateway(tmp_path_factory.mktemp("gateway")) as site:
        for model in ("by-chat", "by-gemini"):
            assert site.ask(model=model, text=f"The key is {STRIPE}.").status_code == 200
        assert site.ask(model=HOSTILE, key=HOSTILE).status_code == 404
        soft = {"softLimits": {"total": 0.0001}}
        site.admin.patch(f"/api/agent/keys/{site.ids['laptop']}", soft)
        site.admin.patch("/api/agent/channels/gemini", {"timeout": 77})
        site.admin.patch("/api/agent/settings", {"export": {"url": NOBODY}})
        yield site


@pytest.fixture
def gus(browser: Browser, gateway: GatewaySite) -> Iterator[Person]:
    """An administrator at a desk."""
    with person(browser, gateway.serving) as somebody:
        yield somebody


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_a_page_can_be_used_by_everybody_and_fits_its_width(
    browser: Browser,
    gateway: GatewaySite,
    size: tuple[int, int],
    name: str,
    tmp_path: Path,
) -> None:
    """Acceptance rows 37 to 39; its picture is in the test's temporary folder."""
    with person(browser, gateway.serving, size=size) as somebody:
        page = somebody.open(PAGES[name])
        page.locator(".page .card").last.wait_for()
        wait_until_loaded(page)
        check_accessibility(page, tmp_path / name)
        assert not find_wide_parts(page, ".scroll")
        assert page.evaluate("window.hit") is None


@pytest.mark.parametrize(
    "name",
    [
        *("by-day", "by-hour", "by-model", "by-channel", "by-key", "by-owner", "by-tag", "totals"),
        *("top-spenders", "errors", "latency", "cache-share", "leaks", "limits", "soft-limits"),
    ],
)
def test_every_report_has_its_rows_and_csv(gus: Person, gateway: GatewaySite, name: str) -> None:
    report = gateway.admin.get(f"/api/agent/reports/{name}")
    page = gus.open(f"/gateway/reports/{name}")
    rows = page.get_by_role("region", name="Rows as a table").locator("tbody tr:not(.total)")
    expect(rows).to_have_count(len(report["items"]))
    assert report["items"]
    with page.expect_download() as loading:
        page.get_by_role("button", name="Download as CSV").click()
    assert len(loading.value.path().read_text().splitlines()) == 1 + len(report["items"])


def test_the_csv_of_a_report_has_the_rows_of_all_its_pages(
    gus: Person, gateway: GatewaySite
) -> None:
    """The API gives 1,000 at once; here it is asked for two."""
    page = gus.open("/gateway/reports/by-channel")
    rows = page.get_by_role("region", name="Rows as a table").locator("tbody tr:not(.total)")
    expect(rows.first).to_be_visible()
    asked: list[str] = []

    def give_less(route: Route) -> None:
        asked.append(route.request.url)
        route.continue_(url=re.sub("limit=1000", "limit=1", route.request.url))

    page.route("**/reports/by-channel*format=csv*", give_less)
    with page.expect_download() as loading:
        page.get_by_role("button", name="Download as CSV").click()
    assert loading.value.suggested_filename.endswith(".csv")
    head, *lines = loading.value.path().read_text().splitlines()
    assert head.startswith("name,")
    report = gateway.admin.get("/api/agent/reports/by-channel")
    assert [line.split(",")[0] for line in lines] == [one["name"] for one in report["items"]]
    assert len(asked) == len(lines) > 1


def test_no_report_is_missing(gateway: GatewaySite, gus: Person) -> None:
    page = gus.open("/gateway/reports")
    shown = page.get_by_label("Report", exact=True).locator("option")
    known = [one["name"] for one in gateway.admin.get("/api/agent/reports")["items"]]
    expect(shown).to_have_count(len(known))
    values = shown.evaluate_all("all => all.map((one) => one.value)")
    assert sorted(values) == sorted(known)


def test_a_row_of_a_report_leads_to_its_requests(gus: Person, gateway: GatewaySite) -> None:
    page = gus.open("/gateway/reports/by-model")
    page.get_by_role("region", name="Rows as a table").get_by_role("link", name="by-gemini").click()
    expect(page.locator(".log tbody tr")).to_have_count(len(gateway.requests("model=by-gemini")))


def test_a_change_shows_before_and_after_and_is_undone(gus: Person, gateway: GatewaySite) -> None:
    """Acceptance row 32."""
    gateway.admin.patch("/api/agent/channels/messages", {"timeout": 55})
    page = gus.open("/gateway/changes?resource=channels")
    row = page.locator(".rows > li").first
    expect(row).to_contain_text("messages")
    what = page.get_by_label("What was changed")
    what.select_option(label="everything")
    expect(page).to_have_url(f"{gus.url}/gateway/changes")
    what.select_option("channels")
    row.locator("summary").click()
    expect(row.locator("del")).to_have_text("600")
    expect(row.locator("ins")).to_have_text("55")
    row.get_by_role("button", name=re.compile("Undo")).click()
    page.get_by_role("dialog").get_by_role("button", name="Undo").click()
    expect(page.locator(".rows > li").first).to_contain_text("undid no.")
    assert gateway.admin.get("/api/agent/channels/messages")["timeout"] == 600


def test_every_kind_of_change_can_be_chosen_and_undone_where_the_api_does(
    gus: Person, gateway: GatewaySite
) -> None:
    admin = gateway.admin
    assert admin.post("/api/agent/management-keys", {"name": "spy", "scope": "read"}).status == 201
    admin.patch("/api/agent/settings/daemon", {"name": "another"})
    days = {"from": "2026-01-01", "to": "2026-01-01"}
    admin.post("/api/agent/requests/reprice", days)
    changes = admin.get("/api/agent/changes?limit=200")["items"]
    page = gus.open("/gateway/changes")
    rows = page.locator(".rows > li")
    expect(rows).to_have_count(len(changes))
    undone = {one["undoes"] for one in changes}
    shown = [row.get_by_role("button", name="Undo no.").count() == 1 for row in rows.all()]
    assert shown == [one["undoable"] and one["number"] not in undone for one in changes]
    what = page.get_by_label("What was changed")
    offered = {one.get_attribute("value") for one in what.locator("option").all()}
    assert {one["resource"] for one in changes} <= offered
    what.select_option("management-keys")
    expect(rows).to_have_count(1)
    rows.get_by_role("button", name="Undo").click()
    page.get_by_role("dialog").get_by_role("button", name="Undo").click()
    expect(rows).to_have_count(2)
    assert admin.get("/api/agent/management-keys")["items"] == []


def test_the_log_is_filtered_by_level_and_kind(gus: Person, gateway: GatewaySite) -> None:
    page = gus.open("/gateway/log")
    rows = page.locator(".rows > li")
    expect(rows.filter(has_text="takes model requests")).to_have_count(1)
    page.get_by_role("button", name="Warnings").click()
    expect(rows.filter(has_text="takes model requests")).to_have_count(0)
    page.get_by_role("button", name="All", exact=True).click()
    rows.filter(has_text="takes model requests").get_by_role("button", name="started").click()
    expect(page.get_by_role("button", name="Remove the filter kind started")).to_be_visible()
    expect(rows).to_have_count(1)


def test_a_backfill_sends_what_was_planned(gus: Person, gateway: GatewaySite) -> None:
    """Acceptance row 31: the same days are asked for, only the second time without a dry run."""
    plan = {
        "days": [{"day": "2026-01-03", "state": "changed", "rows": 3, "bytes": 900, "exact": True}],
        **{"rows": 3, "bytes": 900, "started": False},
    }
    calls: list[tuple[str, object]] = []

    def answer(route: Route) -> None:
        calls.append((route.request.url.partition("backfill")[2], route.request.post_data_json))
        route.fulfill(json={**plan, "started": len(calls) > 1})

    state = gateway.admin.get("/api/agent/export").json()
    days = [{**day, "doneAt": None} for day in DAYS]
    shown = {**state, "items": days}
    gus.context.route(re.compile("/api/agent/export[?]"), lambda route: route.fulfill(json=shown))
    gus.context.route("**/api/agent/export/backfill**", answer)
    page = gus.open("/gateway/export")
    for day in DAYS:
        cell = page.get_by_role("img", name=re.compile(str(day["day"])))
        expect(cell).to_have_class(f"day {day['state']}")
    page.get_by_role("button", name="Send missed days").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Plan").click()
    expect(dialog.get_by_role("status")).to_contain_text("1 day · 3 rows · 900 B")
    dialog.get_by_role("button", name="Send 1 day").click()
    expect(dialog).to_have_count(0)
    span = {"from": "2026-01-02", "to": "2026-01-04"}
    assert calls == [("?dry_run=true", span), ("", span)]


def test_the_check_of_the_export_says_where_it_ends(gus: Person, gateway: GatewaySite) -> None:
    page = gus.open("/gateway/export")
    page.get_by_role("button", name="Check", exact=True).click()
    expect(page.locator(".steps .bad").first).to_be_visible()


def test_settings_are_saved_by_card_and_mistakes_are_told_there(
    gus: Person, gateway: GatewaySite
) -> None:
    page = gus.open("/gateway/settings")
    card = page.get_by_role("region", name="Money and time")
    card.locator("[name=time_zone]").fill("Europe/Berlyn")
    card.get_by_role("button", name="Save").click()
    told = 'Time zone: "Europe/Berlyn" is not a known time zone'
    expect(card.get_by_role("alert")).to_contain_text(told)
    card.locator("[name=time_zone]").fill("Europe/Berlin")
    card.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved; it holds")).to_be_visible()
    zone = gateway.admin.get("/api/agent/summary")["zone"]
    assert zone == "Europe/Berlin"


def test_the_collector_of_spans_is_set_and_its_headers_stay_masked(
    gus: Person, gateway: GatewaySite
) -> None:
    def get_tracing() -> dict[str, Any]:
        settings = gateway.admin.get("/api/agent/settings")["settings"]
        return {one["name"]: one["value"] for one in settings}["tracing"]

    page = gus.open("/gateway/settings#tracing")
    card = page.get_by_role("region", name="Tracing")
    card.locator("[name='tracing.endpoint']").fill(NOBODY)
    card.locator("[name='tracing.headers']").fill("X-Key: 0123456789abcdef-secret")
    card.locator("[name='tracing.enabled']").uncheck()
    card.get_by_role("button", name="Save").click()
    until(lambda: get_tracing()["endpoint"] == NOBODY)
    expect(card.locator("[name='tracing.headers']")).to_have_value("X-Key: ****cret")
    card.locator("[name='tracing.sample']").fill("0.25")
    card.get_by_role("button", name="Save").click()
    until(lambda: get_tracing()["sample"] == 0.25)
    assert get_tracing()["headers"] == {"X-Key": "****cret"}
    text = Path(gateway.setup.layout.gateway_settings).read_text()
    assert "0123456789abcdef-secret" in text


def test_a_hand_edit_is_shown_at_once(gus: Person, gateway: GatewaySite) -> None:
    """Acceptance row 34."""
    page = gus.open("/gateway/settings")
    tries = page.locator("[name=tries]")
    tries.wait_for()
    wait_until_loaded(page)
    path = Path(gateway.setup.layout.gateway_settings)
    path.write_text(f"tries: 7\nexport: {{url: '{NOBODY}'}}\n")
    expect(tries).to_have_value("7")


def test_a_licence_is_looked_at_before_it_is_installed(gus: Person, gateway: GatewaySite) -> None:
    page = gus.open("/gateway/settings")
    licence = page.get_by_role("region", name="Licence")
    expect(licence).to_contain_text("Valid until")
    licence.get_by_text("Install another licence").click()
    licence.locator("textarea").fill(Path(gateway.setup.layout.licence).read_text().strip())
    licence.get_by_role("button", name="Look at it").click()
    expect(licence.get_by_role("status")).to_contain_text("until")
    licence.get_by_role("button", name="Install it").click()
    expect(page.get_by_text("The licence is installed")).to_be_visible()
