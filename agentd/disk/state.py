"""The state folder as a whole: one daemon each, one format, and taking stock at start."""

import contextlib
import logging
import os
import stat as modes

import msgspec
from filelock import FileLock, Timeout
from msgspec import Struct

from agentd import ids
from agentd.chats.fold import Summary
from agentd.clock import Timestamp
from agentd.disk.document import Document, make_folder, read, replace, sweep, trouble
from agentd.disk.index import read_index, write_index
from agentd.disk.layout import Layout
from agentd.disk.lines import Broken, seal, unseal
from agentd.disk.lives import begin_life
from agentd.disk.load import take_stock
from agentd.disk.trash import adopt
from agentd.errors import AgentdError, Conflict, Misconfigured, Mistake
from agentd.ids import Lives, Marks, Sequences

log = logging.getLogger(__name__)

FORMAT = 2
"""The format that this version writes; it reads none that is newer. 2 knows more records."""
_SMALL = 64 * 1024
_FORMAT_REMEDY = "restore it from a copy; or delete it, if no newer agentd ever served this folder"
_IDS_REMEDY = "restore it, or delete it together with index.json"

PATIENCE = 1.0
"""Seconds after which a lock that is held is another daemon's: when one is killed, a program that
it was just starting holds its files for a moment longer."""


class Format(Struct, frozen=True):
    """What ``FORMAT`` holds. ``generation`` tells one history of the folder from another."""

    format: int
    min_reader: int
    generation: str


class Daemon(Struct, frozen=True):
    """What ``daemon.json`` holds: who serves this folder, and where."""

    pid: int
    url: str
    since: Timestamp


class State(Struct):
    """An opened state folder."""

    layout: Layout
    lock: FileLock | None
    """Held until ``release``; None where the folder cannot be written."""
    inode: int
    """The lock file's, as it was when it was locked."""
    sequences: Sequences
    chats: dict[int, Summary]
    generation: str
    """Tells this folder, and every copy of it, from any other."""
    lives: Lives
    """Which run of the daemon wrote which records."""

    def announce(self, daemon: Daemon) -> None:
        """Tell other programs of this machine where the daemon listens. Blocking."""
        if self.lock:
            replace(self.layout.daemon, msgspec.json.encode(daemon) + b"\n")

    def save(self, chats: list[Summary]) -> None:
        """Store the index, for a cheap start. Blocking; a failure is only logged."""
        if not self.lock or not self.holds_lock():
            return
        try:
            write_index(self.layout.index, self.sequences.used, chats)
        except AgentdError as error:
            log.warning("the index was not written: %s", error)

    def holds_lock(self) -> bool:
        """False once the lock file was removed or replaced by another hand. Blocking."""
        return self.lock is None or _inode(self.layout.daemon_lock) == self.inode

    def release(self) -> None:
        """The daemon has stopped: nothing is written any more. Blocking."""
        if not self.lock:
            return
        if self.holds_lock():  # else these may be another daemon's by now
            with contextlib.suppress(AgentdError):  # a rest of the block is skipped at worst
                replace(self.layout.ids, seal(self.sequences.used))
            with contextlib.suppress(OSError):
                os.unlink(self.layout.daemon)
        self.lock.release()


def open_state(layout: Layout) -> State:
    """Take the state folder for this daemon alone, and take stock of it. Blocking.

    Raises ``Conflict`` when another daemon has it, ``Misconfigured`` for a newer format or
    folders that others may write, ``Unavailable`` when it cannot be read. A folder that cannot
    be written is served for reading only.
    """
    writable = _writable(layout)
    lock = _lock(layout) if writable else None
    try:
        generation = _check_format(layout, writable=writable)
        if writable:
            make_folder(layout.chats)
            sweep(layout.state)
            adopt(layout)
        index = read_index(layout.index)
        known = {summary.id: summary for summary in index.chats}
        chats, seen = take_stock(layout, known, mend=writable)
        marks = stored_marks(layout).merged(index.highest).merged(seen)
        there = max((chat.seq for chat in chats.values()), default=0)
        lives = begin_life(layout.lives, marks.seq, there, writable=writable)
    except BaseException:
        if lock:
            lock.release()
        raise
    inode = _inode(layout.daemon_lock)
    return State(layout, lock, inode, Sequences(marks), chats, generation, lives)


