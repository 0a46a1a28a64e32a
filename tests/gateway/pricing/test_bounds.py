"""Reservations are never below the recorded cost; an unknown price is never silently free."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.errors import Forbidden
from agentd.gateway.pricing.bounds import (
    ASSUMED_OUTPUT,
    Pricing,
    RecordedCost,
    choose_output_limit,
    compute_max_output_tokens,
    compute_recorded_cost,
    compute_upper_bound,
    compute_version,
    compute_worst_case_usage,
    estimate_tokens,
    settle_pricing,
)
from agentd.gateway.pricing.repricing import make_price_lookup
from agentd.llm.price import NO_USAGE, Prices, ServiceRates, Tier, Usage
from agentd.models.gateway_model import GatewayModel, ModelRoute
from tests.gateway.ledger.entries import build_record

RATE = st.decimals(0, 100, places=4)
MAYBE = st.none() | RATE
COUNT = st.integers(0, 400_000)
CHEAP = Prices(input=Decimal(1), output=Decimal(2))
DEAR = Prices(input=Decimal(10), output=Decimal(20))


def build_tier(tokens: int, *rates: Decimal | None) -> Tier:
    return Tier(tokens=tokens, **name_rates(*rates))


def name_rates(*rates: Decimal | None) -> dict[str, Decimal | None]:
    names = ("input", "output", "cache_read", "cache_write", "cache_write_1h", "reasoning")
    return dict(zip(names, rates, strict=True))


RATES = (RATE, RATE, MAYBE, MAYBE, MAYBE, MAYBE)
PRICES = st.builds(
    lambda rates, tiers: Prices(**name_rates(*rates), above=tuple(tiers)),
    st.tuples(*RATES),
    st.lists(
        st.builds(build_tier, st.integers(1, 400_000), *RATES),
        max_size=3,
        unique_by=lambda one: one.tokens,
    ),
)


@given(PRICES, st.tuples(*[COUNT] * 6), COUNT, COUNT)
def test_no_request_costs_more_than_was_reserved_for_so_many_tokens(prices, counts, more, further):
    usage = Usage(*counts)
    pricing = Pricing(prices)
    bound = compute_upper_bound(pricing, usage.total_input + more, usage.total_output + further)
    assert compute_recorded_cost(usage, pricing).cost <= bound


def test_the_bound_is_that_of_the_dearest_bucket_in_the_dearest_tier_that_is_reached():
    prices = Prices(
        **name_rates(*map(Decimal, (3, 15, 0, 4, 6, 20))),
        above=(
            build_tier(200, *map(Decimal, (1, 1, 1, 1, 1, 1))),
            build_tier(500, *map(Decimal, [9] * 6)),
        ),
    )
    pricing = Pricing(prices)
    assert compute_upper_bound(pricing, 100, 10) == Decimal("0.0008")
    assert compute_upper_bound(pricing, 300, 10) == Decimal("0.0020"), (
        "a cheaper tier may not be reached"
    )
    assert compute_upper_bound(pricing, 500, 0) == Decimal("0.003")
    assert compute_upper_bound(pricing, 501, 0) == Decimal("0.004509")


def test_an_unknown_price_is_refused_estimated_or_flagged_but_never_silently_nothing():
    with pytest.raises(Forbidden) as caught:
        settle_pricing("gpt", None, "refuse", CHEAP)
    assert '"gpt"' in caught.value.message
    assert "proxy.yml" in caught.value.details
    used = Usage(input=1_000_000)
    estimate = compute_recorded_cost(used, settle_pricing("gpt", None, "estimate", CHEAP))
    assert (estimate.cost, estimate.estimated) == (Decimal(1), True)
    assert estimate.priced == compute_version(CHEAP)
    flag = settle_pricing("gpt", None, "flag", CHEAP)
    assert compute_upper_bound(flag, 10, 10) == 0
    assert compute_recorded_cost(used, flag) == compute_recorded_cost(used, Pricing(None))
    assert (
        compute_recorded_cost(used, flag).cost,
        compute_recorded_cost(used, flag).estimated,
    ) == (0, True)
    assert compute_recorded_cost(used, flag).priced == ""


def test_a_known_price_needs_no_policy():
    assert settle_pricing("gpt", CHEAP, "refuse", CHEAP) == Pricing(CHEAP)


def test_another_tier_of_service_is_refused_or_guessed_at_the_usual_price():
    with pytest.raises(Forbidden) as caught:
        settle_pricing("gpt", CHEAP, "refuse", CHEAP, "flex")
    assert '"flex"' in caught.value.message
    for policy in ("estimate", "flag"):
        found = compute_recorded_cost(
            Usage(input=1_000_000), settle_pricing("gpt", CHEAP, policy, DEAR, "flex")
        )
        assert (found.cost, found.estimated, found.priced) == (1, True, compute_version(CHEAP))
    assert settle_pricing("gpt", None, "flag", CHEAP, "flex") == Pricing(None, known=False)


def test_a_tier_of_service_with_rates_of_its_own_has_a_known_price():
    fast = ServiceRates(tier="priority", input=Decimal(2), output=Decimal(4))
    prices = Prices(input=Decimal(1), output=Decimal(2), services=(fast,))
    pricing = settle_pricing("gpt", prices, "refuse", DEAR, "priority")
    assert compute_recorded_cost(Usage(input=10**6, output=10**6), pricing) == RecordedCost(
        Decimal(6), compute_version(Prices(input=Decimal(2), output=Decimal(4))), False
    )
    assert settle_pricing("gpt", prices, "refuse", DEAR) == Pricing(prices)
    assert compute_version(prices) == compute_version(CHEAP)
    with pytest.raises(Forbidden):
        settle_pricing("gpt", prices, "refuse", DEAR, "flex")
    with pytest.raises(ValueError, match="two have the tier priority"):
        Prices(input=Decimal(1), output=Decimal(2), services=(fast, fast))


def test_what_was_asked_of_another_tier_is_repriced_by_its_own_rates():
    fast = ServiceRates(tier="priority", input=Decimal(2), output=Decimal(4))
    prices = Prices(input=Decimal(1), output=Decimal(2), services=(fast,))
    model = GatewayModel(name="large", routes=(ModelRoute(channel="one"),), prices=prices)
    prices_of = make_price_lookup({"large": model})
    assert prices_of(build_record(tier="priority"))[0] == prices.for_service("priority")
    assert prices_of(build_record())[0] == prices_of(build_record(tier="flex"))[0] == prices


def test_what_a_fallback_answered_is_repriced_by_its_own_rates():
    own, others = (Prices(input=Decimal(rate), output=Decimal(rate)) for rate in (1, 5))
    way = (ModelRoute(channel="one"),)
    prices_of = make_price_lookup(
        {
            "large": GatewayModel(name="large", routes=way, prices=own),
            "small": GatewayModel(name="small", routes=way, prices=others),
        }
    )
    assert prices_of(build_record())[0] == own
    assert prices_of(build_record(fallback="small"))[0] == others
    assert prices_of(build_record(fallback="gone"))[0] is None


def test_what_is_assumed_is_marked():
    pricing = Pricing(CHEAP)
    assert not compute_recorded_cost(Usage(input=5, output=5), pricing).estimated
    assert compute_recorded_cost(Usage(input=5), pricing, reported=False).estimated
    assert compute_recorded_cost(Usage(cache_read=5), pricing).estimated, "no rate was given for it"
    assert not compute_recorded_cost(NO_USAGE, pricing).estimated
    assert not compute_recorded_cost(NO_USAGE, Pricing(None)).estimated
    assert compute_recorded_cost(NO_USAGE, pricing, reported=False).estimated


@given(PRICES, PRICES)
def test_two_lists_of_prices_share_a_version_only_when_they_are_the_same(one, two):
    same = {**get_fields(one)} == {**get_fields(two)}
    assert (compute_version(one) == compute_version(two)) == same


def get_fields(prices: Prices) -> dict[str, object]:
    tiers = {t.tokens: [getattr(t, name) for name in name_rates(*[None] * 6)] for t in prices.above}
    return {"above": tiers} | {name: getattr(prices, name) for name in name_rates(*[None] * 6)}


def test_how_a_price_is_written_and_the_order_of_tiers_make_no_other_version():
    tiers = build_tier(1, *[Decimal(1)] * 6), build_tier(2, *[Decimal(2)] * 6)
    one = Prices(input=Decimal("3"), output=Decimal("10"), above=tiers)
    two = Prices(input=Decimal("3.00"), output=Decimal("1E+1"), above=tiers[::-1])
    assert compute_version(one) == compute_version(two)
    close = Prices(input=Decimal("3.0000000000000000000000000000000001"), output=Decimal(10))
    assert compute_version(close) != compute_version(Prices(input=Decimal(3), output=Decimal(10)))


def test_a_version_is_short_and_stays_the_same_over_releases():
    assert compute_version(CHEAP) == "80edbaf14e7d"


def test_replies_are_bounded_by_what_is_asked_and_what_the_model_can_do():
    for bounded in (False, True):
        assert choose_output_limit(0, 100, bounded=bounded) == 100
        assert choose_output_limit(50, 100, bounded=bounded) == 50
        assert choose_output_limit(10**9, 100, bounded=bounded) == 100
        assert choose_output_limit(50, None, bounded=bounded) == 50
    assert choose_output_limit(0, None, bounded=True) == ASSUMED_OUTPUT
    assert choose_output_limit(0, None, bounded=False) == 0


def test_several_replies_may_all_reach_the_limit():
    assert [compute_max_output_tokens(50, replies) for replies in (0, 1, 3)] == [50, 50, 150]
    assert compute_max_output_tokens(0, 2) == 2 * ASSUMED_OUTPUT


def test_tokens_of_a_text_are_rather_counted_too_many():
    assert [estimate_tokens(size) for size in (0, 1, 3, 4)] == [0, 1, 1, 2]


@given(
    tokens=st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)),
    rates=st.lists(st.decimals(0, 100, places=3), min_size=6, max_size=6),
)
def test_a_client_that_may_have_used_up_all_that_was_reserved_pays_for_just_that(tokens, rates):
    names = ("input", "output", "cache_read", "cache_write", "cache_write_1h", "reasoning")
    pricing = Pricing(Prices(**dict(zip(names, rates, strict=True))))
    most = compute_worst_case_usage(pricing, NO_USAGE, *tokens)
    assert (most.total_input, most.total_output) == tokens
    assert compute_recorded_cost(most, pricing, reported=False).cost == compute_upper_bound(
        pricing, *tokens
    )


def test_what_a_supplier_counted_before_nobody_listened_holds():
    pricing = Pricing(CHEAP)
    known = Usage(input=7, cache_read=900, output=3)
    most = compute_worst_case_usage(pricing, known, 5000, 100)
    assert (most.input, most.cache_read, most.total_output) == (7, 900, 100)
    assert compute_worst_case_usage(Pricing(None), NO_USAGE, 50, 100) == Usage(input=50, output=100)


@pytest.mark.parametrize("known", [NO_USAGE, Usage(input=1001)])
def test_what_may_have_been_used_up_is_in_the_dearest_bucket_of_the_tier_that_was_reached(known):
    tier = build_tier(1000, *map(Decimal, (1, 2, 1, 1, 1, 9)))
    pricing = Pricing(Prices(input=Decimal(1), output=Decimal(2), above=(tier,)))
    most = compute_worst_case_usage(pricing, known, 1001, 100)
    assert (most.output, most.reasoning) == (0, 100)
    below = compute_worst_case_usage(pricing, Usage(input=1000), 1001, 100)
    assert (below.output, below.reasoning) == (100, 0)
