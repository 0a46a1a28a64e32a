# ruff: noqa: T201
"""Goes through every sequence of steps up to a length, and tells the count.

python -m tests.model_checking [queue journal ledger stream session] [--depth 4] [--fault NAME]
"""

import argparse
import contextlib
import logging
import sys
import time

from tests.model_checking.explorer import Difference, explore
from tests.model_checking.planted_faults import FAULTS
from tests.model_checking.subjects import NIGHTLY_DEPTHS, SUBJECTS


def main() -> int:
    """Check the subjects; 1 after a difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("subjects", nargs="*", help=" ".join(SUBJECTS))
    parser.add_argument("--depth", type=int, help="steps of the longest sequences")
    parser.add_argument("--fault", default="", help="plant a fault that must be found")
    args = parser.parse_args()
    if unknown := set(args.subjects) - SUBJECTS.keys():
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(SUBJECTS)}")
    logging.disable()
    found = 0
    planted = [fault.planted() for fault in FAULTS if fault.name == args.fault]
    if args.fault and not planted:
        parser.error(f"there are these faults: {', '.join(fault.name for fault in FAULTS)}")
    with contextlib.ExitStack() as stack:
        for fault in planted:
            stack.enter_context(fault)
        for name in args.subjects or SUBJECTS:
            found += not check(name, args.depth or NIGHTLY_DEPTHS[name])
    return 1 if found else 0


def check(name: str, depth: int) -> bool:
    """Check one subject; return whether real code and model agree."""
    began = time.monotonic()

    def report(length: int, count: int) -> None:
        seconds = time.monotonic() - began
        print(f"{name}: {count} sequences of up to {length} steps, {seconds:.0f} s", flush=True)

    try:
        explore(SUBJECTS[name], depth, report)
    except Difference as difference:
        print(f"{name}: {difference}")
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
