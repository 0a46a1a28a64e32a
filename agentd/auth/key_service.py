"""The API keys that are valid now, while people edit their file.

A revoked key is refused from the next request on: each request compares the file's stamp. With a
damaged file no named key is valid (the key of ``AGENT_API_KEY`` still is), after a quarter of a
second in which an editor may finish saving.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from msgspec import Struct

from agentd.auth.key import (
    ENVIRONMENT,
    AccessKeyRef,
    KeyRing,
    NamedKey,
    Renewal,
    check_name,
    find_descendants,
    find_gateway_keys,
    issue_key,
)
from agentd.core.clock import Clock, Timestamp
from agentd.core.errors import AgentdError
from agentd.core.retry import BackgroundRetries
from agentd.storage.watched_file import REVOKE_ON_ERROR, FileReading, WatchedFile

T = TypeVar("T")

_POLICY = REVOKE_ON_ERROR._replace(waits_for_editor=False)
"""The last valid keys stay in force while the file is being saved; no request waits for that."""

USE_INTERVAL = 1.0
"""Seconds between two updates of a key's last use."""

SAVE_INTERVAL = 60.0
"""Seconds between two writes of the last uses to disk."""

_log = logging.getLogger("agentd.access")


class KeyFileContents(Struct, frozen=True):
    """The contents of the key files."""

    named: tuple[NamedKey, ...] = ()
    """All keys in the file, including revoked ones that came back with an older copy of it."""
    revoked: frozenset[str] = frozenset()
    """The digests of the revoked keys."""
    problem: str = ""
    """Why none of the keys can be trusted; empty if they can."""
    is_torn: bool = False
    """True if the file is empty or cannot be parsed: an editor may be saving it right now."""
    modified_at: float = 0.0
    """The modification time of a torn file, in seconds since 1970."""
    renewals: tuple[Renewal, ...] = ()
    """Regenerated keys whose old value is still valid."""


class RevocationResult(Struct, frozen=True, rename="camel"):
    """The result of revoking a key."""

    revoked: tuple[str, ...]
    """The names of the revoked keys."""
    children: tuple[str, ...]
    """Keys that those made, and that are still valid."""
    revoked_access_keys: tuple[AccessKeyRef, ...] = ()
    """The access keys of the model gateway that were revoked with them."""
    access_keys: tuple[AccessKeyRef, ...] = ()
    """Access keys of the model gateway that those or their children made, and that remain."""


class KeyStore(Protocol):
    """Stores API keys. All methods but ``get_stamp`` block, and raise when they fail."""

    def get_stamp(self) -> object:
        """Return a value that differs after every edit, by one ``stat`` of the file."""
        ...

    def read(self) -> KeyFileContents:
        """Return everything about the keys; never raises."""
        ...

    def add(self, key: NamedKey) -> None:
        """Store one more key. ``Conflict`` when its name is taken.

        ``Unauthorized`` when it is made with a key that was revoked meanwhile, ``Forbidden`` when
        that one may do less by now.
        """
        ...

    def renew(self, key: NamedKey) -> None:
        """Replace the key of this name, which stays valid until ``complete_renewal``.

        ``NotFound`` when there is none, and as ``add``.
        """
        ...

    def complete_renewal(self, name: str, new: str, at: Timestamp) -> None:
        """Revoke the keys before the one with the digest ``new``, which was delivered."""
        ...

    def undo_renewal(self, new: str) -> None:
        """Make the old key valid again, because the new one was not delivered."""
        ...

    def revoke(self, name: str, at: Timestamp, *, with_children: bool = False) -> RevocationResult:
        """Revoke a key, or also all that it made. ``NotFound``.

        Access keys of the model gateway that they made are reported, or removed as well. If this
        is interrupted, either nothing is revoked or all of the named keys are, and the same call
        again removes what is left.
        """
        ...

    def load_access_keys(self) -> Mapping[str, tuple[AccessKeyRef, ...]]:
        """Return the access keys of the model gateway by creator, such as ``key:laptop``."""
        ...

    def load_last_used(self) -> dict[str, Timestamp]:
        """Return when each key was last used, by digest, as far as it is known."""
        ...

    def save_last_used(self, uses: dict[str, Timestamp]) -> None:
        """Store when each key was last used."""
        ...


