"""A supplier that is never the bottleneck: ready bytes on bare sockets. ``bare_supplier.py PORT``.

A request with ``"stream":true`` is answered by 50 chunks, spaced by the milliseconds that its
header ``X-Pause`` tells; any other by a completion of 1 KiB.
"""

import asyncio
import json
import sys

CHUNKS = 50
TEXT = "x" * 700


def _encode_chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "fast",
        "choices": [choice],
    }
    return b"data: " + json.dumps(body).encode() + b"\n\n"


USAGE = {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}
EVENTS = [
    _encode_chunk({"role": "assistant", "content": ""}),
    *(_encode_chunk({"content": f"word{number} "}) for number in range(CHUNKS)),
    _encode_chunk({}, "stop"),
    b"data: "
    + json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "fast",
            "choices": [],
            "usage": USAGE,
        }
    ).encode()
    + b"\n\n",
    b"data: [DONE]\n\n",
]
WHOLE = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "fast",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": TEXT},
                "finish_reason": "stop",
            }
        ],
        "usage": USAGE,
    }
).encode()
_PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
    len(WHOLE),
    WHOLE,
)
_STREAM = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)


def _frame(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


_AT_ONCE = _STREAM + b"".join(map(_frame, EVENTS)) + b"0\r\n\r\n"


class Supplier(asyncio.Protocol):
    """A connection."""

    def __init__(self) -> None:
        self._got = b""
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, blank, body = self._got.partition(b"\r\n\r\n")
        if not blank:
            return
        lower = head.lower()
        _, found, rest = lower.partition(b"content-length: ")
        if len(body) < (int(rest.partition(b"\r\n")[0]) if found else 0):
            return
        self._got = b""
        if b'"stream":true' not in body and b'"stream": true' not in body:
            self._transport.write(_PLAIN)
            return
        _, paused, rest = lower.partition(b"x-pause: ")
        if not paused:
            self._transport.write(_AT_ONCE)
            return
        task = asyncio.create_task(self._spaced(int(rest.partition(b"\r\n")[0]) / 1000))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _spaced(self, pause: float) -> None:
        self._transport.write(_STREAM)
        for event in EVENTS:
            self._transport.write(_frame(event))
            await asyncio.sleep(pause)
        self._transport.write(b"0\r\n\r\n")


async def main() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Supplier, "127.0.0.1", int(sys.argv[1]), backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
