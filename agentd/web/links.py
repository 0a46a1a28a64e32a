"""What carries the hub's records to a client: streams and long polls.

``websocket`` has the WebSockets.
"""

import asyncio
from collections.abc import AsyncGenerator

from agentd.web.call import Answer
from agentd.web.hub_client import Client
from agentd.wire.signalr.negotiate import Transport
from agentd.wire.signalr.records import Record


class StreamLink:
    """A stream of server-sent events, server to client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._waiting: list[bytes] = [b":\r\n"]
        self._wake = asyncio.Event()
        self._ended = False

    async def units(self) -> AsyncGenerator[bytes, None]:
        """What to write, portion by portion; each is asked for when the last one was taken."""
        client = self._client
        client.drive(client.connection.attach(self, Transport.STREAM, client.now))
        try:
            while self._waiting or not self._ended:
                if not self._waiting:
                    client.drive(client.connection.resume(self, client.now))
                if not self._waiting and not self._ended:
                    self._wake.clear()
                    await self._wake.wait()
                portion = b"".join(self._waiting)
                self._waiting.clear()
                if portion:
                    client.connection.pause(self, client.now)
                    yield portion
        finally:
            client.drive(client.connection.lost(self, client.now))

    def write(self, *records: Record) -> None:
        """Send records with the next portion."""
        self._waiting += [record.unit for record in records]
        self._wake.set()

    def cut(self, last: Record | None) -> None:
        """End after what waits."""
        if last:
            self._waiting.append(last.unit)
        self._ended = True
        self._wake.set()

    def answer(self, status: int, body: bytes) -> None:
        """Never: a stream is no poll."""
        raise NotImplementedError


class PollLink:
    """One long poll."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._answer: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()

    async def polled(self, *, single: bool) -> Answer:
        """Wait for the answer."""
        client = self._client
        client.drive(client.connection.poll(self, client.now, single=single))
        try:
            status, body = await self._answer
        except asyncio.CancelledError:
            client.drive(client.connection.lost(self, client.now))
            raise
        kind = {"Content-Type": "text/plain; charset=utf-8"}
        return Answer(None if status == 204 else body, status, kind)

    def answer(self, status: int, body: bytes) -> None:
        """Answer it."""
        if not self._answer.done():
            self._answer.set_result((status, body))

    def write(self, *records: Record) -> None:
        """Never: records reach a poll as the body of its answer."""
        raise NotImplementedError

    def cut(self, last: Record | None) -> None:
        """Never: a poll ends with its answer."""
        raise NotImplementedError
