"""Callers that leave at each stage: the supplier is cut off or heard out, the call is booked."""

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest

from agentd.gateway.ledger.record import RequestRecord
from agentd.gateway.relay.upstream_call import UpstreamCall
from agentd.llm.endpoint import ChannelDialect
from agentd.llm.price import NO_USAGE
from tests.gateway.conftest import GatewaySetup
from tests.gateway.relay.callers import (
    CHANNELS,
    DIALECTS,
    Caller,
    RunningGateway,
    build_call,
    build_drain_setup,
    every_dialect,
    running_gateway,
    wait_for_bytes,
)
from tests.gateway.relay.raw_supplier import RawSupplier, running_raw_supplier
from tests.supplier.request import Request
from tests.supplier.steps import Answer, Break, Fail, Say, Stall, Tokens
from tests.support.daemon import until

WORDS = "one two three four five six seven eight"
BEGUN = {"openai-chat": 4, "openai-responses": 6, "anthropic": 5, "gemini": 3}
USED = Tokens(input=1000, output=100)


@pytest.fixture(scope="module")
def raw_supplier() -> Iterator[RawSupplier]:
    with running_raw_supplier() as made:
        yield made


@pytest.fixture(scope="module")
def gateway(
    tmp_path_factory: pytest.TempPathFactory, raw_supplier: RawSupplier
) -> Iterator[RunningGateway]:
    with running_gateway(
        tmp_path_factory.mktemp("gateway"), build_drain_setup(raw_supplier)
    ) as made:
        yield made


def get_last_request(gateway: RunningGateway) -> Request:
    """Return the request that the supplier received last."""
    return gateway.supplier.requests[-1]


def wait_for_left_record(gateway: RunningGateway, caller: Caller) -> RequestRecord:
    """Wait for the record of the one call that its caller left."""
    (entry,) = gateway.wait_for_records_of(caller, 1)
    assert (entry.outcome, entry.status) == ("left", 200 if entry.sent else 499)
    return entry


every_way = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@every_way
@every_dialect
def test_a_client_that_leaves_before_the_answer_cuts_the_suppliers_call(
    gateway: RunningGateway, dialect: ChannelDialect, stream: bool
) -> None:
    stall, caller = Stall(0), gateway.add_caller()
    gateway.supplier.script(Answer((Say(WORDS),), USED, faults=(stall,)))
    with caller.begin_call(dialect, f"by-{CHANNELS[dialect]}", stream=stream):
        stall.reached.result(60)
    get_last_request(gateway).gone.result(60)
    entry = wait_for_left_record(gateway, caller)
    assert entry.estimated and entry.usage.total_input and entry.cost > 0


@every_dialect
def test_a_client_that_leaves_in_the_middle_cuts_the_suppliers_call(
    gateway: RunningGateway, dialect: ChannelDialect
) -> None:
    for supplier in DIALECTS:
        stall, caller = Stall(BEGUN[supplier]), gateway.add_caller()
        gateway.supplier.script(Answer((Say(WORDS),), USED, faults=(stall,)))
        with caller.begin_call(dialect, f"by-{CHANNELS[supplier]}") as line:
            stall.reached.result(60)
            wait_for_bytes(line, b'"one')
        get_last_request(gateway).gone.result(60)
        entry = wait_for_left_record(gateway, caller)
        assert entry.estimated
        assert entry.usage.output == (100 if dialect == "anthropic" else 1000)
        assert entry.sent


LIMIT = Decimal("0.02")
WORTH = Decimal("0.018")
"""USD of the answers below: 1000 tokens in and 1000 out, by ``PRICES``."""


