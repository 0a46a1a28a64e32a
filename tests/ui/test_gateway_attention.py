"""What the overview says needs attention, and where each of its numbers leads."""

from collections.abc import Iterator

import pytest

from tests.supplier.steps import Refuse
from tests.support.daemon import until
from tests.ui.gateway_site import STRIPE, GatewaySite, open_gateway
from tests.ui.support import Person, person

from playwright.sync_api import Browser, Locator, expect  # isort: skip


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewaySite]:
    """A gateway with a low balance, a channel that was disabled, and too many failures."""
    with open_gateway(tmp_path_factory.mktemp("gateway")) as site:
        assert site.ask(text=f"The key is {STRIPE}.").status_code == 200
        left = {"balance_infos": [{"currency": "USD", "total_balance": "4.2"}]}
        site.supplier.documents["/user/balance"] = left
        balance = {"source": "deepseek", "low": 5}
        site.admin.patch("/api/agent/channels/chat", {"balance": balance})
        site.admin.post("/api/agent/channels/chat/balance", {})
        target = {"name": "ops", "kind": "slack", "url": "https://alerts.example.com/x"}
        assert site.admin.post("/api/agent/alert-targets", target).status == 201
        rules = {"error_rate": 1, "error_requests": 1}
        settings = {"disable_channel_after": 1, "alerts": rules}
        assert site.admin.patch("/api/agent/settings", settings).status == 200
        site.supplier._always.insert(0, Refuse(401, "wrong key"))
        assert site.ask(model="by-gemini").status_code >= 400
        firing = {"balance_low", "channel_disabled", "error_rate"}
        until(
            lambda: {one["kind"] for one in site.admin.get("/api/agent/alerts")["firing"]} >= firing
        )
        yield site


@pytest.fixture
def gus(browser: Browser, gateway: GatewaySite) -> Iterator[Person]:
    """An administrator at a desk."""
    with person(browser, gateway.serving) as somebody:
        yield somebody


def open_notes(gus: Person) -> Locator:
    page = gus.open("/gateway")
    notes = page.get_by_role("region", name="Needs attention").locator("li.note")
    expect(notes.filter(has_text="Channel gemini was disabled")).to_have_count(1)
    return notes


def test_each_thing_is_told_once_and_leads_to_its_place(gus: Person) -> None:
    notes = open_notes(gus)
    disabled = notes.filter(has_text="Channel gemini was disabled")
    expect(disabled).to_contain_text("did not accept its key")
    low = notes.filter(has_text="Channel chat: $4.20 left")
    expect(low).to_contain_text("below $5.00")
    alert = notes.filter(has_text="Alert:")
    expect(alert).to_have_count(1)
    expect(alert).to_contain_text("High error rate")
    alert.get_by_role("link", name="Alerts").click()
    expect(notes.page.get_by_role("heading", name="Alerts", level=1)).to_be_visible()
    for note, name in (("Channel gemini was", "gemini"), ("Channel chat: $4.20", "chat")):
        notes = open_notes(gus)
        notes.filter(has_text=note).get_by_role("link", name="Channel").click()
        expect(notes.page.get_by_role("heading", name=name, exact=True)).to_be_visible()


def test_what_is_in_order_again_is_gone_at_once(gus: Person, gateway: GatewaySite) -> None:
    notes = open_notes(gus)
    gateway.admin.patch("/api/agent/channels/chat", {"balance": {"low": 1}})
    expect(notes.filter(has_text="Channel chat")).to_have_count(0)
    gateway.admin.patch("/api/agent/channels/chat", {"balance": {"low": 5}})
    expect(notes.filter(has_text="Channel chat")).to_have_count(1)


FIGURES = {
    "Spent today": "",
    "Requests": "",
    "Not ok": "ok=false",
    "First token": "ok=true",
    "Secrets found": "hidden=true",
}


@pytest.mark.parametrize("figure", FIGURES)
def test_each_figure_opens_the_log_of_what_it_counts(
    gus: Person, gateway: GatewaySite, figure: str
) -> None:
    page = gus.open("/gateway")
    today = page.get_by_role("region", name="Today")
    today.locator(".figure", has_text=figure).locator(".val a").click()
    expect(page.get_by_role("heading", name="Requests")).to_be_visible()
    expected = gateway.requests(FIGURES[figure])
    assert expected
    rows = page.locator(".log tbody tr")
    expect(rows).to_have_count(len(expected))
    assert {row.get_attribute("data-id") for row in rows.all()} == {one["id"] for one in expected}
