"""Notify the service manager of the daemon's status: the ``sd_notify`` protocol.

One datagram of ``NAME=value`` lines to the socket named by ``NOTIFY_SOCKET``. Without that variable
(started by hand, in a container, on a machine without systemd) every call does nothing.

No call blocks or raises: a service manager that is busy or gone must not harm the daemon. What
could not be sent is sent with the next message, so a later ping still delivers a lost ``READY``.

The socket is for the daemon alone: it must not reach the environment of a child, and both units
accept messages from the main process only.
"""

import os
import socket
from collections.abc import Mapping
from typing import Self

MAX_STATUS = 500
"""Characters; systemd drops a message of more than 4096 bytes, and a character is at most four."""


class Notifier:
    """Connection to the service manager, open until ``close``."""

    def __init__(self, address: bytes | None, watchdog_interval: float | None) -> None:
        """Take the kernel's socket address (``None``: no manager) and seconds between pings."""
        self._address = address
        self._watchdog_interval = watchdog_interval
        self._unsent: dict[str, str] = {}
        self._socket: socket.socket | None = None
        if address is not None:
            # Opened at the start, so that a daemon out of descriptors can still ping.
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        """Read ``NOTIFY_SOCKET``, ``WATCHDOG_USEC``, ``WATCHDOG_PID``; ignore invalid values."""
        address = _parse_address(environ.get("NOTIFY_SOCKET", ""))
        return cls(address, None if address is None else _read_watchdog_interval(environ))

    def report_ready(self, status: str = "") -> None:
        """Report that requests are served from now on; call it once."""
        self._send(READY="1", STATUS=_clean_line(status))

    def report_stopping(self, status: str = "") -> None:
        """Report that the daemon is shutting down."""
        self._send(STOPPING="1", STATUS=_clean_line(status))

    def report_status(self, text: str) -> None:
        """Set the line in ``systemctl status``; line breaks become blanks. Never a secret."""
        self._send(STATUS=_clean_line(text))

    def ping_watchdog(self) -> None:
        """Ping the watchdog; call it only while the loop and the disk both respond."""
        self._send(WATCHDOG="1")

    def get_watchdog_interval(self) -> float | None:
        """Return the seconds between two pings (half the timeout); ``None`` without a watchdog."""
        return self._watchdog_interval

    def close(self) -> None:
        """Close the socket; later calls do nothing."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, **fields: str) -> None:
        if self._socket is None or self._address is None:
            return
        self._unsent.update(fields)
        lines = "\n".join(f"{name}={value}" for name, value in self._unsent.items())
        try:
            self._socket.sendto(lines.encode(), self._address)
        except OSError:
            return
        self._unsent.clear()


def _parse_address(named: str) -> bytes | None:
    """Return the address of a path or of ``@name`` (abstract namespace); ``None`` otherwise."""
    if named.startswith("/"):
        return os.fsencode(named)
    if named.startswith("@") and len(named) > 1:
        return b"\0" + os.fsencode(named[1:])
    return None


def _read_watchdog_interval(environ: Mapping[str, str]) -> float | None:
    """Return half of ``WATCHDOG_USEC`` in seconds, if it is meant for this process."""
    allowed = environ.get("WATCHDOG_USEC", "")
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    if not (allowed.isascii() and allowed.isdecimal()) or len(allowed) > 20 or int(allowed) == 0:
        return None
    return int(allowed) / 1_000_000 / 2


def _clean_line(text: str) -> str:
    """Return a bounded printable line: a line break would start another assignment."""
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(printable.split())[:MAX_STATUS]
