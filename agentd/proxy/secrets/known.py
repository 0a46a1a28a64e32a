"""The secrets of one access key that were hidden lately: hidden wherever they turn up again.

A secret that was found because of what stands around it comes back bare: in the arguments of a
tool call into which it was put back, or in what the tool prints. Everything is in memory only.
"""

import re
from threading import Lock
from typing import NamedTuple

from msgspec import Struct

from agentd.proxy.secrets.detect import Known
from agentd.proxy.secrets.exact_values import HEAD, LONGEST, ExactValues
from agentd.proxy.secrets.recent import Recent
from agentd.proxy.secrets.writing import secret_of, writings

MOST = 1000
"""Secrets that are remembered of a key; those not met for longest are forgotten."""

MOST_BYTES = 2 * 2**20
"""Bytes of them all. A larger one is hidden and put back, but not remembered: what is so long is
found anew by what told it the first time, such as base64 with a key in it."""

BARE = HEAD
"""Bytes that a secret has at least to be looked for without what stands around it."""

_SAME_IN_JSON = re.compile(rb"[A-Za-z0-9_.~+=:@%!#$*,;()-]+")
"""No encoder writes these in more than one way (``/``, ``&`` and ``<`` some do)."""


class Secret(Struct, frozen=True):
    """A secret that was hidden for an access key, as it is kept over a restart."""

    key: str
    """The access key's id."""
    rule: str
    value: str
    """As it is known: its ``writing.identity``."""

    def __repr__(self) -> str:
        """Without the value, wherever it is printed."""
        return f"Secret(key={self.key!r}, rule={self.rule!r})"


class _Kept(NamedTuple):
    placeholder: str
    rule: str
    number: int


class Remembered:
    """One key's secrets."""

    def __init__(self) -> None:
        self.mark = 0
        """Rises with every secret that is new."""
        self._adding = Lock()
        self._kept: Recent[bytes, _Kept] = Recent(MOST, MOST_BYTES)
        self._looks: tuple[int, Known | None] = (0, None)
        self._newer: tuple[int, int, ExactValues | None] = (0, 0, None)

    def placeholder(self, value: bytes) -> str:
        """What this secret was hidden as; empty: it is new."""
        kept = self._kept.get(value)
        return kept.placeholder if kept else ""

    def add(self, value: bytes, placeholder: str, rule: str) -> str:
        """A new one; what it is hidden as, which another thread may have decided meanwhile."""
        with self._adding:
            kept = self._kept.get(value)
            if kept is None:
                kept = _Kept(placeholder, rule, self.mark + 1)
                if self._kept.put(value, kept, len(value)):
                    self.mark += 1
            return kept.placeholder

    def only(self, rules: frozenset[str]) -> "Remembered":
        """The same without what was found by no rule of these."""
        fewer = Remembered()
        for value, kept in self._kept.items():
            if kept.rule in rules:
                fewer.add(value, kept.placeholder, kept.rule)
        return fewer

    def values(self) -> dict[str, str]:
        """Every placeholder and what it stands for."""
        return {kept.placeholder: secret_of(value) for value, kept in self._kept.items()}

    def looks(self) -> tuple[int, Known | None]:
        """The mark, and what finds all up to it in a text; None: there is nothing to be found."""
        if self._looks[0] != self.mark:
            mark, kept = self.mark, self._kept.items()
            bare = {form: one.rule for value, one in kept for form in _looked_for(value)}
            self._looks = mark, Known(bare) if bare else None
        return self._looks

    def may_hold(self, raw: bytes, since: int) -> bool:
        """Whether JSON text may hold a secret that is newer than that mark."""
        known_since, mark, values = self._newer
        if (known_since, mark) != (since, self.mark):
            mark = self.mark
            kept = self._kept.items()
            newer = [
                form for value, one in kept if one.number > since for form in _looked_for(value)
            ]
            same = all(_SAME_IN_JSON.fullmatch(value) for value in newer)
            values = ExactValues(newer) if same else None
            self._newer = since, mark, values
        return values is None or values.is_any_in(raw)


def _looked_for(value: bytes) -> list[bytes]:
    """As what the secret is looked for that is known by this value."""
    forms = (value,) if _SAME_IN_JSON.fullmatch(value) else writings(value)
    return [form for form in forms if BARE <= len(form) <= LONGEST]
