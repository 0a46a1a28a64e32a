"""The workspace as callers have it: its files, its repository, and the folder for uploads.

A part of the composition root (``daemon``), apart because it is composed of its own.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable
from os.path import dirname, join
from typing import Self

from agentd.agent.protected_folders import find_protected_places
from agentd.core.clock import Clock
from agentd.core.errors import AgentdError
from agentd.core.events import EventBus
from agentd.http.routing import Route
from agentd.storage.folder_watcher import FolderWatcher
from agentd.storage.layout import Layout
from agentd.workspace.browse import api as browse_api
from agentd.workspace.browse.api import BrowseEndpoints
from agentd.workspace.browse.reader import WorkspaceReader
from agentd.workspace.git import api as git_api
from agentd.workspace.git.api import GitEndpoints
from agentd.workspace.git.commits import GitHead
from agentd.workspace.git.events import GitUpdate
from agentd.workspace.git.working_copy import WorkingCopy
from agentd.workspace.uploads import api as uploads_api
from agentd.workspace.uploads.api import UploadEndpoints
from agentd.workspace.uploads.events import FilesUpdate
from agentd.workspace.uploads.store import UploadFolder

log = logging.getLogger(__name__)

_HEAD_FILES = frozenset(("HEAD", "COMMIT_EDITMSG", "ORIG_HEAD"))
"""Files of git that are written when something else is checked out, or committed to."""

SETTLE_SECONDS = 1.0
"""Seconds that git may take to make a repository."""


class WorkspaceComponent:
    """The endpoints of the workspace ``root``; ``generation`` is the state folder's.

    ``find_copy`` returns a chat's work tree.
    """

    def __init__(
        self,
        root: str,
        layout: Layout,
        generation: str,
        clock: Clock,
        bus: EventBus,
        find_copy: Callable[[int], Awaitable[WorkingCopy | None]],
    ) -> None:
        closed = (layout.state, layout.config, join(root, ".env"))
        self._follower = _HeadFollower(root, bus)
        repository = WorkingCopy(root, closed, self._follower.publish_head)
        self._repository = repository
        self._layout = layout
        self._reader = WorkspaceReader(root)
        self.uploads = UploadFolder(
            root, generation, lambda *changed: bus.publish(FilesUpdate(*changed))
        )
        """The folder for what is sent in."""
        self.rows: Iterable[Route] = (
            *git_api.routes(GitEndpoints(repository, find_copy)),
            *browse_api.routes(BrowseEndpoints(self._reader)),
            *uploads_api.routes(UploadEndpoints(self.uploads, clock)),
        )
        """The routes of the workspace."""

    async def __aenter__(self) -> Self:
        """Find what is protected; delete partial uploads of a daemon that was killed."""
        places = await asyncio.to_thread(find_protected_places, self._layout)
        self._reader.protect(places)
        self._repository.protect(places)
        await self.uploads.sweep()
        await self._follower.begin(self._repository)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Do nothing: running requests end with their connections."""

    async def follow(self) -> None:
        """Publish an event whenever the checked-out branch or commit changes, until cancelled."""
        await self._follower.follow(self._repository)


class _HeadFollower:
    """Publishes an event whenever the checked-out branch or commit changes."""

    def __init__(self, root: str, bus: EventBus) -> None:
        self._root = root
        self._bus = bus
        self._first: GitHead | None = None
        self._published: GitHead | None = None
        self._woken = asyncio.Event()

    def publish_head(self, head: GitHead) -> None:
        """Publish this head, unless it was published last."""
        if head != self._published:
            self._published = head
            self._bus.publish(GitUpdate(head))

    async def begin(self, repository: WorkingCopy) -> None:
        """Read the current head; later changes are published."""
        self._first = await self._read_head(repository)

    async def follow(self, repository: WorkingCopy) -> None:
        """Follow HEAD until cancelled, also of a repository that is created meanwhile."""
        try:
            await self._follow(repository)
        except OSError as error:
            log.warning("what is checked out is not followed: %s", error)

    async def _follow(self, repository: WorkingCopy) -> None:
        folder = await self._find_git_folder(repository)
        watcher = FolderWatcher()
        watcher.add(folder, self._on_file_changed)
        watcher.add(join(folder, "logs"), self._on_file_changed)
        try:
            await watcher.start()
            self._woken.set()  # by what happened since the beginning
            while True:
                await self._woken.wait()
                self._woken.clear()
                head = await self._read_head(repository)
                if head is None:  # what is just being made is a repository in a moment
                    await asyncio.sleep(SETTLE_SECONDS)
                    head = await self._read_head(repository)
                if head and head != (self._published or self._first):
                    self.publish_head(head)
        finally:
            await watcher.stop()

    def _on_file_changed(self, name: str) -> None:
        if name in _HEAD_FILES:
            self._woken.set()

    async def _find_git_folder(self, repository: WorkingCopy) -> str:
        """Return git's own folder, or where it would be."""
        here = join(self._root, ".git")
        if not await asyncio.to_thread(_is_in_repository, self._root):
            return here
        try:
            return await repository.get_git_folder()
        except AgentdError:
            return here

    async def _read_head(self, repository: WorkingCopy) -> GitHead | None:
        """Return HEAD; None without a repository, or in one that git does not trust."""
        if not await asyncio.to_thread(_is_in_repository, self._root):
            return None
        try:
            return await repository.get_head()
        except AgentdError:
            return None


def _is_in_repository(folder: str) -> bool:
    """Return whether git has to be asked: it takes a process."""
    folder = os.path.realpath(folder)
    while not os.path.lexists(join(folder, ".git")):
        if folder == dirname(folder):
            return False
        folder = dirname(folder)
    return True
