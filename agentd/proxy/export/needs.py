"""What the export needs of the world: the ledger's files, a place for its state, a database."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from agentd.proxy.entry import Entry
from agentd.proxy.export.days import Chunk, Day, Span, Stamp
from agentd.proxy.settings import Export

Write: TypeAlias = Callable[[Entry], bytes]
"""A request as the line that is sent."""


class Portion(Struct, frozen=True):
    """A chunk with its rows: gzip of ``size`` bytes."""

    chunk: Chunk
    packed: bytes
    size: int


class Sample(Struct, frozen=True):
    """What requests come to as rows: counted, or reckoned from the first of them."""

    rows: int
    size: int
    exact: bool


class Kept(Struct, frozen=True):
    """What must be known again after a restart."""

    target: str = ""
    """The table to which the days were sent."""
    days: dict[str, Day] = {}


class Files(Protocol):
    """The day files of the ledger (``disk.ledger_export``). All block, and raise ``Unavailable``.

    ``Unavailable`` also where a file has gone meanwhile.
    """

    def there(self) -> dict[str, Stamp]:
        """The days that have a file, each with its stamp."""
        ...

    def portion(self, day: str, line: Write, begin: int, end: int | None = None) -> Portion | None:
        """The next rows, or those up to ``end``; None: there are none."""
        ...

    def sums(self, day: str, ends: Sequence[int]) -> list[str]:
        """The SHA-256 of the stretches that end at these bytes."""
        ...

    def sample(self, day: str, line: Write, begin: int) -> Sample:
        """What the requests from a byte on come to."""
        ...


class Book(Protocol):
    """Where the state is kept (``disk.export_state``). All block, and raise ``Unavailable``."""

    def source(self) -> str:
        """The name of this ledger in the database."""
        ...

    def load(self) -> Kept:
        """What was kept last."""
        ...

    def save(self, kept: Kept) -> None:
        """Keep it."""
        ...

    def ask(self, span: Span) -> None:
        """Note that what is missed between two days is to be sent."""
        ...

    def asked(self) -> list[Span]:
        """What was asked for, and is not answered yet."""
        ...

    def answered(self, spans: Sequence[Span]) -> None:
        """Forget that these were asked for."""
        ...


class Database(Protocol):
    """The table, which is there. All raise ``SupplierUnreachable`` or ``DatabaseRefused``."""

    def insert(self, packed: bytes, token: str) -> Awaitable[None]:
        """Put rows in, once for each token where the server can do that."""
        ...

    def drop(self, source: str, day: str) -> Awaitable[None]:
        """Take a day out, if it is there."""
        ...

    def count(self, source: str, first: str, last: str) -> Awaitable[Mapping[str, int]]:
        """The rows of each day that has any."""
        ...


class Rung(Struct, frozen=True):
    """One step of a check, and whether it held."""

    name: Literal["settings", "reach", "sign_in", "table"]
    passed: bool
    told: str


class Connect(Protocol):
    """How a database is come by (``outside.clickhouse``)."""

    def open(self, to: Export) -> AbstractAsyncContextManager[Database]:
        """The table of these settings, made where it lacks; raises as ``Database``.

        Also ``Misconfigured``, where the password is not to be had, and ``BadRequest``.
        """
        ...

    def check(self, to: Export) -> Awaitable[list[Rung]]:
        """Each step until one fails. Nothing is made or changed."""
        ...
