"""Sums are exactly the recorded costs, from every quarter of an hour on."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from agentd.core.clock import parse_iso
from agentd.gateway.limits.spend_by_quarter_hour import (
    AHEAD,
    KeySpend,
    SpendByQuarterHour,
    SpendRow,
    get_quarter,
    get_quarter_start,
)
from tests.gateway.ledger.entries import BEGIN, ENTRIES, build_record


@given(ENTRIES, st.integers(0, 5 * 96))
def test_the_sum_of_a_key_is_exactly_that_of_its_rows_since_any_quarter(entries, quarters):
    sums = SpendByQuarterHour()
    for one in entries:
        sums.add_record(one)
    since = BEGIN + timedelta(minutes=15 * quarters)
    for key in {one.key for one in entries}:
        rows = [one for one in entries if one.key == key]
        assert Fraction(sums.get_spend(key)) == sum(Fraction(one.cost) for one in rows)
        later = [one for one in rows if parse_iso(one.at) >= since]
        assert Fraction(sums.get_spend(key, since)) == sum(Fraction(one.cost) for one in later)


@given(ENTRIES)
def test_rows_can_be_taken_in_again_and_lose_nothing(entries):
    sums = SpendByQuarterHour()
    for one in entries:
        sums.add_record(one)
    again = SpendByQuarterHour(sums.iter_rows())
    assert sorted(again.iter_rows()) == sorted(sums.iter_rows())
    by_key = [row for row in again.iter_rows() if ":" not in row.account]
    assert sum(row.spent.requests for row in by_key) == len(entries)


def test_a_key_that_never_called_has_spent_nothing():
    assert SpendByQuarterHour().get_spend("nobody") == 0
    assert SpendByQuarterHour().get_spend("nobody", BEGIN) == 0


def test_money_is_not_rounded_however_long_it_is():
    sums = SpendByQuarterHour([SpendRow("k", BEGIN, KeySpend(Decimal("1e30"), 1, 1))])
    sums.add_row(SpendRow("k", BEGIN, KeySpend(Decimal("1e-30"), 1, 1)))
    assert sums.get_spend("k") == Decimal(
        "1000000000000000000000000000000.000000000000000000000000000001"
    )


def test_tokens_in_and_out_and_every_request_count():
    sums = SpendByQuarterHour()
    sums.add_record(build_record())
    sums.add_record(build_record(outcome="refused", cost=Decimal(0)))
    (row,) = sums.iter_rows()
    assert (row.spent.tokens, row.spent.requests, row.spent.cost) == (30, 2, Decimal("0.25"))


def test_a_quarter_of_an_hour_has_its_number_and_its_beginning():
    assert get_quarter("2026-01-31T23:59:59.999Z") == 95
    assert get_quarter("2026-01-31T00:00:00.000Z") == 0
    assert get_quarter("2026-01-31T07:14:59.999Z") == 28
    assert get_quarter("2026-01-31T07:15:00.000Z") == 29
    assert get_quarter_start("2026-01-31", 95) == datetime(2026, 1, 31, 23, 45, tzinfo=UTC)


def test_what_was_spent_years_ahead_counts_in_total_alone():
    ahead = BEGIN + timedelta(days=3650)
    sums = SpendByQuarterHour(
        SpendRow("k", start, KeySpend(Decimal(cost))) for start, cost in ((BEGIN, 1), (ahead, 4))
    )
    assert sums.get_spend("k") == 5
    assert sums.get_spend("k", BEGIN) == 1
    assert sums.get_spend("k", ahead) == 4
    assert sums.get_spend("k", ahead - AHEAD) == 0
    assert sums.get_spend("k", ahead - AHEAD + timedelta(minutes=15)) == 4
