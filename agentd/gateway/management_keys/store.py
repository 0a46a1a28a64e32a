"""The management keys that are valid at this moment, while their file is edited.

A key that is removed, disabled or damaged in the file opens nothing from the next request on: each
request that comes with a key compares the file's stamp. Listeners hear of keys that ended, also
without a request, so that open streams can be closed.
"""

import asyncio
import logging
import math
from collections.abc import Callable
from functools import partial
from os.path import basename

from agentd.auth.key_store import LastUsedJson
from agentd.core.clock import Clock, Timestamp
from agentd.core.errors import AgentdError, ConfigProblem
from agentd.core.tasks import BackgroundTasks
from agentd.gateway.management_keys.file import ManagementKeyContents, ManagementKeyFile
from agentd.gateway.management_keys.model import ManagementKey, ManagementKeyRing
from agentd.http.access import Caller
from agentd.storage.json_document import read_json, write_json
from agentd.storage.layout import Layout
from agentd.storage.watched_file import REVOKE_ON_ERROR, FileReading, WatchedFile

USE_SECONDS = 1.0
"""Seconds between two updates of a key's last use."""

SAVE_SECONDS = 60.0
"""Seconds between two writes of the last uses to disk."""

_MAX_USES = 1024 * 1024

_log = logging.getLogger("agentd.proxy")


class ManagementKeyRepository:
    """Keeps the keys fresh, admits them, and changes them."""

    def __init__(self, layout: Layout, clock: Clock) -> None:
        self.keys = ManagementKeyRing()
        """The keys of the file, disabled ones included."""
        self.on_changed: Callable[[], None] = lambda: None
        """Called when the keys or the problems changed, through us or by hand."""
        self._clock = clock
        self._file = ManagementKeyFile(layout)
        self._uses_path = layout.management_keys_used
        self._uses: dict[str, Timestamp] = {}
        """When each key was last used, by digest."""
        self._noted: dict[str, float] = {}
        self._saved = -math.inf
        self._is_unsaved = False
        self._saving = BackgroundTasks()
        self._listeners: list[Callable[[frozenset[str]], None]] = []
        self._watched = WatchedFile(
            self._file.path,
            self._file.load,
            ManagementKeyContents(),
            self._apply,
            policy=REVOKE_ON_ERROR,
            assess=_assess,
            get_stamp=self._file.get_stamp,
            clock=clock,
        )

    async def start(self) -> None:
        """Read the keys and their last uses."""
        try:
            self._uses = (await asyncio.to_thread(self._load_uses)).last_used
        except AgentdError as error:
            _log.warning("the last uses of management keys are not known: %s", error.message)
        await self._watched.refresh()

    async def stop(self) -> None:
        """Save the last uses."""
        await self._watched.stop()
        await self._saving.wait()
        if self._is_unsaved:
            await asyncio.to_thread(self._save_uses, self._list_uses())

    @property
    def is_configured(self) -> bool:
        """True if the file has any key, even if it is damaged."""
        return bool(self.problems) or any(True for _ in self.keys)

    @property
    def problems(self) -> tuple[ConfigProblem, ...]:
        """Why the file, or some key of it, is not accepted."""
        return self._watched.problems

    def on_revoked(self, listener: Callable[[frozenset[str]], None]) -> None:
        """Call ``listener`` on the loop with the names of keys that are no longer valid."""
        self._listeners.append(listener)

    async def ensure_current(self) -> None:
        """Read the file if it changed; called before each admission, and regularly."""
        await self._watched.ensure_current()
        now = self._clock.monotonic()
        if self._is_unsaved and now - self._saved >= SAVE_SECONDS:
            self._saved, self._is_unsaved = now, False
            self._saving.start(asyncio.to_thread(self._save_uses, self._list_uses()))

    def on_file_changed(self, name: str) -> None:
        """Schedule a reload if this is one of our files; called by a ``FolderWatcher``."""
        if name in map(basename, (self._file.path, self._file.revoked_path)):
            self._watched.schedule()

    def match(self, presented: str) -> Caller | None:
        """Return the caller with this key, or ``None``; its use is recorded."""
        key = self.keys.find(presented)
        if key is None:
            return None
        self._record_use(key.sha256)
        return Caller("management", key.name, "administrator", scope=key.scope)

    def get_last_used(self, key: ManagementKey) -> Timestamp | None:
        """Return when a key was last used."""
        return self._uses.get(key.sha256)

    async def add(self, entry: ManagementKey, *, dry_run: bool = False) -> ManagementKey:
        """Add a key. ``Conflict`` if its name is taken."""
        return await self._watched.write(partial(self._file.add, entry, dry_run=dry_run))

    async def change(
        self,
        name: str,
        revise: Callable[[ManagementKey], ManagementKey],
        *,
        dry_run: bool = False,
    ) -> ManagementKey:
        """Change a key; its hash stays. ``NotFound``."""
        return await self._watched.write(partial(self._file.change, name, revise, dry_run=dry_run))

    async def remove(
        self,
        name: str,
        check: Callable[[ManagementKey], object] = bool,
        *,
        dry_run: bool = False,
    ) -> ManagementKey:
        """Remove a key, unless ``check`` raises; it is refused once this returns."""
        at = self._clock.now()
        return await self._watched.write(
            partial(self._file.remove, name, check, at=at, dry_run=dry_run)
        )

    def _apply(self) -> None:
        before = self.keys
        self.keys = ManagementKeyRing(self._watched.current.keys)
        for problem in self.problems:
            _log.error("%s", problem)
        if lost := before.find_revoked(self.keys):
            for listener in self._listeners:
                listener(lost)
        self.on_changed()

    def _record_use(self, digest: str) -> None:
        now = self._clock.monotonic()
        if now - self._noted.get(digest, -math.inf) < USE_SECONDS:
            return
        self._noted[digest] = now
        self._uses[digest] = self._clock.now()
        self._is_unsaved = True

    def _list_uses(self) -> dict[str, Timestamp]:
        known = {key.sha256 for key in self.keys}
        return {digest: at for digest, at in self._uses.items() if digest in known}

    def _load_uses(self) -> LastUsedJson:
        return read_json(self._uses_path, LastUsedJson, _MAX_USES)

    def _save_uses(self, uses: dict[str, Timestamp]) -> None:
        try:
            write_json(self._uses_path, LastUsedJson(last_used=uses))
        except AgentdError as error:
            _log.warning("the last uses of management keys could not be saved: %s", error.message)


def _assess(contents: ManagementKeyContents) -> FileReading[ManagementKeyContents]:
    return FileReading(contents, contents.problems, is_partial=contents.is_blank)
