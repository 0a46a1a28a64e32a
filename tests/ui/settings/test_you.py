"""Settings, You: the look, the password, the codes for a phone."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agentd.auth.password import hash_password
from agentd.auth.roles import User
from agentd.auth.user_store import UserFile
from tests.support.daemon import CHEAP, WORD, Serving, until
from tests.ui.support import Person, hold_requests, sign_in

from playwright.sync_api import Browser, Page, expect  # isort: skip


def test_settings_alone_are_the_first_page(ada: Person, site: Serving) -> None:
    page = ada.open("/settings")
    expect(page).to_have_url(f"{site.url}/settings/you")
    expect(page.get_by_role("heading", name="You", exact=True)).to_be_visible()


def test_the_look_is_chosen_and_is_there_with_the_first_paint(ada: Person) -> None:
    page = ada.open("/settings/you")
    page.get_by_role("button", name="Dark").click()
    expect(page.get_by_role("button", name="Dark")).to_have_attribute("aria-pressed", "true")
    page.reload(wait_until="commit")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.get_by_role("button", name="As the system").click()
    expect(page.locator("html")).not_to_have_attribute("data-theme", "dark")


def test_the_look_is_the_same_on_all_devices_of_a_person(browser: Browser, ada: Person) -> None:
    page = ada.open("/settings/you")
    root = page.locator("html")
    with other_device(browser, ada) as device:
        theirs = device.open("/chats")
        for look, theme in (("Dark", "dark"), ("Light", "light"), ("As the system", None)):
            page.get_by_role("button", name=look).click()
            for one in (root, theirs.locator("html")):
                if theme:
                    expect(one).to_have_attribute("data-theme", theme)
                else:
                    expect(one).not_to_have_attribute("data-theme", re.compile(".*"))
        page.get_by_role("button", name="Dark").click()
        expect(theirs.locator("html")).to_have_attribute("data-theme", "dark")
        theirs.get_by_role("button", name="Settings and account").click()
        theirs.get_by_role("menuitemradio", name="Look: light").click()
        expect(root).to_have_attribute("data-theme", "light")
        page.get_by_role("button", name="As the system").click()
        with page.expect_response("**/api/me"):  # as the page is shown again
            page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        expect(theirs.locator("html")).not_to_have_attribute("data-theme", re.compile(".*"))
        expect(root).not_to_have_attribute("data-theme", re.compile(".*"))


def test_a_look_that_is_chosen_while_another_device_still_loads_arrives_there(
    browser: Browser, ada: Person
) -> None:
    page = ada.open("/settings/you")
    with other_device(browser, ada) as device:
        theirs = device.context.new_page()
        session = device.context.new_cdp_session(theirs)
        heard: list[str] = []
        session.on("Network.eventSourceMessageReceived", lambda one: heard.append(one["data"]))
        session.send("Network.enable")
        held = hold_requests(theirs, "**/api/start")
        with theirs.expect_response("**/api/events**"), theirs.expect_request("**/api/start"):
            theirs.goto(f"{device.url}/chats", wait_until="commit")
        pump_until(theirs, lambda: held)
        before = held[0].fetch()
        page.get_by_role("button", name="Dark").click()
        pump_until(theirs, lambda: any('"theme":"dark"' in one for one in heard))
        held[0].fulfill(response=before)
        expect(theirs.locator("html")).to_have_attribute("data-theme", "dark")


def pump_until(page: Page, condition: Callable[[], object]) -> None:
    """Let the page's events be told until this is true."""
    until(lambda: (page.evaluate("1"), condition())[1])


@contextmanager
def other_device(browser: Browser, somebody: Person) -> Iterator[Person]:
    """The same person with another browser."""
    context = browser.new_context(service_workers="block")
    context.add_cookies(somebody.context.cookies())  # type: ignore[arg-type]
    context.clear_cookies(name="agentd-theme")
    yield Person(context, somebody.url)
    context.close()


