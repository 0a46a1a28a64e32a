"""Ports for programs that must be told theirs, and for addresses where nobody answers."""

import socket
from contextlib import suppress
from random import SystemRandom


def free_port() -> int:
    """A port of loopback that nobody has.

    It is below those that the system gives to connections: else one of them, of a test that runs
    beside this one, might have it before the program does.
    """
    while True:
        port = SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
