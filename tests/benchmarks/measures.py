"""What is measured, and against which target.

Every figure is a ratio within one run: two things are measured in turn, in alternating order,
and the median of the rounds counts. So a slower machine, or a busy one, changes little.
"""

import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import cycle
from os.path import join
from statistics import median

import msgspec

from agentd.chats.fold import Chat
from agentd.disk.layout import Layout
from tests.benchmarks import servers
from tests.benchmarks.load import Shot
from tests.benchmarks.servers import Gun, Server, request, running
from tests.benchmarks.states import PROMPT, Maker


@dataclass(frozen=True)
class Row:
    """One figure and its target."""

    what: str
    measured: float
    target: float
    at_least: bool = False
    """The target is the least that is good; otherwise the most."""
    unit: str = "x"

    @property
    def met(self) -> bool:
        """Whether the figure is as good as the target."""
        return self.measured >= self.target if self.at_least else self.measured <= self.target


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    rounds: int = 9
    seconds: float = 1.0
    """Of one shot."""
    appends: int = 1500
    """In one shot of durable appends."""
    starts: int = 9
    long: int = 100_000
    """Messages of the chat that has a history."""
    chats: int = 10_000
    soak: int = 200_000
    added_up: int = 1_000_000
    """Messages of the long history that analytics are asked about."""
    booked: int = 10_000_000
    """Requests of the model gateway, over 90 days; a 10,000th as many models, and so on."""


QUICK = Size(
    rounds=1,
    seconds=0.05,
    appends=50,
    starts=1,
    long=2000,
    chats=200,
    soak=1000,
    added_up=9000,
    booked=20_000,
)
"""Enough to see that the programs run; the figures then mean nothing."""

Measure = Callable[[Size, Gun], Iterator[Row]]


