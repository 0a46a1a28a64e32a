"""The analytics database's row of a request, as a line of JSON.

Bodies, keys and hidden values are never part of it: the ledger does not have them either.
"""

from decimal import Decimal
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from agentd.gateway.ledger.record import RequestRecord

COST_DECIMALS = 18
"""Places behind the point of a cost in the database: what is finer is rounded."""


class TableColumn(NamedTuple):
    """A column of the table. ``plain`` is its type where the server does not know ``type``."""

    name: str
    type: str
    plain: str


def _make_name_column(name: str) -> TableColumn:
    """Make a column of texts that repeat in many rows."""
    return TableColumn(name, "LowCardinality(String)", "String")


def _make_column(name: str, kind: str) -> TableColumn:
    return TableColumn(name, kind, kind)


COLUMNS: tuple[TableColumn, ...] = (
    _make_column("day", "Date"),
    _make_column("request_id", "String"),
    _make_name_column("source"),
    _make_column("export_version", "UInt64"),
    TableColumn("at", "DateTime64(3, 'UTC')", "String"),
    _make_name_column("key"),
    _make_name_column("key_name"),
    _make_name_column("owner"),
    _make_column("tags", "Array(String)"),
    _make_name_column("endpoint"),
    _make_name_column("model"),
    _make_name_column("channel"),
    _make_name_column("supplier_model"),
    _make_name_column("fallback"),
    _make_name_column("tier"),
    _make_column("tries", "UInt32"),
    _make_column("stream", "UInt8"),
    _make_column("status", "UInt16"),
    _make_name_column("outcome"),
    _make_name_column("error"),
    _make_column("input", "UInt64"),
    _make_column("cache_read", "UInt64"),
    _make_column("cache_write", "UInt64"),
    _make_column("cache_write_1h", "UInt64"),
    _make_column("output", "UInt64"),
    _make_column("reasoning", "UInt64"),
    _make_column("cost", f"Decimal(38, {COST_DECIMALS})"),
    _make_column("first_cost", f"Decimal(38, {COST_DECIMALS})"),
    _make_name_column("priced"),
    _make_column("estimated", "UInt8"),
    _make_column("ready_ms", "Float64"),
    _make_column("head_ms", "Float64"),
    _make_column("first_ms", "Float64"),
    _make_column("total_ms", "Float64"),
    _make_column("received", "UInt64"),
    _make_column("sent", "UInt64"),
    _make_column("hidden", "UInt64"),
    _make_column("hidden_rules", "Array(String)"),
)
"""The columns of the table in their order."""


class ExportRow(Struct, frozen=True, kw_only=True):
    """A request as a row: its fields are the ``COLUMNS``."""

    day: str
    request_id: str
    source: str
    export_version: int
    at: str
    key: str
    key_name: str
    owner: str
    tags: tuple[str, ...]
    endpoint: str
    model: str
    channel: str
    supplier_model: str
    fallback: str
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


def build_row(entry: RequestRecord, day: str, source: str, version: int) -> ExportRow:
    """Build a request's row: of this ``day``'s file, from this ledger, sent as this version."""
    usage, timings = entry.usage, entry.timings
    return ExportRow(
        day=day,
        request_id=entry.id,
        source=source,
        export_version=version,
        at=entry.at.replace("T", " ").removesuffix("Z"),
        key=entry.key,
        key_name=entry.key_name,
        owner=entry.owner,
        tags=entry.tags,
        endpoint=entry.endpoint,
        model=entry.model,
        channel=entry.channel,
        supplier_model=entry.supplier_model,
        fallback=entry.fallback,
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
        cost=_encode_money(entry.cost),
        first_cost=_encode_money(entry.cost if entry.was is None else entry.was),
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


def encode_row(entry: RequestRecord, day: str, source: str, version: int) -> bytes:
    """Return the row of a request as one line of ``JSONEachRow``."""
    return _encoder.encode(build_row(entry, day, source, version)) + b"\n"


def _encode_money(amount: Decimal) -> Raw:
    """Return a number in full: old servers take no text for a ``Decimal``, nor more places."""
    return Raw(f"{amount:.{COST_DECIMALS}f}".encode())
