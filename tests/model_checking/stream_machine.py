"""The stream of live events, and a client that comes back with the id of the last event it has.

The client may leave between any two events, also between those of one record. Meanwhile chats
change, events move from memory into their log, and the daemon is killed. The client must receive
every event since its first connection exactly once, in order, with the same bytes as those who
listened live.
"""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from tornado.httputil import HTTPHeaders

from agentd.chats.replay import Replay
from agentd.chats.service import NewChat
from agentd.core.sse import SseReader
from agentd.http.access import Caller
from agentd.http.connections import ConnectionRegistry
from agentd.http.hosts import Hosts
from agentd.http.request import Request
from agentd.live.feed import EncodedEvent, Feed, encode_record
from agentd.live.sse_api import EventStreamEndpoint
from agentd.storage.layout import Layout
from tests.conftest import ME, TEST, Services, running_services
from tests.model_checking.explorer import Subject

CHAT = 1
KEEP_ALIVE = 0.05
"""Seconds from one ``alive`` to the next: with the cursor in it, nothing else is under way."""


class StreamClient:
    """A client of the stream: what it received, over all its connections."""

    def __init__(self) -> None:
        self.received: list[tuple[str, str, str]] = []
        """Id, name and data of each event."""
        self.last_id = ""
        self.told_quiet = False
        """True if the last event says that there are no others."""

    def read(self, reader: SseReader, chunk: bytes) -> None:
        """Take bytes of the stream."""
        for event in reader.feed(chunk):
            assert event.name != "gap", "a gap, although nothing is gone"
            if event.name not in ("resumed", "alive"):
                self.received.append((event.id, event.name, event.data))
            self.told_quiet = event.name == "alive" and event.id == reader.last_id
        self.last_id = reader.last_id or self.last_id

    def forget_last(self) -> None:
        """Lose the last event, as when the link broke while it was on its way."""
        if len(self.received) > 1:
            self.received.pop()
            self.last_id = self.received[-1][0]


class StreamMachine:
    """The real feed, replay and endpoint over a real store, and the client."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._stack = AsyncExitStack()
        self._client = StreamClient()
        self._expected: list[tuple[str, str, str]] = []
        self._texts = 0
        self._services: Services
        self._feed: Feed
        self._replay: Replay
        self._chunks: AsyncIterator[bytes] | None = None
        self._reader = SseReader()

    async def start(self) -> None:
        """Begin with a chat, and a client that is connected."""
        await self._open()
        await self._services.chats.create(NewChat(prompt="first"), ME)
        await self._connect()

    async def close(self) -> None:
        """Let go of the folder."""
        await self._leave()
        await self._stack.aclose()

    async def apply(self, step: str) -> None:
        """Take one step; compare where the client is connected."""
        match step:
            case "append":
                await self._services.chats.append_prompt(CHAT, self._make_text(), "", ME)
            case "turn":
                turns = self._services.turns
                if await turns.start_turn(CHAT, TEST):
                    await turns.add_message(CHAT, "assistant", self._make_text())
                    await turns.end_turn(CHAT, "failed", "it went wrong")
            case "create":
                await self._services.chats.create(NewChat(prompt=self._make_text()), ME)
            case "store":
                await self._feed.persist()
            case "leave" | "lose":
                await self._leave()
                if step == "lose":
                    self._client.forget_last()
            case "come back" if self._chunks is None:
                await self._connect()
            case "kill":
                await self._leave()
                await self._stack.aclose()
                await self._open()
        await self._compare()

    async def finish(self) -> None:
        """Come back after a kill: the disk says the same as memory did."""
        await self.apply("come back")
        await self.apply("lose")
        await self.apply("kill")
        await self.apply("come back")

    async def _open(self) -> None:
        self._stack = AsyncExitStack()
        services = await self._stack.enter_async_context(running_services(self._layout, crash=True))
        latest, runs = services.state.sequences.used.seq, services.state.runs
        encode = partial(encode_record, runs)
        summaries = services.chats.list_all_summaries()
        self._services = services
        self._replay = Replay(self._layout, encode, latest, summaries)
        self._stack.push_async_callback(self._replay.close)
        self._feed = Feed(services.bus, services.chats, self._replay, latest, runs)
        self._feed.subscribe(self._note)

    def _note(self, event: EncodedEvent) -> None:
        reader = SseReader()
        self._expected += [(one.id, one.name, one.data) for one in reader.feed(event.sse)]

    async def _connect(self) -> None:
        headers = HTTPHeaders({"Last-Event-ID": self._client.last_id or "0"})
        caller = Caller("key", "laptop", "manager")
        call = Request("GET", "/api/events", "", {}, headers, caller, "127.0.0.1")
        endpoint = EventStreamEndpoint(self._feed, ConnectionRegistry(Hosts()), KEEP_ALIVE)
        chunks = endpoint.stream_events(call).chunks
        assert chunks is not None
        self._chunks, self._reader = chunks, SseReader()
        while "id:" not in (chunk := (await anext(chunks)).decode()):
            self._client.read(self._reader, chunk.encode())
        self._client.read(self._reader, chunk.encode())
        await self._compare()

    async def _leave(self) -> None:
        if self._chunks is not None:
            await self._chunks.aclose()  # type: ignore[attr-defined]
            self._chunks = None

    async def _compare(self) -> None:
        """Read until the client has as many events as there were, and compare them."""
        client = self._client
        if self._chunks is None:
            return
        while len(client.received) < len(self._expected):
            client.read(self._reader, await anext(self._chunks))
            if client.told_quiet and client.last_id == str(self._feed.cursor):
                break
        missing = [one for one in self._expected if one not in client.received]
        assert not missing, f"missed {missing[:2]}"
        assert client.received == self._expected, "an event came twice, or out of order"

    def _make_text(self) -> str:
        self._texts += 1
        return f"text {self._texts}"


@asynccontextmanager
async def open_stream(folder: str) -> AsyncIterator[StreamMachine]:
    """Run a stream over a store in this folder."""
    machine = StreamMachine(Layout(os.path.join(folder, "state"), os.path.join(folder, "config")))
    await machine.start()
    try:
        yield machine
    finally:
        await machine.close()


STREAM = Subject(
    "stream",
    ("append", "turn", "create", "store", "leave", "lose", "come back", "kill"),
    open_stream,
)