class KeyInfo(Struct, frozen=True, rename="camel"):
    """An API key, as its owner sees it."""

    name: str
    created: Timestamp
    last_used: Timestamp | None = None
    revoked: bool = False
    """True if it was revoked, and came back with an older copy of the file: it is not valid."""
    created_by: str = ""
    """The creator: ``key:laptop``, ``user:ann`` or ``cli``; empty: unknown."""
    children: tuple[str, ...] = ()
    """The keys that it made, directly or through others: they can be revoked with it."""
    access_keys: tuple[AccessKeyRef, ...] = ()
    """The access keys of the model gateway that it or those made: they can be revoked with it."""
    answers: bool = True
    """True if it may decide what agents ask people."""


def describe_keys(
    contents: KeyFileContents,
    uses: dict[str, Timestamp],
    access_keys: Mapping[str, tuple[AccessKeyRef, ...]],
) -> list[KeyInfo]:
    """Return the keys of the file, in its order; ``access_keys`` are those by creator."""

    def describe(key: NamedKey) -> KeyInfo:
        children = find_descendants(contents.named, key.name)
        return KeyInfo(
            key.name,
            key.created,
            uses.get(key.sha256),
            key.sha256 in contents.revoked,
            key.created_by,
            children,
            find_gateway_keys(access_keys, (key.name, *children)),
            key.answers,
        )

    return [describe(key) for key in contents.named]