def test_the_password_is_changed_and_the_page_stays_signed_in(
    browser: Browser, site: Serving
) -> None:
    site.administrator()
    UserFile(site.layout).add(User("eva", "viewer", hash_password(WORD, CHEAP)))
    here, there = (Person(browser.new_context(service_workers="block"), site.url) for _ in "ab")
    for one in (here, there):
        sign_in(one.open("/login"), "eva")
    page, other = here.open("/settings/you"), there.open("/settings/you")
    expect(other.get_by_role("heading", name="eva")).to_be_visible()
    page.get_by_label("Current password").fill("not this one at all")
    page.get_by_label("New password").fill("another word that is good")
    page.get_by_role("button", name="Change password").click()
    expect(page.get_by_role("alert")).not_to_be_empty()
    page.get_by_label("Current password").fill(WORD)
    page.get_by_role("button", name="Change password").click()
    expect(page.get_by_text("Your password is changed")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="eva")).to_be_visible()
    expect(other.get_by_role("heading", name="Sign in")).to_be_visible()
    for one in (here, there):
        one.context.close()


def test_a_password_that_is_saved_as_the_network_fails_leads_to_the_login(
    browser: Browser, site: Serving
) -> None:
    UserFile(site.layout).add(User("finn", "viewer", hash_password(WORD, CHEAP)))
    somebody = Person(browser.new_context(service_workers="block"), site.url)
    page = somebody.open("/login?next=/settings/you")
    sign_in(page, "finn")
    page.get_by_label("Current password").fill(WORD)
    page.get_by_label("New password").fill("another word that is good")
    page.route(
        "**/api/session",
        lambda route: route.abort() if route.request.method == "POST" else route.continue_(),
    )
    page.get_by_role("button", name="Change password").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.unroute("**/api/session")
    page.get_by_label("Name").fill("finn")
    page.get_by_label("Password").fill("another word that is good")
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.locator(".foot small")).to_contain_text("live")
    somebody.context.close()


def test_a_phone_signs_in_by_the_code_that_is_shown(
    ada: Person, browser: Browser, site: Serving
) -> None:
    page = ada.open("/settings/you")
    page.get_by_role("button", name="Make a code").click()
    expect(page.get_by_role("img", name="QR code of the address")).to_be_visible()
    code = page.locator(".secret-once").inner_text()
    phone = Person(browser.new_context(service_workers="block"), site.url)
    tab = phone.open(f"/login#code={code}")
    tab.locator(".shell").wait_for()
    phone.context.close()


def test_signing_out_everywhere_ends_the_other_browser_too(browser: Browser, site: Serving) -> None:
    """Row 3, its last part."""
    site.administrator()
    UserFile(site.layout).add(User("ivy", "viewer", hash_password(WORD, CHEAP)))
    here, there = (Person(browser.new_context(service_workers="block"), site.url) for _ in "ab")
    tabs = [one.open("/login") for one in (here, there)]
    for tab in tabs:
        sign_in(tab, "ivy")
    tabs[0].goto(f"{site.url}/settings/you")
    tabs[0].get_by_role("button", name="Sign out everywhere").click()
    tabs[0].get_by_role("dialog").get_by_role("button", name="Sign out everywhere").click()
    for tab in tabs:
        expect(tab.get_by_role("heading", name="Sign in")).to_be_visible()
    for one in (here, there):
        one.context.close()


def test_a_login_on_another_device_is_shown_and_ended(browser: Browser, site: Serving) -> None:
    """Row 3, for one login: the other browser is at the login at once, this one stays."""
    site.administrator()
    UserFile(site.layout).add(User("lea", "viewer", hash_password(WORD, CHEAP)))
    phone = "Mozilla/5.0 (Android 16; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0"
    here = Person(browser.new_context(service_workers="block"), site.url)
    there = Person(browser.new_context(service_workers="block", user_agent=phone), site.url)
    tabs = [one.open("/login") for one in (here, there)]
    for tab in tabs:
        sign_in(tab, "lea")
    page, other = tabs
    page.goto(f"{site.url}/settings/you")
    logins = page.get_by_role("region", name="Signed in", exact=True)
    expect(logins.locator("li")).to_have_count(2)
    expect(logins.locator("li", has_text="this one")).to_contain_text("in use now")
    expect(logins.locator("li", has_text="this one").get_by_role("button")).to_have_count(0)
    logins.get_by_role("button", name="End the login of Firefox on Android").click()
    expect(logins.locator("li")).to_have_count(1)
    expect(other.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.get_by_role("heading", name="lea")).to_be_visible()
    for one in (here, there):
        one.context.close()
