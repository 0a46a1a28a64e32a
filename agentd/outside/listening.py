"""Ports on loopback: a free one, and whether it is this very process that listens there."""

import os
import socket
from contextlib import suppress

_LISTENS = "0A"
"""As ``/proc/net/tcp`` writes the state."""


def free_port() -> int:
    """A port on loopback that nobody has at the moment. Raises ``OSError``."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def listens(pid: int, port: int) -> bool:
    """Whether the process itself listens at this port of 127.0.0.1. Blocking, shortly.

    Another one may have taken the port meanwhile: what we have to say is not for it.
    """
    socket_ = _listener(port)
    if not socket_:
        return False
    with suppress(OSError):
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{descriptor}") == f"socket:[{socket_}]":
                    return True
    return False


def _listener(port: int) -> str:
    """The inode of the socket that listens there; empty when none does."""
    wanted = f"0100007F:{port:04X}"
    with suppress(OSError), open("/proc/net/tcp", encoding="ascii") as file:
        for line in file:
            fields = line.split()
            if fields[1] == wanted and fields[3] == _LISTENS:
                return fields[9]
    return ""
