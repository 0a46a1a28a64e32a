"""Changes, history and files, on a real repository with names that nobody sane gives."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Serving
from tests.ui.accessibility import check_accessibility
from tests.ui.support import DESK, PHONE, Person, TalkingEngine, hold_requests, person
from tests.ui.test_queue import refuse, take_held

from playwright.sync_api import Browser, Page, expect  # isort: skip

EVIL = "<img src=x onerror=window.hit=1>"
BRANCH = "fix/<svg/onload=window.hit=1>"
ODD = f'src/{EVIL}"q\\ü\u202egpj.py'
PNG = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\x9cc"
    b"\xf8\xcf\xc0\xf0\x1f\0\x05\0\x01\xff\x89\x99=\x1d\0\0\0\0IEND\xaeB`\x82"
)


def run_git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The workspace, with changes of every kind."""
    home = tmp_path_factory.mktemp("home")
    (home / ".gitconfig").write_text(
        "[user]\n name = Ada <script>\n email = ada@example.org\n[init]\n defaultBranch = main\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.delenv("XDG_CONFIG_HOME", raising=False)
        work = tmp_path_factory.mktemp("work")
        (work / "src").mkdir()
        (work / "webhooks").mkdir()
        handler = "".join(f"    step_{number}(event)  # {number}\n" for number in range(40))
        (work / "webhooks" / "handler.py").write_text(f"async def handle(event):\n{handler}")
        (work / ODD).write_text("one\ntwo\n")
        (work / "gone.txt").write_text("x\n")
        (work / "long.txt").write_text("".join(f"line {number}\n" for number in range(1, 20_001)))
        run_git(work, "init", "-q")
        (work / ".git" / "info" / "exclude").write_text("long.txt\n")
        run_git(work, "checkout", "-qb", BRANCH)
        run_git(work, "add", "-A")
        run_git(work, "commit", "-qm", f"First {EVIL}")
        for number in range(60):
            run_git(work, "commit", "-q", "--allow-empty", "-m", f"Step {number}")
        yield work


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory, talking: TalkingEngine, root: Path
) -> Iterator[Serving]:
    """The file's daemon, which works in the repository."""
    with Serving(tmp_path_factory.mktemp("site"), talking, workspace=str(root)) as serving:
        yield serving


@pytest.fixture
def changed(root: Path) -> Path:
    """The repository as it was, with changes of every kind."""
    run_git(root, "reset", "-q", "--hard")
    run_git(root, "clean", "-fdq")
    handler = root / "webhooks" / "handler.py"
    text = handler.read_text().replace("    step_20(event)  # 20\n", "    if await seen(event):\n")
    handler.write_text(text)
    (root / ODD).write_text(f"one\n{EVIL}\n")
    (root / "gone.txt").unlink()
    (root / "new.txt").write_text(f"{EVIL}\n")
    (root / "dot.png").write_bytes(PNG)
    run_git(root, "add", "webhooks/handler.py")
    return root


def list_side(page: Page, name: str) -> list[str]:
    """List the files of a side, as they are shown."""
    files = page.get_by_role("region", name=name, exact=True).locator(".changed-files .p")
    return [text.replace("\n", "") for text in files.all_inner_texts()]


