"""Each token is in one bucket and paid once; money is exact; nonsense costs nothing."""

import ast
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from agentd.llm import price
from agentd.llm.dialects.usage import render_anthropic_usage
from agentd.llm.price import (
    NO_USAGE,
    Prices,
    Tier,
    Usage,
    compute_cost,
    compute_cost_by_bucket,
    find_assumed_buckets,
    parse_anthropic_usage,
    parse_chat_usage,
    parse_responses_usage,
    sum_amounts,
)


def build_prices(**rates: str | None) -> Prices:
    given = {"input": "0", "output": "0", **rates}
    return Prices(**{name: Decimal(rate) for name, rate in given.items() if rate is not None})


def build_chat_usage(prompt: int, cached: int = 0, completion: int = 0, **more: object) -> Usage:
    return parse_chat_usage(
        {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "prompt_tokens_details": {"cached_tokens": cached},
            **more,
        }
    )


rates = st.decimals(min_value=0, max_value=1000, places=6)
maybe = st.none() | rates
tokens = st.integers(0, 10**9)
usages = st.builds(Usage, tokens, tokens, tokens, tokens, tokens, tokens)
tiers = st.lists(
    st.builds(Tier, tokens=st.integers(1, 10**9), input=rates, output=rates, cache_read=maybe),
    max_size=3,
    unique_by=lambda tier: tier.tokens,
).map(tuple)
flat = st.builds(
    Prices,
    input=rates,
    output=rates,
    cache_read=maybe,
    cache_write=maybe,
    cache_write_1h=maybe,
    reasoning=maybe,
)
tiered = st.builds(structs.replace, flat, above=tiers)


def test_a_cache_write_bill_of_anthropic():
    usage = parse_anthropic_usage(
        {
            "input_tokens": 3,
            "cache_creation_input_tokens": 12304,
            "cache_read_input_tokens": 0,
            "output_tokens": 550,
        }
    )
    rates = build_prices(input="3", cache_write="3.75", cache_read="0.30", output="15")
    assert compute_cost(usage, rates) == Decimal("0.054399")


def test_a_long_cached_prompt_is_not_paid_twice():
    rates = build_prices(input="1.25", cache_read="0.625", output="10")
    assert compute_cost(build_chat_usage(262960, 257955, 1744), rates) == Decimal("0.184918125")


def test_a_cached_prompt_without_any_reply():
    assert compute_cost(
        build_chat_usage(44341, 41518), build_prices(input="1.4", cache_read="0.26")
    ) == Decimal("0.01474688")


def test_a_partly_cached_prompt():
    rates = build_prices(input="0.50", cache_read="0.05", output="3")
    assert compute_cost(build_chat_usage(20212, 16298, 931), rates) == Decimal("0.0055649")


def test_reasoning_beside_the_completion_is_paid_too():
    usage = build_chat_usage(
        10120, 128, 1499, total_tokens=14428, completion_tokens_details={"reasoning_tokens": 2809}
    )
    assert (usage.output, usage.reasoning) == (1499, 2809)
    rates = build_prices(input="1.25", cache_read="0.20", output="2.50")
    assert compute_cost(usage, rates) == Decimal("0.0232856")


def test_reasoning_inside_the_completion_is_paid_once():
    for totals in ({"total_tokens": 110}, {}):
        usage = build_chat_usage(
            10, 0, 100, completion_tokens_details={"reasoning_tokens": 60}, **totals
        )
        assert (usage.output, usage.reasoning) == (40, 60)
    assert compute_cost(usage, build_prices(output="1", reasoning="2")) == Decimal("0.00016")
    assert compute_cost(usage, build_prices(output="1")) == Decimal("0.0001")


def test_the_responses_api_counts_like_a_chat():
    usage = parse_responses_usage(
        {
            "input_tokens": 30,
            "input_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 4},
            "output_tokens": 9,
            "output_tokens_details": {"reasoning_tokens": 5},
            "total_tokens": 39,
        }
    )
    assert usage == Usage(input=6, cache_read=20, cache_write=4, output=4, reasoning=5)


