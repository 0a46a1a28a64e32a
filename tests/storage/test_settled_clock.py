"""What is destroyed for its age goes by a time that does not follow a jump of the clock."""

import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.clock import FrozenClock, parse_iso
from agentd.storage.settled_clock import SettledClock

HOUR, DAY = 3600.0, 86400.0
TEN_YEARS = 3650 * DAY


class Machine:
    """A machine whose daemon is started and stopped."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "clock.json")
        self.clock = FrozenClock()
        self.start()

    def start(self) -> None:
        self.settled = SettledClock(self.path, self.clock)
        self.settled.load()

    async def restart(self, off: float = 0.0) -> None:
        await self.settled.save()
        self.clock.jump(off)
        self.start()

    @property
    def behind(self) -> float:
        """The seconds by which the time that counts is behind the clock."""
        return (parse_iso(self.clock.now()) - parse_iso(self.settled.now())).total_seconds()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_day_ahead_is_believed_and_ten_years_are_not(machine):
    machine.clock.jump(DAY)
    assert machine.behind == 0
    machine.clock.jump(TEN_YEARS)
    assert machine.behind == TEN_YEARS
    machine.clock.move(HOUR)
    assert machine.behind == TEN_YEARS


def test_time_that_the_daemon_runs_through_counts_however_long_nobody_looks(machine):
    machine.clock.move(90 * DAY)
    assert machine.behind == 0


def test_a_jump_that_is_taken_back_never_counts(machine):
    for _ in range(5):
        machine.clock.jump(TEN_YEARS)
        machine.clock.move(0.9 * DAY)
        assert machine.behind == TEN_YEARS
        machine.clock.jump(-TEN_YEARS)
        assert machine.behind == 0


@pytest.mark.gen_test
async def test_a_jump_counts_once_the_daemon_has_run_for_a_day_over_several_starts(machine):
    machine.clock.jump(TEN_YEARS)
    for _ in range(5):
        assert machine.behind
        machine.clock.move(5 * HOUR)
        await machine.restart(off=HOUR)
    assert machine.behind <= 5 * HOUR
    await machine.restart()
    assert machine.behind == 0


@pytest.mark.gen_test
async def test_what_a_machine_was_off_counts_after_a_day_even_if_it_is_off_often(machine):
    for week in range(40):
        await machine.restart(off=6.8 * DAY)
        machine.clock.move(4 * HOUR)
        assert machine.behind <= 2 * 7 * 7 * DAY, f"in week {week}"


def test_a_clock_that_was_set_back_is_believed_at_once(machine):
    machine.clock.jump(-TEN_YEARS)
    assert machine.behind == 0
    machine.clock.jump(TEN_YEARS)
    assert machine.behind == 0


@given(st.lists(st.tuples(st.booleans(), st.floats(-400 * DAY, 400 * DAY)), max_size=30))
def test_the_time_that_counts_is_never_after_the_clock_and_reaches_it(tmp_path_factory, steps):
    machine = Machine(tmp_path_factory.mktemp("clock"))
    for jumps, seconds in steps:
        if jumps:
            machine.clock.jump(seconds)
        else:
            machine.clock.move(abs(seconds) / 1000)
        assert machine.behind >= 0
    for _ in range(4):
        assert machine.behind >= 0
        machine.clock.move(DAY)
    assert machine.behind == 0


@pytest.mark.gen_test
async def test_a_damaged_file_is_logged_and_the_clock_is_believed(machine, caplog):
    await machine.settled.save()
    Path(machine.path).write_bytes(b"{}")
    with caplog.at_level(logging.WARNING):
        machine.start()
    assert "is not used" in caplog.text
    assert machine.behind == 0


@pytest.mark.gen_test
async def test_a_disk_that_does_not_take_it_is_logged_once(tmp_path, caplog):
    clock = FrozenClock()
    settled = SettledClock(str(tmp_path / "none" / "clock.json"), clock)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            clock.move(HOUR)
            await settled.save()
    assert caplog.text.count("is not stored") == 1
