# ruff: noqa: T201
"""A daemon under changes and listeners that come, catch up from the beginning, and leave.

    python -m tests.crash.memory [--rounds 20] [--megabytes 20] [--folder DIR]

Its memory after the first half of the rounds and after the second must be the same, within
``FLAT``, and never have been more than ``PEAK`` above what it was before anybody listened: the
history that each listener reads is much larger than that.
"""

import argparse
import asyncio
import contextlib
import http.client
import json
import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from tests.crash.callers import Wire
from tests.crash.keeper import DaemonProcess, Keeper
from tests.crash.keys import KEY
from tests.support.waiting import until

FLAT = 12.0
"""MiB that the second half of the rounds may add."""
PEAK = 48.0
"""MiB at any moment, above the memory before the first listener."""
LISTENERS = 4
CHANGES = 25
"""Changes of one round, beside the listeners."""
_PROMPTS = {"prompts": [{"prompt": "x" * 6000, "isPaused": True}] * 10}
_MEBIBYTE = 1024 * 1024


class Memory(NamedTuple):
    """The memory of a process, and the most that it ever had, in MiB."""

    now: float
    most: float

    @classmethod
    def measure(cls, process: DaemonProcess) -> "Memory":
        """Measure the memory of a daemon."""
        rows = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        told = dict(row.split(":", 1) for row in rows if ":" in row)
        return cls(*(int(told[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM")))


class Seen(NamedTuple):
    """The memory before anybody listened, and after each round."""

    before: Memory
    rounds: list[Memory]
    told: int
    """Bytes that the listeners got."""

    @property
    def growth(self) -> float:
        """Return the memory that the second half of the rounds added."""
        half = len(self.rounds) // 2
        return self.rounds[-1].now - self.rounds[half - 1].now

    @property
    def peak(self) -> float:
        """The most there ever was, above what was there before."""
        return self.rounds[-1].most - self.before.now


def change(url: str, chat: int, count: int) -> None:
    """Replace the queue of a chat, whose every event is large."""
    with contextlib.closing(Wire(url)) as wire:
        for _ in range(count):
            assert wire.send("PUT", f"/{chat}/queue", _PROMPTS)[0] == 200


def follow_stream(url: str) -> int:
    """Catch up by server-sent events; the bytes that came."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=100)
    with contextlib.closing(connection):
        connection.request("GET", "/api/events?since=0", headers={"X-API-Key": KEY})
        answer = connection.getresponse()
        size, goal = 0, 0
        while line := answer.readline():
            size += len(line)
            assert line != b"event: gap\n"
            if line.startswith(b'data: {"from"'):
                goal = json.loads(line[6:])["to"]
            if goal and line.startswith(f"id: {goal}~".encode()):
                return size
    raise AssertionError("the stream ended")


def follow_hub(url: str) -> int:
    """Catch up by the hub; the bytes that came."""
    return asyncio.run(_follow_hub(url))


async def _follow_hub(url: str) -> int:
    address = HTTPRequest(f"ws{url[4:]}/liveChatHub", headers={"X-API-Key": KEY})
    socket = await websocket_connect(address, max_message_size=64 * _MEBIBYTE)
    call = {"type": 1, "invocationId": "1", "target": "Subscribe", "arguments": ["all", 0]}
    for message in ({"protocol": "json", "version": 1}, call):
        await socket.write_message(json.dumps(message) + "\x1e")
    size = 0
    while message := await socket.read_message():
        size += len(message)
        assert '"target":"gap"' not in message[:100]
        if '{"type":3,' in message:
            socket.close()
            while await socket.read_message() is not None:
                pass  # what came before it was closed on both sides
            return size
    raise AssertionError("the socket was closed")


def go_round(url: str, chat: int) -> int:
    """Let all listeners catch up while things change; return the number of bytes that they got."""
    told: list[int] = []
    ways = [(follow_stream, follow_hub)[number % 2] for number in range(LISTENERS)]
    threads = [threading.Thread(target=lambda way=way: told.append(way(url))) for way in ways]
    for thread in threads:
        thread.start()
    change(url, chat, CHANGES)
    for thread in threads:
        thread.join()
    assert len(told) == LISTENERS, "a listener did not catch up"
    return sum(told)


def watch(folder: str, rounds: int, megabytes: int) -> Seen:
    """Make a history of so many megabytes, and go the rounds over it."""
    with Keeper(folder) as keeper:
        process = keeper.start()
        assert process.wait_until_answering()
        with contextlib.closing(Wire(process.url)) as wire:
            chat = wire.send("POST", "", {})[1]["chatId"]
        change(process.url, chat, megabytes * _MEBIBYTE // len(json.dumps(_PROMPTS)))
        before, seen, told = Memory.measure(process), list[Memory](), 0
        for _ in range(rounds):
            told += go_round(process.url, chat)
            settle(process)
            seen.append(Memory.measure(process))
        return Seen(before, seen, told)


def settle(process: DaemonProcess) -> None:
    """Wait until the daemon gives no more memory back."""
    last = [Memory.measure(process).now + 1]

    def is_settled() -> bool:
        threading.Event().wait(0.5)  # longer than from one giving back to the next
        now = Memory.measure(process).now
        done = now > last[0] - 0.25
        last[0] = now
        return done

    until(is_settled)


def main() -> int:
    """Print the memory after each round; 1 when it is not bounded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--megabytes", type=int, default=20)
    parser.add_argument("--folder", default="", help="keep the files here")
    args = parser.parse_args()
    folder = args.folder or tempfile.mkdtemp(prefix="agentd-memory-")
    seen = watch(folder, args.rounds, args.megabytes)
    print(f"before: {seen.before.now:.1f} MiB")
    for number, memory in enumerate(seen.rounds, 1):
        print(f"round {number}: {memory.now:.1f} MiB, at most {memory.most:.1f}")
    print(f"{seen.told / _MEBIBYTE:.0f} MiB told; the second half added {seen.growth:.1f} MiB")
    return int(seen.growth > FLAT or seen.peak > PEAK)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
