"""The limits of an access key: what it may spend, how often and how much it may ask."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest

from agentd.core.clock import parse_iso
from agentd.gateway.relay.upstream_call import UpstreamCall
from agentd.llm.endpoint import ChannelDialect
from tests.gateway.relay.callers import (
    CHANNELS,
    DIALECTS,
    Caller,
    CallResult,
    RunningGateway,
    every_dialect,
    read_answer,
    running_gateway,
)
from tests.supplier.steps import Answer, Refuse, Say, Stall, Tokens
from tests.support.daemon import NOON, at_noon, until

CROWD = 200
USED = Tokens(input=20, output=100)
COST = Decimal("0.00156")
"""USD of ``USED``, by ``PRICES``."""
DEAR = Tokens(input=1000, output=100)
"""A cost of 0.0045 USD: far more than the request looks like."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway whose windows of time do not end: it is noon."""
    with at_noon(), running_gateway(tmp_path_factory.mktemp("gateway")) as made:
        yield made


@pytest.fixture(autouse=True)
def _anew(gateway: RunningGateway) -> None:
    gateway.supplier.forget()


def call_together(
    gateway: RunningGateway,
    caller: Caller,
    dialect: ChannelDialect,
    count: int,
    *,
    stream: bool = False,
) -> list[CallResult]:
    """Send so many calls, and answer none before all are admitted or refused."""
    stall, before = Stall(0), len(gateway.supplier.requests)
    gateway.supplier.script(*[Answer((Say("well"),), USED, faults=(stall,))] * count)
    with ExitStack() as stack:
        lines = [
            stack.enter_context(
                caller.begin_call(dialect, f"by-{CHANNELS[dialect]}", stream=stream)
            )
            for _ in range(count)
        ]
        until(
            lambda: (
                len(gateway.supplier.requests) - before + len(gateway.read_records_of(caller))
                == count
            )
        )
        stall.release()
        return [read_answer(line, dialect) for line in lines]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@every_dialect
def test_a_crowd_never_passes_a_limit_of_money(
    gateway: RunningGateway, dialect: ChannelDialect, stream: bool
) -> None:
    limit = Decimal("0.06")
    caller = gateway.add_caller(limits={"day": str(limit)})
    reply = call_together(gateway, caller, dialect, CROWD, stream=stream)
    answered = [one for one in reply if one.status == 200]
    assert all(one.ended for one in answered) or not stream
    refused = [one for one in reply if one.status == 429]
    assert len(answered) + len(refused) == CROWD
    entries = gateway.wait_for_records_of(caller, CROWD)
    spent = sum(entry.cost for entry in entries)
    assert spent == len(answered) * COST <= limit
    assert len(answered) >= 3
    for one in refused:
        assert "USD a day" in one.error()["message"]
    wrong = [entry for entry in entries if entry.outcome == "refused"]
    assert {(entry.error, entry.status, entry.cost) for entry in wrong} == {("limit_day", 429, 0)}
    assert len(wrong) == len(refused)


def test_a_limit_of_money_is_used_up_by_one_after_another(gateway: RunningGateway) -> None:
    caller = gateway.add_caller(limits={"total": "0.008"})
    gateway.supplier.script(*[Answer((Say("well"),), USED)] * 8)
    statuses = [caller.ask("anthropic", "by-messages").status for _ in range(8)]
    assert statuses == [200] * 5 + [429] * 3


def test_a_limit_is_passed_by_no_more_than_suppliers_count_beyond_the_estimate(
    gateway: RunningGateway,
) -> None:
    limit = Decimal("0.02")
    caller = gateway.add_caller(limits={"week": str(limit)})
    gateway.supplier.script(*[Answer((Say("well"),), DEAR)] * 8)
    statuses = [caller.ask("anthropic", "by-messages").status for _ in range(8)]
    assert statuses == [200] * 5 + [429] * 3
    assert sum(entry.cost for entry in gateway.wait_for_records_of(caller, 8)) == Decimal("0.0225")


@pytest.mark.parametrize("window", ["day", "week", "month", "total"])
@every_dialect
def test_the_refusal_shows_the_limit_what_is_used_and_when_to_come_back(
    gateway: RunningGateway, dialect: ChannelDialect, window: str
) -> None:
    caller = gateway.add_caller(limits={window: "0.02"})
    gateway.supplier.script(*[Answer((Say("well"),), Tokens(input=6000, output=100))] * 2)
    assert caller.ask(dialect, f"by-{CHANNELS[dialect]}").status == 200
    reply = caller.ask(dialect, f"by-{CHANNELS[dialect]}")
    assert reply.status == 429
    said = reply.error()["message"]
    assert "0.02 USD" in said and "0.0195 USD used" in said
    wait = int(reply.headers["Retry-After"])
    assert 0 < wait <= 32 * 86400
    if window == "total":
        assert "never resets" in said
    else:
        resets = datetime.fromisoformat(said.partition("It resets at ")[2].rstrip("."))
        assert (resets - parse_iso(NOON)).total_seconds() == wait
    if dialect == "openai-responses":
        known = reply.error().get("resets_at"), reply.error()["type"], reply.error()["code"]
        spent = "insufficient_quota"
        if window == "total":
            assert known == (None, spent, spent)
        else:
            assert known == (resets.timestamp(), "usage_limit_reached", spent)


