"""The usage and cost of a turn with an ACP agent."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.agent.engine import UsageReported
from agentd.agent.engines.acp.usage import CallMeter, CostMeter, read_usage
from agentd.llm.price import NO_USAGE, Usage


def make_cost_update(amount: object, currency: str = "USD") -> dict[str, object]:
    return {"sessionUpdate": "usage_update", "cost": {"amount": amount, "currency": currency}}


def test_only_what_a_session_cost_since_its_last_turn_is_taken() -> None:
    meter = CostMeter(Decimal("0.10"))
    meter.add_report(make_cost_update(0.15))
    meter.add_report(make_cost_update(0.35))
    assert meter.take_spent() == Decimal("0.25")
    assert meter.take_spent() == 0
    assert meter.seen == Decimal("0.35")


def test_a_first_report_below_the_last_turn_counts_from_nothing() -> None:
    meter = CostMeter(Decimal("0.30"))
    meter.add_report(make_cost_update(0.05))
    assert meter.take_spent() == Decimal("0.05")


def test_a_new_session_has_cost_nothing() -> None:
    meter = CostMeter(Decimal("0.30"))
    meter.reset()
    meter.add_report(make_cost_update(0.40))
    assert meter.take_spent() == Decimal("0.40")


def test_what_is_reported_before_the_prompt_was_spent_before() -> None:
    meter = CostMeter(Decimal(0))
    meter.add_report(make_cost_update(0.30), before=True)
    meter.add_report(make_cost_update(0.31))
    assert meter.take_spent() == Decimal("0.01")


@pytest.mark.parametrize("amount", [-1, True, "1", None, 10**9, float("inf"), [1]])
def test_what_is_no_amount_of_dollars_is_passed_over(amount: object) -> None:
    meter = CostMeter(Decimal(0))
    meter.add_report(make_cost_update(amount))
    meter.add_report(make_cost_update(1, "EUR"))
    assert meter.take_spent() is None


def test_an_agent_without_prices_shows_no_cost() -> None:
    meter = CostMeter(Decimal(0))
    meter.add_report(make_cost_update(0))
    assert meter.take_spent() is None


@given(st.lists(st.floats(0, 10), min_size=1), st.decimals(0, 10, places=4))
def test_no_order_of_reports_records_more_than_the_highest(
    amounts: list[float], before: Decimal
) -> None:
    meter = CostMeter(before)
    for amount in amounts:
        meter.add_report(make_cost_update(amount))
        meter.add_report(make_cost_update(amount))
    spent = meter.take_spent()
    assert 0 <= (spent or 0) <= Decimal(str(max(amounts))) + Decimal("1e-9")


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (  # beside each other, as opencode counts
            {"inputTokens": 90, "outputTokens": 7, "cachedReadTokens": 10, "totalTokens": 107},
            Usage(input=90, output=7, cache_read=10),
        ),
        (  # inside each other, as OpenAI counts
            {
                "inputTokens": 100,
                "outputTokens": 9,
                "cachedReadTokens": 10,
                "thoughtTokens": 2,
                "totalTokens": 109,
            },
            Usage(input=90, output=7, cache_read=10, reasoning=2),
        ),
        (  # the cached ones inside, the thoughts beside
            {
                "inputTokens": 100,
                "outputTokens": 9,
                "cachedReadTokens": 10,
                "thoughtTokens": 2,
                "totalTokens": 111,
            },
            Usage(input=90, output=9, cache_read=10, reasoning=2),
        ),
        ({"inputTokens": -1, "outputTokens": "7", "totalTokens": True}, NO_USAGE),
    ],
)
def test_each_token_is_in_one_bucket(usage: object, expected: Usage) -> None:
    assert read_usage({"usage": usage}) == expected


def make_quota(by_model: dict[str, int], **count: int) -> dict[str, object]:
    one = {"model": "some", "token_count": by_model}
    return {"quota": {"token_count": count or None, "model_usage": [one, one]}}


def test_a_cancelled_turn_of_claude_shows_its_tokens_by_model_only() -> None:
    """claude-agent-acp 0.101 reported this for a turn that was cancelled while the model wrote."""
    nothing = {"inputTokens": 0, "cachedInputTokens": 0, "cachedWriteTokens": 0, "totalTokens": 0}
    used = {"totalTokens": 1002, "inputTokens": 100, "cachedInputTokens": 900, "outputTokens": 2}
    result = {"usage": {**nothing, "outputTokens": 0}, "_meta": make_quota(used, **nothing)}
    assert read_usage(result) == Usage(input=200, cache_read=1800, output=4)


def test_what_is_reported_twice_is_taken_once() -> None:
    """codex-acp 2.6 reports each turn like this; its thoughts are part of the output."""
    used = {
        "totalTokens": 1025,
        "inputTokens": 100,
        "cachedReadTokens": 900,
        "cachedWriteTokens": 5,
        "outputTokens": 20,
        "thoughtTokens": 8,
    }
    again = {"cachedInputTokens": 900, "cacheWriteInputTokens": 5, "reasoningOutputTokens": 8}
    count = {**used, **again}
    expected = Usage(input=100, cache_read=900, cache_write=5, output=12, reasoning=8)
    assert read_usage({"usage": used, "_meta": make_quota(count, **count)}) == expected
    assert read_usage({"usage": None, "_meta": make_quota({}, **count)}) == expected
    assert read_usage({"usage": None, "_meta": make_quota({})}) == NO_USAGE


def test_gemini_shows_its_tokens_elsewhere() -> None:
    result = {"_meta": {"quota": {"token_count": {"input_tokens": 5, "output_tokens": 3}}}}
    assert read_usage(result) == Usage(input=5, output=3)
    assert read_usage(None) == NO_USAGE


def make_call(name: str, session: str, cost: object = 0.5, **tokens: object) -> dict[str, object]:
    return {"id": name, "sessionId": session, "cost": cost, "tokens": tokens}


def test_each_call_is_reported_once_and_not_again_at_the_end() -> None:
    meter = CallMeter()
    last = Usage(input=7)
    assert meter.complete(last, Decimal(1)) == (last, Decimal(1)), "where no plugin tells of calls"
    cache = {"read": 3, "write": 4}
    one = make_call("1", "s", input=1, output=2, reasoning=5, cache=cache)
    used = Usage(input=1, output=2, reasoning=5, cache_read=3, cache_write=4)
    assert [*meter.add_call(one, "s")] == [UsageReported(used, Decimal("0.5"))]
    assert [*meter.add_call(one, "s")] == []
    child = make_call("2", "child", 0.25, input=10, output=20)
    below = UsageReported(Usage(input=10, output=20), Decimal("0.25"))
    assert [*meter.add_call(child, "s")] == [below]
    assert meter.complete(last, Decimal(1)) == (NO_USAGE, Decimal("0.5")), "the report has no child"
    assert meter.complete(last, Decimal("0.4")) == (NO_USAGE, Decimal(0))
    assert meter.complete(last, None) == (NO_USAGE, None)


def test_a_call_that_cost_nothing_by_opencode_is_left_to_the_prices_of_the_model() -> None:
    used = CallMeter().add_call(make_call("1", "s", 0, input=1), "s")
    assert [*used] == [UsageReported(Usage(input=1), None)]


@given(st.recursive(st.none() | st.booleans() | st.text(), st.lists, max_leaves=5))
def test_a_call_that_cannot_be_read_counts_nothing(odd: object) -> None:
    meter = CallMeter()
    for one in (odd, {"id": "2", "sessionId": "s", "tokens": odd, "cost": odd}):
        assert all(used == UsageReported() for used in meter.add_call(one, "s"))
    assert meter.complete(NO_USAGE, Decimal(1)) == (NO_USAGE, Decimal(1))
