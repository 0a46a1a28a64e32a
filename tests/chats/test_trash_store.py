"""A deleted chat stays in its folder, and what earlier versions moved elsewhere comes back."""

import asyncio
import errno
import os
import shutil
from collections.abc import Awaitable
from pathlib import Path

import pytest

from agentd.chats import trash as module
from agentd.chats.commands import ChatCommands
from agentd.chats.events import ChatDeletedUpdate, ChatUpdate
from agentd.chats.service import NewChat
from agentd.chats.trash import Trash
from agentd.chats.trash_store import TrashFolder, remove_chat_folder
from agentd.core.errors import NotFound, Unavailable
from agentd.storage.layout import Layout
from tests.conftest import ME, TEST, Services, running_services, until

DAY = 24 * 3600.0


def make_trash(services: Services) -> Trash:
    return Trash(services.chats._chats, TrashFolder(services.layout))


async def make_chat(services: Services, prompt: str = "hello") -> int:
    """Make a chat whose only turn is over."""
    number = (await services.chats.create(NewChat(prompt=prompt), ME)).id
    await services.turns.start_turn(number, TEST)
    await services.turns.end_turn(number, "completed")
    return number


def refuse(*_: object, **__: object) -> None:
    raise OSError(errno.EIO, "no")


@pytest.mark.gen_test
async def test_a_restored_chat_goes_on_and_may_be_deleted_again(layout):
    async with running_services(layout) as services:
        number = await make_chat(services)
        for _ in range(3):
            await make_trash(services).delete(number, ME)
            assert isinstance(services.heard[-1], ChatDeletedUpdate)
            with pytest.raises(NotFound):
                services.chats.get_summary(number)
            services.clock.move(1)
            await make_trash(services).restore(number, ME)
            result = services.heard[-1]
            assert isinstance(result, ChatUpdate)
            assert result.reason == "chat.restored"
        await services.chats.append_prompt(number, "more", "", ME)
        assert services.chats.get_summary(number).waiting == 1
        assert not Path(layout.trash).exists()


@pytest.mark.gen_test
async def test_what_is_thirty_days_old_is_gone_for_ever_and_nothing_else(layout):
    async with running_services(layout) as services:
        old, young, alive = [await make_chat(services) for _ in range(3)]
        await make_trash(services).delete(old, ME)
        services.clock.move(2 * DAY)
        await make_trash(services).delete(young, ME)
        services.clock.move(29 * DAY)
        await make_trash(services).purge(services.clock.now())
        assert [chat.id for chat in make_trash(services).list_deleted()] == [young]
        assert sorted(os.listdir(layout.chats)) == [str(young), str(alive)]
        with pytest.raises(NotFound):
            await make_trash(services).restore(old, ME)
        assert (await services.chats.create(NewChat(), ME)).id > alive
    async with running_services(layout) as services:
        assert [chat.id for chat in make_trash(services).list_deleted()] == [young]


class HeldFiles:
    """Removes chats only once it is told to; notes which."""

    def __init__(self) -> None:
        self.began: list[int] = []
        self.go_on = asyncio.Event()

    async def purge(self, chat_id: int, seq: int) -> None:
        self.began.append(chat_id)
        await self.go_on.wait()


@pytest.mark.gen_test
async def test_who_deletes_or_restores_a_chat_waits_for_no_long_purge(layout):
    """Thousands of chats that were deleted at once are purged at once: that takes minutes."""
    async with running_services(layout) as services:
        *old, alive = [await make_chat(services) for _ in range(5)]
        files = HeldFiles()
        trash = Trash(services.chats._chats, files)
        for number in old:
            services.clock.move(1)
            await trash.delete(number, ME)
        services.clock.move(31 * DAY)
        purging = asyncio.create_task(trash.purge(services.clock.now()))
        await until(lambda: files.began)
        begun = []

        async def follow(change: Awaitable[object]) -> None:
            await change
            begun.append(len(files.began))

        changes = [trash.delete(alive, ME), trash.restore(old[0], ME)]
        waiting = [asyncio.create_task(follow(change)) for change in changes]
        await asyncio.sleep(0)
        files.go_on.set()
        await asyncio.gather(*waiting, purging)
        assert begun == [1, 1]
        assert files.began == [old[3], old[2], old[1]]
        assert sorted(one.id for one in services.chats.list_summaries()) == [old[0]]


