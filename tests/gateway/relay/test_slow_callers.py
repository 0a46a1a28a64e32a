"""Callers who read and send byte by byte: nobody waits for them, and they get what they asked."""

import io
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest

from agentd.gateway.keys.file import AccessKeyFile
from agentd.llm.endpoint import ChannelDialect
from tests.gateway.conftest import PRICES, GatewaySetup
from tests.gateway.relay.callers import (
    CHANNELS,
    Caller,
    RunningGateway,
    build_call,
    every_dialect,
    read_answer,
    running_gateway,
)
from tests.gateway.relay.loading import running_load
from tests.gateway.relay.raw_supplier import RawSupplier, running_raw_supplier
from tests.gateway.relay.test_leaving import count_tasks
from tests.supplier.steps import Answer, Say, Stall, Tokens, say_in_one_event
from tests.support.daemon import PATIENCE, until

SLOW = 16
WORDS = "one two three four five six"
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % (b"x" * 65000)
HELD = 20 * 2**20
"""Bytes that all buffers between a supplier and a caller may hold, most of them the kernel's."""


@pytest.fixture
def endless() -> Iterator[RawSupplier]:
    """A supplier whose streams never end."""

    def pour(line: socket.socket) -> None:
        line.settimeout(PATIENCE * 2)
        line.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        while True:
            line.sendall(EVENT)
            poured.append(len(EVENT))

    poured: list[int] = []
    with running_raw_supplier() as made:
        made.behave = pour
        made.poured = poured  # type: ignore[attr-defined]
        yield made


@pytest.fixture
def gateway(tmp_path: Path, endless: RawSupplier) -> Iterator[RunningGateway]:
    def prepare(setup: GatewaySetup) -> None:
        setup.channels.append(setup.build_channel("endless", "openai-chat") | {"url": endless.url})
        way = {"channel": "endless", "model": "scripted-large"}
        setup.models.append({"name": "endless", "routes": [way], "prices": PRICES, "max_output": 9})
        said = Answer((Say(WORDS),), Tokens(input=1000, output=100))
        setup.supplier.answer_always(lambda request: said if request.prompt == "hello" else None)

    with running_gateway(tmp_path, prepare) as made:
        yield made


def connect_slow_reader(caller: Caller, model: str, *, stream: bool = True) -> socket.socket:
    """Send a call from a connection that buffers as little as possible."""
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.settimeout(PATIENCE)
    line.connect(("127.0.0.1", caller.port))
    line.sendall(caller.build_request(*build_call("openai-chat", model, stream=stream)))
    return line


def wait_until_constant(amount: Callable[[], int]) -> int:
    """Return an amount, once it rises no more."""
    since, before = time.monotonic(), -1

    def is_constant() -> bool:
        nonlocal since, before
        if (now := amount()) != before:
            since, before = time.monotonic(), now
        return time.monotonic() - since > 0.3

    until(is_constant)
    return before


def test_a_client_that_reads_byte_by_byte_makes_its_supplier_wait_and_nobody_else(
    gateway: RunningGateway, endless: RawSupplier
) -> None:
    poured: list[int] = endless.poured  # type: ignore[attr-defined]
    slow = gateway.add_caller()
    with ExitStack() as stack:
        lines = [stack.enter_context(connect_slow_reader(slow, "endless")) for _ in range(SLOW)]
        until(lambda: all(len(line.recv(1)) == 1 for line in lines))
        with running_load(gateway.add_caller()) as calls:
            for _ in range(5):
                assert all(len(line.recv(1)) == 1 for line in lines)
                calls.wait_for_more()
        assert wait_until_constant(lambda: sum(poured)) < SLOW * HELD
    entries = gateway.wait_for_records_of(slow, SLOW)
    assert {(entry.outcome, entry.status) for entry in entries} == {("left", 200)}
    assert all(entry.estimated and entry.cost > 0 for entry in entries)


