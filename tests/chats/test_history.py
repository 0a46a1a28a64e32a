"""Pages of a history are the same whether they come from memory or from the disk."""

import pytest

from agentd.chats import fold
from agentd.chats.history import History, Messages
from agentd.chats.service import NewChat
from tests.conftest import ME, TEST, Life, living

MESSAGES = 30


async def talked(life: Life) -> int:
    """A chat of so many messages."""
    number = (await life.chats.create(NewChat(prompt="begin"), ME)).id
    await life.turns.start(number, TEST)
    for said in range(MESSAGES - 1):
        await life.turns.add(number, "assistant", f"reply {said}")
    return number


@pytest.fixture(params=["memory", "disk"])
def kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks are near; of the messages many, or hardly any, are in memory."""
    monkeypatch.setattr(fold, "MARK_EVERY", 4)
    monkeypatch.setattr("agentd.chats.history.MARK_EVERY", 4)
    if request.param == "disk":
        monkeypatch.setattr(fold, "RECENT_MESSAGES", 4)


@pytest.mark.gen_test
async def test_every_page_both_ways_is_what_the_whole_history_says(layout, kept):
    async with living(layout) as life:
        number = await talked(life)
        whole = await life.history(number)
        chat = await life.chats.get(number)
        history = History(life.chats._shelf)
        ids = [message.id for message in whole]
        for limit in (1, 3, 4, 5, 9, MESSAGES, 99):
            for edge in (0, *ids, ids[-1] + 1):
                before = [message for message in whole if message.id < edge]
                after = [message for message in whole if message.id > edge]
                told = await history.before(chat, edge, limit)
                assert told == Messages(
                    before[-limit:], len(before) > limit, bool(whole[len(before) :])
                )
                told = await history.after(chat, edge, limit)
                assert told == Messages(after[:limit], len(after) < len(whole), len(after) > limit)
            assert (await history.before(chat, None, limit)).messages == whole[-limit:]


@pytest.mark.gen_test
async def test_a_chat_that_said_nothing_has_one_empty_page(layout):
    async with living(layout) as life:
        chat = await life.chats.create(NewChat(), ME)
        history = History(life.chats._shelf)
        assert await history.before(chat, None, 5) == Messages([], False, False)
        assert await history.after(chat, 0, 5) == Messages([], False, False)
