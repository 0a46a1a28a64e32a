"""Usage that suppliers count wrongly or not at all is estimated, and marked so."""

import json
import socket
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest

from agentd.llm.endpoint import ChannelDialect
from tests.gateway.conftest import PRICES, GatewaySetup
from tests.gateway.relay.callers import (
    CHANNELS,
    DIALECTS,
    RunningGateway,
    every_dialect,
    running_gateway,
)
from tests.gateway.relay.raw_supplier import RawSupplier, running_raw_supplier
from tests.supplier.steps import Answer, Say, Tokens, say_in_one_event

MOST = 1000
"""Tokens of a reply, by the models' entries."""


@pytest.fixture(scope="module")
def raw_supplier() -> Iterator[RawSupplier]:
    with running_raw_supplier() as made:
        yield made


@pytest.fixture(scope="module")
def gateway(
    tmp_path_factory: pytest.TempPathFactory, raw_supplier: RawSupplier
) -> Iterator[RunningGateway]:
    def prepare(setup: GatewaySetup) -> None:
        setup.channels.append(setup.build_channel("odd", "openai-chat") | {"url": raw_supplier.url})
        way = {"channel": "odd", "model": "scripted-large"}
        setup.models.append({"name": "odd", "routes": [way], "prices": PRICES, "max_output": MOST})

    with running_gateway(tmp_path_factory.mktemp("gateway"), prepare) as made:
        yield made


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("supplier", DIALECTS)
@every_dialect
def test_what_is_not_counted_is_estimated_and_marked(
    gateway: RunningGateway, dialect: ChannelDialect, supplier: ChannelDialect, stream: bool
) -> None:
    words = "some twenty words that tell nothing at all but are long enough to be judged " * 2
    gateway.supplier.script(Answer((Say(words),), None))
    asked = "a question of some length, too, " * 10
    result = gateway.add_caller().ask(
        dialect, f"by-{CHANNELS[supplier]}", stream=stream, text=asked
    )
    assert result.text().strip() == words.strip()
    entry = gateway.wait_for_record(result)
    assert entry.outcome == "ok"
    assert entry.estimated
    assert len(asked) / 4 < entry.usage.input < len(asked)
    # A reply's fields and random ids are counted with it, a digit as more than a letter.
    assert 28 <= entry.usage.output <= len(words)
    due = Decimal(entry.usage.input * 3 + entry.usage.output * 15) / 10**6
    assert entry.cost == due


LIES: list[Any] = [
    {"prompt_tokens": -5, "completion_tokens": -1},
    {"prompt_tokens": "many", "completion_tokens": None},
    {"prompt_tokens": 1.5, "completion_tokens": float("1e300")},
    {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 99}},
    {"prompt_tokens": True, "completion_tokens": {}},
    {"prompt_tokens": 2**200, "completion_tokens": 2**70},
    {},
    [],
    7,
    "none",
]


def build_sender(answer: bytes, kind: str) -> Callable[[socket.socket], None]:
    """Return a function that sends an answer."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(answer)}\r\n\r\n"
    return lambda line: line.sendall(head.encode() + answer)


@pytest.mark.parametrize("lie", LIES, ids=str)
@pytest.mark.parametrize("stream", [False, True])
def test_no_count_is_so_odd_that_a_call_is_not_answered_and_recorded(
    gateway: RunningGateway, raw_supplier: RawSupplier, lie: Any, stream: bool
) -> None:
    about = {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
    said = {"role": "assistant", "content": "well"}
    kind = "delta" if stream else "message"
    choice = {"index": 0, kind: said, "finish_reason": "stop"}
    whole = json.dumps({**about, "choices": [choice], "usage": lie}).encode()
    if stream:
        raw_supplier.behave = build_sender(
            b"data: " + whole + b"\n\ndata: [DONE]\n\n", "text/event-stream"
        )
    else:
        raw_supplier.behave = build_sender(whole, "application/json")
    for dialect in DIALECTS:
        result = gateway.add_caller().ask(dialect, "odd", stream=stream)
        assert (result.status, result.text(), result.whole) == (200, "well", True), dialect
        entry = gateway.wait_for_record(result)
        assert entry.outcome == "ok"
        assert entry.cost >= 0
        assert entry.usage.total_input >= 0 and entry.usage.output >= 0


@pytest.mark.parametrize(
    "beside",
    [
        {"cached_tokens": 900},  # Kimi
        {"prompt_cache_hit_tokens": 900, "prompt_cache_miss_tokens": 100},  # DeepSeek
        {"cached_tokens": 900, "prompt_tokens_details": {"cached_tokens": 900}},
    ],
    ids=str,
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_a_supplier_read_from_its_cache_costs_less_wherever_it_says_so(
    gateway: RunningGateway, raw_supplier: RawSupplier, beside: dict[str, Any], stream: bool
) -> None:
    said = {"delta" if stream else "message": {"role": "assistant", "content": "well"}}
    usage = {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010, **beside}
    choice = {"index": 0, **said, "finish_reason": "stop"}
    about = {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
    whole = json.dumps({**about, "choices": [choice], "usage": usage}).encode()
    if stream:
        whole = b"data: " + whole + b"\n\ndata: [DONE]\n\n"
    kind = "text/event-stream" if stream else "application/json"
    raw_supplier.behave = build_sender(whole, kind)
    for dialect in DIALECTS:
        result = gateway.add_caller().ask(dialect, "odd", stream=stream)
        entry = gateway.wait_for_record(result)
        assert (entry.usage.input, entry.usage.cache_read, entry.estimated) == (100, 900, False)
        assert entry.cost == Decimal("0.00072")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_giant_event_is_reported_whole(gateway: RunningGateway, dialect: ChannelDialect) -> None:
    for supplier in DIALECTS:
        gateway.supplier.script(Answer((say_in_one_event(700_000),), Tokens(input=10, output=5)))
        result = gateway.add_caller().ask(dialect, f"by-{CHANNELS[supplier]}", stream=True)
        assert result.text() == "x" * 700_000
        assert gateway.wait_for_record(result).outcome == "ok"


def test_an_event_beyond_all_measure_ends_the_stream_with_an_error(
    gateway: RunningGateway, raw_supplier: RawSupplier
) -> None:
    def send_endlessly(line: socket.socket) -> None:
        line.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: ")
        for _ in range(12):
            line.sendall(b"x" * 2**20)

    raw_supplier.behave = send_endlessly
    for dialect in DIALECTS[1:]:  # the first one's own is passed on
        result = gateway.add_caller().ask(dialect, "odd", stream=True)
        assert result.status in (500, 502)
        assert result.error()


def test_an_estimate_is_never_more_than_what_was_reserved(
    gateway: RunningGateway, raw_supplier: RawSupplier
) -> None:
    event = json.dumps({"choices": [{"index": 0, "delta": {"content": "word " * 20}}]})
    end = json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    lines = [event] * 2000 + [end, "[DONE]"]
    stream = "".join(f"data: {one}\n\n" for one in lines).encode()
    raw_supplier.behave = build_sender(stream, "text/event-stream")
    entry = gateway.wait_for_record(gateway.add_caller().ask("openai-chat", "odd", stream=True))
    assert (entry.outcome, entry.estimated, entry.usage.output) == ("ok", True, MOST)
