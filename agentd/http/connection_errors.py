"""Error responses for connections whose bytes are no valid request, and a close that delivers them.

Tornado answers a malformed head with a bare status line, and one that is too long not at all.
Here each gets the JSON error body and a line in the access log.
"""

import asyncio
import socket
from contextlib import suppress
from typing import Any

from tornado.iostream import IOStream

from agentd.core import ids
from agentd.core.tasks import BackgroundTasks
from agentd.http.access_log import AccessLog
from agentd.http.errors import (
    render_head_too_long,
    render_malformed,
    render_target_too_long,
    render_too_many_connections,
)
from agentd.http.tornado_patches import UnreadableInput, replace_error_answers

MAX_HEAD_BYTES = 64 * 1024
"""The most bytes of the request line and the headers together."""

MAX_LINGERING = 64
"""Refused connections that are read from at the same time, before they are closed."""
LINGER_SECONDS = 5.0
"""The maximum seconds for each: an upload in one piece should end before its sender reads."""
_CHUNK = 64 * 1024


class ConnectionRefuser:
    """Refuses connections with an error response that the client can still read."""

    def __init__(self, access_log: AccessLog) -> None:
        self._access_log = access_log
        self._lingering = BackgroundTasks()

    def refuse_connection(self, stream: IOStream, address: Any) -> None:
        """Answer 503 to a connection above the limit, and close it."""
        stream.write(render_too_many_connections(self._log_access(address, 503)))
        self._hang_up(stream)

    def answer_unreadable_input(self, stream: IOStream, address: Any) -> None:
        """Answer a new connection whose input cannot be read as requests."""

        def render(reason: UnreadableInput) -> bytes:
            match reason:
                case "malformed":
                    return render_malformed(self._log_access(address, 400))
                case "head too long":
                    return render_head_too_long(self._log_access(address, 431), MAX_HEAD_BYTES)
                case "target too long":
                    return render_target_too_long(self._log_access(address, 414), MAX_HEAD_BYTES)

        replace_error_answers(stream, render, self._hang_up, MAX_HEAD_BYTES)

    def _log_access(self, address: Any, status: int) -> str:
        request_id = ids.generate_request_id()
        self._access_log.note(str(address[0]), "-", "-", "-", status, 0.0, request_id)
        return request_id

    def _hang_up(self, stream: IOStream) -> None:
        if len(self._lingering) >= MAX_LINGERING:
            stream.close()
            return
        self._lingering.start(_linger(stream))


async def _linger(stream: IOStream) -> None:
    """Close the stream once the client has read the response.

    The kernel resets a connection that is closed with unread bytes, and a reset discards what
    the client has not read yet. So shut down our side only, and read until the client closes.
    """
    with suppress(OSError, TimeoutError):  # the client may have left already
        async with asyncio.timeout(LINGER_SECONDS):
            await stream.write(b"")
            stream.socket.shutdown(socket.SHUT_WR)
            while True:
                await stream.read_bytes(_CHUNK, partial=True)
    stream.close()
