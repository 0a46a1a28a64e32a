"""A supplier that sends exactly the given bytes, for responses that no real server sends."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.daemon import PATIENCE

Behave = Callable[[socket.socket], None]
"""What is done on a connection once a request was read from it; then it is closed."""


@dataclass
class RawSupplier:
    """The address, the behaviour, and the requests that were read."""

    url: str
    behave: Behave = lambda line: None
    heard: list[bytes] = field(default_factory=list)


@contextmanager
def running_raw_supplier() -> Iterator[RawSupplier]:
    """Listen for the duration of the block; each connection is one request's."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        made = RawSupplier(f"http://127.0.0.1:{server.getsockname()[1]}")
        threads: list[threading.Thread] = []

        def serve() -> None:
            with contextlib.suppress(OSError):  # the server is closed
                while True:
                    line, _ = server.accept()
                    threads.append(threading.Thread(target=serve_one, args=(line,)))
                    threads[-1].start()

        def serve_one(line: socket.socket) -> None:
            with line, contextlib.suppress(OSError):
                line.settimeout(PATIENCE)
                made.heard.append(read_request(line))
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


def read_request(line: socket.socket) -> bytes:
    """Read a request, with its body."""
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
