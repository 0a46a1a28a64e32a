"""Hand-edited files, in force as soon as they are saved.

One class follows them all, with one of two policies for a file that is not valid: the last good
content stays in force (settings, models, labels, …), or what cannot be read as valid is revoked
(keys). Either way no request relies on a watcher: it compares the file's stamp first. A file that
may be only partly saved is read again after a moment.
"""

import asyncio
import logging
import math
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Generic, NamedTuple, TypeVar

from agentd.core.clock import Clock, SystemClock, parse_iso
from agentd.core.errors import AgentdError, ConfigError, ConfigProblem
from agentd.core.tasks import BackgroundTasks
from agentd.storage import document
from agentd.storage.document import FileStamp

R = TypeVar("R")
T = TypeVar("T")

SETTLE_SECONDS = 0.25
"""Seconds given to an editor to finish saving."""

SAME_STAMP_SECONDS = 0.02
"""Seconds within which two edits may bear the same stamp, on a coarse file system clock."""

READ_ATTEMPTS = 5
"""Number of times a file is read when it changes under every one of them."""

RETRY_SECONDS = 1.0
"""Seconds until keys that could not be read are read again though their file's stamp stays."""

_CLOCK = SystemClock()

_log = logging.getLogger("agentd.reload")


class ErrorPolicy(NamedTuple):
    """The treatment of a file that is invalid or possibly half saved."""

    keeps_last_good: bool
    """True if the last good value stays in force; else what is not valid is revoked."""
    waits_for_editor: bool = True
    """True if requests wait while a file settles, instead of using the previous value."""
    same_stamp_seconds: float = 0.0
    """The seconds for which an equal stamp may hide an edit, so that every check reads the file."""
    retry_seconds: float = 0.0
    """Seconds after which an unreadable file is read again though its stamp stays."""


KEEP_LAST_GOOD = ErrorPolicy(keeps_last_good=True)
REVOKE_ON_ERROR = ErrorPolicy(
    keeps_last_good=False, same_stamp_seconds=SAME_STAMP_SECONDS, retry_seconds=RETRY_SECONDS
)


class FileReading(NamedTuple, Generic[T]):
    """The result of reading a file: its ``value``, and the ``problems`` found in it."""

    value: T | None
    """``None`` when nothing of it is valid."""
    problems: tuple[ConfigProblem, ...] = ()
    is_partial: bool = False
    """True if it looks as a file does while it is being saved: gone, empty or half."""
    is_certain: bool = True
    """False when the file could not be read, so that its stamp says nothing about it."""
    modified_at: float = math.inf
    """The time of a partial file's last write, in seconds since 1970, where known."""
    stamp: object = None
    request: int = 0
    """The number of the last ``invalidate`` before it."""


