"""The allowed ``Host`` headers: a defence against DNS rebinding.

An attacker's page can make its own host name resolve to this machine, so that a browser sends us
requests as same-origin; the ``Host`` header of such a request has the attacker's name.
"""

from collections.abc import Iterable
from ipaddress import ip_address

_MAX_CACHED = 256


class Hosts:
    """Loopback in any spelling, and the names that the settings add."""

    def __init__(self, more: Iterable[str] = ()) -> None:
        self._known: dict[str, bool] = {}
        self.allow(more)

    def allow(self, more: Iterable[str]) -> None:
        """Allow these names, beside loopback, instead of those allowed before."""
        self._names = {"localhost", *(name.lower().rstrip(".") for name in more)}
        self._known.clear()

    def serves(self, header: str) -> bool:
        """Return True when a ``Host`` header, with or without a port, names this daemon."""
        known = self._known.get(header)
        if known is None:
            known = self._check(header)
            # Only allowed headers are cached, and few of them (any port is allowed), so that
            # clients cannot fill the memory.
            if known and len(self._known) < _MAX_CACHED:
                self._known[header] = True
        return known

    def _check(self, header: str) -> bool:
        if header.startswith("["):
            name, bracket, port = header[1:].partition("]")
            port = port.removeprefix(":") if bracket else "?"
        else:
            name, _, port = header.partition(":")
        if port and not (port.isascii() and port.isdecimal()):
            return False
        name = name.lower()
        if name in self._names:
            return True
        try:
            return ip_address(name).is_loopback
        except ValueError:
            return False
