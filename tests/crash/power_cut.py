# ruff: noqa: S311, T201
"""Power cuts at random points: what was never synced may be gone, and nothing else.

    python -m tests.crash.power_cut --runs 200 [--seed 1] [--forget fdatasync|fsync|folder|all]

A daemon works under load in this process while every call that changes its folder is recorded,
and so is what its callers asked and were told. Then the folder is laid out as a cut at some
point of the record may have left it (``tests.crash.power``), a store starts on it, and all that
was acknowledged before that point must be there. With ``--forget`` syncs are not believed: the
same run must then fail, or the check checks nothing.
"""

import argparse
import asyncio
import contextlib
import logging
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import NamedTuple

from agentd.agent.engine import Approver, EngineEvent, ReplyCompleted, TurnRequest
from agentd.app import daemon
from agentd.core.errors import AgentdError
from agentd.core.ids import HighWaterMarks
from agentd.settings.model import Settings
from agentd.storage.layout import Layout
from tests.crash import reading
from tests.crash.callers import Caller, NotedWorld, World, replay_notes
from tests.crash.keys import KEY_HASH
from tests.crash.oracle import Given, find_ledger_violations
from tests.crash.power import build_cut_tree, lay_out
from tests.crash.recorder import CallerNote, Event, Recorder

CALLERS = 4
RUNS = 2
"""Daemons that serve the folder one after the other, before the cuts."""
CUTS_PER_RECORD = 50
FORGET = {
    "": frozenset[str](),
    "fdatasync": frozenset({"fdatasync"}),
    "fsync": frozenset({"fsync"}),
    "folder": frozenset({"folder"}),
    "all": frozenset({"fdatasync", "fsync", "folder"}),
}


class RecordedEngine:
    """Notes what it is given, then replies with it."""

    name = "recorded"

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    async def run(
        self, assignment: TurnRequest, approver: Approver
    ) -> AsyncGenerator[EngineEvent, None]:
        """Reply with the prompt's own words."""
        given = Given.of(assignment.chat_id, assignment.prompt)
        self._recorder.note(0, "given", given, {})
        await asyncio.sleep(0.002)
        yield ReplyCompleted(assignment.prompt)


def record_daemons(folder: str, seed: int, answers: int, forgets: frozenset[str]) -> list[Event]:
    """Return the record of some daemons, each of which answered so often, in ``folder/state``."""
    recorder = Recorder(folder, forgets)
    world = NotedWorld(recorder.note)
    callers = [Caller(f"c{n}", world, seed) for n in range(CALLERS)]
    with recorder.recording():
        for _ in range(RUNS):
            asyncio.run(_run_services(folder, recorder, callers, answers))
    if world.violations:
        raise AssertionError(world.violations[:5])
    return recorder.log


async def _run_services(
    folder: str, recorder: Recorder, callers: list[Caller], answers: int
) -> None:
    settings = Settings(
        port=0, agent_api_key=KEY_HASH, drain_seconds=0, max_parallel_turns=4, workspace=folder
    )
    layout = Layout(os.path.join(folder, "state"), os.path.join(folder, "config"))
    stop, world = threading.Event(), callers[0].world
    enough = world.answers + answers
    async with daemon.start_daemon(settings, layout, {}, RecordedEngine(recorder)) as running:
        work = [asyncio.to_thread(caller.run_until_death, running.url, stop) for caller in callers]
        working = asyncio.gather(*work)
        while world.answers < enough and not working.done():  # noqa: ASYNC110 - threads count them
            await asyncio.sleep(0.002)
        stop.set()
        await working


class Outcome(NamedTuple):
    """The findings after one cut."""

    at: int
    chats: int
    damaged: int
    """Chats that came up read-only; only pages out of order may do that."""
    violations: list[str]


