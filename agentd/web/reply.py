"""The answer to one request, put on the wire."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from http import HTTPStatus
from typing import cast

from tornado.http1connection import HTTP1Connection
from tornado.httputil import HTTPHeaders, ResponseStartLine
from tornado.iostream import IOStream

from agentd.web.body import encoded
from agentd.web.call import DEFENCES, Answer
from agentd.web.patience import Patience

_JSON = "application/json; charset=utf-8"


class _Head(dict[str, str]):
    """Names, each once and in its usual spelling, and values, all our own.

    Tornado's ``HTTPHeaders`` checks and spells each one anew, which costs a tenth of a request.
    """

    get_all = dict.items


_REASONS = {status.value: status.phrase for status in HTTPStatus} | {529: "Overloaded"}
"""529 is Anthropic's; what suppliers answer may have any other status, too."""


class Reply:
    """From the first byte of an answer's head on; ``begun`` tells that there was one.

    ``bodiless`` leaves the body out (``HEAD``), ``last`` tells the caller that the connection
    ends with it. ``finish`` of the connection is left to the exchange.
    """

    def __init__(
        self,
        connection: HTTP1Connection,
        date: Callable[[], str],
        request_id: str,
        takers: Patience[IOStream],
    ) -> None:
        self._connection = connection
        self._takers = takers
        self._date = date
        self._request_id = request_id
        self.bodiless = False
        self.last = False
        self.begun = False

    def send(self, answer: Answer) -> None:
        """Send it as a whole."""
        body = answer.body
        if body is None:
            body = b""
        elif not isinstance(body, bytes):
            body = encoded(body)
        headers = self._head(answer)
        if answer.status == HTTPStatus.NO_CONTENT:
            del headers["Content-Type"]
        else:
            headers["Content-Length"] = str(len(body))
        self._begin(answer.status, headers, b"" if self.bodiless else body)

    async def stream(self, answer: Answer) -> None:
        """Send it in portions, each once the caller has taken the one before.

        Raises what making the first portion raises, before anything is sent. A caller who does
        not take what it is given is hung up on in time, and at once when this is cancelled.
        """
        assert answer.portions is not None
        async with aclosing(answer.portions):
            portions = aiter(answer.portions)
            first = await anext(portions, b"")
            if self.bodiless:
                await self._begin(answer.status, self._head(answer), b"")
                return
            try:
                await self._taken(self._begin(answer.status, self._head(answer), first))
                async for portion in portions:
                    await self._taken(self._connection.write(portion))
            except asyncio.CancelledError:
                self._connection.close()
                raise

    async def _taken(self, sent: "asyncio.Future[None]") -> None:
        if sent.done():
            return await sent
        stream = self._connection.stream
        self._takers.begin(stream)
        try:
            return await sent
        finally:
            self._takers.end(stream)

    def _begin(self, status: int, headers: _Head, chunk: bytes) -> "asyncio.Future[None]":
        self.begun = True
        line = ResponseStartLine("HTTP/1.1", status, _REASONS.get(status, "Unknown"))
        return self._connection.write_headers(line, cast(HTTPHeaders, headers), chunk)

    def _head(self, answer: Answer) -> _Head:
        headers = _Head(
            {
                "Content-Type": _JSON,
                "Cache-Control": "no-store",
                "Date": self._date(),
                "X-Request-Id": self._request_id,
                **DEFENCES,
            }
        )
        headers.update(answer.headers)
        if self.last:
            headers["Connection"] = "close"
        return headers
