# ruff: noqa: S301, S311, T201
"""Every call to the disk of every change goes wrong once, in every way.

    python -m tests.crash.fault_sweep [--every 1] [--seed 1] [--only append] [--folder DIR]

For each change, in a process of its own: a daemon starts on a copy of a folder, one call that
touches the disk fails, or takes half, or the process dies there. The answer must be an
error in the envelope or a durable success; other chats must go on; and the next start must find
all that was acknowledged, nothing that nobody asked for, and no half of anything.
"""

import argparse
import asyncio
import contextlib
import io
import json
import logging
import os
import pickle
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, NamedTuple, NoReturn

from agentd.agent import dispatcher
from agentd.agent.engine import Approver, EngineEvent, ReplyCompleted, TurnRequest
from agentd.app import daemon
from agentd.auth.key import issue_key
from agentd.auth.key_store import KeyFile
from agentd.core.errors import AgentdError
from agentd.settings.model import Settings
from agentd.storage.layout import Layout
from tests.crash import keeping, plants, reading
from tests.crash.callers import Caller, NotedWorld, Wire, World
from tests.crash.faults import CALLS, KINDS, Faults, real_write, wait_for_inspection
from tests.crash.keys import KEY_HASH
from tests.crash.oracle import ExpectedChat, Found, Given, find_ledger_violations

CHANGES = (
    "create", "append", "rewrite", "remove", "replace", "dispatch", "generate", "renew", "revoke",
    "start", *keeping.CHANGES,
)  # fmt: skip
AT = "2026-01-01T00:00:00.000Z"
TARGET, OTHER = 1, 2
"""The chat that is changed, and one that must go on."""


class Case(NamedTuple):
    """A thing that goes wrong: the ``at``-th call of a place in the code."""

    change: str
    warm: bool
    """True if the daemon has changed something before: then fewer calls are needed."""
    kind: str = ""
    place: str = ""
    at: int = 0


class Engine:
    """Notes what it is given, then replies."""

    name = "noting"

    def __init__(self, note: Callable[..., None]) -> None:
        self._note = note

    async def run(
        self, assignment: TurnRequest, approver: Approver
    ) -> AsyncGenerator[EngineEvent, None]:
        """Reply with the prompt's own words."""
        self._note(0, "given", Given.of(assignment.chat_id, assignment.prompt), {})
        yield ReplyCompleted(assignment.prompt)


class NotingCaller(Caller):
    """Notes each answer instead of judging it."""

    def __init__(self, world: World, note: Callable[..., None]) -> None:
        super().__init__(f"x{os.getpid()}", world, seed=1)
        self.answers: list[int] = []
        self._note = note

    def _check_status(self, status: int, wanted: int, body: object) -> bool:
        self.answers.append(status)
        enveloped = isinstance(body, dict) and {"error", "message", "details"} == set(body)
        if status != wanted and not (status >= 500 and enveloped):
            self._note(0, "complain", ("answer", [f"{status}: {body}"]), {})
        return status == wanted

    def change(self, wire: Wire, what: str, chat: int) -> None:
        """Ask for one change of a chat."""
        expected = self.world.chats[chat]
        match what:
            case "create":
                self.create(wire)
            case "append" | "dispatch":
                self._append(wire, chat, expected)
            case "rewrite":
                self._rewrite(wire, chat, expected)
            case "remove":
                self._remove(wire, chat, expected)
            case "replace":
                self._replace(wire, chat, expected)
        if what == "dispatch":
            wire.send("GET", f"/{chat}/status?wait=0.3")


