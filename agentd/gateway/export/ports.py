"""The export's ports: the ledger's files, a place for its state, a database."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from agentd.gateway.export.days import Chunk, DayProgress, DaySpan, FileStamp
from agentd.gateway.ledger.record import RequestRecord
from agentd.gateway.settings.model import ExportSettings

RowEncoder: TypeAlias = Callable[[RequestRecord], bytes]
"""A request as the line that is sent."""


class PackedChunk(Struct, frozen=True):
    """A chunk with its rows: gzip of ``size`` bytes."""

    chunk: Chunk
    packed: bytes
    size: int


class SizeEstimate(Struct, frozen=True):
    """The number of rows and bytes of requests: counted, or estimated from the first of them."""

    rows: int
    size: int
    exact: bool


class ExportProgress(Struct, frozen=True):
    """The state that must survive a restart."""

    target: str = ""
    """The table to which the days were sent."""
    days: dict[str, DayProgress] = {}


class LedgerFiles(Protocol):
    """The day files of the ledger (``ledger.export_reader``). All block, and raise ``Unavailable``.

    ``Unavailable`` also where a file has gone meanwhile.
    """

    def get_stamps(self) -> dict[str, FileStamp]:
        """Return the days that have a file, each with its stamp."""
        ...

    def read_chunk(
        self, day: str, line: RowEncoder, begin: int, end: int | None = None
    ) -> PackedChunk | None:
        """Return the next rows, or those up to ``end``; None if there are none."""
        ...

    def compute_checksums(self, day: str, ends: Sequence[int]) -> list[str]:
        """Return the SHA-256 of the stretches that end at these bytes."""
        ...

    def estimate(self, day: str, line: RowEncoder, begin: int) -> SizeEstimate:
        """Return the size of the requests from an offset on."""
        ...


class ExportStore(Protocol):
    """The storage of the state (``state_store``). All methods block, and raise ``Unavailable``."""

    def get_source(self) -> str:
        """Return the name of this ledger in the database."""
        ...

    def load(self) -> ExportProgress:
        """Return the progress that was saved last."""
        ...

    def save(self, kept: ExportProgress) -> None:
        """Keep it."""
        ...

    def add_backfill(self, span: DaySpan) -> None:
        """Note that what is missed between two days is to be sent."""
        ...

    def list_backfills(self) -> list[DaySpan]:
        """Return the backfills that were requested and are not started yet."""
        ...

    def remove_backfills(self, spans: Sequence[DaySpan]) -> None:
        """Forget that these were asked for."""
        ...


class AnalyticsDatabase(Protocol):
    """The table, which is there. All raise ``SupplierUnreachable`` or ``DatabaseError``."""

    def insert(self, packed: bytes, token: str) -> Awaitable[None]:
        """Put rows in, once for each token where the server can do that."""
        ...

    def drop_day(self, source: str, day: str) -> Awaitable[None]:
        """Take a day out, if it is there."""
        ...

    def count_rows(self, source: str, first: str, last: str) -> Awaitable[Mapping[str, int]]:
        """Return the rows of each day that has any."""
        ...


class ExportCheckStep(Struct, frozen=True):
    """A step of a check, and whether it passed."""

    name: Literal["settings", "reach", "sign_in", "table"]
    passed: bool
    detail: str


class DatabaseConnector(Protocol):
    """A connector to the database (``gateway.export.clickhouse``)."""

    def open(self, to: ExportSettings) -> AbstractAsyncContextManager[AnalyticsDatabase]:
        """Return the table of these settings, made where it lacks; raises as ``AnalyticsDatabase``.

        Also ``ConfigError``, where the password is not to be had, and ``BadRequest``.
        """
        ...

    def check(self, to: ExportSettings) -> Awaitable[list[ExportCheckStep]]:
        """Yield each step until one fails. Nothing is created or changed."""
        ...
