"""A connection that is listened to until it says something that nobody wants to hear yet.

Tornado stops listening as soon as a request's head is there and its body waits to be read, and
begins again with the next read: that is a tenth of a small request. To stop is only needed when
something comes in between, which is rare; then it is done, and Tornado hears nothing of it.
"""

from collections.abc import Callable
from typing import Any, cast

from tornado.ioloop import IOLoop
from tornado.iostream import IOStream


def listen_on(stream: IOStream) -> None:
    """Have the stream, which must be new, stop listening no sooner than it has to."""
    stream.io_loop = cast(IOLoop, _Listening(stream.io_loop))


class _Listening:
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
        """As the loop's."""
        self._handler = handler
        self._wanted = self._armed = events
        self._loop.add_handler(fd, self._happened, events)

    def update_handler(self, fd: Any, events: int) -> None:
        """As the loop's, but that it goes on reading is left as it is for now."""
        self._wanted = events
        self._arm(fd, events | (self._armed & self.READ))

    def _arm(self, fd: Any, events: int) -> None:
        if events != self._armed:
            self._armed = events
            self._loop.update_handler(fd, events)

    def _happened(self, fd: Any, events: int) -> None:
        if events & self.READ and not self._wanted & self.READ:
            self._arm(fd, self._wanted)
            events &= ~self.READ
        if events:
            self._handler(fd, events)
