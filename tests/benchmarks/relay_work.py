"""The instructions that a relayed request costs, beside another version: exact on a busy machine.

``python -m tests.benchmarks.relay_work [--before CHECKOUT] [--requests N]`` runs each version's
daemon in valgrind's callgrind, which counts the instructions of all threads. The counters are read
after some requests that warm up, and again after N more, which are sent one at a time. What the
daemon does meanwhile without any request is measured, too, and taken away.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob
from os.path import join
from typing import NamedTuple

from tests.benchmarks.measures import create_scratch_folder
from tests.benchmarks.relaying import build_single_shot, start_supplier, write_gateway
from tests.benchmarks.run import print_now
from tests.benchmarks.servers import ROOT, Gun, Server, encode_request, running_server
from tests.support.ports import find_free_port

WARM_UP = 30
"""Requests before the count: caches are filled, modules imported, code specialised."""
IDLE_SECONDS = 8.0
TARGET = 1.03
START_LIMIT = 900.0
"""Seconds for a start, which callgrind makes fifty times as long."""
KINDS = {"call of 1 KB": False, "stream of 50 chunks": True}

_TOTAL = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)


class CountedDaemon(NamedTuple):
    """A daemon in callgrind."""

    process: "subprocess.Popen[bytes]"
    port: int
    key: str
    counts: str
    """The path of the counters, to which callgrind adds a number."""

    def take_count(self) -> int:
        """Return the instructions since the last time."""
        before = set(glob(f"{self.counts}.*"))
        command = ["callgrind_control", "--dump", str(self.process.pid)]
        subprocess.run(command, check=True, capture_output=True)
        (path,) = set(glob(f"{self.counts}.*")) - before
        with open(path) as file:
            found = _TOTAL.findall(file.read())
        return int(found[-1])

    def measure_idle(self) -> float:
        """Return the instructions of one second without a request: timers and housekeeping."""
        began = time.monotonic()
        time.sleep(IDLE_SECONDS)
        return self.take_count() / (time.monotonic() - began)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", metavar="CHECKOUT", help="the folder of the version to compare")
    parser.add_argument("--models", metavar="FILE", help="its models.yml, if that had another form")
    parser.add_argument("--requests", type=int, default=200, help="requests that are counted")
    options = parser.parse_args()
    gun = Gun()
    try:
        now = measure_checkout(ROOT, gun, options.requests)
        for what, count in now.items():
            print_now(f"{count:>12,.0f} instructions: one {what}")
        if not options.before:
            return 0
        missed = False
        before = measure_checkout(options.before, gun, options.requests, options.models)
        for what, count in before.items():
            ratio = now[what] / count
            missed |= ratio > TARGET
            print_now(f"{ratio:>12.3f} of {count:,.0f} before: one {what} (target: <= {TARGET})")
        return int(missed)
    finally:
        gun.close()


def measure_checkout(
    checkout: str, gun: Gun, requests: int, models: str | None = None
) -> dict[str, float]:
    """Return the instructions of one request of each kind, in the version at ``checkout``.

    ``models``: the path of its ``models.yml``; None: this version's form.
    """
    found = {}
    with (
        create_scratch_folder() as folder,
        running_server(start_supplier(folder)) as supplier,
        running_counted_daemon(checkout, folder, supplier, models) as daemon,
    ):
        for what, stream in KINDS.items():
            gun.fire(build_single_shot(daemon.port, daemon.key, WARM_UP, stream=stream))
            daemon.take_count()
            began = time.monotonic()
            gun.fire(build_single_shot(daemon.port, daemon.key, requests, stream=stream))
            count, seconds = daemon.take_count(), time.monotonic() - began
            found[what] = (count - seconds * daemon.measure_idle()) / requests
    return found


@contextmanager
def running_counted_daemon(
    checkout: str, folder: str, supplier: Server, models: str | None
) -> Iterator[CountedDaemon]:
    """Run the daemon of a version, with this version's files, in callgrind."""
    layout, key = write_gateway(join(folder, "gateway"), supplier.port, masking=True)
    if models:
        shutil.copyfile(models, layout.models)
    port, counts, log = find_free_port(), join(folder, "counts"), join(folder, "daemon.log")
    command = [
        *("valgrind", "--tool=callgrind", f"--callgrind-out-file={counts}", "--combine-dumps=no"),
        *(sys.executable, "-m", "agentd", "--state", layout.state, "--config", layout.config),
        *("serve", "--port", str(port)),
    ]
    environ = {**os.environ, "PYTHONPATH": checkout, "PYTHONHASHSEED": "0"}
    with open(log, "ab") as output:
        child = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder, env=environ)
    try:
        Server.wait_for_answer(child, port, encode_request("GET", "/healthz"), log, START_LIMIT)
        yield CountedDaemon(child, port, key, counts)
    finally:
        child.kill()
        child.wait()


if __name__ == "__main__":
    sys.exit(main())
