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

from agentd.clock import FrozenClock
from agentd.disk.layout import Layout
from agentd.disk.ledger import Ledger
from agentd.disk.ledger_file import days_in, entry_in
from agentd.errors import AgentdError
from tests.crash.booking import DAYS, KEYS

KILLS = 12


def started(folder: Path, *more: str, plant: str = "") -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.crash.booking", str(folder), *more],
        stdout=subprocess.PIPE,
        env={**os.environ, "PLANT": plant},
    )


def killed(folder: Path, life: int, acknowledgements: int, plant: str = "") -> list[str]:
    """What was acknowledged up to a sudden end, somewhat after so many acknowledgements."""
    process = started(folder, f"l{life}", plant=plant)
    assert process.stdout
    told = [process.stdout.readline() for _ in range(acknowledgements)]
    process.kill()
    told += process.stdout.readlines()
    process.wait()
    process.stdout.close()
    whole = [line.decode().strip() for line in told if line.endswith(b"\n")]
    assert all(line.startswith("+") for line in whole)
    return [line[1:] for line in whole]


def violations(folder: Path, acknowledged: list[str]) -> Iterator[str]:
    """What is not as it was promised, read line by line without the store and by it."""
    layout = Layout(str(folder), str(folder))
    found = asyncio.run(sums_of(layout))
    counted: Counter[str] = Counter()
    spent = dict.fromkeys(KEYS, Decimal(0))
    for day in days_in(layout.ledger):
        for line in Path(layout.ledger_day(day)).read_bytes().splitlines(keepends=True):
            entry = entry_in(line)
            counted[entry.id] += 1
            spent[entry.key] += entry.cost
    yield from (f"{one} is missing" for one in acknowledged if one not in counted)
    yield from (f"{one} is there {times} times" for one, times in counted.items() if times > 1)
    for key, amount in spent.items():
        if found[key] != amount:
            yield f"{key} has spent {amount}, but {found[key]} is told"


async def sums_of(layout: Layout) -> dict[str, Decimal]:
    ledger = Ledger(layout, FrozenClock(f"{DAYS[1]}T12:00:00.000Z"))
    sums = await ledger.open()
    assert not await ledger.damaged()
    by_key = {name: row.cost for name, row in (await ledger.totals("key", *DAYS)).rows}
    found = {key: sums.spent(key) for key in KEYS}
    assert by_key.items() <= found.items()
    await ledger.close()
    return found


def test_no_kill_loses_or_doubles_a_booked_request_and_the_sums_agree(tmp_path: Path) -> None:
    chance, acknowledged = random.Random(7), []  # noqa: S311
    for life in range(KILLS):
        acknowledged += killed(tmp_path, life, chance.randrange(1, 3000))
        assert not list(violations(tmp_path, acknowledged))
    assert len(acknowledged) > KILLS * 300, "there was hardly any load"


@pytest.mark.parametrize(
    ("plant", "sign"), [("acknowledged_too_early", "missing"), ("written_twice", "times")]
)
def test_the_checker_finds_what_a_broken_ledger_does(tmp_path: Path, plant: str, sign: str) -> None:
    acknowledged: list[str] = []
    for life in range(10):
        acknowledged += killed(tmp_path, life, 500, plant)
        if sign in str(list(violations(tmp_path, acknowledged))):
            return
    pytest.fail("not found")


def test_on_a_full_disk_nothing_is_silent_and_no_half_line_stays(tmp_path: Path) -> None:
    process = started(tmp_path, "full", "60000")
    told = process.communicate(timeout=100)[0].decode().split()
    assert process.returncode == 0
    booked = [line[1:] for line in told if line[0] == "+"]
    assert len(told) == 2000
    assert 100 < len(booked) < 1000
    assert not list(violations(tmp_path, booked))
    layout = Layout(str(tmp_path), str(tmp_path))
    lines = sum(Path(layout.ledger_day(day)).read_bytes().count(b"\n") for day in DAYS)
    assert lines == len(booked)


def test_the_checker_finds_what_a_failed_write_leaves(tmp_path: Path) -> None:
    process = started(tmp_path, "full", "60000", plant="left_uncut")
    told = process.communicate(timeout=100)[0].decode().split()
    booked = [line[1:] for line in told if line[0] == "+"]
    layout = Layout(str(tmp_path), str(tmp_path))
    whole = [
        line
        for day in DAYS
        for line in Path(layout.ledger_day(day)).read_bytes().splitlines(keepends=True)
    ]
    try:
        there = [entry_in(line).id for line in whole]
    except (ValueError, AgentdError):
        return
    assert sorted(there) != sorted(booked)
