"""The chats as the extended surface has them: listed, labelled, copied, thrown away and kept.

A part of the composition root (``daemon``), apart because all of it stands on the chats alone.
"""

import asyncio
from contextlib import suppress
from functools import partial
from typing import Self

from agentd.access.service import KeyService
from agentd.chats.editing import Editing
from agentd.chats.history import History
from agentd.chats.labelling import Labelling
from agentd.chats.service import ChatService
from agentd.chats.shelf import Shelf
from agentd.chats.trash import Trash
from agentd.disk.chat_search import MessageSearch
from agentd.disk.labels import IntentFile, LabelBook
from agentd.disk.layout import Layout
from agentd.disk.trash import TrashFolder
from agentd.events import Bus, LabelsUpdate
from agentd.web.chats import Chats
from agentd.web.history import Histories
from agentd.web.keys import KeyDesk
from agentd.web.labels import LabelDesk
from agentd.web.message_queue import MessageQueue
from agentd.web.remote import Remote
from agentd.web.table import Route
from agentd.web.tables import chats as rows_of

PURGE_SECONDS = 3600.0
"""How often the trash is looked at: what is thirty days old goes within the hour."""


class Library:
    """Makes the parts, and knows what they need to be kept going."""

    def __init__(
        self,
        shelf: Shelf,
        chats: ChatService,
        keys: KeyService,
        remote: Remote,
        layout: Layout,
        bus: Bus,
    ) -> None:
        editing = Editing(shelf)
        book = LabelBook(layout, lambda: bus.publish(LabelsUpdate(self.labels.current)))
        self._labelling = labelling = Labelling(shelf, editing, book, IntentFile(layout))
        self._trash = Trash(shelf, TrashFolder(layout))
        self.labels = book.file
        """What ``labels.yml`` says now."""
        self.rows: tuple[Route, ...] = rows_of.rows(
            rows_of.Desks(
                remote=remote,
                chats=Chats(chats, editing, labelling, self._trash, partial(MessageSearch, layout)),
                histories=Histories(chats, History(shelf)),
                queue=MessageQueue(remote, chats, editing),
                labels=LabelDesk(labelling),
                keys=KeyDesk(keys),
            )
        )
        """What it adds to the routes table."""

    async def __aenter__(self) -> Self:
        """Read the labels, finish what was interrupted, and look after the trash from now on."""
        await self.labels.refresh()
        await self._labelling.finish_interrupted()
        self._chore = asyncio.create_task(self._keep_trash())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave both off."""
        self._chore.cancel()
        with suppress(asyncio.CancelledError):
            await self._chore
        await self.labels.stop()

    async def _keep_trash(self) -> None:
        while True:
            await self._trash.purge()
            await asyncio.sleep(PURGE_SECONDS)
