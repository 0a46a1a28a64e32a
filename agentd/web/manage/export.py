"""The export of the ledger to the analytics database, as it is looked at and set going."""

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

from msgspec import Struct, field

from agentd.clock import Timestamp
from agentd.errors import BadRequest
from agentd.proxy.export.days import Day, State
from agentd.proxy.export.needs import Rung
from agentd.proxy.export.service import Missed, Phase, Standing
from agentd.proxy.settings import Export
from agentd.web.call import Answer, Call
from agentd.web.manage.listing import CURSOR, LIMIT, MOST, USUAL, flag
from agentd.web.table import Parameter

_STATES = ("pending", "partial", "done", "changed")

FILTERS = (
    LIMIT,
    CURSOR,
    Parameter("state", "query", "Only such days.", {"type": "string", "enum": list(_STATES)}),
)


class ExportDay(Struct, frozen=True, rename="camel"):
    """One day of the ledger (UTC)."""

    day: str
    """In UTC."""
    state: State
    """``pending``: nothing is sent; ``partial``: a part is; ``done``: all is, and the day is over;
    ``changed``: the ledger has other lines now, or the table other rows, and all is sent again."""
    rows: int
    """That the database has."""
    wanted: bool
    """Whether a backfill asked for it."""
    done_at: Timestamp | None
    """When its last row was taken; null: not yet."""
    error: str
    """Why it could not be sent last; empty when it could."""


class ExportState(Struct, frozen=True, rename="camel"):
    """How the export is going; ``items`` are days, the newest first."""

    phase: Phase
    """``waiting``: something failed, and is tried again in ``retry_seconds``."""
    url: str | None
    """The database's address; null: none is set."""
    database: str
    """Its name there."""
    table: str
    """Where the rows go."""
    lag_days: int
    """Days that are over and still to be sent ..."""
    lag_since: str | None
    """... and the first of them."""
    looked_at: Timestamp | None
    """When all days were last looked at, and nothing failed."""
    last_sent_at: Timestamp | None
    """When rows were last taken; null: never."""
    last_error: str
    """Why the last attempt failed; empty: it did not."""
    failed_at: Timestamp | None
    """When that was; null: it did not."""
    retry_seconds: float
    """Until it is tried again."""
    items: list[ExportDay]
    """Days of the ledger, the newest first."""
    next: str
    """The `cursor` of the next page; empty: this is the last one."""


class Backfill(
    Struct, frozen=True, forbid_unknown_fields=True, rename={"first": "from", "last": "to"}
):
    """The first and the last day, such as ``2026-01-31``."""

    first: str
    """The first day (UTC)."""
    last: str
    """The last day, included."""


class MissedDay(Struct, frozen=True, rename="camel"):
    """A day that is to be sent: its rows, and their bytes as JSON."""

    day: str
    """In UTC."""
    state: State
    """How far it was sent before."""
    rows: int
    """How many are to be sent."""
    bytes: int
    """Of these rows as JSON."""
    exact: bool
    """Whether these are counted, or reckoned from the day's first requests."""


class BackfillPlan(Struct, frozen=True, rename="camel"):
    """What a backfill sends: exactly the days that are missed or changed."""

    days: list[MissedDay]
    """Each day that is to be sent."""
    rows: int
    """Of all of them."""
    bytes: int
    """Of all of them, as JSON."""
    started: bool
    """Whether it goes on in the background now; false for a dry run."""


class ExportRung(Struct, frozen=True, rename="camel"):
    """One step of the check."""

    name: Literal["settings", "reach", "sign_in", "table"]
    """Which step it is."""
    passed: bool
    """Whether it went well."""
    told: str
    """What came of it."""


class ExportCheck(Struct, frozen=True, rename="camel"):
    """Each step, up to the first that failed."""

    ok: bool
    """Whether all steps passed."""
    rungs: list[ExportRung] = field(default_factory=list)
    """The steps, in order."""


class Exporting(Protocol):
    """Who does it (``proxy.export.service.Exporter``)."""

    def standing(self) -> Awaitable[Standing]:
        """How it is going."""
        ...

    def backfill(self, first: str, last: str, *, dry_run: bool) -> Awaitable[list[Missed]]:
        """Have missed days sent. ``BadRequest``, ``Conflict``, ``Unavailable``."""
        ...

    def check(self) -> Awaitable[list[Rung]]:
        """Whether the database is ready."""
        ...


class ExportDesk:
    """The endpoints below ``/api/agent/export``."""

    def __init__(self, exporter: Exporting, settings: Callable[[], Export]) -> None:
        self._exporter = exporter
        self._settings = settings

    async def export_state(self, call: Call) -> Answer:
        """The whole, and days page by page."""
        limit = call.number("limit", 1, MOST) or USUAL
        state, cursor = call.query("state"), call.query("cursor") or "9999-99-99"
        if state not in (None, *_STATES):
            raise BadRequest(f"state must be one of {', '.join(_STATES)}")
        now, to = await self._exporter.standing(), self._settings()
        known = sorted(
            (
                name
                for name, day in now.days.items()
                if name < cursor and state in (None, day.state)
            ),
            reverse=True,
        )
        return Answer(
            ExportState(
                phase=now.phase,
                url=to.url,
                database=to.database,
                table=to.table,
                lag_days=now.lag_days,
                lag_since=now.lag_since or None,
                looked_at=now.looked_at or None,
                last_sent_at=now.last_sent_at or None,
                last_error=now.last_error,
                failed_at=now.failed_at or None,
                retry_seconds=round(now.retry_seconds, 3),
                items=[_day(name, now.days[name]) for name in known[:limit]],
                next=known[limit - 1] if len(known) > limit else "",
            )
        )

    async def start_backfill(self, call: Call) -> Answer:
        """Have what is missed sent; or only tell what that would be."""
        wish, dry_run = call.json(Backfill), flag(call, "dry_run") or False
        found = await self._exporter.backfill(wish.first, wish.last, dry_run=dry_run)
        days = [MissedDay(one.day, one.state, one.rows, one.bytes, one.exact) for one in found]
        total = sum(one.rows for one in days), sum(one.bytes for one in days)
        return Answer(BackfillPlan(days, *total, started=bool(days) and not dry_run))

    async def check_export(self, _: Call) -> Answer:
        """Climb as far as it goes."""
        rungs = [ExportRung(one.name, one.passed, one.told) for one in await self._exporter.check()]
        return Answer(ExportCheck(all(one.passed for one in rungs), rungs))


def _day(name: str, day: Day) -> ExportDay:
    return ExportDay(name, day.state, day.rows, day.wanted, day.done_at or None, day.error)
