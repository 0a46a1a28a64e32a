"""Roll-ups: they save reading, may be deleted, and are never believed against the journals."""

import asyncio
import os
import shutil
import threading
from pathlib import Path

import msgspec
import pytest

from agentd.chats.report import Report
from agentd.chats.service import NewChat
from agentd.disk import analytics as module
from agentd.disk.analytics import Analytics
from agentd.disk.lines import seal, unseal
from agentd.events import ChatGone, ChatUpdate
from tests.conftest import ME, TEST, living

pytestmark = pytest.mark.gen_test

EVER = ("0001-01-01", "9999-12-31")
DAY = 86_400


def listening(life) -> Analytics:
    """Roll-ups that hear what happens."""
    mine = Analytics(life.layout, life.chats.summaries)
    life.bus.subscribe(mine.note)
    return mine


async def asked(life, by="chat", analytics=None) -> Report:
    """What is told now; by roll-ups of its own where none are given."""
    mine = analytics or Analytics(life.layout, life.chats.summaries)
    try:
        return await mine.report(by, *EVER)
    finally:
        if not analytics:
            await mine.close()


def names(report: Report) -> dict[str, int]:
    return {name: totals.turns for name, totals in report.rows}


async def turn(life, chat_id: int, seconds: float = 1.0) -> None:
    await life.chats.append(chat_id, "do it", "", ME)
    await life.turns.start(chat_id, TEST)
    await life.turns.add(chat_id, "tool", "done", tool="edit")
    life.clock.move(seconds)
    await life.turns.end(chat_id, "completed")


async def chat(life, turns: int = 1) -> int:
    number = (await life.chats.create(NewChat(title=f"={turns} turns"), ME)).id
    for _ in range(turns):
        await turn(life, number)
    return number


@pytest.fixture
def read(monkeypatch) -> list[tuple[str, int]]:
    """Each reading of a journal: its path, and the bytes that were known before."""
    found: list[tuple[str, int]] = []
    fold = module.fold

    def noted(path, tally, end):
        if tally.size < end:
            found.append((path, tally.size))
        return fold(path, tally, end)

    monkeypatch.setattr(module, "fold", noted)
    return found


async def test_only_what_is_new_is_read(layout, read):
    async with living(layout) as life:
        one, other = await chat(life, 3), await chat(life, 2)
        mine = listening(life)
        assert names(await asked(life, analytics=mine)) == {str(one): 3, str(other): 2}
        size = life.chats.summary(one).size
        await turn(life, one)
        read.clear()
        assert names(await asked(life, analytics=mine)) == {str(one): 4, str(other): 2}
        assert read == [(layout.journal(one), size)]
        read.clear()
        for by in ("day", "model", "engine", "skill", "label", "chat", "key"):
            await asked(life, by, mine)
        assert read == []
        await mine.close()


async def test_what_an_earlier_life_kept_is_not_read_again(layout, read):
    async with living(layout) as life:
        one = await chat(life, 3)
        before = await asked(life)
    assert os.stat(layout.roll_up(one)).st_mode & 0o777 == 0o600
    read.clear()
    async with living(layout) as life:
        assert await asked(life) == before
        assert read == []


async def test_a_deleted_roll_up_is_made_anew(layout):
    async with living(layout) as life:
        await chat(life, 3)
        before = await asked(life, "key")
        shutil.rmtree(layout.analytics)
        assert await asked(life, "key") == before
        assert os.path.isdir(layout.analytics)


@pytest.mark.parametrize("spoil", ["flip", "cut", "empty", "another chat", "older format", "link"])
async def test_a_roll_up_that_is_not_what_was_written_is_not_believed(layout, spoil, tmp_path):
    async with living(layout) as life:
        one, other = await chat(life, 3), await chat(life, 1)
        before = await asked(life)
        path = Path(layout.roll_up(one))
        data = path.read_bytes()
        match spoil:
            case "flip":
                path.write_bytes(data.replace(b'"tool":3', b'"tool":4'))
            case "cut":
                path.write_bytes(data[:-20])
            case "empty":
                path.write_bytes(b"")
            case "another chat":
                shutil.copy(layout.roll_up(other), path)
            case "older format":
                path.write_bytes(resealed(data, b'"format":1', b'"format":0'))
            case "link":
                path.rename(tmp_path / "elsewhere")
                path.symlink_to(tmp_path / "elsewhere")
        assert await asked(life) == before


def resealed(line: bytes, old: bytes, new: bytes) -> bytes:
    """The same line with something else in it, and a seal that fits."""
    text = unseal(line)
    assert old in text
    return seal(msgspec.Raw(text.replace(old, new)))


