"""A long run goes on where it was stopped, and counts no half of a block."""

from pathlib import Path

import pytest

from tests.crash import long_run
from tests.crash.long_run import BlockResult, append_result, describe, main, read_results


def build_block(seed: int, runs: int = 3, *, ok: bool = True) -> BlockResult:
    return BlockResult("kill9", seed, runs, 1.5, ok, "said", "2026-01-01T00:00:00+00:00")


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return the seeds and runs of the blocks that were run; the blocks of seed 5 fail."""
    found: list[tuple[int, int]] = []

    def run(program: str, runs: int, seed: int, _: Path) -> BlockResult:
        found.append((seed, runs))
        return build_block(seed, runs, ok=seed != 5)

    monkeypatch.setattr(long_run, "run_block", run)
    monkeypatch.setattr("os.nice", lambda _: 0)
    return found


def start(monkeypatch: pytest.MonkeyPatch, path: Path, *options: str) -> int:
    monkeypatch.setattr("sys.argv", ["long_run", "kill9", "--results", str(path), *options])
    return main()


def test_it_goes_on_with_the_next_seed_until_there_are_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ran: list[tuple[int, int]]
) -> None:
    path = tmp_path / "results.jsonl"
    assert start(monkeypatch, path, "--total", "6", "--block", "3") == 0
    assert start(monkeypatch, path, "--total", "10", "--block", "3") == 0
    assert ran == [(1, 3), (2, 3), (3, 3), (4, 1)]
    assert start(monkeypatch, path, "--total", "10") == 0
    assert len(ran) == 4


def test_it_ends_with_a_violation_and_says_so_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ran: list[tuple[int, int]]
) -> None:
    path = tmp_path / "results.jsonl"
    assert start(monkeypatch, path, "--total", "100", "--block", "3", "--first-seed", "4") == 1
    assert start(monkeypatch, path, "--total", "100", "--block", "3") == 1
    assert ran == [(4, 3), (5, 3)]


def test_a_line_that_was_cut_off_is_no_block(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    append_result(path, build_block(1))
    with path.open("ab") as file:
        file.write(b'{"program":"kill9","se')
    append_result(path, build_block(2))
    assert [block.seed for block in read_results(path, "kill9")] == [1, 2]
    assert "6 in 2 blocks, seeds 1 to 2" in describe("kill9", read_results(path, "kill9"))


def test_a_block_runs_the_program(tmp_path: Path) -> None:
    block = long_run.run_block("kill9", 2, 3, tmp_path / "corpus")
    assert block.ok, block.said
    assert "2 kills" in block.said or "3 kills" in block.said


def test_a_block_that_found_something_tells_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "print('first\\nsecond'); raise SystemExit(1)"
    (tmp_path / "finds_something.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setitem(long_run.PROGRAMS, "kill9", ("finds_something",))
    block = long_run.run_block("kill9", 1, 1, tmp_path / "corpus")
    assert not block.ok
    assert block.said.startswith("first\nsecond\n(files in ")


def test_what_fuzzers_find_is_kept_beside_the_results_for_the_next_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = ("tests.fuzz", "json-body", "--plain", *long_run.PROGRAMS["fuzz"][2:])
    monkeypatch.setitem(long_run.PROGRAMS, "fuzz", program)
    monkeypatch.setattr("os.nice", lambda _: 0)
    options = ["fuzz", "--results", str(tmp_path / "fuzz.jsonl"), "--total", "1", "--block", "1"]
    monkeypatch.setattr("sys.argv", ["long_run", *options])
    assert main() == 0
    assert list((tmp_path / "corpus" / "json-body").iterdir())
    assert "--corpus" in long_run.PROGRAMS["fuzz"]
