"""Snapshot of what each key spent on closed days (``balance.json``), reused by the next start.

Without it a start would read the reports of all days. It is a cache: a span is valid while the
files of all its days are unchanged. A span that ends earlier than needed is extended by the days
since.
"""

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

import msgspec
from msgspec import Struct, structs

from agentd.core.errors import AgentdError
from agentd.gateway.ledger.day_file import ReadPosition
from agentd.gateway.limits.spend_by_quarter_hour import (
    QUARTERS_PER_DAY,
    KeySpend,
    SpendByQuarterHour,
    SpendRow,
    get_quarter_start,
)
from agentd.storage.checksummed_json import ChecksumMismatch, decode_checksummed, encode_checksummed
from agentd.storage.document import read_document, replace_document, translate_os_errors
from agentd.storage.layout import Layout

log = logging.getLogger(__name__)

FORMAT = 1
_MAX_BYTES = 256 * 1024 * 1024


EARLIEST = get_quarter_start("2000-01-01")
"""Earlier than any request."""
LATE_DAYS = 2
"""The last closed days, to which a request that started before midnight may still be added."""


class CountedSpend(NamedTuple):
    """Spend counted from the first bytes of the days' files.

    ``sizes`` gives the number of these bytes, for each file that may still grow.
    """

    spend: SpendByQuarterHour
    sizes: dict[str, int]


class SpendSpan(Struct, frozen=True):
    """The spend of each key from ``start`` (inclusive) to ``end`` (exclusive)."""

    start: datetime
    end: datetime
    files: dict[str, tuple[int, int]]
    """The days that were counted: size and modification time of the file; zeros for none."""
    spent: dict[str, KeySpend]


class SpendSnapshotContents(Struct, frozen=True):
    """The content of ``balance.json``."""

    format: int
    spans: list[SpendSpan]


class DaySpend(Protocol):
    """The spend of one day."""

    @property
    def position(self) -> ReadPosition:
        """The position up to which its file was read."""
        ...

    def get_spent(self) -> dict[str, KeySpend]:
        """Return each key's spend."""
        ...

    def get_quarters(self) -> dict[int, dict[str, KeySpend]]:
        """Return each key's spend by quarter hour."""
        ...


class _LateDay(NamedTuple):
    """A frozen view of a closed day."""

    found: DaySpend
    stamp: tuple[int, int]


_GONE = (0, 0)
_GROWING = (-1, -1)
"""Stamp of a file that was written to while it was read: it must never match."""

_decoder = msgspec.json.Decoder(SpendSnapshotContents)