def test_of_a_stream_of_anthropic_the_latest_word_on_each_count_holds():
    start = {"input_tokens": 10, "cache_read_input_tokens": 20, "output_tokens": 1}
    deltas = ({"output_tokens": 5}, {"output_tokens": 9, "input_tokens": None})
    assert parse_anthropic_usage(start, *deltas) == Usage(input=10, cache_read=20, output=9)
    late = {"input_tokens": 12, "cache_read_input_tokens": 18, "output_tokens": 9}
    assert parse_anthropic_usage(start, late) == Usage(input=12, cache_read=18, output=9)


def test_thinking_that_anthropic_counts_is_paid_once():
    start = {"input_tokens": 10, "output_tokens": 1}
    last = {"output_tokens": 100, "output_tokens_details": {"thinking_tokens": 60}}
    usage = parse_anthropic_usage(start, last)
    assert usage == Usage(input=10, output=40, reasoning=60)
    assert render_anthropic_usage(usage) | last == render_anthropic_usage(usage)
    assert "output_tokens_details" not in render_anthropic_usage(Usage(input=10, output=40))
    assert parse_anthropic_usage(last, {"output_tokens": 50}) == Usage(reasoning=50)


def test_what_is_cached_for_an_hour_is_a_bucket_of_its_own():
    report = {
        "cache_creation_input_tokens": 100,
        "cache_creation": {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 70},
    }
    assert parse_anthropic_usage(report) == Usage(cache_write=30, cache_write_1h=70)
    del report["cache_creation_input_tokens"]
    assert parse_anthropic_usage(report) == Usage(cache_write=30, cache_write_1h=70)


@given(tokens, tokens, tokens, tokens, st.booleans())
def test_every_token_that_openai_counted_is_in_one_bucket(
    prompt, cached, completion, thought, tell
):
    cached, thought = min(cached, prompt), min(thought, completion)
    more = {"total_tokens": prompt + completion} if tell and thought else {}
    usage = build_chat_usage(
        prompt, cached, completion, completion_tokens_details={"reasoning_tokens": thought}, **more
    )
    assert (usage.total_input, usage.total_output) == (prompt, completion)


NAMES = [
    *("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens", "total_tokens"),
    *("prompt_tokens_details", "completion_tokens_details", "input_tokens_details"),
    *("cached_tokens", "cache_write_tokens", "reasoning_tokens", "cache_creation"),
    *("output_tokens_details", "thinking_tokens"),
    *("cache_creation_input_tokens", "cache_read_input_tokens", "ephemeral_1h_input_tokens"),
]
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner),
    max_leaves=12,
)


@given(junk, junk)
def test_nonsense_is_never_raised_never_negative_and_never_more_than_was_said(one, other):
    for usage in (
        parse_chat_usage(one),
        parse_responses_usage(one),
        parse_anthropic_usage(one, other),
    ):
        assert all(type(count) is int and count >= 0 for count in structs.astuple(usage))


@pytest.mark.parametrize("count", [None, True, -1, "12", float("nan"), float("inf"), 1.5, 10**13])
def test_what_is_no_count_counts_as_nothing(count):
    assert parse_chat_usage({"prompt_tokens": count}) == NO_USAGE


def test_a_whole_number_with_a_point_is_a_count():
    assert parse_chat_usage({"prompt_tokens": 12.0}) == Usage(input=12)


@given(usages, usages, flat)
def test_without_tiers_the_cost_of_two_is_the_sum_of_their_costs(one, other, rates):
    assert compute_cost(one + other, rates) == compute_cost(one, rates) + compute_cost(other, rates)


