"""Signing in and out, in a browser."""

import hashlib
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from agentd.agent.engine import Question, ReplyCompleted
from agentd.auth.password import hash_password
from agentd.auth.roles import User
from agentd.auth.user_store import UserFile
from tests.support.daemon import CHEAP, WORD, Serving, until
from tests.ui.support import (
    DESK,
    PHONE,
    Person,
    TalkingEngine,
    find_prompt_box,
    person,
    sign_in,
)

from playwright.sync_api import Browser, Page, expect  # isort: skip


@pytest.fixture
def visitor(browser: Browser, site: Serving) -> Person:
    """Somebody who is not signed in."""
    site.administrator()
    context = browser.new_context(service_workers="block")
    return Person(context, site.url)


def test_a_deep_link_leads_to_the_login_and_back(visitor: Person, site: Serving) -> None:
    """Row 5."""
    chat = site.client().create_chat(title="The deep one")
    page = visitor.open(f"/{chat}")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    sign_in(page)
    expect(page).to_have_url(f"{site.url}/{chat}")
    expect(page.get_by_role("heading", name="The deep one")).to_be_visible()


@pytest.mark.parametrize(("size", "path"), [(PHONE, "/chats"), (DESK, "/")])
def test_a_phone_begins_with_the_chats_and_a_desk_with_a_new_one(
    visitor: Person, site: Serving, size: tuple[int, int], path: str
) -> None:
    site.client().create_chat(title="One to come back to")
    page = visitor.open("/")
    page.set_viewport_size({"width": size[0], "height": size[1]})
    sign_in(page)
    expect(page).to_have_url(site.url + path)
    if size == PHONE:
        expect(page.locator(".item", has_text="One to come back to").last).to_be_visible()


def test_a_wrong_password_is_told_and_the_name_stays(visitor: Person) -> None:
    page = visitor.open("/login")
    page.get_by_label("Name").fill("ada")
    page.get_by_label("Password").fill("not this one at all")
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("alert")).not_to_be_empty()
    expect(page.get_by_label("Name")).to_have_value("ada")


def test_the_link_with_a_code_signs_in_once(browser: Browser, tmp_path: Path) -> None:
    """Rows 2 and 3."""
    management = "the management key"
    digest = hashlib.sha256(management.encode()).hexdigest()
    with Serving(tmp_path, proxy_app_hash=digest) as serving:
        code = serving.client(management).post("/api/agent/session", {})["code"]

        def follow_link() -> Page:
            context = browser.new_context(service_workers="block")
            return Person(context, serving.url).open(f"/login#code={code}")

        page = follow_link()
        page.locator(".shell").wait_for()
        assert code not in page.url
        expect(follow_link().get_by_role("alert")).not_to_be_empty()


def test_a_login_that_ends_leads_to_the_login_in_every_tab(visitor: Person) -> None:
    """Row 14."""
    one = visitor.open("/login")
    sign_in(one)
    two = visitor.open("/inbox")
    two.locator(".shell").wait_for()
    one.get_by_role("button", name="Settings and account").click()
    one.get_by_role("menuitem", name="Sign out").click()
    for page in (one, two):
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    until(lambda: one.evaluate("localStorage.length") == 0)


def test_a_session_that_is_revoked_elsewhere_leads_to_the_login(
    visitor: Person, site: Serving
) -> None:
    """Row 14."""
    page = visitor.open("/login")
    sign_in(page)
    page.goto(site.url + "/inbox")
    expect(page.get_by_role("heading", name="Needs you", exact=True)).to_be_visible()
    site.administrator().delete("/api/session?everywhere=true")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert "next=%2Finbox" in page.url


