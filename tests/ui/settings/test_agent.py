"""Settings, Agent: the settings of ``agentd.yml``, saved by card, followed while one edits."""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentd.cli.main import main
from tests.support.daemon import Serving, until
from tests.ui.support import Person, hold_requests

from playwright.sync_api import Page, Route, expect  # isort: skip

DIGEST = hashlib.sha256(b"the management key").hexdigest()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A daemon whose settings were written by hand."""
    folder = tmp_path_factory.mktemp("site")
    serving = Serving(folder)
    file = Path(serving.layout.settings)
    file.parent.mkdir(parents=True)
    file.write_text(
        f"# mine\nport: 0\nworkspace: {folder}\nproxy_app_hash: {DIGEST}\n"
        "turn_steps: 80  # many\nbudget_per_day: 20\n"
    )
    with serving:
        yield serving


@pytest.fixture
def file(site: Serving) -> Iterator[Path]:
    """``agentd.yml``, which is afterwards as it was."""
    file = Path(site.layout.settings)
    before = file.read_text()
    yield file
    file.write_text(before)


def save_card(page: Page, title: str) -> None:
    """Save a card."""
    card = page.get_by_role("region", name=title, exact=True)
    card.get_by_role("button", name="Save").click()
    expect(card.locator("footer")).to_contain_text("Saved to agentd.yml")


def test_a_card_is_saved_and_the_file_keeps_its_comments(ada: Person, file: Path) -> None:
    page = ada.open("/settings/agent")
    steps = page.get_by_label("Turn steps")
    expect(steps).to_have_value("80")
    steps.fill("90")
    page.get_by_label("Codex command").fill("codex\n--yolo")
    save_card(page, "Turns")
    assert "turn_steps: 90  # many" in file.read_text()
    assert "codex_command" not in file.read_text(), "another card is saved by itself"
    expect(page.get_by_label("Codex command")).to_have_value("codex\n--yolo")
    save_card(page, "Who answers")
    assert "--yolo" in file.read_text()
    page.get_by_label("Budget per day").fill("12.50")
    page.get_by_label("Approvals").select_option("deny")
    save_card(page, "Budgets")
    save_card(page, "Questions")
    assert "approvals: 'deny'" in file.read_text()
    page.locator(".setting", has=page.get_by_label("Budget per day")).get_by_role(
        "button", name="Back to the default"
    ).click()
    expect(page.get_by_label("Budget per day")).to_have_value("")
    until(lambda: "budget_per_day" not in file.read_text())


def test_a_secret_is_masked_and_stays_when_its_card_is_saved(ada: Person, file: Path) -> None:
    """Row 27."""
    page = ada.open("/settings/agent")
    secret = page.get_by_label("Proxy app hash")
    expect(secret).to_have_value("********")
    assert DIGEST not in page.content()
    secret.fill("x")
    secret.fill("********")
    expect(
        page.get_by_role("region", name="Sign-in").get_by_role("button", name="Save")
    ).to_be_disabled()
    assert DIGEST in file.read_text()


def test_a_wrong_value_is_told_and_stays_in_the_field(ada: Person, file: Path) -> None:
    before = file.read_text()
    page = ada.open("/settings/agent")
    page.get_by_label("Turn steps").fill("0")
    card = page.get_by_role("region", name="Turns", exact=True)
    card.get_by_role("button", name="Save").click()
    expect(card.get_by_role("alert")).to_contain_text("turn_steps")
    expect(page.get_by_label("Turn steps")).to_have_value("0")
    assert file.read_text() == before
    card.get_by_role("button", name="Discard").click()
    expect(page.get_by_label("Turn steps")).to_have_value("80")


def test_a_hand_edit_is_shown_and_beside_a_draft_both_are(ada: Person, file: Path) -> None:
    """Rows 34 and 35."""
    page = ada.open("/settings/agent")
    steps = page.get_by_label("Turn steps")
    page.get_by_label("Max parallel turns").fill("7")
    file.write_text(file.read_text().replace("80", "81") + "max_parallel_turns: 5\n")
    expect(steps).to_have_value("81")
    parallel = page.locator(".setting", has=page.get_by_label("Max parallel turns"))
    expect(parallel.get_by_role("status")).to_contain_text("5")
    expect(page.get_by_label("Max parallel turns")).to_have_value("7")
    parallel.get_by_role("button", name="Take that").click()
    expect(page.get_by_label("Max parallel turns")).to_have_value("5")
    expect(parallel.get_by_role("status")).to_have_count(0)


def test_what_waits_for_a_restart_says_so(ada: Person, file: Path) -> None:
    page = ada.open("/settings/agent")
    page.get_by_label("Port", exact=True).fill("8099")
    save_card(page, "Address and folders")
    setting = page.locator(".setting", has=page.get_by_label("Port", exact=True))
    expect(setting).to_contain_text("Waits for a restart")
    until(lambda: "port: 8099" in file.read_text())


def test_what_is_no_number_is_refused_and_stays(ada: Person, file: Path) -> None:
    before = file.read_text()
    page = ada.open("/settings/agent")
    card = page.get_by_role("region", name="Turns", exact=True)
    card.get_by_label("Turn steps").fill("9O")
    card.get_by_role("button", name="Save").click()
    expect(card.get_by_role("alert")).to_contain_text("turn_steps: this is not a number")
    expect(card.get_by_label("Turn steps")).to_have_value("9O")
    assert file.read_text() == before


def test_what_is_typed_while_a_card_is_saved_stays(ada: Person, file: Path) -> None:
    page = ada.open("/settings/agent")
    card = page.get_by_role("region", name="Turns", exact=True)
    steps = card.get_by_label("Turn steps")
    steps.fill("91")
    held = hold_requests(page, "**/api/settings/set")
    card.get_by_role("button", name="Save").click()
    until(lambda: page.evaluate("true") and held)
    steps.fill("912")
    held.pop().continue_()
    page.unroute("**/api/settings/set")
    expect(page.locator(".toast", has_text="Saved")).to_be_visible()
    expect(steps).to_have_value("912")
    expect(card.locator(".other")).to_have_count(0)
    expect(card.locator("footer")).to_contain_text("1 not saved")
    save_card(page, "Turns")
    assert "turn_steps: 912  # many" in file.read_text()


def test_what_was_typed_and_not_saved_is_there_when_one_comes_back(ada: Person, file: Path) -> None:
    page = ada.open("/settings/agent")
    page.get_by_label("Turn steps").fill("90")
    page.get_by_label("Codex command").fill("codex\n--yolo")
    page.get_by_role("link", name="Models").click()
    expect(page.get_by_label("Turn steps")).to_have_count(0)
    file.write_text(file.read_text().replace("80", "81"))
    page.get_by_role("link", name="Agent").last.click()
    expect(page.get_by_label("Turn steps")).to_have_value("90")
    expect(page.get_by_label("Codex command")).to_have_value("codex\n--yolo")
    setting = page.locator(".setting", has=page.get_by_label("Turn steps"))
    expect(setting.get_by_role("status")).to_contain_text("81")
    save_card(page, "Turns")
    page.get_by_role("region", name="Who answers").get_by_role("button", name="Discard").click()
    for name in ("Models", "Agent"):
        page.get_by_role("link", name=name).last.click()
        expect(page).to_have_title(re.compile(f"^{name}"))
    expect(page.get_by_label("Turn steps")).to_have_value("90")
    expect(page.get_by_label("Codex command")).to_have_value("codex")
    expect(page.locator(".setting.changed")).to_have_count(0)
    assert "turn_steps: 90  # many" in file.read_text()


def test_a_blank_at_the_end_of_a_text_is_not_saved(ada: Person, file: Path, tmp_path: Path) -> None:
    page = ada.open("/settings/agent")
    page.get_by_label("Workspace").fill(f"{tmp_path} ")
    save_card(page, "Address and folders")
    expect(page.get_by_label("Workspace")).to_have_value(str(tmp_path))
    assert f"workspace: '{tmp_path}'\n" in file.read_text()


def test_the_value_in_force_is_told_in_words_whatever_it_is(ada: Person) -> None:
    files = {"certificate": "old.pem", "key": "old.key"}

    def answer(route: Route) -> None:
        view = route.fetch().json()
        tls = next(one for one in view["settings"] if one["name"] == "tls")
        tls |= {"value": files, "next": {**files, "certificate": "new.pem"}, "waits": True}
        route.fulfill(json=view)

    page = ada.context.new_page()
    page.route("**/api/settings/all", answer)
    page.goto(f"{ada.url}/settings/agent")
    setting = page.locator(".setting", has=page.get_by_label("Tls", exact=True))
    expect(setting.locator(".waits")).to_contain_text('"certificate": "old.pem"')


def test_https_is_set_and_taken_back(ada: Person, file: Path, tmp_path: Path) -> None:
    arguments = ["--config", str(tmp_path), "--state", str(tmp_path / "state"), "tls"]
    assert main(arguments) == 0
    made = {
        name: str(tmp_path / "tls" / file_name)
        for name, file_name in (("certificate", "server.crt"), ("key", "server.key"))
    }
    page = ada.open("/settings/agent")
    field = page.get_by_label("Tls", exact=True)
    expect(field).to_have_value("")
    field.fill(json.dumps(made))
    save_card(page, "Address and folders")
    assert made["certificate"] in file.read_text()
    expect(field).to_have_value(re.compile('"key": '))
    field.fill("")
    save_card(page, "Address and folders")
    assert made["certificate"] not in file.read_text()
