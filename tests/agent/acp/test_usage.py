"""What a turn with an ACP agent used and cost."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.agent.acp.usage import Meter, tokens
from agentd.proxy.price import NOTHING, Usage


def report(amount: object, currency: str = "USD") -> dict[str, object]:
    return {"sessionUpdate": "usage_update", "cost": {"amount": amount, "currency": currency}}


def test_only_what_a_session_cost_since_its_last_turn_is_taken() -> None:
    meter = Meter(Decimal("0.10"))
    meter.heard(report(0.15))
    meter.heard(report(0.35))
    assert meter.take() == Decimal("0.25")
    assert meter.take() == 0
    assert meter.seen == Decimal("0.35")


def test_a_first_report_below_the_last_turn_counts_from_nothing() -> None:
    meter = Meter(Decimal("0.30"))
    meter.heard(report(0.05))
    assert meter.take() == Decimal("0.05")


def test_a_new_session_has_cost_nothing() -> None:
    meter = Meter(Decimal("0.30"))
    meter.begun("OpenCode", fresh=True)
    meter.heard(report(0.40))
    assert meter.take() == Decimal("0.40")


def test_claude_counts_from_nothing_in_each_process() -> None:
    meter = Meter(Decimal("0.30"))
    meter.begun("@agentclientprotocol/claude-agent-acp", fresh=False)
    meter.heard(report(0.40))
    assert meter.take() == Decimal("0.40")


def test_what_is_told_before_the_prompt_was_spent_before() -> None:
    meter = Meter(Decimal(0))
    meter.heard(report(0.30), before=True)
    meter.heard(report(0.31))
    assert meter.take() == Decimal("0.01")


@pytest.mark.parametrize("amount", [-1, True, "1", None, 10**9, float("inf"), [1]])
def test_what_is_no_amount_of_dollars_is_passed_over(amount: object) -> None:
    meter = Meter(Decimal(0))
    meter.heard(report(amount))
    meter.heard(report(1, "EUR"))
    assert meter.take() is None


def test_an_agent_without_prices_tells_no_cost() -> None:
    meter = Meter(Decimal(0))
    meter.heard(report(0))
    assert meter.take() is None


@given(st.lists(st.floats(0, 10), min_size=1), st.decimals(0, 10, places=4))
def test_no_order_of_reports_books_more_than_the_highest(
    amounts: list[float], before: Decimal
) -> None:
    meter = Meter(before)
    for amount in amounts:
        meter.heard(report(amount))
        meter.heard(report(amount))
    spent = meter.take()
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
        ({"inputTokens": -1, "outputTokens": "7", "totalTokens": True}, NOTHING),
    ],
)
def test_each_token_is_in_one_bucket(usage: object, expected: Usage) -> None:
    assert tokens({"usage": usage}) == expected


def test_gemini_tells_its_tokens_elsewhere() -> None:
    told = {"_meta": {"quota": {"token_count": {"input_tokens": 5, "output_tokens": 3}}}}
    assert tokens(told) == Usage(input=5, output=3)
    assert tokens(None) == NOTHING
