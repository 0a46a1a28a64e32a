"""Endpoints of the reports: totals of the requests of some days, paged, as JSON or CSV.

A page costs the same however many rows the report has; reports of closed days are cached.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import tzinfo
from decimal import Decimal
from typing import Annotated, Any, Protocol, TypeAlias, get_args
from urllib.parse import parse_qsl, urlencode

from msgspec import Meta, Struct, structs

from agentd.core import csv
from agentd.core.clock import Clock
from agentd.core.errors import BadRequest, Unavailable
from agentd.core.local_days import get_today
from agentd.gateway.admin.api import shapes
from agentd.gateway.admin.api.pages import define_page_with
from agentd.gateway.admin.api.report_pages import (
    CURSOR_PATTERN,
    DEFAULT_LIMIT,
    MAX_LIMIT,
    ReportPage,
    ReportPages,
)
from agentd.gateway.admin.api.route_builders import build_route
from agentd.gateway.admin.api.spans import DEFAULT_DAYS, FROM_DAY, TO_DAY
from agentd.gateway.ledger.daily_totals import RequestTotals
from agentd.gateway.reports import reports
from agentd.gateway.reports.reports import (
    ErrorRow,
    GroupBy,
    LatencyRow,
    LeakRow,
    ReportFilter,
    ReportRow,
    ReportTable,
    TimedGroupBy,
    TimePage,
)
from agentd.http.parameters import (
    DayRange,
    make_choice_parameter,
    make_integer_parameter,
    parse_days,
)
from agentd.http.request import Request, Response
from agentd.http.routing import Endpoint, Parameter, Route


class CacheRow(Struct, frozen=True):
    """Share of input tokens that came from suppliers' caches."""

    name: str
    """The name of the row's group, according to `by`."""
    title: str
    """Name of the key, if the row is about a key."""
    requests: int
    """Number of requests."""
    input: int
    """Uncached input tokens."""
    cache_read: int
    """Input tokens read from a cache."""
    cache_write: int
    """Input tokens written to a cache."""
    cache_share: float | None
    """Cache reads divided by all input tokens; null: no input."""


class SpenderRow(Struct, frozen=True):
    """A key and its share of the total cost."""

    key: str
    """Id of the key."""
    title: str
    """Name of the key."""
    requests: int
    """Number of requests."""
    cost: Decimal
    """Cost in USD."""
    share: float | None
    """Share of the cost of all keys; null: nothing was spent."""


LineView, TimeView = (
    shapes.define_view(ReportRow, called="SpendLine"),
    shapes.define_view(LatencyRow),
)
CacheView, SpenderView = shapes.define_view(CacheRow), shapes.define_view(SpenderRow)
ErrorView, LeakView = shapes.define_view(ErrorRow), shapes.define_view(LeakRow)
_DAYS: dict[str, Any] = {
    "from": Annotated[str, Meta(description="The first day, included.")],
    "to": Annotated[str, Meta(description="The last day, included.")],
    "zone": Annotated[
        str, Meta(description="The time zone of days and hours, also used by limits.")
    ],
}
_BY_WHAT = Annotated[str, Meta(description="What the rows are grouped by.")]
_ALL = Meta(description="Of all rows, not only of this page.")
SpendReport = define_page_with(
    "SpendReport", LineView, **_DAYS, by=_BY_WHAT, total=Annotated[LineView, _ALL]
)
TimeReport = define_page_with(
    "TimeReport", TimeView, **_DAYS, by=_BY_WHAT, total=Annotated[TimeView, _ALL]
)
CacheReport = define_page_with(
    "CacheReport", CacheView, **_DAYS, by=_BY_WHAT, total=Annotated[CacheView, _ALL]
)
SpenderReport = define_page_with(
    "SpenderReport", SpenderView, **_DAYS, total=Annotated[Decimal, _ALL]
)
ErrorReport = define_page_with("ErrorReport", ErrorView, **_DAYS, total=Annotated[int, _ALL])
LeakReport = define_page_with("LeakReport", LeakView, **_DAYS, total=Annotated[int, _ALL])

