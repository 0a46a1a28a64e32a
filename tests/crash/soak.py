# ruff: noqa: T201
"""A soak: everything is on for hours, and nothing that the daemon needs may grow.

    python -m tests.crash.soak --hours 6 --results soak.jsonl [--folder DIR] [--pause 1]

Chats, queues, followers of the stream and of the hub, calls and streams of the gateway, keys,
uploads, analytics and a program whose output is rotated take steps together, round after round.
After each round, when all of that is over, the daemon's memory, descriptors, threads, tasks,
children and files are measured, and the latency of a status call. At the end the last hour
(``--window``) is compared with the second. A soak that was stopped goes on with the same folder
and results: its daemon is a new one, so only what was measured since then is compared.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from signal import SIGTERM, SIGUSR1

from msgspec import Struct
from msgspec import json as msgspec_json

from tests.crash.callers import Wire
from tests.crash.daemon_with_ledger import build_task_count_path
from tests.crash.keeper import DaemonProcess, Keeper
from tests.crash.model_callers import answer
from tests.crash.soak_load import SoakLoad
from tests.gateway.conftest import GatewaySetup
from tests.supplier.supplier import Supplier
from tests.support.waiting import until

STEPS = 5
"""Steps of each kind of work in a round."""
ALLOWED = 0.01
"""The share by which the last window may be above the second."""
OUTPUT = "for i in $(seq 200); do echo talks $i; done; exec sleep 2000"
TALKER = f"deployments:\n  talker: {{command: [sh, -c, '{OUTPUT}'], stop_seconds: 1}}\n"
GROWS = ("ledger", "remembered")
"""What is kept for good: a line of each call, and each key that was revoked."""
_CALLS_OF_A_LATENCY = 100


class Sample(Struct, frozen=True):
    """What was measured after a round."""

    part: int
    """The number of the daemon: 1, and one more each time that the soak goes on."""
    seconds: float
    """Since this daemon's first round."""
    steps: int
    """Of all kinds of work, since then."""
    memory: float
    """Resident, in MiB."""
    descriptors: int
    threads: int
    tasks: int
    children: int
    disk: float
    """The state folder in KiB without what is kept for good."""
    ledger: float
    """The ledger in KiB: it has a line of each call."""
    remembered: float
    """Revoked keys and the record of changes, in KiB."""
    latency: float
    """The median of a status call, in milliseconds."""


class Comparison(Struct, frozen=True):
    """The medians of one amount in the second and in the last window."""

    name: str
    second: float
    last: float

    @property
    def growth(self) -> float:
        """The growth as a share; below 0 it shrank."""
        return (self.last - self.second) / self.second if self.second else float(self.last)


