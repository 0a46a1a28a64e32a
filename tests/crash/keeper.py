"""Starts real daemon processes quickly, tells when they answer, and kills them."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.paths import REPOSITORY

PATIENCE = 100.0
"""Seconds after which a daemon that should have started or ended will not."""


class DaemonProcess:
    """A process of the daemon."""

    def __init__(self, pid: int, state: str) -> None:
        self.pid = pid
        self.state = state
        self.url = ""
        try:
            self._pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            self._pidfd = -1

    def has_ended(self, seconds: float = 0) -> bool:
        """Return whether the process has ended, or ends within that many seconds."""
        return self._pidfd < 0 or bool(select.select([self._pidfd], [], [], seconds)[0])

    def wait_until_answering(self) -> bool:
        """Wait until the daemon answers; return false if it ended instead."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, ValueError):
                result = json.loads(Path(self.state, "daemon.json").read_bytes())
                if result["pid"] == self.pid:
                    self.url = result["url"]
                    return True
            if self.has_ended(0.002):
                return False
        raise TimeoutError(f"no answer from process {self.pid}")

    def end(self, how: signal.Signals) -> None:
        """End it, and return when it has ended."""
        if self._pidfd < 0:
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, how)
        if not self.has_ended(PATIENCE):
            raise TimeoutError(f"process {self.pid} does not end by {how.name}")
        os.close(self._pidfd)
        self._pidfd = -1


class Keeper:
    """The nursery of daemons over one state folder."""

    def __init__(self, folder: str, plant: str = "") -> None:
        self.state = os.path.join(folder, "state")
        self.ledger = os.path.join(folder, "ledger.jsonl")
        self.log = os.path.join(folder, "daemon.log")
        self._plant = plant

    def __enter__(self) -> Self:
        """Load the nursery."""
        self._nursery = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.daemon_with_ledger"],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self._processes: list[DaemonProcess] = []
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End every daemon that is still there."""
        for process in self._processes:
            process.end(signal.SIGKILL)
        with self._nursery:
            pass

    def start(self) -> DaemonProcess:
        """Start a daemon process, which does not answer yet."""
        order = {"state": self.state, "ledger": self.ledger, "log": self.log, "plant": self._plant}
        assert self._nursery.stdin
        assert self._nursery.stdout
        self._nursery.stdin.write(json.dumps(order).encode() + b"\n")
        process = DaemonProcess(int(self._nursery.stdout.readline()), self.state)
        self._processes = [kept for kept in self._processes if not kept.has_ended()] + [process]
        return process
