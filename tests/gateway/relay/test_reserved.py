"""The reservation for a request covers all that it can cost: suppliers here spend everything."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from agentd.gateway.pricing.bounds import ASSUMED_OUTPUT
from agentd.llm.endpoint import ChannelDialect
from tests.gateway.conftest import PRICES, GatewaySetup
from tests.gateway.relay.callers import (
    CHANNELS,
    DIALECTS,
    Caller,
    CallResult,
    RunningGateway,
    build_call,
    every_dialect,
    running_gateway,
)
from tests.supplier.request import Request
from tests.supplier.steps import Answer, Say, Tokens
from tests.support.daemon import at_noon

LONG = 16_000
"""The ``max_output`` of models that may think."""

UNBOUNDED = 500_000
"""Tokens of a reply for which the supplier was told no limit."""

DEAR: list[tuple[ChannelDialect, dict[str, Any]]] = [
    ("openai-chat", {"max_tokens": 64000}),
    ("openai-chat", {"max_completion_tokens": 64000, "reasoning_effort": "high"}),
    ("openai-chat", {"max_tokens": 5, "max_completion_tokens": 64000}),
    ("openai-responses", {"max_output_tokens": 64000, "reasoning": {"effort": "high"}}),
    ("anthropic", {"max_tokens": 64000}),
    ("gemini", {"generationConfig": {"maxOutputTokens": 64000}}),
    ("gemini", {"generation_config": {"max_output_tokens": 64000}}),
    ("gemini", {"generationConfig": {"thinkingConfig": {"thinkingBudget": 24576}}}),
]
"""Requests for far more than the models' ``max_output``, which is 1000."""

SILENT: list[tuple[ChannelDialect, dict[str, Any]]] = [
    ("openai-chat", {"max_tokens": None}),
    ("openai-responses", {}),
    ("anthropic", {"max_tokens": None}),
    ("gemini", {}),
    ("gemini", {"generationConfig": {"temperature": 1}}),
]
"""Requests that name no limit of their own."""


