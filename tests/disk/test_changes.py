"""The journal of changes: every change once, in order, and what undoes the last of them."""

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from agentd.clock import SystemClock
from agentd.disk import changes
from agentd.disk.changes import ChangeJournal
from agentd.disk.layout import Layout
from agentd.disk.lines import unseal
from agentd.errors import Conflict, NotFound, Unavailable
from agentd.proxy.management.changes import Change, ChangeFilter, Doing, Kept

WHO = Doing("management", "192.0.2.1")
ALL = ChangeFilter()


async def opened(layout: Layout) -> ChangeJournal:
    journal = ChangeJournal(layout, SystemClock())
    await journal.open(b"s" * 32)
    return journal


async def noted(journal: ChangeJournal, name: str, doing: Doing = WHO) -> Change:
    kept = Kept(resource="channels", after=msgspec.Raw(b'{"key":"secret"}'))
    async with journal.turn:
        return await journal.note(doing, "create", "channels", name, after={"a": 1}, kept=kept)


@pytest.mark.gen_test
async def test_numbers_rise_and_go_on_after_a_start(layout: Layout) -> None:
    journal = await opened(layout)
    for name in "abc":
        await noted(journal, name)
    again = await opened(layout)
    assert (await noted(again, "d")).number == 4
    page = await again.page(ALL, 3)
    assert ([one.name for one in page.items], page.next) == (["d", "c", "b"], "2")
    assert [one.name for one in (await again.page(ALL, 3, "2")).items] == ["a"]
    for line in Path(layout.changes).read_bytes().splitlines():
        assert b"secret" not in unseal(line)


@pytest.mark.gen_test
async def test_what_is_only_tried_is_not_written(layout: Layout) -> None:
    journal = await opened(layout)
    change = await noted(journal, "a", Doing("management", dry_run=True))
    assert change.number == 1
    assert not Path(layout.changes).exists()
    with pytest.raises(NotFound):
        await journal.kept(1)


@pytest.mark.gen_test
async def test_a_damaged_line_takes_only_itself_away(layout: Layout) -> None:
    journal = await opened(layout)
    for name in "abc":
        await noted(journal, name)
    path = Path(layout.changes)
    path.write_bytes(path.read_bytes().replace(b'"name":"b"', b'"name":"x"') + b'{"number":4')
    again = await opened(layout)
    assert (await noted(again, "d")).number == 4
    assert [one.name for one in (await again.page(ALL, 9)).items] == ["d", "c", "a"]


@pytest.mark.gen_test
async def test_only_the_last_changes_can_be_undone(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "KEPT", 2)
    journal = await opened(layout)
    for name in "abc":
        await noted(journal, name)
    assert b"secret" in bytes((await journal.kept(2)).after)
    with pytest.raises(Conflict, match="cannot be undone"):
        await journal.kept(1)
    assert sorted(os.listdir(Path(layout.undo(1)).parent)) == ["2.enc", "3.enc"]


@pytest.mark.gen_test
async def test_what_is_kept_and_altered_undoes_nothing(layout: Layout) -> None:
    journal = await opened(layout)
    await noted(journal, "a")
    path = Path(layout.undo(1))
    content = path.read_bytes()
    assert b"secret" not in content
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(Conflict):
        await journal.kept(1)


@pytest.mark.gen_test
async def test_a_change_that_cannot_be_noted_is_told_as_made(layout: Layout) -> None:
    journal = await opened(layout)
    Path(layout.changes).mkdir(parents=True)
    with pytest.raises(Unavailable, match="was made, and holds"):
        await noted(journal, "a")


@pytest.mark.gen_test
async def test_changes_take_turns(layout: Layout) -> None:
    journal = await opened(layout)
    made = await asyncio.gather(*(noted(journal, f"n{number}") for number in range(20)))
    assert sorted(one.number for one in made) == list(range(1, 21))


def test_a_tag_tells_other_contents_apart_and_depends_on_the_installation(layout: Layout) -> None:
    async def tags() -> list[str]:
        journal = ChangeJournal(layout, SystemClock())
        found = []
        for secret in (b"a" * 32, b"b" * 32):
            await journal.open(secret)
            found += [journal.tag(b"one"), journal.tag(b"two"), journal.tag(b"one")]
        return found

    one, two, again, elsewhere, *_ = asyncio.run(tags())
    assert one == again
    assert len({one, two, elsewhere}) == 3


async def five(layout: Layout) -> list[bytes]:
    """A journal of five changes, and its lines."""
    journal = await opened(layout)
    for name in "abcde":
        await noted(journal, name)
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
async def test_lines_that_are_gone_are_told_and_their_numbers_not_used_again(
    layout: Layout, left: tuple[int, ...], missing: list[str]
) -> None:
    lines = await five(layout)
    Path(layout.changes).write_bytes(b"".join(lines[number] for number in left))
    told = [str(mistake) for mistake in changes.damage(layout)]
    assert [one.split(": ")[1].split(" missing")[0] for one in told] == missing
    assert (await noted(await opened(layout), "f")).number == 6


@pytest.mark.gen_test
async def test_every_flipped_bit_of_the_journal_is_told(layout: Layout) -> None:
    whole = b"".join(await five(layout))
    for place in range(0, len(whole), 7):
        altered = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
        Path(layout.changes).write_bytes(altered)
        assert list(changes.damage(layout)), place


@pytest.mark.gen_test
async def test_a_line_that_a_crash_cut_short_was_never_acknowledged_and_is_no_damage(
    layout: Layout,
) -> None:
    whole = b"".join(await five(layout))
    Path(layout.changes).write_bytes(whole + b'{"number":6,"at":"2026')
    assert list(changes.damage(layout)) == []
    await noted(await opened(layout), "f")
    assert list(changes.damage(layout)) == []


@pytest.mark.gen_test
async def test_a_journal_that_cannot_be_read_keeps_nothing_else_from_working(
    layout: Layout, caplog: pytest.LogCaptureFixture
) -> None:
    await five(layout)
    Path(layout.changes).unlink()
    Path(layout.changes).mkdir()
    journal = await opened(layout)
    assert f"{layout.changes}: is a folder" in caplog.text
    with pytest.raises(Unavailable, match="The change was made, and holds"):
        await noted(journal, "f")
