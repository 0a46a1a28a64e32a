"""Thousands of listeners: who else is kept waiting by an event, and what a burst leaves behind."""

import asyncio
import json
from collections.abc import Iterator
from statistics import median

import msgspec

from agentd.chats.state import Chat
from tests.benchmarks import servers
from tests.benchmarks.fanout import HUB_RECORDS, Crowd, raise_descriptor_limit
from tests.benchmarks.load import Score, Shot
from tests.benchmarks.measures import Row, Size, create_scratch_folder
from tests.benchmarks.servers import Gun, Server, encode_request, running_server
from tests.benchmarks.states import Maker

MANY = 5000
IDLE = 1000
EVENTS = 10_000
FEW = 50
"""Of everything, in a quick run."""


def measure_crowd(size: Size, gun: Gun) -> Iterator[Row]:
    """Measure events to 5,000 WebSockets while somebody else asks for a status."""
    full = size.rounds > 1
    listeners = MANY if full else FEW
    raise_descriptor_limit()
    with create_scratch_folder() as scratch:
        maker = Maker(scratch)
        chat = maker.add_chat(3)
        key = maker.finish()
        with running_server(servers.start_held_daemon(maker.layout)) as held:
            status = encode_request("GET", f"/api/remote/chats/{chat.id}/status", key)
            shot = Shot(held.port, [status], connections=1, seconds=size.seconds)
            told, idle, busy = asyncio.run(
                _measure_beside(held, key, listeners, gun, shot, size.rounds)
            )
    yield Row(f"an event to the last of {listeners:,} WebSockets, at worst", told, 2.5, unit=" s")
    what = f"GET status while {listeners:,} WebSockets are told"
    yield Row(f"{what}: median wait, of idle", busy.median / idle.median, 5)


def measure_burst(size: Size, gun: Gun) -> Iterator[Row]:
    """Measure the memory that 10,000 events to 1,000 WebSockets leave behind."""
    full = size.rounds > 1
    listeners, events = (IDLE, EVENTS) if full else (FEW, FEW)
    raise_descriptor_limit()
    with create_scratch_folder() as scratch:
        maker = Maker(scratch)
        chat = maker.add_chat(3, waiting=1)
        key = maker.finish()
        with running_server(servers.start_held_daemon(maker.layout)) as held:
            before, after = asyncio.run(_measure_memory(held, key, listeners, gun, chat, events))
    what = f"resident memory that {events:,} events to {listeners:,} WebSockets leave"
    yield Row(what, after - before, 4, unit=" MiB")


async def _measure_beside(
    held: Server, key: str, listeners: int, gun: Gun, shot: Shot, rounds: int
) -> tuple[float, Score, Score]:
    """Return the slowest event in seconds, and the waits for a status without and beside events."""
    everyone = Crowd(held, f"/liveChatHub?api_key={key}", HUB_RECORDS)
    await everyone.gather(listeners)
    idle, busy = [], []
    for number in range(rounds):
        idle.append(await asyncio.to_thread(gun.fire, shot))
        beside = asyncio.ensure_future(asyncio.to_thread(gun.fire, shot))
        while not beside.done():
            mark = f"round {number}, event {len(everyone.seconds)} of many"
            body = json.dumps({"title": mark}).encode()
            await everyone.time_event(mark, encode_request("POST", "/api/remote/chats", key, body))
        busy.append(await beside)
    everyone.leave()
    return max(everyone.seconds), _get_median(idle), _get_median(busy)


def _get_median(scores: list[Score]) -> Score:
    return sorted(scores, key=lambda score: score.median)[len(scores) // 2]


async def _measure_memory(
    held: Server, key: str, listeners: int, gun: Gun, chat: Chat, events: int
) -> tuple[float, float]:
    """Return MiB before and after; a smaller burst comes first, to fill the buffers of events.

    Each replacement of the queue is one record, of which two events tell.
    """
    everyone = Crowd(held, f"/liveChatHub?api_key={key}", HUB_RECORDS)
    await everyone.gather(listeners)
    body = msgspec.json.encode({"prompts": [{"id": 0, "prompt": "x" * 100, "isPaused": True}]})
    put = encode_request("PUT", f"/api/remote/chats/{chat.id}/queue", key, body)
    resident = []
    for number, count in enumerate((max(events // 4, 1), events)):
        mark = f"after burst {number}"
        last = encode_request(
            "POST", "/api/remote/chats", key, json.dumps({"title": mark}).encode()
        )
        heard = asyncio.ensure_future(everyone.time_event(mark, last, patience=600, later=True))
        shot = Shot(held.port, [put], connections=4, count=count // 2)
        await asyncio.to_thread(gun.fire, shot)
        everyone.now.set()
        await heard
        resident.append(median([held.get_resident() for _ in range(3)]))
    everyone.leave()
    return resident[0], resident[1]
