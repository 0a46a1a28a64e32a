"""What all live connections share: who holds them, how many there may be, and who is cut off."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agentd.access.gate import Caller
from agentd.errors import Forbidden, LimitReached, Unavailable
from agentd.web.hosts import Hosts

MOST = 12_000
"""Live connections at once, over all keys."""
MOST_PER_KEY = 8_000

REFUSED_SECONDS = 1.0
"""How long a long poll that is refused waits for its answer: a client repeats it at once."""


class Roll:
    """The open live connections by their caller, each with the way to end it."""

    def __init__(self, hosts: Hosts, most: int = MOST, most_per_key: int = MOST_PER_KEY) -> None:
        self.hosts = hosts
        self._most = most
        self._most_per_key = most_per_key
        self._open: dict[Callable[[str], None], Caller] = {}
        self._count: Counter[str] = Counter()
        self._closing = False

    def check(self, caller: Caller, origin: str | None) -> None:
        """Raise what stands in the way of one more connection of this caller.

        ``Forbidden`` for a page of a foreign origin, ``LimitReached`` when there are too many,
        ``Unavailable`` while the daemon stops.
        """
        if self._closing:
            raise Unavailable("agentd is stopping")
        if origin is not None and not self.hosts.serves(origin.partition("://")[2]):
            raise Forbidden(
                "Pages of that origin may not listen", "Add its host to 'hosts' in agentd.yml."
            )
        if len(self._open) >= self._most or self._count[caller.by] >= self._most_per_key:
            raise LimitReached("Too many live connections", 30)

    @contextmanager
    def held(self, caller: Caller, end: Callable[[str], None]) -> Iterator[None]:
        """Count a connection for as long as the block lasts; ``end`` is given the reason."""
        self.add(caller, end)
        try:
            yield
        finally:
            self.remove(end)

    def add(self, caller: Caller, end: Callable[[str], None]) -> None:
        """Count a connection until ``remove``."""
        self._open[end] = caller
        self._count[caller.by] += 1

    def remove(self, end: Callable[[str], None]) -> None:
        """It is gone."""
        if caller := self._open.pop(end, None):
            self._count[caller.by] -= 1

    def revoke(self, names: frozenset[str]) -> None:
        """These keys are no longer good: end what they opened."""
        for end, caller in list(self._open.items()):
            if caller.kind == "key" and caller.name in names:
                end("The access key is no longer valid")

    def close(self) -> None:
        """The daemon stops: end them all, and take no more. An empty reason: they may come back."""
        self._closing = True
        for end in list(self._open):
            end("")

    def __len__(self) -> int:
        return len(self._open)
