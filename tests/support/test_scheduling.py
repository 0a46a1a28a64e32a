"""Browser tests are spread over the whole run."""

import subprocess
import sys
from pathlib import Path

from tests.support.paths import REPOSITORY

CONFTEST = """
from tests.support.scheduling import BrowserScheduling

def pytest_xdist_make_scheduler(config, log):
    return BrowserScheduling(config, log, browsers=1)
"""
TEST = """
import os

def note(line):
    with open("log", "a") as log:
        log.write(line)

def test_one():
    note(f"begin {__file__}\\n")

def test_other():
    note(f"end {__file__}\\n")
"""


def test_one_file_of_browser_tests_runs_at_a_time_from_the_start_on(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    files = [*(f"core/test_{n}.py" for n in range(20)), *(f"ui/test_{n}.py" for n in range(4))]
    for name in files:
        path = tmp_path / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "3", "--dist", "loadfile"]
    options = ["--import-mode=importlib", "-p", "no:cacheprovider", "-c", "/dev/null"]
    # Without its own, xdist makes a folder beside those of earlier runs, and removes the oldest.
    options.append(f"--basetemp={tmp_path / 'temporary'}")
    done = subprocess.run(
        [*command, *options, f"--rootdir={tmp_path}", "."],
        cwd=tmp_path,
        env={"PYTHONPATH": str(REPOSITORY), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    assert len(lines) == 2 * len(files)
    # Once all other files are given away (a process has its next one early), those of browser tests
    # are given to whoever has nothing to do.
    others = [n for n, (what, path) in enumerate(lines) if what == "begin" and "/core/" in path]
    order = [(what, path) for what, path in lines[: others[-2 * 3]] if "/ui/" in path]
    assert [what for what, _ in order] == (["begin", "end"] * 4)[: len(order)]
    assert all(one[1] == other[1] for one, other in zip(order[::2], order[1::2], strict=False))
    firsts = [path for what, path in lines if what == "begin"][: len(files) // 2]
    assert any("/ui/" in path for path in firsts), "they would come last in the order of names"
