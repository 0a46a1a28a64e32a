"""Builds and deployments in the browser, with real programs."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from agentd.auth.password import hash_password
from agentd.auth.roles import User
from agentd.auth.user_store import UserFile
from tests.support.daemon import CHEAP, WORD, Client, Serving, until
from tests.ui.accessibility import check_accessibility
from tests.ui.support import (
    DESK,
    PHONE,
    Person,
    TalkingEngine,
    hold_requests,
    person,
    scroll_by,
    sign_in,
)
from tests.ui.test_every_page import PAYLOADS, wait_until_loaded
from tests.ui.test_queue import refuse, take_held

from playwright.sync_api import Browser, Page, expect  # isort: skip

FAILING = (
    "for i in $(seq 1 200); do echo compiling module $i; done;"
    " echo 'src/app.c:41:7: error: expected a semicolon';"
    " echo 'src/cache.c:112:3: warning: unused variable'; exit 2"
)
HOSTILE = "".join(f"hostile.c:1:1: error: {text}\n" for text in PAYLOADS)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, talking: TalkingEngine) -> Iterator[Serving]:
    """A daemon with builds and deployments."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "config").mkdir()
    (folder / "hostile.txt").write_text(HOSTILE)
    (folder / "config" / "builds.yml").write_text(
        "builds:\n"
        f'  app: {{command: [sh, -c, "{FAILING}"]}}\n'
        '  long: {command: [sh, -c, "echo begun; exec sleep 1000"]}\n'
        '  large: {command: [seq, "1", "100000"]}\n'
        "  hostile: {command: [cat, hostile.txt]}\n"
        '  fed: {command: [sh, -c, "for i in $(seq 1 100); do echo line $i; done; cat fed"]}\n'
    )
    (folder / "config" / "deployments.yml").write_text(
        "deployments:\n"
        '  web: {command: [sh, -c, "echo serving; exec sleep 1000"], stop_seconds: 1}\n'
        '  broken: {command: [sh, -c, "echo no database; exit 3"], restart: never}\n'
        '  talks: {command: [sh, -c, "cat talk; exec sleep 1000"], stop_seconds: 1}\n'
    )
    with Serving(folder, talking) as serving:
        yield serving
        client = serving.client()
        for name in ("web", "talks"):
            client.post(f"/api/deploy/stop/{name}", None)


@pytest.fixture(scope="module")
def client(site: Serving) -> Client:
    """A client of the file's daemon."""
    return site.client()


def run_build(client: Client, name: str) -> dict[str, Any]:
    """Run a build to its end."""
    client.post(f"/api/build/trigger/{name}", None)
    return until(
        lambda: (found := client.get(f"/api/build/status/{name}").json())["ended"] and found
    )


def open_job(somebody: Person, path: str, name: str) -> Page:
    """Open the page of a job."""
    page = somebody.open(f"{path}?name={name}")
    expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
    return page


def open_build(somebody: Person, name: str) -> Page:
    """Open the page of a build."""
    return open_job(somebody, "/workspace/builds", name)


def open_deployment(somebody: Person, name: str) -> Page:
    """Open the page of a deployment."""
    return open_job(somebody, "/workspace/deployments", name)


def find_output(page: Page, name: str) -> Any:
    """Find the element of an output."""
    return page.get_by_role("region", name=f"Output of {name}")


def test_a_build_is_run_by_a_key_and_its_problems_lead_to_their_lines(
    ada: Person, client: Client
) -> None:
    page = open_build(ada, "app")
    page.keyboard.press("r")
    expect(page.locator(".job .state")).to_have_text("Failed · 1 error · 1 warning")
    place = page.get_by_role("link", name="src/app.c:41:7")
    expect(place).to_have_attribute(
        "href", f"/workspace/files?path={quote('src/app.c', '')}&line=41"
    )
    expect(find_output(page, "app")).to_contain_text("unused variable")
    expect(page.get_by_text("202 lines")).to_be_visible()
    expect(page.locator(".facts")).to_contain_text("Exit code2")


def test_a_running_build_is_seen_in_all_tabs_and_stopped(ada: Person, client: Client) -> None:
    page, other = open_build(ada, "long"), open_build(ada, "long")
    page.get_by_role("button", name="Run").click()
    for tab in (page, other):
        expect(tab.locator(".job .state")).to_have_text("Running")
        expect(find_output(tab, "long")).to_contain_text("begun")
    other.get_by_role("button", name="Stop").click()
    for tab in (page, other):
        expect(tab.locator(".job .state")).to_have_text("Stopped")
        expect(tab.get_by_role("button", name="Run")).to_be_visible()


