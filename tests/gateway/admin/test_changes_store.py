"""The journal of changes: every change once, in order, and what undoes the last of them."""

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from agentd.core.clock import SystemClock
from agentd.core.errors import Conflict, NotFound, Unavailable
from agentd.gateway.admin import changes_store
from agentd.gateway.admin.changes import ChangeFilter, ChangeRecord, ChangeRequest, UndoRecord
from agentd.gateway.admin.changes_store import ChangeJournal
from agentd.storage.checksummed_json import decode_checksummed
from agentd.storage.layout import Layout

WHO = ChangeRequest("management", "192.0.2.1")
ALL = ChangeFilter()


async def open_journal(layout: Layout) -> ChangeJournal:
    journal = ChangeJournal(layout, SystemClock())
    await journal.open(b"s" * 32)
    return journal


async def append_change(
    journal: ChangeJournal, name: str, doing: ChangeRequest = WHO
) -> ChangeRecord:
    kept = UndoRecord(resource="channels", after=msgspec.Raw(b'{"key":"secret"}'))
    async with journal.lock:
        return await journal.append(doing, "create", "channels", name, after={"a": 1}, undo=kept)


@pytest.mark.gen_test
async def test_numbers_rise_and_go_on_after_a_start(layout: Layout) -> None:
    journal = await open_journal(layout)
    for name in "abc":
        await append_change(journal, name)
    again = await open_journal(layout)
    assert (await append_change(again, "d")).number == 4
    page = await again.read_page(ALL, 3)
    assert ([one.name for one in page.items], page.next) == (["d", "c", "b"], "2")
    assert [one.name for one in (await again.read_page(ALL, 3, "2")).items] == ["a"]
    for line in Path(layout.changes).read_bytes().splitlines():
        assert b"secret" not in decode_checksummed(line)


@pytest.mark.gen_test
async def test_what_is_only_tried_is_not_written(layout: Layout) -> None:
    journal = await open_journal(layout)
    change = await append_change(journal, "a", ChangeRequest("management", dry_run=True))
    assert change.number == 1
    assert not Path(layout.changes).exists()
    with pytest.raises(NotFound):
        await journal.get_undo(1)


@pytest.mark.gen_test
async def test_a_damaged_line_takes_only_itself_away(layout: Layout) -> None:
    journal = await open_journal(layout)
    for name in "abc":
        await append_change(journal, name)
    path = Path(layout.changes)
    path.write_bytes(path.read_bytes().replace(b'"name":"b"', b'"name":"x"') + b'{"number":4')
    again = await open_journal(layout)
    assert (await append_change(again, "d")).number == 4
    assert [one.name for one in (await again.read_page(ALL, 9)).items] == ["d", "c", "a"]


@pytest.mark.gen_test
async def test_only_the_last_changes_can_be_undone(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes_store, "MAX_UNDO", 2)
    journal = await open_journal(layout)
    for name in "abc":
        await append_change(journal, name)
    assert b"secret" in bytes((await journal.get_undo(2)).after)
    with pytest.raises(Conflict, match=r"^Change 1 cannot be undone"):
        await journal.get_undo(1)
    assert sorted(os.listdir(Path(layout.get_undo_path(1)).parent)) == ["2.enc", "3.enc"]


@pytest.mark.gen_test
async def test_what_is_kept_and_altered_undoes_nothing(layout: Layout) -> None:
    journal = await open_journal(layout)
    await append_change(journal, "a")
    path = Path(layout.get_undo_path(1))
    content = path.read_bytes()
    assert b"secret" not in content
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(Conflict):
        await journal.get_undo(1)


@pytest.mark.gen_test
async def test_a_change_that_cannot_be_noted_is_reported_as_made(layout: Layout) -> None:
    journal = await open_journal(layout)
    Path(layout.changes).mkdir(parents=True)
    with pytest.raises(Unavailable, match="was made and is in effect"):
        await append_change(journal, "a")


@pytest.mark.gen_test
async def test_changes_take_turns(layout: Layout) -> None:
    journal = await open_journal(layout)
    made = await asyncio.gather(*(append_change(journal, f"n{number}") for number in range(20)))
    assert sorted(one.number for one in made) == list(range(1, 21))


def test_a_tag_distinguishes_other_contents_and_depends_on_the_installation(layout: Layout) -> None:
    async def compute_tags() -> list[str]:
        journal = ChangeJournal(layout, SystemClock())
        found = []
        for secret in (b"a" * 32, b"b" * 32):
            await journal.open(secret)
            found += [
                journal.create_tag(b"one"),
                journal.create_tag(b"two"),
                journal.create_tag(b"one"),
            ]
        return found

    one, two, again, elsewhere, *_ = asyncio.run(compute_tags())
    assert one == again
    assert len({one, two, elsewhere}) == 3


async def write_five_changes(layout: Layout) -> list[bytes]:
    """Write a journal of five changes; return its lines."""
    journal = await open_journal(layout)
    for name in "abcde":
        await append_change(journal, name)
    return Path(layout.changes).read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize(
    ("left", "missing"),
    [
        ((0, 1, 2, 3, 4), []),
        ((0, 1, 2), ["changes 4 to 5 are"]),
        ((), ["changes 1 to 5 are"]),
        ((0, 4), ["changes 2 to 4 are"]),
        ((0, 2, 3), ["change 2 is", "change 5 is"]),
    ],
    ids=str,
)
@pytest.mark.gen_test
async def test_lines_that_are_gone_are_reported_and_their_numbers_not_used_again(
    layout: Layout, left: tuple[int, ...], missing: list[str]
) -> None:
    lines = await write_five_changes(layout)
    Path(layout.changes).write_bytes(b"".join(lines[number] for number in left))
    result = [str(problem) for problem in changes_store.find_gaps(layout)]
    assert [one.split(": ")[1].split(" missing")[0] for one in result] == missing
    assert (await append_change(await open_journal(layout), "f")).number == 6


@pytest.mark.gen_test
async def test_every_flipped_bit_of_the_journal_is_reported(layout: Layout) -> None:
    whole = b"".join(await write_five_changes(layout))
    for place in range(0, len(whole), 7):
        altered = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
        Path(layout.changes).write_bytes(altered)
        assert list(changes_store.find_gaps(layout)), place


@pytest.mark.gen_test
async def test_a_line_that_a_crash_cut_short_was_never_acknowledged_and_is_no_damage(
    layout: Layout,
) -> None:
    whole = b"".join(await write_five_changes(layout))
    Path(layout.changes).write_bytes(whole + b'{"number":6,"at":"2026')
    assert list(changes_store.find_gaps(layout)) == []
    await append_change(await open_journal(layout), "f")
    assert list(changes_store.find_gaps(layout)) == []


@pytest.mark.gen_test
async def test_a_journal_that_cannot_be_read_keeps_nothing_else_from_working(
    layout: Layout, caplog: pytest.LogCaptureFixture
) -> None:
    await write_five_changes(layout)
    Path(layout.changes).unlink()
    Path(layout.changes).mkdir()
    journal = await open_journal(layout)
    assert f"{layout.changes}: is a folder" in caplog.text
    with pytest.raises(Unavailable, match="The change was made and is in effect"):
        await append_change(journal, "f")
