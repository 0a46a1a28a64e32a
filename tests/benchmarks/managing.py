"""What the management of the model gateway costs with a long history, beside a tenth of it."""

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

from agentd.proxy.stretches import inside
from tests.benchmarks.books import Books
from tests.benchmarks.house import House
from tests.benchmarks.load import Shot
from tests.benchmarks.measures import Row, Size, scratch_folder
from tests.benchmarks.servers import Gun, Server, daemon, request, running
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
    "by-hour?channel=channel-001", "by-model?key=key 0",
)  # fmt: skip
NEW = ("totals", "by-day", "by-hour", "by-model", "by-channel", "by-key", "latency", "leaks",
       "by-model?key=key 0", "by-key?model=vendor/model-0001")  # fmt: skip
"""Reports that are also asked for days for which nobody has asked before."""
NEVER = 7
"""How often, each time for other days."""
LEAST = 1e-6
"""Seconds of processor time that anything takes, though the kernel has not counted any yet."""


class Asked(NamedTuple):
    """Who is asked, and what."""

    server: Server
    shot: Shot


@dataclass(frozen=True)
class Place:
    """A folder with its daemon, and what asks for the status of a chat in it."""

    books: Books
    server: Server
    status: bytes

    def list(self, path: str, size: Size) -> Asked:
        """A page of a list."""
        return self._asked(f"/api/agent/{path}", size)

    def report(self, path: str, size: Size) -> Asked:
        """The first page of a report of all closed days."""
        return self._asked(self.path(path), size)

    def path(self, report: str, later: int = 0) -> str:
        """Of a report of the closed days but for the first ones."""
        first = self.books.first + timedelta(days=later)
        name, _, more = report.partition("?")
        days = f"from={first}&to={self.books.last}"
        return f"/api/agent/reports/{name}?{days}&{more}".rstrip("&").replace(" ", "%20")

    def _asked(self, path: str, size: Size) -> Asked:
        asked = request("GET", path.replace(" ", "%20"), KEY)
        return self.asked(asked, size)

    def asked(self, request_: bytes, size: Size) -> Asked:
        """Of one request, again and again."""
        seconds = size.seconds * SHORT
        return Asked(self.server, Shot(self.server.port, [request_], 1, seconds))


def management(size: Size, gun: Gun) -> Iterator[Row]:
    """Lists, reports of closed days, the summary, changes of a key, and the start."""
    os.environ["PROXY_APP_HASH"] = hashlib.sha256(KEY.encode()).hexdigest()
    try:
        with scratch_folder() as large, scratch_folder() as small, scratch_folder() as empty:
            full, part = _books(large, size.booked), _books(small, size.booked // PART)
            with (
                running(daemon(full[0].layout), SIGTERM) as one,
                running(daemon(part[0].layout), SIGTERM) as other,
            ):
                places = Place(part[0], other, part[1]), Place(full[0], one, full[1])
                for place in places:
                    _made_ahead(place)
                yield from _compared(size, gun, *places)
            yield from _starts(size, full[0], _house(empty, size.booked)[0].layout)
    finally:
        del os.environ["PROXY_APP_HASH"]


def _compared(size: Size, gun: Gun, small: Place, large: Place) -> Iterator[Row]:
    of = f"time with {size.booked:,} requests, of a tenth"
    yield from _summaries(size, gun, large)
    for path in LISTS:
        ratio = _ratio(gun, small.list(path, size), large.list(path, size), size.rounds)
        yield Row(f"list {path}: {of}", ratio, 3)
    with _asking(large.server) as waits:
        for path in REPORTS:
            _get(large, large.path(path))
    _get(small, small.path("by-key"))
    yield Row("longest wait for /healthz beside first reports", max(waits) * 1000, 50, unit=" ms")
    for path in REPORTS:
        ratio = _ratio(gun, small.report(path, size), large.report(path, size), size.rounds)
        yield Row(f"report {path}: {of}", ratio, 3)
    for path in NEW:
        yield Row(f"report {path}, of days never asked for: {of}", _never(path, small, large), 3)
    yield Row(
        "change of an access key: median of processor time", _changes(large) * 1000, 100, unit=" ms"
    )


def _books(folder: str, lines: int) -> tuple[Books, bytes]:
    """A folder with its history."""
    house, status = _house(folder, lines)
    books = Books(house, lines)
    books.fill()
    return books, status


def _house(folder: str, lines: int) -> tuple[House, bytes]:
    """As many models, channels and keys as go with so many requests; what asks for a status."""
    maker = Maker(folder)
    path = f"/api/remote/chats/{maker.chat(3).id}/status"
    status = request("GET", path, maker.finish())
    models, channels, keys = (max(lines // of, 1) for of in (10_000, 50_000, 2_000))
    return House(maker.layout, models, channels, keys), status


def _made_ahead(place: Place) -> None:
    """Wait until the sums of closed days are there that a daemon makes beside its work."""
    books, late = place.books, time.monotonic() + 300
    while not all(
        os.path.exists(books.layout.ledger_stretch(*one))
        for one in inside(str(books.first), str(books.last))
    ):
        if time.monotonic() > late:
            raise SystemExit("what the closed days add up to was not made ahead in 5 minutes")
        time.sleep(0.1)


def _summaries(size: Size, gun: Gun, place: Place) -> Iterator[Row]:
    status, summary = place.asked(place.status, size), place.list("summary", size)
    ratio = _ratio(gun, status, summary, size.rounds)
    yield Row("summary, 1 connection: time, of a chat's status", ratio, 5)


def _ratio(gun: Gun, one: Asked, other: Asked, rounds: int) -> float:
    """The processor time of the other's answer, by the one's: whatever else the machine does."""
    ratios = []
    for number in range(rounds):
        took = {}
        for asked in (one, other) if number % 2 else (other, one):
            before = asked.server.busy()
            answers = gun.fire(asked.shot).answers
            took[asked is other] = _spent(asked.server, before) / answers
        ratios.append(took[True] / took[False])
    return median(ratios)


def _never(path: str, small: Place, large: Place) -> float:
    """The same of a report of other days than ever before."""
    ratios = []
    for number in range(1, NEVER + 1):
        took = []
        for place in (small, large):
            before = place.server.busy()
            _get(place, place.path(path, number))
            took.append(_spent(place.server, before))
        ratios.append(took[1] / took[0])
    return median(ratios)


def _spent(server: Server, before: float) -> float:
    """The seconds of processor time since then."""
    return max(server.busy() - before, LEAST)


def _changes(place: Place) -> float:
    """The median of the seconds of processor time in which a key gets another limit."""
    took = []
    for number in range(NEVER):
        before = place.server.busy()
        _get(place, "/api/agent/keys/key%201", json.dumps({"limits": {"parallel": number + 1}}))
        took.append(_spent(place.server, before))
    return median(took)


def _starts(size: Size, full: Books, empty: object) -> Iterator[Row]:
    ratios = []
    for _ in range(size.starts):
        took = []
        for layout in (full.layout, empty):
            server = daemon(layout)
            took.append(server.start_seconds)
            server.stop()
        ratios.append(took[0] / took[1])
    what = f"start with {size.booked:,} requests booked, of an empty ledger"
    yield Row(what, median(ratios), 2)


@contextmanager
def _asking(server: Server) -> Iterator[list[float]]:
    """Ask for the daemon's health all the time; the waits."""
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


def _get(place: Place, path: str, patch: str = "") -> None:
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
