"""Back and Forward of the browser, and a reload, show a long list or page where one left it."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.benchmarks.states import Maker
from tests.support.daemon import Serving, until
from tests.ui.gateway_site import GatewaySite, open_gateway
from tests.ui.support import PHONE, Person, TalkingEngine, person

from playwright.sync_api import Browser, Page, Route, expect  # isort: skip

CHATS, DELETED, COMMITS, FILES = 460, 120, 240, 260
WORD = "lighthouse"
FIND = """(name) => [...document.querySelectorAll("main .scroll, main .log")].find(
  (node) => node.getAttribute("aria-label") === name)"""
READ = f"""(name) => {{
  const node = ({FIND})(name);
  if (!node) return null;
  const box = node.getBoundingClientRect();
  const found = document.elementFromPoint(box.left + box.width / 3, box.top + 60);
  const seen = found?.closest("li, tr") ?? found; // a row may not be drawn yet, nor what is in it
  const copy = seen?.cloneNode(true);
  copy?.querySelectorAll("time").forEach((one) => one.remove());
  return [Math.round(seen?.getBoundingClientRect().top), copy?.textContent?.slice(0, 80) ?? ""];
}}"""
"""What is seen near its upper edge but for times, which change, and where it begins."""
PULL = f"""([name, top]) => {{
  const node = ({FIND})(name);
  if (!node) return false;
  node.scrollTop = top;
  if (Math.abs(node.scrollTop - top) < 2) return true;
  [...node.querySelectorAll("button.more, button.more-rows")].at(-1)?.click();
  return false;
}}"""
AGO = re.compile(r"just now|\d+ m ago")
"""What changes while one looks."""
REMEMBERS = """(name) => Object.entries(history.state?.scrolled ?? {}).some(
  ([one, { top }]) => one.endsWith(` ${name}`) && top > 0)"""

PLACES_ARE_KEPT = """() => new Promise((done) => requestAnimationFrame(() =>
  requestAnimationFrame(() => setTimeout(done, 150))))"""
"""A timer of the page that ends after the one that keeps what was scrolled, which takes 120 ms."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, talking: TalkingEngine) -> Iterator[Serving]:
    """A daemon with long lists everywhere."""
    folder = tmp_path_factory.mktemp("long")
    workspace = folder / "workspace"
    make_repository(workspace)
    maker = Maker(str(folder))
    maker.add_chat(600, title="The long chat", said={301: f"The {WORD} is on pier 3."})
    for number in range(2, CHATS + 1):
        maker.add_chat(3, title=f"Chat number {number}")
    maker.finish()
    with Serving(folder, talking, workspace=str(workspace)) as serving:
        client = serving.client()
        for number in range(2, 2 + DELETED):
            client.delete(f"/api/chats/{number}")
        yield serving


def make_repository(folder: Path) -> None:
    """Make a repository with many commits, files, lines that a search finds, and changes."""
    folder.mkdir()
    for number in range(FILES):
        (folder / f"file-{number:03d}.txt").write_text(f"{WORD} {number}\n" * 4)
    (folder / "long.txt").write_text("".join(f"line {number}\n" for number in range(900)))
    commands = [
        *(("init", "-q", "-b", "main"), ("config", "user.name", "Ada")),
        *(("config", "user.email", "ada@example.com"), ("add", "-A")),
    ]
    for command in commands:
        subprocess.run(["git", *command], cwd=folder, check=True)
    stream = "".join(
        f"commit refs/heads/main\ncommitter Ada <ada@example.com> {1_700_000_000 + number} +0000\n"
        f"data <<END\nCommit number {number}\nEND\n\n"
        for number in range(COMMITS)
    )
    subprocess.run(["git", "fast-import", "--quiet"], cwd=folder, input=stream.encode(), check=True)
    subprocess.run(["git", "commit", "-qm", "All files"], cwd=folder, check=True)
    for number in range(0, FILES, 2):
        (folder / f"file-{number:03d}.txt").write_text(f"changed {number}\n" * 9)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewaySite]:
    with open_gateway(tmp_path_factory.mktemp("gateway")) as opened:
        for number in range(60):
            assert opened.ask(text=f"request {number}").status_code == 200
        for number in range(230):
            made = opened.admin.post("/api/agent/keys", {"name": f"key {number:03d}"})
            assert made.status == 201
        yield opened


def scroll_down(page: Page, name: str, top: int) -> tuple[int, str]:
    """Scroll a list down, loading what it does not have yet; return where that is."""
    until(lambda: page.evaluate(PULL, [name, top]))
    until(lambda: page.evaluate(REMEMBERS, name))
    place: tuple[int, str] = page.evaluate(READ, name)
    return place


def expect_place(page: Page, name: str, place: tuple[int, str]) -> None:
    """Wait until a list shows again what it showed."""
    try:
        until(lambda: is_at(page.evaluate(READ, name), place))
    except AssertionError:
        pytest.fail(f"{page.url}: {page.evaluate(READ, name)} instead of {place}")


def is_at(found: tuple[int, str] | None, wanted: tuple[int, str]) -> bool:
    """Return whether the same is seen at the same height."""
    if found is None or abs(found[0] - wanted[0]) > 2:
        return False
    return AGO.sub("", found[1]) == AGO.sub("", wanted[1])


LISTS = [
    ("/inbox", "Page", 6000),
    ("/chats/trash", "Trash", 3000),
    ("/workspace/history", "Commits", 5000),
    ("/workspace/changes", "Changed files", 1500),
    ("/workspace/files", "Folder", 2500),
    (f"/workspace/files?q={WORD}", "Folder", 2500),
    ("/workspace/files?path=long.txt", "File", 4000),
    ("/analytics", "Page", 60),
    ("/settings/agent", "Agent", 900),
]


