"""What each key spent between two moments of closed days, remembered from start to start.

Without it a start would read the reports of all days. It is a cache: a span is believed while the
files of all its days are what they were. A span that ends earlier than is asked for is prolonged by
the days since.
"""

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

import msgspec
from msgspec import Struct, structs

from agentd.disk.document import read, replace, told
from agentd.disk.layout import Layout
from agentd.disk.ledger_file import Standing
from agentd.disk.lines import Broken, seal, unseal
from agentd.errors import AgentdError
from agentd.proxy.sums import QUARTERS, Row, Spent, Sums, beginning

log = logging.getLogger(__name__)

FORMAT = 1
_LIMIT = 256 * 1024 * 1024


EVER = beginning("2000-01-01")
"""Before any request."""
LATE_DAYS = 2
"""The last closed days, to which a request may still be added that ended before midnight."""


class Counted(NamedTuple):
    """What was spent by what stood in the first bytes of the days' files.

    ``sizes`` tells how many bytes these were, of each file that may still grow.
    """

    sums: Sums
    sizes: dict[str, int]


class Span(Struct, frozen=True):
    """What each key spent from ``start`` on, and before ``end``."""

    start: datetime
    end: datetime
    files: dict[str, tuple[int, int]]
    """The days that were counted: the size and time of change of the file; zeros for none."""
    spent: dict[str, Spent]


class Kept(Struct, frozen=True):
    """What ``balance.json`` holds."""

    format: int
    spans: list[Span]


class Quartered(Protocol):
    """What is asked of a day."""

    @property
    def standing(self) -> Standing:
        """How far its file was read."""
        ...

    def spent(self) -> dict[str, Spent]:
        """What each key spent."""
        ...

    def quarters(self) -> dict[int, dict[str, Spent]]:
        """What each key spent, by the quarter of an hour."""
        ...


class _Late(NamedTuple):
    """A closed day as it was at one moment."""

    found: Quartered
    stamp: tuple[int, int]


_GONE = (0, 0)
_GROWING = (-1, -1)
"""Stands for a file that was written to meanwhile: its size and time tell nothing."""

_kept = msgspec.json.Decoder(Kept)


