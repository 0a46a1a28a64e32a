"""Output of the commands: tables, results in words or in JSON, text made safe for a terminal."""

import json
import re
import sys
from collections.abc import Sequence
from typing import TextIO

MAX_WIDTH = 200
"""Characters of an excerpt."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""All control characters but tabs and line ends."""


def print_table(rows: Sequence[Sequence[str]], *, numbers: bool = False) -> None:
    """Print rows in columns; with ``numbers``, all but the first column are right-aligned.

    Names that others chose may be in them, so they are made safe for a terminal.
    """
    rows = [list(map(_make_safe, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        align = str.rjust if numbers else str.ljust
        cells = [first.ljust(widths[0]), *map(align, others, widths[1:])]
        print("  ".join(cells).rstrip())


def print_result(text: str, value: object, *, as_json: bool) -> None:
    """Print the value as JSON on standard output, or the text on standard error."""
    if as_json:
        print(json.dumps(value))
    else:
        print(text, file=sys.stderr)


def excerpt(text: str) -> str:
    """Return the first line, shortened, without characters that a terminal would interpret."""
    shown = next(iter(list_safe_lines(text.strip())), "")
    return f"{shown[:MAX_WIDTH]}{'…' if len(shown) > MAX_WIDTH else ''}"


def list_safe_lines(text: str) -> list[str]:
    """Return all lines, without characters that a terminal would interpret."""
    return list(map(_make_safe, text.splitlines()))


def print_foreign(text: str, stream: TextIO) -> None:
    """Print what a model, a supplier or the daemon wrote.

    To a terminal without the control characters that it would obey: they can change its title and
    settings, hide lines and set the clipboard. A file or another program gets the text as it is.
    """
    shown = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))
    print(shown if stream.isatty() else text, file=stream, flush=True)


def _make_safe(line: str) -> str:
    """Return one line without characters that a terminal would interpret."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in line)
