"""Nobody waits for ever for a line of the ledger, whatever becomes of its threads."""

import asyncio
import errno
import os
import threading
from queue import SimpleQueue

import pytest

from agentd.disk import ledger_writer
from agentd.disk.ledger_writer import Writer
from agentd.errors import Unavailable
from tests.conftest import until

pytestmark = pytest.mark.gen_test

DAY = "2026-01-31"


def read(layout) -> bytes:
    with open(layout.ledger_day(DAY), "rb") as file:
        return file.read()


class Held:
    """Keeps the writing thread from anything else until it is let go of."""

    def __init__(self, writer: Writer) -> None:
        self._holds, self._go = threading.Event(), threading.Event()
        self._task = asyncio.create_task(writer.between(self._hold))

    def _hold(self) -> None:
        self._holds.set()
        assert self._go.wait(100)

    async def begun(self) -> None:
        await until(self._holds.is_set)

    async def release(self) -> None:
        self._go.set()
        await self._task


@pytest.mark.parametrize("sync", [False, True])
async def test_a_bug_ends_the_writing_and_who_waits_is_told(layout, caplog, monkeypatch, sync):
    writer = Writer(layout)
    await writer.append(DAY, b"first\n")

    def buggy(*_):
        raise ZeroDivisionError

    held = Held(writer)
    await held.begun()
    monkeypatch.setattr(writer._files, "append", buggy)
    lines = [writer.append(day, b"second\n", safe=sync) for day in (DAY, "2026-02-01")]
    await asyncio.sleep(0)
    late = writer.append(DAY, b"third\n", safe=sync)
    asked = asyncio.create_task(writer.between(lambda: "still there"))
    await held.release()
    for told in (*lines, late):
        with pytest.raises(Unavailable, match="restart agentd"):
            await told
    with pytest.raises(Unavailable, match="restart agentd"):
        writer.append(DAY, b"fourth\n")
    with pytest.raises(Unavailable, match="restart agentd"):
        await writer.probe(DAY)
    assert await asked == "still there"
    assert await writer.between(lambda: "and later") == "and later"
    assert "restart agentd" in writer.trouble
    assert "ZeroDivisionError" in caplog.text
    await writer.close()
    assert read(layout) == b"first\n"


async def test_a_bug_of_the_sync_is_told_to_who_waits_for_it(layout, monkeypatch):
    writer = Writer(layout)
    await writer.append(DAY, b"first\n")

    def buggy(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(writer, "_sync_group", buggy)
    with pytest.raises(Unavailable, match="restart agentd"):
        await writer.append(DAY, b"second\n", safe=True)
    with pytest.raises(Unavailable, match="restart agentd"):
        writer.append(DAY, b"third\n")
    assert "restart agentd" in writer.trouble
    await writer.close()


async def test_lines_of_several_files_are_told_of_in_one_turn_of_the_loop(layout, monkeypatch):
    """Of two, the second would hand over an empty group, and the next ones would be small."""
    writer, turns = Writer(layout), []
    settle = writer._settle
    monkeypatch.setattr(writer, "_settle", lambda *told: (turns.append(1), settle(*told)))
    held = Held(writer)
    await held.begun()
    lines = [writer.append(name, b"first\n") for name in (DAY, "begun-1", DAY)]
    await asyncio.sleep(0)
    await held.release()
    for told in lines:
        await told
    assert len(turns) == 1
    await writer.close()
    assert read(layout) == b"first\nfirst\n"


async def test_lines_that_nobody_waits_for_wake_the_syncing_thread_once(layout, monkeypatch):
    woken = []

    class Counted(SimpleQueue):
        def put(self, item):
            if isinstance(item, ledger_writer._Synced):
                woken.append(item)
            super().put(item)

    monkeypatch.setattr(ledger_writer, "LAG", 1000.0)
    monkeypatch.setattr(ledger_writer, "SimpleQueue", Counted)
    writer = Writer(layout)
    for _ in range(20):
        await writer.append(DAY, b"line\n")
    assert len(woken) == 1
    await writer.append(DAY, b"line\n", safe=True)
    assert len(woken) == 2
    await writer.append(DAY, b"line\n")
    assert len(woken) == 3  # what a sync may have missed is known again
    await writer.close()
    assert read(layout) == 22 * b"line\n"


async def test_a_bug_of_who_asks_is_his_and_lines_go_on_being_written(layout):
    writer = Writer(layout)
    with pytest.raises(ZeroDivisionError):
        await writer.between(lambda: 1 / 0)
    await writer.append(DAY, b"first\n")
    assert not writer.trouble
    await writer.close()
    assert read(layout) == b"first\n"


async def test_who_stops_waiting_for_his_turn_ends_nothing(layout):
    writer = Writer(layout)
    done = []
    held = Held(writer)
    given_up = asyncio.create_task(writer.between(lambda: done.append(1)))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.wait([given_up])
    await held.release()
    await writer.append(DAY, b"first\n")
    assert await writer.between(lambda: "there") == "there"
    assert not done
    await writer.close()


async def test_a_probe_tells_whether_lines_would_be_taken_and_leaves_nothing(layout, monkeypatch):
    writer, write = Writer(layout), os.write
    await writer.append(DAY, b"first\n")

    def half(fd, data):
        write(fd, bytes(data)[: len(data) // 2])
        raise OSError(errno.ENOSPC, "")

    monkeypatch.setattr(ledger_writer.os, "write", half)
    with pytest.raises(Unavailable, match="disk full"):
        await writer.append(DAY, b"second\n")
    for _ in range(2):
        with pytest.raises(Unavailable, match="disk full"):
            await writer.probe(DAY)
        assert "disk full" in writer.trouble
        assert os.listdir(layout.ledger) == [f"{DAY}.jsonl"]
    monkeypatch.setattr(ledger_writer.os, "write", write)
    await writer.probe(DAY)
    assert not writer.trouble
    await writer.append(DAY, b"third\n")
    await writer.close()
    assert os.listdir(layout.ledger) == [f"{DAY}.jsonl"]
    assert read(layout) == b"first\nthird\n"


async def test_a_probe_fails_as_long_as_what_a_failed_write_left_cannot_be_cut(layout, monkeypatch):
    writer, write, cut = Writer(layout), os.write, os.ftruncate

    def half(fd, data):
        write(fd, bytes(data)[: len(data) // 2])
        raise OSError(errno.ENOSPC, "")

    def stuck(fd, size):
        raise OSError(errno.EIO, "")

    await writer.append(DAY, b"first\n")
    monkeypatch.setattr(ledger_writer.os, "write", half)
    monkeypatch.setattr(ledger_writer.os, "ftruncate", stuck)
    with pytest.raises(Unavailable):
        await writer.append(DAY, b"second\n")
    monkeypatch.setattr(ledger_writer.os, "write", write)
    with pytest.raises(Unavailable, match="cannot be cut"):
        await writer.probe(DAY)
    monkeypatch.setattr(ledger_writer.os, "ftruncate", cut)
    await writer.probe(DAY)
    await writer.append(DAY, b"third\n")
    await writer.close()
    assert read(layout) == b"first\nthird\n"
