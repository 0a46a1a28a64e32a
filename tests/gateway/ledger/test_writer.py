"""Nobody waits for ever for a line of the ledger, whatever becomes of its threads."""

import asyncio
import errno
import os
import threading
from queue import SimpleQueue

import pytest

from agentd.core.errors import Unavailable
from agentd.gateway.ledger import writer as ledger_writer
from agentd.gateway.ledger.writer import LedgerWriter
from tests.conftest import until

pytestmark = pytest.mark.gen_test

DAY = "2026-01-31"


def read_ledger(layout) -> bytes:
    with open(layout.get_ledger_day_path(DAY), "rb") as file:
        return file.read()


class HeldWriter:
    """Keeps the writing thread from anything else until it is let go of."""

    def __init__(self, writer: LedgerWriter) -> None:
        self._holds, self._go = threading.Event(), threading.Event()
        self._task = asyncio.create_task(writer.run_between_groups(self._hold))

    def _hold(self) -> None:
        self._holds.set()
        assert self._go.wait(100)

    async def begun(self) -> None:
        await until(self._holds.is_set)

    async def release(self) -> None:
        self._go.set()
        await self._task


@pytest.mark.parametrize("sync", [False, True])
async def test_a_bug_ends_the_writing_and_a_waiting_caller_is_reported(
    layout, caplog, monkeypatch, sync
):
    writer = LedgerWriter(layout)
    await writer.append(DAY, b"first\n")

    def raise_bug(*_):
        raise ZeroDivisionError

    held = HeldWriter(writer)
    await held.begun()
    monkeypatch.setattr(writer._files, "append", raise_bug)
    lines = [writer.append(day, b"second\n", safe=sync) for day in (DAY, "2026-02-01")]
    await asyncio.sleep(0)
    late = writer.append(DAY, b"third\n", safe=sync)
    asked = asyncio.create_task(writer.run_between_groups(lambda: "still there"))
    await held.release()
    for result in (*lines, late):
        with pytest.raises(Unavailable, match="restart agentd"):
            await result
    with pytest.raises(Unavailable, match="restart agentd"):
        writer.append(DAY, b"fourth\n")
    with pytest.raises(Unavailable, match="restart agentd"):
        await writer.probe(DAY)
    assert await asked == "still there"
    assert await writer.run_between_groups(lambda: "and later") == "and later"
    assert "restart agentd" in writer.problem
    assert "ZeroDivisionError" in caplog.text
    await writer.close()
    assert read_ledger(layout) == b"first\n"