class Patient:
    """The process in which it goes wrong."""

    def __init__(self, case: Case, folder: str, pipe: int) -> None:
        self.case = case
        self.layout = Layout(os.path.join(folder, "state"), os.path.join(folder, "config"))
        self.faults = Faults(case.kind, case.place, case.at)
        self._pipe = pipe

    def note(self, *what: Any) -> None:
        """Tell the one who watches, in a way that no fault reaches."""
        data = pickle.dumps(what)
        real_write(self._pipe, len(data).to_bytes(4, "big") + data)

    def run_case(self) -> NoReturn:
        """Go through the case; the end is always sudden."""
        sys.stderr = io.StringIO()
        logging.disable()
        dispatcher.RETRY_SECONDS = 0.05
        keeping.call_no_push_services()
        self.faults.install()
        try:
            asyncio.run(self._serve())
        except AgentdError as error:
            if self.case.change != "start":
                self.note(0, "complain", ("start", [f"it did not start: {error}"]), {})
        except Exception as error:
            self.note(0, "complain", ("daemon", [f"{type(error).__name__}: {error}"]), {})
        self.note(0, "counted", tuple(self.faults.calls), {})
        os._exit(0)

    async def _serve(self) -> None:
        settings = Settings(
            port=0, agent_api_key=KEY_HASH, drain_seconds=0, workspace=self.layout.state
        )
        self.faults.armed = self.case.change == "start"
        async with daemon.start_daemon(settings, self.layout, {}, Engine(self.note)) as running:
            try:
                await wait_for_inspection()
                await asyncio.to_thread(self._go_through, running.url)
            finally:
                self.note(0, "counted", tuple(self.faults.calls), {})
                os._exit(0)  # a daemon that is not stopped in order leaves the most behind

    def _go_through(self, url: str) -> None:
        world = NotedWorld(self.note)
        caller = NotingCaller(world, self.note)
        for chat, found in reading.read(self.layout).items():
            world.expect(chat).settle(found)
        with contextlib.closing(Wire(url)) as wire:
            if self.case.warm:
                caller.change(wire, "append", OTHER)
                wire.send("GET", f"/{OTHER}/status?wait=10")
            self.faults.armed = True
            if self.case.change in ("generate", "renew", "revoke"):
                self._change_keys()
            elif self.case.change in keeping.CHANGES:
                keeping.change(wire, self.layout, self.case.change, self.note)
            else:
                caller.change(wire, self.case.change, TARGET)
            self._look(wire)
            if self.case.kind.endswith("good") or self.case.change == "start":
                return  # a chat that could not be read or mended at start waits for the next one
            self.faults.armed = False
            del caller.answers[:]
            caller.change(wire, "append", OTHER)
            if self.case.change in keeping.CHANGES:
                pass
            elif self.case.kind in ("ENOSPC", "half") and not self._failed_in_sync():
                caller.change(wire, "append", TARGET)  # there is space again
            if set(caller.answers) - {201}:
                complaint = f"when all was well again it answered {caller.answers}"
                self.note(0, "complain", ("afterwards", [complaint]), {})

    def _failed_in_sync(self) -> bool:
        return self.faults.happened and "sync" in self.case.place.partition(" ")[0]

    def _look(self, wire: Wire) -> None:
        """Whatever the disk does, what is there can be read."""
        for chat in (TARGET, OTHER):
            status, body, _ = wire.send("GET", f"/{chat}/status")
            at_start = self.case.change == "start" and self.layout.state in str(body)
            away = self.case.change == "delete" and chat == TARGET and status == 404
            if status != 200 and not away and not (status == 503 and at_start):
                self.note(0, "complain", ("status", [f"{status}: {body}"]), {})

    def _change_keys(self) -> None:
        store = KeyFile(self.layout)
        try:
            if self.case.change == "generate":
                store.add(issue_key("new", AT)[1])
            elif self.case.change == "renew":
                store.renew(issue_key("old", AT)[1])
            else:
                store.revoke("old", AT)
        except AgentdError:
            return
        self.note(0, "key", (self.case.change,), {})


def prepare_folder(folder: str) -> dict[int, Found]:
    """Prepare a folder with two chats (each has history and paused prompts) and a key."""
    layout = Layout(os.path.join(folder, "state"), os.path.join(folder, "config"))
    settings = Settings(port=0, agent_api_key=KEY_HASH, drain_seconds=0, workspace=folder)
    keeping.settle(layout)
    keeping.call_no_push_services()

    async def make() -> None:
        async with daemon.start_daemon(settings, layout, {}, Engine(lambda *_: None)) as running:
            await asyncio.to_thread(fill, running.url)

    def fill(url: str) -> None:
        with contextlib.closing(Wire(url)) as wire:
            for chat in (TARGET, OTHER):
                wire.send("POST", "", {"prompt": f"first of {chat}"})
                wire.send("GET", f"/{chat}/status?wait=10")
                rows = [{"prompt": f"{chat}-{n}", "isPaused": True} for n in range(3)]
                wire.send("PUT", f"/{chat}/queue", {"prompts": rows})
            keeping.fill(wire, layout)

    asyncio.run(make())
    KeyFile(layout).add(issue_key("old", AT)[1])
    return reading.read(layout)


