"""One file as a whole: read it, know whether it changed, replace it so that no crash shows.

A document is either the old one or the new one, never a half: the new bytes are written and
synced beside it without a name, then renamed over it, then the folder is synced. When
``replace`` returns, the bytes are on the disk; when it raises, the old document is there
(after a failed last sync: one of the two, whole).
"""

import errno
import os
import stat as modes
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from agentd import ids
from agentd.errors import Conflict, Misconfigured, Mistake, Unavailable

TEMPORARY = ".tmp-"
"""How the name of a document that is still being written begins."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CLOEXEC
_WITHOUT_TMPFILE = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL}

_WRONG_KIND = {
    errno.ELOOP: "is a symbolic link; put the file itself there",
    errno.EISDIR: "is a folder; a file was expected: move it away",
    errno.ENOTDIR: "lies below something that is not a folder",
    errno.ENAMETOOLONG: "is too long a name",
}
_NOT_READ = "Try again; should it stay so, look at the kernel's log (dmesg)."
"""Advice where nothing was to be written: there, more space is no help."""
_TROUBLE = {
    errno.ENOSPC: ("disk full", "Free some space, then try again."),
    errno.EDQUOT: ("disk quota used up", "Free some space, then try again."),
    errno.EFBIG: ("the file size limit is reached", "Raise it (ulimit -f), then try again."),
    errno.EROFS: ("read-only file system", "Mount it writable, or name another folder."),
    errno.EACCES: ("not allowed", "Look at its owner and mode: ls -ld."),
    errno.EPERM: ("not allowed", "Look at its owner, mode and attributes: ls -ld, lsattr -d."),
    errno.EIO: ("the disk failed", "Look at the kernel's log before anything else is written."),
    errno.ENOENT: ("no such file or folder", "Make its folder first."),
}
_OF_WRITING = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}


class Stamp(NamedTuple):
    """What tells one version of a file from the next, by one look and without reading it."""

    mtime_ns: int
    ctime_ns: int
    inode: int
    size: int


class Document(NamedTuple):
    """A file's bytes, and the stamp that it had when they were about to be read."""

    data: bytes
    stamp: Stamp


@contextmanager
def told(path: str, verb: str) -> Iterator[None]:
    """Raise an error of the system in our words, as ``trouble`` puts it."""
    try:
        yield
    except OSError as error:
        raise trouble(path, verb, error) from error


def trouble(path: str, verb: str, error: OSError) -> Misconfigured | Unavailable:
    """An error of the system in our words: ``cannot <verb> <path>: <why>``.

    ``Misconfigured`` when a person put the wrong kind of thing there, else ``Unavailable``.
    """
    code = error.errno or 0
    if code in _WRONG_KIND:
        return Misconfigured([Mistake(path, 0, _WRONG_KIND[code])])
    why, help_ = _TROUBLE.get(code, (os.strerror(code), ""))
    if verb in ("read", "sweep", "remove") and code in _OF_WRITING:
        why, help_ = os.strerror(code), _NOT_READ
    if code in (errno.EACCES, errno.EPERM):
        why = f"{why} for user id {os.geteuid()}"
    return Unavailable(f"cannot {verb} {path}: {why}", help_)


def sync_folder(path: str) -> None:
    """Make the names in a folder safe; raises ``OSError``."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def stamp_of(info: os.stat_result) -> Stamp:
    """The stamp in what the system tells about a file."""
    return Stamp(info.st_mtime_ns, info.st_ctime_ns, info.st_ino, info.st_size)


def stamp(path: str) -> Stamp | None:
    """The file's stamp now, by one ``stat`` (2 µs); ``None`` when there is nothing to be seen."""
    try:
        return stamp_of(os.stat(path, follow_symlinks=False))
    except OSError:
        return None


def read(path: str, limit: int, *, guarded: bool = False, private: bool = False) -> Document | None:
    """The document, or ``None`` when it does not exist.

    It must be a regular file of at most ``limit`` bytes. A ``guarded`` one, by which somebody
    is let in, must also be our own and changeable by nobody else; a ``private`` one, which
    holds a secret, readable by nobody else. Raises ``Misconfigured`` or ``Unavailable``.
    """
    with told(path, "read"):
        try:
            descriptor = os.open(path, _READ)
        except FileNotFoundError:
            return None
        try:
            info = os.fstat(descriptor)
            _refuse_wrong_kind(path, info)
            if guarded:
                _refuse_open_door(path, info)
            if private:
                _refuse_open_book(path, info)
            data = _read_up_to(descriptor, limit + 1)
        finally:
            os.close(descriptor)
    if len(data) > limit:
        raise Misconfigured([Mistake(path, 0, f"is larger than {limit} bytes")])
    return Document(data, stamp_of(info))


