"""A chat's work tree beside it: made with its first prompt, looked at, merged, kept and dropped."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Serving
from tests.support.waiting import until
from tests.ui.accessibility import check_accessibility
from tests.ui.support import PHONE, Person, TalkingEngine, person
from tests.workspace.worktrees.conftest import build_writer, run_git, work_in_tree

from playwright.sync_api import Browser, expect  # isort: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A repository of a person with a name."""
    home = tmp_path_factory.mktemp("home")
    (home / ".gitconfig").write_text("[user]\n name = Ada\n email = ada@example.org\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.delenv("XDG_CONFIG_HOME", raising=False)
        work = tmp_path_factory.mktemp("work")
        run_git(work, "init", "-q", "-b", "main")
        for name in ("a", "b"):
            (work / name).write_text("one\n")
        run_git(work, "add", "-A")
        run_git(work, "commit", "-qm", "First")
        yield work


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory, talking: TalkingEngine, root: Path
) -> Iterator[Serving]:
    """The file's daemon, whose engine carries out prompts such as ``a=text``."""
    talking.says = build_writer(root)
    with Serving(tmp_path_factory.mktemp("site"), talking, workspace=str(root)) as serving:
        yield serving


def test_a_chat_in_a_work_tree_is_begun_looked_at_and_merged(ada: Person, root: Path) -> None:
    page = ada.open("/")
    page.get_by_role("button", name="Work tree").click()
    page.get_by_label("The first prompt").fill("a=from the tree\nnew=made")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/\d+$"))
    expect(page.locator(".turn").last).to_contain_text("written in")
    page.goto(page.url + "?panel=changes")
    panel = page.get_by_role("region", name="Work tree")
    expect(panel).to_contain_text("2 files not committed")
    expect(panel.locator(".chip.branch")).to_contain_text("agentd/")
    panel.get_by_role("button", name="new").click()
    expect(page.get_by_role("dialog").locator(".l.add")).to_contain_text("made")
    page.keyboard.press("Escape")
    assert (root / "a").read_text() == "one\n"
    panel.get_by_role("button", name="Merge into main").click()
    expect(panel).to_contain_text("Nothing that main lacks")
    assert (root / "a").read_text() == "from the tree\n"
    panel.get_by_role("button", name="More about the work tree").click()
    page.get_by_role("menuitem", name="Drop").click()
    page.get_by_role("dialog").get_by_role("button", name="Drop", exact=True).click()
    expect(page.get_by_role("region", name="Changes", exact=True)).to_be_visible()
    assert run_git(root, "branch", "--list", "agentd/*") == ""


def test_conflicts_are_told_and_the_branch_is_kept(ada: Person, site: Serving, root: Path) -> None:
    client = site.client()
    chat = work_in_tree(client, "b=theirs")
    (root / "b").write_text("ours\n")
    run_git(root, "commit", "-qam", "Ours")
    page = ada.open(f"/{chat}?panel=changes")
    panel = page.get_by_role("region", name="Work tree")
    panel.get_by_role("button", name="Merge into main").click()
    expect(panel.get_by_role("alert")).to_contain_text("The merge has conflicts")
    expect(panel.get_by_role("alert")).to_contain_text("b. ")
    panel.get_by_role("button", name="Rebase").click()
    expect(panel.get_by_role("alert")).to_contain_text("The rebase has conflicts")
    panel.get_by_role("button", name="More about the work tree").click()
    page.get_by_role("menuitem", name="Keep the branch only").click()
    page.get_by_role("dialog").get_by_role("button", name="Keep the branch").click()
    expect(page.get_by_role("region", name="Changes", exact=True)).to_be_visible()
    assert run_git(root, "show", f"agentd/{chat}-b-theirs:b") == "theirs\n"
    run_git(root, "branch", "-D", f"agentd/{chat}-b-theirs")


def test_unmerged_work_is_dropped_only_when_confirmed_again(
    ada: Person, site: Serving, root: Path
) -> None:
    chat = work_in_tree(site.client(), "b=lost")
    page = ada.open(f"/{chat}?panel=changes")
    panel = page.get_by_role("region", name="Work tree")
    panel.get_by_role("button", name="More about the work tree").click()
    page.get_by_role("menuitem", name="Drop").click()
    page.get_by_role("dialog").get_by_role("button", name="Drop", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("files that are not committed: 1")
    assert "agentd/" in run_git(root, "branch", "--list", "agentd/*")
    page.get_by_role("dialog").get_by_role("button", name="Drop with its changes").click()
    expect(page.get_by_role("region", name="Changes", exact=True)).to_be_visible()
    assert run_git(root, "branch", "--list", "agentd/*") == ""


def test_a_chat_with_work_that_would_be_lost_is_deleted_only_when_confirmed(
    ada: Person, site: Serving, root: Path
) -> None:
    chat = work_in_tree(site.client(), "b=lost")
    page = ada.open(f"/{chat}")
    page.get_by_role("button", name="More", exact=True).click()
    page.get_by_role("menuitem", name="Move to the trash").click()
    expect(page.get_by_role("dialog")).to_contain_text("would be lost")
    page.get_by_role("dialog").get_by_role("button", name="Delete with its changes").click()
    page.wait_for_url(re.compile("/chats$"))
    until(lambda: run_git(root, "branch", "--list", "agentd/*") == "")


def test_on_a_phone_an_idle_chat_is_given_a_work_tree(
    browser: Browser, site: Serving, root: Path
) -> None:
    """Rows 38 and 39."""
    chat = site.client().create_chat()
    with person(browser, site, size=PHONE) as somebody:
        page = somebody.open(f"/{chat}")
        page.get_by_role("button", name="More", exact=True).click()
        page.get_by_role("menuitem", name="Work in a tree of its own").click()
        panel = page.get_by_role("region", name="Work tree")
        expect(panel).to_contain_text("Made with the next prompt")
        check_accessibility(page)