_BY: tuple[GroupBy, ...] = get_args(GroupBy)
_TIMED_BY: tuple[TimedGroupBy, ...] = get_args(TimedGroupBy)

LIMIT = make_integer_parameter(
    "limit", f"Maximum number of rows; {DEFAULT_LIMIT} by default.", 1, MAX_LIMIT
)
CURSOR = Parameter(
    "cursor",
    "query",
    "The next of the previous page.",
    {"type": "string", "pattern": CURSOR_PATTERN},
)
FORMAT = make_choice_parameter(
    "format", "json or csv; an Accept header with text/csv requests CSV as well.", ("json", "csv")
)
BY = make_choice_parameter("by", "What to group by; model by default.", _BY)
TIMED_BY = make_choice_parameter("by", "What to group by; model by default.", _TIMED_BY)
RULE = Parameter("rule", "query", "Only found by this rule.", {"type": "string"})
KEY = Parameter("key", "query", "Only of this access key, by its id or name.", {"type": "string"})
GROUP_FILTERS = (
    Parameter(
        "owner",
        "query",
        "Only of keys that had this owner when the request was made.",
        {"type": "string"},
    ),
    Parameter(
        "tag",
        "query",
        "Only of keys that had this tag when the request was made.",
        {"type": "string"},
    ),
)
FILTERS = (
    KEY,
    *GROUP_FILTERS,
    Parameter("model", "query", "Only of this model, as callers name it.", {"type": "string"}),
    Parameter("channel", "query", "Only through this channel.", {"type": "string"}),
)


class ReportLedger(Protocol):
    """The reports of the ledger (``gateway.ledger.ledger.Ledger``)."""

    def get_totals(
        self, by: GroupBy, first: str, last: str, only: ReportFilter = ...
    ) -> Awaitable[ReportTable[RequestTotals]]:
        """Return totals of some days."""
        ...

    def get_times(
        self, by: TimedGroupBy, first: str, last: str, only: ReportFilter = ..., rows: slice = ...
    ) -> Awaitable[TimePage]:
        """Return response times: some rows of the report."""
        ...

    def get_leaks(
        self, first: str, last: str, only: ReportFilter = ...
    ) -> Awaitable[Sequence[LeakRow]]:
        """Return the secrets found, by day, key and rule."""
        ...


class KeyResolver(Protocol):
    """Resolves the id of an access key."""

    def __call__(self, id_or_name: str) -> str:
        """Return the id for an id or name; anything else is taken for a deleted key's id."""
        ...


class RenderedReport(Struct, frozen=True):
    """A page of a report; ``after``: cursor of the next page, empty on the last one."""

    name: str
    days: DayRange
    zone: str
    kind: type[Struct]
    """The type of the lines."""
    lines: Sequence[Struct]
    after: str

    def respond(self, call: Request, page: Any, view: Any, **more: object) -> Response:
        """Respond with JSON, a ``page`` of ``view`` with ``more`` fields, or with CSV rows."""
        if wants_csv(call):
            name = f"{self.name}-{self.days.first}-{self.days.last}"
            return respond_as_csv(call, name, self.kind, self.lines, self.after)
        items = [shapes.to_view(one, view) for one in self.lines]
        days = {"from": self.days.first, "to": self.days.last, "zone": self.zone}
        return Response(page(**days, **more, items=items, next=self.after))


