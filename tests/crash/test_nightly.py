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
    assert shares == pytest.approx(1)


def test_each_proof_has_results_of_its_own(tmp_path: Path) -> None:
    commands = nightly.build_commands(tmp_path, 8)
    places = [command[command.index("--results") + 1] for command in commands]
    assert len(set(places)) == len(nightly.PROOFS)
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


def build_night(*, soak: bool) -> nightly.NightResult:
    return nightly.NightResult(soak, 8, [], "2026-01-01T00:00:00Z")


def test_one_night_of_seven_is_the_soaks_alone() -> None:
    nights: list[nightly.NightResult] = []
    for _ in range(16):
        nights.append(build_night(soak=nightly.is_soak_due(nights)))
    assert [number for number, night in enumerate(nights) if night.soak] == [0, 7, 14]
    early = [*nights, build_night(soak=True)]
    assert not nightly.is_soak_due(early), "with --soak it had one out of turn"


def test_a_night_of_the_soak_lasts_long_enough_to_compare_its_hours(tmp_path: Path) -> None:
    command = nightly.build_soak_command(tmp_path, 8)
    options = dict(zip(command[2::2], command[3::2], strict=True))
    assert float(options["--hours"]) >= 6
    assert float(options["--window"]) == 3600


def test_a_night_is_written_down_when_it_is_over_and_chooses_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        if began == [["stopped"]]:
            began.clear()
            raise KeyboardInterrupt
        began.append(command[2:3])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(nightly.subprocess, "run", run)
    monkeypatch.setattr("sys.argv", ["nightly", "--folder", str(tmp_path)])
    began.append(["stopped"])
    with pytest.raises(KeyboardInterrupt):
        nightly.main()
    assert nightly.read_nights(tmp_path) == []
    assert nightly.main() == 0
    assert began == [["tests.crash.soak"]]
    assert nightly.main() == 0
    assert began[1:] == [["tests.crash.long_run"]] * len(nightly.PROOFS)
    assert [night.soak for night in nightly.read_nights(tmp_path)] == [True, False]
