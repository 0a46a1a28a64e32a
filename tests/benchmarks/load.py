"""The load: a process of its own, so that it is not measured, on plain sockets, so that it is fast.

Reads one JSON object per line (``Shot``) and answers each with one (``Score``). Every answer must
be a success: the speed of errors is of no interest.
"""

import select
import socket
import sys
import time
from array import array
from collections.abc import Iterator
from itertools import cycle
from statistics import median

import msgspec
from msgspec import Struct


class Shot(Struct):
    """Requests to send in turn, over so many connections, for so long or so often."""

    port: int
    requests: list[bytes]
    connections: int = 16
    seconds: float = 1.0
    count: int = 0
    """When positive, this many answers end the shot, however long it takes."""
    reconnect: bool = False
    """A new connection for every request."""
    patience: float = 100.0
    """Seconds without any answer after which the server counts as hanging."""


class Score(Struct):
    """How it went: answers, the seconds that they took, and the median wait of one in seconds.

    ``first`` is the median wait for the first bytes of an answer, ``gap`` the widest between two
    pieces of one.
    """

    answers: int
    seconds: float
    median: float
    first: float = 0.0
    gap: float = 0.0

    @property
    def rate(self) -> float:
        """Answers per second."""
        return self.answers / self.seconds


class Client:
    """A connection with one request under way."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._got = b""
        self._sent = self._last = 0.0
        self.first = self.gap = 0.0

    def send(self, request: bytes) -> None:
        self._sent = time.perf_counter()
        self.socket.sendall(request)

    def receive(self) -> float | None:
        """Read; return the seconds that the answer took, or None until it is complete."""
        data = self.socket.recv(1 << 20)
        if not data:
            raise SystemExit("the server hung up")
        now = time.perf_counter()
        if not self._got:
            self.first = now - self._sent
        else:
            self.gap = max(self.gap, now - self._last)
        self._last = now
        self._got += data
        head, blank, body = self._got.partition(b"\r\n\r\n")
        if not blank or not _is_complete(head, body):
            return None
        if head[9:10] != b"2":
            raise SystemExit(f"not a success: {self._got[:1000]!r}")
        self._got = b""
        return time.perf_counter() - self._sent


def _is_complete(head: bytes, body: bytes) -> bool:
    head = head.lower()
    if b"transfer-encoding" in head:
        return body.endswith(b"0\r\n\r\n")
    _, found, rest = head.partition(b"content-length: ")
    return len(body) >= (int(rest.partition(b"\r\n")[0]) if found else 0)


def fire(shot: Shot) -> Score:
    """Keep every connection busy until the time or the number is up; one answer there must be."""
    poll = select.epoll()
    requests = cycle(shot.requests)
    clients = {}
    for _ in range(shot.connections):
        client = Client(shot.port)
        clients[client.socket.fileno()] = client
        poll.register(client.socket, select.EPOLLIN)
    waits, firsts = array("d"), array("d")
    began = time.perf_counter()
    end = began + shot.seconds
    for client in clients.values():
        client.send(next(requests))
    least = shot.count or 1
    while len(waits) < least or (not shot.count and time.perf_counter() < end):
        for client in _wait_for_readable(poll, clients, shot.patience):
            took = client.receive()
            if took is None:
                continue
            waits.append(took)
            firsts.append(client.first)
            idle = _replace_client(poll, clients, client, shot.port) if shot.reconnect else client
            idle.send(next(requests))
    took = time.perf_counter() - began
    gap = max(client.gap for client in clients.values())
    score = Score(len(waits), took, median(waits), median(firsts), gap)
    for client in clients.values():
        client.socket.close()
    return score


def _wait_for_readable(
    poll: "select.epoll", clients: dict[int, Client], patience: float
) -> Iterator[Client]:
    ready = poll.poll(patience)
    if not ready:
        raise SystemExit(f"no answer in {patience:.0f} seconds")
    for number, _ in ready:
        yield clients[number]


def _replace_client(
    poll: "select.epoll", clients: dict[int, Client], old: Client, port: int
) -> Client:
    del clients[old.socket.fileno()]
    old.socket.close()
    client = Client(port)
    clients[client.socket.fileno()] = client
    poll.register(client.socket, select.EPOLLIN)
    return client


def main() -> None:
    shots = msgspec.json.Decoder(Shot)
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(msgspec.json.encode(fire(shots.decode(line))) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
