"""A request whose first call was given up, in a browser: what it cost beside the answer."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.supplier.request import Request
from tests.supplier.steps import Answer, Say, Stall, Tokens
from tests.ui.gateway_site import GatewaySite, open_gateway
from tests.ui.support import Person, person

from playwright.sync_api import Browser, expect  # isort: skip

PRICES = {"input": 3, "output": 15}


def fall_silent(request: Request) -> Answer | None:
    """Give no answer to whoever is asked for the slow model."""
    if request.model != "slow-large":
        return None
    return Answer((Say("well"),), Tokens(input=9, output=9), faults=(Stall(0),))


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewaySite]:
    with open_gateway(tmp_path, fall_silent) as site:
        shared = {"dialects": ["openai-chat"], "url": site.supplier.url, "local": True}
        for name, more in (("slow", {"timeout": 0.2}), ("quick", {})):
            made = site.admin.post("/api/agent/channels", {"name": name, **shared, **more})
            assert made.status == 201, made.body
        routes = [
            {"channel": "slow", "model": "slow-large"},
            {"channel": "quick", "model": "quick-large", "priority": 1},
        ]
        model = {"name": "routed", "prices": PRICES, "maxOutput": 1000, "routes": routes}
        made = site.admin.post("/api/agent/models", model)
        assert made.status == 201, made.body
        yield site


@pytest.fixture
def gus(browser: Browser, gateway: GatewaySite) -> Iterator[Person]:
    with person(browser, gateway.serving) as somebody:
        yield somebody


def test_what_a_call_may_cost_that_was_given_up_is_shown_beside_the_one_that_answered(
    gus: Person, gateway: GatewaySite
) -> None:
    assert gateway.ask(model="routed").status_code == 200
    newest = gateway.requests()[0]
    (given_up,) = newest["failedTries"]
    assert 0.015 < given_up["cost"] < newest["cost"]
    page = gus.open(f"/gateway/requests/{newest['id']}")
    first = page.get_by_role("region", name="Attempts").locator("li").first
    expect(first).to_contain_text("slow")
    expect(first).to_contain_text("given up, up to $0.015")
    costs = page.get_by_role("region", name="Tokens and cost")
    expect(costs).to_contain_text("Given up: slow")
    detail = gateway.admin.get(f"/api/agent/requests/{newest['id']}")
    total = sum(one["cost"] for one in detail["costs"]) + given_up["cost"]
    assert total == pytest.approx(newest["cost"])
