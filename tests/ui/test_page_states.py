"""Each page while the daemon does not answer, is slow, or fails."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.paths import REPOSITORY
from tests.ui.gateway_site import GatewaySite, open_gateway
from tests.ui.support import DESK, PHONE, Person, TalkingEngine, person
from tests.ui.test_every_page import fill, wait_until_loaded

from playwright.sync_api import Browser, Page, Route, expect  # isort: skip

PAGES = [
    path
    for path in re.findall(
        r'\{ path: "([^"]+)"', (REPOSITORY / "agentd/ui/static/pages.js").read_text()
    )
    if path not in ("/login", "/settings")  # which reads nothing, and which leads to another
]
CHANGES = {
    "/:chatId": {"Allow A", "Always…", "Edit", "Hold all", "More for this prompt", "Pause", "Stop"},
    "/inbox": {"Allow A", "Deny D"},
    "/workspace/changes": {"Commit…", "Stage all", "Stage new.txt"},
    "/workspace/builds": {"Auto-fix of app", "Run R"},
    "/workspace/deployments": {"Start R"},
    "/schedules": {"Add a schedule", "Actions: Run now", "Actions: Delete"},
    "/chats": {"Chat actions: Rename", "Chat actions: Label: bug", "Chat actions: Pin"},
    "/settings/you": {"Dark", "Change password", "Sign out"},
    "/settings/labels": {"Add a label", "Actions: Edit"},
    "/settings/mcp-servers": {"Add a server", "Actions: Remove"},
    "/settings/configuration": {"Generate key", "Add a person"},
    "/gateway/channels/:name": {"Check", "Edit"},
    "/gateway/keys": {"New key", "Actions: Reissue", "Actions: Disable"},
    "/gateway/settings": {"Save"},
}
"""Some of what each page changes; what else is disabled has its name not in ``READS``."""
READS = re.compile(
    r"Attach files|Work tree|Output schema|Model: .*|(What|Which) .*\?"  # of a prompt, which waits
    r"|Changes|Details|Outline|Close the panel|Ran .*|More|Search|Notify me of questions"
    r"|Chat actions(: (Export as .*|Find in this chat))?|[AMD?] [\w./-]+|Read again|Look again"
    r"|Actions for .*|Actions: (Check|Its requests|Logins…|Read)|Select several|Check again"
    r"|\d+ [dhy]|Custom|As table|Day|Model|Engine|Chat|Skill|Label|Who|Spend|Tokens|Turns"
    r"|All|Keys|Owners|Tags|Errors|Warnings|Info|[a-z_]+|Download as CSV|Filter|Hold"
    r"|Close the request|Copy the id|Show 100 more|.* No runs so far"
)
"""What only reads, chooses what is shown, or belongs to a prompt."""

SILENT = {"/", "/gateway/import", "/gateway/reprice"}
"""Pages that read nothing before they are shown."""
FAILURE = {"error": "Unavailable", "message": "The disk is full", "details": "No space is left."}

KEEP_STREAMS = """
window.streams = [];
window.EventSource = class extends EventSource {
  constructor(...given) { super(...given); streams.push(this); }
};"""
BREAK = """() => streams.forEach((one) => {
  one.close();
  one.dispatchEvent(new Event('error'));
})"""
"""Ends the streams as a connection that breaks does; a browser that is set offline keeps them."""
PAINTED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""Rows out of sight have no text (``content-visibility``): whether they are is known only then."""
USABLE = """(root) => [...document.querySelectorAll(
    `${root} :is(button, [role=switch])`)]
  .filter((one) => one.checkVisibility() && !one.disabled)
  .map((one) => one.getAttribute('aria-label')
    || (one.querySelector('.grow')?.firstChild.data ?? one.innerText))
  .map((text) => text.trim().replace(/\\s+/g, ' '))"""
EXPLAINED = """() => [...document.querySelectorAll('main button:disabled')]
  .filter((one) => one.title.startsWith('agentd does not answer')).length"""


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory, talking: TalkingEngine) -> Iterator[GatewaySite]:
    """A daemon that has something to show on each page."""
    folder = tmp_path_factory.mktemp("full")
    (folder / "config").mkdir()
    (folder / "config" / "builds.yml").write_text("builds:\n  app: {command: [make]}\n")
    (folder / "config" / "deployments.yml").write_text(
        "deployments:\n  web: {command: [sleep, '1000']}\n"
    )
    with open_gateway(folder, engine=talking) as opened:
        opened.ask()
        yield opened