@pytest.mark.gen_test
async def test_who_deletes_or_restores_a_chat_waits_for_no_relabelling_of_the_whole_trash(
    layout, monkeypatch
):
    monkeypatch.setattr(module, "AT_ONCE", 1)
    async with running_services(layout) as services:
        trash, commands = make_trash(services), ChatCommands(services.chats._chats)
        *old, alive = [await make_chat(services) for _ in range(5)]
        for number in old:
            await commands.change_labels(number, ME, add=["before"])
            services.clock.move(1)
            await trash.delete(number, ME)
        relabelled = []

        def count_relabelled() -> int:
            return sum(one.labels == ("after",) for one in trash.list_deleted())

        async def follow(change: Awaitable[object]) -> None:
            await change
            relabelled.append(count_relabelled())

        changes = [
            trash.change_label("before", ME, add=["after"]),
            follow(trash.delete(alive, ME)),
            follow(trash.restore(old[0], ME)),
        ]
        await asyncio.gather(*changes)
        assert relabelled == [1, 1]
        assert count_relabelled() == 3
        assert services.chats.get_summary(old[0]).labels == ("before",)


@pytest.mark.gen_test
async def test_a_purge_that_breaks_off_is_made_up_for(layout, monkeypatch):
    async with running_services(layout) as services:
        number = await make_chat(services)
        await make_trash(services).delete(number, ME)
        services.clock.move(31 * DAY)
        with monkeypatch.context() as patch:
            patch.setattr(os, "rmdir", refuse)
            await make_trash(services).purge(services.clock.now())
        assert [chat.id for chat in make_trash(services).list_deleted()] == [number]
        await make_trash(services).purge(services.clock.now())
        assert make_trash(services).list_deleted() == []
        assert os.listdir(layout.chats) == []


@pytest.mark.gen_test
async def test_a_purge_that_dies_before_its_last_step_leaves_nothing_after_the_next_start(
    layout, monkeypatch, caplog
):
    async with running_services(layout, crash=True) as services:
        number = await make_chat(services)
        await make_trash(services).delete(number, ME)
        services.clock.move(31 * DAY)
        with monkeypatch.context() as patch:
            patch.setattr(os, "rmdir", refuse)
            await make_trash(services).purge(services.clock.now())
    assert list(Path(layout.get_chat_folder(number)).iterdir()) == []
    caplog.clear()
    async with running_services(layout) as services:
        assert make_trash(services).list_deleted() == []
        assert os.listdir(layout.chats) == []
        assert (await services.chats.create(NewChat(prompt="hello"), ME)).id > number
    assert not caplog.text


@pytest.mark.gen_test
async def test_a_copy_of_a_chat_that_was_being_purged_is_no_damage(layout):
    """A copy may have taken the checkpoint, and come too late for the journal."""
    async with running_services(layout) as services:
        number = await make_chat(services)
        await make_trash(services).delete(number, ME)
    Path(layout.index).unlink()
    Path(layout.get_journal_path(number)).unlink()
    async with running_services(layout) as services:
        assert make_trash(services).list_deleted() == []
        assert services.chats.list_summaries() == []
        assert os.listdir(layout.chats) == []
    [aside] = Path(layout.trash).iterdir()
    assert Path(aside, "checkpoint.json").is_file()


@pytest.mark.gen_test
async def test_a_history_is_read_on_though_its_chat_is_deleted_meanwhile(layout, monkeypatch):
    async with running_services(layout) as services:
        number = await make_chat(services)
        chat = await services.chats.get(number)
        reading = services.files.read_history(chat, "")
        await make_trash(services).delete(number, ME)
        assert [message.text async for part in reading for message in part] == ["hello"]


@pytest.mark.gen_test
async def test_nothing_is_deleted_when_its_record_cannot_be_written(layout, monkeypatch):
    async with running_services(layout) as services:
        number = await make_chat(services)
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", refuse)
            with pytest.raises(Unavailable):
                await make_trash(services).delete(number, ME)
        assert services.chats.get_summary(number).messages == 1
        assert Path(layout.get_journal_path(number)).exists()


@pytest.mark.gen_test
async def test_a_start_reads_no_journal_of_the_trash_that_the_index_knows(layout, monkeypatch):
    async with running_services(layout) as services:
        await make_trash(services).delete(await make_chat(services), ME)
    monkeypatch.setattr("agentd.chats.load._fold", refuse)
    async with running_services(layout) as services:
        assert len(make_trash(services).list_deleted()) == 1


async def leave_old_trash(layout: Layout) -> tuple[int, Path]:
    """Leave a deleted chat as an earlier version did; return it and its folder."""
    async with running_services(layout) as services:
        number = await make_chat(services)
        await make_trash(services).delete(number, ME)
    folder = Path(layout.trash, f"{number}-2026-01-31T120000.000Z")
    folder.parent.mkdir(mode=0o700)
    Path(layout.get_chat_folder(number)).rename(folder)
    return number, folder


