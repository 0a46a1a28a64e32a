"""A request as a row: all of it, exactly, and nothing that must not leave."""

import json
from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from msgspec import structs

from agentd.gateway.export.rows import COLUMNS, ExportRow, build_row, encode_row
from agentd.gateway.ledger.record import RequestRecord
from tests.gateway.ledger.entries import ENTRIES, build_record

DAY = "2026-01-01"


def encode_and_parse(one: RequestRecord) -> dict[str, object]:
    return json.loads(encode_row(one, DAY, "s", 7), parse_float=Decimal)


def test_the_fields_of_a_row_are_the_columns_in_their_order():
    assert ExportRow.__struct_fields__ == tuple(column.name for column in COLUMNS)


def test_every_field_of_a_ledger_line_is_reported():
    """A field that is added to the ledger is to be added here, or left out on purpose."""
    named = {"id": "request_id", "was": "first_cost", "usage": "input", "timings": "ready_ms"}
    # A list, which is no column; and what only the undoing of a repricing needs.
    left_out = {"failed_tries", "earlier"}
    for field in structs.fields(RequestRecord):
        if field.name in left_out:
            continue
        assert named.get(field.name, field.name) in ExportRow.__struct_fields__


@given(ENTRIES)
def test_a_row_is_one_line_of_json_with_exact_money(entries):
    for one in entries:
        data = encode_row(one, DAY, "s", 7)
        assert data.count(b"\n") == 1
        found = encode_and_parse(one)
        assert Fraction(found["cost"]) == Fraction(one.cost)
        assert b"E" not in data.partition(b'"cost":')[2].partition(b",")[0]
        assert (found["hidden"], found["at"][:10]) == (sum(one.hidden.values()), one.at[:10])


def test_what_a_request_cost_at_first_stays_reported():
    assert encode_and_parse(build_record(cost=Decimal(2), was=Decimal(1)))["first_cost"] == 1
    assert encode_and_parse(build_record(cost=Decimal(2)))["first_cost"] == 2


def test_a_moment_is_reported_in_the_words_of_the_database():
    assert (
        build_row(build_record(at="2026-01-01T23:59:59.999Z"), DAY, "s", 1).at
        == "2026-01-01 23:59:59.999"
    )


def test_what_is_finer_than_the_column_is_rounded_and_never_in_powers():
    assert b'"cost":0.000000000000000001,' in encode_row(
        build_record(cost=Decimal("9E-19")), DAY, "s", 1
    )
    assert b'"cost":100.000000000000000000,' in encode_row(
        build_record(cost=Decimal("1E+2")), DAY, "s", 1
    )
