"""Endpoints of the ledger's export to the analytics database."""

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

from msgspec import Struct, field

from agentd.core.clock import Timestamp
from agentd.core.errors import BadRequest, Conflict, Unavailable
from agentd.gateway.admin.api.listing import CURSOR, DEFAULT_LIMIT, LIMIT, MAX_LIMIT
from agentd.gateway.admin.api.resource import DRY_RUN
from agentd.gateway.admin.api.route_builders import build_route
from agentd.gateway.export.days import DayProgress, DayState
from agentd.gateway.export.ports import ExportCheckStep
from agentd.gateway.export.service import DayToSend, ExportStatus, Phase
from agentd.gateway.settings.model import ExportSettings
from agentd.http.request import Request, Response
from agentd.http.routing import Parameter, Route

_STATES = ("pending", "partial", "done", "changed")

FILTERS = (
    LIMIT,
    CURSOR,
    Parameter(
        "state", "query", "Only days in this state.", {"type": "string", "enum": list(_STATES)}
    ),
)


class ExportDay(Struct, frozen=True, rename="camel"):
    """A day of the ledger (UTC)."""

    day: str
    """The day in UTC."""
    state: DayState
    """``pending``: nothing was sent; ``partial``: a part was; ``done``: all was, day over;
    ``changed``: the ledger or the table differs from what was sent, and all is sent again."""
    rows: int
    """Rows in the database."""
    requested: bool
    """True if a backfill requested it."""
    done_at: Timestamp | None
    """When its last row was accepted; null: not yet."""
    error: str
    """Why the last attempt failed; empty if it did not."""


class ExportState(Struct, frozen=True, rename="camel"):
    """The state of the export; ``items`` are days, newest first."""

    phase: Phase
    """``waiting``: an attempt failed and is repeated in ``retry_seconds``."""
    url: str | None
    """URL of the database; null: not set."""
    database: str
    """Name of the database."""
    table: str
    """Name of the table."""
    lag_days: int
    """Number of closed days that are still to be sent."""
    lag_since: str | None
    """The first of these days; null: none."""
    checked_at: Timestamp | None
    """When all days were last checked without a failure; null: never."""
    last_sent_at: Timestamp | None
    """When rows were last accepted; null: never."""
    last_error: str
    """Why the last attempt failed; empty if it did not."""
    failed_at: Timestamp | None
    """When it failed; null: it did not."""
    retry_seconds: float
    """Seconds until the next attempt."""
    items: list[ExportDay]
    """Days of the ledger, newest first."""
    next: str
    """The `cursor` of the next page; empty if this is the last page."""


class Backfill(
    Struct, frozen=True, forbid_unknown_fields=True, rename={"first": "from", "last": "to"}
):
    """The first and the last day, such as ``2026-01-31``."""

    first: str
    """The first day (UTC)."""
    last: str
    """The last day, included."""


class MissedDay(Struct, frozen=True, rename="camel"):
    """A day to be sent."""

    day: str
    """The day in UTC."""
    state: DayState
    """Its state before."""
    rows: int
    """Number of rows to send."""
    bytes: int
    """Size of these rows as JSON, in bytes."""
    exact: bool
    """True if these numbers are exact, false if they are estimates."""


class BackfillPlan(Struct, frozen=True, rename="camel"):
    """The plan of a backfill: exactly the missed or changed days are sent."""

    days: list[MissedDay]
    """The days to be sent."""
    rows: int
    """Rows of all days."""
    bytes: int
    """Size of these rows as JSON, in bytes."""
    started: bool
    """True if it is running in the background now; false for a dry run."""


class ExportStepView(Struct, frozen=True, rename="camel"):
    """A step of the check."""

    name: Literal["settings", "reach", "sign_in", "table"]
    """Name of the step."""
    passed: bool
    """True if it passed."""
    detail: str
    """The finding, or the reason why the step failed."""


class ExportCheck(Struct, frozen=True, rename="camel"):
    """The steps, up to the first one that failed."""

    ok: bool
    """True if all steps passed."""
    steps: list[ExportStepView] = field(default_factory=list)
    """The steps, in order."""