def _inode(path: str) -> int:
    try:
        return os.stat(path, follow_symlinks=False).st_ino
    except OSError:
        return 0


def announced(layout: Layout) -> Daemon | None:
    """The daemon that last announced itself; it may be gone. Blocking."""
    document = read(layout.daemon, _SMALL)
    if document is None:
        return None
    try:
        return msgspec.json.decode(document.data, type=Daemon)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _writable(layout: Layout) -> bool:
    """Make the folder where it is missing, and look whether it is ours alone to write."""
    try:
        make_folder(layout.state)
        info = os.stat(layout.state)
    except OSError as error:
        raise trouble(layout.state, "read", error) from error
    us = os.geteuid()
    if info.st_uid != us:
        what = f"belongs to user id {info.st_uid}, agentd runs as {us}"
        raise Misconfigured([Mistake(layout.state, 0, f"{what}; chown -R {us} {layout.state}")])
    if info.st_mode & (modes.S_IWGRP | modes.S_IWOTH):
        what = f"can be written by others; chmod go-w {layout.state}"
        raise Misconfigured([Mistake(layout.state, 0, what)])
    if os.access(layout.state, os.W_OK):
        return True
    log.error("%s cannot be written: only reading works", layout.state)
    return False


def _lock(layout: Layout) -> FileLock:
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
        other = announced(layout)
        who = f"process {other.pid} on {other.url}" if other else "another process"
        raise Conflict(
            f"{layout.state} is served by {who} already",
            "One daemon serves a state folder; name another with --state.",
        ) from None
    except IsADirectoryError as error:
        what = f"is a folder; a file was expected: rmdir {layout.daemon_lock}"
        raise Misconfigured([Mistake(layout.daemon_lock, 0, what)]) from error
    except OSError as error:
        raise trouble(layout.daemon_lock, "lock", error) from error
    return lock


def _check_format(layout: Layout, *, writable: bool) -> str:
    """Refuse a newer format, bring an older one up to date; the folder's generation."""
    found = stored_format(layout)
    if found is None:
        made = Format(FORMAT, FORMAT, ids.new_generation())
        if writable:
            replace(layout.format, msgspec.json.encode(made) + b"\n")
        return made.generation
    if found.format > FORMAT:
        what = f"is format {found.format}; this version of agentd reads up to {FORMAT}"
        raise Misconfigured([Mistake(layout.format, 1, what)])
    if found.format < FORMAT and writable:  # each line of format 1 is one of format 2
        replace(f"{layout.format}.{found.format}", msgspec.json.encode(found) + b"\n")
        newer = Format(FORMAT, FORMAT, found.generation)
        replace(layout.format, msgspec.json.encode(newer) + b"\n")
    return found.generation


def stored_format(layout: Layout) -> Format | None:
    """What ``FORMAT`` says; None without one. ``Misconfigured`` and ``Unavailable``."""
    document = _read_small(layout.format, _FORMAT_REMEDY)
    if document is None:
        return None
    try:
        return msgspec.json.decode(document.data, type=Format)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        what = f"is damaged ({error}): {_FORMAT_REMEDY}"
        raise Misconfigured([Mistake(layout.format, 1, what)]) from error


def stored_marks(layout: Layout) -> Marks:
    """What ``ids.json`` says; ``Misconfigured`` and ``Unavailable``."""
    document = _read_small(layout.ids, _IDS_REMEDY)
    if document is None:
        return Marks()
    try:
        return msgspec.json.decode(unseal(document.data), type=Marks)
    except (Broken, msgspec.DecodeError) as error:
        what = f"is damaged ({error}); it keeps ids from being used again: {_IDS_REMEDY}"
        raise Misconfigured([Mistake(layout.ids, 1, what)]) from error


def _read_small(path: str, remedy: str) -> Document | None:
    try:
        return read(path, _SMALL)
    except Misconfigured as error:
        raise Misconfigured(
            [Mistake(one.where, one.line, f"{one.what}: {remedy}") for one in error.mistakes]
        ) from error
