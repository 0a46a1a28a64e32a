"""Changes of labels at the same time: each finds what the one before it left."""

import asyncio
from collections.abc import Iterable

import pytest

from agentd.chats.commands import ChatCommands
from agentd.chats.labels import service as module
from agentd.chats.labels.model import Label
from agentd.chats.labels.service import LabelService
from agentd.chats.labels.store import LabelChangeFile, LabelFile
from agentd.chats.service import NewChat
from agentd.chats.trash import Trash
from agentd.chats.trash_store import TrashFolder
from agentd.core.errors import Conflict, NotFound
from tests.conftest import ME, Services, running_services

pytestmark = pytest.mark.gen_test


def build_trash(services: Services) -> Trash:
    return Trash(services.chats._chats, TrashFolder(services.layout))


def build_labels(
    services: Services, editing: ChatCommands | None = None, trash: Trash | None = None
) -> LabelService:
    layout, chats = services.layout, services.chats._chats
    editing = editing or ChatCommands(chats)
    trash = trash or build_trash(services)
    return LabelService(chats, editing, LabelFile(layout), LabelChangeFile(layout), trash)


async def create_labelled_chat(services: Services, labels: LabelService, name: str) -> int:
    chat = (await services.chats.create(NewChat(), ME)).id
    await labels.create(Label(name))
    await labels.add_to_chats(name, [chat], ME)
    return chat


async def test_a_rename_that_is_refused_leaves_the_chats_their_label(layout):
    async with running_services(layout) as services:
        labels = build_labels(services)
        chats = [await create_labelled_chat(services, labels, name) for name in ("a", "b")]
        results = await asyncio.gather(
            *(labels.change(name, "taken", None, ME) for name in ("a", "b")),
            return_exceptions=True,
        )
        assert results[0] == Label("taken")
        assert isinstance(results[1], Conflict)
        names = [services.chats.get_summary(chat).labels for chat in chats]
        assert names == [("taken",), ("b",)]


async def test_a_name_that_is_created_during_a_rename_is_taken(layout):
    async with running_services(layout) as services:
        labels = build_labels(services)
        chat = await create_labelled_chat(services, labels, "a")
        results = await asyncio.gather(
            labels.change("a", "b", None, ME), labels.create(Label("b")), return_exceptions=True
        )
        assert isinstance(results[1], Conflict)
        assert await labels.list_with_counts() == [(Label("b"), 1)]
        assert services.chats.get_summary(chat).labels == ("b",)


async def test_of_two_renames_of_a_label_the_second_finds_it_no_more(layout):
    async with running_services(layout) as services:
        labels = build_labels(services)
        await create_labelled_chat(services, labels, "a")
        results = await asyncio.gather(
            *(labels.change("a", name, None, ME) for name in ("b", "c")), return_exceptions=True
        )
        assert isinstance(results[1], NotFound)
        assert await labels.list_with_counts() == [(Label("b"), 1)]


@pytest.mark.parametrize("renamed_first", [True, False])
async def test_a_rename_loses_no_colour_that_was_set_at_the_same_time(layout, renamed_first):
    async with running_services(layout) as services:
        labels = build_labels(services)
        await create_labelled_chat(services, labels, "a")
        changes = [labels.change("a", "b", None, ME), labels.change("a", None, "#cc0000", ME)]
        results = await asyncio.gather(
            *(changes if renamed_first else reversed(changes)), return_exceptions=True
        )
        [(label, _)] = await labels.list_with_counts()
        if renamed_first:
            assert isinstance(results[1], NotFound)
            assert label == Label("b")
        else:
            assert label == Label("b", "#cc0000")


async def test_a_label_is_not_given_to_a_chat_while_it_goes(layout):
    async with running_services(layout) as services:
        labels = build_labels(services)
        await create_labelled_chat(services, labels, "a")
        other = (await services.chats.create(NewChat(), ME)).id
        results = await asyncio.gather(
            labels.delete("a", ME),
            labels.add_to_chats("a", [other], ME),
            return_exceptions=True,
        )
        assert isinstance(results[1], NotFound)
        assert services.chats.get_summary(other).labels == ()


async def test_a_chat_that_is_restored_during_a_rename_gets_the_new_name(layout):
    class TrashRestoredFirst(Trash):
        async def change_label(self, name: str, by: str, *, add: Iterable[str]) -> None:
            for chat in self.list_deleted():
                await self.restore(chat.id, by)
            await super().change_label(name, by, add=add)

    async with running_services(layout) as services:
        trash = TrashRestoredFirst(services.chats._chats, TrashFolder(layout))
        labels = build_labels(services, trash=trash)
        chat = await create_labelled_chat(services, labels, "a")
        await trash.delete(chat, ME)
        await labels.change("a", "b", None, ME)
        assert services.chats.get_summary(chat).labels == ("b",)


async def test_a_chat_that_is_deleted_during_a_rename_gets_the_new_name_in_the_trash(layout):
    class DeletedFirst(ChatCommands):
        async def change_labels(
            self, chat_id: int, by: str, *, add: Iterable[str] = (), remove: Iterable[str] = ()
        ) -> tuple[str, ...]:
            if remove and chat_id == deleted:
                await trash.delete(chat_id, by)
            return await super().change_labels(chat_id, by, add=add, remove=remove)

    async with running_services(layout) as services:
        trash = build_trash(services)
        labels = build_labels(services, DeletedFirst(services.chats._chats), trash)
        kept = await create_labelled_chat(services, labels, "a")
        deleted = (await services.chats.create(NewChat(), ME)).id
        await labels.add_to_chats("a", [deleted], ME)
        assert await labels.change("a", "b", None, ME) == Label("b")
        assert services.chats.get_summary(kept).labels == ("b",)
        [summary] = trash.list_deleted()
        assert (summary.id, summary.labels) == (deleted, ("b",))


async def test_labels_of_many_chats_change_some_at_a_time(layout, monkeypatch):
    """All at once would hold each of these chats in memory, and a file of each open."""
    monkeypatch.setattr(module, "AT_ONCE", 2)
    async with running_services(layout) as services:
        editing = CountingCommands(services.chats._chats)
        labels = build_labels(services, editing)
        chats = [(await services.chats.create(NewChat(), ME)).id for _ in range(5)]
        await labels.create(Label("a"))
        await labels.add_to_chats("a", chats, ME)
        assert await labels.list_with_counts() == [(Label("a"), 5)]
        await labels.remove_from_chats("a", chats, ME)
        assert await labels.list_with_counts() == [(Label("a"), 0)]
        assert editing.most == 2


class CountingCommands(ChatCommands):
    """Counts how many chats get labels at the same time."""

    running = most = 0

    async def change_labels(
        self, chat_id: int, by: str, *, add: Iterable[str] = (), remove: Iterable[str] = ()
    ) -> tuple[str, ...]:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            return await super().change_labels(chat_id, by, add=add, remove=remove)
        finally:
            self.running -= 1
