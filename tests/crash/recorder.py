"""Every call that changes a folder, written down: what happened, in what order, and what is safe.

Only calls of ``os`` are seen (the store changes files by no other way while it serves), and only
what lies in the folder, however many threads call.
"""

import os
import stat as modes
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, TypeAlias

Thing: TypeAlias = int
"""A file or a folder, whatever its names, numbered as they appear; 0 is the recorded folder."""


class Made(NamedTuple):
    """A file or folder came to be, without a name so far."""

    thing: Thing
    is_folder: bool


class Written(NamedTuple):
    """Bytes were written."""

    thing: Thing
    offset: int
    data: bytes


class Resized(NamedTuple):
    """A file was cut off, or made longer by zeros."""

    thing: Thing
    size: int


class Named(NamedTuple):
    """A folder's entry is this thing now; by a rename, another entry ceased in the same step."""

    folder: Thing
    name: str
    thing: Thing
    ceased: str = ""


class Unnamed(NamedTuple):
    """A folder's entry ceased."""

    folder: Thing
    name: str


class Synced(NamedTuple):
    """A sync: every change of this thing that was recorded before ``upto`` is safe."""

    thing: Thing
    upto: int
    writer: str = ""
    """The function that wanted it, and whether it is of a file or of a folder."""


class CallerNote(NamedTuple):
    """A note of what happened outside: a caller sent a request, or received an answer."""

    what: tuple[Any, ...]


Event: TypeAlias = Made | Written | Resized | Named | Unnamed | Synced | CallerNote