_ANY: Final = Stamp(0, 0, 0, -1)


def replace(path: str, data: bytes, *, expected: Stamp | None = _ANY, mode: int = 0o600) -> None:
    """Write the document anew, atomically and durably.

    ``expected`` is the stamp of the version that the new bytes were made from (``None``: there
    was none); when somebody else wrote in between, it is a ``Conflict`` and theirs stays.
    Raises ``Unavailable`` when the disk does not take it; the old document is then untouched.
    """
    with told(path, "write"), _folder_of(path) as folder:
        name = os.path.basename(path)
        temporary = _written(folder, name, data, mode)
        try:
            if expected is not _ANY and stamp(path) != expected:
                raise Conflict(f"{path} was changed by somebody else meanwhile")
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(temporary, dir_fd=folder)
            raise
        os.fsync(folder)


def create(path: str, data: bytes, *, mode: int = 0o600) -> None:
    """Write a document that does not exist yet; ``Conflict`` when it does, whoever made it."""
    with told(path, "write"), _folder_of(path) as folder:
        name = os.path.basename(path)
        temporary = _written(folder, name, data, mode)
        try:
            os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except FileExistsError as error:
            raise Conflict(f"{path} exists already") from error
        finally:
            os.unlink(temporary, dir_fd=folder)
        os.fsync(folder)


def make_folder(path: str) -> None:
    """Make a folder of ours, and those above it, for nobody else to enter; it may exist."""
    with told(path, "make"):
        missing = []
        above = os.path.abspath(path)
        while not os.path.isdir(above):
            missing.append(above)
            above = os.path.dirname(above)
        for folder in reversed(missing):
            with suppress(FileExistsError):
                os.mkdir(folder, 0o700)
            with _folder_of(folder) as parent:
                os.fsync(parent)


def sweep(folder: str) -> None:
    """Remove what a crash left half written; called at start, before anything writes there."""
    with told(folder, "sweep"):
        for name in os.listdir(folder):
            if name.startswith(TEMPORARY):
                os.unlink(os.path.join(folder, name))


def _refuse_wrong_kind(path: str, info: os.stat_result) -> None:
    if not modes.S_ISREG(info.st_mode):
        raise Misconfigured([Mistake(path, 0, "is not a regular file: move it away")])


def _refuse_open_door(path: str, info: os.stat_result) -> None:
    """Whoever may write the keys may let himself in."""
    us = os.geteuid()
    if info.st_uid != us:
        what = f"belongs to user id {info.st_uid}, agentd runs as {us}; chown {us} {path}"
    elif info.st_mode & (modes.S_IWGRP | modes.S_IWOTH):
        what = f"can be written by others; chmod go-w {path}"
    elif info.st_nlink > 1:
        what = "has another name (a hard link), through which it can be changed; remove that"
    else:
        return
    raise Misconfigured([Mistake(path, 0, what)])


def _refuse_open_book(path: str, info: os.stat_result) -> None:
    if info.st_mode & 0o077:
        what = f"holds a secret, and others can read or change it; chmod 600 {path}"
        raise Misconfigured([Mistake(path, 0, what)])


def _read_up_to(descriptor: int, size: int) -> bytes:
    parts = []
    while size and (part := os.read(descriptor, size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


@contextmanager
def _folder_of(path: str) -> Iterator[int]:
    folder = os.path.dirname(path) or "."
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _written(folder: int, name: str, data: bytes, mode: int) -> str:
    """Write and sync the bytes under a temporary name in the same folder, and return that name.

    The file has no name until it is whole, where the file system can do that: neither a crash
    nor a copy of the folder then meets a half one.
    """
    temporary = f"{TEMPORARY}{name}-{ids.new_request_id()}"
    try:
        descriptor = os.open(".", _WRITE | os.O_TMPFILE, mode, dir_fd=folder)
    except OSError as error:
        if error.errno not in _WITHOUT_TMPFILE:
            raise
        return _written_by_name(folder, temporary, data, mode)
    try:
        _write(descriptor, data)
        # Without src_dir_fd CPython calls link(2), which refuses this source with EXDEV.
        source = f"/proc/self/fd/{descriptor}"
        os.link(source, temporary, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(descriptor)
    return temporary


def _written_by_name(folder: int, temporary: str, data: bytes, mode: int) -> str:
    flags = _WRITE | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    descriptor = os.open(temporary, flags, mode, dir_fd=folder)
    try:
        _write(descriptor, data)
    except BaseException:
        os.unlink(temporary, dir_fd=folder)
        raise
    finally:
        os.close(descriptor)
    return temporary


def _write(descriptor: int, data: bytes) -> None:
    write_all(descriptor, data)
    os.fsync(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it, however little the kernel takes at once. Not synced; raises ``OSError``."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