@pytest.mark.parametrize("index", [True, False], ids=["with an index", "without one"])
@pytest.mark.gen_test
async def test_what_an_earlier_version_moved_to_the_trash_can_be_restored(layout, index):
    number, _ = await leave_old_trash(layout)
    if not index:
        Path(layout.index).unlink()
    async with running_services(layout) as services:
        assert [chat.id for chat in make_trash(services).list_deleted()] == [number]
        assert not Path(layout.trash).exists()
        assert (await make_trash(services).restore(number, ME)).messages == 1
        assert [message.text for message in await services.history(number)] == ["hello"]


@pytest.mark.gen_test
async def test_what_an_earlier_version_moved_to_the_trash_is_purged_in_time(layout):
    number, _ = await leave_old_trash(layout)
    async with running_services(layout) as services:
        services.clock.move(31 * DAY)
        await make_trash(services).purge(services.clock.now())
        assert os.listdir(layout.chats) == []
        with pytest.raises(NotFound):
            await make_trash(services).restore(number, ME)


@pytest.mark.gen_test
async def test_a_failing_move_of_an_older_trash_is_made_up_for_at_the_next_start(
    layout, monkeypatch, caplog
):
    number, folder = await leave_old_trash(layout)
    with monkeypatch.context() as patch:
        patch.setattr("agentd.chats.trash_store.load", refuse)
        async with running_services(layout) as services:
            assert make_trash(services).list_deleted() == []
            assert f"{folder} is not taken over" in caplog.text
            assert (await services.chats.create(NewChat(), ME)).id > number
    async with running_services(layout) as services:
        assert [chat.id for chat in make_trash(services).list_deleted()] == [number]


@pytest.mark.parametrize("newer", ["in the trash", "among the chats", "neither"])
@pytest.mark.gen_test
async def test_a_copy_of_an_earlier_version_that_has_a_chat_in_both_places_has_it_once(
    layout, newer
):
    number, folder = await leave_old_trash(layout)
    shutil.copytree(folder, layout.get_chat_folder(number))
    whole = Path(layout.get_journal_path(number)).read_bytes()
    cut = whole[: whole.rindex(b"\n", 0, -1) + 1]
    if newer == "in the trash":  # the copy came to it before the chat was deleted
        Path(layout.get_journal_path(number)).write_bytes(cut)
    elif newer == "among the chats":  # it was restored while the copy was taken
        async with running_services(layout) as services:
            await make_trash(services).restore(number, ME)
        shutil.copytree(Path(layout.get_chat_folder(number)), folder, dirs_exist_ok=True)
        Path(folder, "journal.jsonl").write_bytes(whole)
    async with running_services(layout) as services:
        deleted = [chat.id for chat in make_trash(services).list_deleted()]
        there = [chat.id for chat in services.chats.list_summaries()]
    assert (there, deleted) == (([number], []) if newer == "among the chats" else ([], [number]))
    assert {name.split("-")[0] for name in os.listdir(layout.trash)} == {f"{number}.copy"}


@pytest.mark.gen_test
async def test_what_lies_in_an_older_trash_and_is_no_deleted_chat_stays(layout, caplog):
    async with running_services(layout) as services:
        number = await make_chat(services)
    folder = Path(layout.trash, f"{number}-2026-01-31T120000.000Z")
    folder.parent.mkdir(mode=0o700)
    Path(layout.get_chat_folder(number)).rename(folder)
    Path(layout.trash, "notes").touch()
    async with running_services(layout) as services:
        assert services.chats.list_summaries() == []
    assert (
        f"{folder} is not deleted: move it back as {layout.get_chat_folder(number)}" in caplog.text
    )
    assert len(os.listdir(layout.trash)) == 2


def test_the_journal_goes_last_for_it_alone_says_that_the_chat_is_deleted(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(layout.get_chat_folder(1))
    folder.mkdir(parents=True)
    for name in ("checkpoint.json", "journal.jsonl", "journal.jsonl.torn-1"):
        (folder / name).touch()
    removed = []
    unlink = os.unlink

    def note(path: str) -> None:
        removed.append(os.path.basename(path))
        unlink(path)

    monkeypatch.setattr(os, "unlink", note)
    remove_chat_folder(layout, 1)
    assert len(removed) == 3
    assert removed[-1] == "journal.jsonl"
    assert not folder.exists()