class FileContent(Generic[T]):
    """The current value of a file. ``read`` blocks; ``apply`` makes what it read current.

    ``load`` blocks, raises ``ConfigError`` or ``Unavailable``, and knows what a missing file
    means. ``default`` is in force before the first good reading. Where a value can tell more about
    its file than that it was read, ``assess`` does. ``get_stamp`` differs after every edit.
    """

    def __init__(
        self,
        path: str,
        load: Callable[[], T],
        default: T,
        *,
        policy: ErrorPolicy = KEEP_LAST_GOOD,
        assess: Callable[[T], FileReading[T]] | None = None,
        get_stamp: Callable[[], object] | None = None,
        clock: Clock = _CLOCK,
    ) -> None:
        self.path = path
        self.policy = policy
        self.value = default
        self.problems: tuple[ConfigProblem, ...] = ()
        """Problems found when the file was last read."""
        self._load = load
        self._default = default
        self._assess = assess
        self._get_stamp = get_stamp or (lambda: document.get_stamp(path))
        self._clock = clock
        self._stamp: object = None
        self._stamp_seen_at = 0.0
        self._read_again_at = math.inf
        self._requested, self._applied = 1, 0
        """The number of invalidations, and the number before the current value was read."""
        self._partial_since: float | None = -math.inf
        self.was_valid = False
        """True once a version of the file was valid, or there was none."""

    @property
    def is_stale(self) -> bool:
        """True if the file may say something else than what is in force. Costs one ``stat``."""
        return (
            self._applied != self._requested
            or self._clock.monotonic() >= self._read_again_at
            or self._stamp != self._get_stamp()
        )

    def invalidate(self) -> None:
        """Read the file again at the next check though its stamp stays."""
        self._requested += 1

    def read(self) -> FileReading[T] | None:
        """Read the file; return ``None`` when its content is in force already. Blocking.

        What changed while it was read is read again: a file that an editor empties and then
        fills would otherwise be taken for one that was emptied on purpose.
        """
        if not self.is_stale:
            return None
        request = self._requested
        for _ in range(READ_ATTEMPTS):
            stamp = self._get_stamp()
            reading = self._read(stamp)
            if self._get_stamp() == stamp:
                break
        return reading._replace(stamp=stamp, request=request)

    def is_settling(self, reading: FileReading[T]) -> bool:
        """Return whether it may be only partly saved, and its editor has time left to finish."""
        if not reading.is_partial:
            self._partial_since = None
            return False
        if self.policy.waits_for_editor:
            return self._applied > 0 and reading.stamp != self._stamp
        now = self._clock.monotonic()
        if self._partial_since is None:
            self._partial_since = now
        # A file that was emptied an hour ago is not being saved, though it is seen only now.
        age = 0.0
        if reading.modified_at < math.inf:
            age = parse_iso(self._clock.now()).timestamp() - reading.modified_at
        return now - self._partial_since < SETTLE_SECONDS and age < SETTLE_SECONDS

    def apply(self, reading: FileReading[T]) -> bool:
        """Put a reading in force, by the policy. True if value or problems changed."""
        before = self.value, self.problems
        now = self._clock.monotonic()
        if reading.stamp != self._stamp or not self._applied:
            self._stamp, self._stamp_seen_at = reading.stamp, now
        if now - self._stamp_seen_at < self.policy.same_stamp_seconds:
            self._read_again_at = now
        elif reading.is_certain:
            self._read_again_at = math.inf
        else:
            self._read_again_at = now + self.policy.retry_seconds
        self._applied, self.problems = reading.request, reading.problems
        if reading.value is not None:
            self.value, self.was_valid = reading.value, True
        elif not self.policy.keeps_last_good:
            self.value = self._default
        if self.policy.keeps_last_good and self.problems != before[1]:
            self._log_problems()
        return (self.value, self.problems) != before

    def _read(self, stamp: object) -> FileReading[T]:
        try:
            value = self._load()
        except ConfigError as error:
            return FileReading(None, tuple(error.problems), is_partial=True)
        except AgentdError as error:
            problem = ConfigProblem(self.path, 0, error.message)
            return FileReading(None, (problem,), is_partial=True, is_certain=False)
        if self._assess:
            return self._assess(value)
        is_blank = stamp is None or (isinstance(stamp, FileStamp) and stamp.size == 0)
        return FileReading(value, is_partial=is_blank)

    def _log_problems(self) -> None:
        for problem in self.problems:
            _log.warning("%s", problem)
        if self.problems:
            valid = "what it said before" if self.was_valid else "the default"
            _log.warning("%s is not taken; %s stays in force", self.path, valid)
        else:
            _log.info("%s is in order again", self.path)


class CoalescingReloader:
    """Runs ``read``, which loads and applies the current content, once at a time on the loop."""

    def __init__(self, read: Callable[[], Awaitable[None]]) -> None:
        self._read = read
        self._begun = self._ended = 0
        """Number of reads started, and the number of the last one that completed."""
        self._lock = asyncio.Lock()
        self._tasks = BackgroundTasks()

    async def reload(self) -> None:
        """Apply the content as of this call, or newer. Raises what ``read`` raises.

        Concurrent callers share one read, but never one that had started before the call: it may
        have missed the latest edit. When the reading caller is cancelled, the next one reads.
        """
        asked = self._begun
        async with self._lock:
            if self._ended <= asked:
                self._begun += 1
                await self._read()
                self._ended = self._begun

    def schedule(self) -> None:
        """Reload in the background."""
        self._tasks.start(self.reload())

    async def stop(self) -> None:
        """Cancel scheduled reloads."""
        await self._tasks.cancel()