@pytest.fixture(scope="module")
def places(full: GatewaySite, talking: TalkingEngine) -> dict[str, str]:
    """What to open for each page."""
    chats = fill(full.serving, talking)
    workspace = Path(full.serving.settings.workspace)
    subprocess.run(["git", "init", "-q", workspace], check=True)
    (workspace / "new.txt").write_text("new\n")
    named = {
        "/:chatId": chats["asks"],
        "/gateway/requests/:id": f"/gateway/requests/{full.requests()[0]['id']}",
        "/gateway/channels/:name": "/gateway/channels/chat",
        "/gateway/models/:name": "/gateway/models/by-chat",
        "/gateway/keys/:id": f"/gateway/keys/{full.ids['laptop']}",
        "/gateway/reports/:name": "/gateway/reports/latency",
    }
    return {path: named.get(path, path) for path in PAGES}


@pytest.fixture
def reader(browser: Browser, full: GatewaySite) -> Iterator[Person]:
    with person(browser, full.serving) as somebody:
        somebody.context.add_init_script(KEEP_STREAMS)
        yield somebody


def list_usable(page: Page) -> set[str]:
    """Name what can be pressed on the page, and in the first menu of each kind."""
    page.evaluate(PAINTED)
    found = set(page.evaluate(USABLE, "main"))
    for label in ("Chat actions", "Actions"):
        button = page.locator(f"main [aria-haspopup=menu][aria-label^='{label}']:enabled").first
        if button.count():
            button.click()
            page.locator(".menu").wait_for()
            found |= {f"{label}: {item}" for item in page.evaluate(USABLE, ".menu")}
            page.keyboard.press("Escape")
            expect(page.locator(".menu")).to_have_count(0)
    return found


@pytest.mark.parametrize("path", PAGES)
def test_nothing_can_be_changed_while_the_daemon_does_not_answer(
    reader: Person, places: dict[str, str], path: str
) -> None:
    page = reader.open(places[path])
    wait_until_loaded(page)
    before = list_usable(page)
    assert not CHANGES.get(path, set()) - before, before
    page.context.set_offline(True)
    page.evaluate(BREAK)
    expect(page.get_by_text("agentd does not answer · trying again")).to_be_visible()
    left = list_usable(page)
    assert not CHANGES.get(path, set()) & left
    assert {name for name in left if not READS.fullmatch(name)} == set()
    if path in CHANGES and path != "/chats":
        assert page.evaluate(EXPLAINED)
    page.context.set_offline(False)
    expect(page.locator(".banner")).to_have_count(0)
    wait_until_loaded(page)
    assert list_usable(page) == before


class Answers:
    """What the daemon's API answers to somebody: nothing yet, that it fails, or what it has."""

    def __init__(self, somebody: Person) -> None:
        self._held: list[Route] = []
        self._mode = "hold"
        somebody.context.route("**/api/**", self._answer)

    def _answer(self, route: Route) -> None:
        path = urlsplit(route.request.url).path
        if path in ("/api/session", "/api/events") or self._mode == "go on":
            route.continue_()
        elif self._mode == "hold":
            self._held.append(route)
        else:
            route.fulfill(status=503, json=FAILURE)

    def fail(self) -> None:
        """Fail what is asked, and what was."""
        self._mode = "fail"
        for route in self._held:
            route.fulfill(status=503, json=FAILURE)

    def go_on(self) -> None:
        """Let the daemon answer."""
        self._mode = "go on"


