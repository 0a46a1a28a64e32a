"""The measurements of the daemon, and their targets.

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

from agentd.chats.state import Chat
from agentd.storage.layout import Layout
from tests.benchmarks import servers
from tests.benchmarks.load import Shot
from tests.benchmarks.servers import Gun, Server, encode_request, running_server
from tests.benchmarks.states import PROMPT, Maker


@dataclass(frozen=True)
class Row:
    """A figure and its target."""

    what: str
    measured: float
    target: float
    at_least: bool = False
    """The target is the least that is good; otherwise the most."""
    unit: str = "x"

    @property
    def met(self) -> bool:
        """True if the figure is as good as the target."""
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
    logged: int = 1_000_000
    """Requests of the model gateway in the log that a browser shows."""
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
    logged=63_000,
    soak=1000,
    added_up=9000,
    booked=20_000,
)
"""Enough to see that the programs run; the figures then mean nothing."""

Measure = Callable[[Size, Gun], Iterator[Row]]


def measure_requests(size: Size, gun: Gun) -> Iterator[Row]:
    """Measure reads and durable appends, beside Tornado answering a constant."""
    with create_scratch_folder() as folder:
        maker = Maker(folder)
        chat = maker.add_chat(300, waiting=20)
        many = [maker.add_chat(3) for _ in range(16)]
        # A chat for each round: how long a queue may become is measured by ``queues``.
        alone, single = ([[maker.add_chat(3)] for _ in range(size.rounds)] for _ in range(2))
        key = maker.finish()
        with (
            running_server(servers.start_bare(folder)) as bare,
            running_server(servers.start_held_daemon(maker.layout)) as held,
        ):
            yardstick = Shot(bare.port, [encode_request("GET", "/")], seconds=size.seconds)
            status = _build_status_shot(held, key, chat, size)
            for what, shots, target in (
                ("GET status", [status], 0.9),
                (
                    "GET messages?since, the last 20",
                    [_build_since_shot(held, key, chat, size)],
                    0.75,
                ),
                (
                    "GET queue of 20",
                    [_build_get(held, key, f"{_get_path(chat)}/queue", size)],
                    0.75,
                ),
                ("POST queue, durable, one chat", _build_append_shots(held, key, alone, size), 0.6),
                (
                    "POST queue, durable, 16 chats",
                    _build_append_shots(held, key, [many], size),
                    0.6,
                ),
            ):
                turns = cycle(shots)
                ratio = _measure_in_turn(
                    lambda turns=turns: gun.fire(next(turns)).rate,
                    lambda: gun.fire(yardstick).rate,
                    size.rounds,
                )
                yield Row(f"{what}, 16 connections: rate, of bare Tornado", ratio, target, True)
            one = msgspec.structs.replace(status, connections=1)
            few = replace(size, appends=size.appends // 5)
            turns = cycle(_build_append_shots(held, key, single, few, connections=1))
            ratio = _measure_in_turn(
                lambda: gun.fire(next(turns)).median, lambda: gun.fire(one).median, size.rounds
            )
            yield Row("POST queue, 1 connection: median wait, of GET status", ratio, 3.5)


def measure_history(size: Size, gun: Gun) -> Iterator[Row]:
    """Measure the cost of a long history."""
    with create_scratch_folder() as folder:
        maker = Maker(folder)
        small, large = maker.add_chat(100), maker.add_chat(size.long)
        key = maker.finish()
        with running_server(servers.start_held_daemon(maker.layout)) as held:
            for what, (one, other) in (
                (
                    "GET status",
                    [_build_status_shot(held, key, chat, size) for chat in (small, large)],
                ),
                (
                    "GET messages?since",
                    [_build_since_shot(held, key, chat, size) for chat in (small, large)],
                ),
                (
                    "POST queue",
                    [_build_append_shot(held, key, [chat], size) for chat in (small, large)],
                ),
            ):
                ratio = compare_rates(gun, one, other, size.rounds)
                yield Row(f"{what}: time with {size.long:,} messages, of 100", ratio, 1.15)
        command = [sys.executable, "-m", "tests.benchmarks.dispatching", folder]
        arguments = [str(small.id), str(large.id), str(size.appends // 5)]
        result = subprocess.run(
            [*command, *arguments], check=True, cwd=servers.ROOT, capture_output=True
        )
        of_small, of_large = msgspec.json.decode(result.stdout)
        ratio = of_large / of_small
        yield Row(f"one turn: time with {size.long:,} messages, of 100", ratio, 1.15)


def measure_queues(size: Size, gun: Gun) -> Iterator[Row]:
    """Measure the cost of a long queue."""
    with create_scratch_folder() as folder:
        maker = Maker(folder)
        few, many = maker.add_chat(3, waiting=100), maker.add_chat(3, waiting=1000)
        short, long = maker.add_chat(3, waiting=10), maker.add_chat(3, waiting=10_000)
        key = maker.finish()
        with running_server(servers.start_held_daemon(maker.layout)) as held:
            one, other = (_build_replace_shot(held, key, chat, size) for chat in (many, few))
            ratio = _compare_waits(gun, one, other, size.rounds)
            yield Row("PUT queue: median wait with 1,000 prompts, of 100", ratio, 12)
            one, other = (_build_append_shot(held, key, [chat], size) for chat in (short, long))
            ratio = compare_rates(gun, one, other, size.rounds)
            yield Row("POST queue: time with 10,000 prompts waiting, of 10", ratio, 1.5)


def measure_start(size: Size, gun: Gun) -> Iterator[Row]:
    """Measure from the start of the process to its first answer, and its memory then."""
    with create_scratch_folder() as folder, create_scratch_folder() as crowded:
        empty = Layout(join(folder, "state"), join(folder, "config"))
        maker = Maker(crowded)
        for number in range(size.chats):
            maker.add_chat(3, waiting=number % 100 == 0)
        maker.finish()
        starters = [
            lambda: servers.start_bare(folder),
            lambda: servers.start_daemon(empty),
            lambda: servers.start_daemon(maker.layout),
        ]
        for starter in starters:  # compiles, and fills the caches of the disk
            starter().stop()
        seconds, resident = _measure_starts(starters, size.starts)
        bare, alone, many = seconds
        yield Row(
            "start to first answer, of bare Tornado's", _compute_median_ratio(alone, bare), 2.5
        )
        what = f"start with {size.chats:,} chats, of an empty one"
        yield Row(what, _compute_median_ratio(many, alone), 1.6)
        bare, alone, many = resident
        yield Row("resident memory, idle, of bare Tornado's", _compute_median_ratio(alone, bare), 2)
        what = f"resident memory that {size.chats:,} chats add"
        yield Row(what, median(many) - median(alone), 25, unit=" MiB")


def measure_soak(size: Size, gun: Gun) -> Iterator[Row]:
    """Measure the memory that many requests of every kind leave behind."""
    with create_scratch_folder() as folder:
        maker = Maker(folder)
        chat, other = maker.add_chat(300, waiting=20), maker.add_chat(3, waiting=20)
        key = maker.finish()
        with running_server(servers.start_daemon(maker.layout), signal.SIGTERM) as daemon:
            mixed = [
                *_build_status_shot(daemon, key, chat, size).requests * 12,
                *_build_since_shot(daemon, key, chat, size).requests * 4,
                encode_request("GET", f"{_get_path(chat)}/queue", key),
                encode_request("GET", "/metrics"),
                *_build_replace_shot(daemon, key, other, size).requests,
            ]
            steady = Shot(daemon.port, mixed, count=size.soak - size.soak // 10)
            hasty = Shot(daemon.port, mixed, count=size.soak // 10, reconnect=True)
            gun.fire(msgspec.structs.replace(steady, count=size.soak // 2))
            gun.fire(hasty)  # the allocator and the caches are full by then
            before = daemon.get_resident()
            gun.fire(steady)
            gun.fire(hasty)
            what = f"resident memory that {size.soak:,} requests add"
            yield Row(what, daemon.get_resident() - before, 1, unit=" MiB")


MEASURES: dict[str, Measure] = {
    measure.__name__.removeprefix("measure_"): measure
    for measure in (measure_requests, measure_history, measure_queues, measure_start, measure_soak)
}
"""All of them, by name."""


def _get_path(chat: Chat) -> str:
    return f"/api/remote/chats/{chat.id}"


def _build_get(server: Server, key: str, path: str, size: Size) -> Shot:
    return Shot(server.port, [encode_request("GET", path, key)], seconds=size.seconds)


def _build_status_shot(server: Server, key: str, chat: Chat, size: Size) -> Shot:
    return _build_get(server, key, f"{_get_path(chat)}/status", size)


def _build_since_shot(server: Server, key: str, chat: Chat, size: Size) -> Shot:
    moment = chat.recent[-20:][0].at
    return _build_get(server, key, f"{_get_path(chat)}/messages?since={moment}", size)


def _build_append_shot(server: Server, key: str, chats: list[Chat], size: Size) -> Shot:
    body = msgspec.json.encode({"prompt": PROMPT})
    posts = [encode_request("POST", f"{_get_path(chat)}/queue", key, body) for chat in chats]
    return Shot(server.port, posts, count=size.appends)


def _build_append_shots(
    server: Server, key: str, turns: list[list[Chat]], size: Size, connections: int = 16
) -> list[Shot]:
    """Return a shot at each group of chats."""
    shots = [_build_append_shot(server, key, chats, size) for chats in turns]
    return [msgspec.structs.replace(shot, connections=connections) for shot in shots]


def _build_replace_shot(server: Server, key: str, chat: Chat, size: Size) -> Shot:
    prompts = [{"id": 0, "prompt": PROMPT, "isPaused": True} for _ in chat.queue]
    body = msgspec.json.encode({"prompts": prompts})
    put = encode_request("PUT", f"{_get_path(chat)}/queue", key, body)
    return Shot(server.port, [put], connections=1, seconds=size.seconds)


def _measure_in_turn(one: Callable[[], float], other: Callable[[], float], rounds: int) -> float:
    """Return the median of ``one`` by ``other``, in alternating order."""
    ratios = []
    for number in range(rounds):
        if number % 2:
            upper = one()
            ratios.append(upper / other())
        else:
            lower = other()
            ratios.append(one() / lower)
    return median(ratios)


def compare_rates(gun: Gun, one: Shot, other: Shot, rounds: int) -> float:
    """Return the rate of one shot divided by that of the other."""
    return _measure_in_turn(lambda: gun.fire(one).rate, lambda: gun.fire(other).rate, rounds)


def _compare_waits(gun: Gun, one: Shot, other: Shot, rounds: int) -> float:
    return _measure_in_turn(lambda: gun.fire(one).median, lambda: gun.fire(other).median, rounds)


def _measure_starts(
    starters: list[Callable[[], Server]], rounds: int
) -> tuple[list[list[float]], list[list[float]]]:
    """Return the seconds until the first answer, and the MiB then resident, for each starter."""
    seconds: list[list[float]] = [[] for _ in starters]
    resident: list[list[float]] = [[] for _ in starters]
    for _ in range(rounds):
        for index, starter in enumerate(starters):
            server = starter()
            seconds[index].append(server.start_seconds)
            resident[index].append(server.get_resident())
            server.stop()
    return seconds, resident


def _compute_median_ratio(ones: list[float], others: list[float]) -> float:
    return median(one / other for one, other in zip(ones, others, strict=True))


def create_scratch_folder() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="agentd-benchmark-")