def test_a_state_that_was_read_before_an_event_does_not_replace_it(
    ada: Person, client: Client
) -> None:
    """Row 10: also where the answer is slower than the event."""
    page = open_build(ada, "long")
    state = page.locator(".job .state")
    held = hold_requests(page, "**/api/build/status")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # then it is read again
    request = take_held(page, held)
    before = client.get("/api/build/status").json()
    client.post("/api/build/trigger/long", None)
    expect(state).to_have_text("Running")
    with page.expect_response("**/api/build/status"):
        request.fulfill(json=before)
    page.evaluate("new Promise((done) => setTimeout(done, 50))")
    expect(state).to_have_text("Running")
    client.post("/api/build/stop/long", None)
    expect(state).to_have_text("Stopped")


def test_a_hundred_thousand_lines_are_there_and_few_are_in_the_document(
    ada: Person, client: Client
) -> None:
    run_build(client, "large")
    page = open_build(ada, "large")
    expect(page.get_by_text("100,000 lines")).to_be_visible()
    shown = find_output(page, "large")
    expect(shown.locator(".line").last).to_contain_text("100000")
    assert shown.locator(".line").count() <= 300
    shown.evaluate("(node) => { node.scrollTop = 19 * 50000; }")
    expect(shown.get_by_text("50001", exact=True).last).to_be_visible()
    assert shown.locator(".line").count() <= 300
    shown.evaluate("(node) => { node.scrollTop = 0; }")
    expect(shown.locator(".line").first).to_have_text("11")


def test_output_is_followed_at_its_end_only_and_nothing_is_lost_or_doubled(
    ada: Person, client: Client, site: Serving
) -> None:
    """Row 8, for the output of a build: who comes later sees the same."""
    fed = Path(site.said["workspace"], "fed")
    if not fed.exists():
        import os

        os.mkfifo(fed)
    client.post("/api/build/trigger/fed", None)
    page = open_build(ada, "fed")
    shown = find_output(page, "fed")
    with fed.open("w", buffering=1) as feed:
        expect(shown).to_contain_text("line 100")
        feed.write("the first\n")
        expect(shown.get_by_text("the first")).to_be_visible()
        scroll_by(shown, -1_000_000)
        expect(shown.get_by_text("line 1", exact=True)).to_be_visible()
        feed.write("the second\nthe third\n")
        more = page.get_by_role("button", name=re.compile("2 new lines"))
        expect(more).to_be_visible()
        expect(shown.get_by_text("line 1", exact=True)).to_be_visible()
        more.click()
        expect(shown.get_by_text("the third")).to_be_visible()
        expect(more).to_have_count(0)
        late = open_build(ada, "fed")
        expect(find_output(late, "fed").get_by_text("the third")).to_be_visible()
        feed.write("gr\u00fc\u00df\n")
        for tab in (page, late):
            expect(find_output(tab, "fed").get_by_text("gr\u00fc\u00df")).to_be_visible()
            expect(tab.get_by_text("104 lines")).to_be_visible()
    expect(page.locator(".job .state")).to_have_text("Succeeded")
    expect(page.get_by_text("104 lines")).to_be_visible()


def test_a_refused_run_is_taken_back_and_may_be_tried_again(ada: Person, client: Client) -> None:
    page = open_build(ada, "large")
    run_build(client, "large")
    page.route("**/api/build/trigger/*", lambda route: route.abort())
    page.get_by_role("button", name="Run").click()
    expect(page.locator(".toast.bad")).to_contain_text("agentd does not answer")
    expect(page.locator(".job .state")).to_have_text("Succeeded")
    page.unroute("**/api/build/trigger/*")
    page.get_by_role("button", name="Retry").click()
    expect(page.locator(".toast.bad")).to_have_count(0)
    expect(page.locator(".job .state")).to_have_text("Succeeded")


def test_auto_fix_is_switched_with_its_chat_and_tries_in_all_tabs(
    ada: Person, client: Client
) -> None:
    chat = client.create_chat(title="Fix the builds")
    page, other = open_build(ada, "long"), open_build(ada, "long")
    page.get_by_role("switch", name="Auto-fix over all builds").click()
    page.get_by_role("switch", name="Auto-fix of long").click()
    for tab in (page, other):
        expect(tab.get_by_role("switch", name="Auto-fix over all builds")).to_be_checked()
        expect(tab.get_by_role("switch", name="Auto-fix of long")).to_be_checked()
    page.get_by_label("In the chat").select_option(label="Fix the builds")
    page.get_by_label("Tries in a row").press("ControlOrMeta+a")
    page.get_by_label("Tries in a row").press_sequentially("5")  # which is no change yet
    for on in (False, True):  # what one types outlives what others change
        client.post("/api/autofix/toggle", {"on": on})
        over_all = page.get_by_role("switch", name="Auto-fix over all builds")
        expect(over_all).to_be_checked(checked=on)
        expect(page.get_by_label("Tries in a row")).to_be_focused()
    page.get_by_label("Tries in a row").blur()
    wanted = {"build": "long", "on": True, "chatId": chat, "tries": 5, "tried": 0}
    until(lambda: client.get("/api/autofix/status")["builds"] == [wanted])
    assert client.get("/api/autofix/status")["on"]
    page.get_by_role("switch", name="Auto-fix over all builds").click()
    expect(other.get_by_text("Off for all builds")).to_be_visible()


