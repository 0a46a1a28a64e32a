# ruff: noqa: T201
"""Runs all proofs in turn for a night, each from where the last night ended.

    python -m tests.crash.nightly --hours 8 --folder RESULTS [--only kill9] [--soak]

The folder has the results of each: run it again with the same one. The soak needs six hours in one
piece, so it has nights of its own: the first one and each seventh after it, or any by ``--soak``.
``nights.jsonl`` in the folder has a line for each night that was run to its end; one that was
stopped does not count, and is begun again. ``--count`` tells what was done so far, beside the full
size.
"""

import argparse
import contextlib
import itertools
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec import json as msgspec_json

from tests.crash.long_run import append_result
from tests.support.paths import REPOSITORY


class Proof(NamedTuple):
    """A program of ``long_run`` with its full size, its block, and its share of the night."""

    total: int
    block: int
    share: float


PROOFS = {
    "kill9": Proof(100_000, 200, 0.35),
    "power_cut": Proof(10_000, 200, 0.1),
    "power_cut_holes": Proof(10_000, 200, 0.1),
    "endpoint_power_cut": Proof(2_000, 10, 0.1),
    "endpoint_sweep": Proof(1_000, 1, 0.1),
    "model_checking": Proof(1, 1, 0.05),
    "fuzz": Proof(3600, 300, 0.2),
}
"""Of the fuzzers a run is a second of each; of the sweep it is one case in 200."""
SOAK_EVERY = 7
"""One of so many nights is the soak's alone."""
_NIGHTS = "nights.jsonl"


class NightResult(Struct, frozen=True):
    """A line of the nights."""

    soak: bool
    """It was the soak's."""
    hours: float
    found: list[str]
    """The proofs that found something."""
    ended: str


def read_nights(folder: Path) -> list[NightResult]:
    """Return the nights so far; a line that was cut off is no night."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for line in (folder / _NIGHTS).read_bytes().splitlines():
            with contextlib.suppress(ValueError):
                found.append(msgspec_json.decode(line, type=NightResult))
    return found


def is_soak_due(nights: Sequence[NightResult]) -> bool:
    """Return whether the next night is the soak's: the first one, and each seventh after one."""
    others = itertools.takewhile(lambda night: not night.soak, reversed(nights))
    return len(list(others)) in (len(nights), SOAK_EVERY - 1)


def build_commands(
    folder: Path, hours: float, only: Sequence[str] = (), *, count: bool = False
) -> list[list[str]]:
    """Return the arguments of python for each proof but the soak."""
    commands = []
    for name, proof in PROOFS.items():
        size = ["--total", str(proof.total), "--block", str(proof.block)]
        place = ["--results", str(folder / f"{name}.jsonl")]
        time = ["--count"] if count else ["--hours", str(hours * proof.share)]
        if not only or name in only:
            commands.append(["-m", "tests.crash.long_run", name, *size, *place, *time])
    return commands


def build_soak_command(folder: Path, hours: float, *, count: bool = False) -> list[str]:
    """Return the arguments of python for the soak; it takes the whole night."""
    time = ["--count"] if count else ["--hours", str(hours)]
    window = ["--window", str(min(3600.0, hours * 900))]
    place = ["--results", str(folder / "soak.jsonl"), "--folder", str(folder / "soak")]
    return ["-m", "tests.crash.soak", *place, *window, *time]


def main() -> int:
    """Run them; 1 if one of them found something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=8.0)
    parser.add_argument("--folder", type=Path, default=Path("proofs"))
    parser.add_argument("--only", nargs="*", default=[], choices=list(PROOFS))
    parser.add_argument("--soak", action="store_true", help="a night of the soak alone")
    parser.add_argument("--count", action="store_true", help="only tell what was done so far")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    nights = read_nights(args.folder)
    soak = args.soak or (not args.only and is_soak_due(nights))
    if soak:
        commands = [build_soak_command(args.folder, args.hours)]
    else:
        commands = build_commands(args.folder, args.hours, args.only)
    if args.count:
        commands = build_commands(args.folder, args.hours, args.only, count=True)
        commands.append(build_soak_command(args.folder, args.hours, count=True))
        print(f"{len(nights)} nights, {sum(one.soak for one in nights)} of them the soak's")
    bad = []
    for command in commands:
        print(f"python {' '.join(command)}", flush=True)
        if subprocess.run([sys.executable, *command], cwd=REPOSITORY, check=False).returncode:
            bad.append(" ".join(command[1:3]))
    if not args.count and not args.only:
        ended = datetime.now(UTC).isoformat(timespec="seconds")
        append_result(args.folder / _NIGHTS, NightResult(soak, args.hours, bad, ended))
    print(f"found something: {', '.join(bad)}" if bad else "nothing was violated")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
