"""What the analytics database is told of a request: one row, as a line of JSON.

Bodies, keys and hidden values are never part of it: the ledger does not have them either.
"""

from decimal import Decimal
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from agentd.proxy.entry import Entry

MONEY_PLACES = 18
"""Places behind the point of a cost in the database: what is finer is rounded."""


class Column(NamedTuple):
    """A column of the table. ``plain`` is its type where the server does not know ``type``."""

    name: str
    type: str
    plain: str


def _name(name: str) -> Column:
    """Of a text that is the same in many rows."""
    return Column(name, "LowCardinality(String)", "String")


def _same(name: str, kind: str) -> Column:
    return Column(name, kind, kind)


COLUMNS: tuple[Column, ...] = (
    _same("day", "Date"),
    _same("request_id", "String"),
    _name("source"),
    _same("export_version", "UInt64"),
    Column("at", "DateTime64(3, 'UTC')", "String"),
    _name("key"),
    _name("key_name"),
    _name("endpoint"),
    _name("model"),
    _name("channel"),
    _name("supplier_model"),
    _name("tier"),
    _same("tries", "UInt32"),
    _same("stream", "UInt8"),
    _same("status", "UInt16"),
    _name("outcome"),
    _name("error"),
    _same("input", "UInt64"),
    _same("cache_read", "UInt64"),
    _same("cache_write", "UInt64"),
    _same("cache_write_1h", "UInt64"),
    _same("output", "UInt64"),
    _same("reasoning", "UInt64"),
    _same("cost", f"Decimal(38, {MONEY_PLACES})"),
    _same("first_cost", f"Decimal(38, {MONEY_PLACES})"),
    _name("priced"),
    _same("estimated", "UInt8"),
    _same("ready_ms", "Float64"),
    _same("head_ms", "Float64"),
    _same("first_ms", "Float64"),
    _same("total_ms", "Float64"),
    _same("received", "UInt64"),
    _same("sent", "UInt64"),
    _same("hidden", "UInt64"),
    _same("hidden_rules", "Array(String)"),
)
"""Of the table, in their order."""


class Row(Struct, frozen=True, kw_only=True):
    """A request as a row: its fields are the ``COLUMNS``."""

    day: str
    request_id: str
    source: str
    export_version: int
    at: str
    key: str
    key_name: str
    endpoint: str
    model: str
    channel: str
    supplier_model: str
    tier: str
    tries: int
    stream: bool
    status: int
    outcome: str
    error: str
    input: int
    cache_read: int
    cache_write: int
    cache_write_1h: int
    output: int
    reasoning: int
    cost: Raw
    first_cost: Raw
    priced: str
    estimated: bool
    ready_ms: float
    head_ms: float
    first_ms: float
    total_ms: float
    received: int
    sent: int
    hidden: int
    hidden_rules: list[str]


_encoder = msgspec.json.Encoder()


def row(entry: Entry, day: str, source: str, version: int) -> Row:
    """The row of a request: of this ``day``'s file, from this ledger, sent as this version."""
    usage, timings = entry.usage, entry.timings
    return Row(
        day=day,
        request_id=entry.id,
        source=source,
        export_version=version,
        at=entry.at.replace("T", " ").removesuffix("Z"),
        key=entry.key,
        key_name=entry.key_name,
        endpoint=entry.endpoint,
        model=entry.model,
        channel=entry.channel,
        supplier_model=entry.supplier_model,
        tier=entry.tier,
        tries=entry.tries,
        stream=entry.stream,
        status=entry.status,
        outcome=entry.outcome,
        error=entry.error,
        input=usage.input,
        cache_read=usage.cache_read,
        cache_write=usage.cache_write,
        cache_write_1h=usage.cache_write_1h,
        output=usage.output,
        reasoning=usage.reasoning,
        cost=_money(entry.cost),
        first_cost=_money(entry.cost if entry.was is None else entry.was),
        priced=entry.priced,
        estimated=entry.estimated,
        ready_ms=timings.ready,
        head_ms=timings.head,
        first_ms=timings.first,
        total_ms=timings.total,
        received=entry.received,
        sent=entry.sent,
        hidden=sum(entry.hidden.values()),
        hidden_rules=sorted(entry.hidden),
    )


def line(entry: Entry, day: str, source: str, version: int) -> bytes:
    """The row of a request as one line of ``JSONEachRow``."""
    return _encoder.encode(row(entry, day, source, version)) + b"\n"


def _money(amount: Decimal) -> Raw:
    """A number in full: old servers take no text for a ``Decimal``, nor more places."""
    return Raw(f"{amount:.{MONEY_PLACES}f}".encode())