class ReportEndpoints:
    """The endpoints below ``/api/agent/reports``."""

    def __init__(
        self, ledger: ReportLedger, key_id: KeyResolver, clock: Clock, zone: Callable[[], tzinfo]
    ) -> None:
        self._ledger = ledger
        self._key_id = key_id
        self._clock = clock
        self._zone = zone
        self._pages = ReportPages(clock)

    async def report_totals(self, call: Request) -> Response:
        """Return the totals of all requests."""
        return await self._report_spend(call, "total")

    async def report_by_day(self, call: Request) -> Response:
        """Return totals by day."""
        return await self._report_spend(call, "day")

    async def report_by_hour(self, call: Request) -> Response:
        """Return totals by hour."""
        return await self._report_spend(call, "hour")

    async def report_by_model(self, call: Request) -> Response:
        """Return totals by model, highest cost first."""
        return await self._report_spend(call, "model")

    async def report_by_channel(self, call: Request) -> Response:
        """Return totals by channel, highest cost first."""
        return await self._report_spend(call, "channel")

    async def report_by_key(self, call: Request) -> Response:
        """Return totals by access key, highest cost first."""
        return await self._report_spend(call, "key")

    async def report_by_owner(self, call: Request) -> Response:
        """Return totals by the owner that keys had, highest cost first."""
        return await self._report_spend(call, "owner")

    async def report_by_tag(self, call: Request) -> Response:
        """Return totals by tag, highest cost first; a request counts in each tag of its key."""
        return await self._report_spend(call, "tag")

    async def report_top_spenders(self, call: Request) -> Response:
        """Return keys with their share of the total cost."""
        page = await self._open_totals(call, "key")
        report, days = page.counted
        total = report.total.cost
        lines = [
            SpenderRow(one.name, one.title, one.requests, one.cost, _compute_share(one.cost, total))
            for one in reports.build_rows(report, page.first, page.rows)
        ]
        after = self._pages.follow(call, page, len(report.rows))
        rendered = RenderedReport("top-spenders", days, str(self._zone()), SpenderRow, lines, after)
        return rendered.respond(call, SpenderReport, SpenderView, total=total)

    async def report_cache_share(self, call: Request) -> Response:
        """Return the share of cached input tokens."""
        by = call.get_choice("by", _BY, "model")
        page = await self._open_totals(call, by)
        report, days = page.counted
        lines = list(map(_make_cache_row, reports.build_rows(report, page.first, page.rows)))
        total = shapes.to_view(_make_cache_row(reports.build_row("", report.total)), CacheView)
        after = self._pages.follow(call, page, len(report.rows))
        rendered = RenderedReport(
            f"cache-share-by-{by}", days, str(self._zone()), CacheRow, lines, after
        )
        return rendered.respond(call, CacheReport, CacheView, by=by, total=total)

    async def report_latency(self, call: Request) -> Response:
        """Return response times and times to the first token."""
        by = call.get_choice("by", _TIMED_BY, "model")
        days = parse_days(call, self._get_today(), DEFAULT_DAYS)
        only = self._parse_filter(call)

        async def count() -> TimePage:
            limit = call.get_int("limit", 1, MAX_LIMIT) or DEFAULT_LIMIT
            return await self._ledger.get_times(by, *days, only, slice(0, limit))

        page = await self._pages.open(call, count)
        whole = page.counted
        if not page.first and whole.of > page.rows:  # of all rows, which take far longer to count
            whole = await self._ledger.get_times(by, *days, only)
        shown = TimePage(whole.rows[page.slice], whole.total, whole.of)
        lines = await asyncio.to_thread(reports.build_latency_rows, shown)
        total = shapes.to_view(reports.build_latency_row("", whole.total), TimeView)
        after = self._pages.follow(call, page, whole.of, whole)
        rendered = RenderedReport(
            f"latency-by-{by}", days, str(self._zone()), LatencyRow, lines, after
        )
        return rendered.respond(call, TimeReport, TimeView, by=by, total=total)

    async def report_errors(self, call: Request) -> Response:
        """Return errors by kind, most frequent first."""
        page = await self._open_totals(call, "total")
        report, days = page.counted
        found = reports.list_errors(report.total)
        after = self._pages.follow(call, page, len(found))
        rendered = RenderedReport(
            "errors", days, str(self._zone()), ErrorRow, found[page.slice], after
        )
        total = sum(one.requests for one in found)
        return rendered.respond(call, ErrorReport, ErrorView, total=total)

    async def list_leaks(self, call: Request) -> Response:
        """Return the same as ``report_leaks``, at its own path."""
        return await self.report_leaks(call)

    async def report_leaks(self, call: Request) -> Response:
        """Return the secrets found, by day, key and rule."""
        days = parse_days(call, self._get_today(), DEFAULT_DAYS)
        given, rule = self._parse_filter(call), call.get_query("rule")
        key, only = given.key, ReportFilter(owner=given.owner, tag=given.tag)
        page = await self._pages.open(call, lambda: self._ledger.get_leaks(*days, only))
        found = page.counted
        if key or rule is not None:
            found = [one for one in found if key in ("", one.key) and rule in (None, one.rule)]
        after = self._pages.follow(call, page, len(found))
        rendered = RenderedReport(
            "leaks", days, str(self._zone()), LeakRow, found[page.slice], after
        )
        return rendered.respond(call, LeakReport, LeakView, total=sum(one.count for one in found))

    async def _report_spend(self, call: Request, by: GroupBy) -> Response:
        page = await self._open_totals(call, by)
        report, days = page.counted
        lines = reports.build_rows(report, page.first, page.rows)
        total = shapes.to_view(reports.build_row("", report.total), LineView)
        after = self._pages.follow(call, page, len(report.rows))
        name = "totals" if by == "total" else f"by-{by}"
        rendered = RenderedReport(name, days, str(self._zone()), ReportRow, lines, after)
        return rendered.respond(call, SpendReport, LineView, by=by, total=total)

    async def _open_totals(
        self, call: Request, by: GroupBy
    ) -> ReportPage[tuple[ReportTable[RequestTotals], DayRange]]:
        days = parse_days(call, self._get_today(), DEFAULT_DAYS)
        only = self._parse_filter(call)

        async def count() -> tuple[ReportTable[RequestTotals], DayRange]:
            return await self._ledger.get_totals(by, *days, only), days

        return await self._pages.open(call, count)

    def _parse_filter(self, call: Request) -> ReportFilter:
        key = call.get_query("key") or ""
        return ReportFilter(
            model=call.get_query("model") or "",
            channel=call.get_query("channel") or "",
            key=self._key_id(key) if key else "",
            owner=call.get_query("owner") or "",
            tag=call.get_query("tag") or "",
        )

    def _get_today(self) -> str:
        return get_today(self._zone(), self._clock.now())


