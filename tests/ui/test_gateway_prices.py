"""The price catalogue and suppliers' own lists of models, in a browser."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.catalogue.samples import write_catalogue
from tests.support.daemon import until
from tests.ui.accessibility import check_accessibility, find_wide_parts
from tests.ui.gateway_site import GatewaySite, open_gateway
from tests.ui.support import DESK, PHONE, Person, person
from tests.ui.test_every_page import wait_until_loaded

from playwright.sync_api import Browser, Page, expect  # isort: skip

OWN = "/api/agent/models/by-chat"


@pytest.fixture
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewaySite]:
    """A gateway with a price catalogue that knows the scripted supplier."""
    with open_gateway(tmp_path_factory.mktemp("gateway")) as site:
        write_catalogue(site.setup.layout, re.escape(site.supplier.url))
        yield site


@pytest.fixture
def gus(browser: Browser, gateway: GatewaySite) -> Iterator[Person]:
    """An administrator at a desk."""
    with person(browser, gateway.serving) as somebody:
        yield somebody


def test_a_difference_is_shown_in_the_list_and_applied_by_a_click(
    gus: Person, gateway: GatewaySite
) -> None:
    page = gus.open("/gateway/models")
    row = page.locator(".rows li", has_text="by-chat")
    expect(row).to_contain_text("$3.00 in, $15.00 out")
    expect(row).to_contain_text("Catalogue: $2.00 in, $10.00 out")
    row.get_by_role("button", name="Apply the catalogue's prices to by-chat").click()
    expect(row).to_contain_text("$2.00 in, $10.00 out")
    expect(row).not_to_contain_text("Catalogue")
    assert gateway.admin.get(OWN)["prices"]["input"] == 2.0
    (change,) = gateway.admin.get("/api/agent/changes")["items"]
    assert change["action"] == "price"


def test_a_models_page_shows_the_catalogues_prices_beside_its_own(
    gus: Person, gateway: GatewaySite
) -> None:
    page = gus.open("/gateway/models/by-chat")
    catalogue = page.get_by_role("region", name="Price catalogue")
    expect(catalogue).to_contain_text("Scripted Large (acme)")
    expect(catalogue).to_contain_text("$2.00 per million tokens, own $3.00")
    expect(catalogue).to_contain_text("2026-06-01")
    catalogue.get_by_role("button", name="Apply").click()
    expect(catalogue).to_contain_text("The model has these prices.")
    expect(catalogue.get_by_role("button", name="Apply")).to_have_count(0)
    assert gateway.admin.get(OWN)["prices"]["output"] == 10.0


def test_a_new_models_form_takes_prices_from_the_catalogue(
    gus: Person, gateway: GatewaySite
) -> None:
    page = gus.open("/gateway/models")
    page.get_by_role("button", name="Add a model").first.click()
    form = page.get_by_role("dialog")
    take = form.get_by_role("button", name="Take from catalogue")
    take.click()
    expect(form).to_contain_text("Give the model a name and a channel first.")
    form.locator("[name=name]").fill("new")
    form.locator("[name=channel]").select_option("chat")
    form.locator("[name=supplierModel]").fill("scripted-large")
    take.click()
    expect(form.locator("[name='prices.input']")).to_have_value("2")
    expect(form.locator("[name=context]")).to_have_value("200000")
    expect(form).to_contain_text("Without fees for web searches.")
    form.get_by_role("button", name="Add", exact=True).click()
    made = until(lambda: get_model(gateway, "new"))
    assert (made["prices"]["cacheRead"], made["context"]) == (0.2, 200_000)


def get_model(gateway: GatewaySite, name: str) -> dict[str, object] | None:
    """Get a model, or None if there is none."""
    reply = gateway.admin.get(f"/api/agent/models/{name}")
    return dict(reply.json()) if reply.status == 200 else None


def test_without_a_catalogue_it_can_be_read_or_says_what_to_install(
    gus: Person, gateway: GatewaySite
) -> None:
    Path(gateway.setup.layout.price_catalogue).unlink()
    page = gus.open("/gateway/models/by-chat")
    catalogue = page.get_by_role("region", name="Price catalogue")
    expect(catalogue).to_contain_text("There is no price catalogue here yet.")
    page.route(
        "**/api/agent/prices/refresh",
        lambda route: route.fulfill(
            status=503,
            json={
                "error": "Unavailable",
                "message": "The price catalogue is not installed",
                "details": "pip install 'agentd-workstation[prices]'",
            },
        ),
    )
    catalogue.get_by_role("button", name="Read it now").click()
    expect(page.get_by_text("The price catalogue is not installed")).to_be_visible()


def open_offer(page: Page) -> None:
    """Ask the supplier for its models."""
    offer = page.get_by_role("region", name="Models the supplier offers")
    offer.get_by_role("button", name="List them").click()
    expect(offer.locator(".rows li")).to_have_count(3)


def test_picked_models_of_a_supplier_are_created_with_prices(
    gus: Person, gateway: GatewaySite
) -> None:
    gateway.supplier.models = ["scripted-large", "scripted-small", "unheard-of"]
    page = gus.open("/gateway/channels/chat")
    open_offer(page)
    offer = page.get_by_role("region", name="Models the supplier offers")
    here = offer.get_by_role("checkbox", name="scripted-large")
    expect(here).to_be_checked()
    expect(here).to_be_disabled()
    expect(offer.get_by_role("button", name="Create")).to_be_disabled()
    offer.get_by_role("checkbox", name="scripted-small").check()
    offer.get_by_role("checkbox", name="unheard-of").check()
    offer.get_by_role("button", name="Create 2 models").click()
    expect(page.get_by_text("2 models created, 1 without prices")).to_be_visible()
    expect(offer.get_by_role("checkbox", name="scripted-small")).to_be_disabled()
    made = get_model(gateway, "scripted-small")
    assert made and made["prices"]["input"] == 0.5  # type: ignore[index]
    expect(page.get_by_role("region", name="Channel")).to_contain_text("unheard-of")


def test_a_supplier_that_refuses_is_told(gus: Person, gateway: GatewaySite) -> None:
    gateway.admin.post(
        "/api/agent/channels",
        {"name": "nowhere", "dialects": ["anthropic"], "url": "http://127.0.0.1:9", "local": True},
    )
    page = gus.open("/gateway/channels/nowhere")
    page.get_by_role("region", name="Models the supplier offers").get_by_role(
        "button", name="List them"
    ).click()
    expect(page.get_by_text("cannot be listed")).to_be_visible()


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_the_pages_can_be_used_by_everybody_and_fit_their_width(
    browser: Browser, gateway: GatewaySite, size: tuple[int, int], tmp_path: Path
) -> None:
    """Its pictures are in the test's temporary folder."""
    gateway.supplier.models = ["scripted-large", "scripted-small", "unheard-of"]
    with person(browser, gateway.serving, size=size) as somebody:
        for name, address in (
            ("channel", "/gateway/channels/chat"),
            ("models", "/gateway/models"),
            ("model", "/gateway/models/by-chat"),
        ):
            page = somebody.open(address)
            page.locator(".page .card").first.wait_for()
            wait_until_loaded(page)
            if name == "channel":
                open_offer(page)
            check_accessibility(page, tmp_path / name)
            assert not find_wide_parts(page, ".scroll")
