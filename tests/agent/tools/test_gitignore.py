"""Searches leave out what git would, and nothing else; git itself is the judge."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from agentd.agent.tools.files import FolderWorkspace
from agentd.agent.tools.gitignore import build_glob_filter
from agentd.agent.tools.model import FindFiles, SearchText
from agentd.core.errors import BadRequest

FILES = (
    *("keep.txt", "x.log", "keep.log", "build/a.txt", "src/build/a.txt", "src/a.py", "src/b.tmp"),
    *("src/deep/c.gen", "src/deep/kept.gen", "docs/out/page.txt", "docs/in/page.txt", "top.gen"),
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for name in FILES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("needle\n")
    (tmp_path / ".gitignore").write_text("# built\n*.log\n!keep.log\n/build/\ndocs/*/\n!docs/in/\n")
    (tmp_path / "src" / ".gitignore").write_text("*.tmp\n*.gen\n!kept.gen\n")
    return tmp_path


def list_found(root: Path, **more) -> set[str]:
    hits = asyncio.run(FolderWorkspace(str(root)).search_text(SearchText("needle", **more)))
    return {hit.path for hit in hits.hits}


def test_what_git_ignores_is_left_out(root):
    listed = ("git", "-C", str(root), "ls-files", "-co", "--exclude-standard")
    named = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split("\n")
    wanted = {name for name in named if name and not name.endswith(".gitignore")}
    assert {"src/deep/kept.gen", "docs/in/page.txt", "src/build/a.txt", "top.gen"} <= wanted
    assert list_found(root) == wanted
    files = asyncio.run(FolderWorkspace(str(root)).find_files(FindFiles("*.gen")))
    assert {one.path for one in files.entries} == {"src/deep/kept.gen", "top.gen"}


def test_all_is_searched_where_that_is_asked_for(root):
    assert list_found(root, ignored=True) == set(FILES)
    assert list_found(root, path="x.log") == {"x.log"}


def test_globs_narrow_a_search(root):
    assert list_found(root, globs=("*.txt",)) == {
        "keep.txt", "src/build/a.txt", "docs/in/page.txt"
    }  # fmt: skip
    assert list_found(root, globs=("src/**", "!*.gen")) == {"src/a.py", "src/build/a.txt"}
    assert list_found(root, globs=("!src/",)) == {
        "keep.txt", "keep.log", "docs/in/page.txt", "top.gen"
    }  # fmt: skip


def test_too_many_or_too_long_globs_are_refused():
    with pytest.raises(BadRequest):
        build_glob_filter(["a"] * 21)
    with pytest.raises(BadRequest):
        build_glob_filter(["a" * 201])


@pytest.mark.parametrize(
    "hostile", ["*" * 150 + "x", "**/" * 60 + "x", "[" * 100, "\\", "!", "[z-a]"]
)
def test_a_hostile_file_neither_hangs_nor_breaks_a_search(root, hostile):
    (root / ".gitignore").write_text(f"{hostile}\n" * 200 + "x.log\n")
    (root / ("a" * 200)).write_text("needle\n")
    assert "keep.txt" in list_found(root)
    assert "x.log" not in list_found(root)


def test_a_file_that_leads_out_or_is_no_file_counts_for_nothing(root, tmp_path):
    (root / ".gitignore").unlink()
    (root / ".gitignore").symlink_to("/etc/hosts")
    (root / "src" / ".gitignore").unlink()
    (root / "src" / ".gitignore").mkdir()
    assert list_found(root) == set(FILES)
