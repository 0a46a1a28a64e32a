"""The journal of management changes: checksummed lines, newest last, and undo files.

The journal contains no secrets. What is needed to undo a change does, so it is kept in one private
file for each of the last changes: encrypted, so that a supplier's old key is never on disk in the
clear, and deleted after some days.
"""

import asyncio
import errno
import hmac
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from hashlib import sha256

import msgspec

from agentd.core.clock import Clock, Timestamp, parse_iso
from agentd.core.encryption import decrypt, encrypt
from agentd.core.errors import (
    AgentdError,
    BadRequest,
    ConfigProblem,
    Conflict,
    NotFound,
    Unavailable,
)
from agentd.gateway.admin.changes import (
    ChangeFilter,
    ChangePage,
    ChangeRecord,
    ChangeRequest,
    MaskedFields,
    UndoRecord,
)
from agentd.gateway.ledger.day_file import iter_lines_backwards
from agentd.storage import document
from agentd.storage.checksummed_json import ChecksumMismatch, decode_checksummed, encode_checksummed
from agentd.storage.document import make_folder
from agentd.storage.layout import Layout

log = logging.getLogger(__name__)

MAX_UNDO = 1000
"""Number of changes that can be undone."""
UNDO_DAYS = 7
"""Days for which a change can be undone."""

MAX_LIMIT = 200
"""Maximum size of a page."""

_LIMIT = 1024 * 1024
_WRITE = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TAG = 16
_changes = msgspec.json.Decoder(ChangeRecord)
_kept = msgspec.json.Decoder(UndoRecord)


class ChangeJournal:
    """The change journal; ``hold`` it, or its ``lock``, while changing something."""

    def __init__(self, layout: Layout, clock: Clock) -> None:
        self.lock = asyncio.Lock()
        self.on_change: Callable[[ChangeRecord], None] = lambda change: None
        """Called on the loop after a change was logged."""
        self._layout = layout
        self._clock = clock
        self._number = 0
        self._secret = b""

    @asynccontextmanager
    async def hold(self, request: ChangeRequest) -> AsyncIterator[None]:
        """Hold the lock for a request's change.

        Raises ``Unauthorized`` or ``Forbidden`` if the caller's key or login was revoked while the
        request waited for its turn.
        """
        async with self.lock:
            await request.confirm_caller()
            yield

    @property
    def last_number(self) -> int:
        """The number of the last change; 0: there is none."""
        return self._number

    async def open(self, secret: bytes) -> None:
        """Read the number of the last change. ``secret`` is the key of tags and undo files.

        A journal that cannot be read is only logged.
        """
        self._secret = secret
        try:
            last = await asyncio.to_thread(self._read_last_number)
        except AgentdError as error:
            log.error("the journal of changes cannot be read: %s", error.message)
            last = 0
        self._number = max(last, await asyncio.to_thread(find_last_undo, self._layout))

    def create_tag(self, content: bytes) -> str:
        """Return a keyed hash of some content, for ETags."""
        return hmac.new(self._secret, content, sha256).hexdigest()[:_TAG]

    async def append(
        self,
        request: ChangeRequest,
        action: str,
        resource: str,
        name: str,
        *,
        before: MaskedFields | None = None,
        after: MaskedFields | None = None,
        undo: UndoRecord | None = None,
        undoes: int | None = None,
    ) -> ChangeRecord:
        """Log a change made under the lock, unless it is a dry run.

        When this returns, the line survives a power cut. Raises ``Unavailable``.
        """
        change = ChangeRecord(
            number=self._number + 1,
            at=self._clock.now(),
            by=request.by,
            remote=request.remote,
            action=action,
            resource=resource,
            name=name,
            before=before,
            after=after,
            undoes=undoes,
        )
        if not request.dry_run:
            try:
                await asyncio.to_thread(self._write, change, undo)
            except AgentdError as error:
                raise Unavailable(
                    "The change was made and is in effect, but could not be logged", error.message
                ) from error
            self.on_change(change)
        return change

    async def read_page(self, wanted: ChangeFilter, limit: int, cursor: str = "") -> ChangePage:
        """Return up to ``limit`` changes backwards from a ``cursor`` (another page's ``next``).

        Raises ``BadRequest`` for an invalid cursor, and ``Unavailable``.
        """
        if cursor and not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 16):
            raise BadRequest("Invalid cursor", "Use the 'next' of the previous page.")
        return await asyncio.to_thread(
            self._list_page, wanted, min(limit, MAX_LIMIT), int(cursor or 0)
        )

    async def has_undo(self, number: int) -> bool:
        """Return whether a change can be undone."""
        return await asyncio.to_thread(self._has_undo, number)

    async def get_undo(self, number: int) -> UndoRecord:
        """Return a change's undo data. ``NotFound``, or ``Conflict`` if it cannot be undone."""
        if not 0 < number <= self._number:
            raise NotFound(f"There is no change {number}; the last one is {self._number}")
        found = await asyncio.to_thread(
            document.read_document, self._layout.get_undo_path(number), _LIMIT, private=True
        )
        if found is None or not found.data:
            raise Conflict(
                f"Change {number} cannot be undone",
                f"Only the last {MAX_UNDO} of {UNDO_DAYS} days can be, and only those of what is"
                " written in files.",
            )
        try:
            content = await asyncio.to_thread(_decrypt, self._secret, number, found.data)
            return _kept.decode(content)
        except (ValueError, msgspec.DecodeError) as error:
            raise Conflict(
                f"Change {number} cannot be undone",
                "What it could be undone by is damaged, or of another proxy/seed.",
            ) from error

    async def purge_undo(self, now: Timestamp) -> None:
        """Delete old undo files. A failure is only logged."""
        await asyncio.to_thread(self._purge, now)

    # The methods below block.

    def _write(self, change: ChangeRecord, undo: UndoRecord | None) -> None:
        # In this order no crash leaves an undo file of a change that is not in the journal.
        self._append(encode_checksummed(change))
        self._number = change.number
        if undo:
            path = self._layout.get_undo_path(change.number)
            make_folder(os.path.dirname(path))
            content = _encrypt(self._secret, change.number, msgspec.json.encode(undo))
            document.replace_document(path, content)
        with suppress(OSError):
            os.unlink(self._layout.get_undo_path(change.number - MAX_UNDO))

    def _purge(self, now: Timestamp) -> None:
        folder = os.path.dirname(self._layout.get_undo_path(0))
        oldest = (parse_iso(now) - timedelta(days=UNDO_DAYS)).timestamp()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    # Earlier versions did not encrypt these.
                    if entry.name.endswith(".json"):
                        os.unlink(entry.path)
                    elif entry.stat().st_mtime >= oldest:
                        continue
                    elif entry.path == self._layout.get_undo_path(self._number):
                        os.truncate(entry.path, 0)  # its name has the number of changes
                    else:
                        os.unlink(entry.path)
        except FileNotFoundError:
            pass
        except OSError as error:
            log.warning("%s cannot be cleared of old changes: %s", folder, error.strerror)

    def _append(self, line: bytes) -> None:
        path = self._layout.changes
        make_folder(os.path.dirname(path))
        with document.translate_os_errors(path, "write"):
            fd = os.open(path, _WRITE, 0o600)
            try:
                size = os.fstat(fd).st_size
                if size and os.pread(fd, 1, size - 1) != b"\n":  # it was cut short
                    line = b"\n" + line
                if os.write(fd, line) < len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(fd)
            finally:
                os.close(fd)

    def _list_page(self, wanted: ChangeFilter, limit: int, before: int) -> ChangePage:
        found: list[ChangeRecord] = []
        for change in self._iter_backwards():
            if (before and change.number >= before) or not wanted.matches(change):
                continue
            if len(found) == limit:
                return self._make_page(found, str(found[-1].number))
            found.append(change)
        return self._make_page(found, "")

    def _make_page(self, items: list[ChangeRecord], after: str) -> ChangePage:
        undoable = frozenset(one.number for one in items if self._has_undo(one.number))
        return ChangePage(items, after, undoable)

    def _has_undo(self, number: int) -> bool:
        try:
            return os.stat(self._layout.get_undo_path(number)).st_size > 0
        except OSError:
            return False

    def _read_last_number(self) -> int:
        return next((change.number for change in self._iter_backwards()), 0)

    def _iter_backwards(self) -> Iterator[ChangeRecord]:
        """Iterate over changes, newest first; corrupt lines are skipped."""
        path = self._layout.changes
        with document.translate_os_errors(path, "read"):
            try:
                fd = os.open(path, _READ)
            except FileNotFoundError:
                return
            try:
                for _, line in iter_lines_backwards(fd, os.fstat(fd).st_size):
                    with suppress(ChecksumMismatch, msgspec.DecodeError):
                        yield _changes.decode(decode_checksummed(line))
            finally:
                os.close(fd)


