"""Commands of callers on the real store: checked, durable, then reported, and never done twice."""

import asyncio
import errno
import os
from decimal import Decimal
from pathlib import Path

import pytest

from agentd.chats.approval import QueueWait
from agentd.chats.events import ChatUpdate, MessageUpdate, QueueUpdate
from agentd.chats.model import Tokens
from agentd.chats.queue import QueueItem
from agentd.chats.service import DEFAULT_TITLE, NewChat
from agentd.chats.trash import Trash
from agentd.chats.trash_store import TrashFolder
from agentd.chats.turns import INTERRUPTED, TurnUsage
from agentd.core.errors import BadRequest, Conflict, NotFound, PreconditionFailed, Unavailable
from agentd.core.idempotency import IdempotencyKey
from agentd.storage import journal as journal_module
from tests.conftest import ME, TEST, Services, overwrite, running_services, until

pytestmark = pytest.mark.gen_test

ONCE = IdempotencyKey("key:test K", "digest")
OTHER_WORDS = IdempotencyKey("key:test K", "another digest")


def list_texts(chat) -> list[str]:
    return [prompt.text for prompt in chat.queue]


def fill_disk(monkeypatch) -> None:
    """Let every write of a journal fail from now on, until ``monkeypatch.undo()``."""

    def write(fd, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(journal_module.os, "write", write)


async def create_chat(services: Services, *prompts: str) -> int:
    chat = await services.chats.create(NewChat(), ME)
    for text in prompts:
        await services.chats.append_prompt(chat.id, text, "", ME)
    return chat.id


async def test_a_new_chat_with_a_prompt_is_queued_without_one_completed(layout):
    """Section 3: the status rule, for chats that were just created."""
    async with running_services(layout) as services:
        queued = await services.chats.create(NewChat(prompt="hello"), ME)
        empty = await services.chats.create(NewChat(), ME)
        assert services.chats.get_summary(queued.id).status == "queued"
        assert services.chats.get_summary(empty.id).status == "completed"
        assert services.chats.get_summary(empty.id).title == DEFAULT_TITLE


async def test_an_empty_prompt_makes_no_chat(layout):
    """Section 7: 400 on an empty prompt."""
    async with running_services(layout) as services:
        for prompt in ("", " \n"):
            with pytest.raises(BadRequest):
                await services.chats.create(NewChat(prompt=prompt), ME)
        assert services.chats.list_summaries() == []


@pytest.mark.parametrize("booked_by", ["add", "defer", "end"])
async def test_what_is_kept_with_a_booking_is_in_one_record_with_it(layout, booked_by):
    """So no crash leaves the one without the other."""
    booking = TurnUsage(Tokens(3, 4), Decimal("0.01"), "used up to here")
    async with running_services(layout, crash=True) as services:
        number = (await services.chats.create(NewChat("hi"), ME)).id
        await services.turns.start_turn(number, TEST)
        journal = Path(layout.get_journal_path(number))
        before = journal.read_bytes().count(b"\n")
        match booked_by:
            case "add":
                await services.turns.add_message(number, "assistant", "yes", usage=booking)
            case "defer":
                await services.turns.defer_turn(
                    number, QueueWait("2026-01-01T00:00:00.000Z", "limit"), booking
                )
            case "end":
                await services.turns.end_turn(number, "completed", usage=booking)
        assert journal.read_bytes().count(b"\n") == before + 1
    async with running_services(layout) as services:
        chat = await services.turns.get_latest(number)
        assert chat.cost == Decimal("0.01")
        assert list(chat.agent.memory.values()) == ["used up to here"]


async def test_all_of_it_is_there_in_the_next_life(layout):
    async with running_services(layout, crash=True) as services:
        new = NewChat("hi", "T", "m", "s", "be brief", "b", True, "note")
        number = (await services.chats.create(new, ME)).id
        started = await services.turns.start_turn(number, TEST)
        await services.turns.add_message(number, "tool", "out", tool="look")
        booking = TurnUsage(Tokens(3, 4), Decimal("0.000001"))
        await services.turns.add_message(number, "assistant", "yes", usage=booking)
        await services.turns.end_turn(number, "completed")
        await services.chats.append_prompt(number, "next", "m2", ME)
        before, said = await services.chats.get(number), await services.history(number)
    assert started
    async with running_services(layout) as services:
        after = await services.chats.get(number)
        assert after == before
        assert await services.history(number) == said
        assert after.cost == Decimal("0.000001")
        assert [(message.role, message.text) for message in said] == [
            ("user", "hi"),
            ("tool", "out"),
            ("assistant", "yes"),
        ]


async def test_an_unknown_chat_is_not_found_everywhere(layout):
    """Section 7: the message has the shape ``Chat <chatId> not found``."""
    async with running_services(layout) as services:
        for act in (
            services.chats.get(7),
            services.chats.append_prompt(7, "x", "", ME),
            services.chats.rewrite_prompt(7, 1, "x", ME),
            services.chats.remove_prompt(7, 1, ME),
            services.chats.replace_queue(7, [], ME),
            services.chats.wait_until_idle(7, 0),
        ):
            with pytest.raises(NotFound, match=r"^Chat 7 not found$"):
                await act


async def test_a_prompt_elsewhere_sent_or_never_there_is_not_found(layout):
    """Section 4, the rules common to the five queue endpoints."""
    async with running_services(layout) as services:
        other = await create_chat(services, "elsewhere")
        number = await create_chat(services, "sent", "stays")
        elsewhere = (await services.chats.get(other)).queue[0].id
        sent = (await services.chats.get(number)).queue[0].id
        await services.turns.start_turn(number, TEST)
        for prompt in (elsewhere, sent, 999):
            with pytest.raises(NotFound):
                await services.chats.rewrite_prompt(number, prompt, "x", ME)
            with pytest.raises(NotFound):
                await services.chats.remove_prompt(number, prompt, ME)
        with pytest.raises(NotFound):
            await services.chats.replace_queue(number, [QueueItem("x", elsewhere)], ME)
        assert list_texts(await services.chats.get(number)) == ["stays"]


async def test_empty_text_is_refused_before_anything_is_looked_up(layout):
    async with running_services(layout) as services:
        number = await create_chat(services)
        with pytest.raises(BadRequest):
            await services.chats.append_prompt(number, " ", "", ME)
        with pytest.raises(BadRequest):
            await services.chats.rewrite_prompt(7, 999, "\n", ME)
        with pytest.raises(BadRequest):
            await services.chats.replace_queue(7, [QueueItem("")], ME)


async def test_rewrite_remove_and_replace_do_what_they_say_and_last(layout):
    async with running_services(layout, crash=True) as services:
        number = await create_chat(services, "a", "b", "c")
        a, b, c = (prompt.id for prompt in (await services.chats.get(number)).queue)
        assert (await services.chats.rewrite_prompt(number, b, "B", ME)).text == "B"
        await services.chats.remove_prompt(number, a, ME)
        queue, _ = await services.chats.replace_queue(
            number, [QueueItem("C", c), QueueItem("B", b, True)], ME
        )
        assert [(prompt.id, prompt.text) for prompt in queue] == [(c, "C"), (b, "B")]
    async with running_services(layout) as services:
        assert (await services.chats.get(number)).queue == queue


async def test_replace_with_the_current_version_only(layout):
    """``If-Match``; without it the last writer wins, as specified."""
    async with running_services(layout) as services:
        number = await create_chat(services, "a")
        version = (await services.chats.get(number)).queue_version
        _, newer = await services.chats.replace_queue(number, [QueueItem("b")], ME, version)
        with pytest.raises(PreconditionFailed):
            await services.chats.replace_queue(number, [QueueItem("c")], ME, version)
        assert list_texts(await services.chats.get(number)) == ["b"]
        await services.chats.replace_queue(number, [QueueItem("d")], ME, newer)
        await services.chats.replace_queue(number, [QueueItem("e")], ME)
        assert list_texts(await services.chats.get(number)) == ["e"]


async def test_a_message_does_not_change_the_queue_s_version(layout):
    async with running_services(layout) as services:
        number = await create_chat(services, "a")
        await services.turns.start_turn(number, TEST)
        version = (await services.chats.get(number)).queue_version
        await services.turns.add_message(number, "assistant", "hi")
        await services.turns.end_turn(number, "completed")
        assert (await services.chats.get(number)).queue_version == version


async def test_the_same_key_creates_one_chat_also_at_once_and_after_a_restart(layout):
    async with running_services(layout, crash=True) as services:
        new = NewChat(prompt="hi", once=ONCE)
        chats = await asyncio.gather(*(services.chats.create(new, ME) for _ in range(5)))
        assert len({chat.id for chat in chats}) == 1
    async with running_services(layout) as services:
        assert (await services.chats.create(new, ME)).id == chats[0].id
        assert len(services.chats.list_summaries()) == 1
        assert list_texts(await services.chats.get(chats[0].id)) == ["hi"]


async def test_the_same_key_appends_one_prompt_also_when_it_was_sent_since(layout):
    async with running_services(layout, crash=True) as services:
        number = await create_chat(services)
        made = await asyncio.gather(
            *(services.chats.append_prompt(number, "x", "m", ME, ONCE) for _ in range(5))
        )
        assert {prompt.id for prompt in made} == {made[0].id}
        await services.turns.start_turn(number, TEST)
    async with running_services(layout) as services:
        assert await services.chats.append_prompt(number, "x", "m", ME, ONCE) == made[0]
        assert (await services.chats.get(number)).queue == ()


async def test_the_same_key_with_other_words_is_a_conflict(layout):
    async with running_services(layout) as services:
        await services.chats.create(NewChat(once=ONCE), ME)
        with pytest.raises(Conflict):
            await services.chats.create(NewChat(once=OTHER_WORDS), ME)
        number = await create_chat(services)
        await services.chats.append_prompt(number, "x", "", ME, ONCE)
        with pytest.raises(Conflict):
            await services.chats.append_prompt(number, "y", "", ME, OTHER_WORDS)


async def test_a_key_counts_for_24_hours(layout):
    async with running_services(layout) as services:
        first = await services.chats.create(NewChat(once=ONCE), ME)
        services.clock.move(24 * 3600)
        assert (await services.chats.create(NewChat(once=ONCE), ME)).id == first.id
        services.clock.move(1)
        assert (await services.chats.create(NewChat(once=OTHER_WORDS), ME)).id != first.id


async def test_a_key_whose_chat_was_deleted_counts_no_longer_than_another(layout):
    async with running_services(layout) as services:
        first = await services.chats.create(NewChat(once=ONCE), ME)
        trash = Trash(services.chats._chats, TrashFolder(layout))
        await trash.delete(first.id, ME)
        with pytest.raises(NotFound, match="not found"):
            await services.chats.create(NewChat(once=ONCE), ME)
        services.clock.move(24 * 3600 + 1)
        assert (await services.chats.create(NewChat(once=ONCE), ME)).id != first.id


async def test_after_a_failed_write_the_state_is_that_of_the_disk_again(layout, monkeypatch):
    async with running_services(layout) as services:
        number = await create_chat(services, "kept")
        before, heard = await services.chats.get(number), len(services.heard)
        fill_disk(monkeypatch)
        with pytest.raises(Unavailable, match="disk full"):
            await services.chats.append_prompt(number, "lost", "", ME)
        assert await services.chats.get(number) == before
        assert services.chats.get_summary(number).waiting == 1
        assert len(services.heard) == heard
        monkeypatch.undo()
        await services.chats.append_prompt(number, "taken again", "", ME)
        assert list_texts(await services.chats.get(number)) == ["kept", "taken again"]


async def test_a_key_whose_write_failed_may_be_used_again(layout, monkeypatch):
    async with running_services(layout) as services:
        number = await create_chat(services)
        fill_disk(monkeypatch)
        for act in (
            services.chats.create(NewChat(once=ONCE), ME),
            services.chats.append_prompt(number, "x", "", ME, ONCE),
        ):
            with pytest.raises(Unavailable):
                await act
        monkeypatch.undo()
        assert (await services.chats.create(NewChat(once=ONCE), ME)).id != number
        await services.chats.append_prompt(number, "x", "", ME, ONCE)
        assert list_texts(await services.chats.get(number)) == ["x"]


@pytest.mark.parametrize("chats_before", [0, 1])
async def test_a_key_whose_caller_left_before_the_write_failed_may_be_used_again(
    layout, monkeypatch, chats_before
):
    """The first chat fails with the reservation of ids, those after it with their journals."""
    async with running_services(layout) as services:
        for _ in range(chats_before):
            await create_chat(services)
            await services.files.unload(await services.chats.get(1))
        fill_disk(monkeypatch)
        caller = asyncio.create_task(services.chats.create(NewChat(once=ONCE), ME))
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.wait([caller])
        await until(lambda: not services.files._opened)
        monkeypatch.undo()
        assert services.chats.get_summary((await services.chats.create(NewChat(once=ONCE), ME)).id)


async def test_get_never_shows_what_a_crash_could_undo(layout, monkeypatch):
    """While a write is on its way, a reader waits for it; nobody sees what then failed."""
    async with running_services(layout) as services:
        number = await create_chat(services, "kept")
        fill_disk(monkeypatch)
        lost = asyncio.create_task(services.chats.append_prompt(number, "lost", "", ME))
        await asyncio.sleep(0)
        reader = asyncio.create_task(services.chats.get(number))
        assert services.chats.get_summary(number).waiting == 1
        await asyncio.wait([lost, reader])
        assert isinstance(lost.exception(), Unavailable)
        assert list_texts(reader.result()) == ["kept"]


async def test_what_is_read_stays_that_of_one_moment_under_constant_writing(layout):
    """Each answer holds only what was on disk when it was given."""
    async with running_services(layout) as services:
        number, over = await create_chat(services), False

        async def write():
            while not over:
                await services.chats.append_prompt(number, "x", "", ME)

        writers = [asyncio.create_task(write()) for _ in range(3)]
        for _ in range(50):
            seen = await services.chats.get(number)
            assert seen.size <= os.stat(layout.get_journal_path(number)).st_size
            assert seen.lines <= services.chats.get_summary(number).seq
            assert seen.size <= services.chats.get_summary(number).size
        over = True
        await asyncio.gather(*writers)


async def test_events_come_after_the_write_in_the_order_of_seq(layout):
    async with running_services(layout) as services:
        sizes = []
        services.bus.subscribe(
            lambda event: sizes.append(
                not isinstance(event, ChatUpdate)
                or event.chat.size <= os.stat(layout.get_journal_path(event.chat.id)).st_size
            )
        )
        numbers = [await create_chat(services) for _ in range(3)]
        await asyncio.gather(*(services.chats.append_prompt(n, "x", "", ME) for n in numbers * 20))
        seqs = [event.seq for event in services.heard]
        assert seqs == sorted(seqs)
        assert all(sizes)


async def test_what_each_change_shows(layout):
    async with running_services(layout) as services:
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await services.turns.start_turn(number, TEST)
        await services.turns.add_message(number, "assistant", "hi")
        await services.turns.end_turn(number, "failed", "why")
        output = [
            (type(event), event.reason if isinstance(event, ChatUpdate) else "")
            for event in services.heard
        ]
        assert output == [
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
    async with running_services(layout) as services:
        number = await create_chat(services)
        assert (await services.chats.wait_until_idle(number, 60)).status == "completed"
        await services.chats.append_prompt(number, "x", "", ME)
        assert (await services.chats.wait_until_idle(number, 0.01)).status == "queued"
        waiting = asyncio.create_task(services.chats.wait_until_idle(number, 60))
        await services.turns.start_turn(number, TEST)
        assert not waiting.done()
        await services.turns.end_turn(number, "completed")
        assert (await waiting).status == "completed"


async def test_a_chat_with_nothing_but_paused_prompts_rests(layout):
    async with running_services(layout) as services:
        number = await create_chat(services)
        await services.chats.replace_queue(number, [QueueItem("x", 0, True)], ME)
        assert (await services.chats.wait_until_idle(number, 60)).status == "queued"


async def test_a_turn_is_started_once_and_only_with_something_ready(layout):
    async with running_services(layout) as services:
        number = await create_chat(services, "a", "b")
        tries = await asyncio.gather(*(services.turns.start_turn(number, TEST) for _ in range(5)))
        assert [started.agent.turn.given.text for started in tries if started] == ["a"]
        await services.turns.end_turn(number, "completed")
        await services.turns.end_turn(number, "completed")
        assert (await services.turns.start_turn(number, TEST)).agent.turn.given.text == "b"
        await services.turns.end_turn(number, "completed")
        assert await services.turns.start_turn(number, TEST) is None


async def test_a_turn_that_a_crash_left_open_is_closed_as_interrupted(layout):
    async with running_services(layout, crash=True) as services:
        number = await create_chat(services, "a", "b")
        await services.turns.start_turn(number, TEST)
    async with running_services(layout) as services:
        assert services.chats.get_summary(number).status == "processing"
        await services.turns.end_interrupted()
        assert services.chats.get_summary(number).outcome == "interrupted"
        assert services.chats.get_summary(number).status == "queued"
        last = (await services.history(number))[-1]
        assert (last.role, last.text) == ("error", INTERRUPTED)
        assert list_texts(await services.chats.get(number)) == ["b"]


async def test_a_full_disk_at_start_stops_nobody_from_reading(layout, monkeypatch):
    async with running_services(layout, crash=True) as services:
        number = await create_chat(services, "a")
        await services.turns.start_turn(number, TEST)
    async with running_services(layout) as services:
        fill_disk(monkeypatch)
        await services.turns.end_interrupted()
        assert (await services.chats.get(number)).agent.turn
        monkeypatch.undo()
        await services.turns.end_interrupted()
        assert services.chats.get_summary(number).outcome == "interrupted"


async def test_a_caller_who_leaves_affects_nobody_else(layout):
    async with running_services(layout) as services:
        number = await create_chat(services)
        calls = [
            asyncio.create_task(services.chats.append_prompt(number, str(n), "", ME))
            for n in range(10)
        ]
        await asyncio.sleep(0)
        for call in calls[::2]:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await until(lambda: services.chats.get_summary(number).waiting == 10)
        assert list_texts(await services.chats.get(number)) == [str(n) for n in range(10)]


async def test_since_gives_the_same_from_memory_and_from_the_journal(layout):
    async with running_services(layout) as services:
        number = await create_chat(services, "go")
        await services.turns.start_turn(number, TEST)
        for n in range(400):
            services.clock.move(-5 if n % 50 == 49 else 0.5)
            await services.turns.add_message(number, "assistant", f"said {n}")
        everything = await services.history(number)
        assert len(everything) == 401
        for message in everything[::20]:
            later = [one for one in everything if one.at >= message.at]
            assert await services.history(number, message.at) == later
        assert await services.history(number, "9999") == []


async def test_a_history_found_damaged_makes_its_chat_read_only_and_named(layout, caplog):
    async with running_services(layout) as services:
        number, other = await create_chat(services, "go"), await create_chat(services)
        await services.turns.start_turn(number, TEST)
        for n in range(400):
            await services.turns.add_message(number, "assistant", f"said {n}")
        overwrite(layout.get_journal_path(number), 2000, b"#")
        with pytest.raises(Unavailable, match="damaged"):
            await services.history(number)
        assert "journal.jsonl" in services.chats.get_summary(number).damage
        assert f"chat {number} is read-only" in caplog.text
        with pytest.raises(Unavailable, match="read-only"):
            await services.chats.append_prompt(number, "x", "", ME)
        await services.chats.append_prompt(other, "x", "", ME)
        assert (await services.chats.wait_until_idle(number, 60)).damage
