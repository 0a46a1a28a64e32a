"""Files that a person edits while the daemon works: what they say holds from when they are saved.

A broken edit takes nothing down: the last good content stays in force, and what is wrong is
logged and kept to be told. A file that is only being saved is not believed at once.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from agentd.disk import document
from agentd.disk.document import Stamp
from agentd.errors import AgentdError, Misconfigured, Mistake
from agentd.refresh import Refresh

T = TypeVar("T")

SETTLE = 0.25
"""Seconds that an editor has to finish saving."""

_log = logging.getLogger("agentd.reload")


class Reading(NamedTuple, Generic[T]):
    """What a file said when it was read: its ``value``, or the ``mistakes`` that prevent one."""

    value: T | None
    mistakes: tuple[Mistake, ...]
    stamp: Stamp | None
    certain: bool
    """False when the file could not be read at all, so that its stamp tells nothing."""

    @property
    def doubtful(self) -> bool:
        """Whether it looks as a file does while it is being saved: gone, empty or half."""
        return bool(self.mistakes) or self.stamp is None or self.stamp.size == 0


class LastGood(Generic[T]):
    """The last good content of one file. ``read`` blocks; ``take`` puts what it read in force."""

    def __init__(self, path: str, load: Callable[[], T], value: T) -> None:
        self.path = path
        self.value = value
        self.mistakes: tuple[Mistake, ...] = ()
        """What was wrong with the file when it was last read."""
        self._load = load
        self._taken: tuple[Stamp | None] | None = None
        """The stamp of what is in force; ``None`` before the first."""

    @property
    def known(self) -> bool:
        """Whether the file was ever read."""
        return self._taken is not None

    @property
    def stale(self) -> bool:
        """Whether the file is another than the one that was taken last; by one look at it."""
        return self._taken != (document.stamp(self.path),)

    def read(self) -> Reading[T] | None:
        """What the file says now; ``None`` when it is the one that was taken last. Blocking."""
        stamp = document.stamp(self.path)  # before the content: an edit in between is seen later
        if self._taken == (stamp,):
            return None
        try:
            return Reading(self._load(), (), stamp, True)
        except Misconfigured as error:
            return Reading(None, tuple(error.mistakes), stamp, True)
        except AgentdError as error:
            return Reading(None, (Mistake(self.path, 0, error.message),), stamp, False)

    def take(self, reading: Reading[T]) -> bool:
        """Put it in force when it is good. True when the value or the mistakes are others now."""
        before = self.value, self.mistakes
        self._taken = (reading.stamp,) if reading.certain else None
        self.mistakes = reading.mistakes
        if reading.value is not None:
            self.value = reading.value
        if self.mistakes != before[1]:
            self._tell()
        return (self.value, self.mistakes) != before

    def _tell(self) -> None:
        for mistake in self.mistakes:
            _log.warning("%s", mistake)
        if self.mistakes:
            _log.warning("%s is not taken; what it said before stays in force", self.path)
        else:
            _log.info("%s is in order again", self.path)


class Reloaded(Generic[T]):
    """One hand-edited file on the loop: ``current`` is what it last said without a mistake.

    ``load`` blocks, raises ``Misconfigured`` or ``Unavailable``, and knows what a missing file
    means. ``otherwise`` is in force before the first good reading. ``changed`` is called on the
    loop whenever ``current`` or ``mistakes`` is another.
    """

    def __init__(
        self,
        path: str,
        load: Callable[[], T],
        otherwise: T,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._file = LastGood(path, load, otherwise)
        self._changed = changed
        self._refresh = Refresh(self._read)

    @property
    def path(self) -> str:
        """The file."""
        return self._file.path

    @property
    def current(self) -> T:
        """What holds now."""
        return self._file.value

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        """Why the file as it is now is not taken; empty when it is."""
        return self._file.mistakes

    @property
    def stale(self) -> bool:
        """Whether the file was edited since it was looked at last; by one ``stat``."""
        return self._file.stale

    async def refresh(self) -> None:
        """Look at the file. When this returns, what it said at the call is in force, or told."""
        await self._refresh.now()

    async def ensure_current(self) -> None:
        """Read the file if it was edited since. Costs one ``stat`` when it was not.

        A request that depends on the file calls this first: the watcher tells of an edit only
        some moments later.
        """
        if self.stale:
            await self.refresh()

    def noticed(self, name: str) -> None:
        """A file of this name, in this file's folder, was edited; called by a ``Watcher``."""
        if name == os.path.basename(self._file.path):
            self._refresh.soon()

    async def stop(self) -> None:
        """Leave off what is being read."""
        await self._refresh.stop()

    async def _read(self) -> None:
        reading = await asyncio.to_thread(self._file.read)
        if reading and reading.doubtful and self._file.known:
            await asyncio.sleep(SETTLE)
            reading = await asyncio.to_thread(self._file.read)
        if reading and self._file.take(reading):
            self._changed()
