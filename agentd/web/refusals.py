"""Answers on connections whose bytes never became a request, and hanging up so that they arrive.

Tornado answers a malformed head with a bare status line, and one that is too long not at all.
Here each gets the error envelope and a line in the access log.
"""

import asyncio
import socket
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

from tornado.iostream import IOStream, UnsatisfiableReadError

from agentd import ids
from agentd.web.access_log import AccessLog
from agentd.web.envelope import full, head_too_long, malformed, target_too_long

HEAD_LIMIT = 64 * 1024
"""Bytes that the request line and the headers may have together."""

LINGERING = 64
"""Connections at the same time that are read from after their refusal."""
LINGER_SECONDS = 5.0
"""How long each is, at most: an upload in one piece should end before its sender reads."""
_PORTION = 64 * 1024
_BARE_REFUSAL = b"HTTP/1.1 400 Bad Request\r\n\r\n"


class Refusals:
    """Refuses connections, with an answer that their senders can read."""

    def __init__(self, access_log: AccessLog) -> None:
        self._access_log = access_log
        self._lingering: set[asyncio.Task[None]] = set()

    def refuse_connection(self, stream: IOStream, address: Any) -> None:
        """Tell one connection too many that there are too many, and hang up."""
        stream.write(full(self._note(address, 503)))
        self._hang_up(stream)

    def answer_unreadable(self, stream: IOStream, address: Any) -> None:
        """Have this new connection answered when what comes on it cannot be read as requests."""
        write, close = stream.write, stream.close
        refused = False

        def write_enveloped(data: "bytes | memoryview") -> "Awaitable[None]":
            nonlocal refused
            if data != _BARE_REFUSAL:
                return write(data)
            refused = True
            return write(malformed(self._note(address, 400)))

        def close_audibly(exc_info: Any = False) -> None:
            nonlocal refused
            if isinstance(exc_info, UnsatisfiableReadError) and not stream.closed():
                write(self._answer_to_excess(stream, address))
                _give_up_read(stream, exc_info)
                refused = True
            if not refused or stream.closed():
                close(exc_info)
                return
            stream.close = close  # type: ignore[method-assign]
            self._hang_up(stream)

        stream.write = write_enveloped  # type: ignore[method-assign,assignment]
        stream.close = close_audibly  # type: ignore[method-assign]

    def _answer_to_excess(self, stream: IOStream, address: Any) -> bytes:
        """The answer to a read that reached its limit: of a head, or of a line between chunks."""
        if stream._read_regex is None:
            return malformed(self._note(address, 400))
        if b"\n" in stream._read_buffer[:HEAD_LIMIT]:
            return head_too_long(self._note(address, 431), HEAD_LIMIT)
        return target_too_long(self._note(address, 414), HEAD_LIMIT)

    def _note(self, address: Any, status: int) -> str:
        request_id = ids.new_request_id()
        self._access_log.note(str(address[0]), "-", "-", "-", status, 0.0, request_id)
        return request_id

    def _hang_up(self, stream: IOStream) -> None:
        if len(self._lingering) >= LINGERING:
            stream.close()
            return
        task = asyncio.get_running_loop().create_task(_linger(stream))
        self._lingering.add(task)
        task.add_done_callback(self._lingering.discard)


def _give_up_read(stream: IOStream, error: UnsatisfiableReadError) -> None:
    """End the pending read of a stream that stays open; its reader learns why."""
    future, stream._read_future = stream._read_future, None
    stream._read_regex = stream._read_delimiter = stream._read_max_bytes = None
    if future is not None and not future.done():
        future.set_exception(error)
        future.exception()  # nobody has to look at it: the connection may be gone


async def _linger(stream: IOStream) -> None:
    """Close the stream once its sender has heard the answer.

    The kernel resets a connection that is closed with bytes unread, and a reset discards what
    the other side has not read yet.
    """
    with suppress(OSError, TimeoutError):  # the sender may have left already
        async with asyncio.timeout(LINGER_SECONDS):
            await stream.write(b"")
            stream.socket.shutdown(socket.SHUT_WR)
            while True:
                await stream.read_bytes(_PORTION, partial=True)
    stream.close()
