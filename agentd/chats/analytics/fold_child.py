"""The program that reads journals for the first report, in a process of its own.

Its input is a JSON list of ``FoldJob``; it writes their roll-ups, and a line with the size of each
journal that it is done with. A journal that is damaged, unreadable or growing has no roll-up
then, and the daemon reads it itself.
"""

import os
import sys

import msgspec
from msgspec import Struct

from agentd.chats.analytics.daily_totals import ChatDailyTotals
from agentd.chats.analytics.rollup import FORMAT, ChatRollup, fold_journal, save_rollup
from agentd.storage import document

NICENESS = 5
"""The daemon's own work goes first."""


class FoldJob(Struct, frozen=True):
    """A journal up to the byte ``size``, and the file for its roll-up."""

    chat: int
    journal: str
    size: int
    rollup: str


def main() -> None:
    """Do the jobs of the standard input."""
    os.nice(NICENESS)
    for job in msgspec.json.decode(sys.stdin.buffer.read(), type=list[FoldJob]):
        fold_to_file(job)
        sys.stdout.write(f"{job.size}\n")
        sys.stdout.flush()


def fold_to_file(job: FoldJob) -> None:
    """Read one journal and write its roll-up, unless the daemon had better do it."""
    tally = ChatDailyTotals()
    try:
        stamp = document.get_stamp(job.journal)
        damage = fold_journal(job.journal, tally, job.size)
        if stamp and stamp.size == tally.size and not damage:
            save_rollup(job.rollup, ChatRollup(FORMAT, job.chat, stamp, tally))
    except OSError:
        return


if __name__ == "__main__":
    main()