def test_files_are_looked_at_staged_and_committed(ada: Person, changed: Path) -> None:
    page = ada.open("/workspace/changes")
    expect(page.locator(".l.add")).to_contain_text("if await seen(event):")
    assert list_side(page, "Staged") == ["webhooks/handler.py"]
    page.get_by_role("button", name="gone.txt").first.click()
    expect(page.locator(".l.del")).to_have_text("1−x")
    with page.expect_response("**/api/git/stage"):  # rows move again with what the daemon says
        page.get_by_role("button", name="Stage gone.txt", exact=True).click()
    expect(page.get_by_role("button", name="Unstage gone.txt", exact=True)).to_be_attached()
    with page.expect_response("**/api/git/unstage"):
        page.get_by_role("button", name="Unstage webhooks/handler.py", exact=True).click()
    handler = page.get_by_role("button", name="Stage webhooks/handler.py", exact=True)
    expect(handler).to_be_attached()
    page.get_by_role("button", name="new.txt").first.click()
    expect(page.locator(".l.add")).to_contain_text(EVIL)
    page.get_by_role("button", name="Commit…").click()
    page.get_by_label("Message").fill("Remove what is not needed")
    page.get_by_role("dialog").get_by_role("button", name="Commit", exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("region", name="Staged", exact=True)).to_be_hidden()
    assert run_git(changed, "show", "--format=%s", "--name-status").split() == [
        *["Remove", "what", "is", "not", "needed", "D", "gone.txt"]
    ]
    page.get_by_role("link", name="History").click()
    expect(page.locator(".commit .subject").first).to_have_text("Remove what is not needed")
    expect(page.locator(".l.del")).to_have_text("1−x")
    run_git(changed, "reset", "-q", "--hard", "HEAD~1")
    expect(page.locator(".commit .subject").first).to_have_text("Step 59")


def test_what_cannot_be_staged_goes_back_and_says_why(ada: Person, changed: Path) -> None:
    page = ada.open("/workspace/changes")
    button = page.get_by_role("button", name="Stage gone.txt")
    expect(button).to_be_attached()
    (changed / ".git" / "index.lock").write_text("")
    button.click()
    expect(page.locator(".toast.bad")).to_contain_text("Another git is at work")
    expect(button).to_be_attached()
    (changed / ".git" / "index.lock").unlink()
    page.locator(".toast.bad").get_by_role("button", name="Retry").click()
    expect(page.get_by_role("button", name="Unstage gone.txt")).to_be_attached()


def test_of_files_that_cannot_be_staged_all_go_back(ada: Person, changed: Path) -> None:
    page = ada.open("/workspace/changes")
    held = hold_requests(page, "**/api/git/stage")
    names = ("gone.txt", "new.txt")
    for name in names:
        page.get_by_role("button", name=f"Stage {name}", exact=True).click()
        expect(page.get_by_role("button", name=f"Unstage {name}")).to_be_attached()
    for _ in names:
        refuse(take_held(page, held))
    for name in names:
        expect(page.get_by_role("button", name=f"Stage {name}", exact=True)).to_be_attached()


def test_a_comment_on_a_line_joins_the_draft_of_a_chat(
    ada: Person, site: Serving, changed: Path
) -> None:
    chat = site.client().create_chat(title="Reviewed")
    page = ada.open("/workspace/changes")
    code = page.locator(".code.picks")
    code.focus()
    for _ in range(4):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    form = page.locator(".comment")
    form.get_by_role("textbox").fill("Why here?")
    form.get_by_label("Draft of").select_option(label="Reviewed")
    form.get_by_role("button", name="Add to the draft").click()
    page.locator(".toast").get_by_role("button", name="Open").click()
    expect(page).to_have_url(f"{site.url}/{chat}")
    draft = page.get_by_label("Prompt", exact=True)
    expect(draft).to_have_value(
        "webhooks/handler.py:22 (removed)\n>     step_20(event)  # 20\nWhy here?"
    )


def test_the_panel_beside_a_chat_shows_the_changes_and_takes_comments(
    ada: Person, site: Serving, changed: Path
) -> None:
    chat = site.client().create_chat(title="With a panel")
    page = ada.open(f"/{chat}?panel=changes")
    panel = page.get_by_role("complementary", name="This chat")
    expect(panel.locator(".panel-head")).to_contain_text("+")
    panel.get_by_role("button", name="handler.py").first.click()
    page.get_by_role("dialog").locator(".l.add").click()
    page.get_by_role("dialog").get_by_role("textbox").fill("Good")
    page.get_by_role("dialog").get_by_role("button", name="Add to the draft").click()
    expect(page.get_by_label("Prompt", exact=True)).to_have_value(
        "webhooks/handler.py:22\n>     if await seen(event):\nGood"
    )
    (changed / "gone.txt").write_text("x\n")
    page.evaluate("dispatchEvent(new Event('focus'))")
    expect(panel.get_by_role("button", name="gone.txt")).to_have_count(0)


