"""A target of alerts on loopback, which verifies signatures with the library of the standard."""

import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from standardwebhooks.webhooks import Webhook

WEBHOOK_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@dataclass
class Received:
    """A request that came."""

    path: str
    headers: dict[str, str]
    body: bytes

    def verify(self, secret: str = WEBHOOK_SECRET) -> dict[str, Any]:
        """Return its JSON if its signature is right. Raises ``WebhookVerificationError``."""
        found: dict[str, Any] = Webhook(secret).verify(self.body, self.headers)
        return found


@dataclass
class AlertReceiver:
    """The server; it answers as it is told to. Without a ``port`` it takes a free one."""

    port: int = 0
    status: int = 200
    answer: bytes = b"thanks"
    headers: dict[str, str] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}/hooks/T0KEN0KEN0KEN0KEN"

    def verify_all(self) -> list[dict[str, Any]]:
        """Return the data of all messages, verified."""
        return [one.verify()["data"] for one in tuple(self.received)]

    def list_kinds(self) -> list[tuple[str, str]]:
        """Return the kind and the state of each message."""
        return [(one["kind"], one["state"]) for one in self.verify_all()]

    def __enter__(self) -> Self:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.received.append(Received(self.path, headers, body))
                self.send_response(receiver.status)
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(receiver.answer)))
                self.end_headers()
                self.wfile.write(receiver.answer)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
