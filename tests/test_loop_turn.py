"""A turn of the loop is told from the next one, by all who ask in it."""

import asyncio

import pytest

from agentd.loop_turn import LoopTurn


@pytest.mark.gen_test
async def test_all_who_ask_in_one_turn_hear_one_number_and_later_ones_a_higher_one():
    turn = LoopTurn()
    heard: list[list[int]] = []
    for _ in range(3):
        numbers: list[int] = []
        heard.append(numbers)
        for _ in range(2):
            asyncio.get_running_loop().call_soon(lambda kept=numbers: kept.append(turn.number))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert all(len(set(numbers)) == 1 for numbers in heard)
    firsts = [numbers[0] for numbers in heard]
    assert firsts == sorted(set(firsts))


@pytest.mark.gen_test
async def test_only_one_call_is_made_by_the_loop_for_all_who_ask_in_a_turn(monkeypatch):
    turn, made = LoopTurn(), []
    with monkeypatch.context() as patch:
        patch.setattr(asyncio.get_running_loop(), "call_soon", made.append)
        assert [turn.number for _ in range(5)] == [0] * 5
    assert len(made) == 1
