"""One day's file of the ledger written anew with other prices, while requests are booked to it.

First all that is there is rewritten beside it; then, between two groups of bookings, what came
meanwhile is added, and the file replaced. Lines that are not sound are taken over as they are.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress

from agentd.disk.document import TEMPORARY, sync_folder, told
from agentd.disk.layout import Layout
from agentd.disk.ledger_file import entry_in, lines_of
from agentd.disk.lines import Broken, seal
from agentd.proxy.repricing import Difference, PricesOf, repriced

_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_MORE = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class Repricing:
    """The work on one day. Its methods block, and raise ``Unavailable``."""

    def __init__(self, layout: Layout, day: str, prices_of: PricesOf) -> None:
        self.day = day
        self.difference = Difference()
        self._path = layout.ledger_day(day)
        self._folder = layout.ledger
        self._beside = os.path.join(layout.ledger, f"{TEMPORARY}{day}")
        self._prices_of = prices_of
        self._done = 0

    def prepare(self, size: int | None, *, dry_run: bool) -> None:
        """Rewrite what is there, up to ``size`` where somebody appends; or only count it."""
        with told(self._path, "rewrite"):
            if not os.path.exists(self._path):  # its requests were deleted
                return
            lines = self._rewritten(size)
            if dry_run:
                for _ in lines:
                    pass
                return
            with open(os.open(self._beside, _WRITE, 0o600), "wb") as file:
                file.writelines(lines)
                file.flush()
                os.fsync(file.fileno())
            if not self.difference.changed:
                os.unlink(self._beside)

    def replace(self, forget: Callable[[], None]) -> None:
        """Rewrite what came meanwhile, and have the new file take the old one's place.

        ``forget`` lets go of the old one. Nobody may append meanwhile.
        """
        with told(self._path, "rewrite"):
            try:
                with open(os.open(self._beside, _MORE), "wb") as file:
                    file.writelines(self._rewritten(None))
                    file.flush()
                    os.fsync(file.fileno())
                os.rename(self._beside, self._path)
            except BaseException:
                with suppress(OSError):
                    os.unlink(self._beside)
                raise
            forget()
            sync_folder(self._folder)

    def _rewritten(self, upto: int | None) -> Iterator[bytes]:
        for line in lines_of(self._path, self._done, upto):
            self._done += len(line)
            try:
                entry = entry_in(line)
            except Broken:
                yield line
                continue
            now = repriced(entry, self._prices_of, self.difference)
            yield line if now is entry else seal(now)
