"""Login codes: ten characters for signing in once, issued with the management key.

The proxy specification, sections 1 and 3. A code is short, because a person types it: 46 bits. So
it is valid for five minutes (by the monotonic clock, which cannot be set back) and works once, and
wrong attempts count for five minutes: after five of them an address is blocked, and
after 20,000 nobody may. With at most 16 codes open, all attempts within five minutes find one of
them with a chance of one in 300 million. A wrong attempt does not invalidate any code: otherwise
anybody could lock out everybody. Codes are in memory only: neither a restart nor a copy of the
files brings one back.
"""

import math
import re
from collections import Counter, deque
from collections.abc import Callable
from hashlib import sha256

from agentd.core import ids
from agentd.core.errors import LimitReached

CODE_SECONDS = 300
"""The seconds for which a code is valid (the proxy specification, section 8)."""

MAX_TRIES = 5
"""Wrong attempts of one network within ``CODE_SECONDS`` before it is blocked."""

MAX_TOTAL_TRIES = 20_000
"""Wrong attempts of all networks within ``CODE_SECONDS`` before all are blocked."""

MAX_OPEN_CODES = 16
"""Codes that are open at the same time; one more invalidates the oldest."""


class LoginCodes:
    """The open codes; ``now`` is a monotonic clock in seconds.

    Nothing here waits, so of several simultaneous attempts with one code only one succeeds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._open: dict[bytes, float] = {}
        """The end of each code's validity, by digest."""
        self._wrong: deque[tuple[float, str]] = deque()
        """The time and network of each wrong attempt, the oldest first."""
        self._wrong_of: Counter[str] = Counter()
        """The number of wrong attempts of each network."""

    def issue_code(self) -> str:
        """Return a new code; only its digest is kept."""
        self._sweep()
        if len(self._open) >= MAX_OPEN_CODES:
            del self._open[next(iter(self._open))]
        code = ids.generate_login_code()
        self._open[_digest(code)] = self._now() + CODE_SECONDS
        return code

    def redeem(self, entered: str, network: str) -> bool:
        """Use up a code; return whether it was open. Case, blanks and dashes do not matter.

        ``LimitReached`` after too many wrong attempts from this network, or from all.
        """
        self._sweep()
        if self._wrong_of.get(network, 0) >= MAX_TRIES or len(self._wrong) >= MAX_TOTAL_TRIES:
            raise LimitReached("Too many wrong codes", self._count_seconds_blocked(network))
        if self._open.pop(_digest(entered), None):
            return True
        self._wrong.append((self._now(), network))
        self._wrong_of[network] += 1
        return False

    def _count_seconds_blocked(self, network: str) -> int:
        """Return the seconds until the oldest attempt that counts against the network expires."""
        full = len(self._wrong) >= MAX_TOTAL_TRIES
        oldest = next(at for at, one in self._wrong if full or one == network)
        return max(1, math.ceil(oldest + CODE_SECONDS - self._now()))

    def _sweep(self) -> None:
        now = self._now()
        self._open = {digest: until for digest, until in self._open.items() if until > now}
        while self._wrong and self._wrong[0][0] + CODE_SECONDS <= now:
            _, network = self._wrong.popleft()
            self._wrong_of[network] -= 1
            if not self._wrong_of[network]:
                del self._wrong_of[network]


def _digest(code: str) -> bytes:
    plain = re.sub(r"[\s-]", "", code).upper()
    return sha256(plain.encode("utf-8", "surrogatepass")).digest()
