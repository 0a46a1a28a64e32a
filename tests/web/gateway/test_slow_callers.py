"""Callers who read and send byte by byte: nobody waits for them, and they get what they asked."""

import io
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest

from agentd.disk.access_keys import AccessKeyFile
from agentd.proxy.channel import ChannelDialect
from tests.supplier.steps import Answer, Say, Stall, Tokens, giant
from tests.web.gateway.bare import Bare, bare
from tests.web.gateway.callers import (
    CHANNELS,
    Caller,
    Standing,
    asked,
    every_dialect,
    read,
    standing,
)
from tests.web.gateway.conftest import PRICES, House
from tests.web.gateway.loading import load
from tests.web.gateway.test_leaving import tasks
from tests.web.support import PATIENCE, until

SLOW = 16
WORDS = "one two three four five six"
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % (b"x" * 65000)
HELD = 20 * 2**20
"""Bytes that all buffers between a supplier and a caller may hold, most of them the kernel's."""


@pytest.fixture
def endless() -> Iterator[Bare]:
    """A supplier whose streams never end."""

    def pour(line: socket.socket) -> None:
        line.settimeout(PATIENCE * 2)
        line.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        while True:
            line.sendall(EVENT)
            poured.append(len(EVENT))

    poured: list[int] = []
    with bare() as made:
        made.behave = pour
        made.poured = poured  # type: ignore[attr-defined]
        yield made


@pytest.fixture
def place(tmp_path: Path, endless: Bare) -> Iterator[Standing]:
    def prepare(house: House) -> None:
        house.channels.append(house.channel("endless", "openai-chat") | {"url": endless.url})
        way = {"channel": "endless", "model": "scripted-large"}
        house.models.append({"name": "endless", "ways": [way], "prices": PRICES, "max_output": 9})
        said = Answer((Say(WORDS),), Tokens(input=1000, output=100))
        house.supplier.always(lambda request: said if request.prompt == "hello" else None)

    with standing(tmp_path, prepare) as made:
        yield made


def reader(caller: Caller, model: str, *, stream: bool = True) -> socket.socket:
    """Someone who asked, and takes in as little as he can."""
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.settimeout(PATIENCE)
    line.connect(("127.0.0.1", caller.port))
    line.sendall(caller.request(*asked("openai-chat", model, stream=stream)))
    return line


def stands(amount: Callable[[], int]) -> int:
    """An amount, once it rises no more."""
    since, before = time.monotonic(), -1

    def still() -> bool:
        nonlocal since, before
        if (now := amount()) != before:
            since, before = time.monotonic(), now
        return time.monotonic() - since > 0.3

    until(still)
    return before


def test_who_reads_byte_by_byte_makes_his_supplier_wait_and_nobody_else(
    place: Standing, endless: Bare
) -> None:
    poured: list[int] = endless.poured  # type: ignore[attr-defined]
    slow = place.caller()
    with ExitStack() as stack:
        lines = [stack.enter_context(reader(slow, "endless")) for _ in range(SLOW)]
        until(lambda: all(len(line.recv(1)) == 1 for line in lines))
        with load(place.caller()) as calls:
            for _ in range(5):
                assert all(len(line.recv(1)) == 1 for line in lines)
                calls.more()
        assert stands(lambda: sum(poured)) < SLOW * HELD
    entries = place.of(slow, SLOW)
    assert {(entry.outcome, entry.status) for entry in entries} == {("left", 200)}
    assert all(entry.estimated and entry.cost > 0 for entry in entries)


def test_a_stop_waits_for_nobody_who_does_not_read(place: Standing) -> None:
    slow = place.caller()
    with ExitStack() as stack:
        lines = [stack.enter_context(reader(slow, "endless")) for _ in range(SLOW)]
        assert all(len(line.recv(1)) == 1 for line in lines)
        place.daemon.stop()
        place.daemon.join()
        assert {entry.outcome for entry in place.of(slow, SLOW)} == {"left"}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentd.web.desk.TAKING_SECONDS", 0.2)


def test_who_reads_nothing_is_hung_up_on_in_time_and_his_supplier_let_go(
    impatient: None, place: Standing
) -> None:
    slow = place.caller()
    with reader(slow, "endless") as line:
        assert len(line.recv(1)) == 1
        assert {entry.outcome for entry in place.of(slow, 1)} == {"left"}


@pytest.fixture
def parting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentd.web.desk.PARTING_SECONDS", 0.2)


def test_who_reads_nothing_is_hung_up_on_soon_after_his_key_is_taken_away(
    parting: None, place: Standing, endless: Bare
) -> None:
    poured: list[int] = endless.poured  # type: ignore[attr-defined]
    slow = place.caller()
    with reader(slow, "endless") as line:
        assert len(line.recv(1)) == 1
        stands(lambda: sum(poured))
        assert tasks(place, "_finish_later") == 1
        AccessKeyFile(place.house.layout).remove(place.house.keys[-1])
        (entry,) = place.of(slow, 1)
        assert (entry.outcome, entry.error) == ("left", "revoked")
        until(lambda: tasks(place, "_finish_later") == 0)


class Drops(io.RawIOBase):
    """What a connection brings, a byte at a time."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    def makefile(self, _: str) -> io.BufferedReader:
        """As a connection's own, for who reads an answer from it."""
        return io.BufferedReader(self, 1)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._line.recv(1)
        buffer[: len(data)] = data
        return len(data)


@every_dialect
def test_who_reads_byte_by_byte_has_it_all_in_the_end(
    place: Standing, dialect: ChannelDialect
) -> None:
    caller, model = place.caller(), f"by-{CHANNELS[dialect]}"
    for stream in (False, True):
        with caller.begin(dialect, model, stream=stream) as line:
            told = read(cast("socket.socket", Drops(line)), dialect)
        assert (told.status, told.text(), told.whole) == (200, WORDS, True)
        assert place.entry(told).outcome == "ok"


@every_dialect
def test_who_sends_byte_by_byte_is_answered(place: Standing, dialect: ChannelDialect) -> None:
    caller = place.caller()
    request = caller.request(*asked(dialect, f"by-{CHANNELS[dialect]}"))
    with caller.connected() as line, load(place.caller()):
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in request:
            line.sendall(bytes([byte]))
        told = read(line, dialect)
    assert told.text() == WORDS
    assert place.entry(told).received == len(request.partition(b"\r\n\r\n")[2])


def test_fifty_megabytes_of_one_keep_nobody_from_being_answered(place: Standing) -> None:
    stall = Stall(0)
    place.supplier.script(Answer((giant(100),), faults=(stall,)))
    caller = place.caller()
    request = caller.request(*asked("openai-chat", "by-chat", text="many words " * 5_000_000))
    with caller.connected() as line, load(place.caller()) as calls:
        line.sendall(request[:-1000])
        calls.more()
        line.sendall(request[-1000:])
        stall.reached.result(60)
        calls.more()
        stall.release()
        assert read(line, "openai-chat").status == 200
