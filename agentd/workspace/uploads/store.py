"""The folder that files are uploaded to, as safely as ``agent.tools.safe_write`` writes.

A file is written as it arrives, under a hidden temporary name that identifies its owner:
what a killed daemon left is swept away at its next start. When all files of a request are whole
and safe on disk, they get their names, all of them or none: while several are being named, an empty
file says so, and a start that finds it takes the names away again. Nothing is ever overwritten.
The folder is opened without following links each time, and everything happens in it by its
descriptor.
"""

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, TypeAlias

from agentd.core import ids
from agentd.core.clock import format_iso
from agentd.core.errors import AgentdError, Conflict, Forbidden, NotFound
from agentd.core.folding import fold_text
from agentd.core.threads import open_in_thread
from agentd.system import process
from agentd.system.folder import make_printable, open_regular, translate_errors
from agentd.workspace.uploads.rules import (
    FOLDER,
    MOST_BYTES,
    MOST_FILES,
    TEXT,
    Upload,
    check_name,
    detect_kind,
    find_free_name,
)

log = logging.getLogger(__name__)

_TEMPORARY = ".agentd-upload-"
_MAKE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK = 256 * 1024
_PORTION = 1024 * 1024
"""Bytes that are written at once, in at most ``_MOST_CHUNKS`` pieces (the kernel's limit)."""
_MOST_CHUNKS = 1024
OnChange: TypeAlias = Callable[[tuple[Upload, ...], tuple[str, ...]], None]
_IGNORED = "*\n"


class PendingUpload:
    """A file that is on its way; ``write`` returns while the bytes are still being written."""

    def __init__(self, folder: int, name: str, file: int) -> None:
        self.folder = folder
        self.name = name
        self.file = file
        self._work: asyncio.Future[Any] | None = None
        self._chunks: list[bytes] = []
        self._size = 0

    async def write(self, data: bytes) -> None:
        """Append ``data``; raise what writing an earlier part of the file raised."""
        self._chunks.append(data)
        self._size += len(data)
        if self._size >= _PORTION or len(self._chunks) >= _MOST_CHUNKS:
            await self._flush()

    async def wait_written(self) -> None:
        """Wait until everything is written."""
        await self._flush()
        if self._work:
            await asyncio.shield(self._work)

    async def _flush(self) -> None:
        """Write the buffered chunks, after those before them."""
        if self._work:
            await asyncio.shield(self._work)
        chunks, self._chunks, self._size = self._chunks, [], 0
        if chunks:
            loop = asyncio.get_running_loop()
            self._work = loop.run_in_executor(None, _write, self.file, chunks)

    def set_busy(self, work: "asyncio.Future[Any]") -> None:
        """Block the file until this work is done."""
        self._work = work

    async def discard(self) -> None:
        """Remove the file, unless it was kept."""
        if self._work:
            await asyncio.wait([self._work])
            self._work.exception()
        if self.file >= 0:
            await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Remove what has no name yet. Blocking."""
        if self.file < 0:
            return
        with suppress(OSError):
            os.unlink(self.name, dir_fd=self.folder)
        os.close(self.file)
        os.close(self.folder)
        self.file = -1


class UploadContent(AsyncIterator[bytes]):
    """The bytes of an open file in portions; its holder closes it."""

    def __init__(self, file: int, size: int) -> None:
        self._file = file
        self._left = size
        self._reading: asyncio.Future[bytes] | None = None

    async def __anext__(self) -> bytes:
        if self._left <= 0:
            raise StopAsyncIteration
        loop, size = asyncio.get_running_loop(), min(self._left, _BLOCK)
        self._reading = loop.run_in_executor(None, os.read, self._file, size)
        portion = await asyncio.shield(self._reading)
        if not portion:
            raise Conflict("The file became shorter while it was read")
        self._left -= len(portion)
        return portion

    async def aclose(self) -> None:
        """Let go of the file, once nothing is read from it any more: its number is then free."""
        if self._reading and not self._reading.done():
            self._reading.add_done_callback(lambda _: self.close())
        else:
            self.close()

    def close(self) -> None:
        """Let go of the file, of which nothing is being read."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)