class Recorder:
    """Stands between the program and ``os`` for as long as ``recording`` lasts.

    ``forgets`` names calls whose success is not believed: with ``fsync`` and ``fdatasync`` in
    it, nothing is ever safe.
    """

    def __init__(self, root: str, forgets: frozenset[str] = frozenset()) -> None:
        self.log: list[Event] = []
        self._forgets = forgets
        self._lock = threading.RLock()
        self._inodes: dict[int, Thing] = {os.stat(root).st_ino: 0}
        self._opened: dict[int, Thing] = {}
        self._count = 0
        self._calls: dict[str, Callable[..., Any]] = {
            "open": self._open,
            "close": self._close,
            "write": self._write,
            "writev": self._writev,
            "ftruncate": self._ftruncate,
            "fsync": self._fsync,
            "fdatasync": self._fdatasync,
            "mkdir": self._mkdir,
            "link": self._link,
            "rename": self._rename,
            "unlink": partial(self._remove, "unlink"),
            "rmdir": partial(self._remove, "rmdir"),
        }
        self._real: dict[str, Callable[..., Any]] = {
            name: getattr(os, name) for name in self._calls
        }

    def note(self, *what: Any) -> None:
        """Note what happened outside, in order with the changes."""
        with self._lock:
            self.log.append(CallerNote(what))

    def note_existing(self, folder: str) -> None:
        """Record what is in the recorded folder already; it is safe."""
        things = [0]
        for above, folders, files in os.walk(folder):
            parent = self._inodes[os.stat(above).st_ino]
            for name in (*folders, *files):
                path = os.path.join(above, name)
                thing = self._make(os.lstat(path))
                self.log.append(Named(parent, name, thing))
                things.append(thing)
                if name in files:
                    with open(path, "rb") as file:
                        self.log.append(Written(thing, 0, file.read()))
        self.log += [Synced(thing, len(self.log)) for thing in things]

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Write down all that happens within the block."""
        for name, call in self._calls.items():
            setattr(os, name, call)
        try:
            yield
        finally:
            for name, real in self._real.items():
                setattr(os, name, real)

    def _make(self, info: os.stat_result) -> Thing:
        self._count += 1
        self._inodes[info.st_ino] = self._count
        self.log.append(Made(self._count, modes.S_ISDIR(info.st_mode)))
        return self._count

    def _find_folder(self, path: str, dir_fd: int | None) -> tuple[Thing | None, str]:
        """Return the recorded folder that an entry is in, if it is in one, and the entry's name."""
        above, name = os.path.split(path)
        if dir_fd is not None and not os.path.isabs(path):
            assert not above, "only plain names are used beside an open folder"
            return self._opened.get(dir_fd), name
        return self._inodes.get(os.stat(above or ".").st_ino), name

    def _find_thing(self, path: Any, dir_fd: int | None) -> Thing | None:
        follow = os.fspath(path).startswith("/proc/")
        try:
            info = os.stat(path, dir_fd=dir_fd, follow_symlinks=follow)
        except FileNotFoundError:
            return None
        return self._inodes.get(info.st_ino)

    def _open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        with self._lock:
            unnamed = flags & os.O_TMPFILE == os.O_TMPFILE
            before = self._find_thing(path, dir_fd)
            fd: int = self._real["open"](path, flags, mode, dir_fd=dir_fd)
            thing = before
            if unnamed and before is not None:
                thing = self._make(os.fstat(fd))
            elif before is None and flags & os.O_CREAT:
                folder, name = self._find_folder(os.fspath(path), dir_fd)
                if folder is not None:
                    thing = self._make(os.fstat(fd))
                    self.log.append(Named(folder, name, thing))
            elif before is not None and flags & os.O_TRUNC:
                self.log.append(Resized(before, 0))
            if thing is not None:
                self._opened[fd] = thing
            return fd

    def _close(self, fd: int) -> None:
        with self._lock:
            self._opened.pop(fd, None)
            self._real["close"](fd)

    def _write(self, fd: int, data: Any) -> int:
        if fd not in self._opened:
            return int(self._real["write"](fd, data))
        with self._lock:
            written: int = self._real["write"](fd, data)
            end = os.lseek(fd, 0, os.SEEK_CUR)
            self.log.append(Written(self._opened[fd], end - written, bytes(data[:written])))
            return written

    def _writev(self, fd: int, buffers: Any) -> int:
        if fd not in self._opened:
            return int(self._real["writev"](fd, buffers))
        with self._lock:
            written: int = self._real["writev"](fd, buffers)
            end = os.lseek(fd, 0, os.SEEK_CUR)
            data = b"".join(buffers)[:written]
            self.log.append(Written(self._opened[fd], end - written, data))
            return written

    def _ftruncate(self, fd: int, size: int) -> None:
        with self._lock:
            self._real["ftruncate"](fd, size)
            if fd in self._opened:
                self.log.append(Resized(self._opened[fd], size))

    def _fsync(self, fd: int) -> None:
        self._sync("fsync", fd)

    def _fdatasync(self, fd: int) -> None:
        self._sync("fdatasync", fd)

    def _sync(self, name: str, fd: int) -> None:
        with self._lock:
            thing, upto = self._opened.get(fd), len(self.log)
        self._real[name](fd)
        kind = "folder" if modes.S_ISDIR(os.fstat(fd).st_mode) else name
        if thing is not None and kind not in self._forgets:
            what = "folder" if kind == "folder" else "file"
            with self._lock:
                self.log.append(Synced(thing, upto, f"{find_writer()}, {what}"))

    def _mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        with self._lock:
            self._real["mkdir"](path, mode, dir_fd=dir_fd)
            folder, name = self._find_folder(os.fspath(path), dir_fd)
            if folder is not None:
                thing = self._make(os.stat(path, dir_fd=dir_fd))
                self.log.append(Named(folder, name, thing))

    def _link(
        self,
        src: str,
        dst: str,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
        follow_symlinks: bool = True,
    ) -> None:
        with self._lock:
            thing = self._find_thing(src, src_dir_fd)
            self._real["link"](
                src,
                dst,
                src_dir_fd=src_dir_fd,
                dst_dir_fd=dst_dir_fd,
                follow_symlinks=follow_symlinks,
            )
            folder, name = self._find_folder(dst, dst_dir_fd)
            if folder is not None and thing is not None:
                self.log.append(Named(folder, name, thing))

    def _rename(
        self, src: str, dst: str, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None
    ) -> None:
        with self._lock:
            thing = self._find_thing(src, src_dir_fd)
            self._real["rename"](src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
            before, old = self._find_folder(src, src_dir_fd)
            folder, name = self._find_folder(dst, dst_dir_fd)
            if folder is None or before is None or thing is None:
                return
            if folder == before:
                self.log.append(Named(folder, name, thing, ceased=old))
            else:
                self.log += [Named(folder, name, thing), Unnamed(before, old)]

    def _remove(self, call: str, path: Any, *, dir_fd: int | None = None) -> None:
        with self._lock:
            folder, name = self._find_folder(os.fspath(path), dir_fd)
            self._real[call](path, dir_fd=dir_fd)
            if folder is not None:
                self.log.append(Unnamed(folder, name))


_THREADS = "agentd.core.threads"
"""The module of the threads that others' functions run in."""


def find_writer() -> str:
    """Return the function that wants a sync: one outside of the storage, or else the journals'."""
    callers = find_callers()
    journals = [one for one in callers if one.startswith("storage.journal.")]
    return journals[0] if journals and callers[-1].startswith("storage.") else callers[-1]


def find_callers() -> list[str]:
    """Return the daemon's functions that make a call, up to the one outside of the storage."""
    frame, found = sys._getframe(), list[str]()
    while (frame := frame.f_back) is not None:  # type: ignore[assignment]
        module = str(frame.f_globals.get("__name__"))
        if module.startswith("agentd.") and module != _THREADS:
            found.append(f"{module.removeprefix('agentd.')}.{frame.f_code.co_qualname}")
            if not module.startswith("agentd.storage"):
                break
    return found or [""]
