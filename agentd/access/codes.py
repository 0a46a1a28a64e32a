"""One-time codes: ten characters by which a person signs in once, for who holds the management key.

The proxy specification, sections 1 and 3. A code is short, because a person types it: 46 bits. So
it lasts five minutes by a clock that nobody can put back and works once, and wrong tries are
counted for five minutes: after five of them an address may enter none, and after 20,000 nobody may.
With 16 codes open, which is the most, all that can be tried in five minutes finds one of them with
a chance of one in 300 million. No try voids a code: else anybody could keep everybody out. Codes
are in memory only: a restart, or a copy of the files, revives none.
"""

import math
import re
from collections import Counter, deque
from collections.abc import Callable
from hashlib import sha256

from agentd import ids
from agentd.errors import LimitReached

SECONDS = 300
"""How long a code is valid (the proxy specification, section 8)."""

TRIES = 5
"""Wrong tries in ``SECONDS`` after which an address may enter no code until they are over."""

TRIES_OF_ALL = 20_000
"""Wrong tries in ``SECONDS`` from everywhere, after which nobody may."""

MOST = 16
"""Codes that are open at the same time; one more voids the oldest."""


class Codes:
    """The codes that are open. ``now`` tells seconds that only rise.

    Nothing here waits, so of many who enter a code at the same time one succeeds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._open: dict[bytes, float] = {}
        """Until when each may be entered, by digest."""
        self._wrong: deque[tuple[float, str]] = deque()
        """When wrong ones were entered and from which network, the oldest first ..."""
        self._wrong_of: Counter[str] = Counter()
        """... and how many these are of each network."""

    def issue(self) -> str:
        """A new code, which is told this once: only its digest is kept."""
        self._sweep()
        if len(self._open) >= MOST:
            del self._open[next(iter(self._open))]
        code = ids.new_code()
        self._open[_digest(code)] = self._now() + SECONDS
        return code

    def redeem(self, entered: str, network: str) -> bool:
        """Whether this is an open code; it is so no more. Case, blanks and dashes do not matter.

        ``LimitReached`` where too many wrong ones came from its network, or from everywhere.
        """
        self._sweep()
        if self._wrong_of.get(network, 0) >= TRIES or len(self._wrong) >= TRIES_OF_ALL:
            raise LimitReached("Too many wrong codes were entered", self._wait(network))
        if self._open.pop(_digest(entered), None):
            return True
        self._wrong.append((self._now(), network))
        self._wrong_of[network] += 1
        return False

    def _wait(self, network: str) -> int:
        """Whole seconds until the oldest try that counts against the network is forgotten."""
        full = len(self._wrong) >= TRIES_OF_ALL
        oldest = next(at for at, one in self._wrong if full or one == network)
        return max(1, math.ceil(oldest + SECONDS - self._now()))

    def _sweep(self) -> None:
        now = self._now()
        self._open = {digest: until for digest, until in self._open.items() if until > now}
        while self._wrong and self._wrong[0][0] + SECONDS <= now:
            _, network = self._wrong.popleft()
            self._wrong_of[network] -= 1
            if not self._wrong_of[network]:
                del self._wrong_of[network]


def _digest(code: str) -> bytes:
    plain = re.sub(r"[\s-]", "", code).upper()
    return sha256(plain.encode("utf-8", "surrogatepass")).digest()
