"""The ledger's totals by day: read from the reports, which are created where missing.

A report is believed while the day's file has the size and the time of change that it had; with
another time (a copied folder), while its first bytes have the same checksum. What the file has
beyond that is read on. Where the file is gone, the report is the only record, and is believed.
The present day stays in memory. Every method blocks, and belongs to one thread.
"""

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TypeAlias, TypeVar

from agentd.core.errors import AgentdError, Unavailable
from agentd.gateway.ledger.balances import CountedSpend, SpendSnapshot, get_stamp, stat_file
from agentd.gateway.ledger.daily_totals import to_spent
from agentd.gateway.ledger.day_file import compute_checksum, list_days, read_records, repair_end
from agentd.gateway.ledger.day_report import CorruptReport, DayFold, DayReportFile, write_report
from agentd.gateway.ledger.rollup_files import RollupStore
from agentd.gateway.ledger.rollups import Rollup
from agentd.gateway.limits.spend_by_quarter_hour import (
    SpendByQuarterHour,
    SpendRow,
    format_model_account,
    get_quarter_start,
    list_model_accounts,
)
from agentd.gateway.reports.reports import ReportFilter, ReportSource
from agentd.storage.checksummed_json import ChecksumMismatch
from agentd.storage.document import (
    explain_os_error,
    make_folder,
    remove_temporaries,
    translate_os_errors,
)
from agentd.storage.layout import Layout

log = logging.getLogger(__name__)

T = TypeVar("T")

DayReport: TypeAlias = DayFold | DayReportFile
"""The report of a day: both kinds have the same interface."""

