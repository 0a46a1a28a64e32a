"""Each row of the acceptance has a test that names it.

A test says in its docstring which rows it holds: ``Row 6.``, ``Rows 37 to 39: …``.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent

_TABLE = re.compile(r"^\| (\d+) \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)

_NAMED = re.compile(r"\brows? (\d+(?:(?:, | and | to )\d+)*)", re.IGNORECASE)


def parse_rows(docstring: str) -> Iterator[int]:
    """Parse the rows that a docstring names; ``37 to 39`` are three."""
    for named in _NAMED.findall(docstring):
        for part in re.split(", | and ", named):
            first, _, last = part.partition(" to ")
            yield from range(int(first), int(last or first) + 1)


def find_rows(path: Path) -> set[int]:
    """Return the rows that the tests of a file cover."""
    return {
        row
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        for row in parse_rows(ast.get_docstring(node) or "")
    }


def test_the_table_has_each_row_and_its_files_have_tests_that_name_it() -> None:
    table = {int(row): held for row, held in _TABLE.findall((HERE / "README.md").read_text())}
    assert list(table) == list(range(1, 41))
    for row, held in table.items():
        files = re.findall(r"`([\w/]+\.py)`", held)
        assert files, row
        for name in files:
            assert row in find_rows(HERE / name), f"row {row}: {name}"


def test_rows_are_read_from_what_tests_say_of_themselves() -> None:
    assert list(parse_rows("Rows 1, 3 and 36 of the table; row 8.")) == [1, 3, 36, 8]
    assert list(parse_rows("Section 8, rows 37 to 39; the pictures")) == [37, 38, 39]
    assert not list(parse_rows("As many rows as 5."))
