"""The access keys that hold at this moment, though their file is edited while we run.

A key that is deleted, disabled or broken in the file opens nothing from the next request on: each
request compares the file's stamp. A file that looks as if it were only being saved is given a
quarter of a second, in which requests wait. What can no longer be read as valid is not valid.
Who runs something on a key hears when it is good no more, though nobody calls.
"""

import asyncio
import logging
import math
from collections.abc import Callable
from functools import partial
from os.path import basename
from typing import TypeAlias, TypeVar

from msgspec import structs

from agentd.access.gate import Caller
from agentd.clock import Clock, Timestamp
from agentd.disk.access_keys import AccessKeyFile, Kept
from agentd.errors import BadRequest, Mistake
from agentd.proxy.access_key import PREFIX, AccessKey, issue, reissue
from agentd.proxy.keyring import AccessKeys, still_opens
from agentd.refresh import Refresh
from agentd.retries import Retries

OWN_ID = "agentdengine"
OWN_NAME = "the agent's engines"
"""The key by which the agent's own engines call the gateway."""

SETTLE = 0.25
"""Seconds that an editor has to finish saving."""

RACY = 0.02
"""Seconds within which two edits may bear the same stamp, on a coarse file system clock."""

RETRY = 1.0
"""Seconds until a file that could not be read is looked at again though its stamp stays."""

_log = logging.getLogger("agentd.proxy")

_OWN_BEGINNING = f"{PREFIX}{OWN_ID}-"

T = TypeVar("T")

_UNREAD = object()

Revise = Callable[[AccessKey], AccessKey]

Lost: TypeAlias = Callable[[frozenset[str]], None]
"""Is told of the ids of keys that opened something and do no more."""

Mistaken: TypeAlias = Callable[[tuple[Mistake, ...]], None]
"""Is told of the mistakes in the file when they are others than before, or none any more."""