class ReportView(Struct, frozen=True):
    """A report; its path is ``/api/agent/reports/`` followed by its name."""

    name: str
    """The last segment of its path."""
    description: str
    """The content of the report."""


class ReportsView(Struct, frozen=True):
    """The available reports."""

    items: list[ReportView]
    """All reports."""


class ReportList:
    """The endpoint ``/api/agent/reports``, from names and descriptions."""

    def __init__(self, reports_: Iterable[tuple[str, str]]) -> None:
        self._view = ReportsView([ReportView(*one) for one in reports_])

    def list_reports(self, _: Request) -> Response:
        """Return all reports."""
        return Response(self._view)


def respond_as_csv(
    call: Request, name: str, kind: type[Struct], lines: Sequence[Struct], after: str
) -> Response:
    """Respond with rows as a CSV file; the ``Link`` header points to the next page."""
    headers = build_csv_headers(name)
    if after:
        others = [pair for pair in parse_qsl(call.query_string) if pair[0] != "cursor"]
        query = urlencode([*others, ("cursor", after)])
        headers["Link"] = f'<{call.path}?{query}>; rel="next"'
    return Response(csv.render_structs_as_csv(kind, lines), headers=headers)


def build_csv_headers(name: str) -> dict[str, str]:
    """Return the headers of a CSV file."""
    return {
        "Content-Type": "text/csv; charset=utf-8; header=present",
        "Content-Disposition": f'attachment; filename="{name}.csv"',
    }


def wants_csv(call: Request) -> bool:
    """Return whether CSV is requested. ``BadRequest`` for an unknown format."""
    accepts = "text/csv" in call.headers.get("Accept", "")
    return call.get_choice("format", ("json", "csv"), "csv" if accepts else "json") == "csv"


def _make_cache_row(line: ReportRow) -> CacheRow:
    return CacheRow(
        line.name,
        line.title,
        line.requests,
        line.input,
        line.cache_read,
        line.cache_write,
        line.cache_share,
    )


def _compute_share(cost: Decimal, total: Decimal) -> float | None:
    return float(cost / total) if total else None


