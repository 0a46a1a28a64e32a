"""Whichever call to the disk fails: an error or a durable success, and a clean next start."""

import json
import subprocess
import sys

import pytest

from tests.crash import plants
from tests.support.paths import REPOSITORY

EVERY = 30
"""One case in so many; the program tries all."""


def run_sweep(*options: str) -> tuple[int, list[str]]:
    """Return the program's exit code and lines: it forks, so it needs a process without threads."""
    command = [sys.executable, "-m", "tests.crash.fault_sweep", *options]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return done.returncode, done.stdout.splitlines()


def test_no_failing_call_loses_anything_or_leaves_a_half(tmp_path: object) -> None:
    code, lines = run_sweep("--every", str(EVERY), "--folder", str(tmp_path))
    assert code == 0, lines
    tried = int(lines[-1].split()[2])
    assert tried > 40


@pytest.mark.parametrize(
    ("plant", "change", "kind"),
    [
        ("failed_writes_are_acknowledged", "append", "half"),
        ("nothing_is_cut_back", "append", "half"),
        ("failed_documents_are_acknowledged", "sign out", "ENOSPC"),
        ("failed_documents_are_acknowledged", "label", "ENOSPC"),
        ("failed_documents_are_acknowledged", "subscribe", "ENOSPC"),
        ("failed_documents_are_acknowledged", "schedule", "ENOSPC"),
        ("failed_documents_are_acknowledged", "run", "ENOSPC"),
    ],
)
def test_the_sweep_finds_what_a_careless_store_does(
    tmp_path: object, plant: str, change: str, kind: str
) -> None:
    assert plant in plants.DISK
    options = ("--only", change, "--kind", kind, "--plant", plant, "--folder", str(tmp_path))
    code, lines = run_sweep(*options)
    assert code == 1, lines
    assert any(json.loads(line)["violations"] for line in lines[:-1])
