"""The secrets of one access key that were hidden lately: hidden wherever they turn up again.

A secret that was found because of what stands around it comes back bare: in the arguments of a
tool call into which it was put back, or in what the tool prints. Everything is in memory only.
"""

import re
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from msgspec import Struct

from agentd.core.lru_cache import LruCache
from agentd.gateway.secrets.detect import KnownValueMatcher
from agentd.gateway.secrets.escape_layers import decode_identity, list_forms
from agentd.gateway.secrets.exact_values import HEAD, LONGEST, ExactValues

MOST = 1000
"""Secrets that are remembered of a key; those not met for longest are forgotten."""

MOST_BYTES = 2 * 2**20
"""Bytes of them all. A larger one is hidden and put back, but not remembered: what is so long is
found again by the rule that found it first, such as base64 with a key in it."""

BARE = HEAD
"""The minimum bytes of a secret that is searched without its context."""

_SAME_IN_JSON = re.compile(rb"[A-Za-z0-9_.~+=:@%!#$*,;()-]+")
"""No encoder writes these in more than one way (``/``, ``&`` and ``<`` some do)."""


class KnownSecret(Struct, frozen=True):
    """A secret that was masked for an access key, as stored across restarts."""

    key: str
    """The access key's id."""
    rule: str
    value: str
    """The normalized value: as ``decode_identity`` returns it."""

    def __repr__(self) -> str:
        """Omit the value."""
        return f"KnownSecret(key={self.key!r}, rule={self.rule!r})"


class _KnownValue(NamedTuple):
    placeholder: str
    rule: str
    number: int


class KnownSecrets:
    """The secrets of one access key."""

    def __init__(self) -> None:
        self.mark = 0
        """Rises with every secret that is new."""
        self._adding = Lock()
        self._values: LruCache[bytes, _KnownValue] = LruCache(MOST, MOST_BYTES)
        self._looks: tuple[int, KnownValueMatcher | None] = (0, None)
        self._newer: tuple[int, int, ExactValues | None] = (0, 0, None)

    def get_placeholder(self, value: bytes) -> str:
        """Return the placeholder of this secret; empty if it is new."""
        known = self._values.get(value)
        return known.placeholder if known else ""

    def add(self, value: bytes, placeholder: str, rule: str) -> str:
        """Add a secret and return its placeholder; another thread may have chosen it."""
        with self._adding:
            known = self._values.get(value)
            if known is None:
                known = _KnownValue(placeholder, rule, self.mark + 1)
                if self._values.put(value, known, len(value)):
                    self.mark += 1
            return known.placeholder

    def select(self, is_masked: Callable[[str, bytes], bool]) -> "KnownSecrets":
        """Return a copy with only those that ``is_masked`` by their rule."""
        fewer = KnownSecrets()
        for value, known in self._values.items():
            if is_masked(known.rule, value):
                fewer.add(value, known.placeholder, known.rule)
        return fewer

    def get_values(self) -> dict[str, str]:
        """Return every placeholder with the secret it stands for."""
        return {known.placeholder: decode_identity(value) for value, known in self._values.items()}

    def get_matcher(self) -> tuple[int, KnownValueMatcher | None]:
        """Return the mark, and a matcher for all secrets up to it, or None if there are none."""
        if self._looks[0] != self.mark:
            mark, known = self.mark, self._values.items()
            bare = {form: one.rule for value, one in known for form in _list_terms(value)}
            self._looks = mark, KnownValueMatcher(bare) if bare else None
        return self._looks

    def may_hold(self, raw: bytes, since: int) -> bool:
        """Return whether JSON text may hold a secret that is newer than the mark ``since``."""
        known_since, mark, values = self._newer
        if (known_since, mark) != (since, self.mark):
            mark = self.mark
            known = self._values.items()
            newer = [
                form for value, one in known if one.number > since for form in _list_terms(value)
            ]
            same = all(_SAME_IN_JSON.fullmatch(value) for value in newer)
            values = ExactValues(newer) if same else None
            self._newer = since, mark, values
        return values is None or values.is_any_in(raw)


def _list_terms(value: bytes) -> list[bytes]:
    """Return the forms in which the secret of this value is searched."""
    forms = (value,) if _SAME_IN_JSON.fullmatch(value) else list_forms(value)
    return [form for form in forms if BARE <= len(form) <= LONGEST]
