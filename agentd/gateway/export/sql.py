"""Queries to ClickHouse, and the expected form of the table.

Servers differ by a decade, so a server is asked what it supports (``CAPABILITIES_QUERY``) first.
All that is put into these words is checked before: identifiers, days, and sums of ours.
"""

from collections.abc import Collection
from typing import TypeAlias

from agentd.gateway.export.rows import COLUMNS, TableColumn

Capabilities: TypeAlias = Collection[str]
"""Names of settings, types of columns and settings of tables that a server has."""

DEDUPLICATION_WINDOW = 10_000
"""The last blocks whose tokens a table remembers."""

DEDUPLICATION = "insert_deduplication_token"
_WINDOW = "non_replicated_deduplication_window"
_PRECISE = "DateTime64"
_SETTINGS = {
    "async_insert": "0",
    "input_format_parallel_parsing": "0",
    "input_format_skip_unknown_fields": "1",
    "insert_deduplicate": "1",
}
"""The settings of an insert: a chunk is one block, the same one each time it is sent."""


def _quote_names(names: Collection[str]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names))


VERSION_QUERY = "SELECT version()"

_PARTED = ("(source, day)", "tuple(source, day)", "source, day")


CAPABILITIES_QUERY = (
    f"SELECT name FROM system.settings WHERE name IN ({_quote_names((*_SETTINGS, DEDUPLICATION))})"
    " UNION ALL "
    f"SELECT name FROM system.data_type_families WHERE name IN ('{_PRECISE}')"
    " UNION ALL "
    f"SELECT name FROM system.merge_tree_settings WHERE name IN ('{_WINDOW}')"
    " FORMAT TSV"
)
"""Its result has one name per line: the server's ``Capabilities``."""


def get_column_type(column: TableColumn, knows: Capabilities) -> str:
    """Return the type of a column; a plain one on servers without times in milliseconds."""
    return column.type if _PRECISE in knows else column.plain


def create_table(table: str, knows: Capabilities) -> str:
    """Return the statement that creates the table unless it exists."""
    columns = ", ".join(f"`{column.name}` {get_column_type(column, knows)}" for column in COLUMNS)
    settings = f" SETTINGS {_WINDOW} = {DEDUPLICATION_WINDOW}" if _WINDOW in knows else ""
    return (
        f"CREATE TABLE IF NOT EXISTS `{table}` ({columns})"
        " ENGINE = ReplacingMergeTree(export_version)"
        f" PARTITION BY (source, day) ORDER BY (day, request_id){settings}"
    )


def find_table(database: str, table: str) -> str:
    """Return the query for the table's engine and partition key; no line if it does not exist."""
    where = f"database = '{database}' AND name = '{table}'"
    return f"SELECT engine, partition_key FROM system.tables WHERE {where} FORMAT TSV"


def list_columns(database: str, table: str) -> str:
    """Return the query for the table's column names, one per line."""
    where = f"database = '{database}' AND table = '{table}'"
    return f"SELECT name FROM system.columns WHERE {where} FORMAT TSV"


def add_columns(table: str, columns: Collection[TableColumn], knows: Capabilities) -> str:
    """Return the statement that adds the columns a table of an older agentd lacks."""
    unless = "IF NOT EXISTS " if _PRECISE in knows else ""
    clauses = ", ".join(
        f"ADD COLUMN {unless}`{column.name}` {get_column_type(column, knows)}" for column in columns
    )
    return f"ALTER TABLE `{table}` {clauses}"


def find_missing(found: Collection[str]) -> tuple[TableColumn, ...]:
    """Return the columns that a table lacks, given the names of its columns."""
    return tuple(column for column in COLUMNS if column.name not in found)


def explain_foreign(engine: str, parted: str) -> str:
    """Explain why a table's days cannot be replaced; empty if it was created for the export."""
    if not engine.endswith("ReplacingMergeTree"):
        return f"its engine is {engine}, not a ReplacingMergeTree"
    if parted not in _PARTED:
        return f"it is partitioned by {parted or 'nothing'}, not by (source, day)"
    return ""


def insert_rows(table: str) -> str:
    """Return the statement that precedes the rows."""
    return f"INSERT INTO `{table}` FORMAT JSONEachRow"


def build_insert_settings(token: str, knows: Capabilities) -> dict[str, str]:
    """Return the settings of an insert: the same token, the same block, once in the table."""
    settings = {name: value for name, value in _SETTINGS.items() if name in knows}
    return settings | ({DEDUPLICATION: token} if DEDUPLICATION in knows else {})


def drop_day(table: str, source: str, day: str) -> str:
    """Return the statement that deletes a day of one ledger."""
    return f"ALTER TABLE `{table}` DROP PARTITION ('{source}', '{day}')"


def count_rows(table: str, source: str, first: str, last: str) -> str:
    """Return the query for the number of rows by day: ``2026-01-31<tab>17``."""
    return (
        f"SELECT toString(day), count() FROM `{table}` WHERE source = '{source}'"
        f" AND day >= toDate('{first}') AND day <= toDate('{last}') GROUP BY day FORMAT TSV"
    )