def sign_out(page: Page) -> None:
    """Sign out in the menu."""
    page.get_by_role("button", name="Settings and account").click()
    page.get_by_role("menuitem", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def end_login_while_a_form_is_open(visitor: Person, typed: str) -> Page:
    """Fill in a form, and send it with a login that has ended."""
    page = visitor.open("/login?next=/settings/labels")
    sign_in(page)
    page.get_by_role("button", name="Add a label").first.click()
    page.get_by_role("dialog", name="Add a label").get_by_label("Name").fill(typed)
    visitor.context.clear_cookies()
    page.get_by_role("dialog").get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_label("Password")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    return page


def test_a_form_that_is_open_as_the_login_ends_is_there_after_the_next(
    visitor: Person, site: Serving
) -> None:
    """Rows 5 and 14."""
    page = end_login_while_a_form_is_open(visitor, "half typed")
    sign_in(page)
    dialog = page.get_by_role("dialog", name="Add a label")
    expect(dialog.get_by_label("Name")).to_have_value("half typed")
    expect(page).to_have_url(f"{site.url}/settings/labels")
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(page.locator(".rows").get_by_text("half typed")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_form_that_is_open_as_the_login_ends_is_not_shown_to_somebody_else(
    visitor: Person, site: Serving
) -> None:
    UserFile(site.layout).add(User("otto", "manager", hash_password(WORD, CHEAP)))
    page = end_login_while_a_form_is_open(visitor, "of ada alone")
    sign_in(page, "otto")
    expect(page.get_by_role("button", name="Add a label").first).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert "of ada alone" not in page.content()


@pytest.mark.parametrize(
    ("path", "label"),
    [("/settings/agent", "Turn steps"), ("/gateway/settings", "Silence of a stream")],
)
def test_settings_that_were_typed_as_the_login_ends_are_there_after_the_next(
    visitor: Person, site: Serving, path: str, label: str
) -> None:
    """Rows 5 and 14."""
    page = visitor.open(f"/login?next={path}")
    sign_in(page)
    field = page.get_by_label(label)
    field.fill("77")
    site.administrator().delete("/api/session?everywhere=true")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    sign_in(page)
    expect(field).to_have_value("77")


def test_what_waits_or_is_a_draft_stays_with_its_author_when_another_person_signs_in(
    visitor: Person, site: Serving
) -> None:
    client = site.client()
    UserFile(site.layout).add(User("max", "manager", hash_password(WORD, CHEAP)))
    chat = client.create_chat(title="Shared by two")
    page = visitor.open(f"/login?next=/{chat}")
    sign_in(page)
    visitor.context.route("**/api/chat/*/send", lambda route: route.abort())
    find_prompt_box(page).fill("ada waits")
    find_prompt_box(page).press("Enter")
    expect(page.get_by_text("ada waits")).to_be_visible()
    find_prompt_box(page).fill("the draft of ada")
    find_prompt_box(page).blur()
    site.administrator().delete("/api/session?everywhere=true")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    visitor.context.unroute_all()
    sign_in(page, "max")
    expect(find_prompt_box(page)).to_have_value("")
    find_prompt_box(page).fill("max speaks")
    find_prompt_box(page).press("Enter")
    expect(page.locator(".prose", has_text="echo: max speaks")).to_be_visible()
    expect(page.get_by_text("ada waits")).to_have_count(0)
    sign_out(page)
    said = [message["content"] for message in client.messages(chat)]
    assert said == ["max speaks", "echo: max speaks"]
    sign_in(page)
    page.goto(f"{site.url}/{chat}")
    expect(page.locator(".prose", has_text="echo: ada waits")).to_be_visible()
    expect(find_prompt_box(page)).to_have_value("the draft of ada")


def test_another_tab_becomes_that_of_who_signed_in_last(visitor: Person, site: Serving) -> None:
    UserFile(site.layout).add(User("tom", "manager", hash_password(WORD, CHEAP)))
    one = visitor.open("/login?next=/settings/you")
    sign_in(one)
    expect(one.get_by_role("heading", name="ada")).to_be_visible()
    two = visitor.open("/login")
    sign_in(two, "tom")
    expect(one.get_by_role("heading", name="tom")).to_be_visible()


def test_two_daemons_of_one_host_do_not_sign_each_other_out(
    visitor: Person, site: Serving, tmp_path: Path
) -> None:
    with Serving(tmp_path) as other:
        other.administrator()
        one = visitor.open("/login?next=/inbox")
        sign_in(one)
        two = Person(visitor.context, other.url).open("/login?next=/inbox")
        assert urlsplit(one.url).hostname == urlsplit(two.url).hostname
        sign_in(two)
        for page in (one, two, one):
            page.reload()
            expect(page.get_by_role("heading", name="Needs you", exact=True)).to_be_visible()
        sign_out(two)
        one.reload()
        expect(one.get_by_role("heading", name="Needs you", exact=True)).to_be_visible()


def test_no_address_leads_away_after_the_login(visitor: Person, site: Serving) -> None:
    page = visitor.open("/login?next=//elsewhere.example/")
    sign_in(page)
    assert page.url.startswith(site.url)


def test_a_manager_works_with_chats_and_has_no_gateway(visitor: Person, site: Serving) -> None:
    """Row 4: neither in the navigation, nor in the search, nor by its address."""
    UserFile(site.layout).add(User("mel", "manager", hash_password(WORD, CHEAP)))
    page = visitor.open("/login")
    sign_in(page, "mel")
    expect(page.get_by_label("The first prompt")).to_be_visible()
    expect(page.get_by_role("link", name="Gateway")).to_have_count(0)
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("gateway")
    expect(page.get_by_role("option").filter(has_text="gateway")).to_have_count(0)
    refused = page.evaluate("fetch('/api/agent/changes').then((answer) => answer.status)")
    assert refused == 403


def test_a_viewer_reads_and_is_offered_no_change(visitor: Person, site: Serving) -> None:
    """Row 4."""
    UserFile(site.layout).add(User("vic", "viewer", hash_password(WORD, CHEAP)))
    chat = site.client().create_chat(prompt="hello there")
    site.client().messages(chat)
    page = visitor.open(f"/login?next=/{chat}")
    sign_in(page, "vic")
    expect(page.locator(".prose", has_text="echo: hello there")).to_be_visible()
    expect(page.get_by_text("a manager may send prompts")).to_be_visible()
    expect(page.get_by_role("link", name="Gateway")).to_have_count(0)


def test_a_viewer_of_a_busy_chat_is_offered_no_action(
    visitor: Person, site: Serving, talking: TalkingEngine
) -> None:
    """Row 4: with a reply's buttons, an open question and a queue before the person."""
    UserFile(site.layout).add(User("vio", "viewer", hash_password(WORD, CHEAP)))
    client = site.client()
    talking.expect("choose")
    chat = client.create_chat(prompt="choose", title="Busy")
    talking.say("choose", ReplyCompleted("Which?\n\n[[The first|Take the first]]"))
    client.messages(chat)
    talking.expect("ask")
    for prompt in ("ask", "wait"):
        client.post(f"/api/remote/chats/{chat}/queue", {"prompt": prompt})
    talking.say("ask", Question("shell", "run_command", "make"))
    page = visitor.open(f"/login?next=/{chat}")
    sign_in(page, "vio")
    expect(page.locator(".queue .wait")).to_contain_text("wait")
    expect(page.get_by_text("a manager may answer")).to_be_visible()
    expect(page.locator(".prose", has_text="Which?")).to_be_visible()
    shown = "one => one.checkVisibility() && (one.getAttribute('aria-label') || one.innerText)"
    buttons = page.evaluate(
        f"() => [...document.querySelectorAll('main button')].map({shown}).filter(Boolean)"
    )
    looks = {"More", "Notify me of questions", "Copy the reply", "Changes", "Details", "Outline"}
    assert set(buttons) <= {*looks, "Close the panel"}
    assert page.locator("main :is(textarea, input)").count() == 0
    page.get_by_role("button", name="More", exact=True).click()
    items = page.get_by_role("menuitem").all_inner_texts()
    assert not {"Rename", "Duplicate", "Move to the trash"} & {text.strip() for text in items}
    page.keyboard.press("Escape")
    page.get_by_label("Messages").focus()
    for key in ("a", "d", "e", "Escape"):
        page.keyboard.press(key)
    assert page.locator("dialog, .edit").count() == 0
    assert client.get(f"/api/chat/{chat}/approvals")["approvals"]
    page.goto(f"{site.url}/inbox")
    expect(page.get_by_text("a manager may answer")).to_be_visible()
    assert page.locator("main .acts button").count() == 0
    assert not visitor.complaints
    talking.say("ask", ReplyCompleted("done"))


def test_two_people_of_one_machine_do_not_sign_each_other_out(
    browser: Browser, site: Serving
) -> None:
    with person(browser, site) as one, person(browser, site) as two:
        for somebody in (one, two):
            page = somebody.open("/inbox")
            expect(page.get_by_role("heading", name="Needs you", exact=True)).to_be_visible()


def test_who_has_a_long_name_can_sign_out(browser: Browser, site: Serving) -> None:
    """Row 3: the button stands beside as much of the name as there is room for."""
    name = "wilhelmina_van_den_berg.engineering.shop.example"
    site.administrator()
    UserFile(site.layout).add(User(name, "manager", hash_password(WORD, CHEAP)))
    context = browser.new_context(service_workers="block")
    page = Person(context, site.url).open("/login")
    sign_in(page, name)
    button = page.get_by_role("button", name="Settings and account")
    expect(button).to_be_in_viewport(ratio=1)
    assert button.evaluate("(node) => node.getBoundingClientRect().right") < 276  # the sidebar's
    button.click()
    expect(page.get_by_role("menuitem", name="Sign out")).to_be_visible()
    context.close()