class WatchedFile(Generic[T]):
    """A hand-edited file on the event loop; ``current`` is its value in force.

    ``on_change`` is called on the loop whenever ``current`` or ``problems`` changed; ``executor``
    is where the file is read. The rest is explained in ``FileContent``.
    """

    def __init__(
        self,
        path: str,
        load: Callable[[], T],
        default: T,
        on_change: Callable[[], None] = lambda: None,
        *,
        policy: ErrorPolicy = KEEP_LAST_GOOD,
        assess: Callable[[T], FileReading[T]] | None = None,
        get_stamp: Callable[[], object] | None = None,
        clock: Clock = _CLOCK,
        executor: Executor | None = None,
    ) -> None:
        self._file = FileContent(
            path, load, default, policy=policy, assess=assess, get_stamp=get_stamp, clock=clock
        )
        self._on_change = on_change
        self._executor = executor
        self._reloader = CoalescingReloader(self._read)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def path(self) -> str:
        """The file."""
        return self._file.path

    @property
    def current(self) -> T:
        """The value in force."""
        return self._file.value

    @property
    def problems(self) -> tuple[ConfigProblem, ...]:
        """Why the file, or a part of it, as it is now is not in force; empty when all is."""
        return self._file.problems

    @property
    def was_valid(self) -> bool:
        """True once a version of the file was valid, or there was none.

        Before, ``current`` is the default, whatever the file may say.
        """
        return self._file.was_valid

    @property
    def is_stale(self) -> bool:
        """True if the file may have been edited since it was last read; by one ``stat``."""
        return self._file.is_stale

    async def refresh(self) -> None:
        """Read the file if it was edited; its content is then in force, or its problem reported."""
        await self._reloader.reload()

    async def write(self, change: Callable[[], R]) -> R:
        """Run what changes the file in a thread; when this returns, the change is in force.

        The file is read also after an error: a write may have got so far before it failed.
        """
        try:
            return await asyncio.to_thread(change)
        finally:
            await self.refresh()

    async def ensure_current(self) -> None:
        """Read the file if it was edited since. Costs one ``stat`` when it was not.

        A request that depends on the file calls this first: the watcher reports an edit only
        some moments later. Not even requests in the same turn of the loop share that look: a key
        that is deleted between the two opens nothing to the second one.
        """
        if self.is_stale:
            await self.refresh()

    def invalidate(self) -> None:
        """Read the file again at the next check though its stamp stays."""
        self._file.invalidate()

    def schedule(self) -> None:
        """Read the file in the background if it was edited."""
        self._reloader.schedule()

    def on_file_changed(self, name: str) -> None:
        """Handle an edit of the file ``name`` of this file's folder; for a ``FolderWatcher``."""
        if name == os.path.basename(self._file.path):
            self.schedule()

    async def stop(self) -> None:
        """Cancel running reloads."""
        if self._timer:
            self._timer.cancel()
        await self._reloader.stop()

    async def _read(self) -> None:
        reading = await self._read_in_thread()
        if reading and self._file.is_settling(reading):
            if not self._file.policy.waits_for_editor:
                self._schedule_after_settling()
                return
            await asyncio.sleep(SETTLE_SECONDS)
            reading = await self._read_in_thread()
        if reading and self._file.apply(reading):
            self._on_change()

    async def _read_in_thread(self) -> FileReading[T] | None:
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._file.read)

    def _schedule_after_settling(self) -> None:
        """Read the file again when its editor's time is over, even if no request does."""
        loop = asyncio.get_running_loop()
        if self._timer is None or self._timer.when() <= loop.time():
            self._timer = loop.call_later(SETTLE_SECONDS, self.schedule)