@pytest.mark.parametrize(("path", "name", "top"), LISTS)
def test_back_shows_the_place_again(
    ada: Person, site: Serving, path: str, name: str, top: int
) -> None:
    page = ada.open(path)
    page.set_viewport_size({"width": 1440, "height": 320})
    place = scroll_down(page, name, top)
    page.locator(".side a.home").click()
    expect(page.get_by_label("The first prompt")).to_be_visible()
    page.go_back()
    expect_place(page, name, place)
    page.reload()
    expect_place(page, name, place)


def test_a_list_of_a_phone_is_where_it_was_after_a_chat(browser: Browser, site: Serving) -> None:
    with person(browser, site, size=PHONE) as somebody:
        page = somebody.open("/chats")
        place = scroll_down(page, "Chats", 9000)
        page.mouse.click(150, 300)
        expect(page).to_have_url(re.compile(r"/\d+$"))
        page.go_back()
        expect_place(page, "Chats", place)


def test_what_was_left_by_a_search_hit_is_where_it_was(ada: Person, site: Serving) -> None:
    """Row 22."""
    page = ada.open("/chats/trash")
    place = scroll_down(page, "Trash", 2000)
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill(WORD)
    page.get_by_role("option", name=re.compile("pier 3")).click()
    expect(
        page.locator(".script-scroll").get_by_text(f"The {WORD} is on pier 3.")
    ).to_be_in_viewport()
    page.go_back()
    expect_place(page, "Trash", place)
    page.go_forward()
    expect(
        page.locator(".script-scroll").get_by_text(f"The {WORD} is on pier 3.")
    ).to_be_in_viewport()


def test_who_scrolls_before_all_is_there_is_not_pulled_back(ada: Person, site: Serving) -> None:
    page = ada.open("/workspace/history")
    scroll_down(page, "Commits", 3000)
    page.locator(".side a.home").click()
    expect(page.get_by_label("The first prompt")).to_be_visible()
    held: list[Route] = []

    def hold(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append(route)

    page.route(re.compile("/api/git/log"), hold)
    page.go_back()
    until(lambda: page.title() and held)
    page.mouse.move(700, 300)
    page.mouse.wheel(0, 1)
    held[0].continue_()
    expect(page.locator(".commit").first).to_be_in_viewport()
    assert page.evaluate(READ, "Commits")


def test_a_reload_on_the_way_to_the_place_still_leads_there(ada: Person, site: Serving) -> None:
    page = ada.open("/workspace/history")
    page.set_viewport_size({"width": 1440, "height": 320})
    place = scroll_down(page, "Commits", 5000)
    page.locator(".side a.home").click()
    expect(page.get_by_label("The first prompt")).to_be_visible()
    asked: list[Route] = []

    def hold_the_third_page(route: Route) -> None:
        asked.append(route)
        if len(asked) < 2:
            route.continue_()

    page.route(re.compile("/api/git/log.*before="), hold_the_third_page)
    page.go_back()
    until(lambda: page.title() and len(asked) == 2)
    until(lambda: page.evaluate(f"({FIND})('Commits').scrollTop") > 4000)
    page.evaluate(PLACES_ARE_KEPT)
    page.unroute(re.compile("/api/git/log.*before="))
    page.reload()
    expect_place(page, "Commits", place)


def test_the_log_of_requests_and_long_lists_of_the_gateway_are_where_they_were(
    browser: Browser, gateway: GatewaySite
) -> None:
    """Row 24."""
    with person(browser, gateway.serving, size=(1440, 420)) as somebody:
        for path, name, top in (("requests", "Requests", 900), ("keys", "Page", 5000)):
            page = somebody.open(f"/gateway/{path}")
            place = scroll_down(page, name, top)
            page.get_by_role("link", name="Overview").first.click()
            expect(page).to_have_url(re.compile(r"/gateway$"))
            page.go_back()
            expect_place(page, name, place)
            page.close()


def test_the_pages_of_the_log_that_were_read_are_read_again(
    browser: Browser, gateway: GatewaySite
) -> None:
    """Row 24: the API's pages are made up, where Back leads is not."""
    template = gateway.requests()[0]

    def answer(route) -> None:  # type: ignore[no-untyped-def]
        cursor = int(re.search(r"cursor=(\d+)", route.request.url + "&cursor=0")[1])  # type: ignore[index]
        items = [{**template, "id": f"made-{cursor + number}"} for number in range(100)]
        route.fulfill(json={"items": items, "next": str(cursor + 100), "corruptLines": 0})

    with person(browser, gateway.serving) as somebody:
        somebody.context.route(re.compile("/api/agent/requests[?]"), answer)
        page = somebody.open("/gateway/requests")
        rows = page.locator(".log tbody tr")
        for _ in range(5):
            last = rows.last.get_attribute("data-id")
            page.get_by_role("button", name="Older").click()
            expect(rows.last).not_to_have_attribute("data-id", last or "")
        place = scroll_down(page, "Requests", 2500)
        first = rows.first.get_attribute("data-id") or ""
        assert first not in ("", "made-0")
        page.get_by_role("link", name="Overview").first.click()
        expect(page).to_have_url(re.compile(r"/gateway$"))
        page.go_back()
        expect(rows.first).to_have_attribute("data-id", first)
        expect_place(page, "Requests", place)
