# ruff: noqa: S301, T201
"""The power is cut right after the answer of every endpoint that changes something.

    python -m tests.crash.endpoint_power_cut [--only "POST /api/keys"] [--check-syncs]

What was acknowledged is there after it, though nothing is on the disk that was not synced; and the
daemon starts. With ``--check-syncs``, the syncs of each writer are taken out in turn, and every
time something must be lost: else the check checks nothing there, or the sync is not needed.
"""

import argparse
import contextlib
import json
import os
import pickle
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.crash import endpoint_calls
from tests.crash.callers import Wire
from tests.crash.endpoint_calls import CALLS
from tests.crash.endpoint_sweep import (
    Expectation,
    Kept,
    expect,
    prepare_folder,
    read_kept,
    read_twice,
    run_daemon,
    run_in_child,
)
from tests.crash.power import build_cut_tree, lay_out
from tests.crash.recorder import CallerNote, Event, Recorder, Synced
from tests.crash.writers import list_writers as list_writers_in_code
from tests.model_checking.journal_machine import CUTS

UNSEEN = {
    "app.state.State.save": "the index of the chats is a cache",
    "chats.checkpoint.write": "what a checkpoint says is in the journal, too",
    "storage.journal.GroupCommitter._commit": "ids.json: numbers that are given again are seen "
    "only by who knows the old ones; power_cut.py does",
    "gateway.admin.import_intent.ImportIntentFile._write": "it is gone again at the answer",
    "gateway.admin.changes_store.ChangeJournal._write": "what an undo needs is seen by undoing",
    "gateway.ledger.balances.SpendSnapshot._save": "the sums are a cache of the ledger",
    "schedules.store.ProgressFile.save": "which times are over is seen when one comes",
    "storage.settled_clock.SettledClock._write": "an older time is as good",
}
"""Writers whose syncs the API does not show, and what does."""
TWICE_SAFE = {
    "DELETE /api/agent/keys/{id}": "a key is gone by its list and by that of revoked keys",
    "DELETE /api/agent/management-keys/{name}": "the same",
    "POST /api/agent/keys/{id}/reissue": "the same, of the key before",
}
"""Routes of which two files each say the same: without the syncs of one, nothing is lost."""


BY_TIME = "acknowledged, but /api/files/body/files/order"
"""The order of files by their times, which a tree that is laid out does not have."""


class Outcome(NamedTuple):
    """The findings of one route with the syncs of one writer taken out; empty: of none."""

    route: str
    writer: str
    violations: list[str]

    @property
    def is_wrong(self) -> bool:
        """True if something was lost that was synced, or nothing that was not."""
        return bool(self.violations) != bool(self.writer)


def record_call(folder: str, route: str) -> list[Event]:
    """Return the record of a daemon on this folder up to the answer to a call."""
    with open(os.path.join(folder, "values.json")) as file:
        values = json.load(file)
    path = f"{folder}.log"

    def use_recorded() -> None:
        recorder = Recorder(folder)
        recorder.note_existing(folder)
        with recorder.recording():
            run_daemon(folder, lambda url: _call_noted(url, route, values, recorder, path))

    run_in_child(use_recorded)
    with open(path, "rb") as file:
        log: list[Event] = pickle.load(file)
    os.unlink(path)
    return log


def _call_noted(
    url: str, route: str, values: dict[str, str], recorder: Recorder, path: str
) -> None:
    with contextlib.closing(Wire(url)) as wire:
        recorder.note("asked")
        status, body = endpoint_calls.call(wire, route.partition(" ")[0], CALLS[route], values)
        recorder.note("answered", status, body)
    with open(path, "wb") as file:
        pickle.dump(list(recorder.log), file)
    os._exit(0)


def cut(log: Sequence[Event], expected: Expectation, folder: str) -> Iterator[str]:
    """Yield what is missing after cuts at the end of the log."""
    for how, chance in CUTS.items():
        lay_out(build_cut_tree(log, chance), folder)
        try:
            found = read_kept(folder)
        except (AssertionError, OSError) as error:
            yield f"{how}: it does not start: {error}"
        else:
            for one in expected.find_violations(200, found):
                if not one.startswith(BY_TIME):
                    yield f"{how}: {one}"
        shutil.rmtree(folder)


def list_writers(log: Sequence[Event]) -> list[str]:
    """Return the writers that synced something between a request and its answer."""
    begin = next(n for n, event in enumerate(log) if isinstance(event, CallerNote))
    writers = {event.writer for event in log[begin:] if isinstance(event, Synced)}
    return sorted(one for one in writers if one.partition(",")[0] not in UNSEEN)


def check_route(
    template: str, before: tuple[Kept, Kept], folder: str, route: str, *, check_syncs: bool
) -> Iterator[Outcome]:
    """Yield the outcome of a route, and with ``check_syncs`` those without each writer's syncs."""
    expected = expect(template, before, folder, route)
    place = os.path.join(folder, "recorded")
    shutil.copytree(template, place)
    log = record_call(place, route)
    answer = max(n for n, event in enumerate(log) if isinstance(event, CallerNote))
    log = log[: answer + 1]
    tree = os.path.join(folder, "cut")
    yield Outcome(route, "", list(cut(log, expected, tree)))
    for writer in list_writers(log) if check_syncs and route not in TWICE_SAFE else ():
        fewer = [
            event for event in log if not (isinstance(event, Synced) and event.writer == writer)
        ]
        yield Outcome(route, writer, list(cut(fewer, expected, tree)))


def check_routes(
    folder: str, routes: Sequence[str], *, check_syncs: bool = False
) -> Iterator[Outcome]:
    """Yield the outcomes of these routes."""
    template = os.path.join(folder, "template")
    prepare_folder(template)
    before = read_twice(template)
    for route in routes:
        place = os.path.join(folder, "route")
        os.mkdir(place)
        yield from check_route(template, before, place, route, check_syncs=check_syncs)
        shutil.rmtree(place)


def main() -> int:
    """Check; print what is wrong, then the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(CALLS), choices=list(CALLS))
    parser.add_argument("--runs", type=int, default=0, help="check only so many, by chance")
    parser.add_argument("--seed", type=int, default=1, help="which of them")
    parser.add_argument("--check-syncs", action="store_true", help="take each sync out in turn")
    parser.add_argument("--folder", default="", help="work here")
    args = parser.parse_args()
    folder = args.folder or tempfile.mkdtemp(prefix="agentd-endpoint-power-")
    began = time.monotonic()
    bad, routes, writers = 0, set[str](), set[str]()
    wanted = args.only
    if args.runs:
        wanted = random.Random(args.seed).sample(wanted, min(args.runs, len(wanted)))  # noqa: S311
    for outcome in check_routes(folder, wanted, check_syncs=args.check_syncs):
        routes.add(outcome.route)
        writers |= {outcome.writer} - {""}
        if outcome.is_wrong:
            bad += 1
            what = f"without syncs of {outcome.writer}" if outcome.writer else "power cut"
            result = "; ".join(one[:300] for one in outcome.violations[:3]) or "nothing is lost"
            print(f"{outcome.route}, {what}: {result}", flush=True)
    took = time.monotonic() - began
    if args.check_syncs:
        missing = list_writers_in_code() - {one.partition(",")[0] for one in writers}
        print(f"of the code's writers {len(missing)} were not taken out: {sorted(missing)}")
    print(f"{took:.0f} s: {len(routes)} endpoints, {len(writers)} kinds of syncs: {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
