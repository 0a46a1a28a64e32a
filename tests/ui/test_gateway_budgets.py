"""Budgets in a browser: made for a tag, spent by the keys that have it, raised, and deleted."""

from collections.abc import Iterator

import pytest

from tests.ui.accessibility import find_small_targets
from tests.ui.gateway_site import GatewaySite, open_gateway
from tests.ui.support import DESK, PHONE, Person, person

from playwright.sync_api import Browser, Locator, Page, expect  # isort: skip


@pytest.fixture
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewaySite]:
    with open_gateway(tmp_path_factory.mktemp("gateway")) as site:
        yield site


@pytest.fixture
def gus(browser: Browser, gateway: GatewaySite) -> Iterator[Person]:
    """An administrator at a desk."""
    with person(browser, gateway.serving) as somebody:
        yield somebody


def choose(page: Page, name: str, action: str) -> None:
    page.get_by_role("button", name=f"Actions for {name}").click()
    page.get_by_role("menuitem", name=action).click()


def get_row(page: Page, name: str) -> Locator:
    return page.locator(".rows > li", has_text=name)


def test_a_budget_is_made_for_a_tag_that_a_key_has_raised_and_deleted(
    gus: Person, gateway: GatewaySite
) -> None:
    page = gus.open("/gateway/keys")
    choose(page, "laptop", "Edit and set limits")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Owner").fill("ann@example.org")
    dialog.get_by_label("Tags").fill("research\n2026")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    key = gateway.admin.get(f"/api/agent/keys/{gateway.ids['laptop']}")
    assert (key["owner"], key["tags"]) == ("ann@example.org", ["research", "2026"])
    assert gateway.ask().status_code == 200

    page = gus.open("/gateway/budgets")
    dialog = page.get_by_role("dialog")
    expect(page.get_by_text("No budgets yet")).to_be_visible()
    page.get_by_role("button", name="New budget").first.click()
    dialog.get_by_role("textbox", name="Name Refusals").fill("Research")
    dialog.get_by_label("Of the tag").fill("research")
    dialog.get_by_label("USD a day").fill("2")
    dialog.get_by_label("Warn at a share of").fill("0.0001")
    dialog.get_by_role("button", name="Create budget").click()
    row = get_row(page, "Research")
    expect(row).to_contain_text("tag research")
    expect(row).to_contain_text("1 key")
    expect(row).to_contain_text("of $2.00 a day")
    expect(row).to_contain_text("warns")
    spent = gateway.admin.get("/api/agent/budgets/Research")["spent"]["day"]
    assert spent > 0

    choose(page, "Research", "Raise for a while")
    dialog.get_by_label("USD a day").fill("1")
    dialog.get_by_role("button", name="Raise").click()
    expect(dialog.get_by_role("alert").first).to_contain_text("is not more than 2")
    dialog.get_by_label("USD a day").fill("50")
    dialog.get_by_role("button", name="Raise").click()
    expect(row).to_contain_text("of $50.00 a day")
    expect(row).to_contain_text("raised until")
    choose(page, "Research", "End the raise")
    expect(row).to_contain_text("of $2.00 a day")

    choose(page, "Research", "Disable")
    expect(row).to_contain_text("disabled")
    choose(page, "Research", "Delete")
    dialog.get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)
    assert gateway.admin.get("/api/agent/budgets")["items"] == []


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_a_soft_limit_needs_attention_until_it_is_raised(
    browser: Browser, gateway: GatewaySite, size: tuple[int, int]
) -> None:
    place = f"/api/agent/keys/{gateway.ids['laptop']}"
    gateway.admin.patch(place, {"tags": ["research"], "limits": {"day": 3}, "warnAt": 0.001})
    budget = {"name": "Research", "tag": "research", "limits": {"day": 2}, "warnAt": 0.001}
    assert gateway.admin.post("/api/agent/budgets", budget).status == 201
    assert gateway.ask().status_code == 200
    with person(browser, gateway.serving, size=size) as gus:
        page = gus.open("/gateway")
        needed = page.get_by_role("region", name="Needs attention")
        notes = needed.locator("li.note", has_text="soft limit")
        expect(notes).to_have_count(2)
        expect(notes.filter(has_text="Key laptop")).to_contain_text("$0.003 a day is passed")
        tag = notes.filter(has_text="Tag research")
        expect(tag).to_contain_text("of $0.002 a day is passed")
        assert not find_small_targets(page) or size == DESK
        tag.get_by_role("link", name="Raise it").click()
        choose(page, "Research", "Raise for a while")
        page.get_by_role("dialog").get_by_label("USD a day").fill("900")
        page.get_by_role("dialog").get_by_role("button", name="Raise").click()
        expect(get_row(page, "Research")).to_contain_text("raised until")
        page = gus.open("/gateway")
        needed = page.get_by_role("region", name="Needs attention")
        expect(needed.locator("li.note", has_text="soft limit")).to_have_count(1)
        gateway.admin.patch(place, {"warnAt": 0.9})
        page = gus.open("/gateway")
        needed = page.get_by_role("region", name="Needs attention")
        expect(needed).to_contain_text("in order")


def test_the_limits_of_a_key_are_raised_for_a_while(gus: Person, gateway: GatewaySite) -> None:
    place = f"/api/agent/keys/{gateway.ids['laptop']}"
    gateway.admin.patch(place, {"limits": {"day": 3}})
    page = gus.open(f"/gateway/keys/{gateway.ids['laptop']}")
    choose(page, "laptop", "Raise for a while")
    page.get_by_role("dialog").get_by_label("USD a day").fill("9")
    page.get_by_role("dialog").get_by_role("button", name="Raise").click()
    expect(page.get_by_text("of $9.00 a day")).to_be_visible()
    expect(page.get_by_text("raised until")).to_be_visible()
    assert gateway.admin.get(place)["raised"]["by"] == "user:ada"
    choose(page, "laptop", "End the raise")
    expect(page.get_by_text("of $3.00 a day")).to_be_visible()


@pytest.mark.parametrize(
    ("label", "text", "message"),
    [
        ("USD a week", "-1", "USD a week: -1 is not a limit; expected 0 to 1000000000 USD"),
        ("Warn from, a day", "-1", "Warn from, a day: -1 is not a limit"),
        ("Warn at a share of", "1,5", "Warn at a share of: expected a number below 1"),
        ("Requests a minute", "many", "Requests a minute: this is not a number"),
        ("Of the tag", "", "expected either an owner or a tag"),
    ],
)
def test_a_refused_value_is_told_at_its_field_by_its_label(
    gus: Person, gateway: GatewaySite, label: str, text: str, message: str
) -> None:
    page = gus.open("/gateway/budgets")
    page.get_by_role("button", name="New budget").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Name Refusals").fill("Research")
    dialog.get_by_label("Of the tag").fill("research")
    field = dialog.get_by_label(label)
    field.fill(text)
    create = dialog.get_by_role("button", name="Create budget")
    create.click()
    expect(dialog.get_by_role("alert")).to_contain_text(message)
    if label in message:
        expect(field).to_be_focused()
        expect(field).to_be_in_viewport()
        told = field.evaluate("(field) => field.validationMessage")
        assert told == dialog.get_by_role("alert").inner_text()
    field.fill("research" if label == "Of the tag" else "")
    create.click()
    expect(dialog).to_have_count(0)
    expect(get_row(page, "Research")).to_be_visible()
