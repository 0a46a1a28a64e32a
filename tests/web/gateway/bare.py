"""A supplier that says exactly the bytes it is told to, for what no real server would say."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.web.support import PATIENCE

Behave = Callable[[socket.socket], None]
"""What is done on a connection once a request was read from it; then it is closed."""


@dataclass
class Bare:
    """Where it listens, what it does, and the requests that it read."""

    url: str
    behave: Behave = lambda line: None
    heard: list[bytes] = field(default_factory=list)


@contextmanager
def bare() -> Iterator[Bare]:
    """One that listens as long as the block lasts; each connection is one request's."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        made = Bare(f"http://127.0.0.1:{server.getsockname()[1]}")
        threads: list[threading.Thread] = []

        def serve() -> None:
            with contextlib.suppress(OSError):  # the server is closed
                while True:
                    line, _ = server.accept()
                    threads.append(threading.Thread(target=one, args=(line,)))
                    threads[-1].start()

        def one(line: socket.socket) -> None:
            with line, contextlib.suppress(OSError):
                line.settimeout(PATIENCE)
                made.heard.append(_request(line))
                made.behave(line)

        accepting = threading.Thread(target=serve)
        accepting.start()
        try:
            yield made
        finally:
            server.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for thread in threads:
                thread.join()


def _request(line: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += (piece := line.recv(65536))
        if not piece:
            return data
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
    while len(body) < length and (piece := line.recv(65536)):
        body += piece
    return head + b"\r\n\r\n" + body