@pytest.mark.parametrize("same_size", [True, False])
async def test_an_edited_journal_is_read_anew(layout, same_size):
    """A line that a person mended, with its seal: the roll-up of before is of another file."""
    async with living(layout) as life:
        one = await chat(life, 3)
        before = await asked(life)
        assert before.total.tools == {"edit": 3}
    journal = Path(layout.journal(one))
    lines = journal.read_bytes().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if b'"tool":"edit"' in line)
    name = b'"tool":"exec"' if same_size else b'"tool":"an editor"'
    lines[at] = resealed(lines[at], b'"tool":"edit"', name)
    journal.write_bytes(b"".join(lines))
    for cache in (layout.checkpoint(one), layout.index):
        Path(cache).unlink(missing_ok=True)
    async with living(layout) as life:
        told = (await asked(life)).total.tools
        assert told == {"edit": 2, ("exec" if same_size else "an editor"): 1}


async def test_a_damaged_chat_counts_as_far_as_it_can_be_read_and_is_told(layout):
    async with living(layout) as life:
        one, other = await chat(life, 3), await chat(life, 2)
        await asked(life)
    journal = Path(layout.journal(one))
    lines = journal.read_bytes().splitlines(keepends=True)
    second = [number for number, line in enumerate(lines) if b'"turn.ended"' in line][1]
    lines[second] = lines[second].replace(b"completed", b"perfected")
    journal.write_bytes(b"".join(lines))
    async with living(layout) as life:
        report = await asked(life)
        assert names(report) == {str(one): 1, str(other): 2}
        assert list(report.damaged) == [one]
        assert f"{journal}:{second + 1}:" in report.damaged[one]


async def test_a_journal_that_is_gone_is_told_and_the_others_count(layout):
    async with living(layout) as life:
        one, other = await chat(life, 1), await chat(life, 2)
        Path(layout.journal(one)).rename(f"{layout.journal(one)}.away")
        mine = listening(life)
        report = await asked(life, analytics=mine)
        assert names(report) == {str(other): 2}
        assert list(report.damaged) == [one]
        Path(f"{layout.journal(one)}.away").rename(layout.journal(one))
        report = await asked(life, analytics=mine)
        assert (names(report), report.damaged) == ({str(one): 1, str(other): 2}, {})
        await mine.close()


async def test_a_chat_that_goes_counts_no_more_and_one_that_comes_back_does(layout):
    async with living(layout) as life:
        one, other = await chat(life, 1), await chat(life, 2)
        mine = listening(life)
        assert names(await asked(life, analytics=mine)) == {str(one): 1, str(other): 2}
        summary = life.chats.summary(one)
        life.bus.publish(ChatGone(summary.seq, summary))
        report = await asked(life, analytics=mine)
        assert (names(report), report.total.turns) == ({str(other): 2}, 2)
        life.bus.publish(ChatUpdate(summary.seq, summary, "chat.restored"))
        assert names(await asked(life, analytics=mine)) == {str(one): 1, str(other): 2}
        await mine.close()


async def test_days_are_told_apart_and_ranges_include_both_ends(layout):
    async with living(layout) as life:
        number = await chat(life, 1)
        for _ in range(3):
            life.clock.move(DAY)
            await turn(life, number)
        life.clock.move(-2 * DAY)  # the machine's clock jumps back: nothing becomes older
        await turn(life, number)
        report = await asked(life, "day")
        days = [name for name, _ in report.rows]
        assert list(names(report).values()) == [1, 1, 1, 2]
        mine = listening(life)
        report = await mine.report("day", days[1], days[2])
        assert names(report) == {days[1]: 1, days[2]: 1}
        assert report.total.turns == 2
        await mine.close()


async def test_nothing_is_left_of_chats_that_are_gone_or_of_half_written_files(layout):
    async with living(layout) as life:
        one = await chat(life, 1)
        await asked(life)
        for name in ("999.json", ".tmp-1"):
            Path(layout.analytics, name).write_bytes(b"x")
        Path(layout.analytics, "mine.txt").write_bytes(b"x")
        await asked(life)
        assert sorted(os.listdir(layout.analytics)) == [f"{one}.json", "mine.txt"]


async def test_where_nothing_can_be_written_it_is_told_all_the_same(layout):
    async with living(layout) as life:
        one = await chat(life, 2)
        Path(layout.analytics).write_bytes(b"no folder")
        assert names(await asked(life)) == {str(one): 2}


async def test_unused_analytics_leave_nothing(layout):
    async with living(layout) as life:
        await chat(life, 1)
        await Analytics(layout, life.chats.summaries).close()
    assert not os.path.exists(layout.analytics)


async def test_what_changed_is_not_lost_with_who_asked_and_left(layout):
    async with living(layout) as life:
        one = await chat(life, 1)
        mine = listening(life)
        await asked(life, analytics=mine)
        busy, go_on = threading.Event(), threading.Event()
        mine._thread.submit(lambda: (busy.set(), go_on.wait(100)))
        await turn(life, one)
        leaving = asyncio.create_task(mine.report("chat", *EVER))
        await asyncio.sleep(0)  # it waits for the thread now
        leaving.cancel()
        await asyncio.wait([leaving])
        go_on.set()
        assert names(await asked(life, analytics=mine)) == {str(one): 2}
        await mine.close()
