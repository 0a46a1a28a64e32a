"""The log of events is a cache: believed only where the journals bear it out, and bounded."""

import json
import os
import random
import shutil
import stat as modes
from pathlib import Path

import pytest

from agentd.chats.replay import Replay
from agentd.live import event_log
from agentd.live.event_batch import EncodedRecord
from agentd.live.event_log import EventLog
from tests.chats.test_replay import change_chats, encode, number_events, read_span
from tests.conftest import ME, running_services


async def read_events(services, after=0):
    """Return the events of a daemon that starts now, and whether its event log was valid."""
    chats, last = services.chats.list_summaries(), services.state.sequences.used.seq
    replay = Replay(services.layout, encode, last, chats)
    try:
        await replay._run_in_log_thread(replay._log.open)
        believed = replay._log.first < replay._log.position
        return await read_span(replay, chats, after, last), believed
    finally:
        await replay.close()


async def run_services(layout, seed=0, folder=None):
    """Run services until the log is full; return the events. Optionally copy the folder."""
    async with running_services(layout) as services:
        await change_chats(services, seed)
        await read_events(services)
        heard = number_events(services.heard)
    if folder:
        shutil.copytree(layout.state, folder)
    return heard


@pytest.mark.gen_test
async def test_the_log_of_an_earlier_life_is_believed_and_goes_on(layout):
    heard = await run_services(layout)
    async with running_services(layout) as services:
        assert await read_events(services) == (heard, True)
        await change_chats(services, 1)
        assert await read_events(services) == (heard + number_events(services.heard), True)
    async with running_services(layout) as services:
        for after in range(0, services.state.sequences.used.seq, 9):
            assert (await read_events(services, after))[1]


@pytest.mark.parametrize("kept", ["the older", "the newer"])
@pytest.mark.gen_test
async def test_a_log_of_another_moment_than_the_journals_shows_nothing_wrong(
    layout, tmp_path, kept
):
    copy = tmp_path / "copy"
    heard = await run_services(layout, 0, copy)
    heard += await run_services(layout, 1)
    older, newer = copy / "events", Path(layout.events)
    if kept == "the older":
        shutil.rmtree(newer)
        shutil.copytree(older, newer)
    else:
        shutil.rmtree(older)
        shutil.copytree(newer, older)
        shutil.rmtree(layout.state)
        shutil.copytree(copy, layout.state)
        heard = [row for row in heard if row[0] <= _find_last_seq(layout, 3)]
    async with running_services(layout) as services:
        assert await read_events(services) == (heard, kept == "the older")


def _find_last_seq(layout, chat):
    """Return the last seq of the first run, which had chats 1 to 3."""
    return max(
        json.loads(line)["seq"]
        for number in range(1, chat + 1)
        for line in Path(layout.get_journal_path(number)).read_bytes().splitlines()
    )


@pytest.mark.gen_test
async def test_the_log_of_another_history_is_not_believed(layout, tmp_path):
    """A copy was restored and went on: the same numbers, at the same time, say other things."""
    copy = tmp_path / "copy"
    heard = await run_services(layout, 0, copy)
    await run_services(layout, 1)
    shutil.copytree(layout.events, tmp_path / "events")
    shutil.rmtree(layout.state)
    shutil.copytree(copy, layout.state)
    async with running_services(layout) as services:
        for number in range(300):
            await services.chats.append_prompt(1 + number % 3, f"another {number}", "", ME)
        heard += number_events(services.heard)
    shutil.rmtree(layout.events)
    shutil.copytree(tmp_path / "events", layout.events)
    async with running_services(layout) as services:
        assert await read_events(services) == (heard, False)


@pytest.mark.parametrize("change", ["gone", "put back", "shorter"])
@pytest.mark.gen_test
async def test_one_chat_that_is_not_what_it_was_and_the_log_starts_again(layout, tmp_path, change):
    heard = await run_services(layout)
    folder, away = Path(layout.get_chat_folder(2)), tmp_path / "away"
    journal = Path(layout.get_journal_path(2))
    if change == "shorter":
        lines = journal.read_bytes().splitlines(keepends=True)
        shutil.copytree(folder, away)
        journal.write_bytes(b"".join(lines[:-1]))
        Path(layout.get_checkpoint_path(2)).unlink(missing_ok=True)
    else:
        shutil.move(folder, away)
    rest = [row for row in heard if "chat_id=2" not in row[1] and "Summary(id=2" not in row[1]]
    async with running_services(layout) as services:
        found, believed = await read_events(services)
        assert not believed
        assert [row for row in found if row in rest] == rest
        assert change == "shorter" or found == rest
    if change == "put back":
        shutil.move(away, folder)
        async with running_services(layout) as services:
            assert await read_events(services) == (heard, False)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.gen_test
