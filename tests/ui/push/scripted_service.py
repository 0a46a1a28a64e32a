"""A browser's push service on loopback, and the browser that can read what it is sent."""

import asyncio
import os
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import http_ece
import msgspec
import pytest
import trustme
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric import ec

from agentd.llm.upstream.client import HttpUpstream
from agentd.llm.upstream.dial import dial_directly
from agentd.ui.push import service as push_service
from agentd.ui.push.model import PushDelivery, encode_base64url
from tests.support.daemon import PATIENCE

HOST = "push.example.com"


@dataclass
class Push:
    """A request as the push service received it."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class ScriptedPushService:
    """Keeps what it is sent, and answers with ``statuses`` in turn, then with 201."""

    pushes: list[Push] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)


class SubscribedBrowser:
    """The keys of a subscription, with the private one that stays in the browser."""

    def __init__(self, name: str = "laptop") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._secret = os.urandom(16)
        self.endpoint = f"https://{HOST}/send/{name}"

    @property
    def subscription(self) -> dict[str, Any]:
        """What the Push API gives to the page."""
        point = self._key.public_key().public_bytes(
            forms.Encoding.X962, forms.PublicFormat.UncompressedPoint
        )
        keys = {"p256dh": encode_base64url(point), "auth": encode_base64url(self._secret)}
        return {"endpoint": self.endpoint, "keys": keys}

    def decrypt(self, push: Push) -> dict[str, Any]:
        """Read a notification."""
        read = http_ece.decrypt(push.body, private_key=self._key, auth_secret=self._secret)
        content: dict[str, Any] = msgspec.json.decode(read)
        return content


class Grace:
    """The time in which notifications wait to be seen, for as long as a test wants."""

    def __init__(self) -> None:
        self.waiting: list[push_service.WaitingDelivery] = []
        self._passed = threading.Event()

    def remember(self, delivery: PushDelivery) -> push_service.WaitingDelivery:
        """Remember a delivery that begins to wait."""
        self.waiting.append(_WAITING(delivery))
        return self.waiting[-1]

    async def wait(self) -> None:
        """Wait until the test lets it pass."""
        await asyncio.to_thread(self._passed.wait, PATIENCE)

    def end(self) -> None:
        """Let the deliveries go that wait."""
        self._passed.set()


_WAITING = push_service.WaitingDelivery


def hold_grace(monkeypatch: pytest.MonkeyPatch) -> Grace:
    """Let notifications wait until the test lets them go."""
    grace = Grace()
    monkeypatch.setattr(push_service, "wait_for_grace", grace.wait)
    monkeypatch.setattr(push_service, "WaitingDelivery", grace.remember)
    return grace


@contextmanager
def serve_pushes() -> Iterator[ScriptedPushService]:
    """Run a push service, to which daemons that start meanwhile connect instead of to others."""
    service = ScriptedPushService()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status = service.statuses.pop(0) if service.statuses else 201
            service.pushes.append(Push(self.path, headers, body))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Stay quiet."""

    authority = trustme.CA()
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(serving)
    calling = ssl.create_default_context()
    authority.configure_trust(calling)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.socket = serving.wrap_socket(server.socket, server_side=True)
    connect = dial_directly(local=True)

    def create_client() -> HttpUpstream:
        return HttpUpstream(calling, dial=lambda *_: connect("127.0.0.1", server.server_port))

    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("agentd.app.push.create_push_client", create_client)
            yield service
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
