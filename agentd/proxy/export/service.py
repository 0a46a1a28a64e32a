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

from agentd.clock import Clock, Timestamp
from agentd.errors import AgentdError, BadRequest, Conflict
from agentd.proxy.export.days import Day, Span, State, missed, to_do
from agentd.proxy.export.needs import Book, Connect, Files, Rung
from agentd.proxy.export.waiting import wait
from agentd.proxy.export.work import Work
from agentd.proxy.settings import Export

log = logging.getLogger(__name__)

LOOK_SECONDS = 30.0
"""How often the ledger's days and the settings are looked at."""
ASK_SECONDS = 5.0
"""How long the database is waited for by who asks what a backfill would send."""
EVER = Span("0001-01-01", "9999-12-31")

Phase: TypeAlias = Literal["off", "idle", "sending", "waiting"]


class Missed(Struct, frozen=True):
    """A day that is to be sent, and what is left of it."""

    day: str
    state: State
    rows: int
    bytes: int
    """Of the rows as JSON, before they are packed."""
    exact: bool
    """Whether rows and bytes are counted, or reckoned from the day's first requests."""


class Standing(Struct, frozen=True):
    """How the export is going."""

    phase: Phase
    lag_days: int
    """Closed days that are to be sent."""
    lag_since: str
    """The first of them; empty: there is none."""
    looked_at: Timestamp
    """When all days were last looked at, and nothing failed; empty: not since the start."""
    last_sent_at: Timestamp
    last_error: str
    failed_at: Timestamp
    retry_seconds: float
    """Until it is tried again, while it waits; else 0."""
    days: dict[str, Day]
    """All that are there, or were sent."""


