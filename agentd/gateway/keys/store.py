"""The access keys that hold at this moment, though their file is edited while we run.

A key that is deleted, disabled or broken in the file opens nothing from the next request on: each
request compares the file's stamp. A file that looks as if it were only being saved is given a
quarter of a second, in which requests wait. What can no longer be read as valid is not valid.
Listeners are called when a key becomes invalid, even without a request.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from os.path import basename
from typing import TypeAlias, TypeVar

from msgspec import structs

from agentd.core.clock import Clock, Timestamp
from agentd.core.errors import BadRequest, ConfigProblem, Forbidden
from agentd.core.retry import BackgroundRetries
from agentd.gateway.keys.file import AccessKeyFile, AccessKeyFileContents
from agentd.gateway.keys.keyring import Keyring, is_still_valid
from agentd.gateway.keys.model import PREFIX, AccessKey, issue, reissue
from agentd.http.access import Caller
from agentd.storage.watched_file import REVOKE_ON_ERROR, FileReading, WatchedFile

OWN_ID = "agentdengine"
OWN_NAME = "the agent's engines"
"""The key by which the agent's own engines call the gateway."""

_log = logging.getLogger("agentd.proxy")

_OWN_BEGINNING = f"{PREFIX}{OWN_ID}-"

T = TypeVar("T")

Revise = Callable[[AccessKey], AccessKey]

OnRevoked: TypeAlias = Callable[[frozenset[str]], None]
"""Called with the ids of keys that are no longer valid."""

OnProblems: TypeAlias = Callable[[tuple[ConfigProblem, ...]], None]
"""Called with the file's problems when they change or are gone."""


