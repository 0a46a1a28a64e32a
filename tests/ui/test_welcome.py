"""The first run in a browser: the link, a name and a password, an engine, the first prompt."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentd.auth.password import hash_password
from agentd.auth.roles import User
from agentd.auth.sign_in_links import SignInLinks
from agentd.auth.user_store import UserFile
from agentd.core.clock import SystemClock
from tests.support.daemon import CHEAP, WORD, Engine, Serving
from tests.ui.accessibility import check_accessibility
from tests.ui.support import DESK, PHONE, Person, sign_in
from tests.ui.test_every_page import PAYLOADS, wait_until_loaded

from playwright.sync_api import Browser, Page, expect  # isort: skip

PASSWORD = "several words are easy"
OPENCODE = """#!/bin/sh
[ "$1" = --version ] && { printf '%s\\n' "$VERSION_TOLD"; exit; }
read line; echo '{"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1}}'
read line; echo '{"id": 2, "result": {"models": {"availableModels": [{"modelId": "a/<b>x"}]}}}'
read line; sleep 60
"""
CODEX = (
    '#!/bin/sh\n[ "$1" = --version ] && { echo 0.169; exit; }\nprintf \'%s\' "$TOLD" >&2; exit 1\n'
)


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    """A daemon without people or a default model, on a machine with two coding agents."""
    programs = tmp_path / "bin"
    programs.mkdir()
    told = " ".join(PAYLOADS).replace("'", "")
    for name, text in (("opencode", OPENCODE), ("codex", CODEX)):
        script = text.replace('"$VERSION_TOLD"', f"'{told}'").replace('"$TOLD"', f"'{told}'")
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    with Serving(tmp_path, Engine()) as serving:
        yield serving


@pytest.fixture
def visitor(browser: Browser, fresh: Serving) -> Iterator[Person]:
    """Somebody before that daemon for the first time; the browser complains of nothing."""
    context = browser.new_context(service_workers="block", reduced_motion="reduce")
    somebody = Person(context, fresh.url)
    yield somebody
    assert not somebody.complaints
    context.close()


def create_link(serving: Serving) -> str:
    """Return the path of a sign-in link, as ``agentd open`` prints it."""
    url = SignInLinks(serving.layout, SystemClock()).create(serving.url)
    return url.removeprefix(serving.url)


def choose_account(page: Page) -> None:
    """Take the first step."""
    page.get_by_label("Name").fill("ann")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Continue").click()


def test_three_steps_lead_from_the_link_to_an_answer(visitor: Person, fresh: Serving) -> None:
    """Rows 1, 3 and 36 of the acceptance table: what programs say is text, never code."""
    page = visitor.open(create_link(fresh))
    expect(page.get_by_role("heading", name="Three steps")).to_be_visible()
    choose_account(page)

    page.get_by_label("opencode").check()
    page.get_by_role("button", name="Try it").click()
    expect(page.locator(".rungs")).to_contain_text("speaks its protocol")
    expect(page.get_by_text("Its models: a/<b>x.")).to_be_visible()
    page.get_by_label("Codex").check()
    page.get_by_role("button", name="Try it").click()
    expect(page.locator(".rungs .bad")).to_contain_text("onerror")
    assert page.evaluate("window.hit") is None
    page.get_by_label("opencode").check()
    page.get_by_role("button", name="Try it").click()
    page.get_by_role("button", name="Use it").click()

    prompt = page.get_by_label("The first prompt")
    expect(prompt).to_be_focused()
    expect(prompt).not_to_have_value("")
    prompt.press("Enter")
    expect(page.locator(".prose", has_text="echo: What is this folder?")).to_be_visible()
    assert isinstance(fresh.engine, Engine)
    assert fresh.engine.given[-1].command == ("opencode", "acp")

    # The link's login has ended; the new one signs in anywhere.
    expect(page.locator(".foot")).to_contain_text("ann")
    page.get_by_role("button", name="Settings and account").click()
    page.get_by_role("menuitem", name="Sign out").click()
    sign_in(page, "ann", PASSWORD)


def test_a_supplier_s_problem_is_told_and_the_offline_engine_needs_nothing(
    visitor: Person, fresh: Serving
) -> None:
    """Row 1: with no model at hand, the offline engine works and says what it is."""
    page = visitor.open(create_link(fresh))
    choose_account(page)
    page.get_by_label("A model by its key").check()
    page.get_by_role("textbox", name="Address").fill("http://127.0.0.1:9")
    page.locator("input[type=password]").fill("sk-secret")
    page.get_by_role("button", name="Try it").click()
    expect(page.locator(".rungs .bad")).to_be_visible()
    expect(page.get_by_role("button", name="Use it anyway")).to_be_visible()
    page.get_by_label("No model yet").check()
    expect(page.get_by_text("offline engine understands")).to_be_visible()
    page.get_by_role("button", name="Use it").click()
    expect(page.get_by_label("The first prompt")).to_be_visible()
    page.get_by_role("button", name="Change").click()
    expect(page.get_by_label("No model yet")).to_be_visible()
    assert "sk-secret" not in page.evaluate("JSON.stringify(localStorage)") + page.url


def test_a_machine_without_coding_agents_says_so(
    visitor: Person, fresh: Serving, tmp_path: Path
) -> None:
    for program in (tmp_path / "bin").iterdir():
        program.unlink()
    page = visitor.open(create_link(fresh))
    choose_account(page)
    expect(page.get_by_text("no coding agent found on this machine")).to_be_visible()
    expect(page.get_by_label("A model by its key")).to_be_checked()


def test_a_password_that_is_refused_is_told_and_the_form_stays(
    visitor: Person, fresh: Serving
) -> None:
    page = visitor.open(create_link(fresh))
    page.get_by_label("Name").fill("annannannannann")
    page.get_by_label("Password").fill("annannannannann")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("alert")).not_to_be_empty()
    expect(page.get_by_label("Name")).to_have_value("annannannannann")
    choose_account(page)
    expect(page.get_by_label("No model yet")).to_be_visible()


def test_a_used_link_is_told(visitor: Person, fresh: Serving) -> None:
    """Row 2: the second use of a code signs nobody in and says why."""
    path = create_link(fresh)
    visitor.open(path).get_by_role("heading", name="Three steps").wait_for()
    visitor.context.clear_cookies()
    page = visitor.open(path)
    expect(page.get_by_role("alert")).not_to_be_empty()
    assert "code=" not in page.url


def test_a_manager_is_told_who_may_set_up(visitor: Person, fresh: Serving) -> None:
    """Rows 4 and 5: a deep link leads to the login and back, and says which role may."""
    UserFile(fresh.layout).add(User("max", "manager", hash_password(WORD, CHEAP)))
    page = visitor.open("/welcome")
    sign_in(page, "max")
    expect(page.get_by_role("heading", name="Only an administrator")).to_be_visible()
    expect(page).to_have_url(f"{fresh.url}/welcome")


def test_the_steps_are_found_again_until_a_prompt_was_sent(visitor: Person, fresh: Serving) -> None:
    page = visitor.open(create_link(fresh))
    choose_account(page)
    page.get_by_label("No model yet").wait_for()
    page.goto(f"{fresh.url}/inbox")
    wait_until_loaded(page)  # the menu offers it once it is known that there is no chat
    page.get_by_role("button", name="Settings and account").click()
    page.get_by_role("menuitem", name="Set agentd up").click()
    expect(page.get_by_role("heading", name="Three steps")).to_be_visible()
    fresh.client().create_chat(prompt="hello")
    expect(page.locator(".chat-row", has_text="Remote API Chat")).to_be_visible()
    page.get_by_role("button", name="Settings and account").click()
    page.get_by_role("menuitem", name="Sign out").wait_for()
    expect(page.get_by_role("menuitem", name="Set agentd up")).to_have_count(0)


def test_each_step_can_be_used_by_everybody_and_fits_a_phone(
    visitor: Person, fresh: Serving
) -> None:
    """Rows 38 and 39."""
    page = visitor.open(create_link(fresh))
    page.get_by_label("Name").wait_for()
    check_layout(page)
    choose_account(page)
    page.get_by_label("A model by its key").check()
    check_layout(page)
    page.get_by_label("No model yet").check()
    page.get_by_role("button", name="Use it").click()
    page.get_by_label("The first prompt").wait_for()
    check_layout(page)


def check_layout(page: Page) -> None:
    """Check what must hold of every page, at either width."""
    for width, height in (DESK, PHONE):
        page.set_viewport_size({"width": width, "height": height})
        check_accessibility(page)
    page.set_viewport_size({"width": DESK[0], "height": DESK[1]})
