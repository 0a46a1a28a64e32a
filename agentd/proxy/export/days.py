"""How far each day of the ledger has been sent, and what follows from how its file is now.

A day is sent in chunks: each is a stretch of the bytes of the day's file, with their SHA-256. It
is written down before it is sent, so that sending it again sends the same rows under the same
token. A day is **pending** (nothing is sent), **partial**, **done** (closed, and all of it is sent)
or **changed** (what was sent is others now: it is to be sent as a whole again).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct, structs

from agentd.clock import Timestamp

State: TypeAlias = Literal["pending", "partial", "done", "changed"]
Stamp: TypeAlias = tuple[int, int, int]
"""What tells one version of a day's file from the next: its number, time of change and size."""

CHUNK_ROWS = 10_000
"""Rows of a chunk: fewer than the rows of a block, so that a chunk is one block."""


class Chunk(Struct, frozen=True, omit_defaults=True):
    """Requests between two bytes of a day's file."""

    begin: int
    end: int
    rows: int
    sum: str
    """The SHA-256 of these bytes."""
    sent_at: Timestamp = ""
    """When the database had it for sure; empty: it may have it, or not."""


class Day(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of one day."""

    version: int = 0
    """The ``export_version`` of its rows: later ones win. 0: nothing was ever sent."""
    chunks: tuple[Chunk, ...] = ()
    """In order and without gaps; at most the last one is not known to be sent."""
    stamp: Stamp | None = None
    """Of the file whose content was compared with the chunks last."""
    done_at: Timestamp = ""
    changed: bool = False
    wanted: bool = False
    """Whether somebody asked for it, who does not mind how long ago it was."""
    error: str = ""
    """Why it could not be sent last; empty when it could."""

    @property
    def state(self) -> State:
        """In one word."""
        if self.changed:
            return "changed"
        if self.done_at:
            return "done"
        return "partial" if self.chunks else "pending"

    @property
    def end(self) -> int:
        """The byte of the file after the last chunk."""
        return self.chunks[-1].end if self.chunks else 0

    @property
    def rows(self) -> int:
        """Requests that the database has for sure."""
        return sum(chunk.rows for chunk in self.chunks if chunk.sent_at)

    @property
    def doubtful(self) -> Chunk | None:
        """The chunk that was about to be sent, and may have arrived or not."""
        return self.chunks[-1] if self.chunks and not self.chunks[-1].sent_at else None


class Span(NamedTuple):
    """The days that are sent by themselves, both included: ``2026-01-31``."""

    first: str
    last: str


def begun(day: Day, version: int) -> Day:
    """A day of which nothing is sent, and everything will be."""
    return structs.replace(
        day, version=max(version, day.version + 1), chunks=(), done_at="", changed=False, stamp=None
    )


def planned(day: Day, chunk: Chunk) -> Day:
    """The next chunk is about to be sent."""
    return structs.replace(day, chunks=(*day.chunks, chunk), done_at="")


def sent(day: Day, at: Timestamp) -> Day:
    """The chunk that was about to be sent has arrived."""
    *before, last = day.chunks
    return structs.replace(
        day, chunks=(*before, structs.replace(last, sent_at=at)), done_at="", error=""
    )


def done(day: Day, whole: str, stamp: Stamp, at: Timestamp) -> Day:
    """All of a closed day is there: its chunks become one, with the SHA-256 of them all."""
    merged = (Chunk(0, day.end, day.rows, whole, at),) if day.chunks else ()
    return structs.replace(
        day, chunks=merged, stamp=stamp, done_at=at, changed=False, wanted=False, error=""
    )


def compared(day: Day, stamp: Stamp, sums: Sequence[str]) -> Day:
    """The day after its chunks were compared with a file: ``sums`` are those of the same bytes.

    What was sent of a file that only grew stays sent.
    """
    if [chunk.sum for chunk in day.chunks] != list(sums):
        return structs.replace(day, stamp=stamp, done_at="", changed=True)
    grown = stamp[2] > day.end
    return structs.replace(day, stamp=stamp, done_at="" if grown else day.done_at)


def to_do(days: Mapping[str, Day], there: Collection[str], span: Span) -> Iterator[str]:
    """Of the days that are ``there``, those with something to send, the oldest first.

    Whether a day that is done has another file now is not looked at: see ``compared``.
    """
    for name in sorted(there):
        day = days.get(name, Day())
        if name <= span.last and day.state != "done" and (day.wanted or name >= span.first):
            yield name


def missed(days: Mapping[str, Day], there: Collection[str], first: str, last: str) -> list[str]:
    """Of the days that are ``there``, those between two that are not done, in order."""
    return [
        name
        for name in sorted(there)
        if first <= name <= last and days.get(name, Day()).state != "done"
    ]


def token(source: str, name: str, day: Day, chunk: Chunk) -> str:
    """The name of a chunk's rows: sent twice under it, they are there once."""
    return f"{source}-{name}-{day.version}-{chunk.begin}-{chunk.sum}"
