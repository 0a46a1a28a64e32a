"""The reports: what the requests of some days add up to, page by page, as JSON or CSV.

A page costs the same however many rows the report has; where all its days are over, so does what
it is made from, once it was asked for.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import tzinfo
from decimal import Decimal
from typing import Annotated, Any, Protocol, get_args
from urllib.parse import parse_qsl, urlencode

from msgspec import Meta, Struct

from agentd.clock import Clock
from agentd.proxy import reports
from agentd.proxy.local_days import today_in
from agentd.proxy.reports import (
    By,
    ErrorLine,
    LeakLine,
    Line,
    Only,
    Report,
    TimedBy,
    TimeLine,
    TimePage,
)
from agentd.proxy.tally import Totals
from agentd.web.call import Answer, Call
from agentd.web.manage import shapes
from agentd.web.manage.pages import one_of, page_of
from agentd.web.manage.report_pages import CURSOR_PATTERN, MOST, USUAL, ReportPage, ReportPages
from agentd.web.manage.spans import Days, days_of
from agentd.web.table import Parameter
from agentd.wire import spreadsheet


class CacheLine(Struct, frozen=True):
    """Which part of what the models read was known to the suppliers."""

    name: str
    """What the row is of, as `by` tells."""
    title: str
    """A key's name, where it is of a key."""
    requests: int
    """How many there were."""
    input: int
    """Tokens that were read anew."""
    cache_read: int
    """Tokens that suppliers knew already."""
    cache_write: int
    """Tokens that they remembered."""
    cache_share: float | None
    """Of all that was read; null of nothing."""


class SpenderLine(Struct, frozen=True):
    """A key, and its part of all that was spent."""

    key: str
    """Its id."""
    title: str
    """Its name."""
    requests: int
    """How many it made."""
    cost: Decimal
    """USD that it spent."""
    share: float | None
    """Of the cost of all keys; null of nothing."""


LineView, TimeView = shapes.shown(Line, called="SpendLine"), shapes.shown(TimeLine)
CacheView, SpenderView = shapes.shown(CacheLine), shapes.shown(SpenderLine)
ErrorView, LeakView = shapes.shown(ErrorLine), shapes.shown(LeakLine)
_DAYS: dict[str, Any] = {
    "from": Annotated[str, Meta(description="The first day that is counted.")],
    "to": Annotated[str, Meta(description="The last day, included.")],
    "zone": Annotated[
        str, Meta(description="The time zone of all days and hours, which limits have, too.")
    ],
}
_BY_WHAT = Annotated[str, Meta(description="What a row is of.")]
_ALL = Meta(description="Of all rows together, not only of this page.")
SpendReport = page_of(
    "SpendReport", LineView, **_DAYS, by=_BY_WHAT, total=Annotated[LineView, _ALL]
)
TimeReport = page_of("TimeReport", TimeView, **_DAYS, by=_BY_WHAT, total=Annotated[TimeView, _ALL])
CacheReport = page_of(
    "CacheReport", CacheView, **_DAYS, by=_BY_WHAT, total=Annotated[CacheView, _ALL]
)
SpenderReport = page_of("SpenderReport", SpenderView, **_DAYS, total=Annotated[Decimal, _ALL])
ErrorReport = page_of("ErrorReport", ErrorView, **_DAYS, total=Annotated[int, _ALL])
LeakReport = page_of("LeakReport", LeakView, **_DAYS, total=Annotated[int, _ALL])

_BY: tuple[By, ...] = get_args(By)
_TIMED_BY: tuple[TimedBy, ...] = get_args(TimedBy)

LIMIT = Parameter(
    "limit",
    "query",
    f"The most rows that are told at once; {USUAL} where it is absent.",
    {"type": "integer", "minimum": 1, "maximum": MOST},
)
CURSOR = Parameter(
    "cursor", "query", "The next of the page before.", {"type": "string", "pattern": CURSOR_PATTERN}
)
FORMAT = Parameter(
    "format",
    "query",
    "json or csv; an Accept header with text/csv asks for CSV, too.",
    {"type": "string", "enum": ["json", "csv"]},
)
BY = Parameter(
    "by", "query", "What a row is; model when absent.", {"type": "string", "enum": list(_BY)}
)
TIMED_BY = Parameter(
    "by", "query", "What a row is; model when absent.", {"type": "string", "enum": list(_TIMED_BY)}
)
RULE = Parameter("rule", "query", "Only found by this rule.", {"type": "string"})
ONLY = (
    Parameter("key", "query", "Only of this access key, by its id or name.", {"type": "string"}),
    Parameter("model", "query", "Only of this model, as callers name it.", {"type": "string"}),
    Parameter("channel", "query", "Only through this channel.", {"type": "string"}),
)


