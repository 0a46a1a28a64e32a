"""Suppliers that fail in the middle of a stream, and how each caller is told."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import anthropic
import openai
import pytest

from agentd.llm.dialects.stream_observers import HELD_BYTES
from agentd.llm.endpoint import ChannelDialect
from tests.gateway.conftest import GatewaySetup
from tests.gateway.relay.callers import (
    CHANNELS,
    DIALECTS,
    CallResult,
    RunningGateway,
    every_dialect,
    read_answer,
    running_gateway,
    wait_for_bytes,
)
from tests.supplier.steps import Answer, Break, Fail, Fault, Garble, Say, Stall, say_in_one_event

WORDS = "one two three four five six seven eight"
BEGUN = {"openai-chat": 4, "openai-responses": 6, "anthropic": 5, "gemini": 3}
"""Events of each supplier after which something was said, and the reply is not over."""
SAYS = {"openai-chat": 1, "openai-responses": 4, "anthropic": 3, "gemini": 0}
"""Events of each supplier before the first one with text."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    def prepare(setup: GatewaySetup) -> None:
        setup.settings["idle_timeout"] = 5
        for channel in setup.channels:
            channel["cool_down"] = 0

    with running_gateway(tmp_path_factory.mktemp("gateway"), prepare) as made:
        yield made


every_supplier = pytest.mark.parametrize("supplier", DIALECTS)


def list_faults(dialect: ChannelDialect, supplier: ChannelDialect) -> list[Fault]:
    """List the faults of a stream; a passthrough may be garbled."""
    after = BEGUN[supplier]
    garbled: list[Fault] = [] if dialect == supplier else [Garble(after)]
    return [Break(after), Break(after, sent=70), Fail(after), *garbled]


def check_broken(gateway: RunningGateway, reply: CallResult, supplier: ChannelDialect) -> None:
    """Check that the stream ended with an error, and is recorded so."""
    assert (reply.status, reply.whole) == (200, True)
    assert reply.error()
    assert not reply.ended
    assert WORDS.startswith(reply.text().strip()) and reply.text()
    entry = gateway.wait_for_record(reply)
    assert (entry.outcome, entry.channel) == ("broken", CHANNELS[supplier])
    assert entry.estimated and entry.cost > 0 and entry.usage.output > 0


@every_supplier
@every_dialect
def test_a_stream_that_broke_ends_with_an_error_event_and_is_recorded_as_broken(
    gateway: RunningGateway, dialect: ChannelDialect, supplier: ChannelDialect
) -> None:
    caller = gateway.add_caller()
    for fault in list_faults(dialect, supplier):
        begun = Stall(BEGUN[supplier])
        gateway.supplier.script(Answer((Say(WORDS),), faults=(begun, fault)))
        with caller.begin_call(dialect, f"by-{CHANNELS[supplier]}") as line:
            wait_for_bytes(line, b'"one')
            begun.release()
            reply = read_answer(line, dialect)
        check_broken(gateway, reply, supplier)


def test_vendors_clients_are_told_of_a_stream_that_broke_within_an_event(
    gateway: RunningGateway,
) -> None:
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}]}
    options: dict[str, Any] = {"api_key": gateway.add_caller().key, "max_retries": 0}
    for dialect in ("openai-chat", "anthropic"):
        gateway.supplier.script(Answer((Say(WORDS),), faults=(Break(BEGUN[dialect], sent=70),)))
    with (
        openai.OpenAI(base_url=f"{gateway.daemon.url}/v1", **options) as chat,
        pytest.raises(openai.APIError, match="aborted its response"),
    ):
        list(chat.chat.completions.create(model="by-chat", stream=True, **asked))
    with (
        anthropic.Anthropic(base_url=gateway.daemon.url, **options) as other,
        other.messages.stream(model="by-messages", max_tokens=100, **asked) as stream,
        pytest.raises(anthropic.APIStatusError, match="aborted its response"),
    ):
        stream.get_final_message()


@every_dialect
def test_a_giant_event_that_broke_is_ended_before_the_error(
    gateway: RunningGateway, dialect: ChannelDialect
) -> None:
    fault = Break(SAYS[dialect], sent=HELD_BYTES + 10_000)
    gateway.supplier.script(Answer((say_in_one_event(200_000),), faults=(fault,)))
    reply = gateway.add_caller().ask(dialect, f"by-{CHANNELS[dialect]}", stream=True)
    *_, giant, error, rest = reply.body.split(b"\n\n")
    assert giant.endswith(b"xxx") and len(giant) == HELD_BYTES + 10_000
    assert error.startswith((b"event: error\ndata: ", b'data: {"error":')) and not rest


def test_a_supplier_that_falls_silent_breaks_its_stream(gateway: RunningGateway) -> None:
    caller = gateway.add_caller()
    with ExitStack() as stack:
        lines = []
        for dialect in DIALECTS:
            silent = Stall(BEGUN[dialect])
            gateway.supplier.script(Answer((Say(WORDS),), faults=(silent,)))
            lines.append(stack.enter_context(caller.begin_call(dialect, f"by-{CHANNELS[dialect]}")))
            silent.reached.result(60)
        for dialect, line in zip(DIALECTS, lines, strict=True):
            check_broken(gateway, read_answer(line, dialect), dialect)
