"""A change whose answer was lost, as by a killed daemon: the next try says that it may be made."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ui.gateway_site import GatewaySite, open_gateway
from tests.ui.support import DESK, PHONE, Person, person

from playwright.sync_api import Browser, Locator, Page, Route, expect  # isort: skip

LOST = "agentd does not answer"
DOUBT = "agentd did not answer the try before, but may have carried it out"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewaySite]:
    with open_gateway(tmp_path_factory.mktemp("gateway")) as site:
        yield site


@pytest.fixture
def gus(browser: Browser, gateway: GatewaySite) -> Iterator[Person]:
    """An administrator at a desk."""
    with person(browser, gateway.serving) as somebody:
        yield somebody


def save_without_an_answer(page: Page, button: Locator, address: str) -> None:
    """Press the button, and let the daemon carry the change out while the page hears nothing."""

    def lose(route: Route) -> None:
        if route.request.method == "GET":
            route.continue_()
            return
        assert route.fetch().ok
        route.abort()

    page.route(address, lose)
    button.click()
    expect(page.get_by_role("alert").filter(has_text=LOST)).to_be_visible()
    page.unroute(address)


@pytest.mark.parametrize("size", [DESK, PHONE])
def test_a_key_that_was_made_is_not_made_again(
    browser: Browser, gateway: GatewaySite, size: tuple[int, int]
) -> None:
    name = f"lost {size[0]}"
    with person(browser, gateway.serving, size=size) as somebody:
        page = somebody.open("/gateway/keys")
        page.get_by_role("button", name="New key").click()
        dialog = page.get_by_role("dialog")
        dialog.locator("[name=name]").fill(name)
        create = dialog.get_by_role("button", name="Create key")
        save_without_an_answer(page, create, "**/api/agent/keys")
        create.click()
        expect(dialog.get_by_role("alert")).to_contain_text(f'There is an access key "{name}"')
        expect(dialog.get_by_text(DOUBT)).to_be_in_viewport()
        expect(dialog.locator("[name=name]")).to_have_value(name)
    listed = gateway.admin.get("/api/agent/keys")["items"]
    assert [one["name"] for one in listed].count(name) == 1


def test_a_name_that_is_taken_without_a_lost_answer_is_told_without_doubt(gus: Person) -> None:
    page = gus.open("/gateway/keys")
    page.get_by_role("button", name="New key").click()
    dialog = page.get_by_role("dialog")
    dialog.locator("[name=name]").fill("laptop")
    for _ in range(2):
        dialog.get_by_role("button", name="Create key").click()
        expect(dialog.get_by_role("alert")).to_contain_text("There is an access key")
    expect(dialog.get_by_text(DOUBT)).to_have_count(0)


def test_a_change_that_was_made_is_saved_by_the_next_try(gus: Person, gateway: GatewaySite) -> None:
    page = gus.open(f"/gateway/keys/{gateway.ids['laptop']}")
    page.get_by_role("button", name="Edit", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Owner").fill("ann@example.com")
    save = dialog.get_by_role("button", name="Save")
    save_without_an_answer(page, save, "**/api/agent/keys/*")
    save.click()
    expect(page.get_by_text("Saved", exact=True)).to_be_visible()
    expect(dialog).to_have_count(0)
    expect(page.get_by_text("ann@example.com").first).to_be_visible()


def test_a_model_that_got_its_new_name_is_not_simply_missing(
    gus: Person, gateway: GatewaySite
) -> None:
    page = gus.open("/gateway/models/by-gemini")
    page.get_by_role("button", name="Edit", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.locator("[name=name]").fill("renamed")
    save = dialog.get_by_role("button", name="Save")
    save_without_an_answer(page, save, "**/api/agent/models/*")
    save.click()
    expect(dialog.get_by_text(DOUBT)).to_be_visible()
    names = [one["name"] for one in gateway.admin.get("/api/agent/models")["items"]]
    assert ("renamed" in names, "by-gemini" in names) == (True, False)


def test_settings_that_were_saved_are_told_to_be_saved(gus: Person, gateway: GatewaySite) -> None:
    page = gus.open("/gateway/settings")
    tries = page.get_by_label("Channels asked for one request")
    tries.fill("7")
    form = page.locator("form", has=tries)
    save = form.get_by_role("button", name="Save")
    save_without_an_answer(page, save, "**/api/agent/settings")
    save.click()
    expect(page.get_by_text("All of it is saved already")).to_be_visible()
    expect(form.get_by_role("alert")).to_have_text("")
    expect(tries).to_have_value("7")
    stored = Path(gateway.setup.layout.gateway_settings).read_text()
    assert '"tries": 7' in stored or "tries: 7" in stored
