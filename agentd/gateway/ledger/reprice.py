"""Rewrites one day's file of the ledger with other prices while requests are appended to it.

First the existing lines are rewritten to a temporary file; then, between two groups of writes,
lines that were appended meanwhile are added and the file is replaced. Corrupt lines are copied.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

from agentd.gateway.ledger.day_file import decode_record, iter_lines
from agentd.gateway.ledger.record import RequestRecord
from agentd.gateway.pricing.repricing import RepricingSummary
from agentd.storage.checksummed_json import ChecksumMismatch, encode_checksummed
from agentd.storage.document import TEMPORARY_PREFIX, sync_folder, translate_os_errors
from agentd.storage.layout import Layout

Revise: TypeAlias = Callable[[RequestRecord, RepricingSummary], RequestRecord]
"""Returns a request at its new price, and counts it."""

_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_APPEND_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class DayRepricing:
    """Repricing of one day. Its methods block and raise ``Unavailable``."""

    def __init__(self, layout: Layout, day: str, revise: Revise) -> None:
        self.day = day
        self.difference = RepricingSummary()
        self._path = layout.get_ledger_day_path(day)
        self._folder = layout.ledger
        self._temporary = os.path.join(layout.ledger, f"{TEMPORARY_PREFIX}{day}")
        self._revise = revise
        self._offset = 0

    def prepare(self, size: int | None, *, dry_run: bool) -> None:
        """Rewrite the lines up to byte ``size``; with ``dry_run`` only compute the difference."""
        with self._rewriting():
            if not os.path.exists(self._path):  # requests of that day were deleted
                return
            if dry_run:
                for _ in self._rewrite_lines(size):
                    pass
                return
            self._write_temporary(_WRITE_FLAGS, size)
            if not self.difference.changed:
                os.unlink(self._temporary)

    def replace(self, forget: Callable[[], None]) -> None:
        """Rewrite lines appended meanwhile and replace the old file by the new one.

        ``forget`` closes the old file. Nothing may be appended meanwhile.
        """
        with self._rewriting():
            self._write_temporary(_APPEND_FLAGS, None)
            os.rename(self._temporary, self._path)
            forget()
            sync_folder(self._folder)

    @contextmanager
    def _rewriting(self) -> Iterator[None]:
        """Leave no temporary file after an error: on a full disk it would take what is left."""
        with translate_os_errors(self._path, "rewrite"):
            try:
                yield
            except BaseException:
                with suppress(OSError):
                    os.unlink(self._temporary)
                raise

    def _write_temporary(self, flags: int, upto: int | None) -> None:
        with open(os.open(self._temporary, flags, 0o600), "wb") as file:
            file.writelines(self._rewrite_lines(upto))
            file.flush()
            os.fsync(file.fileno())

    def _rewrite_lines(self, upto: int | None) -> Iterator[bytes]:
        for line in iter_lines(self._path, self._offset, upto):
            self._offset += len(line)
            try:
                entry = decode_record(line)
            except ChecksumMismatch:
                yield line
                continue
            now = self._revise(entry, self.difference)
            yield line if now is entry else encode_checksummed(now)
