"""The forms of keys, models and rules: limits of models, warnings, tiers, and prices of routes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ui.accessibility import check_accessibility
from tests.ui.gateway_site import GatewaySite, open_gateway
from tests.ui.support import DESK, PHONE, Person, person

from playwright.sync_api import Browser, Locator, Page, expect  # isort: skip


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewaySite]:
    with open_gateway(tmp_path_factory.mktemp("gateway")) as site:
        yield site


@pytest.fixture
def gus(browser: Browser, gateway: GatewaySite) -> Iterator[Person]:
    """An administrator at a desk."""
    with person(browser, gateway.serving) as somebody:
        yield somebody


def find_row(page: Page, group: str, number: int) -> Locator:
    return page.get_by_role("dialog").get_by_role("group", name=f"{group}, {number}")


def save(page: Page, name: str = "Save") -> None:
    page.get_by_role("dialog").get_by_role("button", name=name).click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def open_model(gus: Person) -> tuple[Page, Locator]:
    """Open the form of a model."""
    page = gus.open("/gateway/models/by-chat")
    page.get_by_role("button", name="Edit", exact=True).click()
    return page, page.get_by_role("dialog")


def test_limits_of_models_are_set_seen_raised_and_removed(
    gus: Person, gateway: GatewaySite
) -> None:
    made = gateway.admin.post("/api/agent/keys", {"name": "bound"})
    gateway.keys["bound"] = made["key"]
    api = f"/api/agent/keys/{made['id']}"
    page = gus.open(f"/gateway/keys/{made['id']}")
    page.get_by_role("button", name="Edit", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Warn from, a day").fill("2.5")
    for number, (model, limit) in enumerate((("by-chat", "0.5"), ("gpt-4.1*", "3")), 1):
        dialog.get_by_role("button", name="Add a model").click()
        find_row(page, "Limits per model", number).get_by_label("Model").fill(model)
        find_row(page, "Limits per model", number).get_by_label("USD/day").fill(limit)
    find_row(page, "Limits per model", 2).get_by_label("At once").fill("4")
    save(page)
    card = page.get_by_role("region", name="Limits")
    expect(card.get_by_text("of $0.50 a day")).to_be_visible()
    saved = gateway.admin.get(api)
    assert (saved["softLimits"]["day"], saved["modelLimits"]["by-chat"]["day"]) == (2.5, 0.5)
    assert (
        saved["modelLimits"]["gpt-4.1*"]["day"],
        saved["modelLimits"]["gpt-4.1*"]["parallel"],
    ) == (3, 4)
    assert gateway.ask(key="bound").status_code == 200
    rows = card.get_by_role("listitem").filter(has_text="by-chat")
    expect(rows).to_contain_text("of $0.50 a day")
    expect(rows).not_to_contain_text("$0.00 of")
    expect(rows.locator(".limit-bar")).to_have_count(1)

    page.get_by_role("button", name="Actions for bound").click()
    page.get_by_role("menuitem", name="Raise for a while").click()
    dialog.get_by_label("gpt-4.1*: USD a day").fill("30")
    save(page, "Raise")
    expect(card.get_by_text("of $30.00 a day")).to_be_visible()
    raised = gateway.admin.get(api)["raised"]["models"]
    assert raised["gpt-4.1*"]["day"] == 30
    assert list(raised) == ["gpt-4.1*"]

    page.get_by_role("button", name="Edit", exact=True).click()
    dialog.get_by_role("button", name="Remove gpt-4.1*").click()
    save(page)
    expect(card.get_by_text("of $30.00 a day")).to_have_count(0)
    assert list(gateway.admin.get(api)["modelLimits"]) == ["by-chat"]


def test_tiers_and_service_rates_of_a_model_are_edited_as_rows(
    gus: Person, gateway: GatewaySite
) -> None:
    page, dialog = open_model(gus)
    dialog.get_by_role("button", name="Add a size").click()
    fill(
        find_row(page, "Prices of long requests", 1),
        {"Above tokens": "200000", "Input": "6", "Output": "22.5"},
    )
    dialog.get_by_role("button", name="Add a tier").click()
    fill(
        find_row(page, "Prices of service tiers", 1),
        {"Tier": "flex", "Input": "1", "Output": "4", "Reasoning": "5"},
    )
    save(page)
    expect(page.get_by_text("Above 200,000 tokens")).to_be_visible()
    prices = gateway.admin.get("/api/agent/models/by-chat")["prices"]
    assert [(one["tokens"], one["input"], one["output"]) for one in prices["above"]] == [
        (200000, 6, 22.5)
    ]
    assert [(one["tier"], one["reasoning"]) for one in prices["services"]] == [("flex", 5)]

    page.get_by_role("button", name="Edit", exact=True).click()
    dialog.get_by_role("button", name="Remove 200000").click()
    save(page)
    expect(page.get_by_text("Above 200,000 tokens")).to_have_count(0)
    after = gateway.admin.get("/api/agent/models/by-chat")["prices"]
    assert after == {**prices, "above": []}


def test_what_is_no_number_is_refused_beside_the_form(gus: Person) -> None:
    _, dialog = open_model(gus)
    dialog.get_by_label("Context").fill("three")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_text("Context: this is not a number")).to_be_visible()


def test_headers_with_a_name_twice_or_a_line_without_a_value_are_refused(
    gus: Person, gateway: GatewaySite
) -> None:
    page, dialog = open_model(gus)
    dialog.get_by_label("Headers").fill("X-Team: tea\nx-team: coffee")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_text("Headers: x-team is there twice")).to_be_visible()
    dialog.get_by_label("Headers").fill("X-Team: tea\n\nX-Other coffee")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_text('Headers: line 3 has no ":"')).to_be_visible()
    dialog.get_by_label("Headers").fill("X-Team: tea")
    save(page)
    assert gateway.admin.get("/api/agent/models/by-chat")["headers"] == {"X-Team": "tea"}


def fill(row: Locator, values: dict[str, str]) -> None:
    for label, value in values.items():
        row.get_by_label(label, exact=True).fill(value)


def test_a_route_has_prices_of_its_own(gus: Person, gateway: GatewaySite) -> None:
    page = gus.open("/gateway/models/by-chat")

    def edit() -> Locator:
        page.get_by_role("button", name="Actions for the route through responses").click()
        page.get_by_role("menuitem", name="Edit").click()
        return page.get_by_role("dialog")

    def get_prices() -> Any:
        routes = gateway.admin.get("/api/agent/models/by-chat")["routes"]
        return next(one["prices"] for one in routes if one["channel"] == "responses")

    dialog = edit()
    expect(dialog.get_by_label("Price of input", exact=False).first).to_be_hidden()
    dialog.get_by_label("Own prices").check()
    dialog.locator("[name='prices.input']").fill("1.5")
    dialog.locator("[name='prices.output']").fill("7")
    dialog.get_by_role("button", name="Add a tier").click()
    fill(
        find_row(page, "Prices of service tiers", 1), {"Tier": "batch", "Input": "1", "Output": "2"}
    )
    save(page, "Change")
    expect(page.get_by_text("$1.50 in, $7.00 out")).to_be_visible()
    page.get_by_role("button", name="Save routes").click()
    expect(page.get_by_role("button", name="Save routes")).to_have_count(0)
    prices = get_prices()
    assert (prices["input"], prices["output"], prices["services"][0]["tier"]) == (1.5, 7, "batch")
    edit().get_by_label("Own prices").uncheck()
    save(page, "Change")
    page.get_by_role("button", name="Save routes").click()
    expect(page.get_by_role("button", name="Save routes")).to_have_count(0)
    assert get_prices() is None


def test_what_a_rule_allows_is_edited(gus: Person, gateway: GatewaySite) -> None:
    rule = {"id": "ticket", "regex": "tkt_[a-z0-9]{10}"}
    assert gateway.admin.post("/api/agent/secret-rules", rule).status == 201
    page = gus.open("/gateway/secrets?name=ticket")
    page.get_by_role("button", name="Actions for ticket").click()
    page.get_by_role("menuitem", name="Edit").click()
    page.locator("dialog [name='allow.stopwords']").fill("example\nsample")
    page.locator("dialog [name='allow.regexes']").fill("^tkt_0+$")
    save(page)
    allow = gateway.admin.get("/api/agent/secret-rules/ticket")["allow"]
    assert allow == {"regexes": ["^tkt_0+$"], "stopwords": ["example", "sample"]}


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_rows_can_be_edited_by_everybody_and_fit_their_width(
    browser: Browser, gateway: GatewaySite, size: tuple[int, int], tmp_path: Path
) -> None:
    with person(browser, gateway.serving, size=size) as somebody:
        for name, address, button in (
            ("key", "/gateway/keys?new=1", "Add a model"),
            ("model", "/gateway/models?new=1", "Add a size"),
        ):
            page = somebody.open(address)
            add = page.get_by_role("dialog").get_by_role("button", name=button)
            add.click()
            expect(page.locator(".row-editor .row")).to_have_count(1)
            page.locator(".row-editor .row").scroll_into_view_if_needed()
            check_accessibility(page, tmp_path / name)


@pytest.mark.parametrize(
    ("path", "button"),
    [
        ("/gateway/keys", "New key"),
        ("/gateway/budgets", "New budget"),
        ("/gateway/management-keys", "New key"),
        ("/gateway/secrets", "Add a rule"),
    ],
)
def test_a_form_is_typed_into_at_once(gus: Person, path: str, button: str) -> None:
    """Row 38."""
    page = gus.open(path)
    page.get_by_role("button", name=button).first.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    page.keyboard.type("typed")
    expect(dialog.locator("input, textarea").first).to_have_value("typed")
