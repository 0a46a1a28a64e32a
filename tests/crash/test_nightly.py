"""A night runs every proof, within its hours, and goes on with the results of the last one."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash import long_run, nightly
from tests.support.paths import REPOSITORY


def test_every_program_has_a_proof_and_the_shares_are_one_night() -> None:
    assert nightly.PROOFS.keys() == long_run.PROGRAMS.keys()
    shares = sum(proof.share for proof in nightly.PROOFS.values())
    assert shares + nightly.SOAK_SHARE == pytest.approx(1)


def test_each_proof_has_results_of_its_own(tmp_path: Path) -> None:
    commands = nightly.build_commands(tmp_path, 8)
    places = [command[command.index("--results") + 1] for command in commands]
    assert len(set(places)) == len(nightly.PROOFS) + 1
    assert [command[2] for command in nightly.build_commands(tmp_path, 8, ["fuzz"])] == ["fuzz"]


def test_a_night_tells_what_was_done_so_far(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    block = long_run.BlockResult("kill9", 4, 20, 1, True, "fine", "2026-01-01T00:00:00Z")
    long_run.append_result(folder / "kill9.jsonl", block)
    command = [sys.executable, "-m", "tests.crash.nightly", "--count", "--folder", str(folder)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kill9: 20 in 1 blocks, seeds 4 to 4" in done.stdout
    assert done.stdout.endswith("nothing was violated\n")
    assert len(list(folder.iterdir())) == 1
