"""Marks: whoever comes back with one gets exactly the rest, from memory or from the disk."""

import asyncio
import random
from functools import partial

import msgspec
import pytest

from agentd.chats.queue import Wanted
from agentd.chats.service import NewChat
from agentd.disk import replay
from agentd.disk.replay import Replay
from agentd.events import KeysUpdate, QueueUpdate
from agentd.web import feed as module
from agentd.web.feed import Feed, encoded, told_in
from agentd.web.mark import WHOLE, Mark
from tests.conftest import ME, living
from tests.disk.test_replay import busy


class Fed:
    """A feed over a life, what it told, and a way to ask it."""

    def __init__(self, life):
        self.life = life
        latest = life.state.sequences.used.seq
        lives = life.state.lives
        encode = partial(encoded, lives)
        self.replay = Replay(life.layout, encode, latest, life.chats.recorded())
        self.told = []
        self.feed = Feed(life.bus, life.chats, self.replay, latest, lives)
        self.feed.subscribe(self.told.append)

    async def missed(self, mark, upto=None, chats=None):
        upto = self.feed.position if upto is None else upto
        found = await self.feed.missed(mark, upto, chats)
        if found is None:
            return None
        return bytes_of([event async for portion in found for event in told_in(portion)])


def bytes_of(told):
    return [(event.mark, event.name, event.chat, event.sse, event.data) for event in told]


@pytest.fixture(params=["memory", "disk", "both"])
def kept(request, monkeypatch):
    """How much of what was told is still in memory."""
    monkeypatch.setattr(
        module, "RECENT_EVENTS", {"memory": 9999, "disk": 0, "both": 30}[request.param]
    )


def test_a_mark_is_written_as_the_seq_and_the_part_unless_the_record_is_whole():
    assert str(Mark(17)) == "17"
    assert str(Mark(17, 0)) == "17.0"
    assert str(Mark(17, life="0a1b2c3d")) == "17~0a1b2c3d"
    assert str(Mark(17, 0, "0a1b2c3d")) == "17.0~0a1b2c3d"
    assert sorted([Mark(18, 0), Mark(17), Mark(17, 1), Mark(17, 0)]) == [
        Mark(17, 0), Mark(17, 1), Mark(17), Mark(18, 0),
    ]  # fmt: skip


@pytest.mark.gen_test
async def test_marks_rise_and_the_last_of_a_record_is_whole(layout):
    async with living(layout) as life:
        fed = Fed(life)
        await busy(life)
        marks = [event.mark for event in fed.told]
        assert marks == sorted(set(marks))
        for mark, after in zip(marks, [*marks[1:], None], strict=True):
            assert (mark.part == WHOLE) == (after is None or after.seq > mark.seq)
        assert fed.feed.position == marks[-1].seq
        await fed.replay.close()


@pytest.mark.gen_test
async def test_for_every_mark_the_answer_is_exactly_the_rest(layout, kept):
    async with living(layout) as life:
        fed = Fed(life)
        await busy(life)
        told = bytes_of(fed.told)
        for place in range(len(told) + 1):
            mark = told[place - 1][0] if place else Mark(0)
            assert await fed.missed(mark) == told[place:]
        await fed.replay.close()


@pytest.mark.gen_test
async def test_nothing_after_the_last_record_that_was_asked_for(layout, kept):
    async with living(layout) as life:
        fed = Fed(life)
        await busy(life)
        told = bytes_of(fed.told)
        for upto in range(1, fed.feed.position, 5):
            assert await fed.missed(Mark(0), upto) == [row for row in told if row[0].seq <= upto]
        await fed.replay.close()


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.gen_test
async def test_after_a_restart_the_same_bytes_are_told(layout, crash):
    async with living(layout, crash=crash) as life:
        fed = Fed(life)
        await busy(life)
        told = bytes_of(fed.told)
        await fed.replay.close()
    async with living(layout) as life:
        fed = Fed(life)
        await busy(life, seed=1)
        told += bytes_of(fed.told)
        for place in range(0, len(told), 5):
            assert await fed.missed(told[place][0]) == told[place + 1 :]
        await fed.replay.close()


@pytest.mark.gen_test
async def test_a_mark_from_the_future_cannot_be_told_from(layout, kept):
    async with living(layout) as life:
        fed = Fed(life)
        await busy(life)
        position = fed.feed.position
        assert await fed.missed(Mark(position)) == []
        assert await fed.missed(Mark(position + 1)) is None
        assert await fed.missed(Mark(position + 1, 0)) is None
        await fed.replay.close()


@pytest.mark.gen_test
async def test_of_some_chats_only_what_they_tell(layout, kept):
    async with living(layout) as life:
        fed = Fed(life)
        await busy(life)
        told = bytes_of(fed.told)
        for mark in (Mark(0), *(row[0] for row in told[::7])):
            wanted = [row for row in told if row[0] > mark and row[2] in {1, 3}]
            assert await fed.missed(mark, chats=frozenset({1, 3})) == wanted
        await fed.replay.close()