class Ledger(Protocol):
    """Who adds up (``disk.ledger.Ledger``)."""

    def totals(self, by: By, first: str, last: str, only: Only = ...) -> Awaitable[Report[Totals]]:
        """What some days add up to."""
        ...

    def times(
        self, by: TimedBy, first: str, last: str, only: Only = ..., rows: slice = ...
    ) -> Awaitable[TimePage]:
        """How long answers took: some rows of the report."""
        ...

    def leaks(self, first: str, last: str) -> Awaitable[Sequence[LeakLine]]:
        """Secrets that were found, by day, key and rule."""
        ...


class KeyIds(Protocol):
    """Tells the id of an access key."""

    def __call__(self, told: str) -> str:
        """By its id or name; what is neither is taken for the id of one that is gone."""
        ...


class Page(Struct, frozen=True):
    """Some rows of a report of some days; ``after``: where to go on, empty at the end."""

    name: str
    days: Days
    zone: str
    lines: Sequence[Struct]
    after: str

    def told(self, call: Call, page: Any, view: Any, **more: object) -> Answer:
        """As JSON, a ``page`` of ``view`` with ``more`` fields; or as CSV, the rows alone."""
        if wants_csv(call):
            name = f"{self.name}-{self.days.first}-{self.days.last}"
            return as_csv(call, name, self.lines, self.after)
        items = [shapes.told(one, view) for one in self.lines]
        days = {"from": self.days.first, "to": self.days.last, "zone": self.zone}
        return Answer(page(**days, **more, items=items, next=self.after))


class ReportDesk:
    """The endpoints below ``/api/agent/reports``."""

    def __init__(
        self, ledger: Ledger, key_id: KeyIds, clock: Clock, zone: Callable[[], tzinfo]
    ) -> None:
        self._ledger = ledger
        self._key_id = key_id
        self._clock = clock
        self._zone = zone
        self._pages = ReportPages(clock)

    async def report_totals(self, call: Call) -> Answer:
        """All in one."""
        return await self._spend(call, "total")

    async def report_by_day(self, call: Call) -> Answer:
        """Day by day."""
        return await self._spend(call, "day")

    async def report_by_hour(self, call: Call) -> Answer:
        """Hour by hour."""
        return await self._spend(call, "hour")

    async def report_by_model(self, call: Call) -> Answer:
        """The dearest model first."""
        return await self._spend(call, "model")

    async def report_by_channel(self, call: Call) -> Answer:
        """The dearest channel first."""
        return await self._spend(call, "channel")

    async def report_by_key(self, call: Call) -> Answer:
        """The dearest access key first."""
        return await self._spend(call, "key")

    async def report_top_spenders(self, call: Call) -> Answer:
        """Keys with their part of all."""
        page = await self._totals(call, "key")
        report, days = page.counted
        total = report.total.cost
        lines = [
            SpenderLine(one.name, one.title, one.requests, one.cost, _part(one.cost, total))
            for one in reports.lines(report, page.first, page.rows)
        ]
        after = self._pages.follow(call, page, len(report.rows))
        told = Page("top-spenders", days, str(self._zone()), lines, after)
        return told.told(call, SpenderReport, SpenderView, total=total)

    async def report_cache_share(self, call: Call) -> Answer:
        """What the suppliers knew already."""
        by = one_of(call, "by", _BY, "model")
        page = await self._totals(call, by)
        report, days = page.counted
        lines = list(map(_cached, reports.lines(report, page.first, page.rows)))
        total = shapes.told(_cached(reports.line("", report.total)), CacheView)
        after = self._pages.follow(call, page, len(report.rows))
        told = Page(f"cache-share-by-{by}", days, str(self._zone()), lines, after)
        return told.told(call, CacheReport, CacheView, by=by, total=total)

    async def report_latency(self, call: Call) -> Answer:
        """Until the end of answers, and until their first piece."""
        by = one_of(call, "by", _TIMED_BY, "model")
        days = days_of(call, self._today())
        only = self._only(call)

        async def count() -> TimePage:
            limit = call.number("limit", 1, MOST) or USUAL
            return await self._ledger.times(by, *days, only, slice(0, limit))

        page = await self._pages.open(call, count)
        whole = page.counted
        if not page.first and whole.of > page.rows:  # of all rows, which take far longer to count
            whole = await self._ledger.times(by, *days, only)
        shown = TimePage(whole.rows[page.slice], whole.total, whole.of)
        lines = await asyncio.to_thread(reports.time_lines, shown)
        total = shapes.told(reports.time_line("", whole.total), TimeView)
        after = self._pages.follow(call, page, whole.of, whole)
        told = Page(f"latency-by-{by}", days, str(self._zone()), lines, after)
        return told.told(call, TimeReport, TimeView, by=by, total=total)

    async def report_errors(self, call: Call) -> Answer:
        """The most frequent kind first."""
        page = await self._totals(call, "total")
        report, days = page.counted
        found = reports.errors(report.total)
        after = self._pages.follow(call, page, len(found))
        told = Page("errors", days, str(self._zone()), found[page.slice], after)
        total = sum(one.requests for one in found)
        return told.told(call, ErrorReport, ErrorView, total=total)

    async def list_leaks(self, call: Call) -> Answer:
        """As ``report_leaks``, at an address of its own."""
        return await self.report_leaks(call)

    async def report_leaks(self, call: Call) -> Answer:
        """Secrets by day, key and rule."""
        days = days_of(call, self._today())
        page = await self._pages.open(call, lambda: self._ledger.leaks(*days))
        found = page.counted
        key, rule = self._only(call).key, call.query("rule")
        if key or rule is not None:
            found = [one for one in found if key in ("", one.key) and rule in (None, one.rule)]
        after = self._pages.follow(call, page, len(found))
        told = Page("leaks", days, str(self._zone()), found[page.slice], after)
        return told.told(call, LeakReport, LeakView, total=sum(one.count for one in found))

    async def _spend(self, call: Call, by: By) -> Answer:
        page = await self._totals(call, by)
        report, days = page.counted
        lines = reports.lines(report, page.first, page.rows)
        total = shapes.told(reports.line("", report.total), LineView)
        after = self._pages.follow(call, page, len(report.rows))
        name = "totals" if by == "total" else f"by-{by}"
        told = Page(name, days, str(self._zone()), lines, after)
        return told.told(call, SpendReport, LineView, by=by, total=total)

    async def _totals(self, call: Call, by: By) -> ReportPage[tuple[Report[Totals], Days]]:
        days = days_of(call, self._today())
        only = self._only(call)

        async def count() -> tuple[Report[Totals], Days]:
            return await self._ledger.totals(by, *days, only), days

        return await self._pages.open(call, count)

    def _only(self, call: Call) -> Only:
        key = call.query("key") or ""
        return Only(
            model=call.query("model") or "",
            channel=call.query("channel") or "",
            key=self._key_id(key) if key else "",
        )

    def _today(self) -> str:
        return today_in(self._zone(), self._clock.now())


