"""The keys that are good at this moment, though people edit their file while we run.

A revoked key is refused from the next request on: each request compares the file's stamp. What
can no longer be read as valid is not valid: a damaged file lets no named key in (the key of
``AGENT_API_KEY`` still works), after a quarter of a second in which an editor may finish saving.
"""

import asyncio
import logging
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from msgspec import Struct

from agentd.access.key import (
    ENVIRONMENT,
    KeyRing,
    NamedKey,
    Renewal,
    check_name,
    find_descendants,
    issue,
)
from agentd.clock import Clock, Timestamp, parse_iso
from agentd.errors import AgentdError
from agentd.refresh import Refresh
from agentd.retries import Retries

T = TypeVar("T")

GRACE = 0.25
"""Seconds for which the last good keys hold while a file is empty or cannot be parsed."""

RACY = 0.02
"""Seconds within which two edits may bear the same stamp, on a coarse file system clock."""

RETRY = 1.0
"""Seconds until a file that could not be trusted is looked at again though its stamp stays."""

NOTE_EVERY = 1.0
"""Seconds for which one note of a key's last use will do."""

SAVE_EVERY = 60.0
"""Seconds between two savings of the last uses."""

_log = logging.getLogger("agentd.access")


class Kept(Struct, frozen=True):
    """What the files say about the named keys."""

    named: tuple[NamedKey, ...] = ()
    """All that are in the file, revoked ones that came back with an older copy too."""
    revoked: frozenset[str] = frozenset()
    """The digests of the keys that were revoked."""
    trouble: str = ""
    """Why none of them can be trusted; empty when all is well."""
    torn: bool = False
    """It is empty or cannot be parsed: somebody may be in the middle of saving it."""
    saved: float = 0.0
    """When the torn file was last written, in seconds since 1970 by the wall clock."""
    renewals: tuple[Renewal, ...] = ()
    """Keys before those of the file, good because nobody is known to have the new ones."""


class Revoked(Struct, frozen=True):
    """What became of keys that were revoked."""

    revoked: tuple[str, ...]
    """The names of the keys that open nothing any more."""
    children: tuple[str, ...]
    """Keys that those made, and that are still good."""


class KeyStore(Protocol):
    """Where named keys are kept. All but ``stamp`` block, and raise what they cannot do."""

    def stamp(self) -> object:
        """Something that differs after every edit, by one look at the file."""
        ...

    def read(self) -> Kept:
        """Everything about the keys; never raises."""
        ...

    def add(self, key: NamedKey) -> None:
        """Keep one more. ``Conflict`` when its name is taken."""
        ...

    def renew(self, key: NamedKey) -> None:
        """Keep this instead of the one of its name, which holds until ``settle``. ``NotFound``."""
        ...

    def settle(self, name: str, new: str, at: Timestamp) -> None:
        """Revoke what was good before the key of the digest ``new``: somebody has it."""
        ...

    def take_back(self, new: str) -> None:
        """Let the key before be good again: nobody was told the new one."""
        ...

    def revoke(self, name: str, at: Timestamp, *, with_children: bool = False) -> Revoked:
        """Remove one, or all that it made too, and remember that. ``NotFound``."""
        ...

    def last_used(self) -> dict[str, Timestamp]:
        """When each key was last used, by digest, as far as it is remembered."""
        ...

    def save_last_used(self, uses: dict[str, Timestamp]) -> None:
        """Remember when each key was last used."""
        ...


class KeyInfo(Struct, frozen=True, rename="camel"):
    """One named key, for its owner to see."""

    name: str
    created: Timestamp
    last_used: Timestamp | None = None
    revoked: bool = False
    """It was revoked, and came back with an older copy of the file: it opens nothing."""
    created_by: str = ""
    """Who made it: ``key:laptop``, ``user:ann`` or ``cli``; empty: that is not known."""
    children: tuple[str, ...] = ()
    """The keys that it made, and that those made: they can be revoked with it."""


