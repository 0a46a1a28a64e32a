"""Each endpoint that changes something does it wholly or not at all, whichever disk call fails."""

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.auth.test_gate_matrix import EVERY
from tests.crash.endpoint_calls import CALLS, NOT_CALLED
from tests.crash.endpoint_sweep import Expectation
from tests.support.paths import REPOSITORY

EVERY_CASE = 300
"""One case in so many, of a sample of the endpoints; the program tries all."""


def run_sweep(folder: Path, *options: str) -> tuple[int, list[str]]:
    """Return the program's exit code and lines: it forks, so it needs a process without threads."""
    command = [sys.executable, "-m", "tests.crash.endpoint_sweep", "--folder", str(folder)]
    done = subprocess.run(
        [*command, *options], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.stdout, done.stderr
    return done.returncode, done.stdout.splitlines()


def test_every_route_that_changes_something_has_a_call_or_a_reason() -> None:
    routes = {
        f"{route.method} {route.path}"
        for route in EVERY
        if route.method not in ("GET", "HEAD", "OPTIONS") and not route.is_page
    }
    known = CALLS.keys() | NOT_CALLED.keys()
    assert not routes - known, "give them a call or a reason in endpoint_calls.py"
    assert not known - routes, "these are no routes"
    assert not CALLS.keys() & NOT_CALLED.keys()


def test_no_failing_call_leaves_a_half_or_loses_what_was_acknowledged(tmp_path: Path) -> None:
    code, lines = run_sweep(tmp_path, "--every", str(EVERY_CASE))
    assert code == 0, lines
    tried, missed = re.search(r"(\d+) faults .*\((\d+) calls were not made", lines[-1]).groups()
    assert int(tried) + int(missed) >= 3  # by the exit code, one was made at least


def test_the_sweep_finds_what_a_careless_store_does(tmp_path: Path) -> None:
    options = ("--only", "DELETE /api/me/push", "--kind", "ENOSPC")
    code, lines = run_sweep(tmp_path, *options, "--plant", "failed_documents_are_acknowledged")
    assert code == 1, lines
    found = [json.loads(line) for line in lines[:-1]]
    assert all("acknowledged, but" in one["violations"][0] for one in found)
    failing = {one["place"].partition(" ")[0] for one in found}
    assert failing == {"open", "write", "fsync", "link", "rename"}, "each call of its writer"


def test_what_is_half_done_is_neither_as_before_nor_as_after() -> None:
    before, after = {"a": 1, "b": 1}, {"a": 2, "b": 2}
    expected = Expectation(before, after, before, after)
    assert not list(expected.find_violations(503, before))
    assert not list(expected.find_violations(0, after))
    assert list(expected.find_violations(0, {"a": 1, "b": 2}))
    assert list(expected.find_violations(201, before))


def test_what_is_never_the_same_is_not_compared() -> None:
    expected = Expectation({"t": 1, "a": 1}, {"t": 2, "a": 2}, {"t": 3, "a": 1}, {"t": 4, "a": 2})
    assert not list(expected.find_violations(200, {"t": 9, "a": 2}))