def compare(samples: Sequence[Sample], window: float) -> list[Comparison]:
    """Compare the last whole window with the second; none if there are not three of them."""
    newest = [one for one in samples if one.part == samples[-1].part] if samples else []
    last = int(newest[-1].seconds // window) - 1 if newest else 0
    if last < 2:
        return []
    first, end = (
        [one for one in newest if number * window <= one.seconds < (number + 1) * window]
        for number in (1, last)
    )
    return [
        Comparison(name, *(statistics.median(getattr(one, name) for one in part) for part in parts))
        for parts in [(first, end)]
        for name in Sample.__struct_fields__[3:]
    ]


class Soak:
    """A daemon over one folder, with a supplier, and the load on it."""

    def __init__(self, folder: str, part: int = 1) -> None:
        self._folder = folder
        self._part = part
        self._stack = contextlib.ExitStack()
        self._numbers = (part * 10**6 + number for number in range(10**6))
        self._steps = 0
        self._began = 0.0

    def __enter__(self) -> "Soak":
        """Start all of it."""
        supplier = self._stack.enter_context(Supplier())
        supplier.answer_always(answer)
        self._supplier = supplier
        setup = GatewaySetup(Path(self._folder), supplier)
        setup.write()
        self._key = setup.add_key(name=f"soak of part {self._part}")
        Path(setup.layout.deployments_settings).write_text(TALKER)
        self._process = self._start()
        self.load = SoakLoad(self._process.url, self._key)
        self._prepare()
        self._began = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        """End the daemon, the supplier and the program."""
        with contextlib.closing(Wire(self._process.url)) as wire:
            wire.call("POST", "/api/deploy/stop/talker")
        self._process.end(SIGTERM)
        self._stack.close()

    def _start(self) -> DaemonProcess:
        keeper = self._stack.enter_context(Keeper(self._folder))
        process = keeper.start()
        assert process.wait_until_answering(), Path(keeper.log).read_text()[-2000:]
        return process

    def _prepare(self) -> None:
        with contextlib.closing(Wire(self._process.url)) as wire:
            if self._part == 1:
                assert wire.call("POST", "/api/chats", {"title": "soak"})[0] == 201
                assert wire.call("POST", "/api/chat-labels", {"name": "soak"})[0] < 300
            wire.call("POST", "/api/deploy/start/talker")
        self._wait_for_output()

    def _wait_for_output(self) -> None:
        def is_there() -> bool:
            with contextlib.suppress(AssertionError):
                self.load.read_output(0)
                return True
            return False

        until(is_there)

    def go_round(self, steps: int = STEPS) -> Sample:
        """Take so many steps of each kind of work together, and measure when they are over."""
        restarts = self._steps // len(self.load.work) // steps % 10 == 9
        if restarts:  # a new run's output replaces that of the run before
            with contextlib.closing(Wire(self._process.url)) as wire:
                wire.call("POST", "/api/deploy/restart/talker")
            self._wait_for_output()
        numbers = [next(self._numbers) for _ in range(steps)]

        def take_steps(work: Callable[[int], None]) -> None:
            for number in numbers:
                work(number)

        with ThreadPoolExecutor(len(self.load.work)) as pool:
            list(pool.map(take_steps, self.load.work.values()))
        self._steps += steps * len(self.load.work)
        self._supplier.requests.clear()
        return self.measure()

    def measure(self) -> Sample:
        """Measure when the connections of the load are closed."""
        pid = self._process.pid
        self._wait_for_quiet()
        rows = Path(f"/proc/{pid}/status").read_text().splitlines()
        status = dict(row.split(":", 1) for row in rows if ":" in row)
        sizes = dict.fromkeys(("ledger", "remembered", "disk"), 0)
        for path, size in _list_sizes(self._process.state):
            sizes[_name_family(path)] += size
        return Sample(
            part=self._part,
            seconds=round(time.monotonic() - self._began, 1),
            steps=self._steps,
            memory=int(status["VmRSS"].split()[0]) / 1024,
            descriptors=len(os.listdir(f"/proc/{pid}/fd")),
            threads=int(status["Threads"]),
            tasks=self._count_tasks(),
            children=sum(1 for _ in _list_children(pid)),
            disk=round(sizes["disk"] / 1024, 1),
            ledger=round(sizes["ledger"] / 1024, 1),
            remembered=round(sizes["remembered"] / 1024, 1),
            latency=round(self._measure_latency(), 3),
        )

    def _wait_for_quiet(self) -> None:
        """Wait until two counts in a row, somewhat apart, found as many descriptors and tasks."""
        last = [(-1, -1)]

        def is_quiet() -> bool:
            threading.Event().wait(0.3)
            now = len(os.listdir(f"/proc/{self._process.pid}/fd")), self._count_tasks()
            quiet = now == last[0]
            last[0] = now
            return quiet

        until(is_quiet)

    def _count_tasks(self) -> int:
        path = build_task_count_path(self._process.state)
        path.unlink(missing_ok=True)
        os.kill(self._process.pid, SIGUSR1)
        return int(until(lambda: path.exists() and path.read_text()))

    def _measure_latency(self) -> float:
        taken = []
        with contextlib.closing(Wire(self._process.url)) as wire:
            for _ in range(_CALLS_OF_A_LATENCY):
                began = time.perf_counter()
                wire.send("GET", "/1/status")
                taken.append(time.perf_counter() - began)
        return statistics.median(taken) * 1000


def _list_sizes(folder: str) -> Iterator[tuple[str, int]]:
    for above, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(above, name)
            with contextlib.suppress(FileNotFoundError):
                yield os.path.relpath(path, folder), os.stat(path).st_size


def _name_family(path: str) -> str:
    if path.startswith(("proxy/requests/", "proxy/reports/")):
        return "ledger"
    if path == "proxy/prices.json":  # the catalogue, which is read some time after the start
        return "remembered"
    kept = ("proxy/revoked.json", "proxy/changes", "proxy/undo/", "proxy/service", "revoked.json")
    return "remembered" if path.startswith(kept) else "disk"


def _list_children(pid: int) -> Iterator[int]:
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            fields = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == pid and fields[0] != "Z":
                yield int(name)


def read_samples(path: Path) -> list[Sample]:
    """Return what was measured so far."""
    if not path.exists():
        return []
    lines = path.read_bytes().splitlines()
    return [msgspec_json.decode(line, type=Sample) for line in lines if line.endswith(b"}")]


def describe(comparisons: Sequence[Comparison]) -> tuple[list[str], bool]:
    """Return the comparison in words, and whether something grew by more than is allowed."""
    words, grew = [], False
    for one in comparisons:
        told = f"{one.name}: {one.second:.2f}, then {one.last:.2f} ({one.growth:+.1%})"
        if one.name in GROWS:
            told += ", which is kept for good"
        elif one.growth > ALLOWED:
            grew, told = True, f"{told}: GROWN"
        words.append(told)
    return words, grew


def main() -> int:
    """Soak; print each window's last sample, then the comparison; 1 if something grew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=6.0)
    parser.add_argument("--window", type=float, default=3600.0, help="seconds that are compared")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between two rounds")
    parser.add_argument("--results", type=Path, default=Path("soak.jsonl"))
    parser.add_argument("--folder", default="", help="the files, also of a soak that goes on")
    parser.add_argument("--count", action="store_true", help="only compare what was measured")
    args = parser.parse_args()
    samples = read_samples(args.results)
    if not args.count:
        folder = args.folder or tempfile.mkdtemp(prefix="agentd-soak-")
        part = samples[-1].part + 1 if samples else 1
        print(f"part {part}, files in {folder}", flush=True)
        with Soak(folder, part) as soak, args.results.open("ab") as results:
            until_then = time.monotonic() + args.hours * 3600
            while time.monotonic() < until_then:
                sample = soak.go_round()
                samples.append(sample)
                results.write(msgspec_json.encode(sample) + b"\n")
                results.flush()
                time.sleep(args.pause)
        print(json.dumps(json.loads(msgspec_json.encode(samples[-1]))))
    comparisons = compare(samples, args.window)
    words, grew = describe(comparisons)
    print("\n".join(words) or "too short to compare: it takes three windows")
    return int(grew)


if __name__ == "__main__":
    sys.exit(main())