def described(kept: Kept, uses: dict[str, Timestamp]) -> list[KeyInfo]:
    """The keys of the file, in its order."""
    return [
        KeyInfo(
            key.name,
            key.created,
            uses.get(key.sha256),
            key.sha256 in kept.revoked,
            key.created_by,
            find_descendants(kept.named, key.name),
        )
        for key in kept.named
    ]


class KeyService:
    """Keeps the keys fresh, changes them, and tells who lost theirs.

    ``environment`` is the hash of ``AGENT_API_KEY`` or empty. ``changed`` is called after every
    change since the start with the names whose key is no longer good: their live connections
    must end.
    """

    def __init__(
        self,
        store: KeyStore,
        clock: Clock,
        environment: str = "",
        changed: Callable[[frozenset[str]], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._environment = environment
        self._changed = changed
        self._kept = Kept()
        self._ring = KeyRing(environment)
        self._stamp: object = None
        self._noticed = self._saved = clock.monotonic()
        self._look_again = 0.0
        self._torn_since: float | None = -math.inf
        self._refresh = Refresh(self._read)
        self._started = False
        self._uses: dict[str, Timestamp] = {}
        self._noted: dict[str, float] = {}
        self._unsaved = False
        self._settling = Retries()
        """What ends the key before, by the digest of the new one."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="keys")
        self._timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Read the keys for the first time."""
        self._uses = await self._run(self._store.last_used)
        await self._refresh.now()
        self._started = True

    async def stop(self) -> None:
        """Save the last uses and end the thread."""
        if self._timer:
            self._timer.cancel()
        await self._settling.stop()  # the rest is settled by the first use of the new key
        await self._refresh.stop()
        if self._unsaved:
            self._save()
        await asyncio.to_thread(self._thread.shutdown)

    @property
    def configured(self) -> bool:
        """Whether there is any source of keys; a damaged file is one."""
        return self._ring.configured

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the keys that are good now."""
        return tuple(self._ring.digests)

    @property
    def trouble(self) -> str:
        """Why no named key is accepted; empty when all is well."""
        return self._kept.trouble

    def match(self, presented: str) -> str | None:
        """The name of the good key that this is, whose use is noted, or ``None``."""
        found = self._ring.find(presented)
        if found is None:
            return None
        name, digest = found
        if name != ENVIRONMENT:
            self._note_use(digest)
            if any(digest == one.new for one in self._kept.renewals):
                self._settle(name, digest)
        return name

    async def fresh(self) -> None:
        """Called before each admission. Costs one ``stat`` when nothing changed (5 µs)."""
        if self._stale():
            await self._refresh.now()
        elif self._unsaved and self._clock.monotonic() - self._saved >= SAVE_EVERY:
            self._save()

    def wake(self) -> None:
        """Something may have changed: look at once. Called on the loop, by whoever watches."""
        self._refresh.soon()

    async def keys(self) -> list[KeyInfo]:
        """The named keys, in the file's order."""
        await self.fresh()
        return described(self._kept, self._uses)

    async def generate(self, name: str, by: str = "") -> str:
        """Make a key for a new name; the answer is shown once and kept nowhere."""
        check_name(name)
        key, kept = issue(name, self._clock.now(), by)
        await self._change(lambda: self._store.add(kept))
        return key

    async def regenerate(self, name: str, by: str = "") -> str:
        """Make another key for a name; the one before opens nothing once this returns.

        ``told`` must be called then: with a crash before, the key before holds on.
        """
        key, kept = issue(name, self._clock.now(), by)
        await self._change(lambda: self._store.renew(kept))
        return key

    def told(self, name: str, key: str, *, arrived: bool) -> None:
        """Take note whether the answer with the new key of ``regenerate`` got out.

        Where it did not, nobody has the new key, and the one before is good again.
        """
        found = self._ring.find(key)
        if found is None or found[0] != name:
            return  # revoked meanwhile, or made anew again
        if arrived:
            self._settle(*found)
        else:
            self._store.take_back(found[1])
            self._look_again = 0.0
            self.wake()

    async def revoke(self, name: str, *, with_children: bool = False) -> Revoked:
        """Take a key away, or all that it made too; when this returns, they open nothing."""
        at = self._clock.now()
        return await self._change(lambda: self._store.revoke(name, at, with_children=with_children))

    async def _change(self, change: Callable[[], T]) -> T:
        try:
            return await self._run(change)
        finally:
            # What failed may be half done: a key that is revoked but still in the file.
            await self._refresh.now()

    def _settle(self, name: str, new: str) -> None:
        """Have the key before revoked on the disk, too, however long the disk takes."""

        async def settle() -> None:
            await self._run(lambda: self._store.settle(name, new, self._clock.now()))
            self._look_again = 0.0
            await self._refresh.now()

        self._settling.start(new, settle, f"the key of {name} before was not revoked yet")

    def _note_use(self, digest: str) -> None:
        now = self._clock.monotonic()
        if now - self._noted.get(digest, -math.inf) >= NOTE_EVERY:
            self._noted[digest] = now
            self._uses[digest] = self._clock.now()
            self._unsaved = True

    def _stale(self) -> bool:
        return self._clock.monotonic() >= self._look_again or self._store.stamp() != self._stamp

    async def _read(self) -> None:
        stamp = self._store.stamp()
        kept = await self._run(self._store.read)
        now = self._clock.monotonic()
        if stamp != self._stamp:
            self._stamp, self._noticed = stamp, now
        if self._may_heal(kept, now):
            self._look_again = now
            self._wake_later()
            return
        if now - self._noticed < RACY:
            self._look_again = now
        else:
            self._look_again = now + RETRY if kept.trouble else math.inf
        self._take(kept)

    def _may_heal(self, kept: Kept, now: float) -> bool:
        """Whether the file is torn only since a moment, by our clock and by its own time.

        A file that was emptied an hour ago is not being saved, though it is seen only now.
        """
        if not kept.torn:
            self._torn_since = None
            return False
        if self._torn_since is None:
            self._torn_since = now
        age = parse_iso(self._clock.now()).timestamp() - kept.saved
        return now - self._torn_since < GRACE and age < GRACE

    def _wake_later(self) -> None:
        """Without any request, too, the grace must end."""
        if self._timer is None or self._timer.when() <= asyncio.get_running_loop().time():
            self._timer = asyncio.get_running_loop().call_later(GRACE, self.wake)

    def _take(self, kept: Kept) -> None:
        """Put what was read in force, and tell who lost a key."""
        if kept.trouble and kept.trouble != self._kept.trouble:
            _log.error("no named access key is accepted: %s", kept.trouble)
        elif self._kept.trouble and not kept.trouble:
            _log.warning("named access keys are accepted again")
        good = () if kept.trouble else [k for k in kept.named if k.sha256 not in kept.revoked]
        defined = bool(kept.named or kept.trouble)
        renewals = () if kept.trouble else kept.renewals
        for one in renewals if renewals != self._kept.renewals else ():
            what = "was made anew, and nobody is known to have the new one: the one before holds"
            _log.warning("the key of %s %s, until the new one is used", one.name, what)
        before = self._ring
        self._ring = KeyRing(self._environment, good, defined=defined, renewals=renewals)
        self._kept = kept
        if before.digests != self._ring.digests and self._started:
            lost = before.digests.items() - self._ring.digests.items()
            self._changed(frozenset(name for name, _ in lost))

    def _save(self) -> None:
        """Write the last uses, without waiting for it."""
        known = {key.sha256 for key in self._kept.named}
        if known:
            self._uses = {digest: at for digest, at in self._uses.items() if digest in known}
        self._saved, self._unsaved = self._clock.monotonic(), False
        self._thread.submit(self._save_in_thread, dict(self._uses))

    def _save_in_thread(self, uses: dict[str, Timestamp]) -> None:
        try:
            self._store.save_last_used(uses)
        except AgentdError as error:
            _log.warning("when keys were last used could not be saved: %s", error.message)

    async def _run(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)
