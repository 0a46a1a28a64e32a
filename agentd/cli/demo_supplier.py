"""``agentd demo --supplier``: a tiny supplier on this machine, to try the model gateway with.

It speaks OpenAI's chat completions, and is no model: it repeats what it was sent, and prints it,
so that one sees what a supplier sees.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agentd.cli.tail import printable
from agentd.errors import Unavailable
from agentd.wire import sse

MODEL = "parrot"
WANTED = 'This supplier only repeats: "messages" must be a list whose last item has "content"'
LONGEST = 16 * 1024 * 1024
"""Bytes of a request."""


def serve(port: int) -> int:
    """Answer on loopback until told to stop. ``Unavailable``: the port is in use."""
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), _Parrot)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise Unavailable(f"cannot listen on port {port}: {why}") from error
    with server:
        print(f"a supplier that repeats: http://127.0.0.1:{server.server_port}", file=sys.stderr)
        server.serve_forever()
    return 0


class _Parrot(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """The models."""
        self._send({"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    def do_POST(self) -> None:
        """What was said, again."""
        length = int(self.headers.get("Content-Length", "0"))
        try:
            body = json.loads(self.rfile.read(min(length, LONGEST)))
            said = str(body["messages"][-1]["content"])
        except (ValueError, LookupError, TypeError):
            self._send({"error": {"message": WANTED, "type": "invalid_request_error"}}, 400)
            return
        print(f"the supplier was sent: {printable(said)}", file=sys.stderr, flush=True)
        answer = f"You said: {said}"
        usage = {"prompt_tokens": 1 + length // 4, "completion_tokens": 1 + len(answer) // 4}
        if body.get("stream"):
            self._stream(answer, usage)
        else:
            told = {"role": "assistant", "content": answer}
            self._send(_completion("chat.completion", usage, message=told, finish_reason="stop"))

    def _stream(self, answer: str, usage: dict[str, int]) -> None:
        words = [{"content": f"{word} "} for word in answer.split()]
        pieces = [_completion("chat.completion.chunk", None, delta=delta) for delta in words]
        end = _completion("chat.completion.chunk", usage, delta={}, finish_reason="stop")
        data = [json.dumps(piece) for piece in (*pieces, end)]
        self._write("text/event-stream", b"".join(map(sse.event, (*data, "[DONE]"))))

    def _send(self, answer: dict[str, Any], status: int = 200) -> None:
        self._write("application/json", json.dumps(answer).encode(), status)

    def _write(self, kind: str, data: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing: what was sent is told instead."""


def _completion(kind: str, usage: dict[str, int] | None, **choice: object) -> dict[str, Any]:
    choices = [{"index": 0, "finish_reason": None, **choice}]
    told = {"id": "demo", "object": kind, "created": 0, "model": MODEL, "choices": choices}
    return told if usage is None else {**told, "usage": usage}
