"""What all live connections share: who holds them, how many there may be, and who is cut off."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from agentd.access.gate import Caller
from agentd.errors import Forbidden, LimitReached, Unavailable
from agentd.web.hosts import Hosts

MOST = 12_000
"""Live connections at once, over all keys."""
MOST_PER_KEY = 8_000
MOST_PER_ADDRESS = 10_000
"""Under another key, somebody from another address always finds room."""

REFUSED_SECONDS = 1.0
"""How long a long poll that is refused waits for its answer: a client repeats it at once."""

End: TypeAlias = Callable[[str], None]
"""Ends a connection, for a reason that may be empty."""


class Roll:
    """The open live connections by their caller, each with the way to end it."""

    def __init__(
        self,
        hosts: Hosts,
        most: int = MOST,
        most_per_key: int = MOST_PER_KEY,
        most_per_address: int = MOST_PER_ADDRESS,
    ) -> None:
        self.hosts = hosts
        self._most = most
        self._most_per_key = most_per_key
        self._most_per_address = most_per_address
        self._open: dict[End, tuple[Caller, str]] = {}
        self._by: Counter[str] = Counter()
        self._from: Counter[str] = Counter()
        self._closing = False

    def check(self, caller: Caller, origin: str | None, address: str) -> None:
        """Raise what stands in the way of one more connection of this caller, from this address.

        ``Forbidden`` for a page of a foreign origin, ``LimitReached`` when there are too many,
        ``Unavailable`` while the daemon stops.
        """
        if self._closing:
            raise Unavailable("agentd is stopping")
        if origin is not None and not self.hosts.serves(origin.partition("://")[2]):
            raise Forbidden(
                "Pages of that origin may not listen", "Add its host to 'hosts' in agentd.yml."
            )
        for count, most, whose in (
            (len(self._open), self._most, ""),
            (self._by[caller.by], self._most_per_key, " of this key or person"),
            (self._from[address], self._most_per_address, " of this address"),
        ):
            if count >= most:
                raise LimitReached(f"Too many live connections{whose}", 30)

    @contextmanager
    def held(self, caller: Caller, end: End, address: str) -> Iterator[None]:
        """Count a connection for as long as the block lasts; ``end`` is given the reason."""
        self.add(caller, end, address)
        try:
            yield
        finally:
            self.remove(end)

    def add(self, caller: Caller, end: End, address: str) -> None:
        """Count a connection until ``remove``."""
        self._open[end] = caller, address
        self._by[caller.by] += 1
        self._from[address] += 1

    def remove(self, end: End) -> None:
        """It is gone."""
        if found := self._open.pop(end, None):
            caller, address = found
            for counter, name in ((self._by, caller.by), (self._from, address)):
                counter[name] -= 1
                if not counter[name]:  # else every address that ever came would be remembered
                    del counter[name]

    def revoke(self, names: frozenset[str]) -> None:
        """These keys are no longer good: end what they opened."""
        for end, (caller, _) in list(self._open.items()):
            if caller.kind == "key" and caller.name in names:
                end("The access key is no longer valid")

    def sign_out(self, sessions: frozenset[str]) -> None:
        """These logins are over: end what they opened."""
        for end, (caller, _) in list(self._open.items()):
            if caller.session in sessions:
                end("The login is over")

    def close(self) -> None:
        """The daemon stops: end them all, and take no more. An empty reason: they may come back."""
        self._closing = True
        for end in list(self._open):
            end("")

    def __len__(self) -> int:
        return len(self._open)