@given(usages, tiered)
def test_a_cost_is_the_sum_of_its_parts_and_never_negative(usage, rates):
    parts = compute_cost_by_bucket(usage, rates)
    assert compute_cost(usage, rates) == sum(parts.values())
    assert all(part >= 0 for part in parts.values())
    used = {name for name, count in structs.asdict(usage).items() if count}
    assert parts.keys() == used


@given(usages, flat)
def test_the_cost_is_exact(usage, rates):
    millionths = Decimal(10) ** 6  # rates have six places: then all is whole
    whole = sum(
        count * int(rates.get_rate(bucket)[0] * millionths)
        for bucket, count in structs.asdict(usage).items()
    )
    assert int(compute_cost(usage, rates) * millionths * millionths) == whole


@given(st.lists(st.tuples(st.integers(0, 10**18), st.integers(-18, 18)), max_size=5))
def test_a_sum_of_money_is_never_rounded(written):
    amounts = [Decimal(digits).scaleb(exponent) for digits, exponent in written]
    assert Fraction(sum_amounts(amounts)) == sum(map(Fraction, amounts))


def test_all_tokens_of_a_request_above_a_size_cost_what_the_highest_tier_reached_says():
    rates = structs.replace(
        build_prices(input="1", output="10"),
        above=(
            Tier(tokens=200, input=Decimal(2), output=Decimal(20)),
            Tier(tokens=100, input=Decimal("1.5"), output=Decimal(15)),
        ),
    )
    assert compute_cost(Usage(input=100), rates) == Decimal("0.0001")
    assert compute_cost(Usage(input=101), rates) == Decimal("0.0001515")
    assert compute_cost(Usage(input=1, cache_read=200, output=10), rates) == Decimal("0.000602")


def test_a_rate_that_is_not_known_is_never_free_and_is_reported():
    rates = build_prices(input="3", output="15", cache_write="4")
    usage = Usage(cache_read=10, cache_write=10, cache_write_1h=10, reasoning=10)
    assert find_assumed_buckets(usage, rates) == ("cache_read", "cache_write_1h")
    assert compute_cost(usage, rates) == Decimal("0.00026")
    assert find_assumed_buckets(Usage(input=1, output=1), rates) == ()


def test_a_rate_of_zero_is_known():
    rates = build_prices(input="3", cache_read="0")
    assert compute_cost(Usage(cache_read=10), rates) == 0
    assert not find_assumed_buckets(Usage(cache_read=10), rates)


@pytest.mark.parametrize("rate", ["-1", "NaN", "Infinity", "1000001"])
def test_what_is_no_price_is_refused(rate):
    with pytest.raises(ValueError, match=r"cache_read: .* is not a price"):
        build_prices(cache_read=rate)


def test_a_price_has_no_more_decimals_than_exact_sums_can_have():
    assert compute_cost(Usage(input=10), build_prices(input="1e-50")) == Decimal("1e-55")
    with pytest.raises(ValueError, match="cache_read: 1E-51 has more than 50 decimals"):
        build_prices(cache_read="1e-51")


def test_two_tiers_of_one_size_are_refused():
    tier = Tier(tokens=5, input=Decimal(1), output=Decimal(1))
    with pytest.raises(ValueError, match="two tiers begin above 5"):
        structs.replace(build_prices(), above=(tier, tier))
    with pytest.raises(ValueError, match="0 is not a size"):
        structs.replace(tier, tokens=0)


def test_money_is_written_in_one_way():
    rates = build_prices(input="1000000", output="0.10")
    assert str(compute_cost(Usage(input=10), rates)) == "10"
    assert str(compute_cost(Usage(output=1_000_000), rates)) == "0.1"
    assert str(compute_cost(NO_USAGE, rates)) == "0"
    assert str(sum_amounts([Decimal("0E-9"), Decimal("1E+2")])) == "100"


def test_money_never_meets_a_binary_fraction():
    tree = ast.parse(Path(price.__file__).read_text())
    constants = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    assert not [value for value in constants if isinstance(value, float)]
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert not [call for call in calls if isinstance(call, ast.Name) and call.id == "float"]