def suffer(case: Case, folder: str) -> tuple[list[str], list[str]]:
    """Go through a case on this folder: the violations, and the calls that were counted."""
    if case.change == "start":
        leave_unfinished(Layout(os.path.join(folder, "state"), ""))
    layout = Layout(os.path.join(folder, "state"), os.path.join(folder, "config"))
    before = reading.read(layout)
    digest = KeyFile(layout).read().named[0].sha256
    if case.change == "start":
        keeping.leave_unfinished(layout)
    notes = run_daemon(case, folder)
    if case.kind and case.change in keeping.FINISHED:
        again = run_daemon(Case(case.change, warm=False), folder)
        # Nothing is there to be changed any more, when the first daemon came that far.
        notes += [n for n in again if n[1] != "counted" and n[2][:1] != (case.change,)]
    return judge(case.change, layout, before, notes, digest)


def run_daemon(case: Case, folder: str) -> list[tuple[Any, ...]]:
    """Return the notes of a daemon that goes through the case."""
    incoming, outgoing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(incoming)
        Patient(case, folder, outgoing).run_case()
    os.close(outgoing)
    with open(incoming, "rb") as pipe:
        notes = list(_read_notes(pipe))
    os.waitpid(pid, 0)
    return notes


def leave_unfinished(layout: Layout) -> None:
    """Leave a chat in the middle of a turn, and one with a torn end, as after a crash."""
    path = layout.get_journal_path(TARGET)
    with open(path, "rb") as file:
        lines = file.read().splitlines(keepends=True)
    started = next(n for n, line in enumerate(lines) if b'"turn.started"' in line)
    with open(path, "wb") as file:
        file.write(b"".join(lines[: started + 1]))
    with open(layout.get_journal_path(OTHER), "ab") as file:
        file.write(b'{"n":99,"seq":')
    for cache in (
        layout.index,
        layout.get_checkpoint_path(TARGET),
        layout.get_checkpoint_path(OTHER),
    ):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(cache)


def judge(
    change: str,
    layout: Layout,
    before: dict[int, Found],
    notes: list[tuple[Any, ...]],
    digest: str,
) -> tuple[list[str], list[str]]:
    """Return the problems that the next start finds."""
    world, given, counted, keys = World(), [], list[str](), list[str]()
    kept_by_owners: dict[str, str] = {}
    for chat, found in before.items():
        world.chats[chat] = ExpectedChat()
        world.chats[chat].settle(found)
    for chat, name, what, named in notes:
        match name:
            case "given":
                given.append(Given(*what))
            case "counted":
                counted = list(what)
            case "key":
                keys += what
            case "kept":
                kept_by_owners[what[0]] = what[1]
            case _:
                getattr(world.chats[chat] if chat else world, name)(*what, **named)
    try:
        found_now = reading.read_chats(layout.state)
        world.complain("start", ["it differs"] * (found_now != reading.read_chats(layout.state)))
    except AgentdError as error:
        return [*world.violations, f"it does not start: {error}"], counted
    for chat in found_now.keys() - world.chats.keys():
        world.adopt(chat, found_now[chat])
    if change == "purge" and keeping.DELETED not in found_now:
        del world.chats[keeping.DELETED]
    for chat in world.chats:
        world.check(chat, found_now.get(chat, Found((), (), damage="it is lost")))
    fresh = {
        chat: one._replace(messages=_list_user_messages(one)) for chat, one in found_now.items()
    }
    world.complain("ledger", find_ledger_violations(given, fresh))
    world.complain("keys", _find_key_violations(layout, change, keys, digest))
    world.complain("kept", keeping.find_violations(layout, kept_by_owners, change))
    return world.violations, counted


