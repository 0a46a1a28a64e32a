"""Moving from another gateway in a browser: planned, created, and to be filled in."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ui.accessibility import check_accessibility
from tests.ui.gateway_site import GatewaySite, open_gateway
from tests.ui.support import DESK, PHONE, Person, person

from playwright.sync_api import Browser, Page, expect  # isort: skip

KEY = "sk-moved-0123456789abcdef"
LITELLM = f"""
model_list:
- model_name: moved-large
  litellm_params: {{model: openai/gpt-4.1, api_key: {KEY}}}
- model_name: moved-small
  litellm_params: {{model: anthropic/claude-haiku-4-5, api_key: os.environ/HOME}}
router_settings: {{num_retries: 3}}
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


def plan(page: Page) -> None:
    page.get_by_label("Configuration").fill(LITELLM)
    page.get_by_role("button", name="Plan").click()
    expect(page.get_by_role("button", name="Create 2 channels, 2 models")).to_be_visible()


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_a_plan_can_be_read_by_everybody_and_fits_its_width(
    browser: Browser, gateway: GatewaySite, size: tuple[int, int], tmp_path: Path
) -> None:
    with person(browser, gateway.serving, size=size) as somebody:
        page = somebody.open("/gateway/import")
        plan(page)
        check_accessibility(page, tmp_path / "import")


def test_a_file_is_chosen_planned_and_created(
    gus: Person, gateway: GatewaySite, tmp_path: Path
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(LITELLM)
    page = gus.open("/gateway/import")
    page.get_by_label("File").set_input_files(file)
    expect(page.get_by_label("Configuration")).to_have_value(LITELLM)
    page.get_by_role("button", name="Plan").click()
    told = page.get_by_role("region", name="Not taken")
    expect(told).to_contain_text("config.yaml:6: model_list[1].litellm_params.api_key")
    expect(told).to_contain_text("fill in its value")
    expect(told).to_contain_text("router_settings.num_retries")
    assert gateway.admin.get("/api/agent/channels?name=anthropic")["items"] == []
    page.get_by_role("button", name="Create 2 channels, 2 models").click()
    missing = page.get_by_role("region", name="To be filled in")
    expect(missing.get_by_role("link")).to_have_text(["anthropic"])
    assert gateway.admin.get("/api/agent/channels/openai")["key"].endswith(KEY[-4:])
    assert gateway.admin.get("/api/agent/models/moved-small")["enabled"] is True
    missing.get_by_role("link", name="anthropic").click()
    expect(page.get_by_role("heading", name="anthropic", level=1)).to_be_visible()
    (change,) = gateway.admin.get("/api/agent/changes?resource=import")["items"]
    assert gateway.admin.send("POST", f"/api/agent/changes/{change['number']}/undo").status == 200


def test_what_is_no_configuration_is_told_in_place(gus: Person) -> None:
    page = gus.open("/gateway/import")
    page.get_by_label("Configuration").fill("just text")
    page.get_by_role("button", name="Plan").click()
    expect(page.get_by_role("alert").first).to_contain_text("neither a LiteLLM configuration")
    page.get_by_label("Configuration").fill("x" * 900_001)
    page.get_by_role("button", name="Plan").click()
    message = page.get_by_label("Configuration").evaluate("one => one.validationMessage")
    assert "too large" in message
    expect(page.get_by_role("button", name="Plan")).to_be_enabled()
