"""One-time codes: ten characters by which a person signs in once, for who holds the management key.

The proxy specification, sections 1 and 3. A code is short, because a person types it: so it lasts
five minutes by a clock that nobody can put back, works once, and ends after five wrong tries,
whatever these were. Codes are in memory only: a restart, or a copy of the files, revives none.
"""

import re
from collections.abc import Callable
from hashlib import sha256

from msgspec import Struct

from agentd import ids

SECONDS = 300
"""How long a code is valid (the proxy specification, section 8)."""

TRIES = 5
"""Wrong tries after which every code that was open by then is void."""

MOST = 16
"""Codes that are open at the same time; one more voids the oldest."""


class _Open(Struct):
    """A code that may still be entered: until when, and after how many wrong tries no more."""

    until: float
    tries: int = TRIES


class Codes:
    """The codes that are open. ``now`` tells seconds that only rise.

    Nothing here waits, so of many who enter a code at the same time one succeeds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._open: dict[bytes, _Open] = {}

    def issue(self) -> str:
        """A new code, which is told this once: only its digest is kept."""
        self._sweep()
        if len(self._open) >= MOST:
            del self._open[next(iter(self._open))]
        code = ids.new_code()
        self._open[_digest(code)] = _Open(self._now() + SECONDS)
        return code

    def redeem(self, entered: str) -> bool:
        """Whether this is an open code; it is so no more. Case, blanks and dashes do not matter."""
        self._sweep()
        if self._open.pop(_digest(entered), None):
            return True
        for one in self._open.values():
            one.tries -= 1
        self._sweep()
        return False

    def _sweep(self) -> None:
        now = self._now()
        self._open = {
            digest: one for digest, one in self._open.items() if one.until > now and one.tries > 0
        }


def _digest(code: str) -> bytes:
    plain = re.sub(r"[\s-]", "", code).upper()
    return sha256(plain.encode("utf-8", "surrogatepass")).digest()
