"""No booked request is lost or doubled by ``kill -9`` or a full disk; the sums are a recount."""

import asyncio
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from agentd.core.clock import FrozenClock
from agentd.core.errors import AgentdError
from agentd.gateway.ledger.day_file import decode_record, list_days
from agentd.gateway.ledger.ledger import Ledger
from agentd.storage.layout import Layout
from tests.crash.booking import DAYS, KEYS

KILLS = 12


def start_booking(folder: Path, *more: str, plant: str = "") -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.crash.booking", str(folder), *more],
        stdout=subprocess.PIPE,
        env={**os.environ, "PLANT": plant},
    )


def run_and_kill(folder: Path, run: int, acknowledgements: int, plant: str = "") -> list[str]:
    """Kill it somewhat after so many acknowledgements; return the acknowledged records."""
    process = start_booking(folder, f"l{run}", plant=plant)
    assert process.stdout
    result = [process.stdout.readline() for _ in range(acknowledgements)]
    process.kill()
    result += process.stdout.readlines()
    process.wait()
    process.stdout.close()
    whole = [line.decode().strip() for line in result if line.endswith(b"\n")]
    assert all(line.startswith("+") for line in whole)
    return [line[1:] for line in whole]


def find_violations(folder: Path, acknowledged: list[str]) -> Iterator[str]:
    """Yield the broken promises, read line by line without the store and by it."""
    layout = Layout(str(folder), str(folder))
    found = asyncio.run(read_sums(layout))
    counted: Counter[str] = Counter()
    spent = dict.fromkeys(KEYS, Decimal(0))
    for day in list_days(layout.ledger):
        for line in Path(layout.get_ledger_day_path(day)).read_bytes().splitlines(keepends=True):
            entry = decode_record(line)
            counted[entry.id] += 1
            spent[entry.key] += entry.cost
    yield from (f"{one} is missing" for one in acknowledged if one not in counted)
    yield from (f"{one} is there {times} times" for one, times in counted.items() if times > 1)
    for key, amount in spent.items():
        if found[key] != amount:
            yield f"{key} has spent {amount}, but {found[key]} is told"


async def read_sums(layout: Layout) -> dict[str, Decimal]:
    ledger = Ledger(layout, FrozenClock(f"{DAYS[1]}T12:00:00.000Z"))
    sums = await ledger.open()
    assert not (await ledger.get_overview()).corrupt_days
    by_key = {name: row.cost for name, row in (await ledger.get_totals("key", *DAYS)).rows}
    found = {key: sums.get_spend(key) for key in KEYS}
    assert by_key.items() <= found.items()
    await ledger.close()
    return found


def test_no_kill_loses_or_doubles_a_recorded_request_and_the_sums_agree(tmp_path: Path) -> None:
    chance, acknowledged = random.Random(7), []  # noqa: S311
    for run in range(KILLS):
        acknowledged += run_and_kill(tmp_path, run, chance.randrange(1, 3000))
        assert not list(find_violations(tmp_path, acknowledged))
    assert len(acknowledged) > KILLS * 300, "there was hardly any load"


@pytest.mark.parametrize(
    ("plant", "sign"), [("acknowledged_too_early", "missing"), ("written_twice", "times")]
)
def test_the_checker_finds_what_a_broken_ledger_does(tmp_path: Path, plant: str, sign: str) -> None:
    acknowledged: list[str] = []
    for run in range(10):
        acknowledged += run_and_kill(tmp_path, run, 500, plant)
        if sign in str(list(find_violations(tmp_path, acknowledged))):
            return
    pytest.fail("not found")


def test_on_a_full_disk_nothing_is_silent_and_no_half_line_stays(tmp_path: Path) -> None:
    process = start_booking(tmp_path, "full", "60000")
    result = process.communicate(timeout=100)[0].decode().split()
    assert process.returncode == 0
    booked = [line[1:] for line in result if line[0] == "+"]
    assert len(result) == 2000
    assert 100 < len(booked) < 1000
    assert not list(find_violations(tmp_path, booked))
    layout = Layout(str(tmp_path), str(tmp_path))
    lines = sum(Path(layout.get_ledger_day_path(day)).read_bytes().count(b"\n") for day in DAYS)
    assert lines == len(booked)


def test_the_checker_finds_what_a_failed_write_leaves(tmp_path: Path) -> None:
    process = start_booking(tmp_path, "full", "60000", plant="left_uncut")
    result = process.communicate(timeout=100)[0].decode().split()
    booked = [line[1:] for line in result if line[0] == "+"]
    layout = Layout(str(tmp_path), str(tmp_path))
    whole = [
        line
        for day in DAYS
        for line in Path(layout.get_ledger_day_path(day)).read_bytes().splitlines(keepends=True)
    ]
    try:
        there = [decode_record(line).id for line in whole]
    except (ValueError, AgentdError):
        return
    assert sorted(there) != sorted(booked)
