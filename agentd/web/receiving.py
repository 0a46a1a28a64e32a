"""Large bodies, taken from the socket with one copy instead of three."""

import asyncio
from collections.abc import Awaitable

from tornado.iostream import IOStream

PORTION = 256 * 1024
"""Bytes of a body that are read at once."""
_SMALL = 64 * 1024
"""Tornado's own portion, which is right for heads and for all bodies up to this size."""


def received(stream: IOStream) -> int:
    """Bytes that came on this connection, and that nobody has taken yet."""
    return stream._read_buffer_size


def receive_directly(stream: IOStream) -> None:
    """Have large reads of this connection go past Tornado's buffer, whenever it is empty.

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
