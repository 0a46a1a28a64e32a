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


class _Tries:
    """The last wrong keys and passwords of one address."""

    __slots__ = ("moments", "told")

    def __init__(self) -> None:
        self.moments: deque[float] = deque(maxlen=FREE)
        self.told = float("-inf")


class WrongKeys:
    """Counts them by address; ``monotonic`` is a clock in seconds."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
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
