"""A replay returns the events that were sent live, even if only the journals are left."""

import asyncio
import logging
import os
import random
import re
import shutil
from pathlib import Path

import pytest

from agentd.chats import checkpoint
from agentd.chats.load import load
from agentd.chats.queue import QueueItem
from agentd.chats.replay import Replay
from agentd.chats.service import NewChat
from tests.conftest import ME, TEST, overwrite, running_services, until


async def change_chats(services, seed=0, steps=40):
    """Do a bit of everything that can be done with chats."""
    chance = random.Random(seed)  # noqa: S311
    chats = [(await services.chats.create(NewChat(prompt=f"chat {n}"), ME)).id for n in range(3)]
    for step in range(steps):
        chat = chance.choice(chats)
        state = await services.chats.get(chat)
        match chance.randrange(8):
            case 0 | 1:
                await services.chats.append_prompt(chat, f"prompt {step}", "", ME)
            case 2 if state.queue:
                await services.chats.rewrite_prompt(
                    chat, state.queue[0].id, f"rewritten {step}", ME
                )
            case 3 if state.queue:
                await services.chats.remove_prompt(chat, state.queue[-1].id, ME)
            case 4:
                wanted = QueueItem(f"replaced {step}", paused=bool(step % 2))
                await services.chats.replace_queue(chat, [wanted], ME)
            case 5 if state.queue and not state.agent.turn:
                await services.turns.start_turn(chat, TEST)
            case 6 if state.agent.turn:
                await services.turns.add_message(chat, "assistant", f"reply {step} \u2028\n")
            case 7 if state.agent.turn:
                await services.turns.end_turn(chat, "failed", "it went wrong" if step % 2 else "")
            case _:
                services.chats.get_summary(chat)


async def replay_events(services, after=0, upto=None, summaries=None, **options):
    """Return the events read from the journals and then from the log, which must be the same."""
    now = services.state.sequences.used.seq
    last = now if upto is None else upto
    chats = services.chats.list_summaries() if summaries is None else summaries
    replay = Replay(services.layout, encode, now, chats, **options)
    try:
        found = await read_span(replay, chats, after, last)
        assert await read_span(replay, chats, after, last) == found
        return found
    finally:
        await replay.close()


async def read_span(replay, *span):
    portions = await replay.read_missed(*span)
    return portions and [
        (seq, line.decode())
        async for portion in portions
        for seq, _, data in portion.iter_records()
        for line in data.splitlines()
    ]


def encode(seq, events):
    """The feed encodes otherwise; what is read back is the same bytes in any case."""
    assert {event.seq for event in events} == {seq}
    return b"".join(repr(event).encode() + b"\n" for event in events)


def number_events(events):
    return [(event.seq, repr(event)) for event in events]


@pytest.mark.gen_test
async def test_it_shows_what_was_published_live(layout):
    async with running_services(layout) as services:
        await change_chats(services)
        assert await replay_events(services) == number_events(services.heard)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.gen_test
async def test_after_any_life_every_span_is_what_was_reported_then(layout, seed):
    async with running_services(layout, crash=bool(seed % 2)) as services:
        await change_chats(services, seed)
        result = number_events(services.heard)
    async with running_services(layout) as services:
        last = result[-1][0]
        chance = random.Random(seed)  # noqa: S311
        for after in chance.sample(range(last + 1), 8):
            upto = chance.randint(after, last)
            expected = [pair for pair in result if after < pair[0] <= upto]
            assert await replay_events(services, after, upto) == expected


@pytest.mark.parametrize("cut", ["at the end", "half-way", "missing", "torn"])
@pytest.mark.gen_test
async def test_checkpoints_change_nothing(layout, cut):
    async with running_services(layout) as services:
        await change_chats(services)
        for summary in services.chats.list_summaries():
            path = layout.get_checkpoint_path(summary.id)
            if cut != "missing":
                lines = (
                    Path(layout.get_journal_path(summary.id)).read_bytes().splitlines(keepends=True)
                )
                kept = len(lines) if cut == "at the end" else len(lines) // 2
                end = sum(map(len, lines[:kept]))
                state = load(layout, summary.id, end=end).chat
                checkpoint.write(path, checkpoint.encode(state))
            if cut == "torn":
                os.truncate(path, 100)
        for after in range(0, services.heard[-1].seq + 1, 7):
            expected = [pair for pair in number_events(services.heard) if pair[0] > after]
            assert await replay_events(services, after) == expected


@pytest.mark.gen_test
async def test_what_is_not_known_to_be_safe_is_not_reported(layout):
    """A line that is on disk, but of which nobody was told, may yet be cut off."""
    async with running_services(layout) as services:
        await change_chats(services)
        summaries = services.chats.list_summaries()
        result = number_events(services.heard)
        await services.chats.append_prompt(1, "one more", "", ME)
        assert await replay_events(services, summaries=summaries) == result


