"""Ports: find a free one, check which process listens on one, and what hosts have any."""

import os
import socket
from contextlib import suppress

HOST_HELP = "Set host to an address of this machine, such as 127.0.0.1, or to a name of it."

_LISTENS = "0A"
"""The state LISTEN in ``/proc/net/tcp``."""


def find_free_port() -> int:
    """Return a loopback port that is free at the moment. Raises ``OSError``."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def explain_unusable_host(host: str) -> str:
    """Return why no port of a host can be listened on; empty if one can. Blocking.

    One of several addresses suffices: machines without IPv6 may know ``localhost`` as ``::1``, too.
    """
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        return error.strerror or str(error)
    why = ""
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.bind(address)
        except OSError as error:
            why = error.strerror or str(error)
        else:
            return ""
    return why


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