def test_old_commits_are_read_as_one_scrolls_and_a_commit_has_an_address(
    ada: Person, site: Serving, changed: Path
) -> None:
    page = ada.open("/workspace/history")
    expect(page.locator(".commit")).to_have_count(50)
    page.get_by_role("region", name="Commits").evaluate("one => one.scrollTo(0, 1e6)")
    first = page.locator(".commit", has_text=f"First {EVIL}")
    first.click()
    expect(page.locator(".box")).to_have_count(3)
    page.reload()
    expect(page.locator(".box")).to_have_count(3)


def test_folders_are_browsed_files_shown_and_text_found(
    ada: Person, site: Serving, changed: Path
) -> None:
    page = ada.open("/workspace/files")
    page.get_by_role("link", name="long.txt").click()
    lines = page.locator(".code.whole")
    expect(lines.locator(".l").first).to_contain_text("line 1")
    assert lines.locator(".l").count() < 2000  # of 20,000
    page.get_by_label("Find files and text").fill("line 15000")
    page.locator(".entry.hit").click()
    expect(lines.locator(".l.at")).to_have_text("15000line 15000")
    expect(lines.locator(".l.at")).to_be_in_viewport()
    page.get_by_label("Find files and text").fill("")
    page.get_by_role("link", name="dot.png").click()
    expect(page.locator(".picture img")).to_have_js_property("naturalWidth", 1)
    page.get_by_role("link", name="src", exact=True).click()
    expect(page.get_by_role("navigation", name="Folder")).to_contain_text("src")
    page.locator(".entry").first.click()
    expect(page.locator(".code.whole")).to_contain_text(EVIL)


def test_no_name_of_the_repository_becomes_code(ada: Person, site: Serving, changed: Path) -> None:
    """Section 8, row 36: names of files and branches, subjects, authors, lines."""
    requests: list[str] = []
    ada.context.on("request", lambda request: requests.append(request.url))
    for path, text in (
        ("/workspace/changes", ".file"),
        ("/workspace/history", ".commit"),
        ("/workspace/files?path=src/", ".entry"),
        ("/workspace/files?q=window.hit", ".entry"),
    ):
        page = ada.open(path)
        expect(page.locator(text).first).to_be_visible()
        if path.endswith("changes"):
            expect(page.locator(".chip.branch")).to_contain_text(BRANCH)
            page.locator(".file", has_text="gpj.py").click()
            expect(page.locator(".l.add")).to_contain_text(EVIL)
            expect(page.locator(".box > header code")).to_have_text(ODD)
        assert page.evaluate("window.hit") is None
        assert page.locator("main img, main svg[onload]").count() == 0
        page.close()
    assert not [url for url in requests if not url.startswith(site.url)]


def test_a_viewer_looks_and_changes_nothing(
    browser: Browser, site: Serving, changed: Path, ada: Person
) -> None:
    """Section 8, row 4."""
    ada.context.route(
        "**/api/session",
        lambda route: route.fulfill(json={**route.fetch().json(), "role": "viewer"}),
    )
    page = ada.open("/workspace/changes")
    expect(page.locator(".l.add")).to_be_visible()
    page.locator(".l.add").click()
    assert page.get_by_role("button", name="Commit…").count() == 0
    assert page.locator(".act:visible, .comment").count() == 0


