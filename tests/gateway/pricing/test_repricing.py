"""Repricing of a record, also of what its calls cost that were given up, and its exact undo."""

from decimal import Decimal

from msgspec import structs

from agentd.gateway.ledger.record import FailedTry, RequestRecord
from agentd.gateway.pricing.repricing import (
    RepricingSummary,
    make_price_lookup,
    reprice,
    restore_price,
)
from agentd.llm.price import NO_USAGE, Prices, ServiceRates, Usage
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
    assert (now.cost, now.priced, difference.unpriced) == (180, "", 0)


def test_where_no_price_is_known_every_cost_stays():
    entry = build(model="unknown")
    difference = RepricingSummary()
    assert reprice(entry, difference, make_price_lookup({}), 5) == entry
    assert (difference.changed, difference.unpriced) == (0, 1)


def test_what_used_no_tokens_is_no_request_of_a_repricing():
    entry = build(usage=NO_USAGE, cost=Decimal(0), failed_tries=(FailedTry("one", "server"),))
    difference = RepricingSummary()
    assert reprice(entry, difference, FIND, 5) is entry
    assert difference == RepricingSummary()


def test_what_is_repriced_at_the_same_prices_is_not_changed_and_can_be_undone_as_before():
    plain = build(failed_tries=(), estimated=False, cost=Decimal(1))
    first = reprice(plain, RepricingSummary(), FIND, 5)
    difference = RepricingSummary()
    assert reprice(first, difference, FIND, 6) is first
    assert (first.earlier.change, difference.requests, difference.changed) == (5, 1, 0)
    assert (difference.before, difference.after, difference.unpriced) == (3, 3, 0)


def test_a_repricing_without_a_number_cannot_be_undone():
    now = reprice(build(), RepricingSummary(), FIND, 0)
    assert now.earlier is None


def test_a_request_has_the_version_of_its_new_prices_and_is_estimated_where_a_rate_was_assumed():
    exact = build(failed_tries=(), estimated=False)
    now = reprice(exact, RepricingSummary(), FIND, 5)
    assert (now.priced, now.estimated) == (FIND(exact)[1], False)
    assert now.priced
    cached = structs.replace(exact, usage=Usage(cache_read=MILLION))
    assert reprice(cached, RepricingSummary(), FIND, 5).estimated
    guessed = structs.replace(exact, estimated=True)
    assert reprice(guessed, RepricingSummary(), FIND, 5).estimated, "perhaps its usage was guessed"


def test_a_cost_that_is_what_it_was_first_is_no_longer_marked_as_another():
    entry = build(failed_tries=(), cost=Decimal(3), priced="v1")
    dearer = Prices(input=Decimal(9), output=Decimal(9))
    now = reprice(entry, RepricingSummary(), lambda _: (dearer, "v2"), 5)
    assert (now.cost, now.was) == (9, 3)
    dearest = Prices(input=Decimal(20), output=Decimal(9))
    now = reprice(now, RepricingSummary(), lambda _: (dearest, "v3"), 6)
    assert (now.cost, now.was) == (20, 3)
    now = reprice(now, RepricingSummary(), FIND, 7)
    assert (now.cost, now.was) == (3, None)


def test_the_undo_of_another_change_or_of_none_leaves_a_request_as_it_is():
    entry, difference = build(), RepricingSummary()
    assert restore_price(entry, difference, 5, 6) is entry
    now = reprice(entry, RepricingSummary(), FIND, 5)
    assert restore_price(now, difference, 4, 6) is now
    assert difference == RepricingSummary()
    back = restore_price(now, difference, 5, 6)
    assert (difference.requests, difference.changed, difference.unpriced) == (1, 1, 0)
    assert (difference.before, difference.after) == (183, 8)
    assert (back.earlier.change, back.earlier.cost) == (6, 183)


def test_the_undo_keeps_calls_that_were_never_charged():
    free = (FailedTry("one", "server"), FailedTry("two", "rate_limit"))
    now = reprice(build(failed_tries=free), RepricingSummary(), FIND, 5)
    assert now.earlier.tries == ()
    assert restore_price(now, RepricingSummary(), 5, 6).failed_tries == free


def test_prices_are_those_of_the_route_or_else_of_the_model_that_answered():
    flex = ServiceRates(tier="flex", input=Decimal(1), output=Decimal(2))
    small = GatewayModel(
        name="small",
        prices=Prices(input=Decimal(2), output=Decimal(4), services=(flex,)),
        routes=(
            ModelRoute(channel="one"),
            ModelRoute(channel="two", prices=Prices(input=Decimal(5), output=Decimal(6))),
        ),
    )
    unpriced = GatewayModel(name="free", routes=(ModelRoute(channel="one", model="f"),))
    find = make_price_lookup({**MODELS, "small": small, "free": unpriced})

    def find_input(**more: object) -> Decimal | None:
        prices, version = find(build_record(**more))
        assert bool(prices) == bool(version)
        return prices and prices.input

    assert find_input(channel="two", supplier_model="l2") == 30
    assert find_input(channel="one", supplier_model="l") == 3
    assert find_input(channel="gone", supplier_model="l") == 3
    assert find_input(fallback="small", channel="one", supplier_model="small") == 2
    assert find_input(model="small", channel="one", supplier_model="small", tier="flex") == 1
    assert find_input(model="small", channel="one", supplier_model="small", tier="other") == 2
    assert find_input(model="small", channel="two", supplier_model="small") == 5
    assert find_input(model="free", channel="one", supplier_model="f") is None
    assert find_input(model="gone") is None


def test_the_differences_of_days_add_up():
    one = RepricingSummary(1, 2, 3, Decimal(4), Decimal(5))
    one.add(RepricingSummary(10, 20, 30, Decimal(40), Decimal(50)))
    assert one == RepricingSummary(11, 22, 33, Decimal(44), Decimal(55))