def spend_all(request: Request) -> Answer:
    """Answer with as many tokens as the supplier was allowed to write."""
    output = get_allowed_tokens(request.body)
    return Answer((Say("well"),), Tokens(input=10, output=output, reasoning=output // 2))


def get_allowed_tokens(body: dict[str, Any]) -> int:
    """Return the tokens of all replies together, as a supplier reads the request."""
    config = body.get("generationConfig") or body.get("generation_config") or {}
    names = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
    limits = [found[name] for found in (body, config) for name in names if found.get(name)]
    replies = body.get("n") or config.get("candidateCount") or 1
    return int(max(limits, default=UNBOUNDED) * replies)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """Beside the usual models there are those of which nobody knows how much they can write."""

    def prepare(setup: GatewaySetup) -> None:
        setup.supplier.answer_always(spend_all)
        setup.models += [
            {"name": f"any-{name}", "routes": model["routes"], "prices": PRICES}
            for name, model in zip(CHANNELS.values(), setup.models, strict=True)
        ]
        setup.models += [
            {**model, "name": f"long-{model['name']}", "max_output": LONG}
            for model in setup.models[: len(CHANNELS)]
        ]

    with at_noon(), running_gateway(tmp_path_factory.mktemp("gateway"), prepare) as made:
        yield made


def ask_with_fields(
    caller: Caller, dialect: ChannelDialect, model: str, more: dict[str, Any]
) -> CallResult:
    _, usual = build_call(dialect, model)
    return caller.ask(dialect, model, body={**usual, **more})


def sum_costs(gateway: RunningGateway, caller: Caller, calls: int) -> Decimal:
    return sum((entry.cost for entry in gateway.wait_for_records_of(caller, calls)), Decimal(0))


@pytest.mark.parametrize(("dialect", "more"), [*DEAR, *SILENT])
def test_a_limit_is_not_passed_whatever_a_request_asks_for(
    gateway: RunningGateway, dialect: ChannelDialect, more: dict[str, Any]
) -> None:
    caller = gateway.add_caller(limits={"day": "0.02"})
    statuses = [
        ask_with_fields(caller, dialect, f"by-{CHANNELS[dialect]}", more).status for _ in range(3)
    ]
    assert statuses == [200, 429, 429]
    assert Decimal("0.015") <= sum_costs(gateway, caller, 3) <= Decimal("0.02")


@every_dialect
def test_a_limit_is_not_passed_through_a_channel_of_another_dialect(
    gateway: RunningGateway, dialect: ChannelDialect
) -> None:
    more = next(more for one, more in DEAR if one == dialect)
    for other in DIALECTS:
        caller = gateway.add_caller(limits={"day": "0.02"})
        statuses = [
            ask_with_fields(caller, dialect, f"by-{CHANNELS[other]}", more).status for _ in range(2)
        ]
        assert statuses == [200, 429]
        assert Decimal("0.015") <= sum_costs(gateway, caller, 2) <= Decimal("0.02")


@pytest.mark.parametrize(
    ("dialect", "more"),
    [
        ("openai-chat", {"n": 3, "max_tokens": 64000}),
        ("gemini", {"generationConfig": {"candidateCount": 3, "maxOutputTokens": 64000}}),
    ],
)
def test_every_one_of_several_replies_is_reserved(
    gateway: RunningGateway, dialect: ChannelDialect, more: dict[str, Any]
) -> None:
    poor, rich = (
        gateway.add_caller(limits={"day": "0.04"}),
        gateway.add_caller(limits={"day": "0.06"}),
    )
    assert ask_with_fields(poor, dialect, f"by-{CHANNELS[dialect]}", more).status == 429
    assert ask_with_fields(rich, dialect, f"by-{CHANNELS[dialect]}", more).status == 200
    assert Decimal("0.045") <= sum_costs(gateway, rich, 1) <= Decimal("0.06")


@pytest.mark.parametrize(
    ("dialect", "supplier", "more"),
    [
        (
            "anthropic",
            "gemini",
            {"max_tokens": 64000, "thinking": {"type": "enabled", "budget_tokens": 24576}},
        ),
        (
            "gemini",
            "anthropic",
            {"generationConfig": {"thinkingConfig": {"thinkingBudget": 24576}}},
        ),
    ],
)
def test_a_translated_budget_for_thinking_leaves_some_of_the_limit_for_the_reply(
    gateway: RunningGateway, dialect: ChannelDialect, supplier: ChannelDialect, more: dict[str, Any]
) -> None:
    assert (
        ask_with_fields(gateway.add_caller(), dialect, f"long-by-{CHANNELS[supplier]}", more).status
        == 200
    )
    body = gateway.supplier.requests[-1].body
    config = body.get("generationConfig", {}).get("thinkingConfig", {})
    budget = config.get("thinkingBudget") or body["thinking"]["budget_tokens"]
    assert (get_allowed_tokens(body), budget) == (LONG, LONG - 1)


@pytest.mark.parametrize(("dialect", "more"), SILENT)
def test_where_nobody_knows_a_limit_one_is_set_for_keys_whose_spending_is_bounded(
    gateway: RunningGateway, dialect: ChannelDialect, more: dict[str, Any]
) -> None:
    model = f"any-{CHANNELS[dialect]}"
    poor, rich = (
        gateway.add_caller(limits={"day": "0.02"}),
        gateway.add_caller(limits={"total": "0.5"}),
    )
    counted = gateway.add_caller(limits={"tokens_per_minute": 33_000})
    assert ask_with_fields(poor, dialect, model, more).status == 429
    assert [ask_with_fields(rich, dialect, model, more).status for _ in range(2)] == [200, 429]
    assert get_allowed_tokens(gateway.supplier.requests[-1].body) == ASSUMED_OUTPUT
    assert Decimal("0.48") <= sum_costs(gateway, rich, 2) <= Decimal("0.5")
    assert [ask_with_fields(counted, dialect, model, more).status for _ in range(2)] == [200, 429]
    assert get_allowed_tokens(gateway.supplier.requests[-1].body) == ASSUMED_OUTPUT


@pytest.mark.parametrize(("dialect", "more"), SILENT)
def test_where_nobody_knows_a_limit_a_key_without_limits_is_not_restrained(
    gateway: RunningGateway, dialect: ChannelDialect, more: dict[str, Any]
) -> None:
    assert (
        ask_with_fields(gateway.add_caller(), dialect, f"any-{CHANNELS[dialect]}", more).status
        == 200
    )
    assert get_allowed_tokens(gateway.supplier.requests[-1].body) == UNBOUNDED


@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses", "anthropic"])
def test_a_request_that_stays_within_the_limit_is_passed_on_as_it_was_written(
    gateway: RunningGateway, dialect: ChannelDialect
) -> None:
    more = next(more for one, more in DEAR if one == dialect)
    within = {name: 900 if value == 64000 else value for name, value in more.items()}
    caller = gateway.add_caller(limits={"day": "0.02"})
    _, usual = build_call(dialect, f"by-{CHANNELS[dialect]}")
    assert ask_with_fields(caller, dialect, f"by-{CHANNELS[dialect]}", within).status == 200
    assert gateway.supplier.requests[-1].body == {**usual, **within, "model": "scripted-large"}
