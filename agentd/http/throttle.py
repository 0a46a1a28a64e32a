"""Throttling of authentication failures: addresses with many get delayed refusals and are logged.

This makes guessing slow and visible; wrong keys and passwords count together. A request with a
valid key is never delayed, even from the address of a guesser. IPv6 addresses count by their /64
network.
"""

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from typing import NoReturn

from agentd.core.errors import LimitReached

log = logging.getLogger(__name__)

FREE_FAILURES = 5
"""Failures of one address within ``WINDOW_SECONDS`` that are refused at once."""
WINDOW_SECONDS = 10.0
DELAY_SECONDS = 1.0
"""The delay that each further refusal adds."""
MAX_DELAYED = 256
"""Refusals that are delayed at the same time, in total; more get ``LimitReached`` at once."""
MAX_TRACKED = 1024
"""Addresses that are tracked; the one without failures for longest is forgotten first."""
MAX_REPORTED = 20
"""Failed sign-ins of one address to the gateway's management within ``REPORT_WINDOW_SECONDS`` that
are recorded one by one; the next recorded one states the number of those after them."""
REPORT_WINDOW_SECONDS = 60.0


class _AddressFailures:
    """The last authentication failures of one address."""

    __slots__ = ("times", "warned_at")

    def __init__(self) -> None:
        self.times: deque[float] = deque(maxlen=FREE_FAILURES)
        self.warned_at = float("-inf")


class AuthThrottle:
    """Counts authentication failures by address; ``monotonic`` is a clock in seconds.

    ``note(text, address)`` records failed sign-ins to the gateway's management.
    """

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        note: Callable[[str, str], None] = lambda text, address: None,
    ) -> None:
        self.management_failures = ManagementFailureLog(note, monotonic)
        self._now = monotonic
        self._failures: OrderedDict[str, _AddressFailures] = OrderedDict()
        self._waiting = 0

    def record_failure(self, address: str) -> bool:
        """Count one failure; return whether its refusal is to be delayed."""
        now, network = self._now(), get_network(address)
        failures = self._failures.setdefault(network, _AddressFailures())
        self._failures.move_to_end(network)
        if len(self._failures) > MAX_TRACKED:
            self._failures.popitem(last=False)
        times = failures.times
        too_many = len(times) == FREE_FAILURES and now - times[0] < WINDOW_SECONDS
        times.append(now)
        if too_many and now - failures.warned_at >= WINDOW_SECONDS:
            failures.warned_at = now
            log.warning("many wrong keys or passwords from %s: refusals are delayed", network)
        return too_many

    async def raise_delayed(self, refusal: Exception) -> NoReturn:
        """Raise it after the delay; ``LimitReached`` at once when too many are delayed already."""
        if self._waiting >= MAX_DELAYED:
            raise LimitReached("Too many wrong keys or passwords", round(WINDOW_SECONDS))
        self._waiting += 1
        try:
            await asyncio.sleep(DELAY_SECONDS)
        finally:
            self._waiting -= 1
        raise refusal


class _NetworkFailures:
    """The failed sign-ins to the management from one network."""

    __slots__ = ("began", "count", "unreported")

    def __init__(self, now: float) -> None:
        self.began = now
        self.count = self.unreported = 0


class ManagementFailureLog:
    """Records failed sign-ins to the gateway's management by ``note(text, address)``.

    Neither a key nor its hash is ever recorded (the proxy specification, section 5.5).
    """

    def __init__(
        self,
        note: Callable[[str, str], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._note = note
        self._now = monotonic
        self._failures: OrderedDict[str, _NetworkFailures] = OrderedDict()

    def record(self, address: str, had_key: bool) -> None:
        """Record a failure from this address, with a wrong key or with none."""
        now, network = self._now(), get_network(address)
        known = self._failures.setdefault(network, _NetworkFailures(now))
        self._failures.move_to_end(network)
        if len(self._failures) > MAX_TRACKED:
            self._failures.popitem(last=False)
        if now - known.began >= REPORT_WINDOW_SECONDS:
            known.began, known.count = now, 0
        known.count += 1
        if known.count > MAX_REPORTED:
            known.unreported += 1
            return
        what = "with a wrong management key" if had_key else "without a management key"
        more = f", after {known.unreported} more that were not recorded" if known.unreported else ""
        known.unreported = 0
        self._note(f"A sign-in {what} was refused{more}", address)


def get_network(address: str) -> str:
    """Return the network of an address: itself for IPv4, the /64 for IPv6.

    One caller can easily have many IPv6 addresses, but hardly many such networks.
    """
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return address
    if found.ipv4_mapped:
        return str(found.ipv4_mapped)
    return f"{IPv6Address(int(found) >> 64 << 64)}/64"