class Balance:
    """The spans. ``known`` are all days that there are, ``day`` tells one. Every method blocks."""

    def __init__(self, layout: Layout, known: list[str], day: Callable[[str], Quartered]) -> None:
        self._layout = layout
        self._known = known
        self._day = day
        self._before = _stored(layout)
        self._asked: list[Span] = []
        self._late: dict[str, _Late] = {}
        """Closed days that are written to while they are counted: of each, all spans count this."""

    def count(
        self,
        cuts: Iterable[datetime],
        today: str,
        size: Callable[[str], int | None],
        *,
        keeps: bool,
    ) -> Counted:
        """What each key spent, to be asked for since any of the ``cuts``, or since ever.

        ``size`` tells how much of a day's file is whole while somebody writes to it; what was read
        of closed days is remembered where this one ``keeps``.
        """
        closed = [cut for cut in cuts if cut < beginning(today)]
        late = [day for day in self._known if day < today][-LATE_DAYS:]
        sizes, rows = self._sizes(late, size), self._counted(closed, today)
        if self._sizes(late, size) != sizes:  # some were added between one span and the next
            self._late = {day: self._taken(day) for day in late}
            sizes = {day: one.found.standing.size for day, one in self._late.items()}
            rows = self._counted(closed, today)
        sums = Sums(rows)
        if keeps:
            self._keep()
        for day in self._known:
            if day >= today:
                one = self._day(day)
                sums.take_quarters(day, one.quarters())
                sizes[day] = one.standing.size
        return Counted(sums, sizes)

    def _sizes(self, days: list[str], size: Callable[[str], int | None]) -> dict[str, int]:
        """Bytes of these days' files that are whole."""
        sizes = {}
        for day in days:
            path, whole = self._layout.ledger_day(day), size(day)
            with told(path, "read"):
                sizes[day] = stamp_of(look(path))[0] if whole is None else whole
        return sizes

    def _taken(self, day: str) -> _Late:
        """A closed day as it is now, in which all that is counted afterwards agrees."""
        before, found = self._stamp(day), self._day(day)
        return _Late(found, before if self._stamp(day) == before else _GROWING)

    def _stamp(self, day: str) -> tuple[int, int]:
        """The size and time of change of a day's file, as far as it is counted."""
        late = self._late.get(day)
        return late.stamp if late else stamp_of(look(self._layout.ledger_day(day)))

    def _counted(self, closed: Iterable[datetime], today: str) -> list[Row]:
        self._asked = []
        return list(self._rows([EVER, *closed], beginning(today)))

    def _rows(self, starts: Iterable[datetime], end: datetime) -> Iterator[Row]:
        """What each key spent since each of some moments, until the next one or the end."""
        begins = sorted(set(starts))
        for start, until in zip(begins, [*begins[1:], end], strict=True):
            for key, spent in self._between(start, until).items():
                yield Row(key, start, spent)

    def _between(self, start: datetime, end: datetime) -> dict[str, Spent]:
        """What each key spent between two moments, the end excluded; ``end`` is of a closed day."""
        span = self._longest(start, end)
        if span.end < end:
            span = self._prolonged(span, end)
        self._asked.append(span)
        return span.spent

    def _keep(self) -> None:
        """Remember what was asked for, if that is news; a failure is only logged."""
        if self._asked == self._before:
            return
        try:
            replace(self._layout.ledger_balance, seal(Kept(FORMAT, self._asked)))
        except AgentdError as error:
            log.warning("the balance was not kept: %s", error)

    def _longest(self, start: datetime, end: datetime) -> Span:
        """The longest span that is known to begin there, and to be true still; maybe empty."""
        for span in sorted(self._before, key=lambda span: span.end, reverse=True):
            if span.start == start and span.end <= end and self._holds(span):
                return span
        return Span(start, start, {}, {})

    def _holds(self, span: Span) -> bool:
        if span.files.keys() != set(self._days(span.start, span.end)):
            return False
        looks = ((self._stamp(day), was) for day, was in span.files.items())
        return all(stamp == was != _GROWING or stamp == _GONE for stamp, was in looks)

    def _prolonged(self, span: Span, end: datetime) -> Span:
        files = dict(span.files)
        spent = {key: structs.replace(one) for key, one in span.spent.items()}
        for day in self._days(span.end, end):
            files[day] = self._stamp(day)
            late = self._late.get(day)  # the stamp comes first: what grows is believed by nobody
            found = late.found if late else self._day(day)
            whole = span.end <= beginning(day) and beginning(day, QUARTERS) <= end
            for number, keys in ({0: found.spent()} if whole else found.quarters()).items():
                if whole or span.end <= beginning(day, number) < end:
                    _add(spent, keys)
        return Span(span.start, end, files, spent)

    def _days(self, start: datetime, end: datetime) -> Iterator[str]:
        """The days that have any moment between the two."""
        first = start.astimezone(UTC).date().isoformat()
        for day in self._known:
            if first <= day and beginning(day) < end:
                yield day


def look(path: str) -> os.stat_result | None:
    """What the system tells about a file; None where there is none. Raises ``OSError``."""
    try:
        return os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None


def stamp_of(info: os.stat_result | None) -> tuple[int, int]:
    """A file's size and time of change; zeros for none."""
    return (info.st_size, info.st_mtime_ns) if info else _GONE


def _add(spent: dict[str, Spent], more: dict[str, Spent]) -> None:
    for key, one in more.items():
        known = spent.get(key)
        if known is None:
            known = spent[key] = Spent()
        known.add(one)


def _stored(layout: Layout) -> list[Span]:
    try:
        found = read(layout.ledger_balance, _LIMIT)
        kept = _kept.decode(unseal(found.data)) if found else None
    except (AgentdError, Broken, msgspec.DecodeError, UnicodeDecodeError) as error:
        log.info("%s is not used, it is made anew: %s", layout.ledger_balance, error)
        return []
    return kept.spans if kept and kept.format == FORMAT else []
