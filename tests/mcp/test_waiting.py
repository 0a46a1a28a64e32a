"""Waiting for a chat: what is told on the way to its outcome."""

import asyncio

import pytest

from agentd.chats.service import NewChat
from agentd.chats.views import ApprovalView
from agentd.mcp.streams import StreamSignal
from agentd.mcp.waiting import ChatOutcome, ChatWaiter, WaitCall
from tests.conftest import ME, TEST, running_services


@pytest.mark.gen_test
async def test_what_happens_just_before_the_outcome_is_told(layout, monkeypatch):
    """The turn ends while the waiter looks for questions."""
    async with running_services(layout) as services:
        chat = (await services.chats.create(NewChat(prompt="go"), ME)).id
        await services.turns.start_turn(chat, TEST)
        waiter = ChatWaiter(services.chats, services.bus)
        looks = 0

        async def end_turn_meanwhile(_: int) -> list[ApprovalView]:
            nonlocal looks
            looks += 1
            if looks == 2:  # the first look is before anything is told
                await services.turns.add_message(chat, "tool", "done", tool="edit")
                await services.turns.end_turn(chat, "completed")
            return []

        monkeypatch.setattr(waiter, "_list_questions", end_turn_meanwhile)
        call = WaitCall(
            chat, seconds=60.0, progress_token="p", can_ask=False, session=None, answers={}
        )
        async with asyncio.timeout(60):
            *told, outcome = [one async for one in waiter.wait(call, StreamSignal(), None)]
    assert isinstance(outcome, ChatOutcome) and outcome.idle
    begin, progress = told
    assert begin is None
    assert progress["params"] == {
        "progressToken": "p",
        "progress": 1,
        "message": "tool: Tool: edit",
    }


@pytest.mark.gen_test
async def test_the_answer_begins_before_anything_is_waited_for(layout):
    """Else a client would have no headers before the first event, or the first sign of life."""
    async with running_services(layout) as services:
        chat = (await services.chats.create(NewChat(prompt="go"), ME)).id
        waiter = ChatWaiter(services.chats, services.bus, keep_alive=3600.0)
        call = WaitCall(
            chat, seconds=3600.0, progress_token=None, can_ask=False, session=None, answers={}
        )
        async with asyncio.timeout(60):
            told = waiter.wait(call, StreamSignal(), None)
            assert await anext(told) is None
            await told.aclose()
