"""What the ledger adds up to, day by day: read from the reports, which are made where they lack.

A report is believed while the day's file has the size and the time of change that it had; with
another time (a copied folder), while its first bytes have the same checksum. What the file has
beyond that is read on. Where the file is gone, the report is the only record, and is believed.
The present day stays in memory. Every method blocks, and belongs to one thread.
"""

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import TypeAlias, TypeVar

from agentd.disk.document import make_folder, sweep, told, trouble
from agentd.disk.layout import Layout
from agentd.disk.ledger_balance import Balance, Counted, look, stamp_of
from agentd.disk.ledger_file import days_in, mend, read_on, sum_of
from agentd.disk.ledger_report import BrokenReport, Fold, Report, write_report
from agentd.disk.ledger_stretches import Stretches
from agentd.disk.lines import Broken
from agentd.errors import AgentdError, Unavailable
from agentd.proxy.reports import Part
from agentd.proxy.stretches import Stretch

log = logging.getLogger(__name__)

T = TypeVar("T")

Day: TypeAlias = Fold | Report
"""One day: both answer the same."""

KEEP_LINES = 10_000
"""Lines that a report of the present day may be behind while the daemon works."""
TORN_DAYS = 3
"""The last days that were written to when a crash came."""
_APPEND = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Days:
    """The days of the ledger.

    ``size`` tells how much of a day's file is whole while somebody writes to it. What reads beside
    a running daemon ``keeps`` nothing. Hours are cut into slots of ``slot`` minutes, at most.
    """

    def __init__(
        self,
        layout: Layout,
        today: Callable[[], str],
        size: Callable[[str], int | None] = lambda _: None,
        *,
        keeps: bool = True,
        slot: Callable[[], int] = lambda: 60,
    ) -> None:
        self._layout = layout
        self._slot = slot
        self._today = today
        self._size = size
        self._keeps = keeps
        self._folds: dict[str, Fold] = {}
        self._reports: dict[str, tuple[tuple[int, int], Report]] = {}
        """Those that were opened, with their size and time of change."""
        self._distrusted: set[str] = set()
        """Days whose report proved to be damaged."""
        self._stretches = Stretches(layout, self.known, self.day)

    def asked(self, do: Callable[[], T]) -> T:
        """Ask; where a day's report proves to be damaged, that is made anew, and all asked again.

        Raises ``Unavailable`` where it cannot be made anew, for the day's requests are gone.
        """
        while True:
            try:
                return do()
            except BrokenReport as error:
                path = error.path
                if not error.day:
                    log.warning("%s is damaged and made anew: %s", path, error)
                    with told(path, "remove"):
                        os.unlink(path)
                    continue
                if look(self._layout.ledger_day(error.day)) is None:
                    raise Unavailable(
                        f"{path} is damaged, and the requests that it sums up are deleted: {error}",
                        "Restore the file from a backup, or delete it: the day is lost then.",
                    ) from error
                log.warning("%s is damaged and made anew: %s", path, error)
                self._distrusted.add(error.day)

    def known(self) -> list[str]:
        """All days that there are, in order."""
        days = {*days_in(self._layout.ledger), *days_in(self._layout.ledger_reports)}
        return sorted(days)

    def day(self, day: str) -> Day:
        """One day as it is now. Raises ``Unavailable`` where it cannot be read."""
        try:
            return self._brought(day)
        except OSError as error:
            raise trouble(self._layout.ledger_day(day), "read", error) from error

    def between(self, first: str, last: str) -> Iterator[tuple[str, Day]]:
        """The days from ``first`` to ``last``, both included, that there are."""
        for day in self.known():
            if first <= day <= last:
                yield day, self.day(day)

    def cover(self, first: str, last: str) -> Iterator[tuple[str, Part]]:
        """The same where all are closed and it does not matter which is which: fewer parts."""
        return self._stretches.cover(first, last)

    def closed(self) -> list[Stretch]:
        """Everything closed that is to be kept, in an order in which to ``make`` it."""
        return list(self._stretches.closed(self._today()))

    def make(self, stretch: Stretch) -> bool:
        """Have a closed stretch kept for questions to come; whether the disk took it."""
        return self._stretches.make(stretch)

    def version(self, first: str, last: str) -> tuple[tuple[str, int, int], ...]:
        """What tells one content of these days from another."""
        return tuple(
            (day, one.standing.size, one.standing.sum) for day, one in self.between(first, last)
        )

    def damaged(self) -> Iterator[str]:
        """Each line that is not sound, as far as that was seen: ``path:line: why``."""
        for day in self.known():
            for one in self.day(day).standing.damaged:
                yield f"{self._layout.ledger_day(day)}:{one.line}: {one.reason}"

    def sums(self, cuts: Iterable[datetime]) -> Counted:
        """What each key spent: to be asked for since any of the ``cuts``, or since ever."""
        known = self.known()
        balance = Balance(self._layout, known, self.day)
        return balance.count(cuts, self._today(), self._size, keeps=self._keeps)

    def keep(self) -> None:
        """Write what is only in memory; a failure is only logged, for nothing is lost."""
        for fold in self._folds.values():
            if fold.standing.lines > fold.saved[0]:
                self._save(fold)

    def refresh(self) -> None:
        """Read what was booked meanwhile, and keep it now and then."""
        for day in {self._today(), *self._folds}:
            fold = self.day(day)
            if isinstance(fold, Fold) and fold.standing.lines - fold.saved[0] >= KEEP_LINES:
                self._save(fold)

    def retain(self, oldest: str) -> Iterator[str]:
        """Delete the files of days before ``oldest``, whose reports stay; each such day."""
        for day in days_in(self._layout.ledger):
            if day >= min(oldest, self._today()):
                return
            found, report = self.day(day), self._report(day)
            if report is None or report.standing.size != found.standing.size:
                raise Unavailable(f"the requests of {day} are kept: their sums cannot be written")
            with told(self._layout.ledger, "remove from"):
                for name in os.listdir(self._layout.ledger):
                    if name.startswith(f"{day}.jsonl"):  # a torn end, too
                        os.unlink(os.path.join(self._layout.ledger, name))
            yield day

    def forget(self, day: str) -> None:
        """The day's file was replaced: its report is to be made anew."""
        self._folds.pop(day, None)
        self._reports.pop(day, None)
        with suppress(FileNotFoundError):
            os.unlink(self._layout.ledger_report(day))

    def _brought(self, day: str) -> Day:
        """The day's report where that is up to date, else its fold, read on."""
        info = look(self._layout.ledger_day(day))
        fold = self._folds.get(day)
        if fold and fold.slot > self._slot():
            fold = Fold(day, self._slot())
        if fold is None:
            report = self._report(day)
            if report and info and report.slot > self._slot():
                report = None  # made for a zone whose hours begin elsewhere
            if report and (info is None or stamp_of(info) == _known_stamp(report)):
                return report
            fold = self._taken_up(report) or Fold(day, self._slot())
        elif info is None or info.st_ino != fold.inode or info.st_size < fold.standing.size:
            log.warning("%s was replaced; it is read anew", self._layout.ledger_day(day))
            fold = Fold(day, self._slot())
        if info:
            self._read_on(fold, info)
        if day >= self._today():
            self._folds[day] = fold
        else:
            self._folds.pop(day, None)
            if fold.saved != (fold.standing.lines, fold.mtime_ns):
                self._save(fold)
        return fold

    def _report(self, day: str) -> Report | None:
        """The day's report, if there is one that can be read."""
        if day in self._distrusted:
            return None
        try:
            now = stamp_of(look(self._layout.ledger_report(day)))
            known = self._reports.get(day)
            if known is None or known[0] != now:
                known = self._reports[day] = now, Report(self._layout, day)
            return known[1]
        except FileNotFoundError:
            return None
        except (Broken, OSError) as error:
            log.info("the report of %s is not used, it is made anew: %s", day, error)
            return None

    def _taken_up(self, report: Report | None) -> Fold | None:
        """A report of the first bytes of what the day's file now is, to be read on."""
        if report is None:
            return None
        standing, path = report.standing, self._layout.ledger_day(report.head.day)
        try:
            if sum_of(path, standing.size) == standing.sum:
                return report.fold()
            log.info("%s is another than it was; its report is made anew", path)
        except (Broken, OSError) as error:
            log.info("the report of %s is made anew: %s", path, error)
        return None

    def _read_on(self, fold: Fold, info: os.stat_result) -> None:
        path = self._layout.ledger_day(fold.day)
        seen = len(fold.standing.damaged)
        for entry in read_on(path, fold.standing, self._size(fold.day)):
            fold.tally.book(entry)
        for one in fold.standing.damaged[seen:]:
            log.error("%s:%d: a line of the ledger is damaged: %s", path, one.line, one.reason)
        fold.inode = info.st_ino
        fold.mtime_ns = info.st_mtime_ns if info.st_size == fold.standing.size else 0

    def _save(self, fold: Fold) -> None:
        if not self._keeps:
            return
        try:
            write_report(self._layout, fold)
            self._distrusted.discard(fold.day)
        except AgentdError as error:
            log.warning("the report of %s was not kept: %s", fold.day, error)


def prepare(layout: Layout) -> None:
    """Make the folders, and mend the days that a crash may have left torn. Blocking.

    Where that cannot be done (a read-only or full disk), what is there can still be read, and
    booking tells why it fails.
    """
    try:
        make_folder(layout.ledger)
        make_folder(layout.ledger_reports)
        sweep(layout.ledger)
        sweep(layout.ledger_reports)
        for day in days_in(layout.ledger)[-TORN_DAYS:]:
            path = layout.ledger_day(day)
            with told(path, "mend"), open(os.open(path, _APPEND), "rb", buffering=0) as file:
                mend(file.fileno(), path)
    except Unavailable as error:
        log.error("the ledger cannot be written: %s", error.message)


def _known_stamp(report: Report) -> tuple[int, int]:
    return report.standing.size, report.head.mtime_ns