def check_undo(secret: bytes, number: int, data: bytes) -> None:
    """Raise ``ChecksumMismatch`` if an undo file cannot be decrypted."""
    try:
        if data:  # else it is old, and only its name is kept
            _decrypt(secret, number, data)
    except ValueError as error:
        raise ChecksumMismatch("it was altered, or is of another proxy/seed") from error


def _encrypt(secret: bytes, number: int, content: bytes) -> bytes:
    return encrypt(_derive_key(secret), content, str(number).encode())


def _decrypt(secret: bytes, number: int, data: bytes) -> bytes:
    return decrypt(_derive_key(secret), data, str(number).encode())


def _derive_key(secret: bytes) -> bytes:
    return hmac.digest(secret, b"undo", "sha256")


def find_last_undo(layout: Layout) -> int:
    """Return the number of the last change with an undo file; 0: none. Blocking."""
    try:
        names = os.listdir(os.path.dirname(layout.get_undo_path(0)))
    except OSError:
        return 0
    numbers = (name.removesuffix(".enc") for name in names)
    return max((int(one) for one in numbers if one.isascii() and one.isdecimal()), default=0)


def find_gaps(layout: Layout) -> Iterator[ConfigProblem]:
    """Find the places of the journal where changes are missing. Blocking.

    Numbers rise by one, and what undoes a change is kept apart, so a journal that was cut or
    altered is known by its gaps. A line that a crash cut short was never acknowledged: the change
    after it has its number. ``Unavailable`` and ``ConfigError``.
    """
    path = layout.changes
    known = lines = 0
    for lines, line in enumerate(_iter_lines_backwards(path), 1):
        try:
            number = _changes.decode(decode_checksummed(line)).number
        except (ChecksumMismatch, msgspec.DecodeError):
            continue
        if number > known + 1:
            yield _make_missing_problem(path, lines, known + 1, number - 1)
        known = number
    if (highest := find_last_undo(layout)) > known:
        yield _make_missing_problem(path, lines, known + 1, highest)


def _iter_lines_backwards(path: str) -> Iterator[bytes]:
    with document.translate_os_errors(path, "read"), suppress(FileNotFoundError):
        descriptor = os.open(path, _READ)
        with open(descriptor, "rb") as file:
            yield from file


def _make_missing_problem(path: str, line: int, first: int, last: int) -> ConfigProblem:
    which = f"change {first} is" if first == last else f"changes {first} to {last} are"
    return ConfigProblem(
        path, line, f"{which} missing or damaged before the end of this line, and no longer shown;"
        " what holds is untouched: restore the file from a copy, or let it be"
    )  # fmt: skip
