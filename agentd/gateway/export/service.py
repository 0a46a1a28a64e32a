"""Sends the ledger to the analytics database, day by day, in the background.

Nobody waits for it: it reads the day files that are written anyway, and when the database fails
it comes back later, to the very chunk at which it stopped.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from agentd.core.clock import Clock, Timestamp
from agentd.core.errors import AgentdError, BadRequest, Conflict
from agentd.gateway.export.day_exporter import DayExporter
from agentd.gateway.export.days import DayProgress, DaySpan, DayState, iter_due, list_missed
from agentd.gateway.export.ports import DatabaseConnector, ExportCheckStep, ExportStore, LedgerFiles
from agentd.gateway.export.retry import compute_delay
from agentd.gateway.settings.model import ExportSettings

log = logging.getLogger(__name__)

POLL_SECONDS = 30.0
"""The interval at which the ledger's days and the settings are checked."""
DATABASE_SECONDS = 5.0
"""The seconds that a backfill's dry run waits for the database."""
ALL_DAYS = DaySpan("0001-01-01", "9999-12-31")

Phase: TypeAlias = Literal["off", "idle", "sending", "waiting"]


class DayToSend(Struct, frozen=True):
    """A day that is to be sent, and what is left of it."""

    day: str
    state: DayState
    rows: int
    bytes: int
    """The size of the rows as JSON, before they are packed."""
    exact: bool
    """True if rows and bytes are exact, false if they are estimated."""


class ExportStatus(Struct, frozen=True):
    """The status of the export."""

    phase: Phase
    lag_days: int
    """Closed days that are to be sent."""
    lag_since: str
    """The first of them; empty: none."""
    checked_at: Timestamp
    """The time of the last complete check of all days; empty: none since the start."""
    last_sent_at: Timestamp
    last_error: str
    failed_at: Timestamp
    retry_seconds: float
    """The seconds until the next try while it waits; else 0."""
    days: dict[str, DayProgress]
    """All that are there, or were sent."""


