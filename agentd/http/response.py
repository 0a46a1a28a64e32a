"""Writes the response of one request to its connection."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from http import HTTPStatus

from agentd.http.http_connection import HttpConnection
from agentd.http.json_body import encode_json
from agentd.http.request import SECURITY_HEADERS, Response

_JSON = "application/json; charset=utf-8"

_LAST_CHUNK = b"0\r\n\r\n"
_WITHOUT_BODY = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)

_REASONS = {status.value: status.phrase for status in HTTPStatus} | {529: "Overloaded"}
"""529 is Anthropic's; responses that are passed on from suppliers may have any other status."""


class ResponseWriter:
    """Writes one response; ``has_started`` is true once its head is written.

    ``omit_body`` sends only the head (``HEAD``), ``close_after`` announces that the connection
    will be closed. Calling ``finish`` of the connection is left to the request handler.
    """

    def __init__(
        self, connection: HttpConnection, date: Callable[[], str], request_id: str
    ) -> None:
        self._connection = connection
        self._date = date
        self._request_id = request_id
        self.omit_body = False
        self.takes_chunks = True
        """False for a client of HTTP/1.0: the end of a body of unknown length is a close."""
        self.close_after = False
        self.has_started = False

    def write(self, answer: Response) -> None:
        """Send a complete response."""
        body = answer.body
        if body is None:
            body = b""
        elif not isinstance(body, bytes):
            body = encode_json(body)
        headers = self._build_headers(answer)
        if answer.status == HTTPStatus.NO_CONTENT:
            del headers["Content-Type"]
        else:
            headers["Content-Length"] = str(len(body))
        self._write_head(answer.status, headers, b"" if self.omit_body else body)

    async def stream(self, answer: Response) -> None:
        """Send a response in chunks, each once the client has read the one before.

        Raises what making the first chunk raises, before anything is sent, and
        ``ClientDisconnected``. The connection is closed at once when this is cancelled.
        """
        assert answer.chunks is not None
        async with aclosing(answer.chunks):
            chunks = aiter(answer.chunks)
            first = await anext(chunks, b"")
            headers = self._build_headers(answer)
            if "Content-Length" not in headers:
                headers["X-Accel-Buffering"] = "no"  # nginx, for one, would gather what comes
            if self.omit_body:
                self._write_head(answer.status, headers, b"")
                return
            try:
                if "Content-Length" in headers or answer.status in _WITHOUT_BODY:
                    await self._send_whole(answer.status, headers, first, chunks)
                elif self.takes_chunks:
                    await self._send_chunked(answer.status, headers, first, chunks)
                else:
                    self._connection.keeps_alive = False
                    headers["Connection"] = "close"
                    await self._send_pieces(answer.status, headers, first, chunks, bytes)
            except asyncio.CancelledError:
                self._connection.abort()
                raise

    async def _send_whole(
        self, status: int, headers: dict[str, str], first: bytes, rest: AsyncIterator[bytes]
    ) -> None:
        """Send a body whose length was announced; raises ``RuntimeError`` if that is not right."""
        left = int(headers.get("Content-Length", "0"))

        def check_length(chunk: bytes) -> bytes:
            nonlocal left
            left -= len(chunk)
            if left < 0:
                raise RuntimeError(f"a body is {-left} bytes longer than its Content-Length")
            return chunk

        await self._send_pieces(status, headers, first, rest, check_length)
        if left and status not in _WITHOUT_BODY:
            raise RuntimeError(f"a body is {left} bytes shorter than its Content-Length")

    async def _send_chunked(
        self, status: int, headers: dict[str, str], first: bytes, rest: AsyncIterator[bytes]
    ) -> None:
        headers["Transfer-Encoding"] = "chunked"
        await self._send_pieces(status, headers, first, rest, _encode_chunk)
        self._connection.write(_LAST_CHUNK)

    async def _send_pieces(
        self,
        status: int,
        headers: dict[str, str],
        first: bytes,
        rest: AsyncIterator[bytes],
        encode: Callable[[bytes], bytes],
    ) -> None:
        connection = self._connection
        self._write_head(status, headers, encode(first))
        await connection.flush()
        async for chunk in rest:
            connection.write(encode(chunk))
            if not connection.is_flushed or connection.is_closed:
                await connection.flush()

    def _write_head(self, status: int, headers: dict[str, str], chunk: bytes) -> None:
        head = encode_head(status, headers)
        self.has_started = True
        self._connection.write(head + chunk)

    def _build_headers(self, answer: Response) -> dict[str, str]:
        headers = {
            "Content-Type": _JSON,
            "Cache-Control": "no-store",
            "Date": self._date(),
            "X-Request-Id": self._request_id,
            **SECURITY_HEADERS,
            **answer.headers,
        }
        if self.close_after:
            self._connection.keeps_alive = False
        if not self._connection.keeps_alive:
            headers["Connection"] = "close"
        elif not self.takes_chunks:
            headers["Connection"] = "keep-alive"  # of HTTP/1.0, which has to be told
        return headers


def encode_head(status: int, headers: dict[str, str]) -> bytes:
    """Encode the head of a response. Raises ``ValueError`` for a line break in a header."""
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join((*lines, "", ""))
    breaks = len(lines) + 1
    if head.count("\r") != breaks or head.count("\n") != breaks:
        raise ValueError("a header of the response contains a line break")
    return head.encode("latin-1")


def _encode_chunk(chunk: bytes) -> bytes:
    """Frame a part of a body as RFC 9112, section 7.1; an empty one would be its end."""
    return b"%x\r\n%b\r\n" % (len(chunk), chunk) if chunk else b""