@pytest.mark.parametrize(
    ("path", "size"),
    [
        *((path, DESK) for path in PAGES if path not in SILENT),
        *((path, PHONE) for path in ("/:chatId", "/inbox", "/chats", "/schedules", "/gateway")),
    ],
)
def test_a_page_shows_that_it_reads_and_why_it_cannot_and_tries_again(
    browser: Browser,
    full: GatewaySite,
    places: dict[str, str],
    path: str,
    size: tuple[int, int],
) -> None:
    with person(browser, full.serving, size=size) as somebody:
        answers = Answers(somebody)
        page = somebody.open(places[path])
        main = page.locator("main")
        expect(main.locator(".skeleton").first).to_be_visible()
        expect(main.locator(".empty[role=alert]")).to_have_count(0)
        expect(main.get_by_text("Nothing needs you")).to_have_count(0)
        answers.fail()
        expect(main.get_by_text(FAILURE["message"]).first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        expect(main.locator(".skeleton")).to_have_count(0)
        expect(main.get_by_text("Nothing needs you")).to_have_count(0)
        answers.go_on()
        while (retry := main.get_by_role("button", name="Retry", exact=True)).count():
            many = retry.count()
            retry.first.click()
            expect(retry).not_to_have_count(many)
        wait_until_loaded(page)
        expect(main.get_by_text(FAILURE["message"])).to_have_count(0)


def test_a_prompt_says_why_it_is_not_taken_yet_and_can_be_discarded(ada: Person) -> None:
    """Row 16."""
    page = ada.open("/")
    page.route("**/api/chats", lambda route: route.fulfill(status=503, json=FAILURE))
    page.get_by_label("The first prompt").fill("Begin.")
    page.keyboard.press("Enter")
    waiting = page.locator(".toast", has_text="Begin.")
    expect(waiting).to_contain_text(FAILURE["message"])
    page.unroute("**/api/chats")
    expect(page.get_by_text("echo: Begin.")).to_be_visible()

    page.route("**/send", lambda route: route.fulfill(status=503, json=FAILURE))
    page.get_by_label("Prompt", exact=True).fill("Go on.")
    page.keyboard.press("Enter")
    waiting = page.get_by_role("list", name="Being sent").get_by_role("listitem")
    expect(waiting).to_contain_text(FAILURE["message"])
    waiting.get_by_role("button", name="Discard").click()
    expect(waiting).to_have_count(0)
    ada.complaints.clear()


def test_a_page_that_the_network_lost_is_no_update(ada: Person) -> None:
    page = ada.open("/inbox")
    expect(page.locator(".foot small")).to_contain_text("live")
    page.route("**/analytics.js", lambda route: route.abort())
    with page.expect_response("**/login"):  # there the page looks which version the daemon has
        page.get_by_role("link", name="Analytics").click()
    expect(page.get_by_role("heading", name="This page could not be loaded")).to_be_visible()
    page.unroute("**/analytics.js")
    expect(page.locator(".banner")).to_have_count(0)
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_role("heading", name="Analytics")).to_be_visible()
    ada.complaints.clear()


def test_what_a_network_says_for_agentd_is_no_answer_of_agentd(ada: Person) -> None:
    page = ada.open("/settings/labels")
    wait_until_loaded(page)
    page.route(
        "**/api/**",
        lambda route: route.fulfill(content_type="text/html", body="<h1>Welcome, guest</h1>"),
    )
    page.reload()
    expect(page.get_by_text("agentd does not answer · trying again")).to_be_visible()
    page.unroute("**/api/**")
    expect(page.get_by_role("button", name="Add a label").first).to_be_visible()


def test_a_part_that_could_not_be_loaded_is_told_and_loaded_later(ada: Person) -> None:
    ada.context.route("**/palette.js", lambda route: route.abort())
    page = ada.open("/settings/labels")
    wait_until_loaded(page)
    page.keyboard.press("Control+k")
    expect(page.locator(".toast")).to_contain_text("This could not be loaded")
    ada.context.unroute("**/palette.js")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog", name="Find")).to_be_visible()


def test_a_part_of_another_version_offers_to_load_the_page_anew(ada: Person) -> None:
    ada.context.route("**/palette.js", lambda route: route.fulfill(status=404))
    page = ada.open("/settings/labels")
    wait_until_loaded(page)
    page.route("**/login", lambda route: route.fulfill(body="./-/0123456789abcdef/main.js"))
    page.keyboard.press("Control+k")
    expect(page.get_by_text("agentd was updated")).to_be_visible()
