"""Priced extras beside tokens are recorded as far as they are known, and never left unmarked."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from agentd.llm.endpoint import ChannelDialect
from tests.gateway.conftest import PRICES, GatewaySetup
from tests.gateway.relay.callers import (
    CHANNELS,
    RunningGateway,
    build_call,
    every_dialect,
    running_gateway,
)
from tests.gateway.relay.raw_supplier import RawSupplier, running_raw_supplier
from tests.supplier.steps import Answer, Say, Tokens

POLICIES = ("refuse", "estimate", "flag")
USED = Tokens(input=1000, output=100)


@pytest.fixture(scope="module")
def raw_supplier() -> Iterator[RawSupplier]:
    with running_raw_supplier() as made:
        yield made


@pytest.fixture(scope="module", params=POLICIES)
def gateway(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    raw_supplier: RawSupplier,
) -> Iterator[RunningGateway]:
    def prepare(setup: GatewaySetup) -> None:
        setup.settings["unknown_price"] = request.param
        setup.channels.append(
            setup.build_channel("odd", "openai-responses") | {"url": raw_supplier.url}
        )
        way = {"channel": "odd", "model": "scripted-large"}
        setup.models.append({"name": "odd", "routes": [way], "prices": PRICES, "max_output": 1000})

        way = {"channel": "chat", "model": "scripted-large"}
        fast = {"tier": "priority", "input": "6", "output": "30"}
        prices = {**PRICES, "services": [fast]}
        setup.models.append({"name": "fast", "routes": [way], "prices": prices, "max_output": 1000})

    with running_gateway(tmp_path_factory.mktemp("gateway"), prepare) as made:
        yield made


def build_body(dialect: ChannelDialect, model: str, tier: str) -> dict[str, Any]:
    name = "serviceTier" if dialect == "gemini" else "service_tier"
    return {**build_call(dialect, model)[1], name: tier}


@every_dialect
def test_another_tier_of_service_is_for_the_policy_of_unknown_prices(
    gateway: RunningGateway, dialect: ChannelDialect
) -> None:
    model, caller = f"by-{CHANNELS[dialect]}", gateway.add_caller()
    gateway.supplier.forget()
    gateway.supplier.script(Answer((Say("well"),), USED))
    result = caller.ask(dialect, model, body=build_body(dialect, model, "priority"))
    entry = gateway.wait_for_record(result)
    if gateway.setup.settings["unknown_price"] == "refuse":
        assert (result.status, entry.outcome, entry.cost) == (403, "refused", 0)
        assert "service tier" in result.error()["message"]
        assert gateway.supplier.requests == []
        return
    assert result.status == 200
    assert "priority" in json.dumps(gateway.supplier.requests[0].body)
    assert entry.estimated
    assert float(entry.cost) == pytest.approx((1000 * 3 + 100 * 15) / 10**6)


@pytest.mark.parametrize(
    ("dialect", "more", "service"),
    [
        ("anthropic", {"speed": "fast"}, "speed:fast"),
        ("anthropic", {"inference_geo": "us"}, "inference_geo:us"),
        ("openai-chat", {"modalities": ["text", "audio"]}, "modalities:text+audio"),
        (
            "gemini",
            {"generationConfig": {"responseModalities": ["TEXT", "IMAGE"]}},
            "response_modalities:TEXT+IMAGE",
        ),
    ],
)
def test_whatever_else_changes_the_price_is_for_that_policy_too(
    gateway: RunningGateway, dialect: ChannelDialect, more: dict[str, Any], service: str
) -> None:
    model, caller = f"by-{CHANNELS[dialect]}", gateway.add_caller()
    gateway.supplier.forget()
    gateway.supplier.script(Answer((Say("well"),), USED))
    result = caller.ask(dialect, model, body={**build_call(dialect, model)[1], **more})
    entry = gateway.wait_for_record(result)
    if gateway.setup.settings["unknown_price"] == "refuse":
        assert (result.status, entry.outcome, entry.cost) == (403, "refused", 0)
        assert service in result.error()["message"]
    else:
        assert (result.status, entry.tier, entry.estimated) == (200, service, True)


@pytest.mark.parametrize(
    "more", [{"speed": "standard"}, {"inference_geo": "global"}, {"speed": None}]
)
def test_the_usual_values_of_such_fields_have_the_usual_price(
    gateway: RunningGateway, more: dict[str, Any]
) -> None:
    gateway.supplier.forget()
    gateway.supplier.script(Answer((Say("well"),), USED))
    body = {**build_call("anthropic", "by-messages")[1], **more}
    entry = gateway.wait_for_record(gateway.add_caller().ask("anthropic", "by-messages", body=body))
    assert (entry.outcome, entry.tier, entry.estimated) == ("ok", "", False)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("used", [Tokens(0, output=0), Tokens(0, output=3), Tokens(9, output=0)])
@every_dialect
def test_a_count_that_cannot_be_true_is_replaced_by_an_estimate(
    gateway: RunningGateway, dialect: ChannelDialect, used: Tokens, stream: bool
) -> None:
    gateway.supplier.forget()
    gateway.supplier.script(Answer((Say("one two three four"),), used))
    result = gateway.add_caller().ask(dialect, f"by-{CHANNELS[dialect]}", stream=stream)
    entry = gateway.wait_for_record(result)
    assert (result.status, entry.outcome, entry.estimated) == (200, "ok", True)
    assert entry.usage.total_input >= max(used.input, 1)
    assert entry.usage.total_output >= max(used.output, 4)
    assert entry.cost > 0


def test_a_tier_of_service_with_rates_of_its_own_costs_those(gateway: RunningGateway) -> None:
    gateway.supplier.script(Answer((Say("well"),), USED))
    result = gateway.add_caller().ask(
        "openai-chat", "fast", body=build_body("openai-chat", "fast", "priority")
    )
    entry = gateway.wait_for_record(result)
    assert (result.status, entry.tier, entry.estimated) == (200, "priority", False)
    assert float(entry.cost) == pytest.approx((1000 * 6 + 100 * 30) / 10**6)


@every_dialect
def test_the_usual_tier_has_the_usual_price(
    gateway: RunningGateway, dialect: ChannelDialect
) -> None:
    model, caller = f"by-{CHANNELS[dialect]}", gateway.add_caller()
    gateway.supplier.forget()
    gateway.supplier.script(Answer((Say("well"),), USED))
    tier = "standard" if dialect == "gemini" else "auto"
    entry = gateway.wait_for_record(
        caller.ask(dialect, model, body=build_body(dialect, model, tier))
    )
    assert (entry.outcome, entry.estimated) == ("ok", False)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("searched", [False, True])
def test_a_suppliers_own_tool_is_marked_where_it_was_used(
    gateway: RunningGateway, raw_supplier: RawSupplier, searched: bool, stream: bool
) -> None:
    output = [{"type": "web_search_call", "id": "ws_1"}] if searched else []
    usage = {"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100}
    about = {"id": "r", "object": "response", "status": "completed", "model": "m"}
    reply = {**about, "tools": [{"type": "web_search"}], "output": output, "usage": usage}
    answer, kind = json.dumps(reply).encode(), "application/json"
    if stream:
        whole = json.dumps({"type": "response.completed", "response": reply})
        answer = f"event: response.completed\ndata: {whole}\n\n".encode()
        kind = "text/event-stream"
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(answer)}\r\n\r\n"
    raw_supplier.behave = lambda line: line.sendall(head.encode() + answer)
    question = {**build_call("openai-responses", "odd", stream=stream)[1]}
    question["tools"] = [{"type": "web_search"}]
    result = gateway.add_caller().ask("openai-responses", "odd", body=question)
    entry = gateway.wait_for_record(result)
    assert (result.status, entry.outcome, entry.estimated) == (200, "ok", searched)
    assert float(entry.cost) == pytest.approx((1000 * 3 + 100 * 15) / 10**6)


AUDIO: dict[ChannelDialect, dict[str, Any]] = {
    "openai-chat": {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
    "gemini": {"inlineData": {"mimeType": "audio/wav", "data": "UklGRg=="}},
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", AUDIO)
def test_audio_is_counted_as_text_and_marked(
    gateway: RunningGateway, dialect: ChannelDialect, stream: bool
) -> None:
    gateway.supplier.script(Answer((Say("well"),), USED))
    model = f"by-{CHANNELS[dialect]}"
    body = build_call(dialect, model, stream=stream)[1]
    if dialect == "gemini":
        body["contents"][0]["parts"].append(AUDIO[dialect])
    else:
        body["messages"][0]["content"] = [{"type": "text", "text": "hello"}, AUDIO[dialect]]
    result = gateway.add_caller().ask(dialect, model, stream=stream, body=body)
    entry = gateway.wait_for_record(result)
    assert (result.status, entry.outcome, entry.estimated) == (200, "ok", True)
    assert float(entry.cost) == pytest.approx((1000 * 3 + 100 * 15) / 10**6)
