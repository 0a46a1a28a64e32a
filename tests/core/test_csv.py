"""CSV: RFC 4180, and nothing in it that a spreadsheet would carry out."""

import csv
import io
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.csv import render_csv

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"))


def test_lines_end_with_crlf_and_odd_cells_are_quoted() -> None:
    rows = [["a", 'say "b"', "c,d"], [1, Decimal("0.0000001"), None], ["x\ny", 1.5, ""]]
    assert render_csv(rows) == b'a,"say ""b""","c,d"\r\n1,0.0000001,\r\n"x\ny",1.5,\r\n'


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r", "\n", " =", "\t@", "\uff1d"])
def test_text_that_begins_like_a_formula_is_made_harmless(begin: str) -> None:
    ((cell,),) = csv.reader(io.StringIO(render_csv([[begin + "cmd()"]]).decode(), newline=""))
    assert cell == f"'{begin}cmd()"


@given(st.lists(st.lists(texts, min_size=2, max_size=4)))
def test_every_text_comes_back_with_an_apostrophe_at_most(rows: list[list[str]]) -> None:
    result = io.StringIO(render_csv(rows).decode(), newline="")
    found = list(csv.reader(result))
    assert len(found) == len(rows)
    for ours, theirs in zip(rows, found, strict=True):
        assert all(cell in (was, f"'{was}") for was, cell in zip(ours, theirs, strict=True))
        assert not any(cell.lstrip().startswith(("=", "+", "-", "@")) for cell in theirs)
