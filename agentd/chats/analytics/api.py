"""The analytics of the extended surface: messages, tokens, costs and tools, read-only.

Source: the remote-control specification, section 4, 'Extended surface'; what is below the
prefix is ours: one address, and ``by`` says what the rows are.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import Protocol, get_args

from msgspec import Struct

from agentd.chats.analytics.daily_totals import Ending, UsageTotals
from agentd.chats.analytics.report import AnalyticsReport, DayTotals, GroupBy
from agentd.chats.model import Tokens
from agentd.chats.views import Id
from agentd.core.clock import Clock
from agentd.core.csv import Cell, render_csv
from agentd.core.errors import BadRequest
from agentd.core.quantile import estimate_quantile
from agentd.http.access import RouteGroup
from agentd.http.parameters import parse_days
from agentd.http.request import Request, Response
from agentd.http.routing import Parameter, Route

USUAL_DAYS = 30
"""The number of days covered by default."""


_KINDS: tuple[GroupBy, ...] = get_args(GroupBy)
_ENDINGS: tuple[Ending, ...] = get_args(Ending)


class MessageCountsView(Struct, frozen=True):
    """Messages by role."""

    user: int
    assistant: int
    tool: int
    error: int


class EndingsView(Struct, frozen=True):
    """Turns by outcome; ``deferred``: a limit or agentd's end ended it, to be tried again."""

    completed: int
    failed: int
    stopped: int
    interrupted: int
    deferred: int


class TurnTimeView(Struct, frozen=True):
    """Seconds that half, and 95 of 100, of the turns did not exceed; within 1 %."""

    p50: float
    p95: float


class DayTotalsView(Struct, frozen=True, rename="camel"):
    """The usage and cost of one day, as a chart shows it."""

    day: str
    tokens: Tokens
    cost: Decimal
    turns: int
    turn_seconds: TurnTimeView | None


class TotalsView(Struct, frozen=True, rename="camel"):
    """Totals of messages, usage, cost, turns and tools."""

    name: str
    """The day, model, engine, skill, label, chat's id, or who caused it."""
    title: str
    """The title of the chat, if the row is about a chat."""
    messages: MessageCountsView
    tokens: Tokens
    cost: Decimal
    turns: int
    endings: EndingsView
    turn_seconds: TurnTimeView | None
    """Durations of the turns that were completed, failed or stopped; null: there was none."""
    tools: dict[str, int]
    """Uses by the tool's name."""
    days: list[DayTotalsView] | None
    """The days on which there was anything, in their order; null without ``daily=true``."""


class CorruptChatView(Struct, frozen=True, rename="camel"):
    """A chat with a damaged journal: only the part before the damage counts, or none."""

    chat_id: Id
    problem: str


class AnalyticsView(Struct, frozen=True, rename={"first": "from", "last": "to"}):
    """Totals of the days ``from`` to ``to``, both included."""

    by: GroupBy
    first: str
    last: str
    total: TotalsView
    rows: list[TotalsView]
    corrupt: list[CorruptChatView]


class AnalyticsSource(Protocol):
    """The source of the totals (``chats.analytics.store.AnalyticsStore``)."""

    async def report(
        self, by: GroupBy, first: str, last: str, *, daily: bool = False
    ) -> AnalyticsReport:
        """Return the report for the days ``first`` to ``last``, inclusive.

        ``daily``: with the days of each row.
        """
        ...


class AnalyticsEndpoints:
    """The endpoint of ``/api/analytics``."""

    def __init__(self, reporting: AnalyticsSource, clock: Clock) -> None:
        self._reporting = reporting
        self._clock = clock

    async def get_analytics(self, request: Request) -> Response:
        """Return the totals of some days, grouped as requested."""
        by = request.get_choice("by", _KINDS, "day")
        form = request.get_choice("format", ("json", "csv"), "json")
        first, last = parse_days(request, self._clock.now()[:10], USUAL_DAYS)
        report = await self._reporting.report(by, first, last, daily=request.get_flag("daily"))
        if form == "json":
            return Response(_make_view(report))
        name = f"analytics-by-{by}-{first}-{last}.csv"
        return Response(
            render_csv(_iter_csv_rows(report)),
            headers={
                "Content-Type": "text/csv; charset=utf-8; header=present",
                "Content-Disposition": f'attachment; filename="{name}"',
            },
        )


