"""Reads the workspace for a person: folders, text files, images, and searches.

What agents may not read without approval is refused here, and git's own folder too: its
configuration may hold a password.
"""

import asyncio
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import Literal

from msgspec import Struct

from agentd.agent.tools.files import FolderWorkspace
from agentd.agent.tools.model import FindFiles, SearchText
from agentd.agent.tools.results import DirEntry, DirListing, SearchHits
from agentd.core.errors import BadRequest, Conflict, Forbidden, NotFound
from agentd.system.folder import (
    ConfinedFolder,
    ProtectedPath,
    WorkBudget,
    get_entry_kind,
    make_printable,
)
from agentd.system.protected_paths import ProtectedPlaces

MOST_ENTRIES = 5000
"""Entries of a folder that are listed."""
LARGEST_TEXT = 2**20
"""Bytes of a text file that are read."""
LARGEST_IMAGE = 16 * 2**20
MOST_HITS = 300
LONGEST_SEARCH = 200
"""Characters of a text to search for."""
MAX_PARALLEL_SEARCHES = 2
"""Searches at the same time: each may take two of the few threads for seconds."""

_GIT = ".git"
_HEAD = 8 * 1024
_IMAGES = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF8", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (4, b"ftypavif", "image/avif"),
)
"""Images that a browser shows and that cannot hold scripts: offset, bytes there, type."""

FileKind = Literal["text", "image", "binary"]


class WorkspaceFile(Struct, frozen=True):
    """A file; ``text`` only of a text file, without what is beyond ``LARGEST_TEXT``."""

    path: str
    kind: FileKind
    size: int
    text: str = ""
    truncated: bool = False


class WorkspaceMatches(Struct, frozen=True):
    """The matches of a search: files by name, and lines by text."""

    files: DirListing
    lines: SearchHits


class WorkspaceReader:
    """The reader of the workspace ``root``."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._folder = ConfinedFolder(root)
        self._search = FolderWorkspace(root)
        self._searching = asyncio.Semaphore(MAX_PARALLEL_SEARCHES)

    def protect(self, places: ProtectedPlaces) -> None:
        """Refuse to read these from now on."""
        self._folder = ConfinedFolder(self._root, places)
        self._search = FolderWorkspace(self._root, protected=places)

    async def list_folder(self, path: str) -> DirListing:
        """List the entries of a folder by name, folders first."""
        return await asyncio.to_thread(self._list_folder, path)

    async def read_file(self, path: str) -> WorkspaceFile:
        """Read a file for a person to look at."""
        return await asyncio.to_thread(self._read_file, path)

    async def read_image(self, path: str) -> tuple[str, bytes]:
        """Return the media type and the bytes of an image; ``NotFound`` for anything else."""
        return await asyncio.to_thread(self._read_image, path)

    async def search(self, text: str, path: str) -> WorkspaceMatches:
        """Find files by name and lines by text, below a folder."""
        if len(text) > LONGEST_SEARCH:
            raise BadRequest(f"Search for at most {LONGEST_SEARCH} characters")
        where = path or "."
        await asyncio.to_thread(self._require, where)
        if not text.strip():
            return WorkspaceMatches(DirListing(where, ()), SearchHits((), 0))
        async with self._searching:
            files, lines = await asyncio.gather(
                self._search.find_files(FindFiles(text, where)),
                self._search.search_text(SearchText(text, where, limit=MOST_HITS)),
            )
        return WorkspaceMatches(files, lines)

    def _require(self, path: str) -> None:
        """Raise ``NotFound`` when there is nothing of this name."""
        self._folder.is_folder(self._resolve(path), path)

    def _resolve(self, path: str) -> tuple[str, ...]:
        try:
            steps = self._folder.resolve(path)
        except ProtectedPath as error:
            raise Forbidden(
                f"{make_printable(path)} is protected. {error.place.protected}"
            ) from error
        if _GIT in steps or _GIT in path.split("/"):
            raise Forbidden("git's own folder is not shown: it may hold a password.")
        return steps

    @contextmanager
    def _open(self, path: str) -> Iterator[int]:
        """Open a file; a folder, pipe or device of that name is ``NotFound``."""
        with ExitStack() as opened:
            try:
                descriptor = opened.enter_context(self._folder.open_file(self._resolve(path), path))
            except BadRequest as error:
                raise NotFound(str(error)) from error
            yield descriptor

    def _list_folder(self, path: str) -> DirListing:
        steps = self._resolve(path)
        if not self._folder.is_folder(steps, path):
            raise NotFound(f"{make_printable(path)} is a file, not a folder.")
        budget = WorkBudget()
        listed = [
            DirEntry(
                make_printable(found.path),
                get_entry_kind(found.mode),
                found.size if stat.S_ISREG(found.mode) else 0,
            )
            for found in islice(self._folder.walk(steps, budget, 1), MOST_ENTRIES + 1)
            if found.name != _GIT
        ]
        truncated = budget.truncated or len(listed) > MOST_ENTRIES
        entries = sorted(listed[:MOST_ENTRIES], key=lambda one: (one.kind != "folder", one.path))
        return DirListing("/".join(map(make_printable, steps)), tuple(entries), truncated)

    def _read_file(self, path: str) -> WorkspaceFile:
        with self._open(path) as descriptor:
            size = os.fstat(descriptor).st_size
            data = _read_at_most(descriptor, LARGEST_TEXT + 1)
        if _detect_image(data):
            return WorkspaceFile(path, "image", size)
        if b"\0" in data[:_HEAD]:
            return WorkspaceFile(path, "binary", size)
        truncated = len(data) > LARGEST_TEXT
        if truncated:
            data = data[: data.rfind(b"\n", 0, LARGEST_TEXT) + 1 or LARGEST_TEXT]
        return WorkspaceFile(path, "text", size, data.decode("utf-8", "replace"), truncated)

    def _read_image(self, path: str) -> tuple[str, bytes]:
        with self._open(path) as descriptor:
            data = _read_at_most(descriptor, LARGEST_IMAGE + 1)
        kind = _detect_image(data)
        if not kind:
            raise NotFound(f"{make_printable(path)} is not an image that can be shown")
        if len(data) > LARGEST_IMAGE:
            raise Conflict(f"{make_printable(path)} is larger than {LARGEST_IMAGE // 2**20} MiB")
        return kind, data


def _detect_image(data: bytes) -> str:
    """Return the media type by the first bytes; empty for what is no image."""
    for offset, sign, kind in _IMAGES:
        if data[offset : offset + len(sign)] == sign:
            return kind
    return ""


def _read_at_most(descriptor: int, size: int) -> bytes:
    with open(descriptor, "rb", closefd=False) as file:
        return file.read(size)