_ROOT = "/api/agent/reports"
_PAGING = (LIMIT, CURSOR, FORMAT)


_ReportRow: TypeAlias = tuple[str, Endpoint, str, type, tuple[Parameter, ...]]
"""A report's name, endpoint, summary, page and parameters."""


def routes(endpoints: ReportEndpoints) -> tuple[Route, ...]:
    """Return the routes of the reports that the ledger makes."""
    rows = (*_list_totals(endpoints), *_list_analyses(endpoints))
    return tuple(build_report_route(*one) for one in rows)


def _list_totals(endpoints: ReportEndpoints) -> tuple[_ReportRow, ...]:
    page, parameters = SpendReport, (FROM_DAY, TO_DAY, *FILTERS, *_PAGING)
    return (
        (
            "totals",
            endpoints.report_totals,
            "Totals of all chosen days.",
            page,
            parameters,
        ),
        ("by-day", endpoints.report_by_day, "Totals by day.", page, parameters),
        ("by-hour", endpoints.report_by_hour, "Totals by hour.", page, parameters),
        (
            "by-model",
            endpoints.report_by_model,
            "Totals by model, highest cost first.",
            page,
            parameters,
        ),
        (
            "by-channel",
            endpoints.report_by_channel,
            "Totals by channel, highest cost first.",
            page,
            parameters,
        ),
        (
            "by-key",
            endpoints.report_by_key,
            "Totals by access key, highest cost first.",
            page,
            parameters,
        ),
        (
            "by-owner",
            endpoints.report_by_owner,
            "Totals by the owner that keys had at the time, highest cost first; empty: none.",
            page,
            parameters,
        ),
        (
            "by-tag",
            endpoints.report_by_tag,
            "Totals by tag; a request counts in each tag that its key had, in the total once.",
            page,
            parameters,
        ),
    )


def _list_analyses(endpoints: ReportEndpoints) -> tuple[_ReportRow, ...]:
    days = (FROM_DAY, TO_DAY)
    narrowed = (*days, *FILTERS, *_PAGING)
    return (
        (
            "top-spenders",
            endpoints.report_top_spenders,
            "Access keys and each one's share of the total cost.",
            SpenderReport,
            narrowed,
        ),
        (
            "errors",
            endpoints.report_errors,
            "Errors by kind, most frequent first.",
            ErrorReport,
            narrowed,
        ),
        (
            "latency",
            endpoints.report_latency,
            "Response times and times to the first token: p50, p95 and p99 in milliseconds.",
            TimeReport,
            (TIMED_BY, *narrowed),
        ),
        (
            "cache-share",
            endpoints.report_cache_share,
            "Share of input tokens read from suppliers' caches.",
            CacheReport,
            (BY, *narrowed),
        ),
        (
            "leaks",
            endpoints.report_leaks,
            "Secrets found in requests, by day, access key and rule; never the secrets themselves.",
            LeakReport,
            (*days, KEY, *GROUP_FILTERS, RULE, *_PAGING),
        ),
    )


def build_report_route(
    name: str, endpoint: Endpoint, summary: str, page: type, parameters: tuple[Parameter, ...]
) -> Route:
    """Build the route of a report, as JSON or CSV."""
    return build_route(
        "GET",
        f"{_ROOT}/{name}",
        endpoint=endpoint,
        summary=summary,
        response_type=page,
        extra_media_types=("text/csv",),
        errors=(BadRequest, Unavailable),
        parameters=parameters,
    )


def build_leaks_route(endpoints: ReportEndpoints) -> Route:
    """Return the second route of the leak report, at its own path."""
    report = routes(endpoints)[-1]
    return structs.replace(report, path="/api/agent/leaks", endpoint=endpoints.list_leaks)


def list_route(reports_: tuple[Route, ...]) -> Route:
    """Build the route that lists these reports."""
    names = [(one.path.rpartition("/")[2], one.summary) for one in reports_]
    return build_route(
        "GET",
        _ROOT,
        endpoint=ReportList(names).list_reports,
        summary="List the available reports.",
        response_type=ReportsView,
    )
