"""Budgets are of an owner or of a tag, and no two have a name or an account in common."""

from decimal import Decimal

import pytest

from agentd.gateway.keys.limits import KeyLimits, LimitRaise
from agentd.gateway.limits.budgets import Budget, validate

FIVE, NINE = KeyLimits(day=Decimal(5)), KeyLimits(day=Decimal(9))
UNTIL = "2026-01-31T12:00:00.000Z"


@pytest.mark.parametrize("fields", [{}, {"owner": "ann", "tag": "night"}])
def test_a_budget_is_of_an_owner_or_of_a_tag(fields):
    with pytest.raises(ValueError, match="either an owner or a tag"):
        Budget(name="b", **fields)


@pytest.mark.parametrize("field", ["name", "owner", "tag"])
def test_names_owners_and_tags_are_labels(field):
    with pytest.raises(ValueError, match=field):
        Budget(**({"name": "b", "tag": "" if field == "owner" else "t"} | {field: "a\nb"}))


def test_a_budget_has_no_models_whose_limits_could_be_raised():
    models = {"large": NINE}
    with pytest.raises(ValueError, match="raised: models"):
        Budget(name="b", tag="t", limits=FIVE, raised=LimitRaise(until=UNTIL, models=models))


def test_the_time_of_its_creation_is_kept_in_the_form_of_all_times():
    assert Budget(name="b", tag="t", created="2026-01-31T13:00:00+01:00").created == UNTIL
    with pytest.raises(ValueError, match="created"):
        Budget(name="b", tag="t", created="yesterday")


def test_a_raise_ends_at_its_moment():
    budget = Budget(name="b", tag="t", limits=FIVE, raised=LimitRaise(limits=NINE, until=UNTIL))
    assert budget.get_limits("2026-01-31T11:59:59.999Z") == NINE
    assert budget.get_limits(UNTIL) == FIVE


def test_a_name_or_an_account_that_another_budget_has_is_a_problem():
    budgets = [
        Budget(name="a", owner="ann"),
        Budget(name="b", tag="ann"),
        Budget(name="a", tag="night"),
        Budget(name="c", owner="ann"),
    ]
    assert list(validate(budgets)) == [
        ((2, "name"), '"a" is the name of a budget above; choose another'),
        (
            (3, "owner"),
            'the budget "a" above is of the same owner; write all limits into one',
        ),
    ]
    others = [Budget(name="d", owner="bob"), Budget(name="e", tag="night")]
    assert not list(validate([*budgets[:2], *others]))
