"""The programs under measurement: started, watched and stopped."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os.path import dirname, join

import msgspec

from agentd.storage.layout import Layout
from tests.benchmarks.load import Score, Shot
from tests.support.ports import find_free_port

ROOT = dirname(dirname(dirname(__file__)))
START_LIMIT = 60.0
MIB = 1024 * 1024


class Server:
    """A child that answers HTTP on ``port``."""

    def __init__(self, command: list[str], port: int, probe: bytes, log: str) -> None:
        self.port = port
        began = time.perf_counter()
        with open(log, "ab") as errors:
            self._child = subprocess.Popen(
                [sys.executable, *command],
                stderr=errors,
                cwd=dirname(log),
                env={**os.environ, "PYTHONPATH": os.pathsep.join((ROOT, *_get_more_paths()))},
            )
        self.wait_for_answer(self._child, port, probe, log)
        self.start_seconds = time.perf_counter() - began
        """From the start of the process to its first answer."""

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._child.pid

    def get_resident(self) -> float:
        """Return the MiB of memory that it occupies now."""
        return read_resident(self.pid)

    def get_processor_seconds(self) -> float:
        """Return the seconds of processor time that it has used."""
        return read_processor_seconds(self.pid)

    def stop(self, how: int = signal.SIGTERM) -> None:
        """End it and wait until it is gone."""
        self._child.send_signal(how)
        self._child.wait(60)

    @staticmethod
    def wait_for_answer(
        child: "subprocess.Popen[bytes]",
        port: int,
        probe: bytes,
        log: str,
        limit: float = START_LIMIT,
    ) -> None:
        """Return once it answers well; one that does not come up is ended."""
        end = time.monotonic() + limit
        while time.monotonic() < end and child.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)) as caller:
                caller.sendall(probe)
                if caller.recv(12).startswith(b"HTTP/1.1 200"):
                    return
            time.sleep(0.002)
        child.kill()
        child.wait()
        with open(log) as file:
            raise SystemExit(f"it did not start:\n{file.read()}")


def read_resident(pid: int) -> float:
    """Return the MiB of memory that a process occupies now."""
    with open(f"/proc/{pid}/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB


def read_processor_seconds(pid: int) -> float:
    """Return the seconds of processor time that a process has used, all threads together."""
    clock = (~pid << 3) | 2  # as clock_getcpuclockid(3) has it
    return time.clock_gettime(clock)


def start_bare(folder: str) -> Server:
    """Start Tornado answering a constant."""
    port = find_free_port()
    command = ["-m", "tests.benchmarks.bare", str(port)]
    return Server(command, port, encode_request("GET", "/"), join(folder, "bare.log"))


def start_daemon(layout: Layout) -> Server:
    """Start the daemon, as ``agentd serve`` does."""
    port = find_free_port()
    folders = ["--state", layout.state, "--config", layout.config]
    command = ["-m", "agentd", *folders, "serve", "--port", str(port)]
    log = join(dirname(layout.state), "daemon.log")
    return Server(command, port, encode_request("GET", "/healthz"), log)


def start_held_daemon(layout: Layout) -> Server:
    """Start the daemon with an engine that never finishes; end it with SIGKILL."""
    port = find_free_port()
    folders = ["--state", layout.state, "--config", layout.config]
    command = ["-m", "tests.benchmarks.held_engine", *folders, "--port", str(port)]
    log = join(dirname(layout.state), "held.log")
    return Server(command, port, encode_request("GET", "/healthz"), log)


@contextmanager
def running_server(server: Server, how: int = signal.SIGKILL) -> Iterator[Server]:
    """Stop the server at the end of the block."""
    try:
        yield server
    finally:
        server.stop(how)


class Gun:
    """The load generator, in its own process."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.load"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )

    def fire(self, shot: Shot) -> Score:
        """Send a load, and return how it was answered."""
        self._child.stdin.write(msgspec.json.encode(shot) + b"\n")
        self._child.stdin.flush()
        answer = self._child.stdout.readline()
        if not answer:
            raise SystemExit("the load generator gave up; see above")
        return msgspec.json.decode(answer, type=Score)

    def close(self) -> None:
        """End it."""
        self._child.stdin.close()
        self._child.wait(60)
        self._child.stdout.close()


def _get_more_paths() -> list[str]:
    more = os.environ.get("PYTHONPATH")
    return [more] if more else []


def encode_request(method: str, path: str, key: str = "", body: bytes = b"") -> bytes:
    """Encode one request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    if key:
        lines.append(f"X-API-Key: {key}")
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body
