"""Marks: whoever comes back with one gets exactly the rest, from memory or from the disk."""

import asyncio
import random
from functools import partial
from pathlib import Path

import msgspec
import pytest

from agentd.auth.events import KeysUpdate
from agentd.chats import replay
from agentd.chats.events import QueueUpdate
from agentd.chats.queue import QueueItem
from agentd.chats.replay import Replay
from agentd.chats.service import NewChat
from agentd.chats.trash import Trash
from agentd.chats.trash_store import TrashFolder
from agentd.live import feed as module
from agentd.live.cursor import WHOLE_RECORD, EventCursor
from agentd.live.feed import Feed, decode_batch, encode_record
from tests.chats.test_replay import change_chats
from tests.conftest import ME, running_services


class FeedSetup:
    """A feed over services, the events it sent, and a way to query it."""

    def __init__(self, services):
        self.services = services
        latest = services.state.sequences.used.seq
        runs = services.state.runs
        encode = partial(encode_record, runs)
        self.replay = Replay(services.layout, encode, latest, services.chats.list_all_summaries())
        self.told = []
        self.feed = Feed(services.bus, services.chats, self.replay, latest, runs)
        self.feed.subscribe(self.told.append)

    async def read_missed(self, mark, upto=None, chats=None):
        upto = self.feed.position if upto is None else upto
        found = await self.feed.read_missed(mark, upto, chats)
        if found is None:
            return None
        return encode_events([event async for portion in found for event in decode_batch(portion)])


def encode_events(told):
    return [(event.cursor, event.name, event.chat, event.sse, event.data) for event in told]


@pytest.fixture(params=["memory", "disk", "both"])
def kept(request, monkeypatch):
    """Set how many of the events are still in memory."""
    monkeypatch.setattr(
        module, "RECENT_EVENTS", {"memory": 9999, "disk": 0, "both": 30}[request.param]
    )


def test_a_mark_is_written_as_the_seq_and_the_part_unless_the_record_is_whole():
    assert str(EventCursor(17)) == "17"
    assert str(EventCursor(17, 0)) == "17.0"
    assert str(EventCursor(17, run_id="0a1b2c3d")) == "17~0a1b2c3d"
    assert str(EventCursor(17, 0, "0a1b2c3d")) == "17.0~0a1b2c3d"
    cursors = [EventCursor(18, 0), EventCursor(17), EventCursor(17, 1), EventCursor(17, 0)]
    assert sorted(cursors) == [
        EventCursor(17, 0), EventCursor(17, 1), EventCursor(17), EventCursor(18, 0),
    ]  # fmt: skip


@pytest.mark.gen_test
async def test_marks_rise_and_the_last_of_a_record_is_whole(layout):
    async with running_services(layout) as services:
        fed = FeedSetup(services)
        await change_chats(services)
        marks = [event.cursor for event in fed.told]
        assert marks == sorted(set(marks))
        for mark, after in zip(marks, [*marks[1:], None], strict=True):
            assert (mark.part == WHOLE_RECORD) == (after is None or after.seq > mark.seq)
        assert fed.feed.position == marks[-1].seq
        await fed.replay.close()


@pytest.mark.gen_test
async def test_for_every_mark_the_answer_is_exactly_the_rest(layout, kept):
    async with running_services(layout) as services:
        fed = FeedSetup(services)
        await change_chats(services)
        told = encode_events(fed.told)
        for place in range(len(told) + 1):
            mark = told[place - 1][0] if place else EventCursor(0)
            assert await fed.read_missed(mark) == told[place:]
        await fed.replay.close()


@pytest.mark.gen_test
async def test_nothing_after_the_last_record_that_was_asked_for(layout, kept):
    async with running_services(layout) as services:
        fed = FeedSetup(services)
        await change_chats(services)
        told = encode_events(fed.told)
        for upto in range(1, fed.feed.position, 5):
            assert await fed.read_missed(EventCursor(0), upto) == [
                row for row in told if row[0].seq <= upto
            ]
        await fed.replay.close()


