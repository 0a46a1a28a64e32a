"""Pages of a history are the same whether they come from memory or from the disk."""

import pytest

from agentd.chats import state as chats_state
from agentd.chats.history import HistoryPage, HistoryReader
from agentd.chats.service import NewChat
from tests.conftest import ME, TEST, Services, running_services

MESSAGES = 30


async def make_chat(services: Services) -> int:
    """Make a chat of so many messages."""
    number = (await services.chats.create(NewChat(prompt="begin"), ME)).id
    await services.turns.start_turn(number, TEST)
    for said in range(MESSAGES - 1):
        await services.turns.add_message(number, "assistant", f"reply {said}")
    return number


@pytest.fixture(params=["memory", "disk"])
def kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks are near; of the messages many, or hardly any, are in memory."""
    monkeypatch.setattr(chats_state, "INDEX_EVERY", 4)
    monkeypatch.setattr("agentd.chats.history.INDEX_EVERY", 4)
    if request.param == "disk":
        monkeypatch.setattr(chats_state, "RECENT_MESSAGES", 4)


@pytest.mark.gen_test
async def test_every_page_both_ways_is_what_the_whole_history_says(layout, kept):
    async with running_services(layout) as services:
        number = await make_chat(services)
        whole = await services.history(number)
        chat = await services.chats.get(number)
        history = HistoryReader(services.chats._chats)
        ids = [message.id for message in whole]
        for limit in (1, 3, 4, 5, 9, MESSAGES, 99):
            for edge in (0, *ids, ids[-1] + 1):
                before = [message for message in whole if message.id < edge]
                after = [message for message in whole if message.id > edge]
                result = await history.read_before(chat, edge, limit)
                assert result == HistoryPage(
                    before[-limit:], len(before) > limit, bool(whole[len(before) :])
                )
                result = await history.read_after(chat, edge, limit)
                assert result == HistoryPage(
                    after[:limit], len(after) < len(whole), len(after) > limit
                )
            assert (await history.read_before(chat, None, limit)).messages == whole[-limit:]


@pytest.mark.gen_test
async def test_a_chat_that_said_nothing_has_one_empty_page(layout):
    async with running_services(layout) as services:
        chat = await services.chats.create(NewChat(), ME)
        history = HistoryReader(services.chats._chats)
        assert await history.read_before(chat, None, 5) == HistoryPage([], False, False)
        assert await history.read_after(chat, 0, 5) == HistoryPage([], False, False)
