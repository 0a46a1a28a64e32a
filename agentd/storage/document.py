"""A file as a whole: read it, detect changes, replace it atomically and durably.

A document is either the old one or the new one, never half of each: the new bytes are written and
synced beside it without a name, then renamed over it, then the folder is synced. When
``replace_document`` returns, the bytes are on the disk; when it raises, the old document is there
(after a failed last sync: one of the two, whole).
"""

import errno
import grp
import os
import pwd
import stat as modes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from agentd.core import ids
from agentd.core.errors import ConfigError, ConfigProblem, Conflict, Unavailable

TEMPORARY_PREFIX = ".tmp-"
"""The prefix of the name of a document that is still being written."""

NO_FOLDER = "is not a folder; move it away, or name another"
"""The problem of something else in a folder's place."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CLOEXEC
_LEAST_PORTION = 16 * 1024
"""Bytes that are asked for at once at least: a file may have grown since its size was read."""
_WITHOUT_TMPFILE = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL}

_WRONG_KIND = {
    errno.ELOOP: "is a symbolic link; put the file itself there",
    errno.EISDIR: "is a folder; a file was expected: move it away",
    errno.ENOTDIR: "lies below something that is not a folder",
    errno.ENAMETOOLONG: "is too long a name",
}
_READ_ADVICE = "Try again; should it stay so, look at the kernel's log (dmesg)."
"""Advice where nothing was to be written: there, more space is no help."""
_ERRORS = {
    errno.ENOSPC: ("disk full", "Free some space, then try again."),
    errno.EDQUOT: ("disk quota used up", "Free some space, then try again."),
    errno.EFBIG: ("the file size limit is reached", "Raise it (ulimit -f), then try again."),
    errno.EROFS: ("read-only file system", "Mount it writable, or name another folder."),
    errno.EACCES: ("not allowed", "Look at its owner and mode: ls -ld."),
    errno.EPERM: ("not allowed", "Look at its owner, mode and attributes: ls -ld, lsattr -d."),
    errno.EIO: ("the disk failed", "Look at the kernel's log before anything else is written."),
    errno.ENOENT: ("no such file or folder", "Create its folder first."),
}
_WRITE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}


class FileStamp(NamedTuple):
    """Distinguishes one version of a file from the next by one ``stat``, without reading it."""

    mtime_ns: int
    ctime_ns: int
    inode: int
    size: int


class Document(NamedTuple):
    """A file's bytes, and the stamp that it had when they were about to be read."""

    data: bytes
    stamp: FileStamp


@contextmanager
def translate_os_errors(path: str, verb: str) -> Iterator[None]:
    """Raise errors of the system as ``explain_os_error`` renders them."""
    try:
        yield
    except OSError as error:
        raise explain_os_error(path, verb, error) from error


def explain_os_error(path: str, verb: str, error: OSError) -> ConfigError | Unavailable:
    """Return an error that says ``cannot <verb> <path>: <why>``.

    ``ConfigError`` when a person put the wrong kind of file there, else ``Unavailable``.
    """
    code = error.errno or 0
    if code in _WRONG_KIND:
        return ConfigError([ConfigProblem(path, 0, _WRONG_KIND[code])])
    why, help_ = _ERRORS.get(code, (os.strerror(code), ""))
    if verb in ("read", "sweep", "remove") and code in _WRITE_ERRORS:
        why, help_ = os.strerror(code), _READ_ADVICE
    if code in (errno.EACCES, errno.EPERM):
        why = f"{why} for user id {os.geteuid()}"
    return Unavailable(f"cannot {verb} {path}: {why}", help_)


def sync_folder(path: str) -> None:
    """Sync a folder, so that the names in it are durable; raises ``OSError``."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_stamp(info: os.stat_result) -> FileStamp:
    """Return the stamp of a ``stat`` result."""
    return FileStamp(info.st_mtime_ns, info.st_ctime_ns, info.st_ino, info.st_size)


def get_stamp(path: str) -> FileStamp | None:
    """Return the file's current stamp by one ``stat`` (2 µs); ``None`` when it has none."""
    try:
        return make_stamp(os.stat(path, follow_symlinks=False))
    except OSError:
        return None


def read_document(
    path: str, limit: int, *, own: bool = False, private: bool = False
) -> Document | None:
    """Return the document, or ``None`` when it does not exist.

    It must be a regular file of at most ``limit`` bytes. With ``own``, for files that grant access,
    it must belong to us or to root and be writable by nobody else; with ``private``, for files that
    hold a secret, readable by nobody else. Raises ``ConfigError`` or ``Unavailable``.
    """
    with translate_os_errors(path, "read"):
        try:
            descriptor = os.open(path, _READ)
        except FileNotFoundError:
            return None
        try:
            info = os.fstat(descriptor)
            _refuse_wrong_kind(path, info)
            if own:
                _refuse_shared_write(path, info)
            if private:
                _refuse_shared_read(path, info)
            data = _read_up_to(descriptor, limit + 1, info.st_size)
        finally:
            os.close(descriptor)
    if len(data) > limit:
        raise ConfigError([ConfigProblem(path, 0, f"is larger than {limit} bytes")])
    return Document(data, make_stamp(info))


_ANY: Final = FileStamp(0, 0, 0, -1)


