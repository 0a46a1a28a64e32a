"""The work on the days: which of them are others now, and how one is sent."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from functools import partial

from msgspec import structs

from agentd.clock import Clock, Timestamp, parse_iso
from agentd.errors import AgentdError, DatabaseRefused
from agentd.proxy.export.days import (
    Chunk,
    Day,
    Span,
    Stamp,
    begun,
    compared,
    done,
    planned,
    sent,
    token,
)
from agentd.proxy.export.needs import Book, Database, Files, Kept, Portion, Write
from agentd.proxy.export.rows import line

LATE = timedelta(minutes=2)
"""How long after midnight the last bookings of a day may still come."""
TRIES = 3
"""How often a day is sent before something is said to be wrong with it."""


class Work:
    """Knows the days, and keeps what it knows. One task changes them; ``open`` it first."""

    def __init__(self, files: Files, book: Book, clock: Clock) -> None:
        self.source = ""
        self.target = ""
        self.days: dict[str, Day] = {}
        self.there: dict[str, Stamp] = {}
        """The days that have a file."""
        self.sent_at: Timestamp = ""
        self._files = files
        self._book = book
        self._clock = clock

    async def open(self) -> None:
        """Take up what was known. Raises ``Unavailable`` or ``Misconfigured``."""
        self.source = await asyncio.to_thread(self._book.source)
        kept = await asyncio.to_thread(self._book.load)
        self.target, self.days = kept.target, dict(kept.days)

    async def keep(self) -> None:
        """Have what is known survive."""
        await asyncio.to_thread(self._book.save, Kept(self.target, dict(self.days)))

    def closed(self, last: str) -> str:
        """A day, or the last one to which nothing is booked any more."""
        end = (parse_iso(self._clock.now()) - LATE - timedelta(days=1)).date()
        return min(last, end.isoformat())

    async def look(self) -> None:
        """See which days there are, and which of those that were sent are others now."""
        self.there = await asyncio.to_thread(self._files.there)
        found = await self.looked()
        if found != self.days:
            self.days = found
            await self.keep()

    async def looked(self) -> dict[str, Day]:
        """The days, those whose file is another compared with it."""
        found = dict(self.days)
        there = await asyncio.to_thread(self._files.there)
        for name, stamp in there.items():
            day = found.get(name)
            if day and day.chunks and not day.changed and day.stamp != stamp:
                found[name] = await self._compared(name, day, stamp)
        return found

    async def lost(self, database: Database, days: Mapping[str, Day], span: Span) -> dict[str, Day]:
        """Of the days between two that are done: those of which the table has other rows."""
        sent = {
            name: day
            for name, day in days.items()
            if day.state == "done" and span.first <= name <= span.last
        }
        if not sent:
            return {}
        rows = await database.count(self.source, min(sent), max(sent))
        return {
            name: structs.replace(day, changed=True)
            for name, day in sent.items()
            if rows.get(name, 0) != day.rows
        }

    async def send(self, database: Database, name: str) -> None:
        """Send what is left of a day. Raises ``Unavailable``, and notes why."""
        try:
            for _ in range(TRIES):
                await self._send(database, name)
                if not self.days[name].changed:
                    return
            raise DatabaseRefused(f"{name} was sent, and yet the table has other rows of it", 0)
        except AgentdError as error:
            known = self.days.get(name, Day())
            await self.note(name, structs.replace(known, error=error.message))
            raise

    async def note(self, name: str, day: Day) -> None:
        """Know this of a day."""
        self.days[name] = day
        await self.keep()

    def writing(self, name: str, day: Day) -> Write:
        """How the requests of a day are told."""
        return lambda entry: line(entry, name, self.source, day.version)

    async def _send(self, database: Database, name: str) -> None:
        day = self.days.get(name, Day())
        if day.state in ("pending", "changed"):
            await database.drop(self.source, name)
            moment = round(parse_iso(self._clock.now()).timestamp() * 1000)
            await self.note(name, begun(day, moment))
        elif chunk := day.doubtful:
            await self._settle(database, name, chunk)
        if not self.days[name].changed:
            await self._send_on(database, name)

    async def _settle(self, database: Database, name: str, chunk: Chunk) -> None:
        """Find out whether a chunk arrived that was being sent when something failed."""
        day = self.days[name]
        rows = await self._counted(database, name)
        if rows == day.rows + chunk.rows:
            await self.note(name, sent(day, self._clock.now()))
        elif rows == day.rows:
            read = partial(self._files.portion, name, self.writing(name, day))
            portion = await asyncio.to_thread(read, chunk.begin, chunk.end)
            await self._insert(database, name, chunk, portion)
        else:
            await self.note(name, structs.replace(day, changed=True))

    async def _send_on(self, database: Database, name: str) -> None:
        write = self.writing(name, self.days[name])
        while not self.days[name].changed:
            end = self.days[name].end
            portion = await asyncio.to_thread(self._files.portion, name, write, end)
            if portion is None:
                break
            await self.note(name, planned(self.days[name], portion.chunk))
            await self._insert(database, name, portion.chunk, portion)
        if not self.days[name].changed and name <= self.closed(name):
            await self._finish(database, name)

    async def _insert(
        self, database: Database, name: str, chunk: Chunk, portion: Portion | None
    ) -> None:
        day = self.days[name]
        if portion is None or portion.chunk.sum != chunk.sum:  # the file was replaced
            await self.note(name, structs.replace(day, changed=True))
            return
        await database.insert(portion.packed, token(self.source, name, day, chunk))
        self.sent_at = self._clock.now()
        await self.note(name, sent(day, self.sent_at))

    async def _finish(self, database: Database, name: str) -> None:
        """A closed day is done when its file is still what was sent, and all of it is there."""
        stamp = (await asyncio.to_thread(self._files.there)).get(name)
        if stamp is None:  # it went, by age
            return
        day = await self._compared(name, self.days[name], stamp)
        if not day.changed and await self._counted(database, name) == day.rows:
            (whole,) = await asyncio.to_thread(self._files.sums, name, [day.end])
            await self.note(name, done(day, whole, stamp, self._clock.now()))
        else:
            await self.note(name, structs.replace(day, changed=True))

    async def _compared(self, name: str, day: Day, stamp: Stamp) -> Day:
        ends = [chunk.end for chunk in day.chunks]
        return compared(day, stamp, await asyncio.to_thread(self._files.sums, name, ends))

    async def _counted(self, database: Database, name: str) -> int:
        return (await database.count(self.source, name, name)).get(name, 0)