def test_without_a_repository_the_page_says_so(browser: Browser, tmp_path: Path) -> None:
    with Serving(tmp_path) as serving, person(browser, serving) as somebody:
        page = somebody.open("/workspace/changes")
        expect(page.get_by_role("alert")).to_contain_text("not in a git repository")
        expect(page.get_by_role("button", name="Retry")).to_be_visible()


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_the_pages_can_be_used_by_everybody_and_fit_their_width(
    browser: Browser, site: Serving, changed: Path, size: tuple[int, int], tmp_path: Path
) -> None:
    """Section 8, rows 37 to 39; the pictures are in the test's temporary folder."""
    first = run_git(changed, "rev-list", "--max-parents=0", "HEAD").strip()
    pages = (
        ("/workspace/changes", ".file"),
        ("/workspace/changes?file=staged%20webhooks/handler.py", ".l.add"),
        ("/workspace/history", ".commit"),
        (f"/workspace/history?commit={first}", ".box"),
        ("/workspace/files", ".entry"),
        ("/workspace/files?path=webhooks/handler.py&line=5", ".l.at"),
    )
    with person(browser, site, size=size) as somebody:
        for number, (path, wanted) in enumerate(pages):
            page = somebody.open(path)
            expect(page.locator(wanted).first).to_be_visible()
            page.wait_for_load_state("load")
            expect(page.locator(".skeleton")).to_have_count(0)
            check_accessibility(page, tmp_path / f"{number}")
            page.close()


@pytest.mark.parametrize(
    ("path", "row", "shown"),
    [
        ("/workspace/changes", ".file", ".box"),
        ("/workspace/history", ".commit", "h2"),
        ("/workspace/files", ".entry[data-id='long.txt']", ".file-box"),
        ("/workspace/files?q=seen", ".entry.hit", ".file-box"),
    ],
)
def test_on_a_phone_back_leads_from_what_was_chosen_to_its_list(
    browser: Browser, site: Serving, changed: Path, path: str, row: str, shown: str
) -> None:
    with person(browser, site, size=PHONE) as somebody:
        page = somebody.open("/inbox")
        page.goto(site.url + path)
        page.locator(row).first.tap()
        expect(page.locator(f"main .shown {shown}").first).to_be_visible()
        page.go_back()
        expect(page).to_have_url(site.url + path)
        expect(page.locator(row).first).to_be_visible()
        page.go_forward()
        expect(page.locator(f"main .shown {shown}").first).to_be_visible()


def test_files_are_staged_one_after_the_other_by_the_keyboard(ada: Person, changed: Path) -> None:
    """Row 38: the next file has the focus, and at the end the page."""
    page = ada.open("/workspace/changes")
    section = page.get_by_role("region", name="Changed", exact=True)
    buttons = section.locator("li .act")
    number = len(run_git(changed, "diff", "--name-only").splitlines())
    expect(buttons).to_have_count(number)
    buttons.first.focus()
    for left in range(number - 1, 0, -1):
        page.keyboard.press("Enter")
        expect(buttons).to_have_count(left)
        expect(buttons.first).to_be_focused()
    page.keyboard.press("Enter")
    expect(buttons).to_have_count(0)
    assert page.evaluate("document.activeElement !== document.body")


def test_a_list_of_many_changed_files_stays_where_it_is_when_one_is_staged(
    ada: Person, changed: Path
) -> None:
    for number in range(80):
        (changed / f"new {number:02}.txt").write_text("new\n")
    page = ada.open("/workspace/changes")
    files = page.get_by_role("region", name="New, not tracked").locator("li .act")
    files.last.scroll_into_view_if_needed()
    scroller = page.get_by_role("region", name="Changed files")
    before = scroller.evaluate("(node) => node.scrollTop")
    assert before > 500
    number = files.count()
    files.last.click()
    expect(files).to_have_count(number - 1)
    assert scroller.evaluate("(node) => node.scrollTop") > before - 100


def test_the_history_stays_where_it_is_when_older_commits_come(ada: Person, root: Path) -> None:
    page = ada.open("/workspace/history")
    scroller = page.get_by_role("region", name="Commits", exact=True)
    commits = scroller.get_by_role("listitem")
    expect(commits.first).to_be_visible()
    before = commits.count()
    held = hold_requests(page, re.compile("/api/git/log.*before"))
    shown = commits.nth(before - 5)
    shown.scroll_into_view_if_needed()
    shown.get_by_role("link").or_(shown.get_by_role("button")).first.focus()
    take_held(page, held).continue_()
    expect(commits).not_to_have_count(before)
    expect(shown).to_be_in_viewport()
    assert shown.evaluate("(node) => node.contains(document.activeElement)")