@pytest.mark.parametrize("kind", ["by", "patient"], ids=["cut", "drain"])
@pytest.mark.parametrize(
    ("stream", "after"), [(False, 0), (True, 0), (True, 4)], ids=["whole", "before", "middle"]
)
def test_thirty_callers_who_leave_never_pass_a_limit(
    gateway: RunningGateway, kind: str, stream: bool, after: int
) -> None:
    caller, before, text = (
        gateway.add_caller(limits={"day": str(LIMIT)}),
        len(list_requests(gateway)),
        "so ",
    )
    for number in range(30):
        stall = Stall(after)
        gateway.supplier.script(Answer((Say(WORDS),), Tokens(input=1000, output=1000), (stall,)))
        with caller.begin_call(
            "openai-chat", f"{kind}-chat", stream=stream, text=text * 1000
        ) as line:
            until(partial(_is_reached_or_answered, stall, line))
            if after and stall.reached.done():
                wait_for_bytes(line, b'"one')
        until(partial(_is_leaving_noticed, gateway, caller, number))
        stall.release()
        gateway.wait_for_records_of(caller, number + 1)
        gateway.supplier.forget()
    asked = len(list_requests(gateway)) - before
    assert asked
    assert (
        asked * WORTH
        <= sum(entry.cost for entry in gateway.wait_for_records_of(caller, 30))
        <= LIMIT
    )


def list_requests(gateway: RunningGateway) -> list[Request]:
    return gateway.supplier.requests


