"""Rows chosen with checkboxes and changed together; repricing that is planned, then applied."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ui.accessibility import check_accessibility
from tests.ui.gateway_site import GatewaySite, open_gateway
from tests.ui.support import DESK, PHONE, Person, person
from tests.ui.test_every_page import wait_until_loaded

from playwright.sync_api import Browser, expect  # isort: skip


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewaySite]:
    with open_gateway(tmp_path_factory.mktemp("gateway")) as site:
        for number in range(3):
            site.admin.post("/api/agent/keys", {"name": f"team-{number}"})
        yield site


@pytest.fixture
def gus(browser: Browser, gateway: GatewaySite) -> Iterator[Person]:
    """An administrator at a desk."""
    with person(browser, gateway.serving) as somebody:
        yield somebody


def list_enabled(gateway: GatewaySite) -> dict[str, bool]:
    return {
        one["name"]: one["enabled"]
        for one in gateway.admin.get("/api/agent/keys")["items"]
        if one["name"].startswith("team-")
    }


def test_selected_keys_are_tagged_together_and_undone(gus: Person, gateway: GatewaySite) -> None:
    def tags() -> list[list[str]]:
        keys = gateway.admin.get("/api/agent/keys")["items"]
        return [one["tags"] for one in keys if one["name"].startswith("team-")]

    page = gus.open("/gateway/keys")
    page.get_by_role("button", name="Select several").click()
    for name in ("team-0", "team-1"):
        page.get_by_role("checkbox", name=f"Select {name}").check()
    page.get_by_role("toolbar").get_by_role("button", name="Tags…").click()
    dialog = page.get_by_role("dialog", name="Tags of 2 keys")
    dialog.get_by_role("textbox").fill("research\n2026")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    assert sorted(tags()) == [[], ["research", "2026"], ["research", "2026"]]
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("It is undone")).to_be_visible()
    assert tags() == [[], [], []]


def test_selected_keys_are_disabled_and_deleted_together_and_undone(
    gus: Person, gateway: GatewaySite
) -> None:
    page = gus.open("/gateway/keys")
    page.get_by_role("button", name="Select several").click()
    bar = page.get_by_role("toolbar", name="Actions for the selected keys")
    expect(bar.get_by_role("button", name="Disable")).to_be_disabled()
    for name in ("team-0", "team-2"):
        page.get_by_role("checkbox", name=f"Select {name}").check()
    expect(bar).to_contain_text("2 selected")
    bar.get_by_role("button", name="Disable").click()
    dialog = page.get_by_role("dialog", name="Disable 2 keys?")
    expect(dialog.locator("li")).to_have_text(["team-0", "team-2"])
    dialog.get_by_role("button", name="Disable").click()
    expect(page.locator(".rows li", has_text="team-2")).to_contain_text("disabled")
    assert list_enabled(gateway) == {"team-0": False, "team-1": True, "team-2": False}
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".rows li", has_text="team-2")).not_to_contain_text("disabled")
    assert list_enabled(gateway) == dict.fromkeys(("team-0", "team-1", "team-2"), True)
    changes = gateway.admin.get("/api/agent/changes?limit=2")["items"]
    assert [one["action"] for one in changes] == ["undo", "disable"]


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_choosing_rows_can_be_used_by_everybody_and_fits_the_width(
    browser: Browser, gateway: GatewaySite, size: tuple[int, int], tmp_path: Path
) -> None:
    with person(browser, gateway.serving, size=size) as somebody:
        page = somebody.open("/gateway/keys")
        page.get_by_role("button", name="Select several").click()
        page.get_by_role("checkbox", name="Select team-1").check()
        wait_until_loaded(page)
        check_accessibility(page, tmp_path / "choosing")


def test_repricing_is_planned_then_applied_and_the_first_cost_is_kept(
    gus: Person, gateway: GatewaySite, tmp_path: Path
) -> None:
    assert gateway.ask().status_code == 200
    (before,) = gateway.requests()
    prices = {"input": 30, "output": 150}
    assert gateway.admin.patch("/api/agent/models/by-chat", {"prices": prices}).status == 200
    page = gus.open("/gateway/reprice")
    page.get_by_role("button", name="Plan").click()
    expect(page.locator(".card [role=status]")).to_contain_text("Would change1")
    page.screenshot(path=tmp_path / "planned.png")
    assert gateway.requests()[0]["cost"] == before["cost"]
    page.get_by_role("button", name="Reprice 1 request").click()
    expect(page.get_by_role("button", name="Plan")).to_be_visible()
    expect(page.get_by_text("1 request repriced")).to_be_visible()
    (after,) = gateway.requests()
    assert (after["cost"] > before["cost"], after["was"]) == (True, before["cost"])
    (change,) = gateway.admin.get("/api/agent/changes?action=reprice").json()["items"]
    expect(page.get_by_text(f"no. {change['number']} in Changes undoes it")).to_be_visible()
    page = gus.open("/gateway/changes")
    page.get_by_role("button", name=f"Undo no. {change['number']}").click()
    page.get_by_role("dialog").get_by_role("button", name="Undo").click()
    expect(page.get_by_text(f"undone by no. {change['number'] + 1}")).to_be_visible()
    assert gateway.requests() == [before]


def test_the_search_finds_what_stands_behind_the_first_page_and_beside_a_list_that_fails(
    gus: Person, gateway: GatewaySite
) -> None:
    for number in range(60):
        assert gateway.admin.post("/api/agent/keys", {"name": f"many-{number:02}"}).status == 201
    assert gateway.admin.post("/api/agent/keys", {"name": "zulu"}).status == 201
    page = gus.open("/gateway/keys")
    page.locator(".shell").wait_for()
    page.route("**/api/agent/models*", lambda route: route.fulfill(status=503, json={}))
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("zulu")
    expect(page.get_by_role("option", name="zulu access key")).to_be_visible()