def test_what_is_set_of_auto_fix_stays_when_the_answer_to_what_was_set_before_comes(
    ada: Person, client: Client
) -> None:
    client.create_chat(title="Fixes builds")
    page = ada.open("/workspace/builds?name=app")
    page.get_by_label("Auto-fix over all builds").wait_for()
    held = hold_requests(page, "**/api/autofix/toggle**")
    over_all, of_build = (
        page.get_by_label("Auto-fix over all builds"),
        page.get_by_label("Auto-fix of app"),
    )
    was = over_all.is_checked(), of_build.is_checked()
    over_all.click()
    of_build.click()
    take_held(page, held).continue_()
    second = take_held(page, held)  # it is sent once the first is answered
    assert (over_all.is_checked(), of_build.is_checked()) == (not was[0], not was[1])
    refuse(second)
    expect(page.locator(".toast")).to_contain_text("The disk is full")
    assert (over_all.is_checked(), of_build.is_checked()) == (not was[0], was[1])
    assert client.get("/api/autofix/status")["on"] is not was[0]


def test_a_deployment_is_started_restarted_and_stopped(ada: Person, client: Client) -> None:
    page = open_deployment(ada, "web")
    state = page.locator(".job .state")
    expect(state).to_have_text("Stopped")
    page.get_by_role("button", name="Start").click()
    expect(state).to_have_text("Running")
    expect(find_output(page, "web")).to_contain_text("serving")
    first = client.get("/api/deploy/status/web")["pid"]
    page.get_by_role("button", name="Restart").click()
    until(lambda: client.get("/api/deploy/status/web")["pid"] not in (0, first))
    expect(page.get_by_text("2 lines")).to_be_visible()
    expect(state).to_have_text("Running")
    page.get_by_role("button", name="Stop").click()
    expect(state).to_have_text("Stopped")


def test_why_a_deployment_failed_is_told(ada: Person) -> None:
    page = open_deployment(ada, "broken")
    page.get_by_role("button", name="Start").click()
    expect(page.locator(".job .state")).to_contain_text("Failed")
    expect(find_output(page, "broken")).to_contain_text("no database")
    expect(page.locator(".facts")).to_contain_text("Last exit code3")


def test_what_events_pass_over_is_read_from_the_daemon(
    ada: Person, client: Client, site: Serving
) -> None:
    """Row 10, for a flood: more than an event holds."""
    import os

    talk = Path(site.said["workspace"], "talk")
    os.mkfifo(talk)
    page = open_deployment(ada, "talks")
    page.get_by_role("button", name="Start").click()
    with talk.open("w") as feed:
        for number in range(1, 20_001):
            feed.write(f"{number}\n")
    expect(page.get_by_text("20,000 lines")).to_be_visible()
    expect(find_output(page, "talks").locator(".line").last).to_contain_text("20000")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".job .state")).to_have_text("Stopped")


def connect_again(page: Page) -> None:
    """Have the page follow the events anew, as after its connection was lost."""
    with page.expect_response(re.compile("/api/events")):
        page.evaluate("() => void dispatchEvent(new Event('online'))")


def test_problems_that_could_not_be_read_are_there_once_the_daemon_is_reached_again(
    ada: Person, client: Client
) -> None:
    run_build(client, "app")
    page = ada.open("/workspace/builds?name=large")
    held = hold_requests(page, "**/api/build/status/app")
    page.locator(".job-rows").get_by_role("link", name="app").click()
    take_held(page, held).abort()
    page.unroute("**/api/build/status/app")
    connect_again(page)
    expect(page.get_by_role("link", name="src/app.c:41:7")).to_be_visible()


def test_an_output_that_could_not_be_read_is_there_once_the_daemon_is_reached_again(
    ada: Person, client: Client
) -> None:
    client.post("/api/deploy/start/broken", None)
    until(lambda: client.get("/api/deploy/status/broken").json()["state"] == "failed")
    page = ada.open("/workspace/deployments?name=web")
    held = hold_requests(page, "**/api/deploy/output/broken")
    page.locator(".job-rows").get_by_role("link", name="broken").click()
    take_held(page, held).abort()
    expect(page.get_by_role("region", name="Output", exact=True)).to_contain_text("does not answer")
    page.unroute("**/api/deploy/output/broken")
    connect_again(page)
    expect(find_output(page, "broken")).to_contain_text("no database")
    expect(page.locator(".job-output .failure")).to_have_count(0)


