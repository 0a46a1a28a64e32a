"""Settings, Configuration: access keys, people, problems of files, the address as a QR code."""

import re
from http.client import HTTPConnection
from pathlib import Path

import pytest

from agentd.auth.password import hash_password
from agentd.auth.roles import User
from agentd.auth.user_store import UserFile
from tests.support.daemon import CHEAP, PATIENCE, WORD, Serving
from tests.ui.support import Person, sign_in
from tests.ui.test_every_page import PAYLOADS

from playwright.sync_api import Browser, Locator, Page, expect  # isort: skip

CONFIGURATION = "/settings/configuration"


def find_card(page: Page, title: str) -> Locator:
    """Find a card of the page."""
    return page.get_by_role("region", name=title, exact=True)


def find_row(page: Page, title: str, name: str) -> Locator:
    """Find the row of a card that begins with this name."""
    return find_card(page, title).locator(
        "li", has=page.locator("b", has_text=re.compile(f"^{name}$"))
    )


def choose_from_menu(page: Page, title: str, name: str, item: str) -> None:
    """Open the menu of a row, and choose."""
    find_row(page, title, name).get_by_role("button", name=f"Actions for {name}").click()
    page.get_by_role("menuitem", name=item).or_(
        page.get_by_role("menuitemradio", name=item)
    ).click()


def test_a_key_is_shown_once_and_what_it_opened_ends_when_it_is_revoked(
    ada: Person, site: Serving
) -> None:
    """Row 6."""
    page = ada.open(CONFIGURATION)
    find_card(page, "Access keys").get_by_role("button", name="Generate key").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("laptop")
    dialog.get_by_role("button", name="Generate key").click()
    key = page.get_by_role("textbox", name="Key").inner_text()
    assert site.client(key).get("/api/remote/bots").status == 200
    page.get_by_role("button", name="Done").click()
    expect(find_row(page, "Access keys", "laptop")).to_contain_text("by ada")
    page.reload()
    expect(find_row(page, "Access keys", "laptop")).to_contain_text("last used")
    assert key not in page.content()

    stream = HTTPConnection("127.0.0.1", site.port, timeout=PATIENCE)
    stream.request("GET", "/api/events", headers={"X-API-Key": key})
    heard = stream.getresponse()
    assert heard.status == 200
    choose_from_menu(page, "Access keys", "laptop", "Revoke")
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(find_row(page, "Access keys", "laptop")).to_have_count(0)
    heard.read()  # returns only because the daemon ended it
    stream.close()
    assert site.client(key).get("/api/remote/bots").status == 401


def test_a_key_is_made_that_may_not_answer_questions(ada: Person, site: Serving) -> None:
    page = ada.open(CONFIGURATION)
    page.get_by_role("button", name="Generate key").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("ci")
    dialog.get_by_label("May answer agents' questions").uncheck()
    dialog.get_by_role("button", name="Generate key").click()
    key = page.get_by_role("textbox", name="Key").inner_text()
    page.get_by_role("button", name="Done").click()
    expect(find_row(page, "Access keys", "ci")).to_contain_text("no answers")
    chat = site.client(key).create_chat()
    refused = site.client(key).put(f"/api/chat/{chat}/settings", {"approvals": "auto"})
    assert refused.status == 403


def test_a_key_is_refused_in_place_and_the_name_stays(ada: Person, site: Serving) -> None:
    site.new_key("taken")
    page = ada.open(CONFIGURATION)
    page.get_by_role("button", name="Generate key").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("taken")
    dialog.get_by_role("button", name="Generate key").click()
    expect(dialog.get_by_role("alert")).not_to_be_empty()
    expect(dialog.get_by_label("Name")).to_have_value("taken")


def test_people_are_added_changed_and_removed(ada: Person, site: Serving) -> None:
    page = ada.open(CONFIGURATION)
    page.get_by_role("button", name="Add a person").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("zoe")
    dialog.get_by_label("Role").select_option("viewer")
    dialog.get_by_label("Password").fill("a word that is good")
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(find_row(page, "People", "zoe")).to_contain_text("viewer")
    login = {"user": "zoe", "password": "a word that is good", "bearer": True}
    client = site.client(None)
    bearer = {"Authorization": f"Bearer {client.post('/api/session', login)['token']}"}
    again = {"Authorization": f"Bearer {client.post('/api/session', login)['token']}"}
    choose_from_menu(page, "People", "zoe", "Logins")
    logins = page.get_by_role("dialog").locator("li")
    expect(logins).to_have_count(2)
    logins.first.get_by_role("button", name="End").click()
    expect(logins).to_have_count(1)
    page.keyboard.press("Escape")
    open_still = [client.get("/api/session", one).status for one in (bearer, again)]
    assert sorted(open_still) == [200, 401]
    choose_from_menu(page, "People", "zoe", "Sign out everywhere")
    expect(page.get_by_text("zoe is signed out everywhere")).to_be_visible()
    for one in (bearer, again):
        assert client.get("/api/session", one).status == 401
    choose_from_menu(page, "People", "zoe", "Role: manager")
    expect(find_row(page, "People", "zoe")).to_contain_text("manager")
    manager = {"Authorization": f"Bearer {client.post('/api/session', login)['token']}"}
    assert client.post("/api/keys", {"name": "zoes-phone"}, headers=manager).status == 201
    choose_from_menu(page, "People", "zoe", "Remove")
    expect(page.get_by_role("dialog")).to_contain_text("until you revoke them: zoes-phone.")
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(find_row(page, "People", "zoe")).to_have_count(0)
    assert client.post("/api/session", login).status == 401