@pytest.mark.gen_test
async def test_of_a_chat_that_was_removed_for_ever_nothing_is_reported_again(layout, kept):
    async with running_services(layout) as services:
        fed = FeedSetup(services)
        repository = services.chats._chats
        repository.on_removed.append(fed.feed.forget_chat)
        await change_chats(services)
        gone = (await services.chats.create(NewChat(prompt="a secret word"), ME)).id
        assert any(chat == gone for _, _, chat, _, _ in await fed.read_missed(EventCursor(0)))
        await fed.feed.persist()
        trash = Trash(repository, TrashFolder(layout))
        await trash.delete(gone, ME)
        deleted = fed.told[-1].cursor
        await trash.delete_for_good(gone, ME)
        await change_chats(services, seed=1)
        rest = [row for row in encode_events(fed.told) if row[2] != gone]
        assert await fed.read_missed(EventCursor(0)) == rest
        assert await fed.read_missed(rest[5][0]) is None  # it may know the chat
        assert await fed.read_missed(deleted) == [row for row in rest if row[0] > deleted]
        await fed.feed.persist()
        written = [path.read_bytes() for path in Path(layout.events).iterdir()]
        assert written
        assert not any(b"a secret word" in data for data in written)
        await fed.replay.close()


@pytest.mark.gen_test
async def test_who_comes_back_after_a_restart_and_may_know_a_removed_chat_loads_anew(layout, kept):
    async with running_services(layout, crash=True) as services:
        fed = FeedSetup(services)
        gone = (await services.chats.create(NewChat(prompt="a secret word"), ME)).id
        before = fed.told[-1].cursor
        trash = Trash(services.chats._chats, TrashFolder(layout))
        await trash.delete(gone, ME)
        deleted = fed.told[-1].cursor
        await trash.delete_for_good(gone, ME)
        await change_chats(services)
        rest = [row for row in encode_events(fed.told) if row[0] > deleted]
        await fed.replay.close()
    async with running_services(layout) as services:
        fed = FeedSetup(services)
        assert await fed.read_missed(before) is None
        assert await fed.read_missed(deleted) == rest
        assert await fed.read_missed(EventCursor(0)) == rest
        await fed.replay.close()


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.gen_test
async def test_after_a_restart_the_same_bytes_are_reported(layout, crash):
    async with running_services(layout, crash=crash) as services:
        fed = FeedSetup(services)
        await change_chats(services)
        told = encode_events(fed.told)
        await fed.replay.close()
    async with running_services(layout) as services:
        fed = FeedSetup(services)
        await change_chats(services, seed=1)
        told += encode_events(fed.told)
        for place in range(0, len(told), 5):
            assert await fed.read_missed(told[place][0]) == told[place + 1 :]
        await fed.replay.close()


@pytest.mark.gen_test
async def test_a_mark_from_the_future_cannot_be_distinguished_from(layout, kept):
    async with running_services(layout) as services:
        fed = FeedSetup(services)
        await change_chats(services)
        position = fed.feed.position
        assert await fed.read_missed(EventCursor(position)) == []
        assert await fed.read_missed(EventCursor(position + 1)) is None
        assert await fed.read_missed(EventCursor(position + 1, 0)) is None
        await fed.replay.close()


@pytest.mark.gen_test
async def test_of_some_chats_only_what_they_tell(layout, kept):
    async with running_services(layout) as services:
        fed = FeedSetup(services)
        await change_chats(services)
        told = encode_events(fed.told)
        for mark in (EventCursor(0), *(row[0] for row in told[::7])):
            wanted = [row for row in told if row[0] > mark and row[2] in {1, 3}]
            assert await fed.read_missed(mark, chats=frozenset({1, 3})) == wanted
        await fed.replay.close()


@pytest.mark.gen_test
async def test_what_memory_has_is_kept_and_reported_when_memory_has_it_no_more(layout, monkeypatch):
    monkeypatch.setattr(replay, "KEPT_RECORDS", 7)
    async with running_services(layout) as services:
        fed = FeedSetup(services)
        log = fed.replay._log
        await change_chats(services)
        while log.position < fed.feed.position:
            before = log.position
            await fed.feed.persist()
            assert before < log.position
        fed.feed._recent._before = fed.feed.position
        monkeypatch.setattr(fed.replay, "_read_journals", None)  # they are not needed
        assert await fed.read_missed(EventCursor(0)) == encode_events(fed.told)
        await fed.replay.close()


