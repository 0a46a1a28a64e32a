"""Roll-ups: they save reading, may be deleted, and are never believed against the journals."""

import asyncio
import os
import shutil
import threading
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from agentd.chats.analytics import store as module
from agentd.chats.analytics.report import AnalyticsReport
from agentd.chats.analytics.store import AnalyticsStore
from agentd.chats.events import ChatDeletedUpdate, ChatStateEvent, ChatUpdate
from agentd.chats.service import NewChat
from agentd.storage.checksummed_json import decode_checksummed, encode_checksummed
from tests.conftest import ME, TEST, running_services

pytestmark = pytest.mark.gen_test

EVER = ("0001-01-01", "9999-12-31")
DAY = 86_400


def subscribe_store(services) -> AnalyticsStore:
    """Return roll-ups that are told how chats change."""
    mine = AnalyticsStore(services.layout, services.chats.list_summaries, services.bus.publish)
    services.bus.subscribe_to((ChatStateEvent,), mine.on_chat_changed)
    return mine


async def report_usage(services, by="chat", analytics=None) -> AnalyticsReport:
    """Return the current report, by roll-ups of its own where none are given."""
    mine = analytics or AnalyticsStore(
        services.layout, services.chats.list_summaries, services.bus.publish
    )
    try:
        return await mine.report(by, *EVER)
    finally:
        if not analytics:
            await mine.close()


def count_turns(report: AnalyticsReport) -> dict[str, int]:
    return {name: totals.turns for name, totals in report.rows}


async def run_turn(services, chat_id: int, seconds: float = 1.0) -> None:
    await services.chats.append_prompt(chat_id, "do it", "", ME)
    await services.turns.start_turn(chat_id, TEST)
    await services.turns.add_message(chat_id, "tool", "done", tool="edit")
    services.clock.move(seconds)
    await services.turns.end_turn(chat_id, "completed")


async def make_chat(services, turns: int = 1) -> int:
    number = (await services.chats.create(NewChat(title=f"={turns} turns"), ME)).id
    for _ in range(turns):
        await run_turn(services, number)
    return number


@pytest.fixture
def read(monkeypatch) -> list[tuple[str, int]]:
    """Each reading of a journal: its path, and the bytes that were known before."""
    found: list[tuple[str, int]] = []
    fold = module.fold_journal

    def note_and_read(path, tally, end):
        if tally.size < end:
            found.append((path, tally.size))
        return fold(path, tally, end)

    monkeypatch.setattr(module, "fold_journal", note_and_read)
    return found


async def test_only_what_is_new_is_read(layout, read):
    async with running_services(layout) as services:
        one, other = await make_chat(services, 3), await make_chat(services, 2)
        mine = subscribe_store(services)
        assert count_turns(await report_usage(services, analytics=mine)) == {
            str(one): 3,
            str(other): 2,
        }
        size = services.chats.get_summary(one).size
        await run_turn(services, one)
        read.clear()
        assert count_turns(await report_usage(services, analytics=mine)) == {
            str(one): 4,
            str(other): 2,
        }
        assert read == [(layout.get_journal_path(one), size)]
        read.clear()
        for by in ("day", "model", "engine", "skill", "label", "chat", "key"):
            await report_usage(services, by, mine)
        assert read == []
        await mine.close()


async def test_what_an_earlier_life_kept_is_not_read_again(layout, read):
    async with running_services(layout) as services:
        one = await make_chat(services, 3)
        before = await report_usage(services)
    assert os.stat(layout.get_chat_analytics_path(one)).st_mode & 0o777 == 0o600
    read.clear()
    async with running_services(layout) as services:
        assert await report_usage(services) == before
        assert read == []


async def test_a_deleted_roll_up_is_rebuilt(layout):
    async with running_services(layout) as services:
        await make_chat(services, 3)
        before = await report_usage(services, "key")
        shutil.rmtree(layout.analytics)
        assert await report_usage(services, "key") == before
        assert os.path.isdir(layout.analytics)


@pytest.mark.parametrize("spoil", ["flip", "cut", "empty", "another chat", "older format", "link"])
async def test_a_roll_up_that_is_not_what_was_written_is_not_believed(layout, spoil, tmp_path):
    async with running_services(layout) as services:
        one, other = await make_chat(services, 3), await make_chat(services, 1)
        before = await report_usage(services)
        path = Path(layout.get_chat_analytics_path(one))
        data = path.read_bytes()
        match spoil:
            case "flip":
                path.write_bytes(data.replace(b'"tool":3', b'"tool":4'))
            case "cut":
                path.write_bytes(data[:-20])
            case "empty":
                path.write_bytes(b"")
            case "another chat":
                shutil.copy(layout.get_chat_analytics_path(other), path)
            case "older format":
                path.write_bytes(replace_and_seal(data, b'"format":1', b'"format":0'))
            case "link":
                path.rename(tmp_path / "elsewhere")
                path.symlink_to(tmp_path / "elsewhere")
        assert await report_usage(services) == before


def replace_and_seal(line: bytes, old: bytes, new: bytes) -> bytes:
    """Return the line with something else in it, and a checksum that fits."""
    text = decode_checksummed(line)
    assert old in text
    return encode_checksummed(msgspec.Raw(text.replace(old, new)))


