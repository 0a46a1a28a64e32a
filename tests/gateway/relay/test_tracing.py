"""OpenTelemetry: the spans of requests and attempts as a real receiver gets them."""

import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.conftest import PRICES, SECRET, GatewaySetup
from tests.gateway.relay.callers import (
    CHANNELS,
    Caller,
    CallResult,
    RunningGateway,
    build_call,
    every_dialect,
    read_answer,
    running_gateway,
)
from tests.supplier.steps import Break, Refuse, Say
from tests.support.daemon import until

pytest.importorskip("opentelemetry.sdk", reason="needs: pip install opentelemetry-sdk")

from tests.support.otlp import OtlpReceiver

TOKEN = "collector-0123456789abcdef"
"""A header of the collector, which nobody else may see."""

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
NOT_SAMPLED = "00-0af7651916cd43dd8448eb211c80319d-b7ad6b7169203332-00"
SERVER, CLIENT = 2, 3


@pytest.fixture(scope="module")
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def short_delay() -> Iterator[None]:
    """Spans are sent at once, as far as the tests can tell."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
        patch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-of-the-environment=elsewhere")
        yield
    # The library's threads use ``random``, which Hypothesis forbids in the tests after these.
    until(lambda: not any(thread.name.startswith("Otel") for thread in threading.enumerate()))


def configure(receiver: OtlpReceiver, **more: Any) -> dict[str, Any]:
    """Return the settings that send spans to a receiver."""
    return {"endpoint": receiver.url, "headers": {"X-Token": f"Bearer {TOKEN}"}, **more}


@pytest.fixture(scope="module")
def gateway(
    tmp_path_factory: pytest.TempPathFactory, receiver: OtlpReceiver
) -> Iterator[RunningGateway]:
    def prepare(setup: GatewaySetup) -> None:
        setup.settings["tracing"] = configure(receiver)
        names = ("one", "two")
        setup.channels += [setup.build_channel(n, "openai-chat", cool_down=0) for n in names]
        routes = [{"channel": name} for name in names]
        setup.models.append({"name": "both", "routes": routes, "prices": PRICES})

    with running_gateway(tmp_path_factory.mktemp("gateway"), prepare) as made:
        wait_until_tracing(made)
        say_yes(made)
        yield made


def say_yes(gateway: RunningGateway) -> None:
    """Answer whatever the script has no step for."""
    supplier = gateway.supplier
    supplier.answer_always(lambda _: None if supplier.left else Say("yes"))


def wait_until_tracing(gateway: RunningGateway) -> None:
    """Wait until the sender is there: the library is imported in the background."""
    until(lambda: count_notes(gateway, "tracing_started"))


def count_notes(gateway: RunningGateway, kind: str) -> int:
    """Count the entries of a kind in the service log."""
    return Path(gateway.setup.layout.service_log).read_bytes().count(f'"{kind}"'.encode())


def ask_with(caller: Caller, model: str, *lines: str) -> CallResult:
    """Send a request with further header lines."""
    path, body = build_call("openai-chat", model)
    with caller.connect() as line:
        line.sendall(caller.build_request(path, body, *lines))
        return read_answer(line, "openai-chat")


@every_dialect
@pytest.mark.parametrize("stream", [False, True])
def test_a_request_has_a_span_and_its_attempt_one_below_it(
    gateway: RunningGateway, receiver: OtlpReceiver, dialect: Any, stream: bool
) -> None:
    gateway.supplier.script(Say("some words"))
    caller = gateway.add_caller()
    result = caller.ask(dialect, f"by-{CHANNELS[dialect]}", stream=stream)
    assert result.status == 200
    record = gateway.wait_for_record(result)
    root, (attempt,) = receiver.wait_for_request(result.id)

    operation = "generate_content" if dialect == "gemini" else "chat"
    provider = {"gemini": "gcp.gemini", "anthropic": "anthropic"}.get(dialect, "openai")
    assert root.name == f"{operation} by-{CHANNELS[dialect]}"
    assert (root.kind, root.parent_id, root.is_error) == (SERVER, "", False)
    told = root.attributes
    assert told["gen_ai.operation.name"] == operation
    assert told["gen_ai.provider.name"] == provider
    assert told["gen_ai.request.model"] == f"by-{CHANNELS[dialect]}"
    assert told["gen_ai.request.stream"] is stream
    assert told["gen_ai.usage.input_tokens"] == record.usage.total_input > 0
    assert told["gen_ai.usage.output_tokens"] == record.usage.total_output > 0
    assert told["gen_ai.response.model"]
    assert len(told["gen_ai.response.finish_reasons"]) == 1
    assert told["agentd.cost"] == float(record.cost) > 0
    assert told["http.response.status_code"] == 200
    assert told["agentd.key.id"] in caller.key
    assert "error.type" not in told
    assert ("gen_ai.response.time_to_first_chunk" in told) is stream

    assert attempt.name == f"{operation} scripted-large"
    assert (attempt.kind, attempt.trace_id, attempt.is_error) == (CLIENT, root.trace_id, False)
    assert attempt.attributes["server.address"] == "127.0.0.1"
    assert gateway.supplier.url.endswith(f":{attempt.attributes['server.port']}")
    assert attempt.attributes["gen_ai.request.model"] == "scripted-large"
    assert attempt.attributes["gen_ai.response.model"] == told["gen_ai.response.model"]
    assert "gen_ai.usage.input_tokens" not in attempt.attributes  # a sum over all spans is right
    assert root.begun <= attempt.begun <= attempt.ended <= root.ended
    assert root.resource["service.name"] == "agentd"


def test_each_failed_attempt_has_its_error_and_the_request_that_of_its_end(
    gateway: RunningGateway, receiver: OtlpReceiver
) -> None:
    gateway.supplier.script(Refuse(500, "no", "server_error"), Say("yes"))
    result = gateway.add_caller().ask("openai-chat", "both")
    root, (first, second) = receiver.wait_for_request(result.id)
    assert (first.is_error, first.attributes["error.type"]) == (True, "server")
    assert (second.is_error, "error.type" in second.attributes) == (False, False)
    assert {one.attributes["agentd.channel"] for one in (first, second)} == {"one", "two"}
    assert (root.is_error, root.attributes["agentd.attempts"]) == (False, 2)

    gateway.supplier.script(Refuse(500, "no", "server_error"), Refuse(500, "no", "server_error"))
    result = gateway.add_caller().ask("openai-chat", "both")
    root, attempts = receiver.wait_for_request(result.id)
    assert [one.attributes["error.type"] for one in attempts] == ["server", "server"]
    assert (root.is_error, root.attributes["error.type"]) == (True, "server")
    assert root.attributes["http.response.status_code"] == result.status


def test_a_request_that_reaches_no_supplier_has_no_attempt(
    gateway: RunningGateway, receiver: OtlpReceiver
) -> None:
    result = gateway.add_caller(limits={"day": "0.000001"}).ask("openai-chat", "by-chat")
    assert result.status == 429
    root, attempts = receiver.wait_for_request(gateway.setup.read_records()[-1].id)
    assert (attempts, root.is_error) == ([], False)  # by the conventions a 4xx is the caller's
    assert root.attributes["error.type"] == "limit_day"


def test_a_reply_that_breaks_off_is_an_error_of_the_attempt(
    gateway: RunningGateway, receiver: OtlpReceiver
) -> None:
    gateway.supplier.script([Say("it ends in the middle of it"), Break(2)])
    result = gateway.add_caller().ask("openai-chat", "by-chat", stream=True)
    root, (attempt,) = receiver.wait_for_request(result.id)
    assert attempt.is_error
    assert root.is_error
    assert attempt.attributes["error.type"] == root.attributes["error.type"]


def test_the_callers_trace_is_continued(gateway: RunningGateway, receiver: OtlpReceiver) -> None:
    result = ask_with(gateway.add_caller(), "by-chat", f"Traceparent: {PARENT}", "tracestate: a=b")
    root, (attempt,) = receiver.wait_for_request(result.id)
    _, trace_id, span_id, _ = PARENT.split("-")
    assert (root.trace_id, root.parent_id, attempt.trace_id) == (trace_id, span_id, trace_id)


@pytest.mark.parametrize("line", ["nonsense", "00-0-0-01", "x" * 3000])
def test_a_malformed_trace_of_a_caller_is_passed_over(
    gateway: RunningGateway, receiver: OtlpReceiver, line: str
) -> None:
    result = ask_with(gateway.add_caller(), "by-chat", f"traceparent: {line}")
    assert result.status == 200
    assert receiver.wait_for_request(result.id)[0].parent_id == ""


def test_a_trace_that_its_caller_does_not_sample_is_not_sent(
    gateway: RunningGateway, receiver: OtlpReceiver
) -> None:
    caller = gateway.add_caller()
    quiet = ask_with(caller, "by-chat", f"traceparent: {NOT_SAMPLED}")
    receiver.wait_for_request(caller.ask("openai-chat", "by-chat").id)  # it was sent later
    found = {one.attributes.get("agentd.request.id") for one in receiver.spans}
    assert quiet.status == 200
    assert quiet.id not in found


def test_no_content_and_no_secret_is_in_a_span(
    gateway: RunningGateway, receiver: OtlpReceiver
) -> None:
    gateway.supplier.script(Say("the reply says quicksilver"))
    caller = gateway.add_caller()
    for stream in (False, True):
        result = caller.ask("openai-chat", "by-chat", stream=stream, text="the prompt is marzipan")
        receiver.wait_for_request(result.id)
    sent = b"".join(receiver.bodies)
    for word in ("marzipan", "quicksilver", SECRET, caller.key, TOKEN):
        assert word.encode() not in sent
    assert b"by-chat" in sent  # it is not packed


def test_the_collector_gets_its_own_headers_and_not_the_environments(
    gateway: RunningGateway, receiver: OtlpReceiver
) -> None:
    receiver.wait_for_request(gateway.add_caller().ask("openai-chat", "by-chat").id)
    assert receiver.paths[-1] == "/v1/traces"
    assert receiver.headers[-1]["x-token"] == f"Bearer {TOKEN}"
    assert receiver.headers[-1]["content-type"] == "application/x-protobuf"
    assert "x-of-the-environment" not in receiver.headers[-1]


@pytest.mark.parametrize("passes_on", [False, True])
def test_the_trace_goes_to_the_supplier_only_if_it_is_to(
    tmp_path: Path, receiver: OtlpReceiver, passes_on: bool
) -> None:
    def prepare(setup: GatewaySetup) -> None:
        setup.settings["tracing"] = configure(receiver, forward_context=passes_on)

    with running_gateway(tmp_path, prepare) as gateway:
        say_yes(gateway)
        wait_until_tracing(gateway)
        result = ask_with(gateway.add_caller(), "by-chat", f"traceparent: {PARENT}")
        _, (attempt,) = receiver.wait_for_request(result.id)
        headers = {
            name.lower(): text for name, text in gateway.supplier.requests[-1].headers.items()
        }
        expected = f"00-{attempt.trace_id}-{attempt.span_id}-01" if passes_on else None
        assert headers.get("traceparent") == expected


def test_a_sample_of_none_sends_nothing_but_what_callers_sample(
    tmp_path: Path, receiver: OtlpReceiver
) -> None:
    def prepare(setup: GatewaySetup) -> None:
        setup.settings["tracing"] = configure(receiver, sample=0)

    with running_gateway(tmp_path, prepare) as gateway:
        say_yes(gateway)
        wait_until_tracing(gateway)
        caller = gateway.add_caller()
        quiet = [caller.ask("openai-chat", "by-chat").id for _ in range(5)]
        sampled = ask_with(caller, "by-chat", f"traceparent: {PARENT}")
        receiver.wait_for_request(sampled.id)
        found = {one.attributes.get("agentd.request.id") for one in receiver.spans}
        assert not found & set(quiet)


@pytest.mark.parametrize("state", ["refuses", "hangs"])
def test_a_dead_collector_neither_slows_requests_nor_the_stop(tmp_path: Path, state: str) -> None:
    with OtlpReceiver() as dead:
        dead.status = 503
        if state == "hangs":
            dead.open.clear()

        def prepare(setup: GatewaySetup) -> None:
            setup.settings["tracing"] = configure(dead)

        with running_gateway(tmp_path, prepare) as gateway:
            say_yes(gateway)
            wait_until_tracing(gateway)
            caller = gateway.add_caller()
            assert caller.ask("openai-chat", "by-chat").status == 200
            until(lambda: dead.bodies)  # the sender is busy with it
            assert all(caller.ask("openai-chat", "by-chat").status == 200 for _ in range(20))
            assert len(dead.bodies) < 20
            begun = time.monotonic()
        assert time.monotonic() - begun < 30  # the library's own limits are longer
        dead.status = 200
        dead.open.set()


def test_what_waits_is_sent_before_the_stop(
    tmp_path: Path, receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000")

    def prepare(setup: GatewaySetup) -> None:
        setup.settings["tracing"] = configure(receiver)

    with running_gateway(tmp_path, prepare) as gateway:
        say_yes(gateway)
        wait_until_tracing(gateway)
        result = gateway.add_caller().ask("openai-chat", "by-chat")
    assert receiver.wait_for_request(result.id)


def test_a_collector_that_fails_is_noted_once_and_so_is_its_return(tmp_path: Path) -> None:
    with OtlpReceiver() as failing:
        failing.status = 400

        def prepare(setup: GatewaySetup) -> None:
            setup.settings["tracing"] = configure(failing)

        with running_gateway(tmp_path, prepare) as gateway:
            say_yes(gateway)
            wait_until_tracing(gateway)
            caller = gateway.add_caller()
            for number in range(3):
                caller.ask("openai-chat", "by-chat")
                until(lambda wanted=number: len(failing.bodies) > wanted)
            until(lambda: count_notes(gateway, "tracing_failed"))
            failing.status = 200
            caller.ask("openai-chat", "by-chat")
            until(lambda: count_notes(gateway, "tracing_recovered"))
            assert count_notes(gateway, "tracing_failed") == 1
            assert count_notes(gateway, "tracing_recovered") == 1


def test_the_settings_are_followed_without_a_restart(
    tmp_path: Path, receiver: OtlpReceiver
) -> None:
    with running_gateway(tmp_path) as gateway:
        say_yes(gateway)
        caller = gateway.add_caller()
        quiet = caller.ask("openai-chat", "by-chat")
        path = Path(gateway.setup.layout.gateway_settings)
        path.write_text(json.dumps({"sync_ledger": False, "tracing": configure(receiver)}))
        wait_until_tracing(gateway)
        receiver.wait_for_request(caller.ask("openai-chat", "by-chat").id)
        found = {one.attributes.get("agentd.request.id") for one in receiver.spans}
        assert quiet.id not in found


def test_the_environment_alone_turns_it_on(
    tmp_path: Path, receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "our-gateway")  # which the library reads itself
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
    with running_gateway(tmp_path, environ=environ) as gateway:
        say_yes(gateway)
        wait_until_tracing(gateway)
        root, _ = receiver.wait_for_request(gateway.add_caller().ask("openai-chat", "by-chat").id)
    assert root.resource["service.name"] == "our-gateway"
    assert receiver.headers[-1]["x-of-the-environment"] == "elsewhere"


def test_without_the_library_requests_are_served_and_a_note_says_what_to_install(
    tmp_path: Path, receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "agentd.gateway.tracing.spans", None)

    def prepare(setup: GatewaySetup) -> None:
        setup.settings["tracing"] = configure(receiver)

    with running_gateway(tmp_path, prepare) as gateway:
        say_yes(gateway)
        until(lambda: count_notes(gateway, "tracing_failed"))
        assert gateway.add_caller().ask("openai-chat", "by-chat").status == 200
    assert "agentd-workstation[otel]" in Path(gateway.setup.layout.service_log).read_text()


def test_a_variable_that_the_library_refuses_is_noted(
    tmp_path: Path, receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-1")

    def prepare(setup: GatewaySetup) -> None:
        setup.settings["tracing"] = configure(receiver)

    with running_gateway(tmp_path, prepare) as gateway:
        say_yes(gateway)
        until(lambda: count_notes(gateway, "tracing_failed"))
        assert gateway.add_caller().ask("openai-chat", "by-chat").status == 200
