"""Deleted chats: each a folder in the trash, as a whole, for as long as it can be restored.

A chat is deleted by a record in its journal; its folder is moved after that. A crash in between
leaves it where it was, and the next start moves it. So whoever reads a journal looks in both
places. All but ``TrashFolder`` blocks.
"""

import asyncio
import os
import re
from collections.abc import Iterator

from agentd.clock import Timestamp
from agentd.disk.document import make_folder, sync_folder, told
from agentd.disk.layout import Layout
from agentd.errors import NotFound

JOURNAL = "journal.jsonl"

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NAME = re.compile(r"([1-9][0-9]{0,15})-[0-9TZ.-]+", re.ASCII)


def open_journal(layout: Layout, chat_id: int) -> int:
    """A chat's journal, open for reading, though it be in the trash; raises ``OSError``."""
    try:
        return os.open(layout.journal(chat_id), _READ)
    except FileNotFoundError:
        folder = _folder(layout, chat_id)
        if folder is None:
            raise
        return os.open(os.path.join(folder, JOURNAL), _READ)


def deleted(layout: Layout) -> Iterator[tuple[int, str]]:
    """Each deleted chat with its folder; ``OSError`` when the trash cannot be read."""
    try:
        names = sorted(os.listdir(layout.trash))
    except FileNotFoundError:
        return
    for name in names:
        if found := _NAME.fullmatch(name):
            yield int(found[1]), os.path.join(layout.trash, name)


def bury(layout: Layout, chat_id: int, deleted_at: Timestamp) -> None:
    """Move a deleted chat's folder into the trash, if it is not there. ``Unavailable``."""
    make_folder(layout.trash)
    with told(layout.chat(chat_id), "move"):
        try:
            os.rename(layout.chat(chat_id), layout.trashed(chat_id, deleted_at))
        except FileNotFoundError:
            return
        _sync(layout)


def swept(folder: str) -> bool:
    """Whether it was all that a purge left which broke off: an empty folder, which is gone now."""
    try:
        os.rmdir(folder)
    except OSError:
        return False
    return True


def _unbury(layout: Layout, chat_id: int) -> None:
    folder = layout.chat(chat_id)
    with told(folder, "move"):
        if os.path.lexists(folder):
            return
        buried = _folder(layout, chat_id)
        if buried is None:
            raise NotFound(f"Chat {chat_id} is no longer in the trash")
        os.rename(buried, folder)
        _sync(layout)


def _purge(layout: Layout, chat_id: int, deleted_at: Timestamp) -> None:
    bury(layout, chat_id, deleted_at)
    buried = _folder(layout, chat_id)
    if buried is None:
        return
    with told(buried, "remove"):
        # The journal goes last: what a crash leaves is found, and removed at the next try.
        for name in sorted(os.listdir(buried), key=lambda name: name == JOURNAL):
            os.unlink(os.path.join(buried, name))
        os.rmdir(buried)
        sync_folder(layout.trash)


class TrashFolder:
    """The trash of a state folder, off the loop; satisfies ``chats.trash.Bin``."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    async def bury(self, chat_id: int, deleted_at: Timestamp) -> None:
        """Move a deleted chat's folder into the trash. ``Unavailable``."""
        await asyncio.to_thread(bury, self._layout, chat_id, deleted_at)

    async def unbury(self, chat_id: int) -> None:
        """Move it back. ``NotFound`` or ``Unavailable``."""
        await asyncio.to_thread(_unbury, self._layout, chat_id)

    async def purge(self, chat_id: int, deleted_at: Timestamp) -> None:
        """Remove it for ever. ``Unavailable``, and another try will do."""
        await asyncio.to_thread(_purge, self._layout, chat_id, deleted_at)


def _folder(layout: Layout, chat_id: int) -> str | None:
    """The newest folder of a chat in the trash."""
    folders = [folder for number, folder in deleted(layout) if number == chat_id]
    return folders[-1] if folders else None


def _sync(layout: Layout) -> None:
    sync_folder(layout.chats)
    sync_folder(layout.trash)