@pytest.mark.parametrize("same_size", [True, False])
async def test_an_edited_journal_is_read_again(layout, same_size):
    """A line that a person mended, with its seal: the roll-up of before is of another file."""
    async with running_services(layout) as services:
        one = await make_chat(services, 3)
        before = await report_usage(services)
        assert before.total.tools == {"edit": 3}
    journal = Path(layout.get_journal_path(one))
    lines = journal.read_bytes().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if b'"tool":"edit"' in line)
    name = b'"tool":"exec"' if same_size else b'"tool":"an editor"'
    lines[at] = replace_and_seal(lines[at], b'"tool":"edit"', name)
    journal.write_bytes(b"".join(lines))
    for cache in (layout.get_checkpoint_path(one), layout.index):
        Path(cache).unlink(missing_ok=True)
    async with running_services(layout) as services:
        result = (await report_usage(services)).total.tools
        assert result == {"edit": 2, ("exec" if same_size else "an editor"): 1}


async def test_a_damaged_chat_counts_as_far_as_it_can_be_read_and_is_reported(layout):
    async with running_services(layout) as services:
        one, other = await make_chat(services, 3), await make_chat(services, 2)
        await report_usage(services)
    journal = Path(layout.get_journal_path(one))
    lines = journal.read_bytes().splitlines(keepends=True)
    second = [number for number, line in enumerate(lines) if b'"turn.ended"' in line][1]
    lines[second] = lines[second].replace(b"completed", b"perfected")
    journal.write_bytes(b"".join(lines))
    async with running_services(layout) as services:
        report = await report_usage(services)
        assert count_turns(report) == {str(one): 1, str(other): 2}
        assert list(report.corrupt) == [one]
        assert f"{journal}:{second + 1}:" in report.corrupt[one]


async def test_a_journal_that_is_gone_is_reported_and_the_others_count(layout):
    async with running_services(layout) as services:
        one, other = await make_chat(services, 1), await make_chat(services, 2)
        Path(layout.get_journal_path(one)).rename(f"{layout.get_journal_path(one)}.away")
        mine = subscribe_store(services)
        report = await report_usage(services, analytics=mine)
        assert count_turns(report) == {str(other): 2}
        assert list(report.corrupt) == [one]
        Path(f"{layout.get_journal_path(one)}.away").rename(layout.get_journal_path(one))
        report = await report_usage(services, analytics=mine)
        assert (count_turns(report), report.corrupt) == ({str(one): 1, str(other): 2}, {})
        await mine.close()


async def test_a_chat_that_goes_no_longer_counts_and_one_that_comes_back_does(layout):
    async with running_services(layout) as services:
        one, other = await make_chat(services, 1), await make_chat(services, 2)
        mine = subscribe_store(services)
        assert count_turns(await report_usage(services, analytics=mine)) == {
            str(one): 1,
            str(other): 2,
        }
        summary = services.chats.get_summary(one)
        deleted = replace(summary, deleted_at=services.clock.now())
        services.bus.publish(ChatDeletedUpdate(summary.seq, deleted))
        report = await report_usage(services, analytics=mine)
        assert (count_turns(report), report.total.turns) == ({str(other): 2}, 2)
        services.bus.publish(ChatUpdate(summary.seq, summary, "chat.restored"))
        assert count_turns(await report_usage(services, analytics=mine)) == {
            str(one): 1,
            str(other): 2,
        }
        await mine.close()


async def test_days_are_reported_apart_and_ranges_include_both_ends(layout):
    async with running_services(layout) as services:
        number = await make_chat(services, 1)
        for _ in range(3):
            services.clock.move(DAY)
            await run_turn(services, number)
        services.clock.move(-2 * DAY)  # the machine's clock jumps back: nothing becomes older
        await run_turn(services, number)
        report = await report_usage(services, "day")
        days = [name for name, _ in report.rows]
        assert list(count_turns(report).values()) == [1, 1, 1, 2]
        mine = subscribe_store(services)
        report = await mine.report("day", days[1], days[2])
        assert count_turns(report) == {days[1]: 1, days[2]: 1}
        assert report.total.turns == 2
        await mine.close()


async def test_nothing_is_left_of_chats_that_are_gone_or_of_half_written_files(layout):
    async with running_services(layout) as services:
        one = await make_chat(services, 1)
        await report_usage(services)
        for name in ("999.json", ".tmp-1"):
            Path(layout.analytics, name).write_bytes(b"x")
        Path(layout.analytics, "mine.txt").write_bytes(b"x")
        await report_usage(services)
        assert sorted(os.listdir(layout.analytics)) == [f"{one}.json", "mine.txt"]


async def test_where_nothing_can_be_written_it_receives_all_the_same(layout):
    async with running_services(layout) as services:
        one = await make_chat(services, 2)
        Path(layout.analytics).write_bytes(b"no folder")
        assert count_turns(await report_usage(services)) == {str(one): 2}


async def test_unused_analytics_leave_nothing(layout):
    async with running_services(layout) as services:
        await make_chat(services, 1)
        await AnalyticsStore(layout, services.chats.list_summaries, services.bus.publish).close()
    assert not os.path.exists(layout.analytics)


async def test_what_changed_is_not_lost_with_who_asked_and_left(layout):
    async with running_services(layout) as services:
        one = await make_chat(services, 1)
        mine = subscribe_store(services)
        await report_usage(services, analytics=mine)
        busy, go_on = threading.Event(), threading.Event()
        mine._thread.submit(lambda: (busy.set(), go_on.wait(100)))
        await run_turn(services, one)
        leaving = asyncio.create_task(mine.report("chat", *EVER))
        await asyncio.sleep(0)  # it waits for the thread now
        leaving.cancel()
        await asyncio.wait([leaving])
        go_on.set()
        assert count_turns(await report_usage(services, analytics=mine)) == {str(one): 2}
        await mine.close()