class UploadFolder:
    """The folder ``uploads`` below ``root``; ``mark`` identifies this daemon's files.

    ``on_change`` is called on the loop with the new files and the names of those that are
    gone, once that is safe on disk, also when the caller has left.
    """

    def __init__(
        self,
        root: str,
        mark: str,
        on_change: OnChange = lambda added, removed: None,
        *,
        umask: int = process.DEFAULT_UMASK,
    ) -> None:
        self._root = root
        self._on_change = on_change
        self._temporary = f"{_TEMPORARY}{mark}-"
        self._unfinished = f"{self._temporary}naming"
        """Exists while the files of one request are being named, which ``_naming`` allows."""
        self._umask = umask
        self._naming = threading.Lock()

    async def sweep(self) -> None:
        """Remove what a killed daemon left behind; where that fails, it is only logged."""
        try:
            await asyncio.to_thread(self._sweep)
        except NotFound:
            return
        except AgentdError as error:
            log.warning("what was half uploaded stays: %s", error.message)

    async def begin(self) -> PendingUpload:
        """Create a file that has no name yet; raise ``Conflict`` when the folder is full."""
        return await open_in_thread(self._begin, PendingUpload.close)

    async def keep(self, drafts: list[tuple[PendingUpload, str]]) -> list[Upload]:
        """Give files their names, or free ones like them: all durably, or none."""
        for draft, _ in drafts:
            await draft.wait_written()
        work = asyncio.ensure_future(asyncio.to_thread(self._keep, drafts))
        for draft, _ in drafts:
            draft.set_busy(work)
        work.add_done_callback(self._on_kept)
        return await asyncio.shield(work)

    async def list_uploads(self) -> list[Upload]:
        """List all files, newest first."""
        return await asyncio.to_thread(self._list)

    async def remove(self, name: str) -> None:
        """Delete a file; ``NotFound`` when it is not there."""
        work = asyncio.ensure_future(asyncio.to_thread(self._remove, name))
        work.add_done_callback(lambda done: self._on_removed(done, name))
        await asyncio.shield(work)

    async def read(self, name: str) -> tuple[Upload, UploadContent]:
        """Open a file; return it and its bytes, as many as it had then."""
        return await open_in_thread(lambda: self._open_file(name), lambda file: file[1].close())

    def _on_kept(self, work: "asyncio.Future[list[Upload]]") -> None:
        if not work.cancelled() and not work.exception():
            self._on_change(tuple(work.result()), ())

    def _on_removed(self, work: "asyncio.Future[None]", name: str) -> None:
        if not work.cancelled() and not work.exception():
            self._on_change((), (name,))

    def _begin(self) -> PendingUpload:
        with self._open_folder(make=True) as folder:
            _refuse_full(folder, self._temporary)
            name = self._temporary + ids.generate_request_id()
            with translate_errors(FOLDER, "written"):
                file = os.open(name, _MAKE, 0o600, dir_fd=folder)
                return PendingUpload(os.dup(folder), name, file)

    def _keep(self, drafts: list[tuple[PendingUpload, str]]) -> list[Upload]:
        with (
            self._naming,
            translate_errors(FOLDER, "written"),
            self._open_folder(make=True) as folder,
        ):
            try:
                for draft, _ in drafts:
                    os.fchmod(draft.file, 0o666 & ~self._umask)
                    os.fsync(draft.file)
                kept = self._name_all(drafts, folder)
            finally:
                for draft, _ in drafts:
                    draft.close()
            return [_stat_upload(folder, name) for name in kept]

    def _name_all(self, drafts: list[tuple[PendingUpload, str]], folder: int) -> list[str]:
        """Give all drafts their names durably, or none of them; return the names."""
        kept: list[str] = []
        taken = {fold_text(name) for name in _refuse_full(folder, self._temporary)}
        try:
            if len(drafts) > 1:
                with suppress(FileExistsError):
                    _make_file(folder, self._unfinished, b"", 0o600)
                os.fsync(folder)
            for draft, proposed in drafts:
                kept.append(_link_name(draft, proposed, taken, folder))
                taken.add(fold_text(kept[-1]))
            os.fsync(folder)
            if len(drafts) > 1:
                os.unlink(self._unfinished, dir_fd=folder)
                os.fsync(folder)
        except BaseException:
            for name in (*kept, self._unfinished):
                with suppress(OSError):
                    os.unlink(name, dir_fd=folder)
            raise
        return kept

    def _list(self) -> list[Upload]:
        try:
            with self._open_folder() as folder, translate_errors(FOLDER):
                names = [one.name for one in os.scandir(folder)
                         if one.name[0] != "." and one.is_file(follow_symlinks=False)]  # fmt: skip
                found = []
                for name in names:
                    with suppress(FileNotFoundError, NotFound, Forbidden):  # gone, or another's
                        found.append(_stat_upload(folder, name))
        except NotFound:
            return []
        return sorted(found, key=lambda upload: (upload.at, upload.name), reverse=True)

    def _remove(self, name: str) -> None:
        with self._open_folder() as folder:
            os.close(_open_upload(folder, name))
            with translate_errors(name, "written"):
                os.unlink(name, dir_fd=folder)
                os.fsync(folder)

    def _open_file(self, name: str) -> tuple[Upload, UploadContent]:
        with self._open_folder() as folder:
            file = _open_upload(folder, name)
            upload = _describe_upload(name, file)
            return upload, UploadContent(file, upload.size)

    def _sweep(self) -> None:
        with self._open_folder() as folder, translate_errors(FOLDER, "written"):
            names = os.listdir(folder)
            drafts = [name for name in names if name.startswith(self._temporary)]
            if self._unfinished in drafts:
                drafts.remove(self._unfinished)
                for name in _find_links(drafts, names, folder):
                    log.warning(
                        "%s/%s is taken away: not all came with it", FOLDER, make_printable(name)
                    )
                    os.unlink(name, dir_fd=folder)
                os.fsync(folder)
                drafts.append(self._unfinished)
            for name in drafts:
                os.unlink(name, dir_fd=folder)

    @contextmanager
    def _open_folder(self, *, make: bool = False) -> Iterator[int]:
        """Open the folder, never through a link; raise ``NotFound`` if there is none."""
        with translate_errors(self._root):
            root = os.open(self._root, _OPEN & ~os.O_NOFOLLOW)
        try:
            folder = self._open(root, make)
        finally:
            os.close(root)
        try:
            yield folder
        finally:
            os.close(folder)

    def _open(self, root: int, make: bool) -> int:
        with translate_errors(FOLDER):
            try:
                return os.open(FOLDER, _OPEN, dir_fd=root)
            except NotADirectoryError as error:
                what = f"{FOLDER} in the workspace is a link or a file, no folder."
                raise Forbidden(what) from error
            except FileNotFoundError as error:
                if not make:
                    raise NotFound("Nothing has been uploaded yet.") from error
        with translate_errors(FOLDER, "written"):
            with suppress(FileExistsError):
                os.mkdir(FOLDER, 0o700, dir_fd=root)
            folder = os.open(FOLDER, _OPEN, dir_fd=root)
            try:
                self._set_up(folder)
                os.fsync(root)
            except BaseException:
                os.close(folder)
                raise
            return folder

    def _set_up(self, folder: int) -> None:
        os.fchmod(folder, 0o777 & ~self._umask)
        # As caches have it: what is uploaded is not the repository's, unless somebody adds it.
        with suppress(FileExistsError):
            _make_file(folder, ".gitignore", _IGNORED.encode(), 0o666 & ~self._umask)