async def test_whatever_bytes_are_harmed_nothing_wrong_is_reported(layout, seed):
    heard = await run_services(layout)
    chance = random.Random(seed)  # noqa: S311
    for path in sorted(Path(layout.events).iterdir()):
        data = bytearray(path.read_bytes())
        for _ in range(chance.randrange(3)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        cut = chance.choice([0, 0, 1, 50, len(data)])
        path.write_bytes(data[: len(data) - cut])
    async with running_services(layout) as services:
        assert (await read_events(services))[0] == heard
        assert (await read_events(services))[0] == heard


@pytest.mark.parametrize("there", ["link", "fifo", "folder", "open to others", "a file"])
@pytest.mark.gen_test
async def test_what_is_not_a_file_of_ours_is_not_read(layout, tmp_path, there):
    heard = await run_services(layout)
    path = next(Path(layout.events).glob("*.sse"))
    if there == "open to others":
        path.chmod(0o622)
    elif there == "a file":
        shutil.rmtree(layout.events)
        Path(layout.events).write_text("x")
    else:
        path.rename(tmp_path / "away")
        make = {"link": lambda at: at.symlink_to(tmp_path / "away"), "fifo": os.mkfifo,
                "folder": os.mkdir}  # fmt: skip
        make[there](path)
    async with running_services(layout) as services:
        assert await read_events(services) == (heard, False)


@pytest.mark.gen_test
async def test_where_it_cannot_be_written_the_same_is_reported(layout, monkeypatch):
    def fail_when_full(_fd, _data):
        raise OSError(28, "No space left on device")

    heard = await run_services(layout)
    async with running_services(layout) as services:
        await change_chats(services, 1)
        heard += number_events(services.heard)
        monkeypatch.setattr(event_log, "write_all", fail_when_full)
        for after in range(0, services.state.sequences.used.seq, 9):
            assert (await read_events(services, after))[0] == [
                row for row in heard if row[0] > after
            ]


@pytest.mark.parametrize("bound", ["SEGMENT_RECORDS", "SEGMENT_BYTES"])
@pytest.mark.gen_test
async def test_it_is_bounded_and_private(layout, monkeypatch, bound):
    monkeypatch.setattr(event_log, bound, 10 if bound == "SEGMENT_RECORDS" else 4000)
    monkeypatch.setattr(event_log, "BATCH_BYTES", 1000)
    async with running_services(layout) as services:
        await change_chats(services, steps=200)
        heard = number_events(services.heard)
        await read_events(services)
    names = list(Path(layout.events).iterdir())
    assert len(names) == 2 * event_log.MAX_SEGMENTS
    assert modes.S_IMODE(os.stat(layout.events).st_mode) == 0o700
    assert {modes.S_IMODE(path.stat().st_mode) for path in names} == {0o600}
    async with running_services(layout) as services:
        last = heard[-1][0]
        assert await read_events(services, last - 5) == (
            [row for row in heard if row[0] > last - 5],
            True,
        )


@pytest.mark.gen_test
async def test_deleted_while_it_is_used_it_shows_on(layout):
    async with running_services(layout) as services:
        await change_chats(services)
        chats, last = services.chats.list_summaries(), services.state.sequences.used.seq
        replay = Replay(layout, encode, last, chats)
        heard = await read_span(replay, chats, 0, last)
        shutil.rmtree(layout.events)
        assert await read_span(replay, chats, 0, last) == heard == number_events(services.heard)
        await change_chats(services, 1)
        last = services.state.sequences.used.seq
        assert await read_span(replay, services.chats.list_summaries(), 0, last) == number_events(
            services.heard
        )
        await replay.close()


@pytest.mark.gen_test
async def test_altered_while_it_is_read_the_rest_comes_from_the_journals(layout, monkeypatch):
    monkeypatch.setattr(event_log, "BATCH_BYTES", 1000)
    async with running_services(layout) as services:
        await change_chats(services)
        chats, last = services.chats.list_summaries(), services.state.sequences.used.seq
        replay = Replay(layout, encode, last, chats)
        portions = await replay.read_missed(chats, 0, last)
        found = (await anext(portions)).data
        data = next(Path(layout.events).glob("*.sse"))
        data.write_bytes(bytes(data.stat().st_size))
        async for portion in portions:
            found += portion.data
        assert found.decode().splitlines() == [row[1] for row in number_events(services.heard)]
        await replay.close()


def test_a_record_that_its_journal_does_not_end_with_is_not_taken(layout):
    os.makedirs(layout.state)
    log = EventLog(layout, 0, [])
    log.open()
    with pytest.raises(OSError, match="has changed"):
        log.append(0, 1, [EncodedRecord(1, 1, 100, b"data: 1\n\n")])
    assert log.first == log.position == 1
    assert os.listdir(layout.events) == []
    log.close()
