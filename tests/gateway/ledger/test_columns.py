"""Columns add up to what their rows add up to, in the order in which a report tells them."""

from decimal import Decimal

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from agentd.gateway.ledger.columns import ColumnTable, RankedRows, add_tables, pack_rows
from agentd.gateway.ledger.daily_totals import RequestTotals

FEW = st.integers(0, 3) | st.sampled_from([255, 256, 2**32 - 1, 2**63, 2**64, 10**30])
KINDS = st.dictionaries(st.sampled_from(["timeout", "a/b", "jwt"]), st.integers(1, 300))
COSTS = st.decimals(0, 10**6, places=9) | st.sampled_from(
    [Decimal(one) for one in ("0", "7", "0.00", "1.50", "1E-40", "123456789012.123456789012345")]
)
COST = Decimal("1.0000000000000000000000000000001E-9")
"""More digits than arithmetic keeps where nobody asks for them."""
ROWS = st.builds(
    RequestTotals,
    requests=FEW, ok=FEW, errors=KINDS, streams=FEW, estimated=FEW, input=FEW, cache_read=FEW,
    cache_write=FEW, cache_write_1h=FEW, output=FEW, reasoning=FEW, cost=COSTS, received=FEW,
    sent=FEW, hidden=KINDS,
)  # fmt: skip
TABLES = st.dictionaries(st.sampled_from(["a", "b", "c", "é", ""]), ROWS)


def format_costs(rows):
    """Format the costs exactly: equal ones may be written with more or fewer decimals."""
    return [(name, row, str(row.cost)) for name, row in rows]


def get_sort_key(one):
    """Sort as ``RankedRows`` does; a ``Decimal``'s own minus sign would round it."""
    name, row = one
    return row.cost.copy_negate(), -row.requests, name


@given(TABLES)
def test_rows_are_reported_by_columns_as_they_were(table):
    assert format_costs(pack_rows(table.items()).iter_rows()) == format_costs(sorted(table.items()))


@given(TABLES)
def test_columns_are_the_same_in_json(table):
    of = pack_rows(table.items())
    assert msgspec.json.decode(msgspec.json.encode(of), type=ColumnTable) == of


@given(st.lists(TABLES, max_size=5), st.integers(0, 5))
@example([{"": RequestTotals(cost=Decimal("1E-9"))}, {"a": RequestTotals(cost=COST)}], 0)
def test_columns_add_up_as_their_rows_do_and_the_dearest_comes_first(tables, cut):
    wanted: dict[str, RequestTotals] = {}
    for table in tables:
        for name, row in table.items():
            wanted.setdefault(name, RequestTotals()).add(row)
    parts = [pack_rows(table.items()) for table in tables]
    found = add_tables(parts)
    assert format_costs(found.iter_rows()) == format_costs(sorted(wanted.items()))
    assert [format_costs(part.iter_rows()) for part in parts] == [
        format_costs(sorted(table.items())) for table in tables
    ]
    halves = add_tables([add_tables(parts[:cut]), add_tables(parts[cut:])])
    assert format_costs(halves.iter_rows()) == format_costs(found.iter_rows())
    ranked = RankedRows(found)
    order = sorted(wanted.items(), key=get_sort_key)
    assert list(ranked) == order == ranked
    assert ranked[1:3] == order[1:3]
    assert len(ranked) == len(order)


@given(TABLES)
def test_what_is_zero_in_every_row_is_not_kept(table):
    of = pack_rows(table.items())
    assert all(any(column.unpack()) for column in of.columns.values())
