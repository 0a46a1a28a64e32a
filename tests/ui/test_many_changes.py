"""Changes of thousands of files: few rows at once, any of them by keys, all staged."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.daemon import Serving, until
from tests.ui.support import Person
from tests.ui.test_workspace import run_git

from playwright.sync_api import expect  # isort: skip

MANY = 5000
AT_ONCE = 300


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with thousands of changed files."""
    work = tmp_path_factory.mktemp("work")
    (work / "src").mkdir()
    files = [work / "src" / f"file_{number:04}.txt" for number in range(MANY)]
    for file in files:
        file.write_text("one\n")
    run_git(work, "init", "-q")
    run_git(work, "add", "-A")
    run_git(work, "-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-qm", "All")
    for file in files:
        file.write_text("two, which is longer\n")
    return work


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[Serving]:
    """The file's daemon, which works in the repository."""
    with Serving(tmp_path_factory.mktemp("site"), workspace=str(root)) as serving:
        yield serving


def test_few_of_many_files_are_shown_at_once_and_keys_reach_the_others(ada: Person) -> None:
    """Row 38."""
    page = ada.open("/workspace/changes")
    rows = page.get_by_role("region", name="Changed", exact=True).locator(".changed-files li")
    expect(rows).to_have_count(AT_ONCE)
    expect(page.get_by_role("button", name=f"{MANY - AT_ONCE} more files")).to_be_visible()
    expect(rows.locator("[aria-current]")).to_contain_text("file_0000.txt")
    page = ada.open(f"/workspace/changes?file={quote(f'changed src/file_{AT_ONCE - 1:04}.txt')}")
    for number in range(AT_ONCE - 1, AT_ONCE + 2):
        chosen = page.locator(".changed-files [aria-current]")
        expect(chosen).to_contain_text(f"file_{number:04}.txt")
        expect(chosen).to_be_in_viewport()
        expect(page.get_by_text("two, which is longer")).to_be_visible()
        page.keyboard.press("]")


def test_all_of_many_files_are_staged_and_unstaged(ada: Person, root: Path) -> None:
    page = ada.open("/workspace/changes")
    for deed, side, staged in (("Stage", "Staged", MANY), ("Unstage", "Changed", 0)):
        page.get_by_role("button", name=f"{deed} all", exact=True).click()
        section = page.get_by_role("region", name=side, exact=True)
        expect(section.locator("h2 .num")).to_have_text(str(MANY))
        until(lambda n=staged: len(list_staged(root)) == n)
        expect(section.locator(".changed-files li")).to_have_count(AT_ONCE)


def list_staged(root: Path) -> list[str]:
    return run_git(root, "diff", "--cached", "--name-only").splitlines()