async def test_a_bug_of_the_sync_is_reported_to_a_client_that_waits_for_it(layout, monkeypatch):
    writer = LedgerWriter(layout)
    await writer.append(DAY, b"first\n")

    def raise_bug(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(writer, "_sync_group", raise_bug)
    with pytest.raises(Unavailable, match="restart agentd"):
        await writer.append(DAY, b"second\n", safe=True)
    with pytest.raises(Unavailable, match="restart agentd"):
        writer.append(DAY, b"third\n")
    assert "restart agentd" in writer.problem
    await writer.close()


async def test_lines_of_several_files_are_informed_of_in_one_turn_of_the_loop(layout, monkeypatch):
    """Of two, the second would hand over an empty group, and the next ones would be small."""
    writer, turns = LedgerWriter(layout), []
    settle = writer._resolve
    monkeypatch.setattr(writer, "_resolve", lambda *result: (turns.append(1), settle(*result)))
    held = HeldWriter(writer)
    await held.begun()
    lines = [writer.append(name, b"first\n") for name in (DAY, "begun-1", DAY)]
    await asyncio.sleep(0)
    await held.release()
    for result in lines:
        await result
    assert len(turns) == 1
    await writer.close()
    assert read_ledger(layout) == b"first\nfirst\n"


async def test_lines_that_nobody_waits_for_wake_the_syncing_thread_once(layout, monkeypatch):
    woken = []

    class CountingQueue(SimpleQueue):
        def put(self, item):
            if isinstance(item, ledger_writer._SyncRequest):
                woken.append(item)
            super().put(item)

    monkeypatch.setattr(ledger_writer, "SYNC_DELAY", 1000.0)
    monkeypatch.setattr(ledger_writer, "SimpleQueue", CountingQueue)
    writer = LedgerWriter(layout)
    for _ in range(20):
        await writer.append(DAY, b"line\n")
    assert len(woken) == 1
    await writer.append(DAY, b"line\n", safe=True)
    assert len(woken) == 2
    await writer.append(DAY, b"line\n")
    assert len(woken) == 3  # what a sync may have missed is known again
    await writer.close()
    assert read_ledger(layout) == 22 * b"line\n"


async def test_a_bug_of_who_asks_is_its_and_lines_go_on_being_written(layout):
    writer = LedgerWriter(layout)
    with pytest.raises(ZeroDivisionError):
        await writer.run_between_groups(lambda: 1 / 0)
    await writer.append(DAY, b"first\n")
    assert not writer.problem
    await writer.close()
    assert read_ledger(layout) == b"first\n"


async def test_a_client_that_stops_waiting_for_its_turn_ends_nothing(layout):
    writer = LedgerWriter(layout)
    done = []
    held = HeldWriter(writer)
    given_up = asyncio.create_task(writer.run_between_groups(lambda: done.append(1)))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.wait([given_up])
    await held.release()
    await writer.append(DAY, b"first\n")
    assert await writer.run_between_groups(lambda: "there") == "there"
    assert not done
    await writer.close()


async def test_a_probe_shows_whether_lines_would_be_taken_and_leaves_nothing(layout, monkeypatch):
    writer, write = LedgerWriter(layout), os.write
    await writer.append(DAY, b"first\n")

    def write_half(fd, data):
        write(fd, bytes(data)[: len(data) // 2])
        raise OSError(errno.ENOSPC, "")

    monkeypatch.setattr(ledger_writer.os, "write", write_half)
    with pytest.raises(Unavailable, match="disk full"):
        await writer.append(DAY, b"second\n")
    for _ in range(2):
        with pytest.raises(Unavailable, match="disk full"):
            await writer.probe(DAY)
        assert "disk full" in writer.problem
        assert os.listdir(layout.ledger) == [f"{DAY}.jsonl"]
    monkeypatch.setattr(ledger_writer.os, "write", write)
    await writer.probe(DAY)
    assert not writer.problem
    await writer.append(DAY, b"third\n")
    await writer.close()
    assert os.listdir(layout.ledger) == [f"{DAY}.jsonl"]
    assert read_ledger(layout) == b"first\nthird\n"


async def leave_remains(writer, monkeypatch):
    """Append a line of which half is written and cannot be cut off again."""
    write = os.write

    def write_half(fd, data):
        write(fd, bytes(data)[: len(data) // 2])
        raise OSError(errno.ENOSPC, "")

    def raise_error(fd, size):
        raise OSError(errno.EIO, "")

    monkeypatch.setattr(ledger_writer.os, "write", write_half)
    monkeypatch.setattr(ledger_writer.os, "ftruncate", raise_error)
    with pytest.raises(Unavailable):
        await writer.append(DAY, b"second\n")
    monkeypatch.setattr(ledger_writer.os, "write", write)
    with pytest.raises(Unavailable, match="cannot be cut"):
        await writer.probe(DAY)


async def test_a_probe_fails_as_long_as_what_a_failed_write_left_cannot_be_cut(layout, monkeypatch):
    writer, cut = LedgerWriter(layout), os.ftruncate
    await writer.append(DAY, b"first\n")
    await leave_remains(writer, monkeypatch)
    monkeypatch.setattr(ledger_writer.os, "ftruncate", cut)
    await writer.probe(DAY)
    await writer.append(DAY, b"third\n")
    await writer.close()
    assert read_ledger(layout) == b"first\nthird\n"


async def test_a_file_that_is_removed_while_remains_cannot_be_cut_off_is_begun_anew(
    layout, monkeypatch
):
    writer, cut = LedgerWriter(layout), os.ftruncate
    await writer.append(DAY, b"first\n")
    await leave_remains(writer, monkeypatch)

    def remove():
        os.unlink(layout.get_ledger_day_path(DAY))
        writer.release_file(DAY)

    await writer.run_between_groups(remove)
    monkeypatch.setattr(ledger_writer.os, "ftruncate", cut)
    await writer.append(DAY, b"third\n")
    await writer.close()
    assert read_ledger(layout) == b"third\n"
