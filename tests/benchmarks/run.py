"""Measure, and print one table: ``python -m tests.benchmarks.run [--only NAME …] [--quick]``.

The exit code is 1 when a target is missed; with ``--quick`` it only tells whether all ran.
"""

import argparse
import sys
from contextlib import closing

from tests.benchmarks.analytics import measure_analytics
from tests.benchmarks.browsing import measure_browsing
from tests.benchmarks.browsing_log import measure_request_log
from tests.benchmarks.fanout import measure_fan_out
from tests.benchmarks.first_pages import measure_first_pages
from tests.benchmarks.listing import measure_chats
from tests.benchmarks.managing import measure_management
from tests.benchmarks.many_listeners import measure_burst, measure_crowd
from tests.benchmarks.measures import MEASURES as OF_REQUESTS
from tests.benchmarks.measures import QUICK, Row, Size
from tests.benchmarks.parts import measure_hiding, measure_key_file
from tests.benchmarks.relaying import measure_gateway, measure_synced_ledger
from tests.benchmarks.replaying import measure_replay
from tests.benchmarks.servers import Gun
from tests.benchmarks.turns import measure_turns
from tests.benchmarks.uploading import measure_upload

MEASURES = {
    **OF_REQUESTS,
    "fan-out": measure_fan_out,
    "crowd": measure_crowd,
    "burst": measure_burst,
    "replay": measure_replay,
    "upload": measure_upload,
    "turns": measure_turns,
    "analytics": measure_analytics,
    "chats": measure_chats,
    "browsing": measure_browsing,
    "log": measure_request_log,
    "gateway": measure_gateway,
    "hiding": measure_hiding,
    "key-file": measure_key_file,
    "ledger": measure_synced_ledger,
    "management": measure_management,
    "first-pages": measure_first_pages,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(MEASURES), metavar="NAME",
                        help=f"some of: {', '.join(MEASURES)}")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="only see that the programs run")
    options = parser.parse_args()
    missed = False
    print_now(f"{'measured':>12} {'target':>14}  {'':6} what")
    with closing(Gun()) as gun:
        for name in options.only or MEASURES:
            for row in MEASURES[name](QUICK if options.quick else Size(), gun):
                print_now(format_line(row, judged=not options.quick))
                missed |= not row.met
    return int(missed and not options.quick)


def print_now(text: str) -> None:
    """Print at once: a whole run takes minutes."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def format_line(row: Row, *, judged: bool) -> str:
    """Format a line of the table."""
    sign = ">=" if row.at_least else "<="
    verdict = ("met" if row.met else "MISSED") if judged else "-"
    measured, target = f"{row.measured:.2f}{row.unit}", f"{sign} {row.target:g}{row.unit}"
    return f"{measured:>12} {target:>14}  {verdict:6} {row.what}"


if __name__ == "__main__":
    sys.exit(main())