@pytest.mark.gen_test
async def test_too_many_are_none_and_just_enough_are_all(layout):
    async with running_services(layout) as services:
        await change_chats(services)
        count = len(services.heard)
        assert await replay_events(services, most=count) == number_events(services.heard)
        for most in (count - 1, 1):
            shutil.rmtree(
                layout.events, ignore_errors=True
            )  # what the log has is told, however much it is
            assert await replay_events(services, most=most) is None


@pytest.mark.gen_test
async def test_what_was_too_much_is_not_read_again_to_find_that_out(layout, monkeypatch):
    """Or everybody who comes back to an old mark has all journals read, for nothing."""
    async with running_services(layout) as services:
        await change_chats(services)
        latest = services.state.sequences.used.seq
        replay = Replay(layout, encode, latest, services.chats.list_all_summaries(), most=20)
        assert await replay.read_missed(services.chats.list_all_summaries(), 3, latest) is None
        monkeypatch.setattr(Replay, "_read_chat", None)
        assert await replay.read_missed(services.chats.list_all_summaries(), 3, latest) is None
        assert await replay.read_missed(services.chats.list_all_summaries(), 0, latest + 1) is None
        monkeypatch.undo()
        assert (
            await replay.read_missed(services.chats.list_all_summaries(), latest - 2, latest)
            is not None
        )
        await replay.close()


@pytest.mark.gen_test
async def test_too_large_is_none_and_just_large_enough_is_all(layout):
    async with running_services(layout) as services:
        await change_chats(services)
        size = sum(len(repr(event).encode()) + 1 for event in services.heard)
        assert await replay_events(services, largest=size - 1) is None
        assert await replay_events(services, largest=size) == number_events(services.heard)


@pytest.mark.gen_test
async def test_a_log_that_another_reader_finds_altered_meanwhile_is_no_gap(layout):
    async with running_services(layout) as services:
        await change_chats(services)
        known, first = services.chats.list_summaries(), services.state.sequences.used.seq
        replay = Replay(layout, encode, first, known)
        assert await read_span(replay, known, 0, first)
        other = aiter(await replay.read_missed(known, 0, first))
        result = number_events(services.heard)
        await change_chats(services, seed=1)
        overwrite(layout.get_event_paths(0)[0], 0, b"?")
        read, others = replay._read_journals, []

        async def read_while_another_does(chats, after, upto):
            if not others:
                assert after == first, "the log was to go on from where it ends"
                others.append(asyncio.create_task(anext(other)))
                await until(lambda: replay._log.first > 0)
            return await read(chats, after, upto)

        replay._read_journals = read_while_another_does
        now = services.state.sequences.used.seq
        assert await read_span(replay, services.chats.list_summaries(), 0, now) == number_events(
            services.heard
        )
        assert (await others[0]).data.decode().splitlines() == [line for _, line in result]
        await replay.close()


@pytest.mark.parametrize("damage", ["missing", "middle", "fifo", "link", "shorter"])
@pytest.mark.gen_test
async def test_a_damaged_chat_does_not_keep_the_others_from_telling(layout, caplog, damage):
    async with running_services(layout) as services:
        await change_chats(services)
        path = layout.get_journal_path(2)
        size = os.path.getsize(path)
        match damage:
            case "middle":
                overwrite(path, size // 2, b"\0\0\0")
            case "shorter":
                os.truncate(path, 0)
            case _:
                os.rename(path, f"{path}.away")
        if damage == "fifo":
            os.mkfifo(path)
        if damage == "link":
            os.symlink(f"{path}.away", path)
        with caplog.at_level(logging.WARNING):
            found = await replay_events(services)
        if damage != "missing":
            os.unlink(path)
        result = number_events(services.heard)
        others = [pair for pair in result if parse_chat_id(pair[1]) != 2]
        assert [pair for pair in found if parse_chat_id(pair[1]) != 2] == others
        of_it = [pair for pair in found if parse_chat_id(pair[1]) == 2]
        assert of_it == [pair for pair in result if parse_chat_id(pair[1]) == 2][: len(of_it)]
        assert bool(of_it) == (damage == "middle")
        assert "chat 2" in caplog.text


def parse_chat_id(line):
    return int(re.search(r"chat_id=(\d+)|Summary\(id=(\d+)", line).expand(r"\1\2"))


@pytest.mark.gen_test
async def test_lines_longer_than_what_is_read_at_a_time_are_whole(layout, monkeypatch):
    monkeypatch.setattr("agentd.chats.replay._CHUNK", 100)
    async with running_services(layout) as services:
        await change_chats(services)
        assert await replay_events(services) == number_events(services.heard)
