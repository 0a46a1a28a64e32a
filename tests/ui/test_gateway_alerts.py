"""The alerts in a browser: a target is made, tested and edited, and what it was sent is shown."""

from collections.abc import Iterator

import pytest

from tests.gateway.alerts.receiver import AlertReceiver
from tests.support.ports import find_free_port
from tests.ui.gateway_site import GatewaySite, open_gateway
from tests.ui.support import Person, person
from tests.ui.test_gateway import find_field

from playwright.sync_api import Browser, expect  # isort: skip


@pytest.fixture
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewaySite]:
    with open_gateway(tmp_path_factory.mktemp("gateway")) as site:
        yield site


@pytest.fixture
def gus(browser: Browser, gateway: GatewaySite) -> Iterator[Person]:
    with person(browser, gateway.serving) as somebody:
        yield somebody


@pytest.fixture
def receiver() -> Iterator[AlertReceiver]:
    with AlertReceiver() as found:
        yield found


def test_a_target_is_made_tested_and_told_of_a_failing_channel(
    gus: Person, gateway: GatewaySite, receiver: AlertReceiver
) -> None:
    page = gus.open("/gateway/alerts")
    expect(page.get_by_text("No alert targets")).to_be_visible()
    page.get_by_role("button", name="Add a target").first.click()
    dialog = page.get_by_role("dialog")
    find_field(page, "name").fill("ops")
    find_field(page, "url").fill(receiver.url)
    secret = find_field(page, "secret").input_value()
    dialog.get_by_label("The address is of this machine").check()
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_text("The test was accepted: 200 thanks")).to_be_visible()
    assert receiver.received[0].verify(secret)["type"] == "alert.test"
    receiver.status, receiver.answer = 403, b"go away"
    page.get_by_role("button", name="Test ops").click()
    expect(page.get_by_text("The test was not accepted: 403 go away")).to_be_visible()
    receiver.status = 200
    nowhere = {"url": f"http://127.0.0.1:{find_free_port()}", "key": "sk-0123456789abcdef"}
    assert gateway.admin.patch("/api/agent/channels/responses", nowhere).status == 200
    assert gateway.ask(model="by-responses").status_code >= 500
    expect(page.get_by_role("heading", name="Now")).to_be_visible()
    expect(page.get_by_text('The channel "responses" failed').first).to_be_visible()
    expect(page.get_by_text("ops: delivered").first).to_be_visible()
    assert secret not in page.content()


def test_a_target_is_edited_disabled_and_deleted(
    gus: Person, gateway: GatewaySite, receiver: AlertReceiver
) -> None:
    path = "/api/agent/alert-targets"
    target = {"name": "ops", "kind": "text", "url": receiver.url, "local": True}
    assert gateway.admin.post(path, target).status == 201
    page = gus.open("/gateway/alerts")
    page.get_by_role("button", name="Actions for ops").click()
    page.get_by_role("menuitem", name="Edit").click()
    find_field(page, "alerts").fill("channel_down\nlimit_hit")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_text("Channel down, Limit reached")).to_be_visible()
    assert gateway.admin.get(f"{path}/ops")["alerts"] == ["channel_down", "limit_hit"]
    page.get_by_role("button", name="Actions for ops").click()
    page.get_by_role("menuitem", name="Disable").click()
    expect(page.get_by_text("disabled", exact=True)).to_be_visible()
    page.get_by_role("button", name="Actions for ops").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No alert targets")).to_be_visible()
