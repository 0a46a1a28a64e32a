"""The cost of managing the gateway with a long history, beside a tenth of it."""

import hashlib
import http.client
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from signal import SIGTERM
from statistics import median
from typing import NamedTuple

from agentd.gateway.ledger.rollups import iter_rollups
from tests.benchmarks.books import Books
from tests.benchmarks.large_gateway import LargeGateway
from tests.benchmarks.load import Shot
from tests.benchmarks.measures import Row, Size, create_scratch_folder
from tests.benchmarks.servers import Gun, Server, encode_request, running_server, start_daemon
from tests.benchmarks.states import Maker

KEY = "manage-0123456789abcdef"
PART = 10
"""The small history is this part of the large one, in everything but its days."""
SHORT = 0.2
"""Seconds of one shot here, for there are many rows; a part of the usual ones."""
LISTS = (
    "models", "models?limit=200", "models?name=model-0", "models?enabled=false", "models?name=none",
    "channels?limit=20", "channels", "channels?limit=200", "channels?name=channel-0",
    "channels?enabled=false", "channels?name=none",
    "keys", "keys?limit=200", "keys?name=key 4", "keys?enabled=false", "keys?name=none",
    "requests", "requests?limit=200", "requests?outcome=failed", "requests?error=rate_limit",
    "requests?key=key 0", "requests?model=vendor/model-0001", "requests?channel=channel-001",
    "service-log", "changes", "secret-rules", "reports/limits",
)  # fmt: skip
REPORTS = (
    "totals", "by-day", "by-hour", "by-model", "by-channel", "by-key", "top-spenders", "errors",
    "latency", "cache-share", "leaks", "by-day?key=key 0", "by-day?model=vendor/model-0001",
    "by-hour?channel=channel-001", "by-model?key=key 0", "by-owner", "by-tag",
)  # fmt: skip
NEW = ("totals", "by-day", "by-hour", "by-model", "by-channel", "by-key", "latency", "leaks",
       "by-model?key=key 0", "by-key?model=vendor/model-0001")  # fmt: skip
"""Reports that are also asked for days for which nobody has asked before."""
NEVER = 7
"""How often, each time for other days."""
LEAST = 1e-6
"""Seconds of processor time that anything takes, though the kernel has not counted any yet."""


class MeasuredCall(NamedTuple):
    """A call and the server that it goes to."""

    server: Server
    shot: Shot


@dataclass(frozen=True)
class ManagedDaemon:
    """A folder with its daemon, and what asks for the status of a chat in it."""

    books: Books
    server: Server
    status: bytes

    def build_list_call(self, path: str, size: Size) -> MeasuredCall:
        """Build the call for a page of a list."""
        return self._build_get_call(f"/api/agent/{path}", size)

    def build_report_call(self, path: str, size: Size) -> MeasuredCall:
        """Build the call for the first page of a report of all closed days."""
        return self._build_get_call(self.build_report_path(path), size)

    def build_report_path(self, report: str, later: int = 0) -> str:
        """Build the path of a report of the closed days but for the first ones."""
        first = self.books.first + timedelta(days=later)
        name, _, more = report.partition("?")
        days = f"from={first}&to={self.books.last}"
        return f"/api/agent/reports/{name}?{days}&{more}".rstrip("&").replace(" ", "%20")

    def _build_get_call(self, path: str, size: Size) -> MeasuredCall:
        asked = encode_request("GET", path.replace(" ", "%20"), KEY)
        return self.build_call(asked, size)

    def build_call(self, request_: bytes, size: Size) -> MeasuredCall:
        """Build a call that sends one request again and again."""
        seconds = size.seconds * SHORT
        return MeasuredCall(self.server, Shot(self.server.port, [request_], 1, seconds))