MAX_UNSAVED_LINES = 10_000
"""Lines that a report of the present day may be behind while the daemon works."""
TORN_DAYS = 3
"""The last days that were written to when a crash came."""
_SAME_STAMP_NS = 1_000_000_000
"""Nanoseconds within which two changes of a folder may bear the same stamp."""
_REPAIR_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class DailyReports:
    """The days of the ledger.

    ``size`` is the complete part of a day's file while somebody writes to it. What reads beside
    a running daemon ``writes`` nothing. Hours are cut into slots of ``slot`` minutes, at most.
    """

    def __init__(
        self,
        layout: Layout,
        today: Callable[[], str],
        size: Callable[[str], int | None] = lambda _: None,
        *,
        writes: bool = True,
        slot: Callable[[], int] = lambda: 60,
    ) -> None:
        self._layout = layout
        self._slot = slot
        self._today = today
        self._size = size
        self._writes = writes
        self._folds: dict[str, DayFold] = {}
        self._reports: dict[str, tuple[tuple[int, int], DayReportFile]] = {}
        """The reports that were opened, with their size and modification time."""
        self._paths: dict[str, tuple[str, str]] = {}
        """The paths of each day's requests and of its report: joining takes as long as a stat."""
        self._listed: tuple[tuple[int, ...], list[str]] | None = None
        """All days, and when the folders had changed last."""
        self._corrupt: set[str] = set()
        """Days whose report proved to be damaged."""
        self.replacements = 0
        """The number of days whose file was replaced."""
        self._rollups = RollupStore(layout, self.list_days, self.get_day)

    def query(self, do: Callable[[], T]) -> T:
        """Run a query; if a day's report is damaged, rebuild it and run the query again.

        Raises ``Unavailable`` if it cannot be rebuilt because the day's requests are gone.
        """
        while True:
            try:
                return do()
            except CorruptReport as error:
                path = error.path
                if not error.day:
                    log.warning("%s is damaged and is rebuilt: %s", path, error)
                    with translate_os_errors(path, "remove"):
                        os.unlink(path)
                    continue
                if stat_file(self._layout.get_ledger_day_path(error.day)) is None:
                    raise Unavailable(
                        f"{path} is damaged, and the requests that it sums up are deleted: {error}",
                        "Restore the file from a backup, or delete it: the day is lost then.",
                    ) from error
                log.warning("%s is damaged and is rebuilt: %s", path, error)
                self._corrupt.add(error.day)

    def list_days(self) -> list[str]:
        """List all days in order, from memory while no file was made or deleted."""
        folders = self._layout.ledger, self._layout.ledger_reports
        stamps = tuple(map(_get_folder_stamp, folders))
        if self._listed is None or self._listed[0] != stamps:
            days = sorted({day for folder in folders for day in list_days(folder)})
            if max(stamps) > time.time_ns() - _SAME_STAMP_NS:
                return days
            self._listed = stamps, days
        return list(self._listed[1])

    def get_day(self, day: str) -> DayReport:
        """Return the current report of a day. Raises ``Unavailable`` if it cannot be read."""
        try:
            return self._load_day(day)
        except OSError as error:
            raise explain_os_error(self._layout.get_ledger_day_path(day), "read", error) from error

    def iter_days(self, first: str, last: str) -> Iterator[tuple[str, DayReport]]:
        """Yield the days from ``first`` to ``last``, both included, that there are."""
        for day in self.list_days():
            if first <= day <= last:
                yield day, self.get_day(day)

    def iter_sources(self, first: str, last: str) -> Iterator[tuple[str, ReportSource]]:
        """Yield the reports of closed days, merged into rollups where there are any."""
        return self._rollups.iter_sources(first, last)

    def list_rollups(self) -> list[Rollup]:
        """Return the rollups of closed days, in the order in which to write them."""
        return list(self._rollups.iter_closed(self._today()))

    def write_rollup(self, stretch: Rollup) -> bool:
        """Write a rollup if it is missing or stale; return False if the write failed."""
        return self._rollups.write(stretch)

    def get_version(self, first: str, last: str) -> tuple[tuple[str, int, int], ...]:
        """Return a version of these days that differs when their content does."""
        return tuple(
            (day, one.position.size, one.position.sum) for day, one in self.iter_days(first, last)
        )

    def count_spend(self, window_starts: Iterable[datetime]) -> CountedSpend:
        """Return each key's spend, in total and since each of the ``window_starts``."""
        known = self.list_days()
        balance = SpendSnapshot(self._layout, known, self.get_day)
        return balance.count_spend(window_starts, self._today(), self._size, writes=self._writes)

    def count_model_spend(self, since: Mapping[str, str]) -> CountedSpend:
        """Return what keys spent on each model; ``since`` is the first day (UTC) to count of each.

        The rows are of hours, or of the slots into which these are cut.
        """
        sizes = dict[str, int]()
        sums = SpendByQuarterHour(accounts=partial(list_model_accounts, since.keys()))
        first = min(since.values(), default="9")
        for day, one in self.iter_days(first, "9999-12-31"):
            sizes[day] = one.position.size
            for key in (key for key, begin in since.items() if begin <= day):
                for cell, figures in one.iter_cells(ReportFilter(key=key)):
                    hour, _, minute = cell.hour.partition(":")
                    start = get_quarter_start(day, int(hour) * 4 + int(minute or 0) // 15)
                    account = format_model_account(key, cell.model)
                    sums.add_row(SpendRow(account, start, to_spent(figures.totals)))
        return CountedSpend(sums, sizes)

    def flush(self) -> None:
        """Save the reports that are only in memory; a failure is only logged: nothing is lost."""
        for fold in self._folds.values():
            if fold.position.lines > fold.saved[0]:
                self._save(fold)

    def refresh(self) -> None:
        """Read new records, and save reports with many unsaved ones."""
        for day in {self._today(), *self._folds}:
            fold = self.get_day(day)
            if (
                isinstance(fold, DayFold)
                and fold.position.lines - fold.saved[0] >= MAX_UNSAVED_LINES
            ):
                self._save(fold)

    def delete_before(self, oldest: str) -> Iterator[str]:
        """Delete the files of days before ``oldest`` and yield these days; their reports stay."""
        for day in list_days(self._layout.ledger):
            if day >= min(oldest, self._today()):
                return
            found, report = self.get_day(day), self._load_report(day)
            if report is None or report.position.size != found.position.size:
                raise Unavailable(f"requests of {day} are kept: their report cannot be written")
            with translate_os_errors(self._layout.ledger, "remove from"):
                for name in os.listdir(self._layout.ledger):
                    if name.startswith(f"{day}.jsonl"):  # a torn end, too
                        os.unlink(os.path.join(self._layout.ledger, name))
            yield day

    def invalidate(self, day: str) -> None:
        """Drop the report of a day whose file was replaced."""
        self.replacements += 1
        self._folds.pop(day, None)
        self._reports.pop(day, None)
        with suppress(FileNotFoundError):
            os.unlink(self._layout.get_ledger_report_path(day))

    def _load_day(self, day: str) -> DayReport:
        """Return the day's report if it is up to date, else its fold with new records read."""
        info = stat_file(self._get_paths(day)[0])
        fold = self._folds.get(day)
        if fold and fold.slot > self._slot():
            fold = DayFold(day, self._slot())
        if fold is None:
            report = self._load_report(day)
            if report and info and report.slot > self._slot():
                report = None  # made for a zone whose hours begin elsewhere
            if report and (info is None or get_stamp(info) == _get_expected_stamp(report)):
                return report
            fold = self._resume(report) or DayFold(day, self._slot())
        elif _was_replaced(fold, info):
            log.warning("%s was replaced; it is read again", self._layout.get_ledger_day_path(day))
            fold = DayFold(day, self._slot())
        if info:
            self._read_new_records(fold, info)
        if day >= self._today():
            self._folds[day] = fold
        else:
            self._folds.pop(day, None)
            if fold.saved != (fold.position.lines, fold.mtime_ns):
                self._save(fold)
        return fold

    def _get_paths(self, day: str) -> tuple[str, str]:
        if day not in self._paths:
            layout = self._layout
            self._paths[day] = layout.get_ledger_day_path(day), layout.get_ledger_report_path(day)
        return self._paths[day]

    def _load_report(self, day: str) -> DayReportFile | None:
        """Return the day's report, if there is one that can be read."""
        if day in self._corrupt:
            return None
        try:
            now = get_stamp(stat_file(self._get_paths(day)[1]))
            known = self._reports.get(day)
            if known is None or known[0] != now:
                known = self._reports[day] = now, DayReportFile(self._layout, day)
            return known[1]
        except FileNotFoundError:
            return None
        except (ChecksumMismatch, OSError) as error:
            log.info("the report of %s is not used, it is rebuilt: %s", day, error)
            return None

    def _resume(self, report: DayReportFile | None) -> DayFold | None:
        """Return a report of the first bytes of what the day's file now is, to be read on."""
        if report is None:
            return None
        position, path = report.position, self._layout.get_ledger_day_path(report.head.day)
        try:
            if compute_checksum(path, position.size) == position.sum:
                return report.to_fold()
            log.info("%s was replaced; its report is rebuilt", path)
        except (ChecksumMismatch, OSError) as error:
            log.info("the report of %s is rebuilt: %s", path, error)
        return None

    def _read_new_records(self, fold: DayFold, info: os.stat_result) -> None:
        path = self._layout.get_ledger_day_path(fold.day)
        seen = len(fold.position.corrupt_lines)
        for entry in read_records(path, fold.position, self._size(fold.day)):
            fold.totals.add_record(entry)
        for one in fold.position.corrupt_lines[seen:]:
            log.error("%s:%d: corrupt line in the ledger: %s", path, one.line, one.reason)
        fold.inode = info.st_ino
        fold.mtime_ns = info.st_mtime_ns if info.st_size == fold.position.size else 0

    def _save(self, fold: DayFold) -> None:
        if not self._writes:
            return
        try:
            write_report(self._layout, fold)
            self._corrupt.discard(fold.day)
        except AgentdError as error:
            log.warning("the report of %s was not kept: %s", fold.day, error)


def _was_replaced(fold: DayFold, info: os.stat_result | None) -> bool:
    """Return whether what was read of a day is no longer the begin of its file."""
    if not fold.inode and not fold.position.size:  # there was no file yet
        return False
    return info is None or info.st_ino != fold.inode or info.st_size < fold.position.size


def prepare_folders(layout: Layout) -> None:
    """Create the folders, and repair the days that a crash may have left torn. Blocking.

    Where that cannot be done (a read-only or full disk), what is there can still be read, and
    recording reports why it fails.
    """
    try:
        make_folder(layout.ledger)
        make_folder(layout.ledger_reports)
        remove_temporaries(layout.ledger)
        remove_temporaries(layout.ledger_reports)
        for day in list_days(layout.ledger)[-TORN_DAYS:]:
            path = layout.get_ledger_day_path(day)
            with (
                translate_os_errors(path, "repair"),
                open(os.open(path, _REPAIR_FLAGS), "rb", buffering=0) as file,
            ):
                repair_end(file.fileno(), path)
    except Unavailable as error:
        log.error("the ledger cannot be written: %s", error.message)


def _get_folder_stamp(folder: str) -> int:
    """Return when files of a folder were made or deleted last, in ns; 0 without it."""
    with translate_os_errors(folder, "read"):
        found = stat_file(folder)
    return found.st_mtime_ns if found else 0


def _get_expected_stamp(report: DayReportFile) -> tuple[int, int]:
    return report.position.size, report.head.mtime_ns
