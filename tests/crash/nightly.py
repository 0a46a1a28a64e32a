# ruff: noqa: T201
"""Runs all proofs in turn for a night, each from where the last night ended.

    python -m tests.crash.nightly --hours 8 --folder RESULTS [--only kill9 soak]

The folder has the results of each: run it again with the same one. ``--count`` tells what was
done so far, beside the full size.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.paths import REPOSITORY


class Proof(NamedTuple):
    """A program of ``long_run`` with its full size, its block, and its share of the night."""

    total: int
    block: int
    share: float


PROOFS = {
    "kill9": Proof(100_000, 200, 0.3),
    "power_cut": Proof(10_000, 200, 0.1),
    "power_cut_holes": Proof(10_000, 200, 0.1),
    "endpoint_power_cut": Proof(2_000, 10, 0.1),
    "endpoint_sweep": Proof(1_000, 1, 0.1),
    "model_checking": Proof(1, 1, 0.05),
    "fuzz": Proof(3600, 300, 0.15),
}
"""Of the fuzzers a run is a second of each; of the sweep it is one case in 200."""
SOAK_SHARE = 0.1


def build_commands(
    folder: Path, hours: float, only: Sequence[str] = (), *, count: bool = False
) -> list[list[str]]:
    """Return the arguments of python for each proof."""
    commands = []
    for name, proof in PROOFS.items():
        size = ["--total", str(proof.total), "--block", str(proof.block)]
        place = ["--results", str(folder / f"{name}.jsonl")]
        time = ["--count"] if count else ["--hours", str(hours * proof.share)]
        if not only or name in only:
            commands.append(["-m", "tests.crash.long_run", name, *size, *place, *time])
    if not only or "soak" in only:
        time = ["--count"] if count else ["--hours", str(hours * SOAK_SHARE)]
        window = ["--window", str(min(3600.0, hours * SOAK_SHARE * 900))]
        place = ["--results", str(folder / "soak.jsonl"), "--folder", str(folder / "soak")]
        commands.append(["-m", "tests.crash.soak", *place, *window, *time])
    return commands


def main() -> int:
    """Run them; 1 if one of them found something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=8.0)
    parser.add_argument("--folder", type=Path, default=Path("proofs"))
    parser.add_argument("--only", nargs="*", default=[], choices=[*PROOFS, "soak"])
    parser.add_argument("--count", action="store_true", help="only tell what was done so far")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    bad = []
    for command in build_commands(args.folder, args.hours, args.only, count=args.count):
        print(f"python {' '.join(command)}", flush=True)
        if subprocess.run([sys.executable, *command], cwd=REPOSITORY, check=False).returncode:
            bad.append(" ".join(command[1:3]))
    print(f"found something: {', '.join(bad)}" if bad else "nothing was violated")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