class AccessKeyBook:
    """Keeps the keys fresh, admits them and changes them."""

    def __init__(self, file: AccessKeyFile, clock: Clock) -> None:
        self.keys = AccessKeys()
        """Those that are valid now, disabled and expired ones too."""
        self.mistakes: tuple[Mistake, ...] = ()
        """Why others are not ..."""
        self.mistaken: Mistaken = lambda _: None
        """... and who is to know when that changes, beside the log."""
        self._file = file
        self._clock = clock
        self._hearing: list[Lost] = []
        self._certain = self.keys
        """Those of the last reading that was one ..."""
        self._since = clock.now()
        """... when it was told who lost his ..."""
        self._next_end: Timestamp | None = None
        """... and when the next of them will, for the key's time is over."""
        self._stamp: object = _UNREAD
        self._own: AccessKey | None = None
        self._noticed = 0.0
        self._look_again = 0.0
        self._refresh = Refresh(self._read)
        self._settling = Retries()
        """What buries letters before a reissue, by the digest of the new ones."""

    def hear(self, lost: Lost) -> None:
        """Have ``lost`` called on the loop: what runs on such keys is to be ended."""
        self._hearing.append(lost)

    async def fresh(self) -> None:
        """Called before each admission. Costs one ``stat`` when nothing changed.

        Not even requests that come in the same turn of the loop share it: a key that is deleted
        between the two opens nothing to the second one.
        """
        if self._stale():
            await self._refresh.now()

    async def look(self) -> None:
        """Look at the file and at the clock, to be called now and then: nobody else may."""
        await self.fresh()
        if self._next_end and self._clock.now() >= self._next_end:
            self._tell_lost()

    def noticed(self, name: str) -> None:
        """A file of this name, in the file's folder, was edited; called by a ``Watcher``."""
        if name == basename(self._file.graves):
            self._look_again = -math.inf  # what it says counts, and our own file stays as it is
        if name in map(basename, (self._file.path, self._file.graves)):
            self._refresh.soon()

    async def stop(self) -> None:
        """Leave off what is being read; letters that are not buried yet are by the next daemon."""
        await self._settling.stop()
        await self._refresh.stop()

    def admit(self, presented: str) -> Caller:
        """Whose key this is. Raises ``Unauthorized`` with why it is none that is good now."""
        own = self._own
        if own and presented.startswith(_OWN_BEGINNING) and own.secret.fits(presented):
            return Caller("access", own.name, "nobody", access=own.id)
        key = self.keys.admit(presented, self._clock.now())
        if self.keys.untold(key.id) and key.secret.fits(presented):
            self._settle(key)  # somebody has the new letters
        return Caller("access", key.name, "nobody", access=key.id)

    def find(self, key_id: str) -> AccessKey | None:
        """The key of that id, if it is enabled and not expired."""
        if self._own and key_id == self._own.id:
            return self._own
        key = self.keys.find(key_id)
        if key is None or not key.enabled:
            return None
        return None if key.expires and key.expired(self._clock.now()) else key

    def welcomes(self, key: AccessKey) -> bool:
        """Whether what was begun with this key may go on: it is still good, with these letters."""
        untold = self.keys.untold(key.id)
        return still_opens(key, self.find(key.id), self._clock.now(), untold)

    def own(self) -> str:
        """A key for what this daemon starts itself: in no file, and gone when the daemon is.

        Its id stays the same, so that the ledger's sums are of one key.
        """
        letters, kept = issue(OWN_NAME, self._clock.now())
        letters, self._own = reissue(structs.replace(kept, id=OWN_ID), kept.created, 0)
        return letters

    async def add(self, name: str, revise: Revise = lambda key: key) -> tuple[str, AccessKey]:
        """Make a key, with what ``revise`` adds; the key itself is shown once and kept nowhere.

        ``Conflict`` when the name is taken, ``BadRequest`` for what cannot be.
        """
        key, kept = _told(lambda: issue(name, self._clock.now()))
        made = structs.replace(_told(lambda: revise(kept)), id=kept.id, secret=kept.secret)
        await self._change(partial(self._file.add, made))
        return key, made

    async def change(self, key_id: str, revise: Revise) -> AccessKey:
        """Give a key other fields; its id and letters stay. ``NotFound``, and as in ``add``."""

        def revised(key: AccessKey) -> AccessKey:
            return structs.replace(
                _told(lambda: revise(key)), id=key.id, secret=key.secret, created=key.created
            )

        return await self._change(partial(self._file.change, key_id, revised))

    async def reissue(self, key_id: str, revise: Revise, *, dry_run: bool = False) -> AccessKey:
        """Give a key the other letters that ``revise`` makes; those before hold until ``answer``.

        As ``change``. With a crash after it they hold until the new ones are used.
        """
        return await self._change(partial(self._file.reissue, key_id, revise, dry_run=dry_run))

    async def answer(self, key: AccessKey) -> None:
        """Refuse the letters before, but for their grace: the new ones are about to be told.

        ``told`` must be called then.
        """
        self._file.answer(key.secret.sha256)
        self._look_again = -math.inf
        await self._refresh.now()

    def told(self, key: AccessKey, *, arrived: bool) -> None:
        """Take note whether the answer with the letters of a reissued key got out.

        Where it did not, nobody has them, and those before are good again.
        """
        if arrived:
            self._settle(key)
            return
        self._file.take_back(key.secret.sha256)
        self._look_again = -math.inf
        self._refresh.soon()

    async def put(self, key: AccessKey, *, dry_run: bool = False) -> AccessKey:
        """One more, as it is: its letters were told to somebody already. As ``add``."""
        await self._change(partial(self._file.add, key, dry_run=dry_run))
        return key

    async def rewrite(self, key_id: str, revise: Revise, *, dry_run: bool = False) -> AccessKey:
        """As ``change``, with the letters that ``revise`` gives it."""

        def revised(key: AccessKey) -> AccessKey:
            return structs.replace(_told(lambda: revise(key)), id=key.id, created=key.created)

        return await self._change(partial(self._file.change, key_id, revised, dry_run=dry_run))

    async def remove(
        self, key_id: str, check: Callable[[AccessKey], object] = bool, *, dry_run: bool = False
    ) -> AccessKey:
        """Take a key away, unless ``check`` raises; when this returns, it opens nothing.

        ``NotFound``.
        """
        return await self._change(partial(self._file.remove, key_id, check, dry_run=dry_run))

    def _settle(self, key: AccessKey) -> None:
        """Have the letters before buried on the disk, too, however long the disk takes."""

        async def settle() -> None:
            await self._change(partial(self._file.settle, key.id, key.secret.sha256))

        failed = f"the letters before of the access key {key.name} were not taken away yet"
        self._settling.start(key.secret.sha256, settle, failed)

    async def _change(self, change: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(change)
        finally:
            await self._refresh.now()

    def _stale(self) -> bool:
        return self._file.stamp() != self._stamp or self._clock.monotonic() >= self._look_again

    async def _read(self) -> None:
        if not self._stale():
            return
        kept = await asyncio.to_thread(self._file.read)
        if kept.doubtful and kept.stamp != self._stamp and self._stamp is not _UNREAD:
            await asyncio.sleep(SETTLE)
            kept = await asyncio.to_thread(self._file.read)
        self._take(kept)

    def _take(self, kept: Kept) -> None:
        now = self._clock.monotonic()
        if kept.stamp != self._stamp:
            self._stamp, self._noticed = kept.stamp, now
        if now - self._noticed < RACY:
            self._look_again = now
        else:
            self._look_again = math.inf if kept.certain else now + RETRY
        if kept.mistakes != self.mistakes:
            _log_mistakes(self._file.path, kept)
            self.mistaken(kept.mistakes)
        self.keys, self.mistakes = AccessKeys(kept.keys, kept.untold), kept.mistakes
        if kept.certain:  # else nobody new is let in, but who is may stay until it is known
            self._tell_lost()

    def _tell_lost(self) -> None:
        before, since = self._certain, self._since
        self._certain, self._since = self.keys, self._clock.now()
        self._next_end = self.keys.next_end(self._since)
        if lost := before.lost(self.keys, since, self._since):
            for hear in self._hearing:
                hear(lost)


def _log_mistakes(path: str, kept: Kept) -> None:
    for mistake in kept.mistakes:
        _log.error("%s", mistake)
    if kept.mistakes:
        _log.error("access keys that are not valid open nothing; %d are", len(kept.keys))
    else:
        _log.warning("%s is in order again", path)


def _told(make: Callable[[], T]) -> T:
    """What ``make`` makes; what it cannot is the caller's mistake."""
    try:
        return make()
    except ValueError as error:
        raise BadRequest(str(error)) from error
