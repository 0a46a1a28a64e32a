"""Any days are covered by few stretches, each of which is made of two smaller ones or of days."""

from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from agentd.gateway.ledger.rollups import WIDTHS, cover_days, iter_rollups
from tests.support.paths import REPOSITORY

DAYS = st.dates(date(2020, 1, 1), date(2030, 1, 1))
COUNTS = st.integers(0, 500)


def list_days(stretches):
    found = []
    for stretch in stretches:
        first = date.fromisoformat(stretch.first)
        found += [(first + timedelta(n)).isoformat() for n in range(stretch.days)]
    return found


@given(DAYS, COUNTS)
def test_each_day_is_covered_once_in_order(first, count):
    wanted = [(first + timedelta(n)).isoformat() for n in range(count + 1)]
    found = list(cover_days(wanted[0], wanted[-1]))
    assert list_days(found) == wanted
    assert len(found) <= 2 * (WIDTHS[-1] - 1 + len(WIDTHS) - 1) + count // WIDTHS[0]


@given(DAYS)
def test_a_rollup_is_made_of_two_of_the_next_width_or_of_days(day):
    for stretch in cover_days(day.isoformat(), (day + timedelta(300)).isoformat()):
        if stretch.days > 1:
            parts = list(stretch.split())
            assert list_days(parts) == list_days([stretch])
            many = stretch.days if stretch.days == WIDTHS[-1] else 2
            assert [part.days for part in parts] == [stretch.days // many] * many


@given(DAYS, COUNTS, st.data())
def test_whatever_covers_some_of_the_days_is_inside_of_them_narrow_ones_first(first, count, data):
    wanted = [(first + timedelta(n)).isoformat() for n in range(count + 1)]
    every = list(iter_rollups(wanted[0], wanted[-1]))
    assert [one.days for one in every] == sorted(one.days for one in every)
    assert len(set(every)) == len(every)
    assert {day for one in every for day in list_days([one])} <= set(wanted)
    begin = data.draw(st.integers(0, count))
    end = data.draw(st.integers(begin, count))
    assert {one for one in cover_days(wanted[begin], wanted[end]) if one.days > 1} <= set(every)


@given(DAYS, COUNTS)
def test_the_wrong_way_round_there_is_none(first, count):
    last = (first - timedelta(count + 1)).isoformat()
    assert list(cover_days(first.isoformat(), last)) == []
    assert list(iter_rollups(first.isoformat(), last)) == []


def test_the_readme_of_the_state_folder_names_each_width():
    readme = " ".join((REPOSITORY / "state" / "README.md").read_text().split())
    *narrower, widest = sorted(WIDTHS)
    assert f"{', '.join(map(str, narrower))} or {widest} closed days" in readme
