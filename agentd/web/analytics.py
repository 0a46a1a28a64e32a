"""The analytics of the extended surface: what was said, used, spent and done, read-only.

Source: the remote-control specification, section 4, 'Extended surface'; what is below the
prefix is ours: one address, and ``by`` says what the rows are.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, timedelta
from decimal import Decimal
from typing import Protocol, TypeVar, get_args

from msgspec import Struct

from agentd.access.gate import Surface
from agentd.chats.chat import Tokens
from agentd.chats.quantile import quantile
from agentd.chats.report import By, Report
from agentd.chats.tally import Ending, Totals
from agentd.clock import Clock
from agentd.errors import BadRequest
from agentd.web.call import Answer, Call
from agentd.web.table import Parameter, Route
from agentd.web.views import Id
from agentd.wire.spreadsheet import Cell, comma_separated

USUAL_DAYS = 30
"""How many days are told when nobody says from when."""

T = TypeVar("T", bound=str)

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_KINDS: tuple[By, ...] = get_args(By)
_ENDINGS: tuple[Ending, ...] = get_args(Ending)


class MessageCountsView(Struct, frozen=True):
    """Messages by role."""

    user: int
    assistant: int
    tool: int
    error: int


class EndingsView(Struct, frozen=True):
    """Turns by how they ended; ``deferred``: at a supplier's limit, to be tried again."""

    completed: int
    failed: int
    stopped: int
    interrupted: int
    deferred: int


class TurnTimeView(Struct, frozen=True):
    """Seconds that half, and 95 of 100, of the turns did not exceed; within 1 %."""

    p50: float
    p95: float


class TotalsView(Struct, frozen=True, rename="camel"):
    """What was said, used, spent and done."""

    name: str
    """The day, model, engine, skill, label, chat's id, or who caused it."""
    title: str
    """Of a chat."""
    messages: MessageCountsView
    tokens: Tokens
    cost: Decimal
    turns: int
    endings: EndingsView
    turn_seconds: TurnTimeView | None
    """Of the turns that were completed, failed or stopped; null when there was none."""
    tools: dict[str, int]
    """Uses by the tool's name."""


class DamagedView(Struct, frozen=True, rename="camel"):
    """A chat that counts only up to some line of its journal, or not at all."""

    chat_id: Id
    damage: str


class AnalyticsView(Struct, frozen=True, rename={"first": "from", "last": "to"}):
    """The days ``from`` to ``to``, both included, and what they hold."""

    by: By
    first: str
    last: str
    total: TotalsView
    rows: list[TotalsView]
    damaged: list[DamagedView]


class Reporting(Protocol):
    """Who adds up (``disk.analytics.Analytics``)."""

    async def report(self, by: By, first: str, last: str) -> Report:
        """The days from ``first`` to ``last``, both included."""
        ...


class AnalyticsDesk:
    """The endpoint of ``/api/analytics``."""

    def __init__(self, reporting: Reporting, clock: Clock) -> None:
        self._reporting = reporting
        self._clock = clock

    async def analytics(self, call: Call) -> Answer:
        """The totals of some days, by whatever is asked for."""
        by = _one_of("by", call.query("by"), _KINDS, "day")
        form = _one_of("format", call.query("format"), ("json", "csv"), "json")
        last = _day("to", call.query("to"), date.fromisoformat(self._clock.now()[:10]))
        usual = last - min(timedelta(USUAL_DAYS - 1), last - date.min)
        first = _day("from", call.query("from"), usual)
        if first > last:
            raise BadRequest("'from' is a day after 'to'", f"from={first}, to={last}")
        report = await self._reporting.report(by, first.isoformat(), last.isoformat())
        if form == "json":
            return Answer(_view(report))
        name = f"analytics-by-{by}-{first}-{last}.csv"
        return Answer(
            comma_separated(_lines(report)),
            headers={
                "Content-Type": "text/csv; charset=utf-8; header=present",
                "Content-Disposition": f'attachment; filename="{name}"',
            },
        )


def rows(desk: AnalyticsDesk) -> tuple[Route, ...]:
    """The rows of the table."""
    day = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", "format": "date"}
    return (
        Route(
            "GET",
            "/api/analytics",
            Surface.EXTENDED,
            desk.analytics,
            "Messages, tokens, cost, turns, their time and outcome, and tools, added up.",
            operation="get_analytics",
            gives=AnalyticsView,
            also=("text/csv",),
            errors=(BadRequest,),
            parameters=(
                Parameter("by", "query", "What a row is; day when absent.", _enum(_KINDS)),
                Parameter("from", "query", "The first day (UTC); 29 days before 'to'.", {**day}),
                Parameter("to", "query", "The last day (UTC), included; today.", {**day}),
                Parameter("format", "query", "json or csv.", _enum(("json", "csv"))),
            ),
            section="4, extended surface",
        ),
    )


def _enum(values: tuple[str, ...]) -> dict[str, object]:
    return {"type": "string", "enum": list(values)}


def _one_of(name: str, value: str | None, known: tuple[T, ...], usual: T) -> T:
    if value is None:
        return usual
    for one in known:
        if one == value:
            return one
    raise BadRequest(f"'{name}' is {value[:40]!r}", f"Known are: {', '.join(known)}.")


def _day(name: str, text: str | None, usual: date) -> date:
    if text is None:
        return usual
    if _DAY.fullmatch(text):
        with suppress(ValueError):
            return date.fromisoformat(text)
    raise BadRequest(f"'{name}' is {text[:40]!r}", "Expected a day such as 2026-01-31.")


def _view(report: Report) -> AnalyticsView:
    return AnalyticsView(
        by=report.by,
        first=report.first,
        last=report.last,
        total=_totals("", report.total, report),
        rows=[_totals(name, totals, report) for name, totals in report.rows],
        damaged=[DamagedView(chat, why) for chat, why in sorted(report.damaged.items())],
    )


def _totals(name: str, totals: Totals, report: Report) -> TotalsView:
    return TotalsView(
        name=name,
        title=report.titles.get(name, ""),
        messages=MessageCountsView(totals.user, totals.assistant, totals.tool, totals.error),
        tokens=Tokens(totals.input, totals.output),
        cost=totals.cost,
        turns=totals.turns,
        endings=EndingsView(*(totals.endings.get(ending, 0) for ending in _ENDINGS)),
        turn_seconds=_turn_time(totals),
        tools=dict(sorted(totals.tools.items())),
    )


def _turn_time(totals: Totals) -> TurnTimeView | None:
    half, most = quantile(totals.took, 0.5), quantile(totals.took, 0.95)
    if half is None or most is None:
        return None
    return TurnTimeView(round(half / 1000, 3), round(most / 1000, 3))


def _lines(report: Report) -> Iterator[list[Cell]]:
    """A head, and a line for each row; tools as ``name:uses``."""
    yield [
        report.by,
        "title",
        *("messages_user", "messages_assistant", "messages_tool", "messages_error"),
        *("tokens_input", "tokens_output", "cost_usd", "turns"),
        *(f"turns_{ending}" for ending in _ENDINGS),
        *("turn_seconds_p50", "turn_seconds_p95", "tools"),
    ]
    for name, totals in report.rows:
        time = _turn_time(totals)
        yield [
            name,
            report.titles.get(name, ""),
            *(totals.user, totals.assistant, totals.tool, totals.error),
            *(totals.input, totals.output, totals.cost, totals.turns),
            *(totals.endings.get(ending, 0) for ending in _ENDINGS),
            *((time.p50, time.p95) if time else (None, None)),
            "; ".join(f"{tool}:{uses}" for tool, uses in sorted(totals.tools.items())),
        ]
