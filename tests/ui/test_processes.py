"""Processes in the background of a chat: listed on top of its queue, read, kept and stopped."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.supplier.steps import Call, Say
from tests.supplier.supplier import Supplier
from tests.support.daemon import Serving
from tests.ui.accessibility import check_accessibility
from tests.ui.support import PHONE, Person, person

from playwright.sync_api import Browser, Page, expect  # isort: skip

COMMAND = "echo listening on 8000; sleep 600"


@pytest.fixture(scope="module")
def supplier() -> Iterator[Supplier]:
    with Supplier() as serving:
        yield serving


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, supplier: Supplier) -> Iterator[Serving]:
    """The file's daemon, with the native engine."""
    serving = Serving(tmp_path_factory.mktemp("site"), approvals="auto")
    serving.engine = None
    models = {
        "suppliers": {"acme": {"dialect": "openai-chat", "url": supplier.url}},
        "models": [
            {"name": "native", "engine": "native", "supplier": "acme", "model": "scripted-large"}
        ],
    }
    written = Path(serving.layout.models)
    written.parent.mkdir(parents=True)
    written.write_bytes(msgspec.json.encode(models))  # JSON is YAML
    with serving:
        yield serving


def begin(site: Serving, supplier: Supplier) -> int:
    """Return a chat that keeps its processes, of which one runs."""
    supplier.script(Call("start_process", {"command": COMMAND}), Say("It listens."))
    client = site.client()
    chat = client.create_chat(model="native")
    client.put(f"/api/chat/{chat}/settings", {"keepProcesses": True})
    client.post(f"/api/remote/chats/{chat}/queue", {"prompt": "Start the server."})
    assert client.messages(chat)[-1]["content"] == "It listens."
    return chat


def unfold(page: Page) -> None:
    page.get_by_role("button", name="In the background").click()


def test_what_runs_is_listed_read_and_stopped(
    ada: Person, site: Serving, supplier: Supplier
) -> None:
    page = ada.open(f"/{begin(site, supplier)}")
    expect(page.locator(".processes")).to_contain_text("1 running")
    unfold(page)
    listed = page.get_by_role("list", name="Processes in the background")
    listed.get_by_role("button", name=COMMAND, exact=True).click()
    expect(listed.locator("pre")).to_have_text("listening on 8000\n")
    listed.get_by_role("button", name=f"Stop {COMMAND}").click()
    expect(listed).to_contain_text("stopped")
    expect(page.locator(".processes")).to_contain_text("0 running")


def test_a_process_that_begins_is_shown_at_once_and_ends_with_its_setting(
    ada: Person, site: Serving, supplier: Supplier
) -> None:
    client = site.client()
    chat = client.create_chat(model="native")
    page = ada.open(f"/{chat}")
    page.get_by_role("button", name="More", exact=True).click()
    page.get_by_role("menuitemcheckbox", name="Keep processes after a turn").click()
    supplier.script(Call("start_process", {"command": COMMAND}), Say("It listens."))
    page.get_by_label("Prompt", exact=True).fill("Start it.")
    page.keyboard.press("Enter")
    expect(page.locator(".turn").last).to_contain_text("It listens.")
    expect(page.locator(".processes")).to_contain_text("1 running")
    page.get_by_role("button", name="More", exact=True).click()
    page.get_by_role("menuitemcheckbox", name="Keep processes after a turn").click()
    expect(page.locator(".processes")).to_be_hidden()


def test_the_list_is_shown_later_when_it_could_not_be_loaded_at_first(
    ada: Person, site: Serving, supplier: Supplier
) -> None:
    chat = begin(site, supplier)
    address = "**/agent/processes.js"
    ada.context.route(address, lambda route: route.abort())
    page = ada.open("/inbox")
    page.locator(".shell").wait_for()
    with page.expect_event("requestfailed", lambda one: "processes.js" in one.url):
        page.goto(f"{site.url}/{chat}")
    expect(page.locator(".turn").last).to_contain_text("It listens.")
    ada.context.unroute(address)
    supplier.script(Say("It still does."))
    site.client().post(f"/api/remote/chats/{chat}/queue", {"prompt": "And now?"})
    expect(page.locator(".processes")).to_contain_text("1 running")


def test_the_list_is_accessible_on_a_phone(
    browser: Browser, site: Serving, supplier: Supplier
) -> None:
    """Rows 38 and 39."""
    chat = begin(site, supplier)
    with person(browser, site, size=PHONE) as somebody:
        page = somebody.open(f"/{chat}")
        unfold(page)
        page.get_by_role("button", name=COMMAND, exact=True).click()
        expect(page.locator(".processes pre")).to_be_visible()
        check_accessibility(page)