def test_a_limit_that_only_calls_under_way_fill_is_not_told_as_one_that_resets(
    gateway: RunningGateway,
) -> None:
    caller = gateway.add_caller(limits={"day": "0.02"})
    reply = call_together(gateway, caller, "openai-responses", 10)
    refused = [one.error() for one in reply if one.status == 429]
    assert refused
    assert {one["type"] for one in refused} == {"insufficient_quota"}


@every_dialect
def test_requests_a_minute(gateway: RunningGateway, dialect: ChannelDialect) -> None:
    caller = gateway.add_caller(limits={"requests_per_minute": 3})
    gateway.supplier.script(*[Say("well")] * 4)
    reply = [caller.ask(dialect, f"by-{CHANNELS[dialect]}") for _ in range(4)]
    assert [one.status for one in reply] == [200, 200, 200, 429]
    assert "3 requests a minute" in reply[-1].error()["message"]
    assert reply[-1].headers["Retry-After"] == "60"


def test_counts_of_tokens_are_free_and_count_among_the_requests_of_a_minute(
    gateway: RunningGateway,
) -> None:
    caller = gateway.add_caller(limits={"requests_per_minute": 2, "tokens_per_minute": 1})
    body = {"model": "by-messages", "messages": [{"role": "user", "content": "hello"}]}
    answers = []
    for _ in range(3):
        with caller.connect() as line:
            line.sendall(caller.build_request("/v1/messages/count_tokens", body))
            answers.append(read_answer(line, "anthropic"))
    assert [one.status for one in answers] == [200, 200, 429]
    assert "2 requests a minute" in answers[-1].error()["message"]


def test_tokens_a_minute(gateway: RunningGateway) -> None:
    caller = gateway.add_caller(limits={"tokens_per_minute": 2500})
    gateway.supplier.script(*[Answer((Say("well"),), DEAR)] * 4)
    reply = [caller.ask("openai-chat", "by-chat") for _ in range(3)]
    assert [one.status for one in reply] == [200, 200, 429]  # 1100 each; 1000 and some reserved
    assert "2500 tokens a minute" in reply[-1].error()["message"]


@every_dialect
def test_requests_at_the_same_time(gateway: RunningGateway, dialect: ChannelDialect) -> None:
    caller = gateway.add_caller(limits={"parallel": 3})
    reply = call_together(gateway, caller, dialect, 10)
    assert sorted(one.status for one in reply) == [200] * 3 + [429] * 7
    gateway.wait_for_records_of(caller, 10)
    gateway.supplier.script(Say("well"))
    assert caller.ask(dialect, f"by-{CHANNELS[dialect]}").status == 200


def test_a_request_that_breaks_off_by_a_mistake_of_ours_holds_nothing_and_is_recorded(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = gateway.add_caller(limits={"parallel": 1})
    with monkeypatch.context() as patch:
        patch.setattr(UpstreamCall, "build_request", None)
        assert caller.ask("openai-chat", "by-chat").status == 500
    (entry,) = gateway.wait_for_records_of(caller, 1)
    assert (entry.outcome, entry.status, entry.error) == ("failed", 500, "server")
    gateway.supplier.script(Say("well"))
    assert caller.ask("openai-chat", "by-chat").status == 200


def test_a_client_that_failed_gives_back_what_was_reserved_and_who_left_pays_it_once(
    gateway: RunningGateway,
) -> None:
    caller = gateway.add_caller(
        limits={"parallel": 1, "total": "0.046"}
    )  # three replies and no more
    for _ in range(3):
        gateway.supplier.script(Refuse(400, "Not like that", "invalid_request_error"))
        assert caller.ask("openai-chat", "by-chat").status == 400
        stall = Stall(0)
        gateway.supplier.script(Answer((Say("well"),), faults=(stall,)))
        with caller.begin_call("openai-chat", "by-chat"):
            stall.reached.result(60)
        gateway.supplier.requests[-1].gone.result(60)
    entries = gateway.wait_for_records_of(caller, 6)
    assert [entry.outcome for entry in entries] == ["failed", "left"] * 3
    assert [entry.cost > Decimal("0.015") for entry in entries] == [False, True] * 3


def test_the_limits_of_one_key_are_not_anothers(gateway: RunningGateway) -> None:
    gateway.supplier.script(Say("well"))
    poor, rich = gateway.add_caller(limits={"day": "0"}), gateway.add_caller()
    for dialect in DIALECTS:
        assert poor.ask(dialect, f"by-{CHANNELS[dialect]}").status == 429
    assert rich.ask("gemini", "by-gemini").status == 200


def test_a_limit_that_is_raised_by_hand_holds_from_the_next_request_on(
    gateway: RunningGateway,
) -> None:
    caller = gateway.add_caller(limits={"day": "0.010203"})
    gateway.supplier.script(*[Answer((Say("well"),), DEAR)] * 3)
    assert caller.ask("anthropic", "by-messages").status == 200
    assert caller.ask("anthropic", "by-messages").status == 200
    assert caller.ask("anthropic", "by-messages").status == 429
    file = Path(gateway.setup.layout.access_keys)
    text = file.read_text()
    assert text.count("0.010203") == 1
    file.write_text(text.replace("0.010203", "0.020304"))
    assert caller.ask("anthropic", "by-messages").status == 200
