"""Output of the commands: tables, results in words or in JSON, text made safe for a terminal."""

import json
import sys
from collections.abc import Sequence

MAX_WIDTH = 200
"""Characters of an excerpt."""


def print_table(rows: Sequence[Sequence[str]], *, numbers: bool = False) -> None:
    """Print rows in columns; with ``numbers``, all but the first column are right-aligned."""
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
    return [
        "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line)
        for line in text.splitlines()
    ]