@pytest.mark.gen_test
async def test_the_log_that_memory_has_left_behind_catches_up_once_it_is_quiet(layout, monkeypatch):
    monkeypatch.setattr(module, "RECENT_EVENTS", 0)
    async with running_services(layout) as services:
        fed = FeedSetup(services)
        await change_chats(services)
        for _ in range(module.QUIET_CALLS):
            await fed.feed.persist()
            assert fed.replay._log.position == 0
        await fed.feed.persist()
        assert fed.replay._log.position == fed.feed.position
        assert await fed.read_missed(EventCursor(0)) == encode_events(fed.told)
        await fed.replay.close()


@pytest.mark.gen_test
async def test_memory_is_bounded_by_number_and_by_bytes(layout, monkeypatch):
    async with running_services(layout) as services:
        monkeypatch.setattr(module, "RECENT_BYTES", 5000)
        fed = FeedSetup(services)
        await change_chats(services)
        recent = fed.feed._recent
        kept = [(seq, event.name) for seq, event in recent._events]
        assert kept == [(event.seq, event.name) for event in fed.told[-len(kept) :]]
        assert len(recent._weights) == len(recent._events)
        assert sum(recent._weights) == recent._size <= 5000
        monkeypatch.setattr(module, "RECENT_EVENTS", 3)
        await services.chats.append_prompt(1, "one more", "", ME)
        kept = [(seq, event.name) for seq, event in recent._events]
        assert kept == [(event.seq, event.name) for event in fed.told[-3:]]
        await fed.replay.close()


@pytest.mark.gen_test
async def test_what_is_kept_of_queues_that_are_new_as_a_whole_is_bounded_by_its_text(layout):
    """A queue that is added to shares its prompts with the one before; a new one shares none."""
    async with running_services(layout) as services:
        fed = FeedSetup(services)
        number = (await services.chats.create(NewChat(), ME)).id
        for _ in range(200):
            wanted = [QueueItem(text="x" * 10_000) for _ in range(10)]
            await services.chats.replace_queue(number, wanted, ME)
        kept = {
            id(prompt): len(prompt.text)
            for _, event in fed.feed._recent._events
            if isinstance(event, QueueUpdate)
            for prompt in event.prompts
        }
        assert module.RECENT_BYTES / 2 < sum(kept.values()) <= module.RECENT_BYTES
        await fed.replay.close()


@pytest.mark.gen_test
async def test_what_is_recorded_while_the_disk_is_read_is_reported_once(layout, kept):
    async with running_services(layout) as services:
        fed = FeedSetup(services)
        await change_chats(services)
        heard = []
        for seed in range(1, 4):
            mark = random.Random(seed).choice(fed.told).cursor  # noqa: S311
            place = [event.cursor for event in fed.told].index(mark) + 1
            upto, heard[:] = fed.feed.position, []
            fed.feed.subscribe(heard.append)
            reading = asyncio.ensure_future(fed.read_missed(mark, upto))
            await asyncio.sleep(0)
            await change_chats(services, seed)
            fed.feed.unsubscribe(heard.append)
            assert await reading + encode_events(heard) == encode_events(fed.told)[place:]
        await fed.replay.close()


@pytest.mark.gen_test
async def test_what_is_not_stored_has_no_mark_and_disturbs_none(layout, kept):
    async with running_services(layout) as services:
        fed = FeedSetup(services)
        await change_chats(services)
        services.bus.publish(KeysUpdate(("laptop",)))
        keys = fed.told.pop()
        assert keys.sse == b'event: keysUpdate\ndata: [["laptop"]]\n\n'
        assert keys.cursor is None
        assert await fed.read_missed(EventCursor(0)) == encode_events(fed.told)
        await fed.replay.close()


@pytest.mark.gen_test
async def test_an_event_is_the_same_in_both_forms(layout):
    async with running_services(layout) as services:
        fed = FeedSetup(services)
        await change_chats(services)
        for event in fed.told:
            record = msgspec.json.decode(event.data[:-1])
            assert record["target"] == event.name
            assert record["arguments"] == msgspec.json.decode(event.arguments)
            head, data = event.sse[:-2].rsplit(b"\n", 1)
            assert head == f"id: {event.cursor}\nevent: {event.name}".encode()
            assert data == b"data: " + event.arguments
        await fed.replay.close()
