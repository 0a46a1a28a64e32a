"""The dispatcher's share of a turn's time, beside a bare round trip with its program."""

import asyncio
import json
import re
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from os.path import dirname, join
from statistics import median

from tests.benchmarks import servers
from tests.benchmarks.measures import Row, Size, create_scratch_folder
from tests.benchmarks.servers import Gun, Server, encode_request, running_server
from tests.benchmarks.states import Maker

PROGRAM = [sys.executable, "-S", "-E", join(dirname(__file__), "answering.py")]
TURNS = 50
"""At work at the same time."""
_FEW = 4
"""In a quick run."""
_STAMPS = re.compile(r"first=([0-9.]+) done=([0-9.]+)")
_TOLD = re.compile(rb"event: messageUpdate\ndata: [^\n]*(first=[0-9.]+ done=[0-9.]+)")
_TO_INITIALIZE = {"protocolVersion": 1, "clientCapabilities": {}}
_PATIENCE = 60.0


@dataclass
class Times:
    """Seconds of each turn: from its beginning to the program's first byte ..."""

    first: list[float] = field(default_factory=list)
    last: list[float] = field(default_factory=list)
    """... and from its finished reply to whoever waits for it."""

    def note(self, began: float, stamps: str, heard: float) -> None:
        """Note the moments of the program's actions in a turn."""
        first, done = map(float, _STAMPS.search(stamps).groups())
        self.first.append(first - began)
        self.last.append(heard - done)


def measure_turns(size: Size, _gun: Gun) -> Iterator[Row]:
    """Measure a turn with a program, and the API while many of them are at work."""
    rounds, many = (size.rounds * 5, TURNS) if size.rounds > 1 else (2, _FEW)
    with create_scratch_folder() as scratch:
        key, server = _build_server(scratch)
        with running_server(server) as daemon:
            ours, bare = Times(), Times()
            for number in range(rounds):
                steps = [
                    lambda: _run_turn(daemon, key, ours),
                    lambda: asyncio.run(_run_bare_turn(bare)),
                ]
                for step in steps if number % 2 else reversed(steps):
                    step()
            yield from _build_rows("accepted prompt to the program's first byte", 20, ours, bare)
            yield from _build_rows("finished reply to disk and to a listener", 5, ours, bare)
            yield from _measure_beside(daemon, key, many, size)


def _build_rows(what: str, most: float, ours: Times, bare: Times) -> Iterator[Row]:
    """Yield the milliseconds that are added, and the ratio."""
    us, them = ((one.first if "first byte" in what else one.last) for one in (ours, bare))
    added = (median(us) - median(them)) * 1000
    yield Row(f"{what}: added to a bare subprocess", added, most, unit=" ms")
    ratio = median(us) / median(them)
    result = f"{what}: of a bare subprocess, which takes {median(them) * 1000:.2f} ms"
    yield Row(result, ratio, (median(them) * 1000 + most) / (median(them) * 1000))


def _build_server(scratch: str) -> tuple[str, Server]:
    maker = Maker(scratch)
    maker.add_chat(3)
    models = {"models": [{"name": "program", "engine": "acp", "command": PROGRAM}]}
    settings = {"workspace": scratch, "max_parallel_turns": TURNS + 10}
    for name, said in (("models.yml", models), ("agentd.yml", settings)):
        with open(join(maker.layout.config, name), "w") as file:
            json.dump(said, file)
    return maker.finish(), servers.start_daemon(maker.layout)


def _run_turn(daemon: Server, key: str, times: Times) -> None:
    """Prompt a new chat; a listener waits for its reply."""
    address = ("127.0.0.1", daemon.port)
    with socket.create_connection(address) as listener, socket.create_connection(address) as caller:
        listener.settimeout(_PATIENCE)
        listener.sendall(encode_request("GET", "/api/events", key))
        result = listener.recv(1 << 16)
        while b"\n\n" not in result:
            result += listener.recv(1 << 16)
        _send_request(caller, _encode_create(key, "Go."))
        began = time.monotonic()  # accepted: it is on disk, and the caller knows
        while not (found := _TOLD.search(result)):
            result += listener.recv(1 << 16)
        times.note(began, found[1].decode(), time.monotonic())


async def _run_bare_turn(times: Times) -> None:
    """Send the same words to the same program, with nothing between."""
    began = time.monotonic()
    program = await asyncio.create_subprocess_exec(
        *PROGRAM, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert program.stdin
    assert program.stdout
    prompt = {"sessionId": "s", "prompt": [{"type": "text", "text": "Go."}]}
    for number, (method, given) in enumerate(
        (
            ("initialize", _TO_INITIALIZE),
            ("session/new", {"cwd": "/", "mcpServers": []}),
            ("session/prompt", prompt),
        )
    ):
        asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": given}
        program.stdin.write(json.dumps(asked).encode() + b"\n")
        result = await program.stdout.readline()
    times.note(began, result.decode(), time.monotonic())
    program.stdin.close()
    await program.stdout.read()
    await program.wait()


def _measure_beside(daemon: Server, key: str, many: int, size: Size) -> Iterator[Row]:
    """Measure the waits for a status while many turns are at work."""
    with socket.create_connection(("127.0.0.1", daemon.port)) as caller:
        caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        seconds = 5 * size.seconds
        status = encode_request("GET", "/api/remote/chats/1/status", key)
        _measure_waits(caller, status, size.seconds)
        idle = _measure_waits(caller, status, seconds)
        prompt = _encode_create(key, str(int(seconds * 4) + 100))
        chats = [json.loads(_send_request(caller, prompt))["chatId"] for _ in range(many)]
        while not all(_is_writing(caller, key, chat) for chat in chats):
            time.sleep(0.05)
        busy = _measure_waits(caller, status, seconds)
        assert all(_is_writing(caller, key, chat) for chat in chats), "at work all the time"
    for name, part in (("median", 0.5), ("95th percentile", 0.95)):
        low, high = (sorted(waits)[int(len(waits) * part)] for waits in (idle, busy))
        what = f"GET status beside {many} turns at work: {name} of the waits, of idle"
        yield Row(what, high / low, 3)


def _is_writing(caller: socket.socket, key: str, chat: int) -> bool:
    """Return whether a chat's program runs and writes."""
    work = json.loads(_send_request(caller, encode_request("GET", f"/api/chat/{chat}", key)))[
        "turn"
    ]
    return bool(work and work["pid"] and work["lastActivity"] > work["since"])


def _measure_waits(caller: socket.socket, asked: bytes, seconds: float) -> list[float]:
    """Return the seconds that each answer took."""
    waits = []
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end or not waits:
        _send_request(caller, asked)
        waits.append(time.perf_counter() - began)
        time.sleep(0.001)
    return waits


def _encode_create(key: str, prompt: str) -> bytes:
    body = json.dumps({"prompt": prompt, "model": "program"}).encode()
    return encode_request("POST", "/api/remote/chats", key, body)


def _send_request(caller: socket.socket, asked: bytes) -> bytes:
    """Return the answer, which has a length."""
    caller.settimeout(_PATIENCE)
    caller.sendall(asked)
    result = caller.recv(1 << 16)
    head, _, body = result.partition(b"\r\n\r\n")
    length = int(re.search(rb"Content-Length: ([0-9]+)", head)[1])
    while len(body) < length:
        body += caller.recv(1 << 16)
    assert head.startswith(b"HTTP/1.1 20"), result
    return body
