"""A supplier on loopback without a model: it gives every prompt the same answer, in any dialect.

It lets a coding agent's program carry out a turn that costs nothing and does nothing.
"""

import json
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from agentd.core.errors import BadRequest
from agentd.llm.conversation import (
    ReplyEvent,
    ReplyFinished,
    ReplyStarted,
    TextDelta,
    UsageUpdated,
)
from agentd.llm.dialects.callers import CALLERS
from agentd.llm.endpoint import ChannelDialect
from agentd.llm.price import Usage

MODEL = "trial"
REPLY = "This engine works."
MAX_BYTES = 64 * 1024 * 1024
"""The most bytes of a request."""
_DIALECTS: Mapping[str, ChannelDialect] = {
    "/v1/chat/completions": "openai-chat",
    "/v1/responses": "openai-responses",
    "/v1/messages": "anthropic",
}


class TrialSupplier:
    """``with TrialSupplier() as supplier:`` serves at ``supplier.url`` until the block ends."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _TrialHandler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """The address without ``/v1``."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        """Begin to serve."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()


class _TrialHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """List the models."""
        found = {"id": MODEL, "object": "model", "type": "model", "display_name": MODEL}
        self._send(json.dumps({"object": "list", "data": [found], "has_more": False}).encode())

    def do_HEAD(self) -> None:
        """Say that it is there."""
        self._send(b"")

    def do_POST(self) -> None:
        """Give the answer."""
        body = self.rfile.read(min(int(self.headers.get("Content-Length", "0")), MAX_BYTES))
        path = urlsplit(self.path).path
        if path == "/v1/messages/count_tokens":
            self._send(b'{"input_tokens": 1}')
        elif path not in _DIALECTS:
            self._send(b'{"error": {"message": "not found"}}', status=404)
        else:
            self._answer(_DIALECTS[path], body)

    def _answer(self, name: ChannelDialect, body: bytes) -> None:
        dialect = CALLERS[name]
        try:
            summary = dialect.peek(body)
        except BadRequest as error:
            status, error_body = dialect.render_error("invalid_request", error.message, "trial")
            self._send(error_body, status=status)
            return
        events: list[ReplyEvent] = [
            ReplyStarted("trial", summary.model),
            TextDelta(REPLY),
            UsageUpdated(Usage(input=1, output=1)),
            ReplyFinished("end"),
        ]
        now = int(time.time())
        if summary.stream:
            writer = dialect.create_writer(summary, "trial", now)
            self._send(b"".join(map(writer.write, events)), "text/event-stream")
        else:
            self._send(dialect.render_response(events, summary, "trial", now))

    def _send(self, data: bytes, kind: str = "application/json", *, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing."""
