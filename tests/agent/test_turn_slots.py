"""The slots of turns at work: a turn that waits occupies none."""

import asyncio

import pytest

from agentd.agent.turn_slots import TurnSlots


def test_there_is_room_for_as_many_turns_as_the_settings_allow_now() -> None:
    limit = 2
    slots = TurnSlots(lambda: limit)
    slots.take(1)
    slots.take(2)
    assert not slots.has_room
    limit = 3
    assert slots.has_room
    limit = 1
    slots.free(1)
    assert not slots.has_room
    slots.free(2)
    assert slots.has_room


def test_a_turn_that_waits_for_several_things_takes_its_slot_back_after_the_last() -> None:
    slots = TurnSlots(lambda: 1)
    slots.take(1)
    slots.begin_wait(1)
    slots.begin_wait(1)
    slots.end_wait(1)
    assert slots.has_room
    slots.take(2)
    slots.end_wait(1)
    slots.free(2)
    assert not slots.has_room  # it went on beside the one that began meanwhile
    slots.free(1)
    assert slots.has_room


@pytest.mark.gen_test
async def test_what_changes_when_turns_end_wait_or_go_on_is_waited_for() -> None:
    slots, seen = TurnSlots(lambda: 1), 0

    def is_fourth_look() -> bool:
        nonlocal seen
        seen += 1
        return seen == 4

    waiting = asyncio.create_task(slots.wait_until(is_fourth_look))
    for change in (slots.begin_wait, slots.end_wait, slots.free):
        await asyncio.sleep(0)
        assert not waiting.done()
        change(1)
    async with asyncio.timeout(60):
        await waiting
    assert seen == 4
