"""A server behind an address: Streamable HTTP, with replies as JSON or server-sent events.

A server that the owner configured may be anywhere, this machine included; one that only the
workspace names must be at a public address (the gateway's guard against forged requests).
"""

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress

from agentd.agent.mcp_servers.messages import decode_messages
from agentd.agent.mcp_servers.model import ReadyServer
from agentd.agent.mcp_servers.transport import OnClosed, OnMessage
from agentd.agent.text import sanitize
from agentd.core.errors import SupplierUnreachable, TooLarge, Unavailable
from agentd.core.redaction import scrub
from agentd.core.sse import SseReader
from agentd.core.tasks import BackgroundTasks
from agentd.llm.upstream.client import HttpResponse, HttpUpstream
from agentd.llm.upstream.dial import dial_directly
from agentd.llm.upstream.protocol import Timeouts, UpstreamRequest, merge_headers

LARGEST_REPLY = 16 * 2**20
"""Bytes of a reply that is no stream."""
EXPIRED = "its session has ended"
"""Why a connection is closed whose server does not know its session any more."""
_TIMEOUTS = Timeouts(connect=10.0, head=3600.0, idle=3600.0, total=24 * 3600.0)
_SHORT = Timeouts(connect=5.0, head=5.0, idle=5.0, total=5.0)
_LONGEST_REASON = 300
_ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
_NOT_FOUND, _UNAUTHORIZED, _FORBIDDEN, _BAD_REQUEST = 404, 401, 403, 400
_NO_SESSION = re.compile("session|not initialized", re.I)
"""How servers word it that were started anew and answer 400, not 404 as the protocol wants."""


class HttpTransport:
    """Posts each message; the replies to a request come back with its response."""

    def __init__(self, server: ReadyServer) -> None:
        self._server = server
        self._upstream = HttpUpstream(dial=dial_directly(local=server.configured))
        self._tasks = BackgroundTasks()
        self._session: dict[str, str] = {}
        self._on_message: OnMessage = lambda message: None
        self._on_closed: OnClosed = lambda reason: None

    async def open(self, on_message: OnMessage, on_closed: OnClosed) -> None:
        """Keep whom to tell."""
        self._on_message, self._on_closed = on_message, on_closed

    async def send(self, message: bytes, *, is_request: bool) -> None:
        """Post a message; what a request's response has in it is read in the background."""
        try:
            response = await self._upstream.open(self._build_request("POST", message))
        except SupplierUnreachable as error:
            raise Unavailable(self._explain(error)) from error
        try:
            await self._check(response)
        except BaseException:
            response.close()
            raise
        if session := response.headers.get("mcp-session-id"):
            self._session["mcp-session-id"] = session
        if is_request:
            self._tasks.start(self._read(response))
        else:
            response.close()

    def on_initialized(self, revision: str) -> None:
        """Send the revision with each message from now on, and listen to the server's own."""
        self._session["mcp-protocol-version"] = revision
        self._tasks.start(self._listen())

    async def close(self) -> None:
        """End the session and all connections."""
        await self._tasks.cancel()
        if self._has_session:
            with suppress(SupplierUnreachable, TimeoutError):
                async with asyncio.timeout(_SHORT.total):
                    request = self._build_request("DELETE", timeouts=_SHORT)
                    (await self._upstream.open(request)).close()
        await self._upstream.close()

    @property
    def _has_session(self) -> bool:
        return "mcp-session-id" in self._session

    def _build_request(
        self, method: str, body: bytes = b"", timeouts: Timeouts = _TIMEOUTS
    ) -> UpstreamRequest:
        headers = merge_headers(_ACCEPT, self._server.headers, self._session)
        return UpstreamRequest(method, self._server.url, headers, body, timeouts)

    async def _check(self, response: HttpResponse) -> None:
        """Raise ``Unavailable`` unless a message was taken."""
        status = response.status
        if status == _NOT_FOUND and self._has_session:
            self._on_closed(EXPIRED)
            raise Unavailable(f"The MCP server {self._server.name}: {EXPIRED}.")
        if status in (_UNAUTHORIZED, _FORBIDDEN):
            raise Unavailable(
                f"The MCP server {self._server.name} refuses agentd (status {status}): give it an"
                " Authorization header."
            )
        if status < 300:
            return
        if status >= _BAD_REQUEST and _is_readable(response.headers):
            body = await self._read_whole(response)
            said = sanitize(scrub(self._hide(body.decode("utf-8", "replace"))))[:_LONGEST_REASON]
        else:
            said = response.headers.get("location", "")
        if status == _BAD_REQUEST and self._has_session and _NO_SESSION.search(said):
            self._on_closed(EXPIRED)
        raise Unavailable(f"The MCP server {self._server.name} answers status {status}. {said}")

    async def _read(self, response: HttpResponse) -> None:
        try:
            if response.headers.get("content-type", "").startswith("text/event-stream"):
                await self._read_events(response)
            else:
                for message in decode_messages(await self._read_whole(response)):
                    self._on_message(message)
        except Unavailable as error:
            self._on_closed(error.message)
        finally:
            response.close()

    async def _read_events(self, response: HttpResponse) -> None:
        reader = SseReader()
        try:
            async for chunk in response.iter_chunks():
                for event in reader.feed(chunk):
                    for message in decode_messages(event.data):
                        self._on_message(message)
        except SupplierUnreachable as error:
            raise Unavailable(self._explain(error)) from error
        except TooLarge as error:
            raise Unavailable("it sends a message that is too long") from error

    async def _read_whole(self, response: HttpResponse) -> bytes:
        try:
            return await response.read(LARGEST_REPLY)
        except SupplierUnreachable as error:
            raise Unavailable(self._explain(error)) from error
        except TooLarge as error:
            raise Unavailable("it sends a message that is too long") from error

    async def _listen(self) -> None:
        """Read what the server says unasked, if it has a stream for that."""
        with suppress(SupplierUnreachable, Unavailable):
            async with self._upstream.send(self._build_request("GET")) as response:
                kind = response.headers.get("content-type", "")
                if response.status == 200 and kind.startswith("text/event-stream"):
                    await self._read_events(response)

    def _explain(self, error: SupplierUnreachable) -> str:
        message = error.message.replace(
            "; only a channel with local: true may call it", "; only servers of mcp.yml may be"
        )
        return f"The MCP server {self._server.name} cannot be reached: {self._hide(message)}"

    def _hide(self, text: str) -> str:
        for secret in filter(None, self._server.headers.values()):
            text = text.replace(secret, "***")
        return text


def _is_readable(headers: Mapping[str, str]) -> bool:
    kind = headers.get("content-type", "")
    return not kind or kind.startswith(("application/json", "text/plain"))
