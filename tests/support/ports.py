"""Ports for programs that must be told theirs, and for addresses where nobody answers."""

import os
import socket
from contextlib import suppress
from random import SystemRandom

FIRST, EACH = 20_000, 1_500
"""Below those that the system gives to connections: else one of them, of a test that runs beside
this one, might have the port before the program does. Each of eight workers has its own."""


def find_free_port() -> int:
    """Return a loopback port that is free, and that no other worker's test is about to use."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    first = FIRST + EACH * (int(worker) % 8)
    while True:
        port = SystemRandom().randrange(first, first + EACH)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