def requests(size: Size, gun: Gun) -> Iterator[Row]:
    """Reads and durable appends against Tornado answering a constant."""
    with scratch_folder() as folder:
        maker = Maker(folder)
        chat = maker.chat(300, waiting=20)
        many = [maker.chat(3) for _ in range(16)]
        # A chat for each round: how long a queue may become is measured by ``queues``.
        alone, single = ([[maker.chat(3)] for _ in range(size.rounds)] for _ in range(2))
        key = maker.finish()
        with running(servers.bare(folder)) as bare, running(servers.held(maker.layout)) as held:
            yardstick = Shot(bare.port, [request("GET", "/")], seconds=size.seconds)
            status = _status(held, key, chat, size)
            for what, shots, target in (
                ("GET status", [status], 0.9),
                ("GET messages?since, the last 20", [_since(held, key, chat, size)], 0.75),
                ("GET queue of 20", [_get(held, key, f"{_path(chat)}/queue", size)], 0.75),
                ("POST queue, durable, one chat", _appends(held, key, alone, size), 0.6),
                ("POST queue, durable, 16 chats", _appends(held, key, [many], size), 0.6),
            ):
                turns = cycle(shots)
                ratio = _in_turn(
                    lambda turns=turns: gun.fire(next(turns)).rate,
                    lambda: gun.fire(yardstick).rate,
                    size.rounds,
                )
                yield Row(f"{what}, 16 connections: rate, of bare Tornado", ratio, target, True)
            one = msgspec.structs.replace(status, connections=1)
            few = replace(size, appends=size.appends // 5)
            turns = cycle(_appends(held, key, single, few, connections=1))
            ratio = _in_turn(
                lambda: gun.fire(next(turns)).median, lambda: gun.fire(one).median, size.rounds
            )
            yield Row("POST queue, 1 connection: median wait, of GET status", ratio, 3.5)


def history(size: Size, gun: Gun) -> Iterator[Row]:
    """What a long history costs."""
    with scratch_folder() as folder:
        maker = Maker(folder)
        small, large = maker.chat(100), maker.chat(size.long)
        key = maker.finish()
        with running(servers.held(maker.layout)) as held:
            for what, shots in (
                ("GET status", [_status(held, key, chat, size) for chat in (small, large)]),
                ("GET messages?since", [_since(held, key, chat, size) for chat in (small, large)]),
                ("POST queue", [_append(held, key, [chat], size) for chat in (small, large)]),
            ):
                ratio = ratio_of_rates(gun, *shots, size.rounds)
                yield Row(f"{what}: time with {size.long:,} messages, of 100", ratio, 1.15)
        command = [sys.executable, "-m", "tests.benchmarks.dispatching", folder]
        arguments = [str(small.id), str(large.id), str(size.appends // 5)]
        told = subprocess.run(
            [*command, *arguments], check=True, cwd=servers.ROOT, capture_output=True
        )
        of_small, of_large = msgspec.json.decode(told.stdout)
        ratio = of_large / of_small
        yield Row(f"one turn: time with {size.long:,} messages, of 100", ratio, 1.15)


def queues(size: Size, gun: Gun) -> Iterator[Row]:
    """What a long queue costs."""
    with scratch_folder() as folder:
        maker = Maker(folder)
        few, many = maker.chat(3, waiting=100), maker.chat(3, waiting=1000)
        short, long = maker.chat(3, waiting=10), maker.chat(3, waiting=10_000)
        key = maker.finish()
        with running(servers.held(maker.layout)) as held:
            shots = [_replace(held, key, chat, size) for chat in (many, few)]
            ratio = _wait_ratio(gun, *shots, size.rounds)
            yield Row("PUT queue: median wait with 1,000 prompts, of 100", ratio, 12)
            shots = [_append(held, key, [chat], size) for chat in (short, long)]
            ratio = ratio_of_rates(gun, *shots, size.rounds)
            yield Row("POST queue: time with 10,000 prompts waiting, of 10", ratio, 1.5)


def start(size: Size, gun: Gun) -> Iterator[Row]:
    """From the start of the process to its first answer, and the memory that it then has."""
    with scratch_folder() as folder, scratch_folder() as crowded:
        empty = Layout(join(folder, "state"), join(folder, "config"))
        maker = Maker(crowded)
        for number in range(size.chats):
            maker.chat(3, waiting=number % 100 == 0)
        maker.finish()
        starters = [
            lambda: servers.bare(folder),
            lambda: servers.daemon(empty),
            lambda: servers.daemon(maker.layout),
        ]
        for starter in starters:  # compiles, and fills the caches of the disk
            starter().stop()
        seconds, resident = _starts(starters, size.starts)
        bare, alone, many = seconds
        yield Row("start to first answer, of bare Tornado's", _median_ratio(alone, bare), 2.5)
        what = f"start with {size.chats:,} chats, of an empty one"
        yield Row(what, _median_ratio(many, alone), 1.6)
        bare, alone, many = resident
        yield Row("resident memory, idle, of bare Tornado's", _median_ratio(alone, bare), 2)
        what = f"resident memory that {size.chats:,} chats add"
        yield Row(what, median(many) - median(alone), 25, unit=" MiB")


def soak(size: Size, gun: Gun) -> Iterator[Row]:
    """What many requests of every kind leave in memory."""
    with scratch_folder() as folder:
        maker = Maker(folder)
        chat, other = maker.chat(300, waiting=20), maker.chat(3, waiting=20)
        key = maker.finish()
        with running(servers.daemon(maker.layout), signal.SIGTERM) as daemon:
            mixed = [
                *_status(daemon, key, chat, size).requests * 12,
                *_since(daemon, key, chat, size).requests * 4,
                request("GET", f"{_path(chat)}/queue", key),
                request("GET", "/metrics"),
                *_replace(daemon, key, other, size).requests,
            ]
            steady = Shot(daemon.port, mixed, count=size.soak - size.soak // 10)
            hasty = Shot(daemon.port, mixed, count=size.soak // 10, reconnect=True)
            gun.fire(msgspec.structs.replace(steady, count=size.soak // 2))
            gun.fire(hasty)  # the allocator and the caches are full by then
            before = daemon.resident()
            gun.fire(steady)
            gun.fire(hasty)
            what = f"resident memory that {size.soak:,} requests add"
            yield Row(what, daemon.resident() - before, 1, unit=" MiB")


MEASURES: dict[str, Measure] = {
    measure.__name__: measure for measure in (requests, history, queues, start, soak)
}
"""All of them, by name."""


def _path(chat: Chat) -> str:
    return f"/api/remote/chats/{chat.id}"


def _get(server: Server, key: str, path: str, size: Size) -> Shot:
    return Shot(server.port, [request("GET", path, key)], seconds=size.seconds)


def _status(server: Server, key: str, chat: Chat, size: Size) -> Shot:
    return _get(server, key, f"{_path(chat)}/status", size)


def _since(server: Server, key: str, chat: Chat, size: Size) -> Shot:
    moment = chat.recent[-20:][0].at
    return _get(server, key, f"{_path(chat)}/messages?since={moment}", size)


def _append(server: Server, key: str, chats: list[Chat], size: Size) -> Shot:
    body = msgspec.json.encode({"prompt": PROMPT})
    posts = [request("POST", f"{_path(chat)}/queue", key, body) for chat in chats]
    return Shot(server.port, posts, count=size.appends)


def _appends(
    server: Server, key: str, turns: list[list[Chat]], size: Size, connections: int = 16
) -> list[Shot]:
    """One shot at each group of chats."""
    shots = [_append(server, key, chats, size) for chats in turns]
    return [msgspec.structs.replace(shot, connections=connections) for shot in shots]


def _replace(server: Server, key: str, chat: Chat, size: Size) -> Shot:
    prompts = [{"id": 0, "prompt": PROMPT, "isPaused": True} for _ in chat.queue]
    body = msgspec.json.encode({"prompts": prompts})
    put = request("PUT", f"{_path(chat)}/queue", key, body)
    return Shot(server.port, [put], connections=1, seconds=size.seconds)


def _in_turn(one: Callable[[], float], other: Callable[[], float], rounds: int) -> float:
    """The median of ``one`` by ``other``, each round in the order opposite to the one before."""
    ratios = []
    for number in range(rounds):
        if number % 2:
            upper = one()
            ratios.append(upper / other())
        else:
            lower = other()
            ratios.append(one() / lower)
    return median(ratios)


def ratio_of_rates(gun: Gun, one: Shot, other: Shot, rounds: int) -> float:
    """The rate of one shot by that of another: the time of the other by that of the one."""
    return _in_turn(lambda: gun.fire(one).rate, lambda: gun.fire(other).rate, rounds)


def _wait_ratio(gun: Gun, one: Shot, other: Shot, rounds: int) -> float:
    return _in_turn(lambda: gun.fire(one).median, lambda: gun.fire(other).median, rounds)


def _starts(
    starters: list[Callable[[], Server]], rounds: int
) -> tuple[list[list[float]], list[list[float]]]:
    """For each starter the seconds until the first answer, and the MiB then resident."""
    seconds: list[list[float]] = [[] for _ in starters]
    resident: list[list[float]] = [[] for _ in starters]
    for _ in range(rounds):
        for index, starter in enumerate(starters):
            server = starter()
            seconds[index].append(server.start_seconds)
            resident[index].append(server.resident())
            server.stop()
    return seconds, resident


def _median_ratio(ones: list[float], others: list[float]) -> float:
    return median(one / other for one, other in zip(ones, others, strict=True))


def scratch_folder() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="agentd-benchmark-")
