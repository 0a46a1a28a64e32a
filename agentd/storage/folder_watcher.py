"""Watch a few folders for edited files, which are noticed within moments.

Two parts with different duties. The scan is the truth: it compares the stamps of all files of a
folder, at least once a second. The observer (inotify) only wakes the scan early, so nothing is
lost when it is: no inotify available, an overflow, a dead thread, a folder that was swapped. A file
that came and went between two scans was never there for it: who read it meanwhile must look again.

Watchdog, whose observer it is, is imported in the thread that needs it: no start waits for it.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from agentd.core.tasks import cancel_task
from agentd.storage.document import TEMPORARY_PREFIX, FileStamp, make_stamp

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent

FileChangedCallback: TypeAlias = Callable[[str], None]
"""Called on the loop with the name, without its folder, of a file that is new, other or gone."""

SCAN_SECONDS = 1.0
"""Seconds between two scans when nothing wakes one."""

_log = logging.getLogger("agentd.watch")
_warned: dict[str, object] = {}
"""The reasons for polling that have been logged."""


class _Folder(Struct):
    """A watched folder: what it held when last scanned, and what the observer watches."""

    path: str
    changed: FileChangedCallback
    stamps: dict[str, FileStamp] = {}
    identity: tuple[int, int] | None = None
    """Device and inode of the folder that the observer watches."""
    watch: Any = None


def _warn_once(why: str) -> None:
    """Log why files are polled; all watchers of the daemon meet the same limit."""
    us = object()
    if _warned.setdefault(why, us) is us:
        _log.warning("%s: edited files are noticed within a second", why)


class FolderWatcher:
    """Watches folders, not what is below them. Start and stop it on one loop."""

    def __init__(self) -> None:
        self._folders: list[_Folder] = []
        self._observer: Any = None
        self._woken = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="watch")
        self._task: asyncio.Task[None] | None = None
        self.polling = ""
        """The reason why files are only polled once a second; empty if inotify works."""

    def add(self, folder: str, changed: FileChangedCallback) -> None:
        """Watch one more folder, before the start. It may not exist yet."""
        self._folders.append(_Folder(folder, changed))

    async def start(self) -> None:
        """Start watching: no change after the return of this is missed."""
        loop = asyncio.get_running_loop()
        handler = _Waker(lambda: loop.call_soon_threadsafe(self._woken.set))
        await loop.run_in_executor(self._thread, self._scan, handler)
        self._task = loop.create_task(self._run(handler))

    async def stop(self) -> None:
        """End the threads."""
        if self._task:
            await cancel_task(self._task)
        await asyncio.get_running_loop().run_in_executor(self._thread, self._stop_observer)
        await asyncio.to_thread(self._thread.shutdown)

    async def _run(self, handler: "_Waker") -> None:
        loop = asyncio.get_running_loop()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(SCAN_SECONDS):
                    await self._woken.wait()
            self._woken.clear()
            for folder, name in await loop.run_in_executor(self._thread, self._scan, handler):
                # Its own turn on the loop: an exception in one listener does not affect the others.
                loop.call_soon(folder.changed, name)

    def _scan(self, handler: "_Waker") -> list[tuple[_Folder, str]]:
        """Repair the observer, then find what changed. Runs in the thread.

        In this order: an edit after the watch was placed wakes the next scan, one before it is
        found by this one.
        """
        self._repair_observer(handler)
        found = []
        for folder in self._folders:
            before, folder.stamps = folder.stamps, _scan_folder(folder.path)
            both = before.keys() | folder.stamps.keys()
            names = [name for name in both if before.get(name) != folder.stamps.get(name)]
            found += [(folder, name) for name in sorted(names)]
        return found

    def _repair_observer(self, handler: "_Waker") -> None:
        if self.polling:
            return
        try:
            if self._observer is None or not self._observer.is_alive():
                self._start_observer()
            for folder in self._folders:
                self._repair_watch(folder, handler)
        except OSError as error:
            self.polling = f"inotify is not available ({error.strerror or error})"
            _warn_once(self.polling)
            self._stop_observer()

    def _start_observer(self) -> None:
        from watchdog.observers import Observer  # noqa: PLC0415 - see above

        self._stop_observer()
        observer = Observer()
        self._observer = observer
        observer.start()
        for folder in self._folders:
            folder.identity = folder.watch = None

    def _repair_watch(self, folder: _Folder, handler: "_Waker") -> None:
        """Watch the folder that is at its path now; it may be another than a moment ago."""
        identity = _get_identity(folder.path)
        if identity == folder.identity:
            return
        if folder.watch is not None:
            # Two of our folders may be the same one, and then share their watch.
            with suppress(KeyError):
                self._observer.unschedule(folder.watch)
        folder.identity = folder.watch = None
        # Removed since the check: then it is not our folder yet.
        with suppress(FileNotFoundError, NotADirectoryError):
            # The observer does not follow a link to the folder itself.
            path = os.path.realpath(folder.path, strict=True)
            folder.watch = self._observer.schedule(handler, path, event_filter=_list_event_types())
            folder.identity = identity

    def _stop_observer(self) -> None:
        observer, self._observer = self._observer, None
        if observer is not None and observer.is_alive():
            observer.stop()
            observer.join()


class _Waker:
    """Handler of the observer, which only wakes: an exception here would end its thread."""

    def __init__(self, wake: Callable[[], Any]) -> None:
        self._wake = wake

    def dispatch(self, event: "FileSystemEvent") -> None:
        """Wake the scan, except for a file that we are still writing under a temporary name."""
        if TEMPORARY_PREFIX not in os.fsdecode(event.src_path) or event.dest_path:
            # The loop is closed while the observer is still being stopped.
            with suppress(RuntimeError):
                self._wake()


def _list_event_types() -> list[type["FileSystemEvent"]]:
    """Return the events that wake a scan; reads are excluded, so our own do not."""
    from watchdog import events  # noqa: PLC0415 - see above

    return [
        events.FileAttribEvent,
        events.FileClosedEvent,
        events.FileCreatedEvent,
        events.FileDeletedEvent,
        events.FileModifiedEvent,
        events.FileMovedEvent,
    ]


def _get_identity(path: str) -> tuple[int, int] | None:
    try:
        info = os.stat(path)
    except OSError:
        return None
    return info.st_dev, info.st_ino


def _scan_folder(path: str) -> dict[str, FileStamp]:
    """Return the stamps of a folder's files, without the folders in it."""
    stamps = {}
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name.startswith(TEMPORARY_PREFIX) or entry.is_dir(follow_symlinks=False):
                    continue
                with suppress(FileNotFoundError):
                    stamps[entry.name] = make_stamp(entry.stat(follow_symlinks=False))
    except OSError:
        return {}
    return stamps
