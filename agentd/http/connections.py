"""The registry of live connections: limits on their number, and closing those of a caller."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from agentd.core.errors import Forbidden, LimitReached, Unavailable
from agentd.http.access import Caller
from agentd.http.hosts import Hosts

MAX_CONNECTIONS = 12_000
"""Live connections at the same time, over all callers."""
MAX_PER_KEY = 8_000
MAX_PER_ADDRESS = 10_000
"""Below the total, so that a caller from another address, with another key, always finds room."""

REFUSED_POLL_DELAY = 1.0
"""Seconds by which the refusal of a long poll is delayed: clients repeat the poll at once."""

CloseCallback: TypeAlias = Callable[[str], None]
"""Closes a connection; the reason may be empty."""


class ConnectionRegistry:
    """The open live connections by their caller, each with the callback that closes it."""

    def __init__(
        self,
        hosts: Hosts,
        most: int = MAX_CONNECTIONS,
        most_per_key: int = MAX_PER_KEY,
        most_per_address: int = MAX_PER_ADDRESS,
    ) -> None:
        self.hosts = hosts
        self._most = most
        self._most_per_key = most_per_key
        self._most_per_address = most_per_address
        self._open: dict[CloseCallback, tuple[Caller, str]] = {}
        self._by_caller: Counter[str] = Counter()
        self._by_address: Counter[str] = Counter()
        self._closing = False

    def check(self, caller: Caller, origin: str | None, address: str) -> None:
        """Raise when this caller may not open one more connection from this address.

        ``Forbidden`` for a page of a foreign origin, ``LimitReached`` when there are too many,
        ``Unavailable`` while the daemon stops.
        """
        if self._closing:
            raise Unavailable("agentd is stopping")
        self.check_origin(origin)
        for count, most, whose in (
            (len(self._open), self._most, ""),
            (self._by_caller[caller.identity], self._most_per_key, " of this key or person"),
            (self._by_address[address], self._most_per_address, " of this address"),
        ):
            if count >= most:
                raise LimitReached(f"Too many live connections{whose}", 30)

    def check_origin(self, origin: str | None) -> None:
        """Raise ``Forbidden`` for a page of a foreign origin; None: it is no page of a browser."""
        if origin is not None and not self.hosts.serves(origin.partition("://")[2]):
            raise Forbidden(
                "Pages of that origin may not connect", "Add its host to 'hosts' in agentd.yml."
            )

    @contextmanager
    def register(self, caller: Caller, close: CloseCallback, address: str) -> Iterator[None]:
        """Count a connection for the duration of the block; ``close`` is given the reason."""
        self.add(caller, close, address)
        try:
            yield
        finally:
            self.remove(close)

    def add(self, caller: Caller, close: CloseCallback, address: str) -> None:
        """Count a connection until ``remove``."""
        self._open[close] = caller, address
        self._by_caller[caller.identity] += 1
        self._by_address[address] += 1

    def remove(self, close: CloseCallback) -> None:
        """Forget a connection that is closed; does nothing when it is not known."""
        if found := self._open.pop(close, None):
            caller, address = found
            for counter, name in ((self._by_caller, caller.identity), (self._by_address, address)):
                counter[name] -= 1
                if not counter[name]:  # otherwise every address would be remembered forever
                    del counter[name]

    def close_keys(self, names: frozenset[str]) -> None:
        """Close the connections of these API keys, which are no longer valid."""
        for close, (caller, _) in list(self._open.items()):
            if caller.kind == "key" and caller.name in names:
                close("The API key is no longer valid")

    def close_management_keys(self, names: frozenset[str]) -> None:
        """Close the connections of these management keys, which are no longer valid."""
        for close, (caller, _) in list(self._open.items()):
            if caller.kind == "management" and caller.name in names:
                close("The management key is no longer valid")

    def close_sessions(self, sessions: frozenset[str]) -> None:
        """Close the connections of these logins, which have ended."""
        for close, (caller, _) in list(self._open.items()):
            if caller.session_id in sessions:
                close("The login has ended")

    def close_all(self) -> None:
        """Close all connections on shutdown; an empty reason lets clients reconnect."""
        self._closing = True
        for close in list(self._open):
            close("")

    def __len__(self) -> int:
        return len(self._open)
