"""The journal of the gateway's changes: sealed lines, the newest last, and what undoes each.

The journal tells no secret. What a change can be undone by holds them, so it stands apart, in one
private file for each of the last changes: encrypted, lest a supplier's old key lies about in the
clear, and removed after some days.
"""

import asyncio
import errno
import hmac
import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from agentd import ids
from agentd.clock import Clock, parse_iso
from agentd.disk import document
from agentd.disk.document import make_folder
from agentd.disk.layout import Layout
from agentd.disk.ledger_file import backwards
from agentd.disk.lines import Broken, seal, unseal
from agentd.errors import AgentdError, BadRequest, Conflict, Mistake, NotFound, Unavailable
from agentd.proxy.management.changes import (
    Change,
    ChangeFilter,
    ChangePage,
    Doing,
    Kept,
    Shown,
)

log = logging.getLogger(__name__)

KEPT = 1000
"""Changes that can be undone: the last ones ..."""
KEPT_DAYS = 7
"""... of so many days."""

MOST = 200
"""Of a page."""

_LIMIT = 1024 * 1024
_WRITE = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TAG = 16
_NONCE = 12
_changes = msgspec.json.Decoder(Change)
_kept = msgspec.json.Decoder(Kept)


class ChangeJournal:
    """Notes changes, one at a time: whoever makes one holds ``turn``."""

    def __init__(self, layout: Layout, clock: Clock) -> None:
        self.turn = asyncio.Lock()
        self._layout = layout
        self._clock = clock
        self._number = 0
        self._secret = b""
        self._cipher: AESGCM

    async def open(self, secret: bytes) -> None:
        """Find out how many changes there were. ``secret`` is what tags are made with.

        A journal that cannot be read is told in the log, and keeps nothing from working.
        """
        self._secret = secret
        self._cipher = _cipher_of(secret)
        try:
            last = await asyncio.to_thread(self._last)
        except AgentdError as error:
            log.error("the journal of changes cannot be read: %s", error.message)
            last = 0
        self._number = max(last, await asyncio.to_thread(highest_undo, self._layout))

    def tag(self, content: bytes) -> str:
        """Another for every other content, from which nobody can find out what it is."""
        return hmac.new(self._secret, content, sha256).hexdigest()[:_TAG]

    async def note(
        self,
        doing: Doing,
        action: str,
        resource: str,
        name: str,
        *,
        before: Shown | None = None,
        after: Shown | None = None,
        kept: Kept | None = None,
        undoes: int | None = None,
    ) -> Change:
        """Write down a change that was made in this turn, unless it was only tried.

        When this returns, it would survive a power cut. Raises ``Unavailable``.
        """
        change = Change(
            number=self._number + 1,
            at=self._clock.now(),
            by=doing.by,
            remote=doing.remote,
            action=action,
            resource=resource,
            name=name,
            before=before,
            after=after,
            undoes=undoes,
        )
        if not doing.dry_run:
            try:
                await asyncio.to_thread(self._write, change, kept)
            except AgentdError as error:
                raise Unavailable(
                    "The change was made, and holds, but could not be noted", error.message
                ) from error
        return change

    async def page(self, wanted: ChangeFilter, limit: int, cursor: str = "") -> ChangePage:
        """At most ``limit`` changes, from a ``cursor`` (the ``next`` of another page) backwards.

        Raises ``BadRequest`` for what is no cursor, and ``Unavailable``.
        """
        if cursor and not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 16):
            raise BadRequest("This is no cursor of a page", "Take the next of the page before.")
        return await asyncio.to_thread(self._page, wanted, min(limit, MOST), int(cursor or 0))

    async def kept(self, number: int) -> Kept:
        """What a change can be undone by. ``NotFound``, and ``Conflict`` when it cannot be."""
        if not 0 < number <= self._number:
            raise NotFound(f"There is no change {number}; the last one is {self._number}")
        found = await asyncio.to_thread(
            document.read, self._layout.undo(number), _LIMIT, private=True
        )
        if found is None or not found.data:
            raise Conflict(
                f"Change {number} cannot be undone",
                f"Only the last {KEPT} of {KEPT_DAYS} days can be, and only those of what is"
                " written in files.",
            )
        try:
            return _kept.decode(_decrypt(self._cipher, number, found.data))
        except (InvalidTag, ValueError, msgspec.DecodeError) as error:
            raise Conflict(
                f"Change {number} cannot be undone",
                "What it could be undone by is damaged, or of another proxy/seed.",
            ) from error

    async def purge(self) -> None:
        """Remove what old changes could be undone by. A failing disk is told in the log."""
        await asyncio.to_thread(self._purge)

    # What follows blocks.

    def _write(self, change: Change, kept: Kept | None) -> None:
        # In this order no crash leaves what undoes a change that is not in the journal.
        self._append(seal(change))
        self._number = change.number
        if kept:
            path = self._layout.undo(change.number)
            make_folder(os.path.dirname(path))
            document.replace(path, self._encrypt(change.number, msgspec.json.encode(kept)))
        with suppress(OSError):
            os.unlink(self._layout.undo(change.number - KEPT))

    def _encrypt(self, number: int, content: bytes) -> bytes:
        nonce = ids.new_seed()[:_NONCE]
        return nonce + self._cipher.encrypt(nonce, content, str(number).encode())

    def _purge(self) -> None:
        folder = os.path.dirname(self._layout.undo(0))
        oldest = (parse_iso(self._clock.now()) - timedelta(days=KEPT_DAYS)).timestamp()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    # Earlier versions wrote these in the clear.
                    if entry.name.endswith(".json"):
                        os.unlink(entry.path)
                    elif entry.stat().st_mtime >= oldest:
                        continue
                    elif entry.path == self._layout.undo(self._number):
                        os.truncate(entry.path, 0)  # its name tells how many changes there were
                    else:
                        os.unlink(entry.path)
        except FileNotFoundError:
            pass
        except OSError as error:
            log.warning("%s cannot be cleared of old changes: %s", folder, error.strerror)

    def _append(self, line: bytes) -> None:
        path = self._layout.changes
        make_folder(os.path.dirname(path))
        with document.told(path, "write"):
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

    def _page(self, wanted: ChangeFilter, limit: int, before: int) -> ChangePage:
        found: list[Change] = []
        for change in self._backwards():
            if (before and change.number >= before) or not wanted.fits(change):
                continue
            if len(found) == limit:
                return ChangePage(found, str(found[-1].number))
            found.append(change)
        return ChangePage(found, "")

    def _last(self) -> int:
        return next((change.number for change in self._backwards()), 0)

    def _backwards(self) -> Iterator[Change]:
        """The newest first; what is damaged is passed over."""
        path = self._layout.changes
        with document.told(path, "read"):
            try:
                fd = os.open(path, _READ)
            except FileNotFoundError:
                return
            try:
                for _, line in backwards(fd, os.fstat(fd).st_size):
                    with suppress(Broken, msgspec.DecodeError, UnicodeDecodeError):
                        yield _changes.decode(unseal(line))
            finally:
                os.close(fd)


