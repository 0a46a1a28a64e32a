"""The trash in the browser."""

from typing import Any

import pytest

from tests.support.daemon import Client, Serving, until
from tests.ui.accessibility import check_accessibility
from tests.ui.support import DESK, PHONE, Person, hold_requests, person
from tests.ui.test_every_page import PAYLOADS, wait_until_loaded
from tests.ui.test_queue import refuse, take_held

from playwright.sync_api import Browser, Locator, Page, Route, expect  # isort: skip


@pytest.fixture(scope="module")
def client(site: Serving) -> Client:
    """A client of the file's daemon."""
    return site.client()


def create_deleted_chat(client: Client, title: str) -> int:
    """Create a chat and move it into the trash."""
    chat = client.create_chat(title=title, prompt="hello")
    client.messages(chat)
    assert client.delete(f"/api/chats/{chat}").status == 200
    return chat


def list_trash(client: Client) -> list[int]:
    """List the ids of the chats in the trash."""
    rows: list[dict[str, Any]] = client.get("/api/chats/trash")["chats"]
    return [row["chat"]["chatId"] for row in rows]


def find_row(page: Page, title: str) -> Locator:
    """Find the row of a chat."""
    return page.locator(".trash-row", has_text=title)


def test_a_chat_is_restored_and_gone_from_every_tab(ada: Person, client: Client) -> None:
    chat = create_deleted_chat(client, "Bring me back")
    page, other = ada.open("/chats/trash"), ada.open("/chats/trash")
    expect(find_row(other, "Bring me back")).to_contain_text("30 days left")
    page.get_by_role("button", name="Restore Bring me back").click()
    for tab in (page, other):
        expect(find_row(tab, "Bring me back")).to_have_count(0)
        expect(tab.locator(".chats .item", has_text="Bring me back")).to_be_visible()
    until(lambda: client.get(f"/api/chats/{chat}").status == 200)


def test_a_chat_that_is_deleted_elsewhere_appears(ada: Person, client: Client) -> None:
    page = ada.context.new_page()
    held: list[Route] = []

    def hold(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append(route)

    page.route("**/api/chats/trash", hold)
    page.goto(f"{ada.url}/chats/trash")
    until(lambda: page.title() and held)
    expect(page.locator(".foot small")).to_contain_text("live")
    before = {"chats": client.get("/api/chats/trash").json()["chats"]}
    create_deleted_chat(client, "Deleted meanwhile")
    expect(find_row(page, "Deleted meanwhile")).to_be_visible()
    with page.expect_response("**/api/chats/trash"):
        held[0].fulfill(json=before)  # the first answer comes last
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 30)))")
    expect(find_row(page, "Deleted meanwhile")).to_be_visible()


def test_a_chat_is_deleted_for_good_only_when_that_is_confirmed(
    ada: Person, client: Client
) -> None:
    chat = create_deleted_chat(client, "Not wanted")
    page = ada.open("/chats/trash")
    button = page.get_by_role("button", name="Delete Not wanted for good")
    button.click()
    page.get_by_role("button", name="Cancel").click()
    expect(find_row(page, "Not wanted")).to_be_visible()
    assert chat in list_trash(client)
    button.click()
    page.get_by_role("button", name="Delete for good", exact=True).click()
    expect(find_row(page, "Not wanted")).to_have_count(0)
    until(lambda: chat not in list_trash(client))
    page.reload()
    wait_until_loaded(page)
    expect(find_row(page, "Not wanted")).to_have_count(0)


def test_what_the_daemon_does_not_do_is_taken_back(ada: Person, client: Client) -> None:
    create_deleted_chat(client, "Stays here")
    page = ada.open("/chats/trash")
    page.route("**/restore", lambda route: route.abort())
    page.get_by_role("button", name="Restore Stays here").click()
    expect(page.locator(".toast.bad")).to_contain_text("agentd does not answer")
    expect(find_row(page, "Stays here")).to_be_visible()
    page.unroute("**/restore")
    page.get_by_role("button", name="Retry").click()
    expect(find_row(page, "Stays here")).to_have_count(0)


def test_a_chat_that_could_not_be_restored_is_listed_once(ada: Person, client: Client) -> None:
    """Also if the list was read again meanwhile."""
    create_deleted_chat(client, "Still here")
    page = ada.open("/chats/trash")
    held = hold_requests(page, "**/restore")
    page.get_by_role("button", name="Restore Still here").click()
    request = take_held(page, held)
    expect(find_row(page, "Still here")).to_have_count(0)
    create_deleted_chat(client, "Another")
    expect(find_row(page, "Another")).to_be_visible()
    refuse(request)
    expect(page.locator(".toast")).to_contain_text("The disk is full")
    expect(find_row(page, "Still here")).to_have_count(1)


def test_ten_thousand_deleted_chats_are_found_by_title_with_few_in_the_document(
    ada: Person, client: Client
) -> None:
    """Row 23, for the trash."""
    create_deleted_chat(client, "The one")
    [one] = [
        row for row in client.get("/api/chats/trash")["chats"] if row["chat"]["title"] == "The one"
    ]
    many = [
        {**one, "chat": {**one["chat"], "chatId": 1_000_000 + number, "title": f"Chat {number}"}}
        for number in range(10_000)
    ]
    page = ada.context.new_page()
    page.route("**/api/chats/trash", lambda route: route.fulfill(json={"chats": many}))
    page.goto(f"{ada.url}/chats/trash")
    expect(page.get_by_text("10,000 chats")).to_be_visible()
    expect(page.locator(".trash-row").first).to_be_visible()
    assert page.locator(".trash-row").count() <= 300
    page.get_by_role("region", name="Trash").evaluate("(node) => { node.scrollTop = 1e9; }")
    expect(find_row(page, "Chat 9999")).to_be_visible()
    page.get_by_label("Find in the trash").fill("chat 777")
    expect(page.locator(".trash-row")).to_have_count(11)
    page.get_by_label("Find in the trash").fill("none has this")
    expect(page.get_by_text("No deleted chat has this in its title")).to_be_visible()


def test_no_title_becomes_code(ada: Person, client: Client, site: Serving) -> None:
    """Row 36."""
    requests: list[str] = []
    ada.context.on("request", lambda request: requests.append(request.url))
    for text in PAYLOADS:
        create_deleted_chat(client, text)
    page = ada.open("/chats/trash")
    expect(find_row(page, PAYLOADS[0])).to_be_visible()
    page.get_by_role("button", name=f"Delete {PAYLOADS[1]} for good").click()
    expect(page.get_by_role("dialog")).to_contain_text(PAYLOADS[1])
    assert page.evaluate("window.hit") is None
    assert page.locator("main img, main iframe, main script, main style").count() == 0
    assert not [url for url in requests if not url.startswith(site.url)]


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_the_page_can_be_used_by_everybody(
    browser: Browser, site: Serving, client: Client, size: tuple[int, int]
) -> None:
    """Rows 37 to 39."""
    create_deleted_chat(
        client, "A long title that needs more room than a phone has in one line of its list"
    )
    with person(browser, site, size=size) as somebody:
        page = somebody.open("/chats/trash")
        expect(page.locator(".trash-row").first).to_be_visible()
        wait_until_loaded(page)
        check_accessibility(page)