def test_a_broken_file_is_shown_by_line_while_one_edits_it(ada: Person, site: Serving) -> None:
    """Row 33."""
    file = Path(site.layout.models)
    good = file.read_text()
    page = ada.open(CONFIGURATION)
    problems = find_card(page, "Files and problems")
    expect(problems).to_contain_text("No problem")
    try:
        file.write_text("models:\n  - {name: a, engine: offlin}\n")
        expect(problems).to_contain_text("models.yml, line 2")
        expect(problems).to_contain_text("offline")
    finally:
        file.write_text(good)
    expect(problems).to_contain_text("No problem")


def test_text_of_others_is_never_code(ada: Person, site: Serving) -> None:
    """Row 36: what stands in files comes from outside."""
    file = Path(site.layout.models)
    good = file.read_text()
    page = ada.open(CONFIGURATION)
    try:
        names = [payload.replace("'", "''") for payload in PAYLOADS]
        file.write_text("".join(f"'{number} {name}': 1\n" for number, name in enumerate(names)))
        expect(find_card(page, "Files and problems")).to_contain_text("<img src=x")
        page.goto(f"{site.url}/settings/models")
        expect(page.get_by_role("alert").or_(page.locator(".failure"))).to_contain_text(
            "models.yml"
        )
        assert page.evaluate("window.hit") is None
    finally:
        file.write_text(good)


def test_the_address_is_drawn_as_a_code_with_a_warning_that_phones_cannot_reach_it(
    ada: Person,
) -> None:
    page = ada.open(CONFIGURATION)
    address = find_card(page, "This address")
    expect(address.get_by_role("img", name="QR code of the address")).to_be_visible()
    expect(address).to_contain_text("Only this machine")
    expect(address).to_contain_text("Not encrypted")


@pytest.mark.parametrize(("role", "can"), [("viewer", 0), ("manager", 1)])
def test_who_may_less_sees_less(browser: Browser, site: Serving, role: str, can: int) -> None:
    """Row 4: a viewer changes nothing; neither sees people."""
    site.administrator()
    users = UserFile(site.layout)
    if role not in {user.name for user in users.load()}:
        users.add(User(role, role, hash_password(WORD, CHEAP)))
    somebody = Person(browser.new_context(service_workers="block"), site.url)
    page = somebody.open("/login")
    sign_in(page, role)
    page.goto(site.url + CONFIGURATION)
    expect(find_card(page, "Access keys")).to_be_visible()
    expect(page.get_by_role("button", name="Generate key")).to_have_count(can)
    expect(find_card(page, "People")).to_have_count(0)
    page.goto(f"{site.url}/settings/agent")
    steps = page.get_by_label("Turn steps")
    (expect(steps).to_be_enabled if can else expect(steps).to_be_disabled)()
    expect(page.get_by_label("Host", exact=True)).to_be_disabled()
    page.goto(f"{site.url}/settings/models")
    expect(page.get_by_role("button", name="Check again")).to_be_visible()
    expect(page.get_by_role("button", name="Add a model")).to_have_count(0)
    somebody.context.close()


def test_thousands_of_keys_are_a_hundred_rows_and_a_filter(ada: Person) -> None:
    keys = [
        {"name": f"key-{number}", "created": "2026-01-01T00:00:00.000Z", "lastUsed": None,
         "revoked": False, "createdBy": "", "children": [], "accessKeys": []}
        for number in range(5000)
    ]  # fmt: skip
    page = ada.open("/settings/you")
    page.route("**/api/keys", lambda route: route.fulfill(json={"keys": keys, "problem": ""}))
    page.get_by_role("link", name="Configuration").first.click()
    rows = find_card(page, "Access keys").locator("li")
    expect(rows).to_have_count(100)
    page.get_by_label("Filter keys").fill("key-4999")
    expect(rows).to_have_count(1)


def test_a_failure_is_told_with_a_way_to_try_again(ada: Person) -> None:
    page = ada.open("/settings/you")
    failure = {"error": "unavailable", "message": "The disk is full", "details": "Make room."}
    page.route("**/api/keys", lambda route: route.fulfill(status=503, json=failure))
    page.get_by_role("link", name="Configuration").first.click()
    keys = find_card(page, "Access keys")
    expect(keys.get_by_role("alert")).to_contain_text("The disk is full")
    page.unroute("**/api/keys")
    keys.get_by_role("button", name="Retry").click()
    expect(keys.get_by_role("alert")).to_have_count(0)
