"""Two people change the same resource of the gateway: nothing of theirs is lost unseen."""

from collections.abc import Iterator

import pytest

from tests.ui.gateway_site import GatewaySite, open_gateway
from tests.ui.support import Person, person

from playwright.sync_api import Browser, Locator, expect  # isort: skip


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewaySite]:
    with open_gateway(tmp_path_factory.mktemp("gateway")) as site:
        yield site


@pytest.fixture
def gus(browser: Browser, gateway: GatewaySite) -> Iterator[Person]:
    """An administrator at a desk."""
    with person(browser, gateway.serving) as somebody:
        yield somebody


def open_form(gus: Person, path: str) -> Locator:
    """Open the form of a resource."""
    page = gus.open(path)
    page.get_by_role("button", name="Edit", exact=True).click()
    return page.get_by_role("dialog")


def save(dialog: Locator) -> None:
    dialog.get_by_role("button", name="Save").click()


def test_prices_that_only_the_other_changed_are_kept(gus: Person, gateway: GatewaySite) -> None:
    """Row 35."""
    api = "/api/agent/models/by-chat"
    dialog = open_form(gus, "/gateway/models/by-chat")
    dialog.get_by_label("Price of output").fill("20")
    tier = {"tokens": 200_000, "input": 8, "output": 30}
    theirs = {**gateway.admin.get(api)["prices"], "input": 4, "above": [tier]}
    gateway.admin.patch(api, {"prices": theirs})
    save(dialog)
    expect(dialog).to_have_count(0)
    saved = gateway.admin.get(api)["prices"]
    assert (saved["input"], saved["output"]) == (4, 20)
    assert [one["tokens"] for one in saved["above"]] == [200_000]


def test_what_was_there_before_can_be_chosen_over_theirs(gus: Person, gateway: GatewaySite) -> None:
    """Row 35. Only the limit that both changed is asked about."""
    made = gateway.admin.post(
        "/api/agent/keys", {"name": "contested", "limits": {"day": 1, "week": 5}}
    )
    api = f"/api/agent/keys/{made['id']}"
    dialog = open_form(gus, f"/gateway/keys/{made['id']}")
    dialog.get_by_label("USD a day").first.fill("3")
    gateway.admin.patch(api, {"limits": {"day": 2, "week": 9}, "owner": "ann"})
    save(dialog)
    expect(dialog.get_by_role("row")).to_have_count(2)
    expect(dialog.get_by_role("button", name="Take theirs")).to_be_in_viewport(ratio=1)
    dialog.get_by_label("USD a day").first.fill("1")
    save(dialog)
    expect(dialog).to_have_count(0)
    saved = gateway.admin.get(api)
    assert (saved["limits"]["day"], saved["limits"]["week"], saved["owner"]) == (1, 9, "ann")


def test_limits_that_both_changed_are_compared_in_words(gus: Person, gateway: GatewaySite) -> None:
    """Row 35. Not as the JSON that the form keeps."""
    before = {"gpt-5": {"day": 1, "parallel": 2}, "claude-*": {"week": 5}}
    made = gateway.admin.post("/api/agent/keys", {"name": "compared", "modelLimits": before})
    api = f"/api/agent/keys/{made['id']}"
    dialog = open_form(gus, f"/gateway/keys/{made['id']}")
    dialog.get_by_role("group", name="Limits per model, 1").get_by_label("USD/day").fill("3")
    gateway.admin.patch(api, {"modelLimits": {**before, "gpt-5": {"day": 2, "parallel": 2}}})
    save(dialog)
    expect(dialog.get_by_role("row")).to_have_count(2)
    yours, theirs = dialog.get_by_role("row").last.get_by_role("cell").all()
    expect(yours).to_have_text("gpt-5: USD/day 3, At once 2\nclaude-*: USD/week 5")
    expect(theirs).to_contain_text("gpt-5: USD/day 2, At once 2\nclaude-*: USD/week 5")
    theirs.get_by_role("button", name="Take theirs").click()
    save(dialog)
    expect(dialog).to_have_count(0)
    assert gateway.admin.get(api)["modelLimits"]["gpt-5"]["day"] == 2


def test_a_secret_that_looks_like_theirs_replaces_it_only_when_saved_again(
    gus: Person, gateway: GatewaySite
) -> None:
    """Row 35. Neither secret is shown."""
    api = "/api/agent/channels/chat"
    dialog = open_form(gus, "/gateway/channels/chat")
    dialog.locator("[name=key]").fill("sk-mine-0123456789-cdef")
    gateway.admin.patch(api, {"key": "sk-theirs-0123456789-cdef"})
    save(dialog)
    expect(dialog.get_by_role("alert").first).to_contain_text("maybe the secret, too")
    stored = gateway.setup.folder / "config" / "channels.yml"
    assert "sk-theirs-0123456789-cdef" in stored.read_text()
    save(dialog)
    expect(dialog).to_have_count(0)
    assert "sk-mine-0123456789-cdef" in stored.read_text()

    dialog = open_form(gus, "/gateway/channels/chat")
    dialog.locator("[name=key]").fill("sk-mine-0123456789-new1")
    gateway.admin.patch(api, {"key": "sk-theirs-0123456789-new2"})
    save(dialog)
    expect(dialog.get_by_role("row").last).to_contain_text("another one")
    expect(dialog.get_by_role("alert").first).not_to_contain_text("sk-mine")


def test_what_another_changes_of_keys_and_budgets_is_shown_at_once(
    gus: Person, gateway: GatewaySite
) -> None:
    """Row 34. No request passes meanwhile."""
    made = gateway.admin.post("/api/agent/keys", {"name": "watched", "limits": {"day": 1}})
    api = f"/api/agent/keys/{made['id']}"
    page, keys = gus.open(f"/gateway/keys/{made['id']}"), gus.open("/gateway/keys")
    budgets, managers = gus.open("/gateway/budgets"), gus.open("/gateway/management-keys")
    expect(page.get_by_text("of $1.00 a day")).to_be_visible()
    expect(keys.get_by_text("watched")).to_be_visible()
    expect(budgets.get_by_text("No budgets yet")).to_be_visible()
    expect(managers.get_by_text("No management keys yet")).to_be_visible()
    gateway.admin.patch(api, {"limits": {"day": 7}})
    expect(page.get_by_text("of $7.00 a day")).to_be_visible(timeout=10_000)
    expect(keys.get_by_text("of $7.00 a day")).to_be_visible(timeout=10_000)
    gateway.admin.post("/api/agent/budgets", {"name": "shared", "tag": "team"})
    expect(budgets.get_by_text("shared")).to_be_visible(timeout=10_000)
    gateway.admin.post("/api/agent/management-keys", {"name": "monitor", "scope": "read"})
    expect(managers.get_by_text("monitor", exact=True)).to_be_visible(timeout=10_000)
    gateway.admin.delete(api)
    expect(keys.get_by_text("watched")).to_have_count(0, timeout=10_000)
    expect(page.get_by_text("There is no access key")).to_be_visible(timeout=10_000)
