"""What the gateway says of long names, of limits of models, and of prices with many digits."""

from collections.abc import Iterator

import pytest

from tests.ui.gateway_site import GatewaySite, open_gateway
from tests.ui.support import DESK, PHONE, person

from playwright.sync_api import Browser, expect  # isort: skip

LONG = "a.very.long.name.of.somebody.in.a.department.with.a.name." + "abcdefghij" * 4
MODEL = "priced"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewaySite]:
    with open_gateway(tmp_path_factory.mktemp("gateway")) as site:
        limits = {"limits": {"day": "2", "month": "12345"}, "modelLimits": {"by-*": {"day": "3"}}}
        site.admin.post("/api/agent/keys", {"name": LONG, "owner": LONG, **limits})
        site.admin.post(
            "/api/agent/budgets", {"name": "shared", "owner": LONG, "limits": {"month": "9"}}
        )
        site.admin.post(
            "/api/agent/models",
            {
                "name": MODEL,
                "routes": [{"channel": "chat"}],
                "prices": {"input": "1.875", "output": "0.00375", "cacheRead": "1234.5"},
            },
        )
        yield site


@pytest.mark.parametrize("address", ["budgets", "keys"])
def test_a_long_owner_fits_a_phone(browser: Browser, gateway: GatewaySite, address: str) -> None:
    """Row 39."""
    with person(browser, gateway.serving, size=PHONE) as somebody:
        page = somebody.open(f"/gateway/{address}")
        if address == "keys":
            page.get_by_role("link", name=LONG).click()
        chip = page.locator(".chip", has_text="owner")
        expect(chip).to_be_visible()
        box = chip.bounding_box()
        assert box
        assert box["x"] + box["width"] <= PHONE[0]
        assert page.locator(".scroll").evaluate("node => node.scrollWidth <= node.clientWidth")


def test_long_names_leave_room_for_what_is_used(browser: Browser, gateway: GatewaySite) -> None:
    with person(browser, gateway.serving, size=DESK) as somebody:
        page = somebody.open("/gateway")
        table = page.get_by_role("region", name="Limits as a table")
        expect(table.get_by_role("link", name="$12,345")).to_be_visible()
        assert table.evaluate("node => node.scrollWidth <= node.clientWidth")


def test_a_limit_of_a_model_is_told_from_the_others_of_its_key(
    browser: Browser, gateway: GatewaySite
) -> None:
    with person(browser, gateway.serving) as somebody:
        page = somebody.open("/gateway/reports/limits")
        row = page.locator("tr", has_text="$3.00 a day")
        expect(row).to_contain_text(f"{LONG}, by-*")
        expect(page.locator("tr", has_text="$2.00 a day")).not_to_contain_text("by-*")


def test_a_price_has_all_of_its_digits(browser: Browser, gateway: GatewaySite) -> None:
    with person(browser, gateway.serving) as somebody:
        page = somebody.open("/gateway/models")
        expect(page.locator("li", has_text=MODEL)).to_contain_text("$1.875 in, $0.00375 out")
        expect(page.locator("li", has_text="by-chat")).to_contain_text("$3.00 in, $15.00 out")
        page.get_by_role("link", name=MODEL).click()
        about = page.get_by_role("region", name="Model", exact=True)
        expect(about).to_contain_text("$1.875 per million tokens")
        expect(about).to_contain_text("$1,234.50 per million tokens")
