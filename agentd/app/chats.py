"""The chats as the extended surface has them: listed, labelled, copied, thrown away and kept.

A part of the composition root (``daemon``), apart because all of it stands on the chats alone.
"""

import asyncio
from functools import partial
from typing import Self

from agentd.auth import keys_api
from agentd.auth.key_service import KeyService
from agentd.auth.keys_api import KeyEndpoints
from agentd.chats import api as chats_api
from agentd.chats import history_api, queue_api, remote_api
from agentd.chats.api import ChatEndpoints, WorktreeRemover
from agentd.chats.commands import ChatCommands
from agentd.chats.history import HistoryReader
from agentd.chats.history_api import HistoryEndpoints
from agentd.chats.labels import api as labels_api
from agentd.chats.labels.api import LabelEndpoints
from agentd.chats.labels.events import LabelsUpdate
from agentd.chats.labels.service import LabelService
from agentd.chats.labels.store import LabelChangeFile, LabelFile
from agentd.chats.queue_api import QueueEndpoints
from agentd.chats.remote_api import RemoteEndpoints
from agentd.chats.repository import ChatRepository
from agentd.chats.search import MessageSearch
from agentd.chats.service import ChatService
from agentd.chats.trash import Trash
from agentd.chats.trash_store import TrashFolder
from agentd.core.events import EventBus
from agentd.core.tasks import cancel_task
from agentd.http.routing import Route
from agentd.storage.layout import Layout
from agentd.storage.settled_clock import SettledClock

PURGE_SECONDS = 3600.0
"""The interval of checks of the trash: chats older than thirty days are removed within the hour."""


class ChatsComponent:
    """Makes the parts, and knows what they need to be kept going."""

    def __init__(
        self,
        repo: ChatRepository,
        chats: ChatService,
        keys: KeyService,
        remote: RemoteEndpoints,
        layout: Layout,
        bus: EventBus,
        worktrees: WorktreeRemover,
        settled: SettledClock,
    ) -> None:
        self._settled = settled
        editing = ChatCommands(repo)
        book = LabelFile(layout, lambda: bus.publish(LabelsUpdate(self.labels.current)))
        self._trash = Trash(repo, TrashFolder(layout))
        self._labelling = labelling = LabelService(
            repo, editing, book, LabelChangeFile(layout), self._trash
        )
        self.labels = book.file
        """The current contents of ``labels.yml``."""
        search = partial(MessageSearch, layout)
        endpoints = ChatEndpoints(chats, editing, labelling, self._trash, search, worktrees)
        self.rows: tuple[Route, ...] = (
            remote_api.build_creation_route(remote),
            *chats_api.routes(endpoints),
            *history_api.routes(HistoryEndpoints(chats, HistoryReader(repo), search)),
            *queue_api.routes(QueueEndpoints(remote, chats, editing)),
            *labels_api.routes(LabelEndpoints(labelling)),
            *keys_api.routes(KeyEndpoints(keys)),
        )
        """The routes of the chats."""

    async def __aenter__(self) -> Self:
        """Read the labels, finish what was interrupted, and look after the trash from now on."""
        await self.labels.refresh()
        await self._labelling.finish_interrupted()
        self._chore = asyncio.create_task(self._keep_trash())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave both off."""
        await cancel_task(self._chore)
        await self.labels.stop()

    async def _keep_trash(self) -> None:
        while True:
            await self._trash.purge(self._settled.now())
            await asyncio.sleep(PURGE_SECONDS)
