"""The export's progress for each day of the ledger, and the work that follows from its file.

A day is sent in chunks: each is a stretch of the bytes of the day's file, with their SHA-256. It
is written down before it is sent, so that sending it again sends the same rows under the same
token. A day is **pending** (nothing is sent), **partial**, **done** (closed, and all of it is sent)
or **changed** (what was sent is others now: it is to be sent as a whole again).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct, structs

from agentd.core.clock import Timestamp

DayState: TypeAlias = Literal["pending", "partial", "done", "changed"]
FileStamp: TypeAlias = tuple[int, int, int]
"""Identifies a version of a day's file: inode, modification time and size."""

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
    """When the database had it for sure; empty if it may have it, or not."""


class DayProgress(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The progress of one day."""

    version: int = 0
    """The ``export_version`` of its rows: later ones win. 0: nothing was ever sent."""
    chunks: tuple[Chunk, ...] = ()
    """The chunks in order, without gaps; at most the last one is not known to be sent."""
    stamp: FileStamp | None = None
    """The stamp of the file whose content was compared with the chunks last."""
    done_at: Timestamp = ""
    changed: bool = False
    wanted: bool = False
    """True if somebody asked for it, who does not mind how long ago it was."""
    error: str = ""
    """Why it could not be sent last; empty when it could."""

    @property
    def state(self) -> DayState:
        """The state in one word."""
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
        """Rows that the database has accepted."""
        return sum(chunk.rows for chunk in self.chunks if chunk.sent_at)

    @property
    def doubtful(self) -> Chunk | None:
        """The chunk that was about to be sent, and may have arrived or not."""
        return self.chunks[-1] if self.chunks and not self.chunks[-1].sent_at else None


class DaySpan(NamedTuple):
    """Days from ``first`` to ``last``, both included: ``2026-01-31``."""

    first: str
    last: str


def begin(day: DayProgress, version: int) -> DayProgress:
    """Return the day with nothing sent, under a new version."""
    return structs.replace(
        day, version=max(version, day.version + 1), chunks=(), done_at="", changed=False, stamp=None
    )


def plan_chunk(day: DayProgress, chunk: Chunk) -> DayProgress:
    """Return the day with a chunk that is about to be sent."""
    return structs.replace(day, chunks=(*day.chunks, chunk), done_at="")


def mark_sent(day: DayProgress, at: Timestamp) -> DayProgress:
    """Return the day with its last chunk marked as arrived."""
    *before, last = day.chunks
    return structs.replace(
        day, chunks=(*before, structs.replace(last, sent_at=at)), done_at="", error=""
    )


def mark_done(day: DayProgress, whole: str, stamp: FileStamp, at: Timestamp) -> DayProgress:
    """Return a closed day as done: its chunks become one, with the SHA-256 ``whole``."""
    merged = (Chunk(0, day.end, day.rows, whole, at),) if day.chunks else ()
    return structs.replace(
        day, chunks=merged, stamp=stamp, done_at=at, changed=False, wanted=False, error=""
    )


def compare(day: DayProgress, stamp: FileStamp, sums: Sequence[str]) -> DayProgress:
    """Return the day after comparing its chunks with the file's: ``sums`` are the file's checksums.

    Chunks of a file that only grew stay sent.
    """
    if [chunk.sum for chunk in day.chunks] != list(sums):
        return structs.replace(day, stamp=stamp, done_at="", changed=True)
    grown = stamp[2] > day.end
    return structs.replace(day, stamp=stamp, done_at="" if grown else day.done_at)


def iter_due(
    days: Mapping[str, DayProgress], there: Collection[str], span: DaySpan
) -> Iterator[str]:
    """Yield the days of ``there`` with something to send, the oldest first.

    Whether the file of a done day changed is not checked here: see ``compare``.
    """
    for name in sorted(there):
        day = days.get(name, DayProgress())
        if name <= span.last and day.state != "done" and (day.wanted or name >= span.first):
            yield name


def list_missed(
    days: Mapping[str, DayProgress], there: Collection[str], first: str, last: str
) -> list[str]:
    """Return the days of ``there`` from ``first`` to ``last`` that are not done, in order."""
    return [
        name
        for name in sorted(there)
        if first <= name <= last and days.get(name, DayProgress()).state != "done"
    ]


def create_token(source: str, name: str, day: DayProgress, chunk: Chunk) -> str:
    """Return the deduplication token of a chunk: rows sent twice under it are stored once."""
    return f"{source}-{name}-{day.version}-{chunk.begin}-{chunk.sum}"