def check_undo(secret: bytes, number: int, data: bytes) -> None:
    """Raise ``Broken`` for what is kept of a change and cannot undo it."""
    try:
        if data:  # else it is old, and only its name is kept
            _decrypt(_cipher_of(secret), number, data)
    except (InvalidTag, ValueError) as error:
        raise Broken("it was altered, or is of another proxy/seed") from error


def _cipher_of(secret: bytes) -> AESGCM:
    return AESGCM(hmac.digest(secret, b"undo", "sha256"))


def _decrypt(cipher: AESGCM, number: int, data: bytes) -> bytes:
    return cipher.decrypt(data[:_NONCE], data[_NONCE:], str(number).encode())


def highest_undo(layout: Layout) -> int:
    """The number of the last change that can be undone; 0: there is none. Blocking."""
    try:
        names = os.listdir(os.path.dirname(layout.undo(0)))
    except OSError:
        return 0
    numbers = (name.removesuffix(".enc") for name in names)
    return max((int(one) for one in numbers if one.isascii() and one.isdecimal()), default=0)


def damage(layout: Layout) -> Iterator[Mistake]:
    """Each place of the journal of changes where some that were made are missing. Blocking.

    Numbers rise by one, and what undoes a change is kept apart, so a journal that was cut or
    altered is known by its gaps. A line that a crash cut short was never acknowledged: the change
    after it has its number. ``Unavailable`` and ``Misconfigured``.
    """
    path = layout.changes
    known = lines = 0
    for lines, line in enumerate(_lines(path), 1):
        try:
            number = _changes.decode(unseal(line)).number
        except (Broken, msgspec.DecodeError, UnicodeDecodeError):
            continue
        if number > known + 1:
            yield _missing(path, lines, known + 1, number - 1)
        known = number
    if (highest := highest_undo(layout)) > known:
        yield _missing(path, lines, known + 1, highest)


def _lines(path: str) -> Iterator[bytes]:
    with document.told(path, "read"), suppress(FileNotFoundError):
        descriptor = os.open(path, _READ)
        with open(descriptor, "rb") as file:
            yield from file


def _missing(path: str, line: int, first: int, last: int) -> Mistake:
    which = f"change {first} is" if first == last else f"changes {first} to {last} are"
    return Mistake(
        path, line, f"{which} missing or damaged before the end of this line, and no longer told;"
        " what holds is untouched: restore the file from a copy, or let it be"
    )  # fmt: skip
