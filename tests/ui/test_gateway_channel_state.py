"""How a channel is, in a browser: all that the API tells of its state, and its balance."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.supplier.request import Request
from tests.supplier.steps import Refuse
from tests.ui.gateway_site import GatewaySite, open_gateway
from tests.ui.support import Person, person

from playwright.sync_api import Browser, Page, expect  # isort: skip

CHANNEL = "/api/agent/channels/messages"
SECOND = "sk-second-0123456789WXYZ"


@pytest.fixture
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewaySite]:
    with open_gateway(tmp_path_factory.mktemp("gateway")) as site:
        yield site


@pytest.fixture
def gus(browser: Browser, gateway: GatewaySite) -> Iterator[Person]:
    """An administrator at a desk."""
    with person(browser, gateway.serving) as somebody:
        yield somebody


def tell_balance(gateway: GatewaySite, amount: str, currency: str = "USD") -> None:
    told = {"balance_infos": [{"currency": currency, "total_balance": amount}]}
    gateway.supplier.documents["/user/balance"] = told


def get_fact(page: Page, card: str, name: str) -> Any:
    """Return what a card says of something."""
    return page.get_by_role("region", name=card).locator(f"dt:text-is('{name}') + dd")


def refuse_model(request: Request) -> Refuse | None:
    """The supplier has no capacity for one model."""
    if request.path.endswith("/v1/messages"):
        return Refuse(429, "slow down", headers={"Retry-After": "600"})
    return None


def test_all_that_is_told_of_a_channels_state_is_shown(gus: Person, gateway: GatewaySite) -> None:
    for stream in (False, True):
        assert gateway.ask(model="by-messages", stream=stream).status_code == 200
    page = gus.open("/gateway/channels/messages")
    expect(get_fact(page, "State", "Last calls")).to_have_text("100 % of 2 succeeded")
    expect(get_fact(page, "State", "Last failure")).to_have_text("none")
    expect(get_fact(page, "State", "Until an answer begins")).to_contain_text("95th percentile")
    expect(get_fact(page, "State", "Until the first token")).to_contain_text("95th percentile")
    expect(get_fact(page, "Channel", "State")).to_have_text("in order")
    gateway.supplier._always.insert(0, refuse_model)
    assert gateway.ask(model="by-messages").status_code == 429
    expect(get_fact(page, "State", "Left out")).to_contain_text("scripted-large until")
    expect(get_fact(page, "State", "Left out")).to_contain_text("rate_limit")
    expect(get_fact(page, "State", "Last failure")).to_contain_text("rate_limit")
    expect(get_fact(page, "State", "Last calls")).to_have_text("66.7 % of 3 succeeded")
    expect(get_fact(page, "State", "Since the start")).to_have_text("2 calls succeeded, 1 failed")
    expect(get_fact(page, "Channel", "State")).to_have_text("in order, but not for every model")
    gateway.supplier._always[0] = Refuse(401, "wrong key")
    gateway.admin.patch(CHANNEL, {"coolDown": 300})  # ends the cooldown of the model
    assert gateway.ask(model="by-messages").status_code >= 400
    expect(get_fact(page, "Channel", "State")).to_contain_text("cooling down until")
    expect(get_fact(page, "Channel", "State")).to_contain_text("authentication")


def test_a_balance_is_set_read_and_shown_with_its_error(gus: Person, gateway: GatewaySite) -> None:
    tell_balance(gateway, "12.5")
    page = gus.open("/gateway/channels/messages")
    expect(get_fact(page, "State", "Last calls")).to_have_text("none")
    card = page.get_by_role("region", name="Balance")
    expect(card).to_have_count(0)
    page.get_by_role("button", name="Edit", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Balance").select_option("deepseek")
    dialog.get_by_label("Warn below").fill("20")
    dialog.get_by_role("button", name="Save").click()
    expect(card).to_contain_text("not read yet")
    assert gateway.admin.get(CHANNEL)["balance"] == {"source": "deepseek", "low": 20}
    card.get_by_role("button", name="Read now").click()
    expect(card).to_contain_text("$12.50")
    expect(card).to_contain_text("low")
    expect(card).to_contain_text("read just now")

    gateway.admin.patch(CHANNEL, {"keys": [SECOND], "balance": {"low": None}})
    tell_balance(gateway, "110.00", "CNY")
    expect(card.get_by_role("listitem")).to_have_count(2)
    card.get_by_role("button", name="Read now").click()
    expect(card.get_by_role("listitem").nth(1)).to_contain_text("110 CNY")
    expect(card.get_by_role("listitem").nth(1)).to_contain_text("WXYZ")
    gateway.supplier.documents["/user/balance"] = (401, {"error": SECOND})
    card.get_by_role("button", name="Read now").click()
    expect(card.get_by_role("listitem").nth(1)).to_contain_text("does not accept its key")
    expect(card.get_by_role("listitem").nth(1)).to_contain_text("110 CNY")
    assert SECOND not in page.content()
