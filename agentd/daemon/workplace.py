"""The workspace as callers have it: its repository, and the folder for what they upload.

A part of the composition root (``daemon``), apart because it is composed of its own.
"""

import asyncio
import logging
import os
from collections.abc import Iterable
from os.path import dirname, join
from typing import Self

from agentd.clock import Clock
from agentd.disk.layout import Layout
from agentd.disk.watch import Watcher
from agentd.errors import AgentdError
from agentd.events import Bus, FilesUpdate, GitUpdate
from agentd.outside.uploads import UploadFolder
from agentd.outside.working_copy import WorkingCopy
from agentd.web.files import Files
from agentd.web.git import GitDesk
from agentd.web.table import Route
from agentd.web.tables import files, git
from agentd.workspace.commits import Head

log = logging.getLogger(__name__)

_TELLING = frozenset(("HEAD", "COMMIT_EDITMSG", "ORIG_HEAD"))
"""Files of git that are written when something else is checked out, or committed to."""

MOMENT = 1.0
"""Seconds that git may take to make a repository."""


class Workplace:
    """For the workspace ``root``; ``generation`` is the state folder's."""

    def __init__(self, root: str, layout: Layout, generation: str, clock: Clock, bus: Bus) -> None:
        closed = (layout.state, layout.config, join(root, ".env"))
        self._follower = _Follower(root, bus)
        repository = WorkingCopy(root, closed, self._follower.tell)
        self._repository = repository
        self.uploads = UploadFolder(
            root, generation, lambda *changed: bus.publish(FilesUpdate(*changed))
        )
        """The folder for what is sent in."""
        self.rows: Iterable[Route] = (
            *git.rows(GitDesk(repository)),
            *files.rows(Files(self.uploads, clock)),
        )
        """What they add to the routes table."""

    async def __aenter__(self) -> Self:
        """Sweep away what uploads left behind that a killed daemon was receiving."""
        await self.uploads.sweep()
        await self._follower.begin(self._repository)
        return self

    async def __aexit__(self, *_: object) -> None:
        """What is under way ends with its connection."""

    async def follow(self) -> None:
        """Tell what is checked out whenever that is something else, until it is cancelled."""
        await self._follower.follow(self._repository)


class _Follower:
    """Tells what is checked out whenever that is something else, whoever did it."""

    def __init__(self, root: str, bus: Bus) -> None:
        self._root = root
        self._bus = bus
        self._first: Head | None = None
        self._told: Head | None = None
        self._woken = asyncio.Event()

    def tell(self, head: Head) -> None:
        """Have everyone hear of it, unless it was told last."""
        if head != self._told:
            self._told = head
            self._bus.publish(GitUpdate(head))

    async def begin(self, repository: WorkingCopy) -> None:
        """See what is checked out now: whoever listens from now on hears of anything else."""
        self._first = await self._head(repository)

    async def follow(self, repository: WorkingCopy) -> None:
        """Until it is cancelled; a repository that is made meanwhile is noticed, too."""
        try:
            await self._follow(repository)
        except OSError as error:
            log.warning("what is checked out is not followed: %s", error)

    async def _follow(self, repository: WorkingCopy) -> None:
        folder = await self._folder(repository)
        watcher = Watcher()
        watcher.add(folder, self._noticed)
        watcher.add(join(folder, "logs"), self._noticed)
        try:
            await watcher.start()
            self._woken.set()  # by what happened since the beginning
            while True:
                await self._woken.wait()
                self._woken.clear()
                head = await self._head(repository)
                if head is None:  # what is just being made is a repository in a moment
                    await asyncio.sleep(MOMENT)
                    head = await self._head(repository)
                if head and head != (self._told or self._first):
                    self.tell(head)
        finally:
            await watcher.stop()

    def _noticed(self, name: str) -> None:
        if name in _TELLING:
            self._woken.set()

    async def _folder(self, repository: WorkingCopy) -> str:
        """Git's own folder, where there is one; else where it would be."""
        here = join(self._root, ".git")
        if not await asyncio.to_thread(_is_in_repository, self._root):
            return here
        try:
            return await repository.folder()
        except AgentdError:
            return here

    async def _head(self, repository: WorkingCopy) -> Head | None:
        """None without a repository, or in one that git does not trust."""
        if not await asyncio.to_thread(_is_in_repository, self._root):
            return None
        try:
            return await repository.head()
        except AgentdError:
            return None


def _is_in_repository(folder: str) -> bool:
    """Whether git has to be asked: it takes a process."""
    folder = os.path.realpath(folder)
    while not os.path.lexists(join(folder, ".git")):
        if folder == dirname(folder):
            return False
        folder = dirname(folder)
    return True
