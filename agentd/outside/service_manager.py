"""Telling the service manager how the daemon is: the ``sd_notify`` protocol.

One datagram of ``NAME=value`` lines to the socket that ``NOTIFY_SOCKET`` names. Without that
variable (started by hand, in a container, on a machine without systemd) every call does nothing.

No call waits and none raises: a manager that is busy or gone must not harm the daemon. What could
not be told is kept and told with the next message, so a late ping still delivers a lost ``READY``.

The socket is for the daemon alone: it must not reach the environment of a child, and both units
listen to the main process only.
"""

import os
import socket
from collections.abc import Mapping
from typing import Self

LONGEST_STATUS = 500
"""Characters; systemd drops a message of more than 4096 bytes, and a character is at most four."""


class Notifier:
    """The line to the service manager, open until ``close``."""

    def __init__(self, address: bytes | None, watchdog_interval: float | None) -> None:
        """``address`` as the kernel takes it, ``None`` for no manager; the interval in seconds."""
        self._address = address
        self._watchdog_interval = watchdog_interval
        self._untold: dict[str, str] = {}
        self._socket: socket.socket | None = None
        if address is not None:
            # Held open from the start: a daemon that ran out of descriptors can still ping.
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        """Read ``NOTIFY_SOCKET``, ``WATCHDOG_USEC``, ``WATCHDOG_PID``; what is no good is unset."""
        address = _address(environ.get("NOTIFY_SOCKET", ""))
        return cls(address, None if address is None else _watchdog_interval(environ))

    def ready(self, status: str = "") -> None:
        """Requests are answered from now on; say it once, after the first one could be."""
        self._tell(READY="1", STATUS=_line(status))

    def stopping(self, status: str = "") -> None:
        """The daemon is on its way out, in its own time."""
        self._tell(STOPPING="1", STATUS=_line(status))

    def status(self, text: str) -> None:
        """One line for ``systemctl status``; line breaks become blanks. Never a secret."""
        self._tell(STATUS=_line(text))

    def watchdog(self) -> None:
        """A sign of life; to be given only while the loop and the disk both answer."""
        self._tell(WATCHDOG="1")

    def watchdog_interval(self) -> float | None:
        """Seconds between two signs of life (half of what is allowed); ``None``: not awaited."""
        return self._watchdog_interval

    def close(self) -> None:
        """Give the socket back; later calls do nothing."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _tell(self, **said: str) -> None:
        if self._socket is None or self._address is None:
            return
        self._untold.update(said)
        lines = "\n".join(f"{name}={value}" for name, value in self._untold.items())
        try:
            self._socket.sendto(lines.encode(), self._address)
        except OSError:
            return
        self._untold.clear()


def _address(named: str) -> bytes | None:
    """A path, or ``@name`` in the abstract namespace (a NUL byte for the kernel); else nothing."""
    if named.startswith("/"):
        return os.fsencode(named)
    if named.startswith("@") and len(named) > 1:
        return b"\0" + os.fsencode(named[1:])
    return None


def _watchdog_interval(environ: Mapping[str, str]) -> float | None:
    """Half of ``WATCHDOG_USEC`` in seconds, when it is meant for this process."""
    allowed = environ.get("WATCHDOG_USEC", "")
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    if not (allowed.isascii() and allowed.isdecimal()) or len(allowed) > 20 or int(allowed) == 0:
        return None
    return int(allowed) / 1_000_000 / 2


def _line(text: str) -> str:
    """One bounded, printable line: a line break would begin another assignment, a NUL void it."""
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(printable.split())[:LONGEST_STATUS]
