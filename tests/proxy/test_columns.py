"""Columns add up to what their rows add up to, in the order in which a report tells them."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from agentd.proxy.columns import NOTHING, Ranked, added, columns
from agentd.proxy.tally import Totals

FEW = st.integers(0, 3)
KINDS = st.dictionaries(st.sampled_from(["timeout", "a/b", "jwt"]), st.integers(1, 5))
COSTS = st.decimals(0, 10**6, places=9) | st.sampled_from([Decimal(0), Decimal(7)])
ROWS = st.builds(
    Totals,
    requests=FEW, ok=FEW, errors=KINDS, streams=FEW, estimated=FEW, input=FEW, cache_read=FEW,
    cache_write=FEW, cache_write_1h=FEW, output=FEW, reasoning=FEW, cost=COSTS, received=FEW,
    sent=FEW, hidden=KINDS,
)  # fmt: skip
TABLES = st.dictionaries(st.sampled_from(["a", "b", "c", "é", ""]), ROWS)


@given(TABLES)
def test_rows_are_told_by_columns_as_they_were(table):
    of = columns(table.items())
    assert dict(map(of.row, range(len(table)))) == table


@given(st.lists(TABLES, max_size=5))
def test_columns_add_up_as_their_rows_do_and_the_dearest_comes_first(tables):
    wanted: dict[str, Totals] = {}
    found = NOTHING
    for table in tables:
        before, as_it_was = found, list(Ranked(found))
        found = added(found, columns(table.items()))
        assert list(Ranked(before)) == as_it_was
        for name, row in table.items():
            wanted.setdefault(name, Totals()).add(row)
    ranked = Ranked(found)
    order = sorted(wanted.items(), key=lambda one: (-one[1].cost, -one[1].requests, one[0]))
    assert list(ranked) == order == ranked
    assert ranked[1:3] == order[1:3]
    assert len(ranked) == len(order)


@given(TABLES)
def test_what_is_zero_in_every_row_is_not_kept(table):
    of = columns(table.items())
    assert all(any(column) for column in of.counts.values())
