"""The access keys that are known now, found by one look however many they are."""

from collections.abc import Iterable, Iterator

from msgspec import structs

from agentd.core.clock import Timestamp
from agentd.core.errors import Unauthorized
from agentd.gateway.keys.model import KEY_PATTERN, AccessKey, PendingReissue, SecretHash

_NOBODY = SecretHash("0" * 32, "0" * 64, "0000")
"""The hash that an unknown id is compared with, so that it takes as long as a known one."""


class Keyring:
    """The keys of one reading of their file; it does not change.

    ``unconfirmed`` are reissues whose delivery is not confirmed.
    """

    def __init__(
        self, keys: Iterable[AccessKey] = (), pending: Iterable[PendingReissue] = ()
    ) -> None:
        self._by_id = {key.id: key for key in keys}
        self.with_model_limits = tuple(key for key in self._by_id.values() if key.model_limits)
        """The keys that have limits on models."""
        self._pending = {one.key_id: one for one in pending}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[AccessKey]:
        """Iterate over the keys in the file's order."""
        return iter(self._by_id.values())

    def find(self, key_id: str) -> AccessKey | None:
        """Return the key of that id."""
        return self._by_id.get(key_id)

    def find_pending(self, key_id: str) -> PendingReissue | None:
        """Return the pending reissue of a key, if its delivery is not confirmed."""
        return self._pending.get(key_id)

    def get_last4(self, key: AccessKey) -> str:
        """Return the last four characters of the secret that somebody has.

        After a reissue whose answer did not arrive this is the previous one, until the new one
        is used.
        """
        unconfirmed = self._pending.get(key.id)
        reissued = unconfirmed is not None and unconfirmed.new == key.secret.sha256
        return unconfirmed.secret.last4 if unconfirmed and reissued else key.secret.last4

    def authenticate(self, presented: str, now: Timestamp) -> AccessKey:
        """Return the key that was presented, if it opens anything now. Raises ``Unauthorized``.

        Only the owner of a key learns that it is disabled or expired.
        """
        form = KEY_PATTERN.fullmatch(presented)
        known = self._by_id.get(form[1]) if form else None
        if known is None:
            _NOBODY.matches(presented[:100])
        elif known.matches(presented, now) or self._matches_pending(known.id, presented, now):
            if not known.enabled:
                raise Unauthorized(f'The access key "{known.name}" is disabled.')
            if known.is_expired(now):
                raise Unauthorized(f'The access key "{known.name}" expired at {known.expires}.')
            return known
        raise Unauthorized(
            "This is not an access key, or no longer a valid one.",
            'Access keys begin with "sk-agentd-"; the administrator issues them.',
        )

    def find_revoked(self, after: "Keyring", since: Timestamp, now: Timestamp) -> frozenset[str]:
        """Return the ids of the keys that were good at ``since`` and are not among those ``after``.

        They are gone, disabled, expired or have another secret.
        """
        return frozenset(
            key.id
            for key in self
            if key.is_active(since) and not after.still_accepts(now, key, self._pending.get(key.id))
        )

    def still_accepts(
        self, now: Timestamp, key: AccessKey, unconfirmed: PendingReissue | None
    ) -> bool:
        """Return whether a key that was valid still is, with every secret that it accepted."""
        known, before = self._by_id.get(key.id), self._pending.get(key.id)
        if not is_still_valid(key, known, now, before):
            return False
        return unconfirmed is None or is_still_valid(
            structs.replace(key, secret=unconfirmed.secret), known, now, before
        )

    def _matches_pending(self, key_id: str, presented: str, now: Timestamp) -> bool:
        unconfirmed = self._pending.get(key_id)
        return unconfirmed is not None and unconfirmed.matches(presented, now)

    def find_next_expiry(self, now: Timestamp) -> Timestamp | None:
        """Return when the first key that is valid now expires; None if none ever does."""
        ends = (key.expires for key in self if key.expires and key.is_active(now))
        return min(ends, default=None)


def is_still_valid(
    key: AccessKey,
    after: AccessKey | None,
    now: Timestamp,
    unconfirmed: PendingReissue | None = None,
) -> bool:
    """Return whether a key that was good before still is, being ``after`` now."""
    if after is None or not after.is_active(now):
        return False
    good = (after.secret, after.before)
    return key.secret in (
        good if unconfirmed is None else (*good, unconfirmed.secret, unconfirmed.before)
    )