@pytest.mark.gen_test
async def test_what_memory_has_is_kept_and_told_when_memory_has_it_no_more(layout, monkeypatch):
    monkeypatch.setattr(replay, "KEPT_RECORDS", 7)
    async with living(layout) as life:
        fed = Fed(life)
        log = fed.replay._log
        await busy(life)
        while log.position < fed.feed.position:
            before = log.position
            await fed.feed.keep()
            assert before < log.position
        fed.feed._recent._before = fed.feed.position
        monkeypatch.setattr(fed.replay, "_read_journals", None)  # they are not needed
        assert await fed.missed(Mark(0)) == bytes_of(fed.told)
        await fed.replay.close()


@pytest.mark.gen_test
async def test_the_log_that_memory_has_left_behind_catches_up_once_it_is_quiet(layout, monkeypatch):
    monkeypatch.setattr(module, "RECENT_EVENTS", 0)
    async with living(layout) as life:
        fed = Fed(life)
        await busy(life)
        for _ in range(module.QUIET):
            await fed.feed.keep()
            assert fed.replay._log.position == 0
        await fed.feed.keep()
        assert fed.replay._log.position == fed.feed.position
        assert await fed.missed(Mark(0)) == bytes_of(fed.told)
        await fed.replay.close()


@pytest.mark.gen_test
async def test_memory_is_bounded_by_number_and_by_bytes(layout, monkeypatch):
    async with living(layout) as life:
        monkeypatch.setattr(module, "RECENT_BYTES", 5000)
        fed = Fed(life)
        await busy(life)
        recent = fed.feed._recent
        kept = [(seq, event.name) for seq, event in recent._events]
        assert kept == [(event.seq, event.name) for event in fed.told[-len(kept) :]]
        assert len(recent._weights) == len(recent._events)
        assert sum(recent._weights) == recent._size <= 5000
        monkeypatch.setattr(module, "RECENT_EVENTS", 3)
        await life.chats.append(1, "one more", "", ME)
        kept = [(seq, event.name) for seq, event in recent._events]
        assert kept == [(event.seq, event.name) for event in fed.told[-3:]]
        await fed.replay.close()


@pytest.mark.gen_test
async def test_what_is_kept_of_queues_that_are_new_as_a_whole_is_bounded_by_its_text(layout):
    """A queue that is added to shares its prompts with the one before; a new one shares none."""
    async with living(layout) as life:
        fed = Fed(life)
        number = (await life.chats.create(NewChat(), ME)).id
        for _ in range(200):
            wanted = [Wanted(text="x" * 10_000) for _ in range(10)]
            await life.chats.replace(number, wanted, ME)
        kept = {
            id(prompt): len(prompt.text)
            for _, event in fed.feed._recent._events
            if isinstance(event, QueueUpdate)
            for prompt in event.prompts
        }
        assert module.RECENT_BYTES / 2 < sum(kept.values()) <= module.RECENT_BYTES
        await fed.replay.close()


@pytest.mark.gen_test
async def test_what_is_recorded_while_the_disk_is_read_is_told_once(layout, kept):
    async with living(layout) as life:
        fed = Fed(life)
        await busy(life)
        heard = []
        for seed in range(1, 4):
            mark = random.Random(seed).choice(fed.told).mark  # noqa: S311
            place = [event.mark for event in fed.told].index(mark) + 1
            upto, heard[:] = fed.feed.position, []
            fed.feed.subscribe(heard.append)
            reading = asyncio.ensure_future(fed.missed(mark, upto))
            await asyncio.sleep(0)
            await busy(life, seed)
            fed.feed.unsubscribe(heard.append)
            assert await reading + bytes_of(heard) == bytes_of(fed.told)[place:]
        await fed.replay.close()


@pytest.mark.gen_test
async def test_what_is_not_stored_has_no_mark_and_disturbs_none(layout, kept):
    async with living(layout) as life:
        fed = Fed(life)
        await busy(life)
        life.bus.publish(KeysUpdate(("laptop",)))
        keys = fed.told.pop()
        assert keys.sse == b'event: keysUpdate\ndata: [["laptop"]]\n\n'
        assert keys.mark is None
        assert await fed.missed(Mark(0)) == bytes_of(fed.told)
        await fed.replay.close()


@pytest.mark.gen_test
async def test_an_event_is_the_same_in_both_forms(layout):
    async with living(layout) as life:
        fed = Fed(life)
        await busy(life)
        for event in fed.told:
            record = msgspec.json.decode(event.data[:-1])
            assert record["target"] == event.name
            assert record["arguments"] == msgspec.json.decode(event.arguments)
            head, data = event.sse[:-2].rsplit(b"\n", 1)
            assert head == f"id: {event.mark}\nevent: {event.name}".encode()
            assert data == b"data: " + event.arguments
        await fed.replay.close()
