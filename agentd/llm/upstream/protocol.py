"""The interface of a supplier client. ``llm.upstream.client`` implements it over HTTP/1.1."""

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
    """The time from handing over the request to the whole head of the answer. Models think long."""
    idle: float = 120.0
    """The time between two pieces of the answer, while they are waited for."""
    total: float = 3600.0
    """The whole call, connecting and a slow reader included."""


def merge_headers(*layers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of all layers by lower-case name; the last layer wins.

    Names are case-insensitive: two spellings of one would both be sent, with two meanings.
    """
    return {name.lower(): value for layer in layers for name, value in layer.items()}


class UpstreamRequest(Struct, frozen=True):
    """A call to a supplier. It may be sent twice if a kept connection is dead; see ``Upstream``."""

    method: str
    url: str
    """``http`` or ``https``, escaped as it goes on the line, without a user's name in it."""
    headers: Mapping[str, str] = {}
    """``Host``, ``Content-Length``, ``Connection`` and ``Accept-Encoding`` are the client's own."""
    body: bytes = b""
    timeouts: Timeouts = Timeouts()

    def __repr__(self) -> str:
        """Omit the headers, which hold the supplier's key, and the query."""
        return (
            f"UpstreamRequest({self.method} {self.url.partition('?')[0]}, {len(self.body)} bytes)"
        )


class UpstreamResponse(Protocol):
    """A response whose head has arrived. Its body can be read once."""

    @property
    def status(self) -> int:
        """The status as received, 200 to 599; redirects are not followed."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers by lower-case name; repeated ones are joined by a comma."""
        ...

    def iter_chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the body's bytes as they arrive, decompressed, never empty.

        Raises ``SupplierUnreachable`` when the response stalls, breaks off or grows too large.
        """
        ...

    def read(self, limit: int = BODY_LIMIT) -> Awaitable[bytes]:
        """Return the rest of the body.

        Raises as ``iter_chunks``, and ``TooLarge`` above ``limit`` bytes.
        """
        ...

    def close(self) -> None:
        """Release the connection; closes it if the body was not read to its end. Idempotent."""
        ...


class Upstream(Protocol):
    """Calls suppliers."""

    def open(self, request: UpstreamRequest) -> Awaitable[UpstreamResponse]:
        """Send a request and return the response once its head has arrived. It must be closed.

        Cancelling the call closes the connection. A GET or HEAD is sent a second time, once, if it
        went over a kept connection which closed without a single byte of a response.

        Raises ``SupplierUnreachable`` for failures on the way, with the stage and the host in it,
        and ``BadRequest`` for a request that cannot be sent.
        """
        ...

    def send(self, request: UpstreamRequest) -> AbstractAsyncContextManager[UpstreamResponse]:
        """Do as ``open``, as a context manager that closes the response."""
        ...
