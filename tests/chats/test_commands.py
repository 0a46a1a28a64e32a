"""Pausing, moving, labelling and copying: values in, values out, and one record each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.chats import queue as rules
from agentd.chats.commands import ChatCommands
from agentd.chats.model import Prompt
from agentd.chats.queue import Queue
from agentd.chats.records import ChatCreated, JournalEntry, QueueMoved, QueuePaused, QueueReplaced
from agentd.chats.service import NewChat
from agentd.chats.state import Chat
from agentd.core.errors import NotFound
from tests.chats.records import AT
from tests.conftest import ME, TEST, running_services


@st.composite
def queues(draw: st.DrawFn) -> Queue:
    ids = draw(st.lists(st.integers(1, 99), unique=True, min_size=1, max_size=9))
    return tuple(Prompt(number, "x", AT, paused=draw(st.booleans())) for number in ids)


@given(queues(), st.data())
def test_a_moved_prompt_has_its_place_and_the_others_keep_their_order(
    queue: Queue, data: st.DataObject
) -> None:
    prompt = data.draw(st.sampled_from(queue))
    place = data.draw(st.integers(0, 12))
    moved = rules.move_prompt(queue, prompt.id, place)
    assert moved.index(prompt) == min(place, len(queue) - 1)
    assert [one for one in moved if one != prompt] == [one for one in queue if one != prompt]
    with pytest.raises(NotFound):
        rules.move_prompt(queue, 100, place)


@given(queues(), st.sets(st.integers(1, 99)), st.booleans())
def test_only_the_named_prompts_are_paused_and_nothing_else_of_them_changes(
    queue: Queue, ids: set[int], pause: bool
) -> None:
    after = rules.pause_prompts(queue, ids, pause=pause)
    for before, now in zip(queue, after, strict=True):
        assert (now.id, now.text, now.at) == (before.id, before.text, before.at)
        assert now.paused == (pause if before.id in ids else before.paused)


@given(queues(), st.data())
def test_the_fold_counts_what_is_ready_after_each_record(queue: Queue, data: st.DataObject) -> None:
    chat = Chat(1)
    some = data.draw(st.sampled_from(queue)).id
    ids = tuple(data.draw(st.sets(st.sampled_from([one.id for one in queue]))))
    bodies = [
        ChatCreated("t"),
        QueueReplaced(queue),
        QueuePaused(ids, data.draw(st.booleans())),
        QueueMoved(some, data.draw(st.integers(0, 9))),
    ]
    for number, body in enumerate(bodies, 1):
        chat.apply(JournalEntry(number, number, AT, "key:me", body), 10)
        assert chat.ready == sum(not prompt.paused for prompt in chat.queue)
        if number > 1:
            assert chat.queue_version == number


@pytest.mark.gen_test
async def test_a_prompt_that_was_sent_cannot_be_paused_or_moved(layout):
    async with running_services(layout) as services:
        chat = await services.chats.create(NewChat(prompt="x"), ME)
        [prompt] = chat.queue
        await services.turns.start_turn(chat.id, TEST)
        editing = ChatCommands(services.chats._chats)
        with pytest.raises(NotFound, match=f"Prompt {prompt.id} not found"):
            await editing.pause_prompts(chat.id, prompt.id, ME, pause=True)
        with pytest.raises(NotFound, match=f"Prompt {prompt.id} not found"):
            await editing.move_prompt(chat.id, prompt.id, 0, ME)


@pytest.mark.gen_test
async def test_labels_are_borne_once_and_in_the_order_in_which_they_came(layout):
    async with running_services(layout) as services:
        chat = await services.chats.create(NewChat(), ME)
        editing = ChatCommands(services.chats._chats)
        assert await editing.change_labels(chat.id, ME, add=["b", "a", "b"]) == ("b", "a")
        lines = chat.lines
        assert await editing.change_labels(chat.id, ME, add=["a"]) == ("b", "a")
        assert chat.lines == lines
        assert await editing.change_labels(chat.id, ME, add=["c"], remove=["b", "x"]) == ("a", "c")