def test_a_stop_waits_for_nobody_who_does_not_read(gateway: RunningGateway) -> None:
    slow = gateway.add_caller()
    with ExitStack() as stack:
        lines = [stack.enter_context(connect_slow_reader(slow, "endless")) for _ in range(SLOW)]
        assert all(len(line.recv(1)) == 1 for line in lines)
        gateway.daemon.stop()
        gateway.daemon.join()
        assert {entry.outcome for entry in gateway.wait_for_records_of(slow, SLOW)} == {"left"}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentd.http.context.WRITE_TIMEOUT", 0.2)


def test_a_client_that_reads_nothing_is_hung_up_on_in_time_and_its_supplier_let_go(
    impatient: None, gateway: RunningGateway
) -> None:
    slow = gateway.add_caller()
    with connect_slow_reader(slow, "endless") as line:
        assert len(line.recv(1)) == 1
        assert {entry.outcome for entry in gateway.wait_for_records_of(slow, 1)} == {"left"}


@pytest.fixture
def parting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentd.http.context.ABORT_TIMEOUT", 0.2)


def test_a_client_that_reads_nothing_is_hung_up_on_soon_after_its_key_is_taken_away(
    parting: None, gateway: RunningGateway, endless: RawSupplier
) -> None:
    poured: list[int] = endless.poured  # type: ignore[attr-defined]
    slow = gateway.add_caller()
    with connect_slow_reader(slow, "endless") as line:
        assert len(line.recv(1)) == 1
        wait_until_constant(lambda: sum(poured))
        assert count_tasks(gateway, "_send_when_ready") == 1
        AccessKeyFile(gateway.setup.layout).remove(gateway.setup.keys[-1])
        (entry,) = gateway.wait_for_records_of(slow, 1)
        assert (entry.outcome, entry.error) == ("left", "revoked")
        until(lambda: count_tasks(gateway, "_send_when_ready") == 0)


class Drops(io.RawIOBase):
    """The bytes of a connection, one at a time."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    def makefile(self, _: str) -> io.BufferedReader:
        """Return a buffered reader, as a socket does."""
        return io.BufferedReader(self, 1)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._line.recv(1)
        buffer[: len(data)] = data
        return len(data)


@every_dialect
def test_a_client_that_reads_byte_by_byte_has_it_all_in_the_end(
    gateway: RunningGateway, dialect: ChannelDialect
) -> None:
    caller, model = gateway.add_caller(), f"by-{CHANNELS[dialect]}"
    for stream in (False, True):
        with caller.begin_call(dialect, model, stream=stream) as line:
            reply = read_answer(cast("socket.socket", Drops(line)), dialect)
        assert (reply.status, reply.text(), reply.whole) == (200, WORDS, True)
        assert gateway.wait_for_record(reply).outcome == "ok"


@every_dialect
def test_a_client_that_sends_byte_by_byte_is_answered(
    gateway: RunningGateway, dialect: ChannelDialect
) -> None:
    caller = gateway.add_caller()
    request = caller.build_request(*build_call(dialect, f"by-{CHANNELS[dialect]}"))
    with caller.connect() as line, running_load(gateway.add_caller()):
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in request:
            line.sendall(bytes([byte]))
        reply = read_answer(line, dialect)
    assert reply.text() == WORDS
    assert gateway.wait_for_record(reply).received == len(request.partition(b"\r\n\r\n")[2])


def test_fifty_megabytes_of_one_keep_nobody_from_being_answered(gateway: RunningGateway) -> None:
    stall = Stall(0)
    gateway.supplier.script(Answer((say_in_one_event(100),), faults=(stall,)))
    caller = gateway.add_caller()
    request = caller.build_request(
        *build_call("openai-chat", "by-chat", text="many words " * 5_000_000)
    )
    with caller.connect() as line, running_load(gateway.add_caller()) as calls:
        line.sendall(request[:-1000])
        calls.wait_for_more()
        line.sendall(request[-1000:])
        stall.reached.result(60)
        calls.wait_for_more()
        stall.release()
        assert read_answer(line, "openai-chat").status == 200