class Exporter:
    """Sends what is to be sent, for as long as ``run`` runs. Belongs to one loop.

    ``note`` is called once for each failure, and for its end, for the service log.
    """

    def __init__(
        self,
        settings: Callable[[], ExportSettings],
        connect: DatabaseConnector,
        files: LedgerFiles,
        store: ExportStore,
        clock: Clock,
        note: Callable[[Literal["warning", "info"], str], None] = lambda level, text: None,
    ) -> None:
        self._note = note
        self._settings = settings
        self._connect = connect
        self._files = files
        self._store = store
        self._clock = clock
        self._work = DayExporter(files, store, clock)
        self._hour = ""
        self._checked_at: Timestamp = ""
        self._phase: Phase = "idle"
        self._failures = 0
        self._error: tuple[str, Timestamp] = ("", "")
        self._retry_at = 0.0
        self._woken = asyncio.Event()

    async def open(self) -> None:
        """Take up what was known. Raises ``Unavailable`` or ``ConfigError``."""
        await self._work.open()

    async def run(self) -> None:
        """Send, for ever: until it is cancelled."""
        while True:
            settings = self._settings()
            try:
                await self._run_round(settings)
                self._failures, self._phase, seconds = 0, "idle", POLL_SECONDS
            except AgentdError as error:
                seconds = self._note_failure(error)
            await self._wait_for_retry(seconds, settings)

    @property
    def problem(self) -> str:
        """Why the last try failed; empty if it did not, or nothing is to be exported."""
        return self._error[0] if self._settings().is_active else ""

    def wake(self) -> None:
        """Look at once: something is other than it was."""
        self._woken.set()

    async def get_status(self) -> ExportStatus:
        """Return the current status. Raises ``Unavailable``."""
        there = await asyncio.to_thread(self._files.get_stamps)
        active = self._settings().is_active
        days = self._work.days
        late = (
            list(iter_due(days, there, self._get_automatic_span(self._settings())))
            if active
            else []
        )
        waits = self._phase == "waiting"
        return ExportStatus(
            phase=self._phase if active else "off",
            lag_days=len(late),
            lag_since=late[0] if late else "",
            checked_at=self._checked_at,
            last_sent_at=self._work.sent_at,
            last_error=self._error[0],
            failed_at=self._error[1],
            retry_seconds=max(self._retry_at - self._clock.monotonic(), 0.0) if waits else 0.0,
            days={**dict.fromkeys(there, DayProgress()), **days},
        )

    async def backfill(self, first: str, last: str, *, dry_run: bool = False) -> list[DayToSend]:
        """Request the missed or changed days of a span to be sent, and return them.

        They are sent in the background, from now on. A day also counts as changed where the
        table has another number of its rows than were sent, if it can be asked. Raises
        ``BadRequest`` for what are no days, ``Conflict`` where the export is switched off, and
        ``Unavailable``.
        """
        span = _parse_span(first, last)
        settings = self._settings()
        if not dry_run and not settings.is_active:
            raise Conflict(
                "The export is switched off",
                "Set export.url, and export.enabled, in the settings of the gateway.",
            )
        there = await asyncio.to_thread(self._files.get_stamps)
        days = await self._work.compare_days()
        with suppress(AgentdError, TimeoutError):  # it is asked again before anything is sent
            async with asyncio.timeout(DATABASE_SECONDS):
                days |= await self._find_lost(settings, days, span)
        names = list_missed(days, there, span.first, self._work.get_last_closed(span.last))
        found = [await self._estimate_day(name, days.get(name, DayProgress())) for name in names]
        if not dry_run:
            await asyncio.to_thread(self._store.add_backfill, span)
            self.wake()
        return found

    async def check(self) -> list[ExportCheckStep]:
        """Check that the database is reachable, accepts us and has the table; send nothing."""
        return await self._connect.check(self._settings())

    async def _run_round(self, settings: ExportSettings) -> None:
        """Send all that is to be sent now. Raises what keeps it from that."""
        if not settings.is_active:
            return
        await self._work.refresh()
        if self._work.target != _describe_target(settings):
            await self._retarget(settings)
        if spans := await asyncio.to_thread(self._store.list_backfills):
            await self._request_days(settings, spans)
        hour, present = self._find_current_day(settings)
        names = [
            *iter_due(self._work.days, self._work.stamps, self._get_automatic_span(settings)),
            *present,
        ]
        if names:
            self._phase = "sending"
            async with self._connect.open(settings) as database:
                for name in names:
                    await self._work.send(database, name)
        self._hour = hour
        self._checked_at = self._clock.now()
        if self._error[0]:
            self._note("info", "The export to the analytics database works again")
        self._error = ("", "")

    async def _retarget(self, settings: ExportSettings) -> None:
        """Switch to another table: all requests missing from it will be sent."""
        days = self._work.days
        for name, day in days.items():
            if day.state == "partial":
                days[name] = structs.replace(day, changed=True)
        days |= await self._find_lost(settings, days, ALL_DAYS)
        self._work.target = _describe_target(settings)
        await self._work.save()

    async def _request_days(self, settings: ExportSettings, spans: list[DaySpan]) -> None:
        """Mark the days of requested backfills to be sent."""
        days = self._work.days
        for span in spans:
            days |= await self._find_lost(settings, days, span)
            for name in list_missed(
                days, self._work.stamps, span.first, self._work.get_last_closed(span.last)
            ):
                days[name] = structs.replace(days.get(name, DayProgress()), wanted=True)
        await self._work.save()
        await asyncio.to_thread(self._store.remove_backfills, spans)

    async def _find_lost(
        self, settings: ExportSettings, days: dict[str, DayProgress], span: DaySpan
    ) -> dict[str, DayProgress]:
        """Return done days that the table lacks; days without a file cannot be sent again."""
        there = await asyncio.to_thread(self._files.get_stamps)
        known = {name: day for name, day in days.items() if name in there and day.done_at}
        if not known or not settings.is_active:
            return {}
        async with self._connect.open(settings) as database:
            return await self._work.find_lost(database, known, span)

    def _get_automatic_span(self, settings: ExportSettings) -> DaySpan:
        """Return the days that are sent automatically, without the current one."""
        return DaySpan(settings.since or ALL_DAYS.first, self._work.get_last_closed(ALL_DAYS.last))

    def _find_current_day(self, settings: ExportSettings) -> tuple[str, list[str]]:
        """Return the hour, and the current day if it is to be sent in that hour."""
        now = self._clock.now()
        hour, day = now[:13], now[:10]
        wanted = settings.today and hour != self._hour and day >= (settings.since or "")
        return hour, [day] if wanted and day in self._work.stamps else []

    async def _estimate_day(self, name: str, day: DayProgress) -> DayToSend:
        begin = 0 if day.changed else (day.doubtful.begin if day.doubtful else day.end)
        found = await asyncio.to_thread(
            self._files.estimate, name, self._work.create_encoder(name, day), begin
        )
        return DayToSend(name, day.state, found.rows, found.size, found.exact)

    def _note_failure(self, error: AgentdError) -> float:
        """Record a failure; return the seconds until the next attempt."""
        self._failures += 1
        self._phase = "waiting"
        if error.message != self._error[0]:
            self._note("warning", f"The export to the analytics database failed: {error.message}")
        self._error = (error.message, self._clock.now())
        log.warning("export to the analytics database failed, will be retried: %s", error.message)
        return compute_delay(error, self._failures)

    async def _wait_for_retry(self, seconds: float, settings: ExportSettings) -> None:
        """Wait so long, or until woken, or until the settings change."""
        self._retry_at = self._clock.monotonic() + seconds
        while (left := self._retry_at - self._clock.monotonic()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, POLL_SECONDS)):
                    await self._woken.wait()
            if self._woken.is_set() or self._settings() != settings:
                break
        self._woken.clear()


def _describe_target(settings: ExportSettings) -> str:
    return f"{settings.url} {settings.database}.{settings.table}"


def _parse_span(first: str, last: str) -> DaySpan:
    try:
        span = DaySpan(date.fromisoformat(first).isoformat(), date.fromisoformat(last).isoformat())
    except ValueError as error:
        raise BadRequest("from and to must be days such as 2026-01-31") from error
    if span.first > span.last:
        raise BadRequest("'from' is a day after 'to'")
    return span
