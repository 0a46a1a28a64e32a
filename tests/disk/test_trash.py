"""A deleted chat stays in its folder, and what earlier versions moved elsewhere comes back."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from agentd.chats.service import NewChat
from agentd.chats.trash import Trash
from agentd.disk.layout import Layout
from agentd.disk.trash import TrashFolder
from agentd.errors import NotFound, Unavailable
from agentd.events import ChatGone, ChatUpdate
from tests.conftest import ME, TEST, Life, living

DAY = 24 * 3600.0


def trash_of(life: Life) -> Trash:
    return Trash(life.chats._shelf, TrashFolder(life.layout))


async def said(life: Life, prompt: str = "hello") -> int:
    """A chat whose only turn is over."""
    number = (await life.chats.create(NewChat(prompt=prompt), ME)).id
    await life.turns.start(number, TEST)
    await life.turns.end(number, "completed")
    return number


def refuse(*_: object, **__: object) -> None:
    raise OSError(errno.EIO, "no")


@pytest.mark.gen_test
async def test_a_restored_chat_goes_on_and_may_be_deleted_again(layout):
    async with living(layout) as life:
        number = await said(life)
        for _ in range(3):
            await trash_of(life).delete(number, ME)
            assert isinstance(life.heard[-1], ChatGone)
            with pytest.raises(NotFound):
                life.chats.summary(number)
            life.clock.move(1)
            await trash_of(life).restore(number, ME)
            told = life.heard[-1]
            assert isinstance(told, ChatUpdate)
            assert told.reason == "chat.restored"
        await life.chats.append(number, "more", "", ME)
        assert life.chats.summary(number).waiting == 1
        assert not Path(layout.trash).exists()


@pytest.mark.gen_test
async def test_what_is_thirty_days_old_is_gone_for_ever_and_nothing_else(layout):
    async with living(layout) as life:
        old, young, alive = [await said(life) for _ in range(3)]
        await trash_of(life).delete(old, ME)
        life.clock.move(2 * DAY)
        await trash_of(life).delete(young, ME)
        life.clock.move(29 * DAY)
        await trash_of(life).purge()
        assert [chat.id for chat in trash_of(life).list()] == [young]
        assert sorted(os.listdir(layout.chats)) == [str(young), str(alive)]
        with pytest.raises(NotFound):
            await trash_of(life).restore(old, ME)
        assert (await life.chats.create(NewChat(), ME)).id > alive
    async with living(layout) as life:
        assert [chat.id for chat in trash_of(life).list()] == [young]


@pytest.mark.gen_test
async def test_a_purge_that_breaks_off_is_made_up_for(layout, monkeypatch):
    async with living(layout) as life:
        number = await said(life)
        await trash_of(life).delete(number, ME)
        life.clock.move(31 * DAY)
        with monkeypatch.context() as patch:
            patch.setattr(os, "rmdir", refuse)
            await trash_of(life).purge()
        assert [chat.id for chat in trash_of(life).list()] == [number]
        await trash_of(life).purge()
        assert trash_of(life).list() == []
        assert os.listdir(layout.chats) == []


@pytest.mark.gen_test
async def test_a_purge_that_dies_before_its_last_step_leaves_nothing_after_the_next_start(
    layout, monkeypatch, caplog
):
    async with living(layout, crash=True) as life:
        number = await said(life)
        await trash_of(life).delete(number, ME)
        life.clock.move(31 * DAY)
        with monkeypatch.context() as patch:
            patch.setattr(os, "rmdir", refuse)
            await trash_of(life).purge()
    assert list(Path(layout.chat(number)).iterdir()) == []
    caplog.clear()
    async with living(layout) as life:
        assert trash_of(life).list() == []
        assert os.listdir(layout.chats) == []
        assert (await life.chats.create(NewChat(prompt="hello"), ME)).id > number
    assert not caplog.text


@pytest.mark.gen_test
async def test_a_copy_of_a_chat_that_was_being_purged_is_no_damage(layout):
    """A copy may have taken the checkpoint, and come too late for the journal."""
    async with living(layout) as life:
        number = await said(life)
        await trash_of(life).delete(number, ME)
    Path(layout.index).unlink()
    Path(layout.journal(number)).unlink()
    async with living(layout) as life:
        assert trash_of(life).list() == []
        assert life.chats.summaries() == []
        assert os.listdir(layout.chats) == []
    [aside] = Path(layout.trash).iterdir()
    assert Path(aside, "checkpoint.json").is_file()


@pytest.mark.gen_test
async def test_a_history_is_read_on_though_its_chat_is_deleted_meanwhile(layout, monkeypatch):
    async with living(layout) as life:
        number = await said(life)
        chat = await life.chats.get(number)
        reading = life.files.history(chat, "")
        await trash_of(life).delete(number, ME)
        assert [message.text async for part in reading for message in part] == ["hello"]


@pytest.mark.gen_test
async def test_nothing_is_deleted_when_its_record_cannot_be_written(layout, monkeypatch):
    async with living(layout) as life:
        number = await said(life)
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", refuse)
            with pytest.raises(Unavailable):
                await trash_of(life).delete(number, ME)
        assert life.chats.summary(number).messages == 1
        assert Path(layout.journal(number)).exists()


@pytest.mark.gen_test
async def test_a_start_reads_no_journal_of_the_trash_that_the_index_knows(layout, monkeypatch):
    async with living(layout) as life:
        await trash_of(life).delete(await said(life), ME)
    monkeypatch.setattr("agentd.disk.load._fold", refuse)
    async with living(layout) as life:
        assert len(trash_of(life).list()) == 1


async def moved_to_trash(layout: Layout) -> tuple[int, Path]:
    """A deleted chat as an earlier version left it, and its folder."""
    async with living(layout) as life:
        number = await said(life)
        await trash_of(life).delete(number, ME)
    folder = Path(layout.trash, f"{number}-2026-01-31T120000.000Z")
    folder.parent.mkdir(mode=0o700)
    Path(layout.chat(number)).rename(folder)
    return number, folder


@pytest.mark.parametrize("index", [True, False], ids=["with an index", "without one"])
@pytest.mark.gen_test
async def test_what_an_earlier_version_moved_to_the_trash_can_be_restored(layout, index):
    number, _ = await moved_to_trash(layout)
    if not index:
        Path(layout.index).unlink()
    async with living(layout) as life:
        assert [chat.id for chat in trash_of(life).list()] == [number]
        assert not Path(layout.trash).exists()
        assert (await trash_of(life).restore(number, ME)).messages == 1
        assert [message.text for message in await life.history(number)] == ["hello"]


@pytest.mark.gen_test
async def test_what_an_earlier_version_moved_to_the_trash_is_purged_in_time(layout):
    number, _ = await moved_to_trash(layout)
    async with living(layout) as life:
        life.clock.move(31 * DAY)
        await trash_of(life).purge()
        assert os.listdir(layout.chats) == []
        with pytest.raises(NotFound):
            await trash_of(life).restore(number, ME)


@pytest.mark.gen_test
async def test_a_failing_move_of_an_older_trash_is_made_up_for_at_the_next_start(
    layout, monkeypatch, caplog
):
    number, folder = await moved_to_trash(layout)
    with monkeypatch.context() as patch:
        patch.setattr("agentd.disk.trash.load", refuse)
        async with living(layout) as life:
            assert trash_of(life).list() == []
            assert f"{folder} is not taken over" in caplog.text
            assert (await life.chats.create(NewChat(), ME)).id > number
    async with living(layout) as life:
        assert [chat.id for chat in trash_of(life).list()] == [number]


@pytest.mark.parametrize("newer", ["in the trash", "among the chats", "neither"])
@pytest.mark.gen_test
async def test_a_copy_of_an_earlier_version_that_has_a_chat_in_both_places_has_it_once(
    layout, newer
):
    number, folder = await moved_to_trash(layout)
    shutil.copytree(folder, layout.chat(number))
    whole = Path(layout.journal(number)).read_bytes()
    cut = whole[: whole.rindex(b"\n", 0, -1) + 1]
    if newer == "in the trash":  # the copy came to it before the chat was deleted
        Path(layout.journal(number)).write_bytes(cut)
    elif newer == "among the chats":  # it was restored while the copy was taken
        async with living(layout) as life:
            await trash_of(life).restore(number, ME)
        shutil.copytree(Path(layout.chat(number)), folder, dirs_exist_ok=True)
        Path(folder, "journal.jsonl").write_bytes(whole)
    async with living(layout) as life:
        deleted = [chat.id for chat in trash_of(life).list()]
        there = [chat.id for chat in life.chats.summaries()]
    assert (there, deleted) == (([number], []) if newer == "among the chats" else ([], [number]))
    assert {name.split("-")[0] for name in os.listdir(layout.trash)} == {f"{number}.copy"}


@pytest.mark.gen_test
async def test_what_lies_in_an_older_trash_and_is_no_deleted_chat_stays(layout, caplog):
    async with living(layout) as life:
        number = await said(life)
    folder = Path(layout.trash, f"{number}-2026-01-31T120000.000Z")
    folder.parent.mkdir(mode=0o700)
    Path(layout.chat(number)).rename(folder)
    Path(layout.trash, "notes").touch()
    async with living(layout) as life:
        assert life.chats.summaries() == []
    assert f"{folder} is not deleted: move it back as {layout.chat(number)}" in caplog.text
    assert len(os.listdir(layout.trash)) == 2
