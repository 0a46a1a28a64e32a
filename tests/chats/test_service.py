"""What callers command, over the real store: checked, durable, then told, and never twice."""

import asyncio
import errno
import os
from decimal import Decimal

import pytest

from agentd.chats.chat import Tokens
from agentd.chats.queue import Wanted
from agentd.chats.records import Once
from agentd.chats.service import DEFAULT_TITLE, NewChat
from agentd.chats.turns import INTERRUPTED
from agentd.disk import journal as journal_module
from agentd.errors import BadRequest, Conflict, NotFound, PreconditionFailed, Unavailable
from agentd.events import ChatUpdate, MessageUpdate, QueueUpdate
from tests.conftest import ME, TEST, Life, living, overwrite, until

pytestmark = pytest.mark.gen_test

ONCE = Once("key:test K", "digest")
OTHER_WORDS = Once("key:test K", "another digest")


def texts(chat) -> list[str]:
    return [prompt.text for prompt in chat.queue]


def full_disk(monkeypatch) -> None:
    """Every write of a journal fails from now on, until ``monkeypatch.undo()``."""

    def write(fd, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(journal_module.os, "write", write)


async def chat_with(life: Life, *prompts: str) -> int:
    chat = await life.chats.create(NewChat(), ME)
    for text in prompts:
        await life.chats.append(chat.id, text, "", ME)
    return chat.id


async def test_a_new_chat_with_a_prompt_is_queued_without_one_completed(layout):
    """Section 3: the status rule, for chats that were just created."""
    async with living(layout) as life:
        queued = await life.chats.create(NewChat(prompt="hello"), ME)
        empty = await life.chats.create(NewChat(), ME)
        assert life.chats.summary(queued.id).status == "queued"
        assert life.chats.summary(empty.id).status == "completed"
        assert life.chats.summary(empty.id).title == DEFAULT_TITLE


async def test_an_empty_prompt_makes_no_chat(layout):
    """Section 7: 400 on an empty prompt."""
    async with living(layout) as life:
        for prompt in ("", " \n"):
            with pytest.raises(BadRequest):
                await life.chats.create(NewChat(prompt=prompt), ME)
        assert life.chats.summaries() == []


async def test_all_of_it_is_there_in_the_next_life(layout):
    async with living(layout, crash=True) as life:
        new = NewChat("hi", "T", "m", "s", "be brief", "b", True, "note")
        number = (await life.chats.create(new, ME)).id
        started = await life.turns.start(number, TEST)
        await life.turns.add(number, "tool", "out", tool="look")
        await life.turns.add(
            number, "assistant", "yes", tokens=Tokens(3, 4), cost=Decimal("0.000001")
        )
        await life.turns.end(number, "completed")
        await life.chats.append(number, "next", "m2", ME)
        before, said = await life.chats.get(number), await life.history(number)
    assert started
    async with living(layout) as life:
        after = await life.chats.get(number)
        assert after == before
        assert await life.history(number) == said
        assert after.cost == Decimal("0.000001")
        assert [(message.role, message.text) for message in said] == [
            ("user", "hi"),
            ("tool", "out"),
            ("assistant", "yes"),
        ]


async def test_an_unknown_chat_is_not_found_everywhere(layout):
    """Section 7: the message has the shape ``Chat <chatId> not found``."""
    async with living(layout) as life:
        for act in (
            life.chats.get(7),
            life.chats.append(7, "x", "", ME),
            life.chats.rewrite(7, 1, "x", ME),
            life.chats.remove(7, 1, ME),
            life.chats.replace(7, [], ME),
            life.chats.rest(7, 0),
        ):
            with pytest.raises(NotFound, match=r"^Chat 7 not found$"):
                await act


async def test_a_prompt_elsewhere_sent_or_never_there_is_not_found(layout):
    """Section 4, the rules common to the five queue endpoints."""
    async with living(layout) as life:
        other = await chat_with(life, "elsewhere")
        number = await chat_with(life, "sent", "stays")
        elsewhere = (await life.chats.get(other)).queue[0].id
        sent = (await life.chats.get(number)).queue[0].id
        await life.turns.start(number, TEST)
        for prompt in (elsewhere, sent, 999):
            with pytest.raises(NotFound):
                await life.chats.rewrite(number, prompt, "x", ME)
            with pytest.raises(NotFound):
                await life.chats.remove(number, prompt, ME)
        with pytest.raises(NotFound):
            await life.chats.replace(number, [Wanted("x", elsewhere)], ME)
        assert texts(await life.chats.get(number)) == ["stays"]


async def test_empty_text_is_refused_before_anything_is_looked_up(layout):
    async with living(layout) as life:
        number = await chat_with(life)
        with pytest.raises(BadRequest):
            await life.chats.append(number, " ", "", ME)
        with pytest.raises(BadRequest):
            await life.chats.rewrite(7, 999, "\n", ME)
        with pytest.raises(BadRequest):
            await life.chats.replace(7, [Wanted("")], ME)


async def test_rewrite_remove_and_replace_do_what_they_say_and_last(layout):
    async with living(layout, crash=True) as life:
        number = await chat_with(life, "a", "b", "c")
        a, b, c = (prompt.id for prompt in (await life.chats.get(number)).queue)
        assert (await life.chats.rewrite(number, b, "B", ME)).text == "B"
        await life.chats.remove(number, a, ME)
        queue, _ = await life.chats.replace(number, [Wanted("C", c), Wanted("B", b, True)], ME)
        assert [(prompt.id, prompt.text) for prompt in queue] == [(c, "C"), (b, "B")]
    async with living(layout) as life:
        assert (await life.chats.get(number)).queue == queue


async def test_replace_with_the_current_version_only(layout):
    """``If-Match``; without it the last writer wins, as specified."""
    async with living(layout) as life:
        number = await chat_with(life, "a")
        version = (await life.chats.get(number)).queue_version
        _, newer = await life.chats.replace(number, [Wanted("b")], ME, version)
        with pytest.raises(PreconditionFailed):
            await life.chats.replace(number, [Wanted("c")], ME, version)
        assert texts(await life.chats.get(number)) == ["b"]
        await life.chats.replace(number, [Wanted("d")], ME, newer)
        await life.chats.replace(number, [Wanted("e")], ME)
        assert texts(await life.chats.get(number)) == ["e"]


async def test_a_message_does_not_change_the_queue_s_version(layout):
    async with living(layout) as life:
        number = await chat_with(life, "a")
        await life.turns.start(number, TEST)
        version = (await life.chats.get(number)).queue_version
        await life.turns.add(number, "assistant", "hi")
        await life.turns.end(number, "completed")
        assert (await life.chats.get(number)).queue_version == version


async def test_the_same_key_creates_one_chat_also_at_once_and_after_a_restart(layout):
    async with living(layout, crash=True) as life:
        new = NewChat(prompt="hi", once=ONCE)
        chats = await asyncio.gather(*(life.chats.create(new, ME) for _ in range(5)))
        assert len({chat.id for chat in chats}) == 1
    async with living(layout) as life:
        assert (await life.chats.create(new, ME)).id == chats[0].id
        assert len(life.chats.summaries()) == 1
        assert texts(await life.chats.get(chats[0].id)) == ["hi"]


async def test_the_same_key_appends_one_prompt_also_when_it_was_sent_since(layout):
    async with living(layout, crash=True) as life:
        number = await chat_with(life)
        made = await asyncio.gather(
            *(life.chats.append(number, "x", "m", ME, ONCE) for _ in range(5))
        )
        assert {prompt.id for prompt in made} == {made[0].id}
        await life.turns.start(number, TEST)
    async with living(layout) as life:
        assert await life.chats.append(number, "x", "m", ME, ONCE) == made[0]
        assert (await life.chats.get(number)).queue == ()


async def test_the_same_key_with_other_words_is_a_conflict(layout):
    async with living(layout) as life:
        await life.chats.create(NewChat(once=ONCE), ME)
        with pytest.raises(Conflict):
            await life.chats.create(NewChat(once=OTHER_WORDS), ME)
        number = await chat_with(life)
        await life.chats.append(number, "x", "", ME, ONCE)
        with pytest.raises(Conflict):
            await life.chats.append(number, "y", "", ME, OTHER_WORDS)


async def test_a_key_counts_for_24_hours(layout):
    async with living(layout) as life:
        first = await life.chats.create(NewChat(once=ONCE), ME)
        life.clock.move(24 * 3600)
        assert (await life.chats.create(NewChat(once=ONCE), ME)).id == first.id
        life.clock.move(1)
        assert (await life.chats.create(NewChat(once=OTHER_WORDS), ME)).id != first.id


async def test_after_a_failed_write_the_state_is_that_of_the_disk_again(layout, monkeypatch):
    async with living(layout) as life:
        number = await chat_with(life, "kept")
        before, heard = await life.chats.get(number), len(life.heard)
        full_disk(monkeypatch)
        with pytest.raises(Unavailable, match="disk full"):
            await life.chats.append(number, "lost", "", ME)
        assert await life.chats.get(number) == before
        assert life.chats.summary(number).waiting == 1
        assert len(life.heard) == heard
        monkeypatch.undo()
        await life.chats.append(number, "taken again", "", ME)
        assert texts(await life.chats.get(number)) == ["kept", "taken again"]


async def test_a_key_whose_write_failed_may_be_used_again(layout, monkeypatch):
    async with living(layout) as life:
        number = await chat_with(life)
        full_disk(monkeypatch)
        for act in (
            life.chats.create(NewChat(once=ONCE), ME),
            life.chats.append(number, "x", "", ME, ONCE),
        ):
            with pytest.raises(Unavailable):
                await act
        monkeypatch.undo()
        assert (await life.chats.create(NewChat(once=ONCE), ME)).id != number
        await life.chats.append(number, "x", "", ME, ONCE)
        assert texts(await life.chats.get(number)) == ["x"]


async def test_a_key_whose_caller_left_before_the_write_failed_may_be_used_again(
    layout, monkeypatch
):
    async with living(layout) as life:
        full_disk(monkeypatch)
        caller = asyncio.create_task(life.chats.create(NewChat(once=ONCE), ME))
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.wait([caller])
        await until(lambda: not life.files._opened)
        monkeypatch.undo()
        assert life.chats.summary((await life.chats.create(NewChat(once=ONCE), ME)).id)


async def test_get_never_shows_what_a_crash_could_undo(layout, monkeypatch):
    """While a write is on its way, a reader waits for it; nobody sees what then failed."""
    async with living(layout) as life:
        number = await chat_with(life, "kept")
        full_disk(monkeypatch)
        lost = asyncio.create_task(life.chats.append(number, "lost", "", ME))
        await asyncio.sleep(0)
        reader = asyncio.create_task(life.chats.get(number))
        assert life.chats.summary(number).waiting == 1
        await asyncio.wait([lost, reader])
        assert isinstance(lost.exception(), Unavailable)
        assert texts(reader.result()) == ["kept"]


async def test_what_is_read_stays_that_of_one_moment_under_constant_writing(layout):
    """Each answer holds only what was on disk when it was given."""
    async with living(layout) as life:
        number, over = await chat_with(life), False

        async def write():
            while not over:
                await life.chats.append(number, "x", "", ME)

        writers = [asyncio.create_task(write()) for _ in range(3)]
        for _ in range(50):
            seen = await life.chats.get(number)
            assert seen.size <= os.stat(layout.journal(number)).st_size
            assert seen.lines <= life.chats.summary(number).seq
            assert seen.size <= life.chats.summary(number).size
        over = True
        await asyncio.gather(*writers)


async def test_events_come_after_the_write_in_the_order_of_seq(layout):
    async with living(layout) as life:
        sizes = []
        life.bus.subscribe(
            lambda event: sizes.append(
                not isinstance(event, ChatUpdate)
                or event.chat.size <= os.stat(layout.journal(event.chat.id)).st_size
            )
        )
        numbers = [await chat_with(life) for _ in range(3)]
        await asyncio.gather(*(life.chats.append(n, "x", "", ME) for n in numbers * 20))
        seqs = [event.seq for event in life.heard]
        assert seqs == sorted(seqs)
        assert all(sizes)


async def test_what_each_change_tells(layout):
    async with living(layout) as life:
        number = (await life.chats.create(NewChat(prompt="a"), ME)).id
        await life.turns.start(number, TEST)
        await life.turns.add(number, "assistant", "hi")
        await life.turns.end(number, "failed", "why")
        told = [
            (type(event), event.reason if isinstance(event, ChatUpdate) else "")
            for event in life.heard
        ]
        assert told == [
            (QueueUpdate, ""),
            (ChatUpdate, "chat.created"),
            (QueueUpdate, ""),
            (MessageUpdate, ""),
            (ChatUpdate, "turn.started"),
            (MessageUpdate, ""),
            (ChatUpdate, "message.added"),
            (MessageUpdate, ""),
            (ChatUpdate, "turn.ended"),
        ]


async def test_rest_answers_at_once_for_a_chat_at_rest_and_in_time_for_another(layout):
    async with living(layout) as life:
        number = await chat_with(life)
        assert (await life.chats.rest(number, 60)).status == "completed"
        await life.chats.append(number, "x", "", ME)
        assert (await life.chats.rest(number, 0.01)).status == "queued"
        waiting = asyncio.create_task(life.chats.rest(number, 60))
        await life.turns.start(number, TEST)
        assert not waiting.done()
        await life.turns.end(number, "completed")
        assert (await waiting).status == "completed"


async def test_a_chat_with_nothing_but_paused_prompts_rests(layout):
    async with living(layout) as life:
        number = await chat_with(life)
        await life.chats.replace(number, [Wanted("x", 0, True)], ME)
        assert (await life.chats.rest(number, 60)).status == "queued"


async def test_a_turn_is_started_once_and_only_with_something_ready(layout):
    async with living(layout) as life:
        number = await chat_with(life, "a", "b")
        tries = await asyncio.gather(*(life.turns.start(number, TEST) for _ in range(5)))
        assert [started.agent.turn.given.text for started in tries if started] == ["a"]
        await life.turns.end(number, "completed")
        await life.turns.end(number, "completed")
        assert (await life.turns.start(number, TEST)).agent.turn.given.text == "b"
        await life.turns.end(number, "completed")
        assert await life.turns.start(number, TEST) is None


async def test_a_turn_that_a_crash_left_open_is_closed_as_interrupted(layout):
    async with living(layout, crash=True) as life:
        number = await chat_with(life, "a", "b")
        await life.turns.start(number, TEST)
    async with living(layout) as life:
        assert life.chats.summary(number).status == "processing"
        await life.turns.end_interrupted()
        assert life.chats.summary(number).outcome == "interrupted"
        assert life.chats.summary(number).status == "queued"
        last = (await life.history(number))[-1]
        assert (last.role, last.text) == ("error", INTERRUPTED)
        assert texts(await life.chats.get(number)) == ["b"]


async def test_a_full_disk_at_start_stops_nobody_from_reading(layout, monkeypatch):
    async with living(layout, crash=True) as life:
        number = await chat_with(life, "a")
        await life.turns.start(number, TEST)
    async with living(layout) as life:
        full_disk(monkeypatch)
        await life.turns.end_interrupted()
        assert (await life.chats.get(number)).agent.turn
        monkeypatch.undo()
        await life.turns.end_interrupted()
        assert life.chats.summary(number).outcome == "interrupted"


async def test_a_caller_who_leaves_harms_nobody(layout):
    async with living(layout) as life:
        number = await chat_with(life)
        calls = [asyncio.create_task(life.chats.append(number, str(n), "", ME)) for n in range(10)]
        await asyncio.sleep(0)
        for call in calls[::2]:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await until(lambda: life.chats.summary(number).waiting == 10)
        assert texts(await life.chats.get(number)) == [str(n) for n in range(10)]


async def test_since_gives_the_same_from_memory_and_from_the_journal(layout):
    async with living(layout) as life:
        number = await chat_with(life, "go")
        await life.turns.start(number, TEST)
        for n in range(400):
            life.clock.move(-5 if n % 50 == 49 else 0.5)
            await life.turns.add(number, "assistant", f"said {n}")
        everything = await life.history(number)
        assert len(everything) == 401
        for message in everything[::20]:
            later = [one for one in everything if one.at >= message.at]
            assert await life.history(number, message.at) == later
        assert await life.history(number, "9999") == []


async def test_a_history_found_damaged_makes_its_chat_read_only_and_named(layout, caplog):
    async with living(layout) as life:
        number, other = await chat_with(life, "go"), await chat_with(life)
        await life.turns.start(number, TEST)
        for n in range(400):
            await life.turns.add(number, "assistant", f"said {n}")
        overwrite(layout.journal(number), 2000, b"#")
        with pytest.raises(Unavailable, match="damaged"):
            await life.history(number)
        assert "journal.jsonl" in life.chats.summary(number).damage
        assert f"chat {number} is read-only" in caplog.text
        with pytest.raises(Unavailable, match="read-only"):
            await life.chats.append(number, "x", "", ME)
        await life.chats.append(other, "x", "", ME)
        assert (await life.chats.rest(number, 60)).damage
