"""Writes the response of one request to its connection."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from http import HTTPStatus
from typing import cast

from tornado.http1connection import HTTP1Connection
from tornado.httputil import HTTPHeaders, ResponseStartLine
from tornado.iostream import IOStream

from agentd.http.json_body import encode_json
from agentd.http.request import SECURITY_HEADERS, Response
from agentd.http.timeout_queue import TimeoutQueue

_JSON = "application/json; charset=utf-8"


class _Headers(dict[str, str]):
    """Headers with distinct names, in their usual spelling.

    Tornado's ``HTTPHeaders`` normalizes and checks each name, which costs a tenth of a request.
    """

    get_all = dict.items


_CHUNKED = {"Transfer-Encoding": "chunked"}
_LAST_CHUNK = b"0\r\n\r\n"
_WITHOUT_BODY = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)

_REASONS = {status.value: status.phrase for status in HTTPStatus} | {529: "Overloaded"}
"""529 is Anthropic's; responses that are passed on from suppliers may have any other status."""


class ResponseWriter:
    """Writes one response; ``has_started`` is true once its head is written.

    ``omit_body`` sends only the head (``HEAD``), ``close_after`` announces that the connection
    will be closed. Calling ``finish`` of the connection is left to the request handler.

    Tornado's ``write_headers`` encodes and checks each header by itself, a tenth of a request. So
    heads are written whole, which ``write`` of its connection allows, where nothing of them depends
    on what only Tornado knows: see ``is_plain``.
    """

    def __init__(
        self,
        connection: HTTP1Connection,
        date: Callable[[], str],
        request_id: str,
        write_timeouts: TimeoutQueue[IOStream],
    ) -> None:
        self._connection = connection
        self._write_timeouts = write_timeouts
        self._date = date
        self._request_id = request_id
        self.omit_body = False
        self.is_plain = False
        """True for a request of HTTP/1.1 that keeps its connection, as nearly all do."""
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
        self._write_head(answer.status, headers, b"" if self.omit_body else body, self.is_plain)

    async def stream(self, answer: Response) -> None:
        """Send a response in chunks, each once the client has read the one before.

        Raises what making the first chunk raises, before anything is sent. The connection of a
        client that does not read is closed after a timeout, and at once when this is cancelled.
        """
        assert answer.chunks is not None
        async with aclosing(answer.chunks):
            chunks = aiter(answer.chunks)
            first = await anext(chunks, b"")
            headers = self._build_headers(answer)
            if self.omit_body:
                await self._write_head(answer.status, headers, b"", False)
                return
            has_length = "Content-Length" in headers or answer.status in _WITHOUT_BODY
            is_plain = self.is_plain and not has_length
            encode = _encode_chunk if is_plain else bytes
            if is_plain:
                headers.update(_CHUNKED)
            try:
                await self._wait_written(
                    self._write_head(answer.status, headers, encode(first), is_plain)
                )
                async for chunk in chunks:
                    await self._wait_written(self._connection.write(encode(chunk)))
                if is_plain:
                    self._connection.write(_LAST_CHUNK)
            except asyncio.CancelledError:
                self._connection.close()
                raise

    async def _wait_written(self, sent: "asyncio.Future[None]") -> None:
        if sent.done():
            return await sent
        stream = self._connection.stream
        self._write_timeouts.start(stream)
        try:
            return await sent
        finally:
            self._write_timeouts.cancel(stream)

    def _write_head(
        self, status: int, headers: _Headers, chunk: bytes, is_plain: bool
    ) -> "asyncio.Future[None]":
        if is_plain:
            head = _encode_head(status, headers)
            self.has_started = True
            return self._connection.write(head + chunk)
        self.has_started = True
        line = ResponseStartLine("HTTP/1.1", status, _REASONS.get(status, "Unknown"))
        return self._connection.write_headers(line, cast(HTTPHeaders, headers), chunk)

    def _build_headers(self, answer: Response) -> _Headers:
        headers = _Headers(
            {
                "Content-Type": _JSON,
                "Cache-Control": "no-store",
                "Date": self._date(),
                "X-Request-Id": self._request_id,
                **SECURITY_HEADERS,
            }
        )
        headers.update(answer.headers)
        if self.close_after:
            headers["Connection"] = "close"
        return headers


def _encode_head(status: int, headers: _Headers) -> bytes:
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
