"""Bytes of a writer served on loopback, in small pieces, for the vendors' own clients."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answer: bytes
    kind: str

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", self.kind)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for at in range(0, len(self.answer), 37):
            piece = self.answer[at : at + 37]
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *result: Any) -> None:
        """Nothing."""


@contextmanager
def serving(answer: bytes, *, stream: bool = True) -> Iterator[str]:
    """Serve this answer to every request, and yield the address."""
    kind = "text/event-stream" if stream else "application/json"
    handler = type("_Serving", (_Handler,), {"answer": answer, "kind": kind})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
