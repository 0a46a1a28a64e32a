"""What somebody has typed or moved on the gateway's pages, while the pages or others change."""

import re
from collections.abc import Iterator

import pytest

from tests.support.daemon import until
from tests.ui.gateway_site import GatewaySite, open_gateway
from tests.ui.support import Person, hold_requests, person

from playwright.sync_api import Browser, expect  # isort: skip

CONFIGURATION = """\
model_list:
- model_name: taken
  litellm_params: {model: openai/gpt-4o, api_key: sk-0123456789abcdef}
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewaySite]:
    with open_gateway(tmp_path_factory.mktemp("gateway")) as site:
        yield site


@pytest.fixture
def gus(browser: Browser, gateway: GatewaySite) -> Iterator[Person]:
    """An administrator at a desk."""
    with person(browser, gateway.serving) as somebody:
        yield somebody


def test_a_name_is_typed_on_while_the_list_follows(gus: Person, gateway: GatewaySite) -> None:
    """Row 38."""
    for number in range(13):
        gateway.admin.post("/api/agent/keys", {"name": f"numbered {number}"})
    page = gus.open("/gateway/keys")
    field = page.get_by_label("Find keys by name")
    rows = page.locator(".rows > li")
    field.click()
    page.keyboard.type("numbered 1")
    expect(rows).to_have_count(4)
    page.keyboard.type("2")
    expect(rows).to_have_count(1)
    expect(field).to_be_focused()
    expect(field).to_have_value("numbered 12")


def test_a_dialog_stays_when_a_selection_of_text_ends_beside_it(gus: Person) -> None:
    page = gus.open("/gateway/keys?new=1")
    dialog = page.get_by_role("dialog")
    field = dialog.locator("input[name=name]")
    field.fill("selected")
    place, around = field.bounding_box(), dialog.bounding_box()
    assert place
    assert around
    height = place["y"] + place["height"] / 2
    page.mouse.move(place["x"] + place["width"] / 2, height)
    page.mouse.down()
    page.mouse.move(around["x"] - 40, height, steps=4)
    page.mouse.up()
    expect(field).to_be_focused()
    expect(field).to_have_value("selected")
    assert page.evaluate("getSelection().toString()") == "selected"
    page.mouse.click(around["x"] - 40, height)
    page.get_by_role("button", name="Discard").click()
    expect(dialog).to_have_count(0)


def test_a_plan_is_forgotten_without_taking_the_focus(gus: Person) -> None:
    """Row 38."""
    page = gus.open("/gateway/import")
    text = page.get_by_label("Configuration")
    text.fill(CONFIGURATION)
    page.get_by_role("button", name="Plan").click()
    expect(page.get_by_role("button", name=re.compile("^Create "))).to_be_visible()
    text.press("Control+End")
    page.keyboard.type("# typed on")
    expect(text).to_have_value(f"{CONFIGURATION}# typed on")
    expect(page.get_by_role("button", name="Plan")).to_be_visible()


def test_routes_that_are_not_saved_stay_while_others_change(
    gus: Person, gateway: GatewaySite
) -> None:
    page = gus.open("/gateway/models/by-chat")
    page.get_by_role("button", name="Actions for the route through messages").click()
    page.get_by_role("menuitem", name="Move up").click()
    expect(page.get_by_role("button", name="Save routes")).to_be_visible()
    model = "/api/agent/models/by-chat"
    gateway.admin.post(
        "/api/agent/channels",
        {"name": "newer", "dialects": ["openai-chat"], "url": gateway.supplier.url, "local": True},
    )
    gateway.admin.patch(model, {"context": 123_000})
    expect(page.get_by_text("123,000 tokens")).to_be_visible()
    page.get_by_role("button", name="Add a route").click()
    expect(page.get_by_role("dialog").get_by_label("Channel")).to_contain_text("newer")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Save routes").click()
    expect(page.get_by_role("button", name="Save routes")).to_have_count(0)
    routes = gateway.admin.get(model)["routes"]
    assert [one["channel"] for one in routes] == ["chat", "messages", "responses"]
    gateway.admin.patch(model, {"routes": routes[:1]})
    expect(page.locator(".routes > li")).to_have_count(1)


def test_settings_that_are_not_saved_stay_and_both_versions_are_shown(
    gus: Person, gateway: GatewaySite
) -> None:
    """Row 35."""
    api = "/api/agent/settings"

    def read(name: str) -> object:
        found = {one["name"]: one["value"] for one in gateway.admin.get(api)["settings"]}
        return found[name]

    page = gus.open("/gateway/settings")
    card = page.get_by_role("region", name="Requests")
    silence, tries = card.get_by_label("Silence of a stream"), card.get_by_label("Channels asked")
    silence.fill("99")
    gateway.admin.patch(api, {"tries": 5})
    expect(tries).to_have_value("5")
    expect(silence).to_have_value("99")
    gateway.admin.patch(api, {"idle_timeout": 77})
    row = card.get_by_role("row", name="Silence of a stream")
    expect(row).to_contain_text("77")
    expect(silence).to_have_value("99")
    card.get_by_role("button", name="Save").click()
    expect(row).to_have_count(0)
    until(lambda: read("idle_timeout") == 99)
    assert read("tries") == 5
    silence.fill("98")
    page.context.set_offline(True)
    gateway.admin.patch(api, {"idle_timeout": 66})
    page.context.set_offline(False)
    expect(row).to_contain_text("66")
    row.get_by_role("button", name="Take theirs").click()
    expect(silence).to_have_value("66")


def test_what_is_typed_while_settings_are_saved_stays(gus: Person) -> None:
    page = gus.open("/gateway/settings")
    card = page.get_by_role("region", name="Requests")
    field = card.get_by_label("Silence of a stream")
    field.fill("51")
    held = hold_requests(page, "**/api/agent/settings")
    card.get_by_role("button", name="Save").click()
    for _ in range(2):  # it is read, and then changed
        until(lambda: page.evaluate("true") and held)
        field.fill("512")
        held.pop().continue_()
    page.unroute("**/api/agent/settings")
    expect(page.locator(".toast", has_text="Saved")).to_be_visible()
    expect(field).to_have_value("512")


def test_all_filters_are_cleared_the_part_of_the_id_too(gus: Person) -> None:
    """Row 24."""
    page = gus.open("/gateway/requests?model=by-chat")
    field = page.get_by_label("Part of the request id")
    field.fill("zzz")
    expect(page).to_have_url(re.compile("id=zzz"))
    expect(page.get_by_text("No request is like that")).to_be_visible()
    page.get_by_role("button", name="Filter", exact=True).click()
    page.get_by_role("button", name="Clear all").click()
    expect(page).to_have_url(re.compile("/requests$"))
    expect(field).to_have_value("")


def test_a_day_is_typed_digit_by_digit(gus: Person) -> None:
    """Row 38."""
    page = gus.open("/gateway/reports/by-model")
    page.get_by_role("button", name="Custom").click()
    first = page.get_by_label("First day")
    first.focus()
    page.keyboard.type("01152026")
    expect(first).to_have_value("2026-01-15")
    expect(page).to_have_url(re.compile("from=2026-01-15"))


@pytest.mark.parametrize(
    ("address", "name", "read"),
    [
        ("/gateway/models/by-chat", "Edit", "**/api/agent/models/by-chat"),
        ("/gateway/requests", "Filter", "**/api/agent/channels?**"),
    ],
)
def test_a_button_that_is_clicked_twice_opens_one_dialog(
    gus: Person, address: str, name: str, read: str
) -> None:
    page = gus.open(address)
    button = page.get_by_role("button", name=name, exact=True)
    button.wait_for()
    held = hold_requests(page, read)
    button.click()
    button.click()
    until(lambda: page.evaluate("true") and len(held) == 2)
    for one in held:
        one.continue_()
    page.unroute(read)
    dialog = page.get_by_role("dialog")
    dialog.first.wait_for()
    page.wait_for_load_state("networkidle")
    expect(dialog).to_have_count(1)
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_settings_that_are_not_saved_are_there_when_one_comes_back(
    gus: Person, gateway: GatewaySite
) -> None:
    """Row 35."""
    api = "/api/agent/settings"
    page = gus.open("/gateway/settings")
    card = page.get_by_role("region", name="Requests")
    silence, tries = card.get_by_label("Silence of a stream"), card.get_by_label("Channels asked")
    silence.fill("91")
    tries.fill("7")
    page.get_by_role("link", name="Channels").first.click()
    expect(silence).to_have_count(0)
    gateway.admin.patch(api, {"tries": 6, "max_body": 9_000_000})
    page.go_back()
    expect(silence).to_have_value("91")
    expect(tries).to_have_value("7")
    expect(card.get_by_label("Largest request")).to_have_value("9000000")
    expect(card.get_by_role("row", name="Channels asked")).to_contain_text("6")
    card.get_by_role("button", name="Save").click()
    expect(page.locator(".toast", has_text="Saved")).to_be_visible()
    found = {one["name"]: one["value"] for one in gateway.admin.get(api)["settings"]}
    assert (found["idle_timeout"], found["tries"], found["max_body"]) == (91, 7, 9_000_000)


def test_routes_that_are_not_saved_are_there_after_another_page(
    gus: Person, gateway: GatewaySite
) -> None:
    model = {
        "name": "left",
        "routes": [
            {"channel": "chat", "model": "scripted-large"},
            {"channel": "messages", "model": "scripted-large", "priority": 1},
        ],
    }
    gateway.admin.post("/api/agent/models", model)
    page = gus.open("/gateway/models/left")
    names = page.locator(".routes .name b")
    save = page.get_by_role("button", name="Save routes")

    def move_up() -> None:
        page.get_by_role("button", name="Actions for the route through messages").click()
        page.get_by_role("menuitem", name="Move up").click()
        expect(names).to_have_text(["messages", "chat"])

    def leave_and_return() -> None:
        page.get_by_role("link", name="Channels", exact=True).click()
        expect(page.get_by_role("heading", name="Channels", level=1)).to_be_visible()
        page.go_back()

    move_up()
    leave_and_return()
    expect(names).to_have_text(["messages", "chat"])
    page.get_by_role("button", name="Discard").click()
    expect(names).to_have_text(["chat", "messages"])
    leave_and_return()
    expect(names).to_have_text(["chat", "messages"])
    move_up()
    leave_and_return()
    save.click()
    expect(save).to_have_count(0)
    kept = gateway.admin.get("/api/agent/models/left")["routes"]
    assert [one["channel"] for one in kept] == ["messages", "chat"]


def test_routes_that_are_there_after_another_page_do_not_replace_others(
    gus: Person, gateway: GatewaySite
) -> None:
    """Row 35."""
    routes = [
        {"channel": "chat", "model": "scripted-large"},
        {"channel": "messages", "model": "scripted-large", "priority": 1},
    ]
    gateway.admin.post("/api/agent/models", {"name": "met", "routes": routes})
    page = gus.open("/gateway/models/met")
    page.get_by_role("button", name="Actions for the route through messages").click()
    page.get_by_role("menuitem", name="Move up").click()
    page.get_by_role("link", name="Channels", exact=True).click()
    expect(page.get_by_role("heading", name="Channels", level=1)).to_be_visible()
    gateway.admin.patch("/api/agent/models/met", {"routes": routes[:1]})
    page.go_back()
    page.get_by_role("button", name="Save routes").click()
    expect(page.get_by_text("Somebody changed the routes meanwhile")).to_be_visible()
    page.get_by_role("button", name="Discard").click()
    expect(page.locator(".routes > li")).to_have_count(1)
