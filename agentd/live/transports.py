"""Links of hub clients: server-sent event streams and long polls.

WebSockets are in ``websocket``.
"""

import asyncio
from collections.abc import AsyncGenerator

from agentd.http.request import Response
from agentd.live.hub_client import HubClient
from agentd.live.signalr.negotiate import Transport
from agentd.live.signalr.records import Record


class StreamLink:
    """A stream of server-sent events to the client."""

    def __init__(self, client: HubClient) -> None:
        self._client = client
        self._waiting: list[bytes] = [b":\r\n"]
        self._wake = asyncio.Event()
        self._ended = False

    async def iter_chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the chunks to write; each is requested once the client has read the last."""
        client = self._client
        client.apply(client.connection.attach(self, Transport.STREAM, client.now))
        try:
            while self._waiting or not self._ended:
                if not self._waiting:
                    client.apply(client.connection.resume(self, client.now))
                if not self._waiting and not self._ended:
                    self._wake.clear()
                    await self._wake.wait()
                chunk = b"".join(self._waiting)
                self._waiting.clear()
                if chunk:
                    client.connection.pause(self, client.now)
                    yield chunk
        finally:
            client.apply(client.connection.on_link_lost(self, client.now))

    def write(self, *records: Record) -> None:
        """Send records with the next chunk."""
        self._waiting += [record.unit for record in records]
        self._wake.set()

    def close(self, last: Record | None) -> None:
        """End the stream after what waits."""
        if last:
            self._waiting.append(last.unit)
        self._ended = True
        self._wake.set()

    def respond(self, status: int, body: bytes) -> None:
        """Raise: only polls are answered."""
        raise NotImplementedError


class PollLink:
    """A long poll."""

    def __init__(self, client: HubClient) -> None:
        self._client = client
        self._answer: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()

    async def wait_for_response(self, *, single: bool) -> Response:
        """Wait for the answer."""
        client = self._client
        client.apply(client.connection.poll(self, client.now, single=single))
        try:
            status, body = await self._answer
        except asyncio.CancelledError:
            client.apply(client.connection.on_link_lost(self, client.now))
            raise
        kind = {"Content-Type": "text/plain; charset=utf-8"}
        return Response(None if status == 204 else body, status, kind)

    def respond(self, status: int, body: bytes) -> None:
        """Answer it."""
        if not self._answer.done():
            self._answer.set_result((status, body))

    def write(self, *records: Record) -> None:
        """Raise: records reach a poll as the body of its answer."""
        raise NotImplementedError

    def close(self, last: Record | None) -> None:
        """Raise: a poll ends with its answer."""
        raise NotImplementedError