class KeyService:
    """Loads and changes the API keys, and reports which keys became invalid.

    ``environment`` is the hash of ``AGENT_API_KEY`` or empty. ``on_change`` is called after every
    change since the start with the names of the keys that are no longer valid or lost the scope
    ``answers``, so that their live connections can be closed.
    """

    def __init__(
        self,
        store: KeyStore,
        clock: Clock,
        environment: str = "",
        on_change: Callable[[frozenset[str]], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._environment = environment
        self._on_change = on_change
        self._contents = KeyFileContents()
        self._ring = KeyRing(environment)
        self._saved = clock.monotonic()
        self._started = False
        self._uses: dict[str, Timestamp] = {}
        self._noted: dict[str, float] = {}
        self._unsaved = False
        self._completing = BackgroundRetries()
        """Revokes old keys of renewals, by the digest of the new one."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="keys")
        self._file = WatchedFile(
            "keys.yml",
            self._read,
            self._contents,
            self._apply,
            policy=_POLICY,
            assess=_assess,
            get_stamp=self._get_stamp,
            clock=clock,
            executor=self._thread,
        )

    async def start(self) -> None:
        """Read the keys for the first time."""
        self._uses = await self._run_in_thread(self._store.load_last_used)
        await self._file.refresh()
        self._started = True

    async def stop(self) -> None:
        """Save the last uses and end the thread."""
        await self._completing.stop()  # the first use of a new key completes the others
        await self._file.stop()
        if self._unsaved:
            self._save_last_used()
        await asyncio.to_thread(self._thread.shutdown)

    @property
    def is_configured(self) -> bool:
        """True if there is any source of keys, even a damaged file."""
        return self._ring.is_configured

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names of the valid keys."""
        return tuple(self._ring.digests)

    @property
    def problem(self) -> str:
        """Why no named key is accepted; empty if they are."""
        return self._contents.problem

    def match(self, presented: str) -> str | None:
        """Return the name of a valid key, or ``None``; records the use of a named key."""
        found = self._ring.find(presented)
        if found is None:
            return None
        name, digest = found
        if name != ENVIRONMENT:
            self._record_use(digest)
            if any(digest == one.new for one in self._contents.renewals):
                self._complete_renewal(name, digest)
        return name

    def may_answer(self, name: str) -> bool:
        """Return whether the key of this name has the scope ``answers``."""
        return self._ring.may_answer(name)

    async def ensure_current(self) -> None:
        """Reload the keys if their file has changed; costs one ``stat`` (5 µs) otherwise.

        To be awaited before each authentication.
        """
        if self._file.is_stale:
            await self._file.refresh()
        elif self._unsaved and self._clock.monotonic() - self._saved >= SAVE_INTERVAL:
            self._save_last_used()

    def schedule_reload(self) -> None:
        """Reload the keys soon; for the folder watcher, which must call it on the loop."""
        self._file.invalidate()
        self._file.schedule()

    async def list_keys(self) -> list[KeyInfo]:
        """Return the named keys, in the file's order."""
        await self.ensure_current()
        return describe_keys(
            self._contents, self._uses, await self._run_in_thread(self._store.load_access_keys)
        )

    async def generate(self, name: str, by: str = "", *, answers: bool = True) -> str:
        """Return a new key for a new name; only its hash is stored."""
        check_name(name)
        key, stored = issue_key(name, self._clock.now(), by, answers=answers)
        await self._change(lambda: self._store.add(stored))
        return key

    async def regenerate(self, name: str, by: str = "") -> str:
        """Return a new key for an existing name; the old one is invalid once this returns.

        ``confirm_delivery`` must be called afterwards: if the daemon is killed before that, the
        old key becomes valid again.
        """
        key, stored = issue_key(name, self._clock.now(), by)
        await self._change(lambda: self._store.renew(stored))
        return key

    def confirm_delivery(self, name: str, key: str, *, arrived: bool) -> None:
        """Record whether the response with the new key of ``regenerate`` was sent.

        If not, the new key is withdrawn, and the old one becomes valid again.
        """
        found = self._ring.find(key)
        if found is None or found[0] != name:
            return  # revoked or regenerated again meanwhile
        if arrived:
            self._complete_renewal(*found)
        else:
            self._store.undo_renewal(found[1])
            self.schedule_reload()

    async def revoke(self, name: str, *, with_children: bool = False) -> RevocationResult:
        """Revoke a key, or also all that it made; they are invalid once this returns."""
        at = self._clock.now()
        return await self._change(lambda: self._store.revoke(name, at, with_children=with_children))

    async def _change(self, change: Callable[[], T]) -> T:
        try:
            return await self._run_in_thread(change)
        finally:
            # A failed change may be half done, such as a key that is revoked but still in the file.
            await self._reload()

    def _complete_renewal(self, name: str, new: str) -> None:
        """Revoke the old key on disk too, with retries if the disk fails."""

        async def complete() -> None:
            await self._run_in_thread(
                lambda: self._store.complete_renewal(name, new, self._clock.now())
            )
            await self._reload()

        self._completing.start(new, complete, f"the old key of {name} could not be revoked yet")

    def _record_use(self, digest: str) -> None:
        now = self._clock.monotonic()
        if now - self._noted.get(digest, -math.inf) >= USE_INTERVAL:
            self._noted[digest] = now
            self._uses[digest] = self._clock.now()
            self._unsaved = True

    def _get_stamp(self) -> object:
        return self._store.get_stamp()

    def _read(self) -> KeyFileContents:
        return self._store.read()

    async def _reload(self) -> None:
        """Read the keys even if their file has the same stamp: other files may have changed."""
        self._file.invalidate()
        await self._file.refresh()

    def _apply(self) -> None:
        """Put the keys that were read into effect, and report those that became invalid."""
        contents = self._file.current
        if contents.problem and contents.problem != self._contents.problem:
            _log.error("no named API key is accepted: %s", contents.problem)
        elif self._contents.problem and not contents.problem:
            _log.warning("named API keys are accepted again")
        trusted = () if contents.problem else contents.named
        valid = [key for key in trusted if key.sha256 not in contents.revoked]
        defined = bool(contents.named or contents.problem)
        renewals = () if contents.problem else contents.renewals
        for one in renewals if renewals != self._contents.renewals else ():
            _log.warning(
                "the key of %s was regenerated, but the new key may not have been delivered:"
                " the old key stays valid until the new one is used",
                one.name,
            )
        before = self._ring
        self._ring = KeyRing(self._environment, valid, defined=defined, renewals=renewals)
        self._contents = contents
        changed = before.digests != self._ring.digests or before.silent != self._ring.silent
        if changed and self._started:
            lost = before.digests.items() - self._ring.digests.items()
            silenced = (self._ring.silent - before.silent) & before.digests.keys()
            self._on_change(frozenset(name for name, _ in lost) | silenced)

    def _save_last_used(self) -> None:
        """Start writing the last uses, without waiting for the disk."""
        known = {key.sha256 for key in self._contents.named}
        if known:
            self._uses = {digest: at for digest, at in self._uses.items() if digest in known}
        self._saved, self._unsaved = self._clock.monotonic(), False
        self._thread.submit(self._save_in_thread, dict(self._uses))

    def _save_in_thread(self, uses: dict[str, Timestamp]) -> None:
        try:
            self._store.save_last_used(uses)
        except AgentdError as error:
            _log.warning("the last uses of API keys could not be saved: %s", error.message)

    async def _run_in_thread(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)


def _assess(contents: KeyFileContents) -> FileReading[KeyFileContents]:
    return FileReading(
        contents,
        is_partial=contents.is_torn,
        is_certain=not contents.problem,
        modified_at=contents.modified_at,
    )