def _is_reached_or_answered(stall: Stall, line: socket.socket) -> bool:
    """Return whether the supplier was asked, or the caller refused."""
    line.setblocking(False)
    try:
        return stall.reached.done() or bool(line.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
    finally:
        line.settimeout(60)


def _is_leaving_noticed(gateway: RunningGateway, caller: Caller, before: int) -> bool:
    """Return whether the leaving was noticed: the call is recorded, or drained."""
    return len(gateway.read_records_of(caller)) > before or bool(count_tasks(gateway, "_drain"))


@every_way
@every_dialect
def test_a_supplier_that_is_to_be_drained_is_so_though_the_caller_left_before_its_answer(
    gateway: RunningGateway, dialect: ChannelDialect, stream: bool
) -> None:
    stall, caller = Stall(0), gateway.add_caller()
    gateway.supplier.script(Answer((Say(WORDS),), USED, faults=(stall,)))
    with caller.begin_call(dialect, f"patient-{CHANNELS[dialect]}", stream=stream):
        stall.reached.result(60)
    check_drained(gateway, caller, stall)


@every_dialect
def test_a_supplier_that_is_to_be_drained_is_so_though_the_caller_left_in_the_middle(
    gateway: RunningGateway, dialect: ChannelDialect
) -> None:
    for supplier in DIALECTS:
        stall, caller = Stall(BEGUN[supplier]), gateway.add_caller()
        gateway.supplier.script(Answer((Say(WORDS),), USED, faults=(stall,)))
        with caller.begin_call(dialect, f"patient-{CHANNELS[supplier]}") as line:
            stall.reached.result(60)
            wait_for_bytes(line, b'"one')
        check_drained(gateway, caller, stall)


def test_a_bug_that_shows_after_the_caller_left_is_logged(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("what is this?")

    stall, caller = Stall(0), gateway.add_caller()
    gateway.supplier.script(Answer((Say(WORDS),), USED, faults=(stall,)))
    with caller.begin_call("openai-chat", "patient-chat", stream=False):
        stall.reached.result(60)
    until(lambda: count_tasks(gateway, "_drain"))
    monkeypatch.setattr(UpstreamCall, "read_whole", fail)
    stall.release()
    wait_for_left_record(gateway, caller)
    assert "RuntimeError: what is this?" in caplog.text


def check_drained(gateway: RunningGateway, caller: Caller, stall: Stall) -> None:
    """Check that the reply is recorded to its end after the caller has left."""
    until(lambda: count_tasks(gateway, "_drain"))
    stall.release()
    entry = wait_for_left_record(gateway, caller)
    assert not get_last_request(gateway).gone.done()
    assert (entry.estimated, entry.usage.input, entry.usage.output) == (False, 1000, 100)


@every_way
def test_a_supplier_that_we_stop_waiting_for_is_paid_for_all_that_it_may_write(
    tmp_path: Path, stream: bool
) -> None:
    def prepare(setup: GatewaySetup) -> None:
        setup.channels[0]["timeout"] = 0.2
        setup.settings["idle_timeout"] = 1

    with running_gateway(tmp_path, prepare) as gateway:
        caller = gateway.add_caller()
        for stall in [Stall(0), Stall(4)][: 1 + stream]:
            gateway.supplier.script(Answer((Say(WORDS),), USED, faults=(stall,)))
            caller.ask("openai-chat", "by-chat", stream=stream)
        for entry in gateway.wait_for_records_of(caller, 1 + stream):
            assert entry.outcome in ("failed", "broken")
            assert (entry.estimated, entry.usage.output) == (True, 1000)


def test_a_supplier_that_we_stop_waiting_for_is_paid_at_its_price_if_the_next_is_not_ready(
    tmp_path: Path,
) -> None:
    def prepare(setup: GatewaySetup) -> None:
        setup.channels[0]["timeout"] = 0.2
        unready = setup.build_channel("unready", "openai-chat") | {"key": "env:NOT_SET_ANYWHERE"}
        setup.channels.append(unready)
        dear = {"channel": "unready", "model": "x", "prices": {"input": "300", "output": "1500"}}
        setup.models[0]["routes"].append(dear | {"priority": 1})

    with running_gateway(tmp_path, prepare) as gateway:
        caller = gateway.add_caller()
        gateway.supplier.script(Answer((Say(WORDS),), USED, faults=(Stall(0),)))
        assert caller.ask("openai-chat", "by-chat").status == 500
        (entry,) = gateway.wait_for_records_of(caller, 1)
        assert [one.channel for one in entry.failed_tries] == ["chat", "unready"]
        assert (entry.channel, entry.supplier_model, entry.tries) == ("chat", "scripted-large", 2)
        assert (entry.estimated, entry.usage.output) == (True, 1000)
        into, out = Decimal("3.75"), Decimal(15)  # the dearest rates of ``PRICES``
        tokens = entry.usage.total_input * into + entry.usage.output * out
        assert entry.cost == tokens / 1_000_000


def test_a_supplier_that_dies_while_it_is_drained_is_recorded_by_estimate(
    gateway: RunningGateway,
) -> None:
    stall, caller = Stall(4), gateway.add_caller()
    gateway.supplier.script(Answer((Say(WORDS),), USED, faults=(stall, Break(4))))
    with caller.begin_call("openai-chat", "patient-chat") as line:
        stall.reached.result(60)
        wait_for_bytes(line, b'"one')
    until(lambda: count_tasks(gateway, "_drain"))
    stall.release()
    assert wait_for_left_record(gateway, caller).estimated


@pytest.mark.parametrize("fault", [Fail(0), None], ids=["event", "status"])
def test_a_call_that_the_supplier_refuses_while_it_is_drained_costs_nothing(
    tmp_path: Path, raw_supplier: RawSupplier, fault: Fail | None
) -> None:
    reached, answers = threading.Event(), threading.Event()

    def refuse(line: socket.socket) -> None:
        reached.set()
        answers.wait(60)
        line.sendall(b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n")

    def prepare(setup: GatewaySetup) -> None:
        setup.channels[0]["on_leave"] = "drain"
        if fault is None:
            setup.channels[0]["url"] = raw_supplier.url

    raw_supplier.behave = refuse
    with running_gateway(tmp_path, prepare) as gateway:
        caller, stall = gateway.add_caller(limits={"day": str(LIMIT)}), Stall(0)
        if fault:
            gateway.supplier.script(Answer((Say(WORDS),), USED, faults=(stall, fault)))
        with caller.begin_call("openai-chat", "by-chat"):
            stall.reached.result(60) if fault else reached.wait(60)
        until(lambda: count_tasks(gateway, "_drain"))
        stall.release()
        answers.set()
        entry = wait_for_left_record(gateway, caller)
        assert (entry.cost, entry.usage, entry.estimated) == (0, NO_USAGE, False)


def test_a_client_that_reads_slowly_makes_the_supplier_wait_and_has_it_all_in_the_end(
    gateway: RunningGateway, raw_supplier: RawSupplier
) -> None:
    size, sent = 60 * 2**20, 0
    event = b'data: {"choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % (b"x" * 65000)

    def pour(line: socket.socket) -> None:
        nonlocal sent
        line.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        while sent < size:
            line.sendall(event)
            sent += len(event)
        line.sendall(b"data: [DONE]\n\n")

    raw_supplier.behave = pour
    with gateway.add_caller().begin_call("openai-chat", "odd") as line:
        head = b"".join(line.recv(1) for _ in range(100))
        before = -1
        while before < sent:  # until nothing moves for a while
            before = sent
            until(lambda: count_tasks(gateway) is not None)
            line.recv(1)
        assert head.startswith(b"HTTP/1.1 200")
        assert sent < 20 * 2**20
        rest, end = 0, b""
        while piece := line.recv(2**20):
            rest += len(piece)
            end = (end + piece)[-100:]
            if b"[DONE]" in end:
                break
        assert rest > size


def test_half_a_body_is_no_request(gateway: RunningGateway) -> None:
    before, caller = len(gateway.supplier.requests), gateway.add_caller()
    for dialect in DIALECTS:
        whole = caller.build_request(*build_call(dialect, f"by-{CHANNELS[dialect]}"))
        with caller.connect() as line:
            line.sendall(whole[:-20])
    gateway.supplier.script(Say("well"))
    assert caller.ask("anthropic", "by-messages").text() == "well"
    assert len(gateway.wait_for_records_of(caller, 1)) == 1
    assert len(gateway.supplier.requests) == before + 1


def test_fifty_megabytes_are_passed_on(gateway: RunningGateway) -> None:
    text = "so many words " * (50 * 2**20 // 14)
    gateway.supplier.script(Say("well"))
    reply = gateway.add_caller().ask("openai-chat", "by-chat", text=text)
    assert reply.text() == "well"
    assert get_last_request(gateway).body["messages"][0]["content"] == text


def test_the_daemon_stops_at_once_and_records_anyone_who_was_under_way(tmp_path: Path) -> None:
    def prepare(setup: GatewaySetup) -> None:
        setup.channels[0]["on_leave"] = "drain"

    stalls = [Stall(0), Stall(4), Stall(0), Stall(4), Stall(0), Stall(6)]
    with ExitStack() as stack:
        gateway = stack.enter_context(running_gateway(tmp_path, prepare))
        caller = gateway.add_caller()
        for number, stall in enumerate(stalls):
            gateway.supplier.script(Answer((Say(WORDS),), USED, faults=(stall,)))
            model = "by-chat" if number < 4 else "by-messages"
            line = stack.enter_context(caller.begin_call("anthropic", model))
            stall.reached.result(60)
            if number < 2:
                line.close()
        until(lambda: count_tasks(gateway, "_drain") == 2)
        gateway.daemon.stop()
        gateway.daemon.join()  # though none of the suppliers says a word
        assert {entry.outcome for entry in gateway.wait_for_records_of(caller, len(stalls))} == {
            "left"
        }


def test_nothing_stays_behind(gateway: RunningGateway) -> None:
    caller = gateway.add_caller(limits={"parallel": 8})

    def there() -> tuple[int, int]:
        return count_tasks(gateway) or 0, len(os.listdir("/proc/self/fd"))

    first = (0, 0)
    for turn in range(1, 4):
        stalls = [Stall(0) for _ in range(4)] + [Stall(4) for _ in range(4)]
        lines = []
        for stall in stalls:
            gateway.supplier.script(Answer((Say(WORDS),), faults=(stall,)))
            lines.append(caller.begin_call("openai-chat", "by-chat"))
            stall.reached.result(60)
        for line in lines:
            line.close()
        for request in gateway.supplier.requests[-8:]:
            request.gone.result(60)
        gateway.wait_for_records_of(caller, 8 * turn)
        for stall in stalls:
            stall.release()
        first = first if turn > 1 else wait_until_stable(there)
    until(lambda: all(now <= then for now, then in zip(there(), first, strict=True)))


def wait_until_stable(count: Callable[[], tuple[int, int]]) -> tuple[int, int]:
    """Return the counts, once they were the same a hundred times in a row."""
    found, times = count(), 0

    def is_stable() -> bool:
        nonlocal found, times
        before, found = found, count()
        times = times + 1 if found == before else 0
        return times > 100

    until(is_stable)
    return found


def count_tasks(gateway: RunningGateway, *names: str) -> int | None:
    """Count the daemon's tasks with one of these names."""

    async def count() -> int:
        await asyncio.sleep(0)
        found = [repr(task.get_coro()) for task in asyncio.all_tasks()]
        return sum(not names or any(name in one for name in names) for one in found)

    return asyncio.run_coroutine_threadsafe(count(), gateway.loop).result(60)
