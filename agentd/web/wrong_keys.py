"""Wrong keys and passwords: who brings many gets refusals late, and is named in the log.

So guessing is slow and does not stay unseen; keys and passwords count together. Whoever brings a
good key is never made to wait, not even beside a guesser of the same address. An IPv6 address
counts with its network of 64 bits.
"""

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from typing import NoReturn

from agentd.errors import LimitReached

log = logging.getLogger(__name__)

FREE = 5
"""Wrong keys of one address that are refused at once ..."""
WITHIN = 10.0
"""... in so many seconds."""
LATE = 1.0
"""How long each further refusal waits, in seconds."""
WAITING = 256
"""Refusals that wait at the same time, from everywhere; those above are told so at once."""
REMEMBERED = 1024
"""Addresses that are remembered; the one that was silent longest is forgotten first."""
EACH = 20
"""Failed sign-ins of one address to the gateway's management that are noted one by one ..."""
EACH_WITHIN = 60.0
"""... in so many seconds; those after them are told in number by the next one that is noted."""


class _Tries:
    """The last wrong keys and passwords of one address."""

    __slots__ = ("moments", "told")

    def __init__(self) -> None:
        self.moments: deque[float] = deque(maxlen=FREE)
        self.told = float("-inf")


class WrongKeys:
    """Counts them by address; ``monotonic`` is a clock in seconds.

    ``note`` is told of failed sign-ins to the gateway's management: what, and from where.
    """

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        note: Callable[[str, str], None] = lambda text, address: None,
    ) -> None:
        self.management = FailedSignIns(note, monotonic)
        self._now = monotonic
        self._tries: OrderedDict[str, _Tries] = OrderedDict()
        self._waiting = 0

    def late(self, address: str) -> bool:
        """Note one more; whether its refusal is to come late."""
        now, network = self._now(), network_of(address)
        tries = self._tries.setdefault(network, _Tries())
        self._tries.move_to_end(network)
        if len(self._tries) > REMEMBERED:
            self._tries.popitem(last=False)
        moments = tries.moments
        many = len(moments) == FREE and now - moments[0] < WITHIN
        moments.append(now)
        if many and now - tries.told >= WITHIN:
            tries.told = now
            log.warning("many wrong keys or passwords from %s: refusals come late", network)
        return many

    async def refuse(self, refusal: Exception) -> NoReturn:
        """Raise it, after a while; ``LimitReached`` at once when too many wait already."""
        if self._waiting >= WAITING:
            raise LimitReached("Too many wrong keys or passwords", round(WITHIN))
        self._waiting += 1
        try:
            await asyncio.sleep(LATE)
        finally:
            self._waiting -= 1
        raise refusal


class _Failures:
    """Those of one network."""

    __slots__ = ("began", "count", "untold")

    def __init__(self, now: float) -> None:
        self.began = now
        self.count = self.untold = 0


class FailedSignIns:
    """Failed sign-ins to the gateway's management, told to ``note(text, address)``.

    Neither a key nor its sum is ever told (the proxy specification, section 5.5).
    """

    def __init__(
        self,
        note: Callable[[str, str], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._note = note
        self._now = monotonic
        self._failures: OrderedDict[str, _Failures] = OrderedDict()

    def failed(self, address: str, brought: bool) -> None:
        """One more from this address; whether it ``brought`` a key, which was wrong, or none."""
        now, network = self._now(), network_of(address)
        known = self._failures.setdefault(network, _Failures(now))
        self._failures.move_to_end(network)
        if len(self._failures) > REMEMBERED:
            self._failures.popitem(last=False)
        if now - known.began >= EACH_WITHIN:
            known.began, known.count = now, 0
        known.count += 1
        if known.count > EACH:
            known.untold += 1
            return
        what = "with a wrong management key" if brought else "without a management key"
        more = f", after {known.untold} more that were not noted" if known.untold else ""
        known.untold = 0
        self._note(f"A sign-in {what} was refused{more}", address)


def network_of(address: str) -> str:
    """What one caller can hardly have many of."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return address
    if found.ipv4_mapped:
        return str(found.ipv4_mapped)
    return f"{IPv6Address(int(found) >> 64 << 64)}/64"
