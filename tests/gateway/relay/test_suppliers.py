"""Suppliers that refuse, fail, or answer otherwise than they were asked to."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from agentd.llm.endpoint import ChannelDialect
from tests.gateway.conftest import PRICES, SECRET, GatewaySetup
from tests.gateway.relay.callers import (
    CHANNELS,
    DIALECTS,
    RunningGateway,
    build_call,
    every_dialect,
    running_gateway,
)
from tests.gateway.relay.raw_supplier import RawSupplier, running_raw_supplier
from tests.supplier import chat, gemini, messages, responses
from tests.supplier.request import Request
from tests.supplier.steps import Answer, Break, Fail, Refuse, Say, Stall, Step, Tokens
from tests.support.ports import find_free_port

TWO = "first-then-second"
"""A model with a channel that is tried first and another."""

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


@pytest.fixture(scope="module")
def raw_supplier() -> Iterator[RawSupplier]:
    with running_raw_supplier() as made:
        yield made


@pytest.fixture(scope="module")
def gateway(
    tmp_path_factory: pytest.TempPathFactory, raw_supplier: RawSupplier
) -> Iterator[RunningGateway]:
    closed = f"http://127.0.0.1:{find_free_port()}"

    def prepare(setup: GatewaySetup) -> None:
        different: dict[str, dict[str, Any]] = {
            "first": {"timeout": 1},
            "tired": {"cool_down": 300},
            "odd": {"url": raw_supplier.url},
            "closed": {"url": closed},
            "nameless": {"url": "http://nobody.invalid"},
            "keyless": {"key": "env:NOT_THERE"},
            "astray": {"transport": {"kind": "http", "url": "env:ASTRAY"}},
        }
        for name, more in different.items():
            setup.channels.append(setup.build_channel(name, *DIALECTS, cool_down=0) | more)
            setup.models += [
                build_model(f"{name}-then-second", name, "second"),
                build_model(f"only-{name}", name),
            ]
        setup.channels.append(setup.build_channel("second", *DIALECTS))
        setup.channels.append(setup.build_channel("second-gemini", "gemini"))
        setup.models.append(build_model("gemini-twice", "gemini", "second-gemini"))
        for dialect, name in CHANNELS.items():
            for way in (f"asked-too-much-{name}", f"asked-too-late-{name}", f"waiting-{name}"):
                setup.channels.append(setup.build_channel(way, dialect))
                setup.models.append(build_model(way, way))
            setup.channels.append(
                setup.build_channel(f"odd-{name}", dialect) | {"url": raw_supplier.url}
            )
            setup.models.append(build_model(f"odd-{name}", f"odd-{name}"))

    with running_gateway(
        tmp_path_factory.mktemp("gateway"), prepare, environ={"ASTRAY": "socks5://127.0.0.1:1"}
    ) as made:
        yield made


@pytest.fixture(autouse=True)
def _anew(gateway: RunningGateway) -> None:
    gateway.supplier.forget()


def build_model(name: str, *channels: str) -> dict[str, Any]:
    """Build a model with these channels, one after another."""
    ways = [
        {"channel": channel, "model": "scripted-large", "priority": priority}
        for priority, channel in enumerate(channels)
    ]
    return {"name": name, "routes": ways, "prices": PRICES, "max_output": 1000}


BEFORE: dict[str, Step] = {
    "dies before its answer begins": Answer((Say("no"),), faults=(Break(0),)),
    "has a failure of its own": Refuse(500, "Oh"),
    "is overloaded": Refuse(529, "Busy"),
    "does not know the channel's key": Refuse(401, "Wrong key"),
    "is not paid": Refuse(402, "No money"),
    "wants to be left alone": Refuse(429, "Slow down"),
    "redirects": Refuse(307, body="", headers={"Location": "/"}),
    "says something unheard of": Refuse(204, body=""),
    "does not know the model": Refuse(404, "No such model"),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("what", BEFORE)
def test_another_channel_is_tried_when_the_first(
    gateway: RunningGateway, what: str, stream: bool
) -> None:
    for dialect in DIALECTS:
        gateway.supplier.script(BEFORE[what], Say("well"))
        result = gateway.add_caller().ask(dialect, TWO, stream=stream)
        assert (result.status, result.text(), result.channel) == (200, "well", "second")
        entry = gateway.wait_for_record(result)
        assert (entry.outcome, entry.channel, entry.tries) == ("ok", "second", 2)
        assert not entry.estimated


@every_dialect
def test_another_channel_is_tried_when_a_stream_begins_with_a_failure(
    gateway: RunningGateway, dialect: ChannelDialect
) -> None:
    gateway.supplier.script(Answer((Say("no"),), faults=(Fail(0),)), Say("well"))
    result = gateway.add_caller().ask(dialect, TWO, stream=True)
    assert (result.status, result.text(), result.channel) == (200, "well", "second")


@pytest.mark.parametrize("model", ["closed", "nameless", "keyless", "astray"])
def test_a_channel_that_cannot_be_reached_is_passed_over(
    gateway: RunningGateway, model: str
) -> None:
    for dialect in DIALECTS:
        gateway.supplier.script(Say("well"))
        result = gateway.add_caller().ask(dialect, f"{model}-then-second")
        assert (result.status, result.text(), result.channel) == (200, "well", "second")
        result = gateway.add_caller().ask(dialect, f"only-{model}")
        assert result.status >= 500
        said = result.error()["message"]
        assert SECRET not in said and "NOT_THERE" not in said
        entry = gateway.wait_for_record(result)
        assert (entry.outcome, entry.cost, entry.tries) == ("failed", 0, 1)


WHY = {
    "closed": "127.0.0.1:",
    "nameless": "nobody.invalid",
    "keyless": "NOT_THERE",
    "astray": "kind http",
    "odd": "127.0.0.1:",
}
"""What the log tells of a channel, and no caller hears."""


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("channel", WHY)
def test_a_caller_is_informed_the_name_of_a_channel_and_only_the_log_where_its_supplier_is(
    gateway: RunningGateway,
    raw_supplier: RawSupplier,
    channel: str,
    stream: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    raw_supplier.behave = lambda line: None
    for dialect in DIALECTS:
        result = gateway.add_caller().ask(dialect, f"only-{channel}", stream=stream)
        assert f"Channel {channel} " in result.error()["message"]
        assert "the reason is in agentd's log" in result.error()["message"]
        for hidden in (WHY[channel], "127.0.0.1", "nobody", "refused"):
            assert hidden.encode() not in result.body
        (logged,) = (line for line in caplog.messages if result.id in line)
        assert f"channel {channel}: " in logged and WHY[channel] in logged
        kind = "authentication" if channel in ("keyless", "astray") else "unreachable"
        assert gateway.wait_for_record(result).error == kind


def test_a_supplier_that_does_not_answer_in_time_is_passed_over(gateway: RunningGateway) -> None:
    gateway.supplier.script(Answer((Say("no"),), faults=(Stall(0),)), Say("well"))
    result = gateway.add_caller().ask("anthropic", TWO)
    assert (result.text(), result.channel) == ("well", "second")


ODD: dict[str, bytes] = {
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "a head without an end": b"HTTP/1.1 200 OK\r\n" + b"X-Long: " + b"x" * 200_000,
    "a body cut short": OK + b"Content-Length: 1000\r\n\r\n{",
    "a chunk without a size": OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "an endless chunk": OK + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}",
    "what is no JSON": OK + b"Content-Length: 6\r\n\r\n<html>",
    "JSON that is no object": OK + b"Content-Length: 2\r\n\r\n[]",
    "nothing": OK + b"Content-Length: 0\r\n\r\n",
    "an error as success": OK + b'Content-Length: 36\r\n\r\n{"error": {"message": "Overloaded"}}',
    "a stream of nothing": EVENTS + b"Content-Length: 0\r\n\r\n",
    "what is compressed and is not": OK
    + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope",
    "an unknown compression": OK + b"Content-Encoding: br\r\nContent-Length: 4\r\n\r\nnope",
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("what", ODD)
def test_another_channel_is_tried_when_the_first_answers_with(
    gateway: RunningGateway, raw_supplier: RawSupplier, what: str, stream: bool
) -> None:
    raw_supplier.behave = lambda line: line.sendall(ODD[what])
    for dialect in DIALECTS:
        gateway.supplier.script(Say("well"))
        result = gateway.add_caller().ask(dialect, "odd-then-second", stream=stream)
        assert (result.status, result.text(), result.channel) == (200, "well", "second"), dialect
    result = gateway.add_caller().ask("anthropic", "only-odd", stream=stream)
    assert result.status in (500, 502, 503)
    assert result.error()
    entry = gateway.wait_for_record(result)
    assert (entry.outcome, entry.cost) == ("failed", 0)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_request_that_is_wrong_is_tried_once_and_no_channel_rests(
    gateway: RunningGateway, status: int
) -> None:
    for dialect in DIALECTS:
        gateway.supplier.script(Refuse(status, "Not like that", "invalid_request_error"))
        result = gateway.add_caller().ask(dialect, "tired-then-second")
        assert 400 <= result.status < 500
        assert "Not like that" in result.error()["message"]
        entry = gateway.wait_for_record(result)
        assert (entry.outcome, entry.tries, entry.cost) == ("failed", 1, 0)


def test_a_channel_rests_after_a_failure_of_its_own_and_is_not_asked_meanwhile(
    gateway: RunningGateway,
) -> None:
    gateway.supplier.script(Refuse(500), Say("one"), Say("two"))
    caller = gateway.add_caller()
    tries = [
        gateway.wait_for_record(caller.ask("gemini", "tired-then-second")).tries for _ in range(2)
    ]
    assert tries == [2, 1]


def test_the_wait_of_the_last_supplier_is_reported(gateway: RunningGateway) -> None:
    for dialect in DIALECTS:
        refuse = Refuse(429, "Slow down", headers={"Retry-After": "7"})
        gateway.supplier.script(refuse)
        result = gateway.add_caller().ask(dialect, f"waiting-{CHANNELS[dialect]}")
        assert (result.status, result.headers["Retry-After"]) == (429, "7")
        assert "Slow down" in result.error()["message"]


@every_dialect
def test_as_long_as_that_lasts_the_answer_is_the_same_though_nobody_is_asked(
    gateway: RunningGateway, dialect: ChannelDialect
) -> None:
    refuse = Refuse(429, "Slow down", headers={"Retry-After": "600"})
    gateway.supplier.script(refuse)
    caller, model = gateway.add_caller(), f"asked-too-much-{CHANNELS[dialect]}"
    assert caller.ask(dialect, model).status == 429
    before = len(gateway.supplier.requests)
    result = caller.ask(dialect, model)
    assert result.status == 429
    assert 0 < int(result.headers["Retry-After"]) <= 600
    assert "cooldown" in result.error()["message"]
    assert len(gateway.supplier.requests) == before
    overloaded = Refuse(503, "Busy", headers={"Retry-After": "600"})
    gateway.supplier.script(overloaded)
    result = [caller.ask(dialect, f"asked-too-late-{CHANNELS[dialect]}") for _ in range(2)][1]
    assert result.status in (503, 529)


@every_dialect
@pytest.mark.parametrize("supplier", DIALECTS)
def test_a_whole_answer_to_a_client_that_asked_for_a_stream_is_reported_as_a_stream(
    gateway: RunningGateway,
    raw_supplier: RawSupplier,
    dialect: ChannelDialect,
    supplier: ChannelDialect,
) -> None:
    speaker = {
        "openai-chat": chat,
        "openai-responses": responses,
        "anthropic": messages,
        "gemini": gemini,
    }[supplier]
    path, body = build_call(supplier, "scripted-large")
    answer = Answer((Say("all at once"),), Tokens(input=1000, output=100))
    told_by = json.dumps(speaker.render_reply(answer, Request("POST", path, {}, body), 1)).encode()
    raw_supplier.behave = lambda line: line.sendall(
        OK + b"Content-Length: %d\r\n\r\n" % len(told_by) + told_by
    )
    caller = gateway.add_caller()
    result = caller.ask(dialect, f"odd-{CHANNELS[supplier]}", stream=True)
    assert result.headers["Content-Type"].startswith("text/event-stream")
    assert (result.text(), result.ended) == ("all at once", True)
    entry = gateway.wait_for_record(result)
    assert (entry.outcome, entry.estimated, str(entry.cost)) == ("ok", False, "0.0045")


PAGE = "<html><script>alert(document.domain)</script></html>"


@every_dialect
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", [200, 400, 404, 522])
@pytest.mark.parametrize(
    "kind", ["text/html", "image/svg+xml", "application/xhtml+xml", "text/plain"]
)
def test_a_suppliers_page_never_becomes_one_of_our_origin(
    gateway: RunningGateway,
    raw_supplier: RawSupplier,
    dialect: ChannelDialect,
    kind: str,
    status: int,
    stream: bool,
) -> None:
    raw_supplier.behave = lambda line: line.sendall(
        f"HTTP/1.1 {status} Oh\r\nContent-Type: {kind}\r\nContent-Length: {len(PAGE)}"
        f"\r\nConnection: close\r\n\r\n{PAGE}".encode()
    )
    result = gateway.add_caller().ask(dialect, f"odd-{CHANNELS[dialect]}", stream=stream)
    assert result.status >= 400
    assert result.headers["Content-Type"].startswith("application/json")
    assert result.error()["message"]


@every_dialect
@pytest.mark.parametrize("status", [400, 422, 522])
def test_a_suppliers_refusal_in_json_is_passed_on_as_json_whatever_it_is_called(
    gateway: RunningGateway, raw_supplier: RawSupplier, dialect: ChannelDialect, status: int
) -> None:
    body = json.dumps({"error": {"message": "No such thing", "odd": 1}})
    raw_supplier.behave = lambda line: line.sendall(
        f"HTTP/1.1 {status} Oh\r\nContent-Type: text/html\r\nContent-Length: {len(body)}"
        f"\r\nConnection: close\r\n\r\n{body}".encode()
    )
    result = gateway.add_caller().ask(dialect, f"odd-{CHANNELS[dialect]}")
    assert (result.status, result.body.decode()) == (status, body)
    assert result.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses", "anthropic"])
def test_an_unusable_reply_is_asked_for_elsewhere_and_its_channel_is_not_in_cooldown(
    gateway: RunningGateway, dialect: ChannelDialect
) -> None:
    """The model failed at one caller's prompt: the channel works for all others."""
    unusable = Answer((), finish="MALFORMED_FUNCTION_CALL")
    gateway.supplier.script(unusable, Say("well"), Say("again"))
    caller = gateway.add_caller()
    results = [caller.ask(dialect, "gemini-twice") for _ in range(2)]
    assert [one.text() for one in results] == ["well", "again"]
    records = [gateway.wait_for_record(one) for one in results]
    assert [(one.channel, one.tries) for one in records] == [("second-gemini", 2), ("gemini", 1)]


def test_a_caller_reads_why_a_reply_cannot_be_used(gateway: RunningGateway) -> None:
    gateway.supplier.script(Answer((), finish="MALFORMED_FUNCTION_CALL"))
    result = gateway.add_caller().ask("openai-chat", "by-gemini")
    assert (result.status, b"MALFORMED_FUNCTION_CALL" in result.body) == (502, True)
