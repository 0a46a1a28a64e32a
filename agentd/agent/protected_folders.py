"""Finds the protected paths of this daemon as they are on disk now."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import suppress
from os.path import expanduser, isabs, join, realpath

from agentd.agent.planner import ChatFolders
from agentd.storage.layout import Layout
from agentd.system.protected_paths import CONFIG_FILES, ProtectedFiles, ProtectedPlaces

_NAMED_SECRET = re.compile(r"\bfile:((?:/|~/)[^\s\"',}\]#]+)")
"""A reference to a secret file in the configuration: ``file:PATH``."""
_MOST = 1 << 20


def find_protected_places(layout: Layout) -> ProtectedPlaces:
    """Resolve the configuration's links and the secret files that it names. Blocking."""
    config = realpath(layout.config)
    home = realpath(expanduser("~"))
    return ProtectedPlaces(
        state=realpath(layout.state),
        config=config,
        files=find_protected_files(layout),
        home="" if home == "/" or not isabs(expanduser("~")) else home,
    )


def find_protected_files(layout: Layout) -> tuple[str, ...]:
    """Return the real paths of the configuration files and of the files they name. Blocking."""
    config = realpath(layout.config)
    files = {path for name in sorted(CONFIG_FILES) for path in _iter_files(join(config, name))}
    return tuple(sorted(files))


class ProtectionRefreshingFolders:
    """The folders of chats (``agent.planner.ChatFolders``), prepared before each turn.

    Configuration files take effect when they are saved, so the secret files that they name by then
    are protected first.
    """

    def __init__(self, folders: ChatFolders, layout: Layout, files: ProtectedFiles) -> None:
        self._folders = folders
        self._layout = layout
        self._files = files

    async def prepare_folder(self, chat_id: int) -> str:
        """Refresh the protected files, then prepare the chat's folder; empty: it has none."""
        self._files.paths = await asyncio.to_thread(find_protected_files, self._layout)
        return await self._folders.prepare_folder(chat_id)


def _iter_files(path: str) -> Iterator[str]:
    """Yield the real path of a configuration file, and of the files that it names."""
    with suppress(OSError, ValueError):
        yield realpath(path)
        with open(path, encoding="utf-8", errors="replace") as file:
            for named in _NAMED_SECRET.findall(file.read(_MOST)):
                yield realpath(expanduser(named))
