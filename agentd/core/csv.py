"""Render tables as CSV (RFC 4180), safe to open in a spreadsheet.

A spreadsheet evaluates a cell that begins with ``=`` as a formula, whoever wrote it (CSV
injection). Text with such a prefix gets a leading apostrophe, which spreadsheets do not display.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import TypeAlias

from msgspec import Struct

Cell: TypeAlias = str | int | float | Decimal | None

_FORMULA_PREFIXES = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Characters that start a formula, with their full-width forms."""


def render_csv(rows: Iterable[Sequence[Cell]]) -> bytes:
    """Return the rows as UTF-8 lines that end in CRLF; ``None`` is an empty cell."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerows([_render_cell(cell) for cell in row] for row in rows)
    return text.getvalue().encode("utf-8", "replace")


def render_structs_as_csv(rows: Sequence[Struct], *, with_header: bool = True) -> bytes:
    """Return rows of one struct type with a header; a nested struct becomes several columns."""
    if not rows:
        return b""
    head = [[name for name, _ in _iter_fields(rows[0])]] if with_header else []
    return render_csv([*head, *([value for _, value in _iter_fields(row)] for row in rows)])


def _iter_fields(row: Struct) -> Iterator[tuple[str, Cell]]:
    for name in row.__struct_fields__:
        value = getattr(row, name)
        if isinstance(value, Struct):
            yield from ((f"{name}_{inner}", one) for inner, one in _iter_fields(value))
        else:
            yield name, value


def _render_cell(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, Decimal):
        return f"{cell:f}"
    if not isinstance(cell, str):
        return str(cell)
    # Some spreadsheets skip leading blanks and control characters.
    begins = cell.lstrip().lstrip("\0")
    return (
        f"'{cell}"
        if begins.startswith(_FORMULA_PREFIXES) or cell[:1] in ("\t", "\r", "\n")
        else cell
    )