class Exporter:
    """Sends what is to be sent, for as long as ``run`` runs. Belongs to one loop.

    ``note`` is told once of each failure, and of its end, for the service log.
    """

    def __init__(
        self,
        settings: Callable[[], Export],
        connect: Connect,
        files: Files,
        book: Book,
        clock: Clock,
        note: Callable[[Literal["warning", "info"], str], None] = lambda level, text: None,
    ) -> None:
        self._note = note
        self._settings = settings
        self._connect = connect
        self._files = files
        self._book = book
        self._clock = clock
        self._work = Work(files, book, clock)
        self._hour = ""
        self._looked_at: Timestamp = ""
        self._phase: Phase = "idle"
        self._failures = 0
        self._error: tuple[str, Timestamp] = ("", "")
        self._retry_at = 0.0
        self._woken = asyncio.Event()

    async def open(self) -> None:
        """Take up what was known. Raises ``Unavailable`` or ``Misconfigured``."""
        await self._work.open()

    async def run(self) -> None:
        """Send, for ever: until it is cancelled."""
        while True:
            settings = self._settings()
            try:
                await self._round(settings)
                self._failures, self._phase, seconds = 0, "idle", LOOK_SECONDS
            except AgentdError as error:
                seconds = self._failed(error)
            await self._rest(seconds, settings)

    @property
    def trouble(self) -> str:
        """Why the last try failed; empty: it did not, or nothing is to be exported."""
        return self._error[0] if self._settings().active else ""

    def wake(self) -> None:
        """Look at once: something is other than it was."""
        self._woken.set()

    async def standing(self) -> Standing:
        """How it is going now. Raises ``Unavailable``."""
        there = await asyncio.to_thread(self._files.there)
        active = self._settings().active
        days = self._work.days
        late = list(to_do(days, there, self._span(self._settings()))) if active else []
        waits = self._phase == "waiting"
        return Standing(
            phase=self._phase if active else "off",
            lag_days=len(late),
            lag_since=late[0] if late else "",
            looked_at=self._looked_at,
            last_sent_at=self._work.sent_at,
            last_error=self._error[0],
            failed_at=self._error[1],
            retry_seconds=max(self._retry_at - self._clock.monotonic(), 0.0) if waits else 0.0,
            days={**dict.fromkeys(there, Day()), **days},
        )

    async def backfill(self, first: str, last: str, *, dry_run: bool = False) -> list[Missed]:
        """Have the days between two sent that are missed or changed, and tell which these are.

        They are sent in the background, from now on. A day also counts as changed where the
        table has another number of its rows than were sent, if it can be asked. Raises
        ``BadRequest`` for what are no days, ``Conflict`` where the export is switched off, and
        ``Unavailable``.
        """
        span = _span(first, last)
        settings = self._settings()
        if not dry_run and not settings.active:
            raise Conflict(
                "The export is switched off",
                "Set export.url, and export.enabled, in the settings of the gateway.",
            )
        there = await asyncio.to_thread(self._files.there)
        days = await self._work.looked()
        with suppress(AgentdError, TimeoutError):  # it is asked again before anything is sent
            async with asyncio.timeout(ASK_SECONDS):
                days |= await self._lost(settings, days, span)
        names = missed(days, there, span.first, self._work.closed(span.last))
        found = [await self._left(name, days.get(name, Day())) for name in names]
        if not dry_run:
            await asyncio.to_thread(self._book.ask, span)
            self.wake()
        return found

    async def check(self) -> list[Rung]:
        """Whether the database can be reached, lets us in, and has the table; nothing is sent."""
        return await self._connect.check(self._settings())

    async def _round(self, settings: Export) -> None:
        """Send all that is to be sent now. Raises what keeps it from that."""
        if not settings.active:
            return
        await self._work.look()
        if self._work.target != _target(settings):
            await self._retarget(settings)
        if spans := await asyncio.to_thread(self._book.asked):
            await self._want(settings, spans)
        hour, present = self._present(settings)
        names = [*to_do(self._work.days, self._work.there, self._span(settings)), *present]
        if names:
            self._phase = "sending"
            async with self._connect.open(settings) as database:
                for name in names:
                    await self._work.send(database, name)
        self._hour = hour
        self._looked_at = self._clock.now()
        if self._error[0]:
            self._note("info", "The export to the analytics database goes on")
        self._error = ("", "")

    async def _retarget(self, settings: Export) -> None:
        """It is another table than before: what is not in it is to be sent."""
        days = self._work.days
        for name, day in days.items():
            if day.state == "partial":
                days[name] = structs.replace(day, changed=True)
        days |= await self._lost(settings, days, EVER)
        self._work.target = _target(settings)
        await self._work.keep()

    async def _want(self, settings: Export, spans: list[Span]) -> None:
        """Take up what was asked for."""
        days = self._work.days
        for span in spans:
            days |= await self._lost(settings, days, span)
            for name in missed(days, self._work.there, span.first, self._work.closed(span.last)):
                days[name] = structs.replace(days.get(name, Day()), wanted=True)
        await self._work.keep()
        await asyncio.to_thread(self._book.answered, spans)

    async def _lost(self, settings: Export, days: dict[str, Day], span: Span) -> dict[str, Day]:
        """Days that are done, and that the table has not; those without a file are gone."""
        there = await asyncio.to_thread(self._files.there)
        known = {name: day for name, day in days.items() if name in there and day.done_at}
        if not known or not settings.active:
            return {}
        async with self._connect.open(settings) as database:
            return await self._work.lost(database, known, span)

    def _span(self, settings: Export) -> Span:
        """The days that are sent by themselves, the present one not among them."""
        return Span(settings.since or EVER.first, self._work.closed(EVER.last))

    def _present(self, settings: Export) -> tuple[str, list[str]]:
        """The hour, and the present day if it is to be sent in it, once."""
        now = self._clock.now()
        hour, day = now[:13], now[:10]
        wanted = settings.today and hour != self._hour and day >= (settings.since or "")
        return hour, [day] if wanted and day in self._work.there else []

    async def _left(self, name: str, day: Day) -> Missed:
        begin = 0 if day.changed else (day.doubtful.begin if day.doubtful else day.end)
        found = await asyncio.to_thread(
            self._files.sample, name, self._work.writing(name, day), begin
        )
        return Missed(name, day.state, found.rows, found.size, found.exact)

    def _failed(self, error: AgentdError) -> float:
        """Note what went wrong; the seconds until it is tried again."""
        self._failures += 1
        self._phase = "waiting"
        if error.message != self._error[0]:
            self._note("warning", f"The export to the analytics database fails: {error.message}")
        self._error = (error.message, self._clock.now())
        log.warning("the export to the analytics database waits: %s", error.message)
        return wait(error, self._failures)

    async def _rest(self, seconds: float, settings: Export) -> None:
        """Wait so long, or until it is woken, or the settings are others."""
        self._retry_at = self._clock.monotonic() + seconds
        while (left := self._retry_at - self._clock.monotonic()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, LOOK_SECONDS)):
                    await self._woken.wait()
            if self._woken.is_set() or self._settings() != settings:
                break
        self._woken.clear()


def _target(settings: Export) -> str:
    return f"{settings.url} {settings.database}.{settings.table}"


def _span(first: str, last: str) -> Span:
    try:
        span = Span(date.fromisoformat(first).isoformat(), date.fromisoformat(last).isoformat())
    except ValueError as error:
        raise BadRequest("from and to must be days such as 2026-01-31") from error
    if span.first > span.last:
        raise BadRequest("from is a later day than to")
    return span
