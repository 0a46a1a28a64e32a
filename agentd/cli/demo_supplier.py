"""``agentd demo --supplier``: an echoing supplier on this machine, to try the model gateway with.

It implements OpenAI's chat completions without a model: it replies with what it was sent, and
prints it, so that one sees what a supplier sees.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agentd.cli.output import excerpt
from agentd.core import sse
from agentd.core.errors import Unavailable

MODEL = "parrot"
INVALID = '"messages" must be a list whose last item has "content"'
MAX_BYTES = 16 * 1024 * 1024
"""The most bytes of a request."""


def serve(port: int) -> int:
    """Serve on loopback until interrupted. Raises ``Unavailable`` when the port is in use."""
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), _EchoHandler)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise Unavailable(f"cannot listen on port {port}: {reason}") from error
    with server:
        print(f"echoing supplier: http://127.0.0.1:{server.server_port}", file=sys.stderr)
        server.serve_forever()
    return 0


class _EchoHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """List the models."""
        self._send({"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    def do_POST(self) -> None:
        """Reply with the last message."""
        length = int(self.headers.get("Content-Length", "0"))
        try:
            body = json.loads(self.rfile.read(min(length, MAX_BYTES)))
            content = str(body["messages"][-1]["content"])
        except (ValueError, LookupError, TypeError):
            self._send({"error": {"message": INVALID, "type": "invalid_request_error"}}, 400)
            return
        print(f"the supplier was sent: {excerpt(content)}", file=sys.stderr, flush=True)
        reply = f"You said: {content}"
        usage = {"prompt_tokens": 1 + length // 4, "completion_tokens": 1 + len(reply) // 4}
        if body.get("stream"):
            self._send_stream(reply, usage)
        else:
            message = {"role": "assistant", "content": reply}
            self._send(
                _make_completion("chat.completion", usage, message=message, finish_reason="stop")
            )

    def _send_stream(self, reply: str, usage: dict[str, int]) -> None:
        words = [{"content": f"{word} "} for word in reply.split()]
        chunks = [_make_completion("chat.completion.chunk", None, delta=delta) for delta in words]
        end = _make_completion("chat.completion.chunk", usage, delta={}, finish_reason="stop")
        data = [json.dumps(chunk) for chunk in (*chunks, end)]
        self._write("text/event-stream", b"".join(map(sse.encode_event, (*data, "[DONE]"))))

    def _send(self, content: dict[str, Any], status: int = 200) -> None:
        self._write("application/json", json.dumps(content).encode(), status)

    def _write(self, kind: str, data: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing: the message is printed instead."""


def _make_completion(kind: str, usage: dict[str, int] | None, **choice: object) -> dict[str, Any]:
    choices = [{"index": 0, "finish_reason": None, **choice}]
    content = {"id": "demo", "object": kind, "created": 0, "model": MODEL, "choices": choices}
    return content if usage is None else {**content, "usage": usage}
