"""The state folder as a whole: one daemon each, one format, and taking stock at start."""

import contextlib
import fcntl
import logging
import os

import msgspec
from filelock import FileLock, Timeout
from msgspec import Struct, structs

from agentd.chats.index import read_index, write_index
from agentd.chats.load import scan_chats
from agentd.chats.state import ChatSummary
from agentd.chats.trash_store import migrate_old_trash
from agentd.core import ids
from agentd.core.clock import Timestamp
from agentd.core.errors import AgentdError, ConfigError, ConfigProblem, Conflict
from agentd.core.ids import HighWaterMarks, RunHistory, Sequences
from agentd.storage.checksummed_json import ChecksumMismatch, decode_checksummed, encode_checksummed
from agentd.storage.document import (
    Document,
    can_others_write,
    explain_os_error,
    make_folder,
    read_document,
    remove_temporaries,
    replace_document,
)
from agentd.storage.layout import Layout
from agentd.storage.runs import begin_run

log = logging.getLogger(__name__)

FORMAT = 3
"""The format that this version writes; it reads none that is newer. Each knows more
records than the one before."""
_MAX_SIZE = 64 * 1024
_FORMAT_REMEDY = "restore it from a copy; or delete it, if no newer agentd ever served this folder"
_IDS_REMEDY = "restore it, or delete it together with index.json"

PATIENCE = 1.0
"""Seconds after which a lock that is held is another daemon's: when one is killed, a program that
it was just starting holds its files for a moment longer."""


class FormatFile(Struct, frozen=True):
    """The contents of ``FORMAT``. ``generation`` distinguishes histories of the folder."""

    format: int
    min_reader: int
    generation: str


class DaemonInfo(Struct, frozen=True):
    """The contents of ``daemon.json``: the process that serves this folder, and its URLs."""

    pid: int
    url: str
    since: Timestamp
    public_url: str = ""
    """The URL for browsers; empty: ``url``."""
    lock_inode: int = 0
    """The inode of the lock file that it holds, which a copy of the folder does not have; 0: an
    earlier version wrote this."""
    workspace: str = ""
    """The folder that its agents work in; empty: an earlier version wrote this."""


class State(Struct):
    """An opened state folder."""

    layout: Layout
    lock: FileLock | None
    """Held until ``release``; None where the folder cannot be written."""
    inode: int
    """The lock file's, as it was when it was locked."""
    sequences: Sequences
    chats: dict[int, ChatSummary]
    generation: str
    """Identifies this folder and every copy of it."""
    runs: RunHistory
    """The history of daemon runs: the range of records each one wrote."""

    def announce(self, daemon: DaemonInfo) -> None:
        """Write the daemon's addresses for other programs of this machine. Blocking."""
        if self.lock:
            announced = structs.replace(daemon, lock_inode=self.inode)
            replace_document(self.layout.daemon, msgspec.json.encode(announced) + b"\n")

    def save(self, chats: list[ChatSummary]) -> None:
        """Store the index, for a cheap start. Blocking; a failure is only logged."""
        if not self.lock or not self.holds_lock():
            return
        try:
            write_index(self.layout.index, self.sequences.used, chats)
        except AgentdError as error:
            log.warning("the index was not written: %s", error)

    def holds_lock(self) -> bool:
        """Return False once the lock file was removed or replaced by somebody else. Blocks."""
        return self.lock is None or _get_inode(self.layout.daemon_lock) == self.inode

    def release(self) -> None:
        """Save the identifiers and release the lock, as the last write of the daemon. Blocks."""
        if not self.lock:
            return
        if self.holds_lock():  # otherwise the files may belong to another daemon by now
            with contextlib.suppress(AgentdError):  # at worst, reserved identifiers are skipped
                replace_document(self.layout.ids, encode_checksummed(self.sequences.used))
            with contextlib.suppress(OSError):
                os.unlink(self.layout.daemon)
        self.lock.release()


def open_state(layout: Layout) -> State:
    """Take the state folder for this daemon alone, and take stock of it. Blocking.

    Raises ``Conflict`` when another daemon has it, ``ConfigError`` for a newer format or
    folders that others may write, ``Unavailable`` when it cannot be read. A folder that cannot
    be written is served for reading only.
    """
    writable = _prepare_folder(layout)
    lock = _acquire_lock(layout) if writable else None
    try:
        generation = _check_format(layout, writable=writable)
        if writable:
            make_folder(layout.chats)
            remove_temporaries(layout.state)
            migrate_old_trash(layout)
        index = read_index(layout.index)
        known = {summary.id: summary for summary in index.chats}
        chats, seen = scan_chats(layout, known, repair=writable)
        marks = read_marks(layout).merge(index.highest).merge(seen)
        there = max((chat.seq for chat in chats.values()), default=0)
        runs = begin_run(layout.runs, marks.seq, there, writable=writable)
    except BaseException:
        if lock:
            lock.release()
        raise
    inode = _get_inode(layout.daemon_lock)
    return State(layout, lock, inode, Sequences(marks), chats, generation, runs)


def _get_inode(path: str) -> int:
    try:
        return os.stat(path, follow_symlinks=False).st_ino
    except OSError:
        return 0