def _find_key_violations(
    layout: Layout, change: str, acknowledged: list[str], digest: str
) -> list[str]:
    """List the problems of the keys; ``digest`` is that of the old key before the change."""
    kept = KeyFile(layout).read()
    named = [key for key in kept.named if key.sha256 not in kept.revoked]
    good = {key.name for key in named}
    result = f"{acknowledged} were acknowledged, good are {good}"
    wrong = [kept.problem] if kept.problem else []
    if "generate" in acknowledged and "new" not in good:
        wrong.append(result)
    if "revoke" in acknowledged and "old" in good:
        wrong.append(result)
    untold = {key.sha256 for key in named} | {one.sha256 for one in kept.renewals}
    if change == "renew" and digest not in untold:
        wrong.append("the key before a renewal that nobody was told of is dead")
    return wrong


def _list_user_messages(found: Found) -> tuple[Any, ...]:
    return tuple(said for said in found.messages if said.role == "user")


def _read_notes(pipe: Any) -> Iterator[tuple[Any, ...]]:
    while head := pipe.read(4):
        yield pickle.loads(pipe.read(int.from_bytes(head, "big")))


def list_cases(template: str, folder: str, only: str) -> list[Case]:
    """Return every call of every change, as a run without faults counts them, times every fault."""
    found = []
    for change in [only] if only else CHANGES:
        once = change in ("generate", "renew", "revoke", "start", *keeping.CHANGES)
        for warm in (False,) if once else (False, True):
            place = os.path.join(folder, f"{change}-{warm}")
            shutil.copytree(template, place)
            violations, counted = suffer(Case(change, warm), place)
            if violations or not counted:
                raise AssertionError((change, violations))
            for kind in KINDS:
                for call, count in sorted(Counter(counted).items()):
                    if kind not in ("short", "half") or call.startswith("write "):
                        found += [Case(change, warm, kind, call, at + 1) for at in range(count)]
    return found


def sweep(
    folder: str, every: int, seed: int, only: str = "", kind: str = ""
) -> Iterator[tuple[Case, bool, list[str]]]:
    """Yield every n-th case, whether there was such a call this time, and the violations."""
    template = os.path.join(folder, "template")
    os.mkdir(template)
    prepare_folder(template)
    chosen = [case for case in list_cases(template, folder, only) if kind in ("", case.kind)]
    chance = random.Random(seed)
    for number, case in enumerate(chance.sample(chosen, len(chosen) // every)):
        place = os.path.join(folder, f"case-{number}")
        shutil.copytree(template, place)
        violations, counted = suffer(case, place)
        if not violations:
            shutil.rmtree(place)
        was_made = case.kind == "dies" and not counted
        yield case, was_made or counted.count(case.place) >= case.at, violations


def main() -> int:
    """Sweep; print one JSON object per violated case, then the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="try one case in so many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", choices=["", *CHANGES])
    parser.add_argument("--kind", default="", choices=["", *KINDS])
    parser.add_argument("--folder", default="", help="keep the files here")
    parser.add_argument("--plant", default="", choices=["", *plants.DISK], help="a bug to find")
    args = parser.parse_args()
    plants.build_in(args.plant)
    logging.disable()
    folder = args.folder or tempfile.mkdtemp(prefix="agentd-faults-")
    began = time.monotonic()
    tried = missed = bad = 0
    with open(os.path.join(folder, "log"), "w") as log, contextlib.redirect_stderr(log):
        for case, was_made, violations in sweep(
            folder, args.every, args.seed, args.only, args.kind
        ):
            tried += was_made
            missed += not was_made
            if violations:
                bad += 1
                print(json.dumps({**case._asdict(), "violations": violations[:3]}), flush=True)
    took = time.monotonic() - began
    print(
        f"{took:.0f} s: {tried} faults in {len(CALLS)} kinds of calls, {bad} violated a rule"
        f" ({missed} calls were not made again)"
    )
    return 1 if bad or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
