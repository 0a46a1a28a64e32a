"""Render tables as CSV (RFC 4180), safe to open in a spreadsheet.

A spreadsheet evaluates a cell that begins with ``=`` as a formula, whoever wrote it (CSV
injection). Text with such a prefix gets a leading apostrophe, which spreadsheets do not display.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import TypeAlias, TypeVar

from msgspec import Struct, structs

Cell: TypeAlias = str | int | float | Decimal | None
T = TypeVar("T", bound=Struct)

_FORMULA_PREFIXES = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Characters that start a formula, with their full-width forms."""


def render_csv(rows: Iterable[Sequence[Cell]]) -> bytes:
    """Return the rows as UTF-8 lines that end in CRLF; ``None`` is an empty cell."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerows([_render_cell(cell) for cell in row] for row in rows)
    return text.getvalue().encode("utf-8", "replace")


def render_structs_as_csv(kind: type[T], rows: Iterable[T], *, with_header: bool = True) -> bytes:
    """Return the rows with a header, also if there are none.

    A field whose type is a struct becomes several columns.
    """
    head = [[*_iter_names(kind)]] if with_header else []
    return render_csv([*head, *([*_iter_cells(row)] for row in rows)])


def _iter_names(kind: type[Struct]) -> Iterator[str]:
    for field in structs.fields(kind):
        if isinstance(field.type, type) and issubclass(field.type, Struct):
            yield from (f"{field.name}_{inner}" for inner in _iter_names(field.type))
        else:
            yield field.name


def _iter_cells(row: Struct) -> Iterator[Cell]:
    for name in row.__struct_fields__:
        value = getattr(row, name)
        if isinstance(value, Struct):
            yield from _iter_cells(value)
        else:
            yield value


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