def _write(file: int, chunks: list[bytes]) -> None:
    with translate_errors("The file", "written"):
        began = os.lseek(file, 0, os.SEEK_CUR)
        size = sum(map(len, chunks))
        written = os.writev(file, chunks)
        if written < size:
            rest = memoryview(b"".join(chunks))[written:]
            while rest:
                rest = rest[os.write(file, rest) :]
        # Has the kernel begin to bring it to the disk, so that little is left for fsync.
        os.posix_fadvise(file, began, size, os.POSIX_FADV_DONTNEED)


def _make_file(folder: int, name: str, data: bytes, mode: int) -> None:
    with open(os.open(name, _MAKE, 0o600, dir_fd=folder), "wb") as file:
        os.fchmod(file.fileno(), mode)  # whatever the daemon's own umask is
        file.write(data)


def _link_name(draft: PendingUpload, proposed: str, taken: set[str], folder: int) -> str:
    """Give a draft its name, or the next free one."""
    while True:
        name = find_free_name(proposed, taken)
        try:
            os.link(draft.name, name, src_dir_fd=draft.folder, dst_dir_fd=folder,
                    follow_symlinks=False)  # fmt: skip
        except FileExistsError:  # made by somebody else this moment
            taken.add(fold_text(name))
            continue
        return name


def _find_links(drafts: list[str], names: list[str], folder: int) -> list[str]:
    """Return the names that drafts got beside their temporary ones."""
    files = {os.stat(name, dir_fd=folder, follow_symlinks=False).st_ino for name in drafts}
    return [
        name
        for name in set(names).difference(drafts)
        if os.stat(name, dir_fd=folder, follow_symlinks=False).st_ino in files
    ]


def _refuse_full(folder: int, temporary: str) -> list[str]:
    """Return the existing names; raise ``Conflict`` when the folder is full."""
    names, size = [], 0
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                size += entry.stat(follow_symlinks=False).st_size
            if not entry.name.startswith(temporary):
                names.append(entry.name)
    if len(names) > MOST_FILES or size > MOST_BYTES:
        raise Conflict(
            "The upload folder is full",
            f"It holds at most {MOST_FILES:,} files and {MOST_BYTES:,} bytes: delete some.",
        )
    return names


def _open_upload(folder: int, name: str) -> int:
    check_name(name)
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise NotFound("There is no such file in the upload folder.") from error
    return open_regular(folder, name, f"{FOLDER}/{name}")


def _stat_upload(folder: int, name: str) -> Upload:
    file = open_regular(folder, name, f"{FOLDER}/{make_printable(name)}")
    try:
        return _describe_upload(name, file)
    finally:
        os.close(file)


def _describe_upload(name: str, file: int) -> Upload:
    found = os.fstat(file)
    head = os.pread(file, 64, 0)
    kind = (
        "application/octet-stream"
        if b"\0" in head and detect_kind(head) is TEXT
        else detect_kind(head).type
    )
    at = format_iso(datetime.fromtimestamp(found.st_mtime, UTC))
    return Upload(make_printable(name), f"{FOLDER}/{make_printable(name)}", found.st_size, kind, at)