class ExportService(Protocol):
    """The export (``gateway.export.service.Exporter``)."""

    def get_status(self) -> Awaitable[ExportStatus]:
        """Return the current state."""
        ...

    def backfill(self, first: str, last: str, *, dry_run: bool) -> Awaitable[list[DayToSend]]:
        """Send missed days. ``BadRequest``, ``Conflict``, ``Unavailable``."""
        ...

    def check(self) -> Awaitable[list[ExportCheckStep]]:
        """Check whether the database is ready."""
        ...


class ExportEndpoints:
    """The endpoints below ``/api/agent/export``."""

    def __init__(self, exporter: ExportService, settings: Callable[[], ExportSettings]) -> None:
        self._exporter = exporter
        self._settings = settings

    async def get_export_state(self, call: Request) -> Response:
        """Return the state and one page of days."""
        limit = call.get_int("limit", 1, MAX_LIMIT) or DEFAULT_LIMIT
        state, cursor = call.get_query("state"), call.get_query("cursor") or "9999-99-99"
        if state not in (None, *_STATES):
            raise BadRequest(f"state must be one of {', '.join(_STATES)}")
        now, to = await self._exporter.get_status(), self._settings()
        known = sorted(
            (
                name
                for name, day in now.days.items()
                if name < cursor and state in (None, day.state)
            ),
            reverse=True,
        )
        return Response(
            ExportState(
                phase=now.phase,
                url=to.url,
                database=to.database,
                table=to.table,
                lag_days=now.lag_days,
                lag_since=now.lag_since or None,
                checked_at=now.checked_at or None,
                last_sent_at=now.last_sent_at or None,
                last_error=now.last_error,
                failed_at=now.failed_at or None,
                retry_seconds=round(now.retry_seconds, 3),
                items=[_make_day_view(name, now.days[name]) for name in known[:limit]],
                next=known[limit - 1] if len(known) > limit else "",
            )
        )

    async def start_backfill(self, call: Request) -> Response:
        """Start sending missed days, or only return what would be sent."""
        span, dry_run = call.parse_json(Backfill), call.get_flag("dry_run")
        found = await self._exporter.backfill(span.first, span.last, dry_run=dry_run)
        days = [MissedDay(one.day, one.state, one.rows, one.bytes, one.exact) for one in found]
        total = sum(one.rows for one in days), sum(one.bytes for one in days)
        return Response(BackfillPlan(days, *total, started=bool(days) and not dry_run))

    async def check_export(self, _: Request) -> Response:
        """Run the steps up to the first one that fails."""
        steps = [
            ExportStepView(one.name, one.passed, one.detail) for one in await self._exporter.check()
        ]
        return Response(ExportCheck(all(one.passed for one in steps), steps))


def _make_day_view(name: str, day: DayProgress) -> ExportDay:
    return ExportDay(name, day.state, day.rows, day.wanted, day.done_at or None, day.error)


_PATH = "/api/agent/export"


def routes(endpoints: ExportEndpoints) -> tuple[Route, ...]:
    """Return the routes of the export."""
    return (
        build_route(
            "GET",
            _PATH,
            endpoint=endpoints.get_export_state,
            summary="Get how far the ledger was exported to the analytics database, day by day.",
            response_type=ExportState,
            errors=(BadRequest, Unavailable),
            parameters=FILTERS,
            operation_id="get_export_state",
        ),
        build_route(
            "POST",
            f"{_PATH}/backfill",
            endpoint=endpoints.start_backfill,
            summary="Send exactly the missed or changed days, in the background.",
            request_type=Backfill,
            example={"from": "2026-01-01", "to": "2026-01-31"},
            response_type=BackfillPlan,
            errors=(BadRequest, Conflict, Unavailable),
            parameters=(DRY_RUN,),
        ),
        build_route(
            "POST",
            f"{_PATH}/check",
            endpoint=endpoints.check_export,
            summary="Check that the database is reachable, accepts the login and has the table.",
            response_type=ExportCheck,
        ),
    )
