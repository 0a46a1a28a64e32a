"""The management keys in a browser: made with a scope, shown once, changed and revoked."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.support.daemon import Client
from tests.ui.gateway_site import GatewaySite, open_gateway
from tests.ui.support import Person, person

from playwright.sync_api import Browser, expect  # isort: skip


@pytest.fixture
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewaySite]:
    with open_gateway(tmp_path_factory.mktemp("gateway")) as site:
        yield site


@pytest.fixture
def gus(browser: Browser, gateway: GatewaySite) -> Iterator[Person]:
    """An administrator at a desk."""
    with person(browser, gateway.serving) as somebody:
        yield somebody


def test_a_key_is_made_shown_once_changed_and_revoked(gus: Person, gateway: GatewaySite) -> None:
    page = gus.open("/gateway/management-keys")
    page.get_by_role("button", name="New key").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("monitor")
    dialog.get_by_label("May do").select_option("read")
    dialog.get_by_role("button", name="Create key").click()
    key = page.get_by_role("textbox", name="Key").inner_text()
    page.get_by_role("button", name="Done").click()
    row = page.locator(".rows li", has_text="monitor")
    expect(row).to_contain_text("reads")
    expect(row).to_contain_text("never used")
    assert key not in page.content()
    with closing(Client(gateway.serving.url, key)) as program:
        assert program.get("/api/agent/summary").status == 200
        assert program.get("/api/agent/management-keys").status == 403
        row.get_by_role("button", name="Actions for monitor").click()
        page.get_by_role("menuitem", name="Change its scope").click()
        page.get_by_role("dialog").get_by_label("May do").select_option("keys")
        page.get_by_role("dialog").get_by_role("button", name="Save").click()
        expect(row).to_contain_text("access keys")
        expect(row).to_contain_text("last used")
        assert program.get("/api/agent/summary").status == 403
        row.get_by_role("button", name="Actions for monitor").click()
        page.get_by_role("menuitem", name="Delete").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(row).to_have_count(0)
        assert program.get("/api/agent/keys").status == 503  # there is no management key left
