"""All that reads Tornado's private members or replaces its methods, and why.

Each patch is of one connection's stream, and none is needed for a right answer to a right
request: without them the daemon is slower, and bytes that are no request are answered in
Tornado's way (``tests/http/test_tornado_patches.py`` runs it so). setup.cfg bounds Tornado's
version because of this module: before the bound is raised, read what changed in ``iostream.py``.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias, cast

from tornado.ioloop import IOLoop
from tornado.iostream import IOStream, UnsatisfiableReadError

PORTION = 256 * 1024
"""Bytes of a body that are read at once."""
_SMALL = 64 * 1024
"""Tornado's own portion, which is right for heads and for all bodies up to this size."""
_BARE_REFUSAL = b"HTTP/1.1 400 Bad Request\r\n\r\n"
"""Tornado's whole answer to a malformed head."""

UnreadableInput: TypeAlias = Literal["malformed", "head too long", "target too long"]
"""Why bytes on a connection did not become a request."""


def count_buffered_bytes(stream: IOStream) -> int:
    """Return the number of received bytes that are not read yet.

    Private because no method returns it; a request whose body came with its head saves a second
    look at whose it is.
    """
    return stream._read_buffer_size


def keep_nodelay(stream: IOStream) -> None:
    """Switch Nagle's algorithm off for good.

    Tornado would switch it off and on around each answer: two system calls for nothing.
    """
    stream.set_nodelay(True)
    stream.set_nodelay = _ignore_nodelay  # type: ignore[method-assign]


def _ignore_nodelay(value: bool) -> None:
    pass


def receive_large_reads_directly(stream: IOStream) -> None:
    """Let large reads bypass Tornado's buffer whenever it is empty: one copy instead of three.

    Tornado reads into a fresh array, appends that to its buffer and cuts the result out of it.
    What it does about waiting, closing and errors stays its own.
    """
    stream.read_chunk_size = _SMALL
    read = stream.read_bytes

    def read_bytes(num_bytes: int, partial: bool = False) -> Awaitable[bytes]:
        if partial and num_bytes > _SMALL and not stream.closed() and not stream._read_buffer_size:
            try:
                data = stream.socket.recv(num_bytes)
            except OSError:  # nothing there yet, or an error that comes again
                data = b""
            if data:
                found: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
                found.set_result(data)
                return found
        return read(num_bytes, partial)

    stream.read_bytes = read_bytes  # type: ignore[method-assign]


def replace_error_answers(
    stream: IOStream,
    render: Callable[[UnreadableInput], bytes],
    hang_up: Callable[[IOStream], None],
    max_head_bytes: int,
) -> None:
    """Answer input that cannot be read as requests by ``render``, then call ``hang_up``.

    Tornado answers a malformed head with a bare status line, one that is too long not at all, and
    has no hook for either.
    """
    write, close = stream.write, stream.close
    refused = False

    def write_rendered(data: "bytes | memoryview") -> "Awaitable[None]":
        nonlocal refused
        if data != _BARE_REFUSAL:
            return write(data)
        refused = True
        return write(render("malformed"))

    def close_after_answer(exc_info: Any = False) -> None:
        nonlocal refused
        if isinstance(exc_info, UnsatisfiableReadError) and not stream.closed():
            write(render(_explain_read_limit(stream, max_head_bytes)))
            _abort_read(stream, exc_info)
            refused = True
        if not refused or stream.closed():
            close(exc_info)
            return
        stream.close = close  # type: ignore[method-assign]
        hang_up(stream)

    stream.write = write_rendered  # type: ignore[method-assign,assignment]
    stream.close = close_after_answer  # type: ignore[method-assign]


def _explain_read_limit(stream: IOStream, max_head_bytes: int) -> UnreadableInput:
    """Return the error for the read that reached its limit: a head, or a chunk's line."""
    if stream._read_regex is None:
        return "malformed"
    has_line = b"\n" in stream._read_buffer[:max_head_bytes]
    return "head too long" if has_line else "target too long"


def _abort_read(stream: IOStream, error: UnsatisfiableReadError) -> None:
    """End the pending read of a stream that stays open; its reader learns why."""
    future, stream._read_future = stream._read_future, None
    stream._read_regex = stream._read_delimiter = stream._read_max_bytes = None
    if future is not None and not future.done():
        future.set_exception(error)
        future.exception()  # retrieved, so that asyncio does not log it: the connection may be gone


def keep_listening(stream: IOStream) -> None:
    """Let a new stream stop listening only when bytes come that nobody reads yet.

    Tornado stops listening as soon as a request's head is there and its body waits to be read, and
    begins again with the next read: that is a tenth of a small request. To stop is only needed
    when something comes in between, which is rare; then it is done, and Tornado does not notice.
    """
    stream.io_loop = cast(IOLoop, _LazyLoop(stream.io_loop))


class _LazyLoop:
    """The loop as one stream sees it; all but the handler of its socket is the loop's own."""

    READ, WRITE, ERROR = IOLoop.READ, IOLoop.WRITE, IOLoop.ERROR

    def __init__(self, loop: IOLoop) -> None:
        self._loop = loop
        self._wanted = self._armed = 0
        """The events that the stream wants, and those that the loop watches for."""
        self._handler: Callable[[Any, int], None]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def add_handler(self, fd: Any, handler: Callable[[Any, int], None], events: int) -> None:
        """Add a handler as the loop does."""
        self._handler = handler
        self._wanted = self._armed = events
        self._loop.add_handler(fd, self._dispatch, events)

    def update_handler(self, fd: Any, events: int) -> None:
        """Update the handler as the loop does, but leave reading on for now."""
        self._wanted = events
        self._arm(fd, events | (self._armed & self.READ))

    def _arm(self, fd: Any, events: int) -> None:
        if events != self._armed:
            self._armed = events
            self._loop.update_handler(fd, events)

    def _dispatch(self, fd: Any, events: int) -> None:
        if events & self.READ and not self._wanted & self.READ:
            self._arm(fd, self._wanted)
            events &= ~self.READ
        if events:
            self._handler(fd, events)