class SpendSnapshot:
    """The stored spans; ``known`` lists all days, ``day`` returns one. Every method blocks."""

    def __init__(self, layout: Layout, known: list[str], day: Callable[[str], DaySpend]) -> None:
        self._layout = layout
        self._known = known
        self._day = day
        self._stored_spans = _load(layout)
        self._used_spans: list[SpendSpan] = []
        self._late: dict[str, _LateDay] = {}
        """Closed days that changed while they were counted: all spans use this frozen view."""

    def count_spend(
        self,
        window_starts: Iterable[datetime],
        today: str,
        size: Callable[[str], int | None],
        *,
        writes: bool,
    ) -> CountedSpend:
        """Count what each key spent, in total and since each of ``window_starts``.

        ``size`` returns the complete bytes of a day's file that is being appended to. The snapshot
        is saved if ``writes`` is set.
        """
        closed = [cut for cut in window_starts if cut < get_quarter_start(today)]
        past = [day for day in self._known if day < today]
        # Of older days, those that are still open: what is behind these sizes is counted beside.
        late = [day for day in past[:-LATE_DAYS] if size(day) is not None] + past[-LATE_DAYS:]
        sizes, rows = self._get_sizes(late, size), self._count_closed(closed, today)
        if self._get_sizes(late, size) != sizes:  # some were added between one span and the next
            self._late = {day: self._freeze(day) for day in late}
            sizes = {day: one.found.position.size for day, one in self._late.items()}
            rows = self._count_closed(closed, today)
        sums = SpendByQuarterHour(rows)
        if writes:
            self._save()
        for day in self._known:
            if day >= today:
                one = self._day(day)
                sums.add_quarters(day, one.get_quarters())
                sizes[day] = one.position.size
        return CountedSpend(sums, sizes)

    def _get_sizes(self, days: list[str], size: Callable[[str], int | None]) -> dict[str, int]:
        """Return the complete bytes of these days' files."""
        sizes = {}
        for day in days:
            path, whole = self._layout.get_ledger_day_path(day), size(day)
            with translate_os_errors(path, "read"):
                sizes[day] = get_stamp(stat_file(path))[0] if whole is None else whole
        return sizes

    def _freeze(self, day: str) -> _LateDay:
        """Return a view of a closed day that all later counting uses."""
        before, found = self._get_stamp(day), self._day(day)
        return _LateDay(found, before if self._get_stamp(day) == before else _GROWING)

    def _get_stamp(self, day: str) -> tuple[int, int]:
        """Return the size and modification time of a day's file, as far as it is counted."""
        late = self._late.get(day)
        return late.stamp if late else get_stamp(stat_file(self._layout.get_ledger_day_path(day)))

    def _count_closed(self, closed: Iterable[datetime], today: str) -> list[SpendRow]:
        self._used_spans = []
        return list(self._iter_rows([EARLIEST, *closed], get_quarter_start(today)))

    def _iter_rows(self, starts: Iterable[datetime], end: datetime) -> Iterator[SpendRow]:
        """Iterate over the spend of each key from each start to the next one, or to the end."""
        begins = sorted(set(starts))
        for start, until in zip(begins, [*begins[1:], end], strict=True):
            for key, spent in self._count_between(start, until).items():
                yield SpendRow(key, start, spent)

    def _count_between(self, start: datetime, end: datetime) -> dict[str, KeySpend]:
        """Return each key's spend between two times of closed days, the end excluded."""
        span = self._find_longest_span(start, end)
        if span.end < end:
            span = self._extend(span, end)
        self._used_spans.append(span)
        return span.spent

    def _save(self) -> None:
        """Save the spans that were used, if they changed; a failure is only logged."""
        if self._used_spans == self._stored_spans:
            return
        try:
            replace_document(
                self._layout.ledger_balance,
                encode_checksummed(SpendSnapshotContents(FORMAT, self._used_spans)),
            )
        except AgentdError as error:
            log.warning("cannot save the spend snapshot: %s", error)

    def _find_longest_span(self, start: datetime, end: datetime) -> SpendSpan:
        """Return the longest valid span that begins at ``start``, or an empty one."""
        for span in sorted(self._stored_spans, key=lambda span: span.end, reverse=True):
            if span.start == start and span.end <= end and self._is_valid(span):
                return span
        return SpendSpan(start, start, {}, {})

    def _is_valid(self, span: SpendSpan) -> bool:
        if span.files.keys() != set(self._iter_days(span.start, span.end)):
            return False
        looks = ((self._get_stamp(day), was) for day, was in span.files.items())
        return all(stamp == was != _GROWING or stamp == _GONE for stamp, was in looks)

    def _extend(self, span: SpendSpan, end: datetime) -> SpendSpan:
        files = dict(span.files)
        spent = {key: structs.replace(one) for key, one in span.spent.items()}
        for day in self._iter_days(span.end, end):
            files[day] = self._get_stamp(day)
            late = self._late.get(day)  # the stamp comes first: a file that grows is never valid
            found = late.found if late else self._day(day)
            whole = (
                span.end <= get_quarter_start(day)
                and get_quarter_start(day, QUARTERS_PER_DAY) <= end
            )
            for number, keys in ({0: found.get_spent()} if whole else found.get_quarters()).items():
                if whole or span.end <= get_quarter_start(day, number) < end:
                    _add_spent(spent, keys)
        return SpendSpan(span.start, end, files, spent)

    def _iter_days(self, start: datetime, end: datetime) -> Iterator[str]:
        """Iterate over the days that overlap the range."""
        first = start.astimezone(UTC).date().isoformat()
        for day in self._known:
            if first <= day and get_quarter_start(day) < end:
                yield day


def stat_file(path: str) -> os.stat_result | None:
    """Return the stat result of a file, or None if it does not exist. Raises ``OSError``."""
    try:
        return os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None


def get_stamp(info: os.stat_result | None) -> tuple[int, int]:
    """Return a file's size and modification time; zeros for no file."""
    return (info.st_size, info.st_mtime_ns) if info else _GONE


def _add_spent(spent: dict[str, KeySpend], more: dict[str, KeySpend]) -> None:
    for key, one in more.items():
        known = spent.get(key)
        if known is None:
            known = spent[key] = KeySpend()
        known.add(one)


def _load(layout: Layout) -> list[SpendSpan]:
    try:
        found = read_document(layout.ledger_balance, _MAX_BYTES)
        kept = _decoder.decode(decode_checksummed(found.data)) if found else None
    except (AgentdError, ChecksumMismatch, msgspec.DecodeError) as error:
        log.info("%s is ignored and will be rebuilt: %s", layout.ledger_balance, error)
        return []
    return kept.spans if kept and kept.format == FORMAT else []