def read_daemon_info(layout: Layout) -> DaemonInfo | None:
    """Return the daemon that last announced itself; it may be gone. Blocking."""
    document = read_document(layout.daemon, _MAX_SIZE)
    if document is None:
        return None
    try:
        return msgspec.json.decode(document.data, type=DaemonInfo)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def is_served_by(daemon: DaemonInfo, layout: Layout) -> bool:
    """Return whether this daemon holds the folder's lock, unlike in a copy of its folder. Blocking.

    A lock that cannot be tried, such as that of another user, counts as held.
    """
    try:
        lock = os.open(layout.daemon_lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        return not isinstance(error, FileNotFoundError)
    try:
        if daemon.lock_inode not in (0, os.fstat(lock).st_ino):
            return False
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def _prepare_folder(layout: Layout) -> bool:
    """Make the folder where it is missing, and look whether it is ours alone to write."""
    try:
        make_folder(layout.state)
        info = os.stat(layout.state)
    except OSError as error:
        raise explain_os_error(layout.state, "read", error) from error
    us = os.geteuid()
    if info.st_uid != us:
        what = f"belongs to user id {info.st_uid}, agentd runs as {us}"
        raise ConfigError([ConfigProblem(layout.state, 0, f"{what}; chown -R {us} {layout.state}")])
    if can_others_write(info):
        what = f"can be written by others; chmod go-w {layout.state}"
        raise ConfigError([ConfigProblem(layout.state, 0, what)])
    if not os.access(layout.state, os.W_OK):
        log.error("%s cannot be written: only reading works", layout.state)
        return False
    if info.st_mode & 0o077 and not os.path.exists(layout.format):
        with contextlib.suppress(OSError):  # a file system without modes
            os.chmod(layout.state, 0o700)  # a new one, as git or a person has made it
    return True


def _acquire_lock(layout: Layout) -> FileLock:
    """Take the kernel's lock: it dies with its holder, so it is never stale for long."""
    lock = FileLock(
        layout.daemon_lock,
        timeout=PATIENCE,
        mode=0o600,
        thread_local=False,
        fallback_to_soft=False,
        preserve_lock_file=True,
    )
    try:
        lock.acquire()
    except Timeout:
        other = read_daemon_info(layout)
        who = f"process {other.pid} on {other.url}" if other else "another process"
        raise Conflict(
            f"{layout.state} is served by {who} already",
            "One daemon serves a state folder; name another with --state.",
        ) from None
    except IsADirectoryError as error:
        what = f"is a folder; a file was expected: rmdir {layout.daemon_lock}"
        raise ConfigError([ConfigProblem(layout.daemon_lock, 0, what)]) from error
    except OSError as error:
        raise explain_os_error(layout.daemon_lock, "lock", error) from error
    return lock


def _check_format(layout: Layout, *, writable: bool) -> str:
    """Refuse a newer format, bring an older one up to date; the folder's generation."""
    found = read_format(layout)
    if found is None:
        made = FormatFile(FORMAT, FORMAT, ids.generate_generation())
        if writable:
            replace_document(layout.format, msgspec.json.encode(made) + b"\n")
        return made.generation
    if found.format < FORMAT and writable:  # each line of an older one is one of this
        replace_document(f"{layout.format}.{found.format}", msgspec.json.encode(found) + b"\n")
        newer = FormatFile(FORMAT, FORMAT, found.generation)
        replace_document(layout.format, msgspec.json.encode(newer) + b"\n")
    return found.generation


def read_format(layout: Layout) -> FormatFile | None:
    """Return the content of ``FORMAT``, or None.

    Raises ``ConfigError``, also for a newer format, and ``Unavailable``.
    """
    document = _read_small(layout.format, _FORMAT_REMEDY)
    if document is None:
        return None
    try:
        found = msgspec.json.decode(document.data, type=FormatFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        what = f"is damaged ({error}): {_FORMAT_REMEDY}"
        raise ConfigError([ConfigProblem(layout.format, 1, what)]) from error
    if found.format > FORMAT:
        what = f"is format {found.format}; this version of agentd reads up to {FORMAT}"
        raise ConfigError([ConfigProblem(layout.format, 1, what)])
    return found


def read_marks(layout: Layout) -> HighWaterMarks:
    """Return the content of ``ids.json``. ``ConfigError`` and ``Unavailable``."""
    document = _read_small(layout.ids, _IDS_REMEDY)
    if document is None:
        return HighWaterMarks()
    try:
        return msgspec.json.decode(decode_checksummed(document.data), type=HighWaterMarks)
    except (ChecksumMismatch, msgspec.DecodeError) as error:
        what = f"is damaged ({error}); it keeps ids from being used again: {_IDS_REMEDY}"
        raise ConfigError([ConfigProblem(layout.ids, 1, what)]) from error


def _read_small(path: str, remedy: str) -> Document | None:
    try:
        return read_document(path, _MAX_SIZE)
    except ConfigError as error:
        raise ConfigError(
            [ConfigProblem(one.where, one.line, f"{one.what}: {remedy}") for one in error.problems]
        ) from error
