"""Exports days: finds those that changed, and sends one."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from functools import partial

from msgspec import structs

from agentd.core.clock import Clock, Timestamp, parse_iso
from agentd.core.errors import AgentdError, DatabaseError
from agentd.gateway.export.days import (
    Chunk,
    DayProgress,
    DaySpan,
    FileStamp,
    begin,
    compare,
    create_token,
    mark_done,
    mark_sent,
    plan_chunk,
)
from agentd.gateway.export.ports import (
    AnalyticsDatabase,
    ExportProgress,
    ExportStore,
    LedgerFiles,
    PackedChunk,
    RowEncoder,
)
from agentd.gateway.export.rows import encode_row

CLOSING_DELAY = timedelta(minutes=2)
"""The time after midnight within which the last records of a day may still arrive."""
MAX_ATTEMPTS = 3
"""The number of attempts to send a day before a problem is reported."""


class DayExporter:
    """Knows the days, and keeps what it knows. One task changes them; ``open`` it first."""

    def __init__(self, files: LedgerFiles, store: ExportStore, clock: Clock) -> None:
        self.source = ""
        self.target = ""
        self.days: dict[str, DayProgress] = {}
        self.stamps: dict[str, FileStamp] = {}
        """The days that have a file."""
        self.sent_at: Timestamp = ""
        self._files = files
        self._store = store
        self._clock = clock

    async def open(self) -> None:
        """Take up what was known. Raises ``Unavailable`` or ``ConfigError``."""
        self.source = await asyncio.to_thread(self._store.get_source)
        progress = await asyncio.to_thread(self._store.load)
        self.target, self.days = progress.target, dict(progress.days)

    async def save(self) -> None:
        """Save the progress of all days."""
        await asyncio.to_thread(self._store.save, ExportProgress(self.target, dict(self.days)))

    def get_last_closed(self, last: str) -> str:
        """Return a day, or the last one that gets no more records, whichever is earlier."""
        end = (parse_iso(self._clock.now()) - CLOSING_DELAY - timedelta(days=1)).date()
        return min(last, end.isoformat())

    async def refresh(self) -> None:
        """Update which days there are, and which sent ones changed."""
        self.stamps = await asyncio.to_thread(self._files.get_stamps)
        found = await self.compare_days()
        if found != self.days:
            self.days = found
            await self.save()

    async def compare_days(self) -> dict[str, DayProgress]:
        """Return the days; those whose file changed are compared with it."""
        found = dict(self.days)
        there = await asyncio.to_thread(self._files.get_stamps)
        for name, stamp in there.items():
            day = found.get(name)
            if day and day.chunks and not day.changed and day.stamp != stamp:
                found[name] = await self._compare_with_file(name, day, stamp)
        return found

    async def find_lost(
        self, database: AnalyticsDatabase, days: Mapping[str, DayProgress], span: DaySpan
    ) -> dict[str, DayProgress]:
        """Return the done days of a span, as changed, of which the table has other rows."""
        sent = {
            name: day
            for name, day in days.items()
            if day.state == "done" and span.first <= name <= span.last
        }
        if not sent:
            return {}
        rows = await database.count_rows(self.source, min(sent), max(sent))
        return {
            name: structs.replace(day, changed=True)
            for name, day in sent.items()
            if rows.get(name, 0) != day.rows
        }

    async def send(self, database: AnalyticsDatabase, name: str) -> None:
        """Send what is left of a day. Raises ``Unavailable``, and stores why."""
        try:
            for _ in range(MAX_ATTEMPTS):
                await self._send(database, name)
                if not self.days[name].changed:
                    return
            raise DatabaseError(f"{name} was sent, and yet the table has other rows of it", 0)
        except AgentdError as error:
            known = self.days.get(name, DayProgress())
            await self.update(name, structs.replace(known, error=error.message))
            raise

    async def update(self, name: str, day: DayProgress) -> None:
        """Set and save the progress of a day."""
        self.days[name] = day
        await self.save()

    def create_encoder(self, name: str, day: DayProgress) -> RowEncoder:
        """Return the encoder of a day's rows."""
        return lambda entry: encode_row(entry, name, self.source, day.version)

    async def _send(self, database: AnalyticsDatabase, name: str) -> None:
        day = self.days.get(name, DayProgress())
        if day.state in ("pending", "changed"):
            await database.drop_day(self.source, name)
            moment = round(parse_iso(self._clock.now()).timestamp() * 1000)
            await self.update(name, begin(day, moment))
        elif chunk := day.doubtful:
            await self._settle(database, name, chunk)
        if not self.days[name].changed:
            await self._send_on(database, name)

    async def _settle(self, database: AnalyticsDatabase, name: str, chunk: Chunk) -> None:
        """Find out whether a chunk arrived that was being sent when something failed."""
        day = self.days[name]
        rows = await self._count_rows(database, name)
        if rows == day.rows + chunk.rows:
            await self.update(name, mark_sent(day, self._clock.now()))
        elif rows == day.rows:
            read = partial(self._files.read_chunk, name, self.create_encoder(name, day))
            portion = await asyncio.to_thread(read, chunk.begin, chunk.end)
            await self._insert(database, name, chunk, portion)
        else:
            await self.update(name, structs.replace(day, changed=True))

    async def _send_on(self, database: AnalyticsDatabase, name: str) -> None:
        write = self.create_encoder(name, self.days[name])
        while not self.days[name].changed:
            end = self.days[name].end
            portion = await asyncio.to_thread(self._files.read_chunk, name, write, end)
            if portion is None:
                break
            await self.update(name, plan_chunk(self.days[name], portion.chunk))
            await self._insert(database, name, portion.chunk, portion)
        if not self.days[name].changed and name <= self.get_last_closed(name):
            await self._finish(database, name)

    async def _insert(
        self, database: AnalyticsDatabase, name: str, chunk: Chunk, portion: PackedChunk | None
    ) -> None:
        day = self.days[name]
        if portion is None or portion.chunk.sum != chunk.sum:  # the file was replaced
            await self.update(name, structs.replace(day, changed=True))
            return
        await database.insert(portion.packed, create_token(self.source, name, day, chunk))
        self.sent_at = self._clock.now()
        await self.update(name, mark_sent(day, self.sent_at))

    async def _finish(self, database: AnalyticsDatabase, name: str) -> None:
        """Mark a closed day as done if its file is unchanged and the table has all rows."""
        stamp = (await asyncio.to_thread(self._files.get_stamps)).get(name)
        if stamp is None:  # it went, by age
            return
        write = self.create_encoder(name, self.days[name])
        if await asyncio.to_thread(self._files.read_chunk, name, write, self.days[name].end):
            # Recorded before the stamp was read, which would never show it.
            await self._send_on(database, name)
            return
        day = await self._compare_with_file(name, self.days[name], stamp)
        if not day.changed and await self._count_rows(database, name) == day.rows:
            (whole,) = await asyncio.to_thread(self._files.compute_checksums, name, [day.end])
            await self.update(name, mark_done(day, whole, stamp, self._clock.now()))
        else:
            await self.update(name, structs.replace(day, changed=True))

    async def _compare_with_file(
        self, name: str, day: DayProgress, stamp: FileStamp
    ) -> DayProgress:
        ends = [chunk.end for chunk in day.chunks]
        return compare(
            day, stamp, await asyncio.to_thread(self._files.compute_checksums, name, ends)
        )

    async def _count_rows(self, database: AnalyticsDatabase, name: str) -> int:
        return (await database.count_rows(self.source, name, name)).get(name, 0)
