"""What is asked of the one who calls suppliers. ``outside.upstream`` does it over HTTP/1.1."""

from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

BODY_LIMIT = 64 * 2**20
"""Bytes of an answer that is read whole."""


class Timeouts(Struct, frozen=True):
    """Seconds that each stage of a call may take."""

    connect: float = 10.0
    """Resolving the name, connecting and TLS together."""
    head: float = 300.0
    """From the request's being handed over to the whole head of the answer. Models think long."""
    idle: float = 120.0
    """Between two pieces of the answer, while they are waited for."""
    total: float = 3600.0
    """The whole call, connecting and a slow reader included."""


def merged_headers(*layers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of all layers by their names in lower case; the last layer wins.

    Names differ in case only: two spellings of one would both be sent, with two meanings.
    """
    return {name.lower(): value for layer in layers for name, value in layer.items()}


class Request(Struct, frozen=True):
    """One call. It may be sent twice if a kept connection proves to be dead; see ``Upstream``."""

    method: str
    url: str
    """``http`` or ``https``, escaped as it goes on the line, without a user's name in it."""
    headers: Mapping[str, str] = {}
    """``Host``, ``Content-Length``, ``Connection`` and ``Accept-Encoding`` are the client's own."""
    body: bytes = b""
    timeouts: Timeouts = Timeouts()

    def __repr__(self) -> str:
        """Without the headers, which hold the supplier's key, and the address's query."""
        return f"Request({self.method} {self.url.partition('?')[0]}, {len(self.body)} bytes)"


class Response(Protocol):
    """An answer whose head is there. Its body can be read once."""

    @property
    def status(self) -> int:
        """As it came, 200 to 599; redirects are not followed."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Names in lower case; what came several times is joined by a comma."""
        ...

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body's bytes as they come in, decompressed, none empty.

        Raises ``SupplierUnreachable`` when the answer stalls, breaks off or grows too large.
        """
        ...

    def read(self, limit: int = BODY_LIMIT) -> Awaitable[bytes]:
        """The rest of the body; raises as ``chunks``, and ``TooLarge`` above ``limit`` bytes."""
        ...

    def close(self) -> None:
        """No more is wanted: before the body's end that cuts the connection. Again: nothing."""
        ...


class Upstream(Protocol):
    """Calls suppliers."""

    def open(self, request: Request) -> Awaitable[Response]:
        """Call; the answer is there once its head is. It must be closed.

        To cancel the call cuts the connection. A request is sent a second time, once, if it went
        over a connection kept from an earlier call which closed without a single byte of an
        answer.

        Raises ``SupplierUnreachable`` for what fails on the way, with the stage and the host in
        it, and ``BadRequest`` for a request that cannot be sent.
        """
        ...

    def send(self, request: Request) -> AbstractAsyncContextManager[Response]:
        """As ``open``, for a block at the end of which the answer is closed."""
        ...
