"""An event to many idle WebSocket clients, beside Tornado handlers that write a ready frame."""

import asyncio
import base64
import json
import os
import resource
import time
from collections.abc import Iterator
from os.path import join
from statistics import median

from tests.benchmarks import servers
from tests.benchmarks.measures import Row, Size, create_scratch_folder
from tests.benchmarks.servers import Gun, Server, encode_request, running_server
from tests.benchmarks.states import Maker
from tests.support.ports import find_free_port

LISTENERS = 1000
FEW = 50
"""Listeners of a quick run."""
_BEGIN = b'{"protocol":"json","version":1}\x1e'
_SUBSCRIBE = b'{"type":1,"target":"Subscribe","arguments":["all"]}\x1e'
HUB_RECORDS = (_BEGIN, _SUBSCRIBE)
"""What a client of the hub says at first. One that pinged would have to go on with it."""
_PATIENCE = 60.0


def measure_fan_out(size: Size, _gun: Gun) -> Iterator[Row]:
    """Measure how long until the last listener has an event, and what a listener costs."""
    listeners = LISTENERS if size.rounds > 1 else FEW
    raise_descriptor_limit()
    with create_scratch_folder() as scratch:
        maker = Maker(scratch)
        maker.add_chat(3)
        key = maker.finish()
        port = find_free_port()
        command = ["-m", "tests.benchmarks.bare_socket", str(port)]
        log = join(scratch, "bare.log")
        with (
            running_server(Server(command, port, encode_request("GET", "/"), log)) as bare,
            running_server(servers.start_held_daemon(maker.layout)) as held,
        ):
            ours, theirs = asyncio.run(_run_rounds(size.rounds, listeners, held, bare, key))
    told = [us / them for us, them in zip(ours.seconds, theirs.seconds, strict=True)]
    yield Row(f"an event to the last of {listeners} WebSockets", median(told), 1.2)
    yield Row("resident memory of one idle WebSocket", ours.kib, 24, unit=" KiB")


class Crowd:
    """Many listeners of one server."""

    def __init__(self, server: Server, path: str, records: tuple[bytes, ...]) -> None:
        self._server = server
        self._path = path
        self._records = records
        self._readers: list[asyncio.StreamReader] = []
        self._writers: list[asyncio.StreamWriter] = []
        self.now = asyncio.Event()
        self.seconds: list[float] = []
        self.kib = 0.0

    async def gather(self, listeners: int) -> None:
        """Connect them all."""
        before = self._server.get_resident()
        while len(self._readers) < listeners:
            await asyncio.gather(*(self._connect() for _ in range(min(50, listeners))))
        self.kib = (self._server.get_resident() - before) * 1024 / len(self._readers)

    async def time_event(
        self, mark: str, request_bytes: bytes, *, patience: float = _PATIENCE, later: bool = False
    ) -> None:
        """Send an event that holds ``mark``, and record when the last listener has it.

        ``later``: not before ``now`` is set; till then they listen to whatever comes.
        """
        waiting = [asyncio.create_task(_wait_for_mark(r, mark.encode())) for r in self._readers]
        if later:
            await self.now.wait()
            self.now.clear()
        reader, writer = await asyncio.open_connection("127.0.0.1", self._server.port)
        began = time.perf_counter()
        writer.write(request_bytes)
        last = max(await asyncio.wait_for(asyncio.gather(*waiting), patience))
        self.seconds.append(last - began)
        await reader.readline()
        writer.close()

    def leave(self) -> None:
        """Hang up."""
        for writer in self._writers:
            writer.close()

    async def _connect(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._server.port)
        nonce = base64.b64encode(os.urandom(16)).decode()
        head = [
            f"GET {self._path} HTTP/1.1",
            "Host: localhost",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {nonce}",
            "Sec-WebSocket-Version: 13",
        ]
        writer.write("\r\n".join([*head, "", ""]).encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        assert b" 101 " in answer, answer
        for record in self._records:
            writer.write(bytes([0x81, 0x80 | len(record), 0, 0, 0, 0]) + record)
        self._readers.append(reader)
        self._writers.append(writer)


async def _run_rounds(
    rounds: int, listeners: int, held: Server, bare: Server, key: str
) -> tuple[Crowd, Crowd]:
    ours = Crowd(held, f"/liveChatHub?api_key={key}", HUB_RECORDS)
    theirs = Crowd(bare, "/socket", ())
    await ours.gather(listeners)
    await theirs.gather(listeners)
    for number in range(rounds):
        mark = f"round {number} of many"
        body = json.dumps({"title": mark}).encode()
        await ours.time_event(mark, encode_request("POST", "/api/remote/chats", key, body))
        event = {"type": 1, "target": "chatUpdate", "arguments": [{"title": mark, "x": "x" * 160}]}
        await theirs.time_event(
            mark, encode_request("POST", "/", "", json.dumps(event).encode() + b"\x1e")
        )
    ours.leave()
    theirs.leave()
    return ours, theirs


async def _wait_for_mark(reader: asyncio.StreamReader, mark: bytes) -> float:
    heard = b""
    while mark not in heard:
        more = await reader.read(65536)
        assert more, "the line was cut"
        heard = heard[-len(mark) :] + more
    return time.perf_counter()


def raise_descriptor_limit() -> None:
    """Raise the limit of descriptors as far as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
