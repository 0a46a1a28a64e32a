# ruff: noqa: S311, T201
"""``kill -9`` at random moments of a daemon under load, over HTTP, again and again.

    python -m tests.crash.kill9 --runs 2000 [--seed 1] [--folder DIR] [--plant NAME]

Beside the callers of chats' queues, others change files, labels, the trash, settings, keys and
decisions, model calls are booked, and a client follows the live events (``mixed_load``).
After each restart, every chat in use is compared with what its caller was told; after the last
one every chat, every journal, and the engine's own ledger.
"""

import argparse
import contextlib
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from pathlib import Path

from tests.crash import plants, reading
from tests.crash.callers import Caller, NoAnswer, Wire, World
from tests.crash.keeper import DaemonProcess, Keeper
from tests.crash.mixed_load import MixedLoad
from tests.crash.oracle import find_ledger_violations

CALLERS = 4
CLEAN_EVERY = 50
"""Kills from one orderly stop to the next: both kinds of start take turns."""


class Run:
    """Many daemons over one state folder, one after another."""

    def __init__(self, keeper: Keeper, seed: int, *, forgets: bool = False) -> None:
        self.world = World()
        self.callers = [Caller(f"c{n}", self.world, seed) for n in range(CALLERS)]
        for caller in self.callers:
            caller.forgets = forgets
        self.kills = 0
        self.mixed: MixedLoad | None = None
        """What else loads the daemons."""
        self.early = 0
        """Kills before the daemon answered: a crash within a recovery."""
        self._keeper = keeper
        self._random = random.Random(seed)

    def run_until_killed(self) -> None:
        """Start a daemon, load it, and kill it."""
        process = self._keeper.start()
        self.kills += 1
        if (
            self._random.random() < 0.15
            and process.has_ended(self._random.random() * 0.06) is False
        ):
            process.end(signal.SIGKILL)
            self.early += 1
            return
        if not process.wait_until_answering():
            self.world.complain("start", ["the daemon did not start"])
            return
        self._compare(process)
        self._load(process)
        if self.kills % CLEAN_EVERY == 0:
            self.run_until_stopped()

    def run_until_stopped(self, *, at_end: bool = False) -> None:
        """Start a daemon and stop it in order; at the end of all, compare what takes long."""
        process = self._keeper.start()
        if not process.wait_until_answering():
            self.world.complain("start", ["the daemon did not start"])
            return
        self._compare(process)
        if at_end and self.mixed:
            self.mixed.compare_at_end(process)
        process.end(signal.SIGTERM)

    def check_at_end(self) -> list[str]:
        """Check everything once more, from the files; return all complaints of the whole run."""
        self.run_until_stopped(at_end=True)
        world, keeper = self.world, self._keeper
        found = reading.read_chats(keeper.state)
        for chat in found.keys() - world.chats.keys():
            world.adopt(chat, found[chat])
        for chat in world.chats:
            if chat in found:
                world.check(chat, found[chat])
            else:
                world.complain(f"chat {chat}", ["it is lost"])
        given = [one for one in reading.read_ledger(keeper.ledger) if one.chat not in world.removed]
        world.complain("ledger", find_ledger_violations(given, found))
        world.complain("journals", reading.find_journal_violations(keeper.state, world.asked))
        log = Path(keeper.log).read_text(errors="replace")
        world.complain("log", (line for line in log.splitlines() if "Error" in line[:40]))
        return world.violations

    def _compare(self, process: DaemonProcess) -> None:
        with contextlib.closing(Wire(process.url)) as wire:
            for chat in [chat for caller in self.callers for chat in caller.chats]:
                try:
                    self.world.check(chat, wire.read_chat(chat))
                except NoAnswer:
                    self.world.complain("start", ["the daemon died by itself"])
        if self.mixed:
            self.mixed.compare(process)

    def _load(self, process: DaemonProcess) -> None:
        stop = threading.Event()
        threads = [
            threading.Thread(target=caller.run_until_death, args=(process.url, stop))
            for caller in self.callers
        ]
        if self.mixed:
            threads += self.mixed.build_threads(process, stop)
        enough = self.world.answers + self._random.choice([0, 10, 40])
        for thread in threads:
            thread.start()
        while self.world.answers < enough and any(thread.is_alive() for thread in threads):
            time.sleep(0.001)
        time.sleep(self._random.random() * 0.02)
        process.end(signal.SIGKILL)
        stop.set()
        for thread in threads:
            thread.join()
        for caller in self.callers:
            doubts = sum(len(self.world.chats[chat].doubts) for chat in caller.chats)
            self.world.doubts += doubts
            if doubts > 1:
                complaint = f"{doubts} requests in doubt at once: the checker loses answers"
                self.world.complain(caller.name, [complaint])


def format_figures(run: Run) -> str:
    """Return the numbers of the run in words."""
    world = run.world
    return (
        f"{run.kills} kills ({run.early} before the daemon answered), {len(world.chats)} chats,"
        f" {world.answers} acknowledged changes, {world.doubts} in doubt:"
        f" {len(world.violations)} violations"
    ) + (run.mixed.format_figures() if run.mixed else "")


def run_rounds(
    folder: str,
    runs: int,
    seed: int,
    plant: str = "",
    *,
    forgets: bool = False,
    mixed: bool = False,
) -> Generator[Run, None, None]:
    """Yield the run after each of its kills; the last one has been checked wholly.

    ``plant`` is a bug of the daemon, ``forgets`` one of the checker: it loses answers. With
    ``mixed``, the load is of all kinds.
    """
    with contextlib.ExitStack() as stack:
        keeper = stack.enter_context(Keeper(folder, plant))
        run = Run(keeper, seed, forgets=forgets)
        if mixed:
            run.mixed = stack.enter_context(MixedLoad(folder, run.world, seed))
        for _ in range(runs):
            run.run_until_killed()
            yield run
        run.check_at_end()
        yield run


def main() -> int:
    """Run it long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6)
    parser.add_argument("--folder", default="", help="keep the files here")
    parser.add_argument(
        "--plant", default="", choices=["", *plants.ALL, *plants.MIXED], help="a bug to find"
    )
    parser.add_argument("--only-chats", action="store_true", help="no other load than queues")
    args = parser.parse_args()
    folder = args.folder or tempfile.mkdtemp(prefix="agentd-kill9-")
    print(f"seed {args.seed}, files in {folder}", flush=True)
    began = time.monotonic()
    for run in run_rounds(folder, args.runs, args.seed, args.plant, mixed=not args.only_chats):
        if run.kills % 100 == 0 or run.world.violations:
            print(f"{time.monotonic() - began:.0f} s: {format_figures(run)}", flush=True)
        if run.world.violations:
            print("\n".join(run.world.violations[:20]))
            return 1
    print(f"{time.monotonic() - began:.0f} s: {format_figures(run)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
