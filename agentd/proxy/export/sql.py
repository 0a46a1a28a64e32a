"""What is said to ClickHouse, in its words; and what it must have said of a table of ours.

Servers differ by a decade. So a server is asked what it knows (``KNOWLEDGE``), and only told that.
All that is put into these words is checked before: identifiers, days, and sums of ours.
"""

from collections.abc import Collection
from typing import TypeAlias

from agentd.proxy.export.rows import COLUMNS, Column

Knows: TypeAlias = Collection[str]
"""Names of settings, types of columns and settings of tables that a server has."""

DEDUPLICATED = 10_000
"""The last blocks whose tokens a table remembers."""

ONCE = "insert_deduplication_token"
_WINDOW = "non_replicated_deduplication_window"
_PRECISE = "DateTime64"
_SETTINGS = {
    "async_insert": "0",
    "input_format_parallel_parsing": "0",
    "input_format_skip_unknown_fields": "1",
    "insert_deduplicate": "1",
}
"""Of an insert: a chunk is one block, the same one each time it is sent."""


def _listed(names: Collection[str]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names))


VERSION = "SELECT version()"

_PARTED = ("(source, day)", "tuple(source, day)", "source, day")


KNOWLEDGE = (
    f"SELECT name FROM system.settings WHERE name IN ({_listed((*_SETTINGS, ONCE))})"
    " UNION ALL "
    f"SELECT name FROM system.data_type_families WHERE name IN ('{_PRECISE}')"
    " UNION ALL "
    f"SELECT name FROM system.merge_tree_settings WHERE name IN ('{_WINDOW}')"
    " FORMAT TSV"
)
"""Its answer is one name in a line: what a server ``Knows``."""


def type_of(column: Column, knows: Knows) -> str:
    """The type that a column gets: a plain one of a server older than times with milliseconds."""
    return column.type if _PRECISE in knows else column.plain


def creating(table: str, knows: Knows) -> str:
    """The table, where there is none."""
    told = ", ".join(f"`{column.name}` {type_of(column, knows)}" for column in COLUMNS)
    settings = f" SETTINGS {_WINDOW} = {DEDUPLICATED}" if _WINDOW in knows else ""
    return (
        f"CREATE TABLE IF NOT EXISTS `{table}` ({told})"
        " ENGINE = ReplacingMergeTree(export_version)"
        f" PARTITION BY (source, day) ORDER BY (day, request_id){settings}"
    )


def finding(database: str, table: str) -> str:
    """Its engine and how it is partitioned, in one line; no line where there is none."""
    where = f"database = '{database}' AND name = '{table}'"
    return f"SELECT engine, partition_key FROM system.tables WHERE {where} FORMAT TSV"


def describing(database: str, table: str) -> str:
    """The names of its columns, each in a line."""
    where = f"database = '{database}' AND table = '{table}'"
    return f"SELECT name FROM system.columns WHERE {where} FORMAT TSV"


def adding(table: str, columns: Collection[Column], knows: Knows) -> str:
    """What a table of an older agentd lacks."""
    unless = "IF NOT EXISTS " if _PRECISE in knows else ""
    told = ", ".join(
        f"ADD COLUMN {unless}`{column.name}` {type_of(column, knows)}" for column in columns
    )
    return f"ALTER TABLE `{table}` {told}"


def missing(found: Collection[str]) -> tuple[Column, ...]:
    """The columns that a table lacks, of which the names of all columns are told."""
    return tuple(column for column in COLUMNS if column.name not in found)


def foreign(engine: str, parted: str) -> str:
    """Why a table is not one of ours, whose days can be replaced; empty: it is."""
    if not engine.endswith("ReplacingMergeTree"):
        return f"its engine is {engine}, not a ReplacingMergeTree"
    if parted not in _PARTED:
        return f"it is partitioned by {parted or 'nothing'}, not by (source, day)"
    return ""


def inserting(table: str) -> str:
    """What comes before the rows."""
    return f"INSERT INTO `{table}` FORMAT JSONEachRow"


def insert_settings(token: str, knows: Knows) -> dict[str, str]:
    """The settings of an insert: the same token, the same block, once in the table."""
    told = {name: value for name, value in _SETTINGS.items() if name in knows}
    return told | ({ONCE: token} if ONCE in knows else {})


def dropping(table: str, source: str, day: str) -> str:
    """A whole day of one ledger, to be sent anew."""
    return f"ALTER TABLE `{table}` DROP PARTITION ('{source}', '{day}')"


def counting(table: str, source: str, first: str, last: str) -> str:
    """How many rows there are, day by day: ``2026-01-31<tab>17``."""
    return (
        f"SELECT toString(day), count() FROM `{table}` WHERE source = '{source}'"
        f" AND day >= toDate('{first}') AND day <= toDate('{last}') GROUP BY day FORMAT TSV"
    )
