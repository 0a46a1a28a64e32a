"""Repricing of a record, also of what its calls cost that were given up, and its exact undo."""

from decimal import Decimal

from agentd.gateway.ledger.record import FailedTry, RequestRecord
from agentd.gateway.pricing.repricing import (
    RepricingSummary,
    make_price_lookup,
    reprice,
    restore_price,
)
from agentd.llm.price import NO_USAGE, Prices, Usage
from agentd.models.gateway_model import GatewayModel, ModelRoute
from tests.gateway.ledger.entries import build_record

MILLION = 10**6
MODELS = {
    "large": GatewayModel(
        name="large",
        prices=Prices(input=Decimal(3), output=Decimal(15)),
        routes=(
            ModelRoute(channel="one", model="l"),
            ModelRoute(
                channel="two", model="l2", prices=Prices(input=Decimal(30), output=Decimal(150))
            ),
        ),
    ),
}
FIND = make_price_lookup(MODELS)
GIVEN_UP = FailedTry(
    "two",
    "unreachable",
    supplier_model="l2",
    usage=Usage(input=MILLION, output=MILLION),
    cost=Decimal(7),
)


def build(**more: object) -> RequestRecord:
    usual = {
        "supplier_model": "l",
        "usage": Usage(input=MILLION),
        "cost": Decimal(8),
        "failed_tries": (FailedTry("one", "server"), GIVEN_UP),
        "estimated": True,
    }
    return build_record(**(usual | more))


def test_a_call_that_was_given_up_is_repriced_by_the_prices_of_its_own_route():
    difference = RepricingSummary()
    now = reprice(build(), difference, FIND, 5)
    assert [one.cost for one in now.failed_tries] == [0, 180]
    assert (now.cost, now.was, now.given_up_cost) == (183, 8, 180)
    assert (difference.changed, difference.before, difference.after) == (1, 8, 183)
    assert reprice(now, RepricingSummary(), FIND, 6) == now


def test_the_undo_of_a_repricing_restores_what_each_call_cost():
    for before in (build(), build(cost=Decimal(0), failed_tries=(FREE,))):
        now = reprice(before, RepricingSummary(), FIND, 5)
        back = restore_price(now, RepricingSummary(), 5, 6)
        assert (back.cost, back.was, back.failed_tries) == (before.cost, None, before.failed_tries)
        again = restore_price(back, RepricingSummary(), 6, 7)
        assert (again.cost, again.failed_tries) == (now.cost, now.failed_tries)


FREE = FailedTry("two", "unreachable", supplier_model="l2", usage=Usage(input=MILLION))
"""A call of a time when no price was known, and such calls were free."""


def test_a_request_that_costs_only_what_was_given_up_is_repriced_too():
    entry = build(usage=NO_USAGE, cost=Decimal(7), outcome="failed")
    difference = RepricingSummary()
    now = reprice(entry, difference, FIND, 5)
    assert (now.cost, difference.unpriced) == (180, 0)


def test_where_no_price_is_known_every_cost_stays():
    entry = build(model="unknown")
    difference = RepricingSummary()
    assert reprice(entry, difference, make_price_lookup({}), 5) == entry
    assert (difference.changed, difference.unpriced) == (0, 1)