class AccessKeyRepository:
    """Keeps the keys fresh, admits them and changes them."""

    def __init__(self, file: AccessKeyFile, clock: Clock) -> None:
        self.keys = Keyring()
        """The valid keys, disabled and expired ones included."""
        self.problems: tuple[ConfigProblem, ...] = ()
        """Why other entries of the file are invalid ..."""
        self.on_problems: OnProblems = lambda _: None
        """... and what is called when that changes."""
        self.on_changed: Callable[[], None] = lambda: None
        """Called when the keys or the problems changed, through us or by hand."""
        self.on_address_refused: Callable[[AccessKey, str], None] = lambda key, address: None
        """Called with a key that was sent from an address that is not on its list."""
        self._file = file
        self._clock = clock
        self._revoked_listeners: list[OnRevoked] = []
        self._announced = self.keys
        """The keys of the last successful read ..."""
        self._announced_at = clock.now()
        """... when revoked keys were last announced ..."""
        self._next_expiry: Timestamp | None = None
        """... and when the next key expires."""
        self._own: AccessKey | None = None
        self._watched = WatchedFile(
            file.path,
            self._read,
            AccessKeyFileContents(),
            self._apply,
            policy=REVOKE_ON_ERROR,
            assess=_assess,
            get_stamp=file.get_stamp,
            clock=clock,
        )
        self._revoking = BackgroundRetries()
        """Revokes the secrets before a reissue, by the digest of the new ones."""

    def on_revoked(self, lost: OnRevoked) -> None:
        """Call ``lost`` on the loop with revoked keys, whose requests are to be ended."""
        self._revoked_listeners.append(lost)

    async def ensure_current(self) -> None:
        """Reload the file if it changed; called before each admission. Costs one ``stat``.

        Even requests of the same loop iteration do not share it: a key that is deleted between
        two requests must not admit the second one.
        """
        await self._watched.ensure_current()

    async def poll(self) -> None:
        """Check file and clock; called periodically, as there may be no request that does."""
        await self.ensure_current()
        if self._next_expiry and self._clock.now() >= self._next_expiry:
            self._announce_revoked()

    def on_file_changed(self, name: str) -> None:
        """Schedule a reload if this is one of our files; called by a ``FolderWatcher``."""
        if name == basename(self._file.revoked_path):
            self._watched.invalidate()  # what it says counts, and our own file stays as it is
        if name in map(basename, (self._file.path, self._file.revoked_path)):
            self._watched.schedule()

    async def stop(self) -> None:
        """Stop reading; secrets that are still to be revoked are left to the next start."""
        await self._revoking.stop()
        await self._watched.stop()

    def authenticate(self, presented: str, address: str = "") -> Caller:
        """Return the caller of a key.

        Raises ``Unauthorized`` with the reason if it is invalid, and ``Forbidden`` if it may not
        be used from the client's ``address``.
        """
        own = self._own
        if own and presented.startswith(_OWN_BEGINNING) and own.secret.matches(presented):
            return Caller("access", own.name, "nobody", access_key_id=own.id)
        key = self.keys.authenticate(presented, self._clock.now())
        if not key.may_come_from(address):
            self.on_address_refused(key, address)
            raise Forbidden(
                f'The access key "{key.name}" may not be used from {address or "here"}.',
                "The administrator can add the address to the key's list.",
            )
        if self.keys.find_pending(key.id) and key.secret.matches(presented):
            self._revoke_previous(key)  # somebody has the new secret
        return Caller("access", key.name, "nobody", access_key_id=key.id)

    def find(self, key_id: str) -> AccessKey | None:
        """Return the key of that id, if it is enabled and not expired."""
        if self._own and key_id == self._own.id:
            return self._own
        key = self.keys.find(key_id)
        if key is None or not key.enabled:
            return None
        return None if key.expires and key.is_expired(self._clock.now()) else key

    def is_still_valid(self, key: AccessKey) -> bool:
        """Return whether requests of this key may continue: it and its secret are still valid."""
        unconfirmed = self.keys.find_pending(key.id)
        return is_still_valid(key, self.find(key.id), self._clock.now(), unconfirmed)

    def issue_own_key(self) -> str:
        """Return a key for the daemon's own child processes: in no file, valid until it ends.

        Its id stays the same, so that the ledger's sums are of one key.
        """
        secret, kept = issue(OWN_NAME, self._clock.now())
        secret, self._own = reissue(structs.replace(kept, id=OWN_ID), kept.created, 0)
        return secret

    async def add(self, name: str, revise: Revise = lambda key: key) -> tuple[str, AccessKey]:
        """Create a key, with what ``revise`` adds; the key itself is returned once and not stored.

        ``Conflict`` if the name is taken, ``BadRequest`` for invalid fields.
        """
        key, kept = _call_or_bad_request(lambda: issue(name, self._clock.now()))
        made = structs.replace(
            _call_or_bad_request(lambda: revise(kept)), id=kept.id, secret=kept.secret
        )
        await self._watched.write(partial(self._file.add, made))
        return key, made

    async def change(self, key_id: str, revise: Revise) -> AccessKey:
        """Change a key; its id and secret stay. ``NotFound``, and as in ``add``."""

        def revise_key(key: AccessKey) -> AccessKey:
            return structs.replace(
                _call_or_bad_request(lambda: revise(key)),
                id=key.id,
                secret=key.secret,
                created=key.created,
            )

        return await self._watched.write(partial(self._file.change, key_id, revise_key))

    async def reissue(self, key_id: str, revise: Revise, *, dry_run: bool = False) -> AccessKey:
        """Give a key the secret that ``revise`` makes, as ``change`` does.

        The previous one is valid until ``complete_reissue``, or after a crash until the new one is
        used.
        """
        return await self._watched.write(
            partial(self._file.reissue, key_id, revise, dry_run=dry_run)
        )

    async def complete_reissue(self, key: AccessKey) -> None:
        """Refuse the previous secret after its grace: the new one is about to be sent.

        ``confirm_reissue`` must be called then.
        """
        self._file.refuse_previous(key.secret.sha256)
        self._watched.invalidate()
        await self._watched.refresh()

    def confirm_reissue(self, key: AccessKey, *, arrived: bool) -> None:
        """Record whether the response with a reissued key's secret was sent.

        If not, it is withdrawn, and the previous secret is valid again.
        """
        if arrived:
            self._revoke_previous(key)
            return
        self._file.restore_previous(key.secret.sha256)
        self._watched.invalidate()
        self._watched.schedule()

    async def put(self, key: AccessKey, *, dry_run: bool = False) -> AccessKey:
        """Add a key whose secret was already given out. As ``add``."""
        await self._watched.write(partial(self._file.add, key, dry_run=dry_run))
        return key

    async def rewrite(self, key_id: str, revise: Revise, *, dry_run: bool = False) -> AccessKey:
        """Do as ``change``, with the secret that ``revise`` sets."""

        def revise_key(key: AccessKey) -> AccessKey:
            return structs.replace(
                _call_or_bad_request(lambda: revise(key)), id=key.id, created=key.created
            )

        return await self._watched.write(
            partial(self._file.change, key_id, revise_key, dry_run=dry_run)
        )

    async def remove(
        self, key_id: str, check: Callable[[AccessKey], object] = bool, *, dry_run: bool = False
    ) -> AccessKey:
        """Revoke a key, unless ``check`` raises; it is refused once this returns.

        ``NotFound``.
        """
        return await self._watched.write(partial(self._file.remove, key_id, check, dry_run=dry_run))

    async def edit_all(
        self,
        key_ids: Sequence[str],
        revise: Callable[[AccessKey], AccessKey | None],
        added: Sequence[AccessKey] = (),
        *,
        dry_run: bool = False,
    ) -> list[tuple[AccessKey | None, AccessKey | None]]:
        """Revise keys (``None`` removes one) and add others, all or none."""
        return await self._watched.write(
            partial(self._file.edit_all, key_ids, revise, added, dry_run=dry_run)
        )

    def _revoke_previous(self, key: AccessKey) -> None:
        """Revoke the previous secret on disk, too, retrying until that succeeds."""

        async def settle() -> None:
            await self._watched.write(
                partial(self._file.revoke_previous, key.id, key.secret.sha256)
            )

        failed = f"the previous secret of the access key {key.name} is not revoked on disk yet"
        self._revoking.start(key.secret.sha256, settle, failed)

    def _read(self) -> AccessKeyFileContents:
        return self._file.read()

    def _apply(self) -> None:
        kept = self._watched.current
        if kept.problems != self.problems:
            _log_problems(self._file.path, kept)
            self.on_problems(kept.problems)
        self.keys, self.problems = Keyring(kept.keys, kept.pending), kept.problems
        if kept.is_certain:  # else no new callers are admitted, but admitted ones stay
            self._announce_revoked()
        self.on_changed()

    def _announce_revoked(self) -> None:
        before, since = self._announced, self._announced_at
        self._announced, self._announced_at = self.keys, self._clock.now()
        self._next_expiry = self.keys.find_next_expiry(self._announced_at)
        if lost := before.find_revoked(self.keys, since, self._announced_at):
            for listener in self._revoked_listeners:
                listener(lost)


def _assess(contents: AccessKeyFileContents) -> FileReading[AccessKeyFileContents]:
    return FileReading(
        contents,
        contents.problems,
        is_partial=contents.maybe_partial,
        is_certain=contents.is_certain,
    )


def _log_problems(path: str, kept: AccessKeyFileContents) -> None:
    for problem in kept.problems:
        _log.error("%s", problem)
    if kept.problems:
        _log.error("access keys that are not valid open nothing; %d are", len(kept.keys))
    else:
        _log.warning("%s is in order again", path)


def _call_or_bad_request(make: Callable[[], T]) -> T:
    """Call ``make``; raise its ``ValueError`` as ``BadRequest``."""
    try:
        return make()
    except ValueError as error:
        raise BadRequest(str(error)) from error
