"""Listeners that catch up, and leave, leave nothing behind; and none is read to at once."""

from pathlib import Path

from tests.crash import memory


def test_memory_is_bounded_while_listeners_come_catch_up_from_the_beginning_and_leave(
    tmp_path: Path,
) -> None:
    seen = memory.watch(str(tmp_path), rounds=6, megabytes=20)
    assert seen.told > 8 * memory.PEAK * 2**20, "they were told too little to tell"
    assert seen.growth < memory.FLAT, seen
    assert seen.peak < memory.PEAK, seen