def measure_management(size: Size, gun: Gun) -> Iterator[Row]:
    """Measure lists, reports of closed days, the summary, changes of a key, and the start."""
    os.environ["PROXY_APP_HASH"] = hashlib.sha256(KEY.encode()).hexdigest()
    try:
        with (
            create_scratch_folder() as large,
            create_scratch_folder() as small,
            create_scratch_folder() as empty,
        ):
            full, part = (
                _create_books(large, size.booked),
                _create_books(small, size.booked // PART),
            )
            with (
                running_server(start_daemon(full[0].layout), SIGTERM) as one,
                running_server(start_daemon(part[0].layout), SIGTERM) as other,
            ):
                places = (
                    ManagedDaemon(part[0], other, part[1]),
                    ManagedDaemon(full[0], one, full[1]),
                )
                for place in places:
                    wait_for_rollups(place)
                yield from _compare_places(size, gun, *places)
            yield from _measure_starts(size, full[0], _create_gateway(empty, size.booked)[0].layout)
    finally:
        del os.environ["PROXY_APP_HASH"]


def _compare_places(
    size: Size, gun: Gun, small: ManagedDaemon, large: ManagedDaemon
) -> Iterator[Row]:
    of = f"time with {size.booked:,} requests, of a tenth"
    yield from _measure_summary(size, gun, large)
    for path in LISTS:
        ratio = measure_ratio(
            gun, small.build_list_call(path, size), large.build_list_call(path, size), size.rounds
        )
        yield Row(f"list {path}: {of}", ratio, 3)
    with _polling_health(large.server) as waits:
        for path in REPORTS:
            _get(large, large.build_report_path(path))
    _get(small, small.build_report_path("by-key"))
    yield Row("longest wait for /healthz beside first reports", max(waits) * 1000, 50, unit=" ms")
    for path in REPORTS:
        ratio = measure_ratio(
            gun,
            small.build_report_call(path, size),
            large.build_report_call(path, size),
            size.rounds,
        )
        yield Row(f"report {path}: {of}", ratio, 3)
    for path in NEW:
        yield Row(
            f"report {path}, of days never asked for: {of}",
            _measure_new_reports(path, small, large),
            3,
        )
    yield Row(
        "change of an access key: median of processor time",
        _measure_changes(large) * 1000,
        100,
        unit=" ms",
    )


def _create_books(folder: str, lines: int) -> tuple[Books, bytes]:
    """Create a folder with its history."""
    gateway, status = _create_gateway(folder, lines)
    books = Books(gateway, lines)
    books.fill()
    return books, status


def _create_gateway(folder: str, lines: int) -> tuple[LargeGateway, bytes]:
    """Create the models, channels and keys for so many requests, and a status request."""
    maker = Maker(folder)
    path = f"/api/remote/chats/{maker.add_chat(3).id}/status"
    status = encode_request("GET", path, maker.finish())
    models, channels, keys = (max(lines // of, 1) for of in (10_000, 50_000, 2_000))
    return LargeGateway(maker.layout, models, channels, keys), status


def wait_for_rollups(place: ManagedDaemon) -> None:
    """Wait until the daemon has built the rollups of closed days in the background."""
    books, late = place.books, time.monotonic() + 300
    while not all(
        os.path.exists(books.layout.get_ledger_rollup_path(*one))
        for one in iter_rollups(str(books.first), str(books.last))
    ):
        if time.monotonic() > late:
            raise SystemExit("what the closed days add up to was not made ahead in 5 minutes")
        time.sleep(0.1)


def _measure_summary(size: Size, gun: Gun, place: ManagedDaemon) -> Iterator[Row]:
    status, summary = place.build_call(place.status, size), place.build_list_call("summary", size)
    ratio = measure_ratio(gun, status, summary, size.rounds)
    yield Row("summary, 1 connection: time, of a chat's status", ratio, 5)


def measure_ratio(gun: Gun, one: MeasuredCall, other: MeasuredCall, rounds: int) -> float:
    """Return the processor time of the other's answer, divided by the first one's."""
    ratios = []
    for number in range(rounds):
        took = {}
        for asked in (one, other) if number % 2 else (other, one):
            before = asked.server.get_processor_seconds()
            answers = gun.fire(asked.shot).answers
            took[asked is other] = _get_processor_seconds(asked.server, before) / answers
        ratios.append(took[True] / took[False])
    return median(ratios)


def _measure_new_reports(path: str, small: ManagedDaemon, large: ManagedDaemon) -> float:
    """Return the same ratio for reports of days that were never asked for."""
    ratios = []
    for number in range(1, NEVER + 1):
        took = []
        for place in (small, large):
            before = place.server.get_processor_seconds()
            _get(place, place.build_report_path(path, number))
            took.append(_get_processor_seconds(place.server, before))
        ratios.append(took[1] / took[0])
    return median(ratios)


def _get_processor_seconds(server: Server, before: float) -> float:
    """Return the seconds of processor time since then."""
    return max(server.get_processor_seconds() - before, LEAST)


def _measure_changes(place: ManagedDaemon) -> float:
    """Return the median of the processor seconds in which a key gets another limit."""
    took = []
    for number in range(NEVER):
        before = place.server.get_processor_seconds()
        _get(place, "/api/agent/keys/key%201", json.dumps({"limits": {"parallel": number + 1}}))
        took.append(_get_processor_seconds(place.server, before))
    return median(took)


def _measure_starts(size: Size, full: Books, empty: object) -> Iterator[Row]:
    ratios = []
    for _ in range(size.starts):
        took = []
        for layout in (full.layout, empty):
            server = start_daemon(layout)
            took.append(server.start_seconds)
            server.stop()
        ratios.append(took[0] / took[1])
    what = f"start with {size.booked:,} requests booked, of an empty ledger"
    yield Row(what, median(ratios), 2)


@contextmanager
def _polling_health(server: Server) -> Iterator[list[float]]:
    """Ask for the daemon's health all the time; yield the waits."""
    waits, done = [0.0], threading.Event()

    def ask() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
        while not done.wait(0.002):
            began = time.perf_counter()
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            waits.append(time.perf_counter() - began)
        connection.close()

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield waits
    finally:
        done.set()
        asking.join()


def _get(place: ManagedDaemon, path: str, patch: str = "") -> None:
    connection = http.client.HTTPConnection("127.0.0.1", place.server.port, timeout=300)
    headers = {"X-API-Key": KEY, "Content-Type": "application/json"}
    try:
        connection.request("PATCH" if patch else "GET", path, patch or None, headers)
        reply = connection.getresponse()
        data = reply.read()
        if reply.status != 200:
            raise SystemExit(f"{path}: {reply.status} {data[:500]!r}")
    finally:
        connection.close()
