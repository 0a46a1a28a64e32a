"""The access keys that are known now, found by one look however many they are."""

from collections.abc import Iterable, Iterator

from msgspec import structs

from agentd.clock import Timestamp
from agentd.errors import Unauthorized
from agentd.proxy.access_key import FORM, AccessKey, Secret, UntoldLetters

_NOBODY = Secret("0" * 32, "0" * 64, "0000")
"""What an unknown id is compared with, so that it takes as long as a known one."""


class AccessKeys:
    """The keys of one reading of their file; it does not change.

    ``untold`` are reissues of which nobody is known to have the new letters.
    """

    def __init__(
        self, keys: Iterable[AccessKey] = (), untold: Iterable[UntoldLetters] = ()
    ) -> None:
        self._by_id = {key.id: key for key in keys}
        self._untold = {one.key_id: one for one in untold}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[AccessKey]:
        """All of them, in the file's order."""
        return iter(self._by_id.values())

    def find(self, key_id: str) -> AccessKey | None:
        """The key of that id."""
        return self._by_id.get(key_id)

    def untold(self, key_id: str) -> UntoldLetters | None:
        """Return the letters before those of a key that nobody is known to have."""
        return self._untold.get(key_id)

    def admit(self, presented: str, now: Timestamp) -> AccessKey:
        """The key that was presented, if it opens anything now. Raises ``Unauthorized``.

        That a key is disabled or expired is told only to who has it.
        """
        form = FORM.fullmatch(presented)
        known = self._by_id.get(form[1]) if form else None
        if known is None:
            _NOBODY.fits(presented[:100])
        elif known.fits(presented, now) or self._fits_before(known.id, presented, now):
            if not known.enabled:
                raise Unauthorized(f'The access key "{known.name}" is disabled.')
            if known.expired(now):
                raise Unauthorized(f'The access key "{known.name}" expired at {known.expires}.')
            return known
        raise Unauthorized(
            "This is no access key, or one that is not valid any more.",
            'Those of this gateway begin with "sk-agentd-"; whoever runs it makes them.',
        )

    def lost(self, after: "AccessKeys", since: Timestamp, now: Timestamp) -> frozenset[str]:
        """The ids of the keys that were good at ``since`` and are not among those ``after``.

        They are gone, disabled, expired or of other letters.
        """
        return frozenset(
            key.id
            for key in self
            if key.opens(since) and not after.accepts(now, key, self._untold.get(key.id))
        )

    def accepts(self, now: Timestamp, key: AccessKey, untold: UntoldLetters | None) -> bool:
        """Whether a key that was good before still is, with all letters that opened it."""
        known, before = self._by_id.get(key.id), self._untold.get(key.id)
        if not still_opens(key, known, now, before):
            return False
        return untold is None or still_opens(
            structs.replace(key, secret=untold.secret), known, now, before
        )

    def _fits_before(self, key_id: str, presented: str, now: Timestamp) -> bool:
        untold = self._untold.get(key_id)
        return untold is not None and untold.fits(presented, now)

    def next_end(self, now: Timestamp) -> Timestamp | None:
        """When the first of those that are good now will expire; none: no one ever does."""
        ends = (key.expires for key in self if key.expires and key.opens(now))
        return min(ends, default=None)


def still_opens(
    key: AccessKey,
    after: AccessKey | None,
    now: Timestamp,
    untold: UntoldLetters | None = None,
) -> bool:
    """Whether a key that was good before still is, being ``after`` now."""
    if after is None or not after.opens(now):
        return False
    good = (after.secret, after.before)
    return key.secret in (good if untold is None else (*good, untold.secret, untold.before))
