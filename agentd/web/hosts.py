"""The names by which this daemon may be called: a defence against DNS rebinding.

A page of a stranger can make a browser send requests to this machine under the stranger's own
name; such a request names a host that is not ours.
"""

from collections.abc import Iterable
from ipaddress import ip_address

_REMEMBERED = 256


class Hosts:
    """Loopback by any spelling, and the names that the settings add."""

    def __init__(self, more: Iterable[str] = ()) -> None:
        self._known: dict[str, bool] = {}
        self.allow(more)

    def allow(self, more: Iterable[str]) -> None:
        """These names, and no others, are good from now on beside loopback."""
        self._names = {"localhost", *(name.lower().rstrip(".") for name in more)}
        self._known.clear()

    def serves(self, header: str) -> bool:
        """True when a ``Host`` header, with or without a port, names this daemon."""
        known = self._known.get(header)
        if known is None:
            known = self._look(header)
            # Only what is ours is remembered, and not every port: nobody can fill the memory.
            if known and len(self._known) < _REMEMBERED:
                self._known[header] = True
        return known

    def _look(self, header: str) -> bool:
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
