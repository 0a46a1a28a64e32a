"""A crowd of requests at once never passes a budget that keys share, nor a limit of a model."""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path

import pytest

from agentd.gateway.ledger.record import RequestRecord
from tests.gateway.conftest import GatewaySetup
from tests.gateway.relay.callers import (
    Caller,
    CallResult,
    RunningGateway,
    read_answer,
    running_gateway,
)
from tests.supplier.steps import Answer, Say, Stall, Tokens
from tests.support.daemon import at_noon, until

CROWD = 200
USED = Tokens(input=20, output=100)
COST = Decimal("0.00156")
"""USD of ``USED``, by ``PRICES``."""
LIMIT = Decimal("0.06")
MOST = 3
"""Calls for whose highest possible cost, of 1,000 tokens of output each, the limit has room."""


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[RunningGateway]:
    """A gateway with a budget, whose windows of time do not end: it is noon."""
    with at_noon(), running_gateway(tmp_path, add_budget) as made:
        yield made


def add_budget(setup: GatewaySetup) -> None:
    budget = {"name": "team", "tag": "team", "limits": {"day": str(LIMIT)}}
    path = Path(setup.layout.budgets)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"budgets": [budget]}))


def call_together(
    gateway: RunningGateway, callers: Sequence[Caller], models: Sequence[str]
) -> list[CallResult]:
    """Send a crowd of calls, in turn of each caller and model; answer none before all are in."""
    stall = Stall(0)
    gateway.supplier.script(*[Answer((Say("well"),), USED, faults=(stall,))] * CROWD)
    with ExitStack() as stack:
        lines = [
            stack.enter_context(
                callers[number % len(callers)].begin_call(
                    "openai-chat",
                    models[number // len(callers) % len(models)],
                    stream=bool(number % 2),
                )
            )
            for number in range(CROWD)
        ]
        until(lambda: len(gateway.supplier.requests) + len(read_records(gateway, callers)) == CROWD)
        stall.release()
        return [read_answer(line, "openai-chat") for line in lines]


def read_records(gateway: RunningGateway, callers: Sequence[Caller]) -> list[RequestRecord]:
    return [one for caller in callers for one in gateway.read_records_of(caller)]


def wait_for_records(gateway: RunningGateway, callers: Sequence[Caller]) -> list[RequestRecord]:
    return until(lambda: found if len(found := read_records(gateway, callers)) == CROWD else None)


def test_a_crowd_of_two_keys_never_passes_the_budget_of_their_tag(gateway: RunningGateway) -> None:
    callers = [gateway.add_caller(tags=["team"], limits={"day": "9"}) for _ in range(2)]
    replies = call_together(gateway, callers, ["by-chat", "by-messages"])
    answered = [one for one in replies if one.status == 200]
    refused = [one for one in replies if one.status == 429]
    assert len(answered) == MOST
    assert len(answered) + len(refused) == CROWD
    for one in refused:
        assert 'limit of the tag "team"' in one.error()["message"]
    entries = wait_for_records(gateway, callers)
    assert sum(one.cost for one in entries) == MOST * COST
    assert {(one.error, one.cost) for one in entries if one.outcome == "refused"} == {
        ("limit_tag_day", 0)
    }
    gateway.supplier.script(*[Answer((Say("well"),), USED)] * CROWD)
    more = 0
    while callers[more % 2].ask("openai-chat", "by-chat").status == 200:
        more += 1
    spent = sum(one.cost for one in read_records(gateway, callers))
    assert spent == (MOST + more) * COST <= LIMIT
    assert spent > LIMIT - Decimal("0.017"), "what was reserved and not spent is free again"


def test_a_crowd_never_passes_the_limit_of_a_model_within_a_key(gateway: RunningGateway) -> None:
    caller = gateway.add_caller(limits={"day": "9"}, model_limits={"by-mess*": {"day": str(LIMIT)}})
    replies = call_together(gateway, [caller], ["by-chat", "by-messages"])
    entries = wait_for_records(gateway, [caller])
    limited = [one for one in entries if one.model == "by-messages"]
    free = [one for one in entries if one.model == "by-chat"]
    assert len(limited) == len(free) == CROWD // 2
    assert {one.outcome for one in free} == {"ok"}
    assert [one.outcome for one in limited].count("ok") == MOST
    assert sum(one.cost for one in limited) == MOST * COST
    errors = {one.error for one in limited if one.outcome != "ok"}
    assert errors == {"limit_model_day"}
    assert [one.status for one in replies].count(429) == CROWD // 2 - MOST