def routes(endpoints: AnalyticsEndpoints) -> tuple[Route, ...]:
    """Return the routes of analytics."""
    day = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", "format": "date"}
    return (
        Route(
            "GET",
            "/api/analytics",
            RouteGroup.EXTENDED,
            endpoints.get_analytics,
            "Totals of messages, tokens, cost, turns with their duration and outcome, and tools.",
            operation_id="get_analytics",
            response_type=AnalyticsView,
            extra_media_types=("text/csv",),
            errors=(BadRequest,),
            parameters=(
                Parameter(
                    "by",
                    "query",
                    "What the rows are grouped by; day by default.",
                    _make_enum_schema(_KINDS),
                ),
                Parameter(
                    "from",
                    "query",
                    "The first day (UTC); by default 29 days before 'to'.",
                    {**day},
                ),
                Parameter(
                    "to", "query", "The last day (UTC), included; today by default.", {**day}
                ),
                Parameter(
                    "daily",
                    "query",
                    "true adds the days of the total and of each row, for charts.",
                    {"type": "boolean"},
                ),
                Parameter(
                    "format", "query", "json (default) or csv.", _make_enum_schema(("json", "csv"))
                ),
            ),
            section="4, extended surface",
        ),
    )


def _make_enum_schema(values: tuple[str, ...]) -> dict[str, object]:
    return {"type": "string", "enum": list(values)}


def _make_view(report: AnalyticsReport) -> AnalyticsView:
    daily = report.row_days
    return AnalyticsView(
        by=report.by,
        first=report.first,
        last=report.last,
        total=_make_totals_view("", report.total, report, None if daily is None else report.days),
        rows=[
            _make_totals_view(name, totals, report, None if daily is None else daily.get(name, []))
            for name, totals in report.rows
        ],
        corrupt=[CorruptChatView(chat, why) for chat, why in sorted(report.corrupt.items())],
    )


def _make_totals_view(
    name: str, totals: UsageTotals, report: AnalyticsReport, days: DayTotals | None
) -> TotalsView:
    return TotalsView(
        name=name,
        title=report.titles.get(name, ""),
        messages=MessageCountsView(totals.user, totals.assistant, totals.tool, totals.error),
        tokens=Tokens(totals.input, totals.output),
        cost=totals.cost,
        turns=totals.turns,
        endings=EndingsView(*(totals.endings.get(ending, 0) for ending in _ENDINGS)),
        turn_seconds=_make_turn_time_view(totals),
        tools=dict(sorted(totals.tools.items())),
        days=None if days is None else [_make_day_totals_view(day, found) for day, found in days],
    )


def _make_day_totals_view(day: str, totals: UsageTotals) -> DayTotalsView:
    return DayTotalsView(
        day,
        Tokens(totals.input, totals.output),
        totals.cost,
        totals.turns,
        _make_turn_time_view(totals),
    )


def _make_turn_time_view(totals: UsageTotals) -> TurnTimeView | None:
    half, most = estimate_quantile(totals.took, 0.5), estimate_quantile(totals.took, 0.95)
    if half is None or most is None:
        return None
    return TurnTimeView(round(half / 1000, 3), round(most / 1000, 3))


def _iter_csv_rows(report: AnalyticsReport) -> Iterator[list[Cell]]:
    """Yield the CSV header and rows; tools as ``name:uses``."""
    yield [
        report.by,
        "title",
        *("messages_user", "messages_assistant", "messages_tool", "messages_error"),
        *("tokens_input", "tokens_output", "cost_usd", "turns"),
        *(f"turns_{ending}" for ending in _ENDINGS),
        *("turn_seconds_p50", "turn_seconds_p95", "tools"),
    ]
    for name, totals in report.rows:
        time = _make_turn_time_view(totals)
        yield [
            name,
            report.titles.get(name, ""),
            *(totals.user, totals.assistant, totals.tool, totals.error),
            *(totals.input, totals.output, totals.cost, totals.turns),
            *(totals.endings.get(ending, 0) for ending in _ENDINGS),
            *((time.p50, time.p95) if time else (None, None)),
            "; ".join(f"{tool}:{uses}" for tool, uses in sorted(totals.tools.items())),
        ]