def cut(log: Sequence[Event], at: int, folder: str, seed: int, *, holes: bool) -> Outcome:
    """Check a start after the power failed behind ``at`` events of the log."""
    tree = build_cut_tree(log[:at], random.Random(seed), holes=holes)
    world, given = replay_notes(event.what for event in log[:at] if isinstance(event, CallerNote))
    lay_out(tree, folder)
    state = os.path.join(folder, "state")
    try:
        found = reading.read_chats(state)
        again = reading.read_chats(state)
        marks = reading.read_marks(state)
    except AgentdError as error:
        return Outcome(at, len(world.chats), 0, [f"it does not start: {error}"])
    damaged = sum(bool(one.damage) for one in found.values())
    if marks.merge(result := _find_highest_marks(world)) != marks:
        world.complain("ids", [f"{result} were told, the next start goes on from {marks}"])
    if found != again:
        world.complain("start", ["a second start finds something else"])
    if holes:
        found = {chat: one._replace(damage="") for chat, one in found.items()}
    for chat in found.keys() - world.chats.keys():
        world.adopt(chat, found[chat])
    for chat in world.chats:
        if chat in found:
            world.check(chat, found[chat])
        else:
            world.complain(f"chat {chat}", ["it is lost"])
    replies_aside = {
        chat: one._replace(messages=tuple(m for m in one.messages if m.role == "user"))
        for chat, one in found.items()
    }
    world.complain("ledger", find_ledger_violations(given, replies_aside))
    return Outcome(at, len(world.chats), damaged, world.violations)


def _find_highest_marks(world: World) -> HighWaterMarks:
    """Return the highest numbers that were sent to any caller."""
    chats = world.chats.values()
    return HighWaterMarks(
        chat=max(world.chats, default=0),
        prompt=max((prompt for chat in chats for prompt in chat.prompts), default=0),
        message=max((message for chat in chats for message in chat.messages), default=0),
    )


def make_cuts(
    folder: str,
    runs: int,
    seed: int,
    forget: str = "",
    *,
    answers: int = 250,
    holes: bool = False,
) -> Iterator[Outcome]:
    """Yield as many cuts as wanted, with a new record after every ``CUTS_PER_RECORD``."""
    chance = random.Random(seed)
    log: list[Event] = []
    for run in range(runs):
        if run % CUTS_PER_RECORD == 0:
            place = os.path.join(folder, f"recorded-{run}")
            os.mkdir(place)
            log = record_daemons(place, seed + run, answers, FORGET[forget])
            answered = [
                at for at, event in enumerate(log, 1)
                if isinstance(event, CallerNote) and event.what[1].startswith("acknowledge")
            ]  # fmt: skip
        # Half of the cuts come right after an answer: that is when it must hold.
        at = chance.choice(answered) if run % 2 else chance.randrange(1, len(log))
        place = os.path.join(folder, f"cut-{run}")
        outcome = cut(log, at, place, chance.randrange(2**32), holes=holes)
        if not outcome.violations:
            shutil.rmtree(place)
        yield outcome


def main() -> int:
    """Run it long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6)
    parser.add_argument("--folder", default="", help="keep the files here")
    parser.add_argument("--forget", default="", choices=list(FORGET), help="syncs not to believe")
    parser.add_argument("--holes", action="store_true", help="pages reach the disk out of order")
    args = parser.parse_args()
    folder = args.folder or tempfile.mkdtemp(prefix="agentd-power-cut-")
    print(f"seed {args.seed}, files in {folder}", flush=True)
    logging.disable()
    began = time.monotonic()
    bad = chats = damaged = 0
    with open(os.path.join(folder, "log"), "w") as log, contextlib.redirect_stderr(log):
        for outcome in make_cuts(folder, args.runs, args.seed, args.forget, holes=args.holes):
            chats += outcome.chats
            damaged += outcome.damaged
            if outcome.violations:
                bad += 1
                result = "; ".join(one[:160] for one in outcome.violations[:3])
                print(f"after event {outcome.at}: {result}", flush=True)
    print(
        f"{time.monotonic() - began:.0f} s: {args.runs} cuts with {chats} chats,"
        f" {damaged} read-only: {bad} cuts lost something"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