class ReportView(Struct, frozen=True):
    """One report: its address is ``/api/agent/reports/`` and its name."""

    name: str
    """The last part of its address."""
    tells: str
    """What is in it."""


class ReportsView(Struct, frozen=True):
    """All of them."""

    items: list[ReportView]
    """All reports."""


class ReportList:
    """The endpoint ``/api/agent/reports``; ``told`` are names and what each tells."""

    def __init__(self, told: Iterable[tuple[str, str]]) -> None:
        self._told = ReportsView([ReportView(*one) for one in told])

    def list_reports(self, _: Call) -> Answer:
        """The names."""
        return Answer(self._told)


def as_csv(call: Call, name: str, lines: Sequence[Struct], after: str) -> Answer:
    """Rows as a file; the header ``Link`` tells where to go on."""
    headers = {
        "Content-Type": "text/csv; charset=utf-8; header=present",
        "Content-Disposition": f'attachment; filename="{name}.csv"',
    }
    if after:
        others = [pair for pair in parse_qsl(call.query_text) if pair[0] != "cursor"]
        query = urlencode([*others, ("cursor", after)])
        headers["Link"] = f'<{call.path}?{query}>; rel="next"'
    return Answer(spreadsheet.as_csv(lines), headers=headers)


def wants_csv(call: Call) -> bool:
    """Whether the rows are asked for as CSV. ``BadRequest`` for another format."""
    accepts = "text/csv" in call.headers.get("Accept", "")
    return one_of(call, "format", ("json", "csv"), "csv" if accepts else "json") == "csv"


def _cached(line: Line) -> CacheLine:
    return CacheLine(
        line.name,
        line.title,
        line.requests,
        line.input,
        line.cache_read,
        line.cache_write,
        line.cache_share,
    )


def _part(cost: Decimal, total: Decimal) -> float | None:
    return float(cost / total) if total else None
