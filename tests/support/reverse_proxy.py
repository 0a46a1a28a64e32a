"""A reverse proxy that passes on what comes below a path of its own, also by https."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PREFIX = "/tools/agentd"
NAME = "workshop.example"
"""The host by which clients call the proxy."""
CLIENT = "192.0.2.7"
"""Where the proxy says that the client is."""


@contextmanager
def reverse_proxy(
    port: int, asleep: threading.Event | None = None, tls: ssl.SSLContext | None = None
) -> Iterator[str]:
    """Pass on what comes below the prefix, without it, with the Host that the client sent.

    While the client is ``asleep``, what comes for it is lost: its connection stays open, and
    nothing more arrives by it ever. With ``tls`` the proxy has its name, and says for whom it asks.
    """

    class Forward(BaseHTTPRequestHandler):
        def forward(self) -> None:
            if not self.path.startswith(f"{PREFIX}/"):
                self.send_error(404)
                return
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as upstream:
                headers = dict(self.headers.items())
                if tls:
                    headers |= {"X-Forwarded-For": CLIENT, "X-Forwarded-Proto": "https"}
                upstream.request(self.command, self.path.removeprefix(PREFIX), body, headers)
                answer = upstream.getresponse()
                self.send_response_only(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("transfer-encoding", "connection"):
                        self.send_header(name, value)
                self.send_header("Connection", "close")
                self.end_headers()
                is_lost = False
                while portion := answer.read1(65536):
                    is_lost = is_lost or (asleep is not None and asleep.is_set())
                    if not is_lost:
                        self.wfile.write(portion)

        do_GET = do_POST = do_PUT = do_DELETE = forward  # noqa: N815

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:
                return  # the client has left

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Forward)
    server.daemon_threads = True
    if tls:  # each connection shakes hands in its own thread
        server.socket = tls.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        origin = f"https://{NAME}" if tls else "http://127.0.0.1"
        yield f"{origin}:{server.server_port}{PREFIX}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
