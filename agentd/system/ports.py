"""Loopback ports: find a free one, and check which process listens on one."""

import os
import socket
from contextlib import suppress

_LISTENS = "0A"
"""The state LISTEN in ``/proc/net/tcp``."""


def find_free_port() -> int:
    """Return a loopback port that is free at the moment. Raises ``OSError``."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def listens(pid: int, port: int) -> bool:
    """Return whether this very process listens on a port of 127.0.0.1. Blocks briefly.

    Another process may have taken the port, and must not receive what we send.
    """
    socket_ = _find_listener(port)
    if not socket_:
        return False
    with suppress(OSError):
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{descriptor}") == f"socket:[{socket_}]":
                    return True
    return False


def _find_listener(port: int) -> str:
    """Return the inode of the socket that listens on a port; empty when none does."""
    wanted = f"0100007F:{port:04X}"
    with suppress(OSError), open("/proc/net/tcp", encoding="ascii") as file:
        for line in file:
            fields = line.split()
            if fields[1] == wanted and fields[3] == _LISTENS:
                return fields[9]
    return ""