def test_a_viewer_sees_and_changes_nothing(browser: Browser, site: Serving) -> None:
    """Row 4."""
    site.administrator()
    UserFile(site.layout).add(User("vi", "viewer", hash_password(WORD, CHEAP)))
    context = browser.new_context(service_workers="block")
    vi = Person(context, site.url)
    page = vi.open("/login?next=/workspace/builds%3Fname%3Dapp")
    sign_in(page, "vi")
    for path, name in (("builds", "app"), ("deployments", "web")):
        page.goto(f"{site.url}/workspace/{path}?name={name}")
        expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
        expect(page.locator(".note-role")).to_contain_text("Managers")
        expect(page.locator(".job-head button")).to_have_count(0)
        expect(page.locator(".switch:enabled")).to_have_count(0)
    context.close()


def test_no_output_becomes_code(ada: Person, client: Client, site: Serving) -> None:
    """Row 36: problems, output, and names in the address."""
    requests: list[str] = []
    ada.context.on("request", lambda request: requests.append(request.url))
    assert run_build(client, "hostile")["errors"]
    page = open_build(ada, "hostile")
    expect(find_output(page, "hostile")).to_contain_text(PAYLOADS[0])
    expect(page.locator(".problems li").first).to_be_visible()
    page.goto(f"{site.url}/workspace/builds?name={quote(PAYLOADS[1])}")
    expect(page.get_by_role("heading", name="Builds")).to_be_visible()
    assert page.evaluate("window.hit") is None
    assert page.locator("main img, main iframe, main script, main style, main form").count() == 0
    assert not [url for url in requests if not url.startswith(site.url)]


def test_a_build_that_is_written_down_by_hand_is_there_at_once_and_a_mistake_is_told(
    ada: Person, site: Serving
) -> None:
    """Rows 33 and 34: within a second, by line; what the file said before stays."""
    file = Path(site.layout.builds_settings)
    good = file.read_text()
    page = ada.open("/workspace/builds")
    rows = page.locator(".job-rows .item")
    expect(rows.first).to_be_visible()
    try:
        file.write_text(good + "  by-hand: {command: [echo]}\n")
        expect(rows.filter(has_text="by-hand")).to_be_visible()
        lines = good.count("\n")
        file.write_text(good + "  by-hand: {comand: [echo]}\n")
        told = page.locator(".file-problems")
        expect(told).to_contain_text(f"Line {lines + 1}")
        expect(told).to_contain_text("command")
        expect(rows.filter(has_text="by-hand")).to_be_visible()
    finally:
        file.write_text(good)
    expect(told).to_have_count(0)
    expect(rows.filter(has_text="by-hand")).to_have_count(0)


def test_builds_and_deployments_are_tabs_of_the_workspace(ada: Person, site: Serving) -> None:
    page = ada.open("/workspace/builds")
    tabs = page.get_by_role("navigation", name="Workspace")
    expect(tabs.get_by_role("link", name="Builds")).to_have_attribute("aria-current", "page")
    tabs.get_by_role("link", name="Deployments").click()
    expect(page).to_have_url(f"{site.url}/workspace/deployments")
    expect(page.locator(".side").get_by_role("link", name="Workspace")).to_have_attribute(
        "aria-current", "page"
    )
    tabs.get_by_role("link", name="Files").click()
    expect(page).to_have_url(f"{site.url}/workspace/files")


def test_the_list_is_walked_with_keys(ada: Person) -> None:
    """Row 38."""
    page = open_build(ada, "app")
    page.keyboard.press("j")
    expect(page.get_by_role("heading", name="long", exact=True)).to_be_visible()
    expect(page).to_have_url(re.compile("name=long"))
    page.keyboard.press("k")
    expect(page.get_by_role("heading", name="app", exact=True)).to_be_visible()


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_the_pages_can_be_used_by_everybody(
    browser: Browser, site: Serving, client: Client, size: tuple[int, int]
) -> None:
    """Rows 37 to 39: axe, no sideways scrolling, targets for fingers."""
    run_build(client, "app")
    client.post("/api/deploy/start/broken", None)
    with person(browser, site, size=size) as somebody:
        for path in ("builds", "builds?name=app", "deployments?name=broken"):
            page = somebody.open(f"/workspace/{path}")
            expect(page.locator(".job-rows .item").first).to_be_attached()
            wait_until_loaded(page)
            check_accessibility(page)
            page.close()
