"""Deleted chats: each stays in its own folder, where the journal says that it is deleted.

So a chat is in one place whatever becomes of it, and a copy of the state folder that is taken
while chats are deleted and restored has each of them exactly once. Removing one for ever deletes
its journal last: what a crash, or a copy of that moment, leaves is known for what it is.

Earlier versions moved the folder of a deleted chat to ``trash/<id>-<time>``; ``adopt`` moves those
back at start. Everything but ``TrashFolder`` blocks.
"""

import asyncio
import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress

from agentd.chats.load import JOURNAL, load
from agentd.core.errors import AgentdError
from agentd.storage.document import sync_folder, translate_os_errors
from agentd.storage.layout import Layout
from agentd.storage.runs import record_removal

log = logging.getLogger(__name__)

_OLDER = re.compile(r"([1-9][0-9]{0,15})-[0-9TZ.-]+", re.ASCII)
"""The name that earlier versions gave the folder of a deleted chat."""
_CHUNK = 1024 * 1024


class TrashFolder:
    """Removes deleted chats for ever, off the loop; satisfies ``chats.trash.TrashStore``."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    async def purge(self, chat_id: int, seq: int) -> None:
        """Remove a chat's folder, whose last record is ``seq``.

        Raises ``Unavailable``, and another try will do.
        """
        await asyncio.to_thread(self._purge, chat_id, seq)

    def _purge(self, chat_id: int, seq: int) -> None:
        record_removal(self._layout.runs, seq)
        remove_chat_folder(self._layout, chat_id)


def remove_chat_folder(layout: Layout, chat_id: int) -> None:
    """Remove the folder of a chat for ever, its journal last. ``Unavailable``."""
    folder = layout.get_chat_folder(chat_id)
    with translate_os_errors(folder, "remove"):
        try:
            names = os.listdir(folder)
        except FileNotFoundError:
            return
        for name in sorted(names, key=lambda name: name == JOURNAL):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)
        sync_folder(layout.chats)


def migrate_old_trash(layout: Layout) -> None:
    """Move what an earlier version put into ``trash`` back to the other chats.

    What cannot be moved stays where it is, for the next start; it is logged.
    """
    try:
        for chat_id, folder in list(find_old_trash(layout)):
            try:
                with suppress(OSError, AgentdError):
                    _migrate_folder(layout, chat_id, folder)
                    continue
                _migrate_folder(layout, chat_id, folder)
            except (OSError, AgentdError) as error:
                log.error("%s is not taken over, the next start tries again: %s", folder, error)
        os.rmdir(layout.trash)
    except OSError:
        pass  # there is none, or something else lies in it


def find_old_trash(layout: Layout) -> Iterator[tuple[int, str]]:
    """Find the chat folders that an earlier version put into ``trash``; raises ``OSError``."""
    try:
        names = sorted(os.listdir(layout.trash))
    except FileNotFoundError:
        return
    for name in names:
        if found := _OLDER.fullmatch(name):
            yield int(found[1]), os.path.join(layout.trash, name)


def _migrate_folder(layout: Layout, chat_id: int, folder: str) -> None:
    if not os.listdir(folder):  # a removal broke off before its last step
        os.rmdir(folder)
        return
    journal = os.path.join(folder, JOURNAL)
    if not load(layout, chat_id, path=journal).chat.deleted_at:
        log.warning(
            "%s is not deleted: move it back as %s", folder, layout.get_chat_folder(chat_id)
        )
        return
    if os.path.lexists(layout.get_chat_folder(chat_id)):
        # A copy of an earlier version's folder may have a chat in both places.
        longer = _continues(journal, layout.get_journal_path(chat_id))
        superseded = layout.get_chat_folder(chat_id) if longer else folder
        os.rename(superseded, os.path.join(layout.trash, f"{chat_id}.copy-{time.time_ns()}"))
        if not longer:
            sync_folder(layout.trash)
            return
    os.rename(folder, layout.get_chat_folder(chat_id))
    sync_folder(layout.chats)
    sync_folder(layout.trash)


def _continues(path: str, other: str) -> bool:
    """Return True when the first file begins with all of the other, and has more."""
    if not os.path.isfile(other) or os.path.getsize(other) >= os.path.getsize(path):
        return False
    with open(path, "rb") as longer, open(other, "rb") as shorter:
        while part := shorter.read(_CHUNK):
            if longer.read(len(part)) != part:
                return False
    return True