def test_that_only_the_beginning_of_a_change_is_shown_is_told(
    ada: Person, root: Path, changed: Path
) -> None:
    handler = root / "webhooks" / "handler.py"
    handler.write_text("".join(f"added line {number}\n" for number in range(20_000)))
    (root / "large.txt").write_text("".join(f"line {number}\n" for number in range(200_000)))
    page = ada.open("/workspace/changes?file=changed%20webhooks%2Fhandler.py")
    shown = page.get_by_role("region", name="What is changed")
    expect(shown.locator(".l.add").first).to_be_visible()
    expect(shown).to_contain_text("Only the beginning is shown.")
    page.get_by_role("button", name="large.txt").first.click()
    expect(shown.locator(".l.add").first).to_have_text("1+line 0")
    expect(shown).to_contain_text("Only the beginning is shown.")


def test_a_new_file_without_content_adds_no_line(ada: Person, root: Path, changed: Path) -> None:
    (root / "empty.txt").touch()
    page = ada.open("/workspace/changes?file=untracked%20empty.txt")
    shown = page.get_by_role("region", name="What is changed")
    expect(shown).to_contain_text("A new file, which is empty.")
    expect(shown.locator(".l")).to_have_count(0)


def test_of_a_copy_its_own_path_is_shown_and_only_it_is_unstaged(
    ada: Person, root: Path, changed: Path
) -> None:
    for name in ("diff.renames", "status.renames"):
        run_git(root, "config", name, "copies")
    try:
        (root / "copy.py").write_text(run_git(root, "show", "HEAD:webhooks/handler.py"))
        run_git(root, "add", "copy.py")
        page = ada.open("/workspace/changes?file=staged%20copy.py")
        shown = page.get_by_role("region", name="What is changed")
        expect(shown.locator("header code")).to_have_text("copy.py")
        with page.expect_response("**/api/git/unstage") as answer:
            page.get_by_role("button", name="Unstage copy.py").click()
        assert [one["path"] for one in answer.value.json()["staged"]] == ["webhooks/handler.py"]
        assert "copy.py" in answer.value.json()["untracked"]
        run_git(root, "add", "copy.py")
        run_git(root, "commit", "-qm", "A copy")
        commit = run_git(root, "rev-parse", "HEAD").strip()
        page.goto(f"{ada.url}/workspace/history?commit={commit}")
        files = page.get_by_role("region", name="The commit").locator(".box > header")
        expect(files).to_have_text(["copy.pyCopied", "webhooks/handler.py+1 −1"])
        run_git(root, "reset", "-q", "--hard", "HEAD~1")
    finally:
        for name in ("diff.renames", "status.renames"):
            run_git(root, "config", "--unset", name)


def test_a_file_that_is_looked_at_is_read_again_where_one_reads_and_new_ones_are_listed(
    ada: Person, root: Path, changed: Path
) -> None:
    read = root / "read.txt"
    read.write_text("".join(f"line {number}\n" for number in range(1, 3001)))
    page = ada.open("/workspace/files?path=read.txt&line=1500")
    marked = page.locator(".code.whole .l.at")
    expect(marked).to_be_in_viewport()
    page.locator("#L1510").click()
    with read.open("a") as file:
        file.write("appended\n")
    (root / "made.txt").touch()
    page.evaluate("() => void dispatchEvent(new Event('focus'))")
    expect(page.get_by_role("link", name="made.txt")).to_be_visible()
    expect(page.locator(".chunk")).to_have_count(16)
    expect(marked).to_have_text("1500line 1500")
    expect(marked).to_be_in_viewport()
    read.unlink()
    page.evaluate("() => void dispatchEvent(new Event('focus'))")
    expect(page.get_by_role("region", name="File")).to_contain_text("read.txt")
    expect(page.locator(".code.whole")).to_have_count(0)