def replace_document(
    path: str, data: bytes, *, expected: FileStamp | None = _ANY, mode: int = 0o600
) -> None:
    """Replace the document atomically and durably.

    ``expected`` is the stamp of the version that the new bytes were made from (``None``: there
    was none); when somebody else wrote in between, it is a ``Conflict`` and theirs stays.
    Raises ``Unavailable`` when the disk does not take it; the old document is then untouched, or
    replaced all the same if only the sync of the folder failed.
    """
    with translate_os_errors(path, "write"), _open_folder_of(path) as folder:
        name = os.path.basename(path)
        temporary = _write_temporary(folder, name, data, mode)
        try:
            if expected is not _ANY and get_stamp(path) != expected:
                raise Conflict(f"{path} was changed by somebody else meanwhile")
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(temporary, dir_fd=folder)
            raise
        os.fsync(folder)


def create_document(path: str, data: bytes, *, mode: int = 0o600) -> None:
    """Write a document that does not exist yet; ``Conflict`` if it does."""
    with translate_os_errors(path, "write"), _open_folder_of(path) as folder:
        name = os.path.basename(path)
        temporary = _write_temporary(folder, name, data, mode)
        try:
            os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except FileExistsError as error:
            raise Conflict(f"{path} exists already") from error
        finally:
            os.unlink(temporary, dir_fd=folder)
        os.fsync(folder)


def can_others_write(info: os.stat_result) -> bool:
    """Return whether anybody but its owner may write to a file or folder. May block.

    A group of the owner alone does not count: many systems give everybody one, and let it write to
    whatever they make (umask 002).
    """
    by_group = info.st_mode & modes.S_IWGRP and not _is_own_group(info.st_gid, info.st_uid)
    return bool(by_group or info.st_mode & modes.S_IWOTH)


def _is_own_group(group: int, user: int) -> bool:
    try:
        person, found = pwd.getpwuid(user), grp.getgrgid(group)
    except KeyError:  # a number without a name
        return False
    is_named_so = person.pw_gid == group and found.gr_name == person.pw_name
    return is_named_so and set(found.gr_mem) <= {person.pw_name}


def make_folder(path: str) -> None:
    """Create a private folder and its parents, durably; it may exist."""
    with translate_os_errors(path, "make"):
        missing = []
        above = os.path.abspath(path)
        while not os.path.isdir(above):
            missing.append(above)
            above = os.path.dirname(above)
        for folder in reversed(missing):
            try:
                os.mkdir(folder, 0o700)
            except FileExistsError:
                if not os.path.isdir(folder):
                    raise ConfigError([ConfigProblem(folder, 0, NO_FOLDER)]) from None
            with _open_folder_of(folder) as parent:
                os.fsync(parent)


def remove_temporaries(folder: str) -> None:
    """Remove temporary files that a crash left; call it at start, before anything writes there."""
    with translate_os_errors(folder, "sweep"):
        for name in os.listdir(folder):
            if name.startswith(TEMPORARY_PREFIX):
                os.unlink(os.path.join(folder, name))


def _refuse_wrong_kind(path: str, info: os.stat_result) -> None:
    if not modes.S_ISREG(info.st_mode):
        raise ConfigError([ConfigProblem(path, 0, "is not a regular file: move it away")])


def _refuse_shared_write(path: str, info: os.stat_result) -> None:
    """Refuse a file of keys that others can write: they could add their own.

    Root's files are accepted, since root can do that anyway.
    """
    us = os.geteuid()
    if info.st_uid not in (us, 0):
        what = f"belongs to user id {info.st_uid}, agentd runs as {us}; chown {us} {path}"
    elif can_others_write(info):
        what = f"can be written by others; chmod go-w {path}"
    elif info.st_nlink > 1:
        what = "has another name (a hard link), through which it can be changed; remove that"
    else:
        return
    raise ConfigError([ConfigProblem(path, 0, what)])


def _refuse_shared_read(path: str, info: os.stat_result) -> None:
    if info.st_mode & 0o077:
        what = f"holds a secret, and others can read or change it; chmod 600 {path}"
        raise ConfigError([ConfigProblem(path, 0, what)])


def _read_up_to(descriptor: int, size: int, expected: int) -> bytes:
    """Return at most ``size`` bytes, of about as many as are ``expected``.

    Python makes a buffer of the bytes that it is to read at most, however few there are.
    """
    parts = []
    portion = max(expected + 1, _LEAST_PORTION)
    while size and (part := os.read(descriptor, min(size, portion))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


@contextmanager
def _open_folder_of(path: str) -> Iterator[int]:
    folder = os.path.dirname(path) or "."
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _write_temporary(folder: int, name: str, data: bytes, mode: int) -> str:
    """Write and sync the bytes under a temporary name in the same folder, and return that name.

    The file has no name until it is whole, where the file system can do that: neither a crash
    nor a copy of the folder then meets a half one.
    """
    temporary = f"{TEMPORARY_PREFIX}{name}-{ids.generate_request_id()}"
    try:
        descriptor = os.open(".", _WRITE | os.O_TMPFILE, mode, dir_fd=folder)
    except OSError as error:
        if error.errno not in _WITHOUT_TMPFILE:
            raise
        return _write_named_temporary(folder, temporary, data, mode)
    try:
        _write_and_sync(descriptor, data)
        # Without src_dir_fd CPython calls link(2), which refuses this source with EXDEV.
        source = f"/proc/self/fd/{descriptor}"
        os.link(source, temporary, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(descriptor)
    return temporary


def _write_named_temporary(folder: int, temporary: str, data: bytes, mode: int) -> str:
    flags = _WRITE | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    descriptor = os.open(temporary, flags, mode, dir_fd=folder)
    try:
        _write_and_sync(descriptor, data)
    except BaseException:
        os.unlink(temporary, dir_fd=folder)
        raise
    finally:
        os.close(descriptor)
    return temporary


def _write_and_sync(descriptor: int, data: bytes) -> None:
    write_all(descriptor, data)
    os.fsync(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it, however little the kernel takes at once. Not synced; raises ``OSError``."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
