"""Tables as CSV (RFC 4180), for programs and for spreadsheets.

A spreadsheet takes a cell that begins with ``=`` for a formula and carries it out, whoever wrote
it. So text with such a beginning gets an apostrophe before it, which spreadsheets do not show.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import TypeAlias

from msgspec import Struct

Cell: TypeAlias = str | int | float | Decimal | None

_ACTIVE = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a formula can begin with, in full width too."""


def comma_separated(rows: Iterable[Sequence[Cell]]) -> bytes:
    """The rows as lines with CRLF, in UTF-8; None is an empty cell."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerows([_harmless(cell) for cell in row] for row in rows)
    return text.getvalue().encode("utf-8", "replace")


def as_csv(rows: Sequence[Struct]) -> bytes:
    """Rows of one kind; a field that has fields of its own becomes several columns."""
    if not rows:
        return b""
    head = [name for name, _ in _fields(rows[0])]
    return comma_separated([head, *([value for _, value in _fields(row)] for row in rows)])


def _fields(row: Struct) -> Iterator[tuple[str, Cell]]:
    for name in row.__struct_fields__:
        value = getattr(row, name)
        if isinstance(value, Struct):
            yield from ((f"{name}_{inner}", one) for inner, one in _fields(value))
        else:
            yield name, value


def _harmless(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, Decimal):
        return f"{cell:f}"
    if not isinstance(cell, str):
        return str(cell)
    # Blanks and control characters at the beginning are passed over by some spreadsheets.
    begins = cell.lstrip().lstrip("\0")
    return f"'{cell}" if begins.startswith(_ACTIVE) or cell[:1] in ("\t", "\r", "\n") else cell
