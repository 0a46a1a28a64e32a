# ruff: noqa: T201
"""Runs a program in blocks, for hours or days, and writes down each block's result.

    python -m tests.crash.long_run kill9 --total 100000 --results kills.jsonl [--hours 6]

Each block has a seed of its own, the next one after those in the results, and a new folder. So a
run may be stopped at any time and goes on where it was when it is started again: a block counts
when it is complete. What fuzzers find is kept beside the results, in ``corpus``, and the next block
begins with it. It ends with the first violation, whose folder stays; the same command with
that seed (in the results) repeats it. ``--count`` tells what was done so far.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct
from msgspec import json as msgspec_json

from tests.support.paths import REPOSITORY

_BLOCK = ("--runs", "{runs}", "--seed", "{seed}", "--folder", "{folder}")
_SWEEP = ("--every", "200", "--seed", "{seed}", "--folder", "{folder}")
PROGRAMS = {
    "kill9": ("tests.crash.kill9", *_BLOCK),
    "power_cut": ("tests.crash.power_cut", *_BLOCK),
    "power_cut_holes": ("tests.crash.power_cut", "--holes", *_BLOCK),
    "endpoint_power_cut": ("tests.crash.endpoint_power_cut", "--check-syncs", *_BLOCK),
    "endpoint_sweep": ("tests.crash.endpoint_sweep", *_SWEEP),
    "model_checking": ("tests.model_checking",),
    "fuzz": ("tests.fuzz", "all", "--seconds", "{runs}", "--corpus", "{corpus}"),
}
"""The module and the options of each program, with places for those of a block; what fuzzers found
is kept in one folder for all blocks."""

MOST_LINES = 25
"""Of the output of a block that found something."""


class BlockResult(Struct, frozen=True):
    """A line of the results."""

    program: str
    seed: int
    runs: int
    seconds: float
    ok: bool
    said: str
    """The last line that it printed; the last lines of one that found something."""
    ended: str


def read_results(path: Path, program: str) -> list[BlockResult]:
    """Return the blocks of a program so far; a line that was cut off is no block."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for line in path.read_bytes().splitlines():
            with contextlib.suppress(ValueError):
                found.append(msgspec_json.decode(line, type=BlockResult))
    return [block for block in found if block.program == program]


def append_result(path: Path, block: Struct) -> None:
    """Write down a block, or a night; after a line that was cut off, on a line of its own."""
    with path.open("ab+") as file:
        file.seek(max(file.tell() - 1, 0))
        last = file.read()
        file.write(
            (b"\n" if last not in (b"", b"\n") else b"") + msgspec_json.encode(block) + b"\n"
        )


def run_block(program: str, runs: int, seed: int, corpus: Path) -> BlockResult:
    """Run one block; its folder stays if something was violated, and ``corpus`` in any case."""
    folder = tempfile.mkdtemp(prefix=f"agentd-{program}-{seed}-")
    began = time.monotonic()
    places = {"runs": runs, "seed": seed, "folder": folder, "corpus": corpus}
    options = [one.format(**places) for one in PROGRAMS[program]]
    done = subprocess.run(
        [sys.executable, "-m", *options],
        cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    lines = done.stdout.splitlines() or ["nothing"]
    if done.returncode == 0:
        shutil.rmtree(folder)
        said = lines[-1]
    else:  # the first violation tells most: what follows may come of it
        said = "\n".join([*lines[-MOST_LINES:], f"(files in {folder})"])
    ended = datetime.now(UTC).isoformat(timespec="seconds")
    seconds = round(time.monotonic() - began, 1)
    return BlockResult(program, seed, runs, seconds, done.returncode == 0, said, ended)


def describe(program: str, blocks: list[BlockResult]) -> str:
    """Return in words what was done so far."""
    runs, hours = sum(block.runs for block in blocks), sum(block.seconds for block in blocks) / 3600
    bad = [block.seed for block in blocks if not block.ok]
    seeds = f"seeds {blocks[0].seed} to {blocks[-1].seed}" if blocks else "no seed"
    return f"{program}: {runs} in {len(blocks)} blocks, {seeds}, {hours:.2f} h; violations: {bad}"


def main() -> int:
    """Run blocks until there are enough, or something is violated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", choices=list(PROGRAMS))
    parser.add_argument("--total", type=int, default=100_000, help="runs in all")
    parser.add_argument("--block", type=int, default=500, help="runs of one block")
    parser.add_argument("--hours", type=float, default=float("inf"), help="begin no block later")
    parser.add_argument("--results", type=Path, default=Path("results.jsonl"))
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--count", action="store_true", help="only tell what was done so far")
    args = parser.parse_args()
    os.nice(0 if args.count else 10)
    until = time.monotonic() + args.hours * 3600
    blocks = read_results(args.results, args.program)
    while not args.count and time.monotonic() < until:
        if any(not block.ok for block in blocks):
            break
        left = args.total - sum(block.runs for block in blocks)
        if left <= 0:
            break
        seed = max((block.seed + 1 for block in blocks), default=args.first_seed)
        corpus = args.results.absolute().parent / "corpus"
        block = run_block(args.program, min(args.block, left), seed, corpus)
        append_result(args.results, block)
        blocks.append(block)
        print(json.dumps({"seed": seed, "ok": block.ok, "said": block.said}), flush=True)
    print(describe(args.program, blocks))
    return 1 if any(not block.ok for block in blocks) else 0


if __name__ == "__main__":
    sys.exit(main())
