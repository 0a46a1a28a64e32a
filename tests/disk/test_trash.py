"""A deleted chat is in one place or the other, whatever breaks in between, and never in both."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from agentd.chats.service import NewChat
from agentd.chats.trash import Trash
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
async def test_a_chat_whose_folder_cannot_be_moved_is_deleted_all_the_same(layout, monkeypatch):
    async with living(layout) as life:
        number = await said(life)
        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", refuse)
            await trash_of(life).delete(number, ME)
        with pytest.raises(NotFound):
            life.chats.summary(number)
        assert isinstance(life.heard[-1], ChatGone)
        assert Path(layout.chat(number)).is_dir()
    async with living(layout) as life:
        assert [chat.id for chat in trash_of(life).list()] == [number]
        assert not Path(layout.chat(number)).exists()
        assert (await trash_of(life).restore(number, ME)).messages == 1


@pytest.mark.gen_test
async def test_a_chat_that_died_while_it_was_restored_is_in_the_trash_again(layout, monkeypatch):
    async with living(layout, crash=True) as life:
        number = await said(life)
        await trash_of(life).delete(number, ME)
        await TrashFolder(layout).unbury(number)
    async with living(layout) as life:
        assert life.chats.summaries() == []
        assert not Path(layout.chat(number)).exists()
        await trash_of(life).restore(number, ME)
        event = life.heard[-1]
        assert isinstance(event, ChatUpdate)
        assert event.reason == "chat.restored"
        assert [message.text for message in await life.history(number)] == ["hello"]


@pytest.mark.gen_test
async def test_a_restored_chat_goes_on_and_may_be_deleted_again(layout):
    async with living(layout) as life:
        number = await said(life)
        for _ in range(3):
            await trash_of(life).delete(number, ME)
            life.clock.move(1)
            await trash_of(life).restore(number, ME)
        await life.chats.append(number, "more", "", ME)
        assert life.chats.summary(number).waiting == 1
        assert not list(Path(layout.trash).iterdir())


@pytest.mark.gen_test
async def test_what_is_thirty_days_old_is_gone_for_ever_and_nothing_else(layout):
    async with living(layout) as life:
        old, young, alive = [await said(life) for _ in range(3)]
        await trash_of(life).delete(old, ME)
        life.clock.move(2 * DAY)
        await trash_of(life).delete(young, ME)
        unborn = Path(layout.trash, "99.unborn-1")
        unborn.mkdir()
        life.clock.move(29 * DAY)
        await trash_of(life).purge()
        assert [chat.id for chat in trash_of(life).list()] == [young]
        assert sorted(path.name.split("-")[0] for path in Path(layout.trash).iterdir()) == [
            str(young), "99.unborn"
        ]  # fmt: skip
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
        assert not list(Path(layout.trash).iterdir())


@pytest.mark.gen_test
async def test_what_a_purge_leaves_that_dies_before_its_last_step_is_gone_after_the_next_start(
    layout, monkeypatch, caplog
):
    async with living(layout, crash=True) as life:
        number, other = await said(life), await said(life)
        for one in (number, other):
            await trash_of(life).delete(one, ME)
        life.clock.move(31 * DAY)
        with monkeypatch.context() as patch:
            patch.setattr(os, "rmdir", refuse)
            await trash_of(life).purge()
    left = sorted(Path(layout.trash).iterdir())
    assert [list(folder.iterdir()) for folder in left] == [[], []]
    left[1].joinpath("something of yours").touch()
    caplog.clear()
    async with living(layout) as life:
        assert trash_of(life).list() == []
        assert (await life.chats.create(NewChat(prompt="hello"), ME)).id > other
    assert list(Path(layout.trash).iterdir()) == left[1:]
    assert str(left[0]) not in caplog.text
    assert f"{left[1]} cannot be restored" in caplog.text


@pytest.mark.gen_test
async def test_a_history_is_read_on_though_its_chat_is_deleted_meanwhile(layout, monkeypatch):
    async with living(layout) as life:
        number = await said(life)
        chat = await life.chats.get(number)
        reading = life.files.history(chat, "")
        await trash_of(life).delete(number, ME)
        assert [message.text async for part in reading for message in part] == ["hello"]


@pytest.mark.gen_test
async def test_a_copy_that_has_a_chat_in_both_places_has_it_once(layout):
    async with living(layout) as life:
        number = await said(life)
    shutil.copytree(layout.chat(number), Path(layout.state, "kept"))
    async with living(layout) as life:
        await trash_of(life).delete(number, ME)
    Path(layout.state, "kept").rename(layout.chat(number))
    async with living(layout) as life:
        assert life.chats.summary(number).messages == 1
        assert trash_of(life).list() == []


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
    monkeypatch.setattr("agentd.disk.load.load", refuse)
    async with living(layout) as life:
        assert len(trash_of(life).list()) == 1
