# ruff: noqa: S301, S311, T201
"""Every call to the disk of every endpoint that changes something fails once.

    python -m tests.crash.endpoint_sweep [--every 1] [--seed 1] [--only "POST /api/keys"]

The endpoints are those of the routes table, each with the call that ``endpoint_calls`` has for it.
What can be read through the API after a restart is compared with what a run without faults leaves:
after an error, or without an answer, all is as before or all as after the change; after a success,
all is as after it. Errors are JSON without a stack trace, and the daemon goes on with other work.
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
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

from agentd.app import daemon
from agentd.settings.model import Settings
from agentd.storage.layout import Layout
from tests.crash import endpoint_calls, keeping, plants
from tests.crash.callers import NoAnswer, Wire
from tests.crash.daemon_with_ledger import LedgerEngine, import_all
from tests.crash.endpoint_calls import CALLS, CHAT, EMPTY, OTHER, TRASHED, EndpointCall
from tests.crash.faults import Faults, real_write, wait_for_inspection
from tests.crash.keys import KEY_HASH, MANAGEMENT_HASH

KINDS = ("EIO", "ENOSPC", "dies")
READ = (
    *("/api/chats", "/api/chats/trash", "/api/chat-labels", "/api/schedules", "/api/keys"),
    *("/api/users", "/api/sessions", "/api/users/vera/sessions", "/api/bots", "/api/mcp-servers"),
    "/api/hooks",
    *("/api/models", "/api/skills-settings", "/api/autofix/status", "/api/files", "/api/me"),
    *("/api/me/push", "/api/agent/channels", "/api/agent/models", "/api/agent/keys"),
    *("/api/agent/management-keys", "/api/agent/budgets", "/api/agent/secret-rules?limit=200"),
    *("/api/agent/alert-targets", "/api/agent/settings", "/api/agent/changes", "/api/settings/all"),
    *(f"/api/remote/chats/{chat}/queue" for chat in (CHAT, TRASHED, EMPTY)),
    *(f"/api/remote/chats/{chat}/messages" for chat in (CHAT, TRASHED, EMPTY)),
    *(f"/api/chat/{chat}" for chat in (CHAT, TRASHED, EMPTY)),
)
"""The addresses whose answers are what was kept."""
LISTS_ITSELF = "/api/agent/changes"
"""The record of changes, which may be there or not beside a change that was not acknowledged."""
_USER = re.compile(r"name: '(\w+)'")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")

Kept: TypeAlias = dict[str, Any]
"""Every value that was read, by its address and its place in the answer."""


class Attempt(NamedTuple):
    """One call in a process of its own."""

    calls: list[str]
    """The disk calls that were made meanwhile, each with its place in the code."""
    status: int
    """0: there was no answer."""
    complaints: list[str]


class Case(NamedTuple):
    """A thing that goes wrong: the ``at``-th call of a place in the code."""

    route: str
    kind: str = ""
    place: str = ""
    at: int = 0


class Outcome(NamedTuple):
    """What became of a case."""

    case: Case
    was_made: bool
    """False if there was no such call this time, so that nothing went wrong."""
    violations: list[str]


def run_in_child(work: Callable[[], Any]) -> Any:
    """Return the result of work in a process of its own, which ends suddenly; None if it died."""
    incoming, outgoing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(incoming)
        sys.stderr = io.StringIO()
        logging.disable()
        keeping.call_no_push_services()

        def tell(result: Any) -> None:
            data = pickle.dumps(result)
            while data:
                data = data[real_write(outgoing, data) :]
            os._exit(0)

        try:
            tell(work())
        except BaseException as error:
            tell(AssertionError(f"{type(error).__name__}: {error}"))
    os.close(outgoing)
    with open(incoming, "rb") as pipe:
        data = pipe.read()
    os.waitpid(pid, 0)
    result = pickle.loads(data) if data else None
    if isinstance(result, AssertionError):
        raise result
    return result


def run_daemon(folder: str, use: Callable[[str], Any]) -> Any:
    """Start a daemon on this folder, and return what ``use`` of its address returns."""
    layout = Layout(os.path.join(folder, "state"), os.path.join(folder, "config"))
    workspace = os.path.join(folder, "workspace")
    os.makedirs(workspace, exist_ok=True)
    settings = Settings(
        port=0,
        agent_api_key=KEY_HASH,
        proxy_app_hash=MANAGEMENT_HASH,
        drain_seconds=0,
        workspace=workspace,
    )

    async def serve() -> Any:
        engine = LedgerEngine(os.path.join(folder, "ledger"))
        async with daemon.start_daemon(settings, layout, {}, engine) as running:
            await wait_for_inspection()
            return await asyncio.to_thread(use, running.url)

    return asyncio.run(serve())


def prepare_folder(folder: str) -> None:
    """Fill a folder with all that the calls change, for daemons that have everything imported."""
    import_all()
    os.makedirs(folder)
    endpoint_calls.settle(Layout(os.path.join(folder, "state"), os.path.join(folder, "config")))
    values = run_in_child(lambda: run_daemon(folder, endpoint_calls.fill))
    with open(os.path.join(folder, "values.json"), "w") as file:
        json.dump(values, file)


def attempt(case: Case, folder: str) -> Attempt:
    """Make the call of a case in a daemon on this folder, which then ends suddenly."""
    values = _read_values(folder)
    incoming, outgoing = os.pipe()

    def use(url: str) -> None:
        faults = Faults(case.kind, case.place, case.at)
        faults.install()
        status, complaints = _call(url, case.route, values, faults)
        calls, faults.armed = list(faults.calls), False
        # Also without a fault: meanwhile the daemon notes that a new key was delivered.
        complaints += _go_on(url)
        real_write(outgoing, pickle.dumps(Attempt(calls, status, complaints)))
        os._exit(0)

    run_in_child(lambda: run_daemon(folder, use))
    os.close(outgoing)
    with open(incoming, "rb") as pipe:
        told = pipe.read()
    return pickle.loads(told) if told else Attempt([], 0, [])


def _call(url: str, route: str, values: dict[str, str], faults: Faults) -> tuple[int, list[str]]:
    with contextlib.closing(Wire(url)) as wire:
        faults.armed = True
        try:
            status, body = endpoint_calls.call(wire, route.partition(" ")[0], CALLS[route], values)
        except NoAnswer:
            return 0, ["the connection was closed without an answer"]
    text = json.dumps(body)
    complaints = ["the answer has a stack trace"] if "Traceback" in text else []
    enveloped = isinstance(body, dict) and {"error", "message", "details"} <= set(body)
    if status >= 300 and not enveloped:
        complaints.append(f"the error {status} is not one of the API: {text[:200]}")
    if 300 <= status < 500 and faults.kind:
        complaints.append(f"a failing disk was answered with {status}: {text[:200]}")
    return status, complaints


def _go_on(url: str) -> list[str]:
    with contextlib.closing(Wire(url)) as wire:
        try:
            status, body, _ = wire.send("POST", f"/{OTHER}/queue", {"prompt": "go on"})
        except NoAnswer:
            return ["the daemon is gone"]
    return [] if status == 201 else [f"other work is answered with {status}: {body}"]


def read_kept(folder: str) -> Kept:
    """Return what a daemon that starts on this folder says."""
    values = _read_values(folder)

    def read(url: str) -> Kept:
        kept: Kept = {}
        with contextlib.closing(Wire(url)) as wire:
            for path in READ:
                status, body = endpoint_calls.call(wire, "GET", EndpointCall(path), values)
                if status == 401:  # the login was ended by the call
                    again = {**values, "token": values["other_token"]}
                    status, body = endpoint_calls.call(wire, "GET", EndpointCall(path), again)
                kept.update(_flatten(path, {"status": status, "body": body}))
        return kept

    kept: Kept = run_in_child(lambda: run_daemon(folder, read))
    settings = os.path.join(folder, "config", "agentd.yml")  # of it, this daemon takes nothing
    if os.path.exists(settings):
        with open(settings) as file:
            kept["agentd.yml"] = file.read()
    # Who changes the own password reads no list after that: all of the own logins have ended.
    with open(os.path.join(folder, "config", "users.yml")) as file:
        kept["users.yml"] = _USER.findall(file.read())
    return kept


def _flatten(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values of an answer; of rows with a name or an id, the place is that."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flatten(f"{place}/{key}", inner)
        if not value:
            yield place, {}
    elif isinstance(value, list):
        rows = [row for row in value if not _is_other(row)]
        names = [_get_name(row) for row in rows]
        yield f"{place}/order", names
        for number, row in enumerate(rows):
            yield from _flatten(f"{place}/{names[number] or number}", row)
    else:
        yield place, _TIME.sub("a time", value) if isinstance(value, str) else value


def _get_name(row: Any) -> str:
    if not isinstance(row, dict):
        return ""
    return str(next((row[key] for key in ("number", "name", "id", "chatId") if key in row), ""))


def _is_other(row: Any) -> bool:
    """Return whether a row is of the chat that goes on meanwhile."""
    return isinstance(row, dict) and row.get("id", row.get("chatId")) == OTHER and "title" in row


class Expectation:
    """What a route must leave: as before, or as after its change."""

    def __init__(self, before: Kept, after: Kept, *again: Kept) -> None:
        """``again`` are second runs of both, to see which values are never the same."""
        self.calls = Counter[str]()
        """How often each place in the code makes a call."""
        self._before, self._after = before, after
        pairs = zip((before, after), again, strict=True)
        self._unsteady = {
            place
            for one, other in pairs
            for place in one.keys() | other.keys()
            if one.get(place) != other.get(place)
        }

    @property
    def changes_something(self) -> bool:
        """True if the change can be seen."""
        return bool(list(self._find_differences(self._before, self._after, recorded=False)))

    def find_violations(self, status: int, found: Kept) -> Iterator[str]:
        """Yield what is not as it must be after an answer with this status; 0 is none."""
        acknowledged = 0 < status < 300
        from_after = list(self._find_differences(found, self._after, recorded=acknowledged))
        from_before = list(self._find_differences(found, self._before, recorded=False))
        if acknowledged:
            yield from (f"acknowledged, but {one}" for one in from_after[:3])
        elif from_after and from_before:
            yield f"neither as before: {from_before[:3]} nor as after: {from_after[:3]}"

    def _find_differences(self, one: Kept, other: Kept, *, recorded: bool) -> Iterator[str]:
        """Yield the differences; without ``recorded``, the record of changes is left out."""
        for place in sorted(one.keys() | other.keys()):
            if place in self._unsteady or (place.startswith(LISTS_ITSELF) and not recorded):
                continue
            if one.get(place) != other.get(place):
                yield f"{place} is {one.get(place)!r:.80}, expected {other.get(place)!r:.80}"


def _read_values(folder: str) -> dict[str, str]:
    with open(os.path.join(folder, "values.json")) as file:
        values: dict[str, str] = json.load(file)
    return values


def read_twice(template: str) -> tuple[Kept, Kept]:
    """Return what the template says, twice: some values are never the same."""
    found = []
    for run in (1, 2):
        place = f"{template}-{run}"
        shutil.copytree(template, place)
        found.append(read_kept(place))
        shutil.rmtree(place)
    return found[0], found[1]


def expect(template: str, before: tuple[Kept, Kept], folder: str, route: str) -> Expectation:
    """Return what a route must leave, as runs without faults show it."""
    found, calls = list[Kept](), Counter[str]()
    for run in (1, 2):
        place = os.path.join(folder, f"{run}")
        shutil.copytree(template, place)
        done = attempt(Case(route), place)
        if not 200 <= done.status < 300 or done.complaints:
            raise AssertionError(f"{route} is answered with {done.status}: {done.complaints}")
        calls |= Counter(done.calls)
        found.append(read_kept(place))
        shutil.rmtree(place)
    expected = Expectation(before[0], found[0], before[1], found[1])
    expected.calls = calls
    if not expected.changes_something:
        raise AssertionError(f"nothing that can be read shows what {route} changes")
    return expected


def suffer(case: Case, expected: Expectation, template: str, folder: str) -> Outcome:
    """Go through a case on a copy of the template."""
    shutil.copytree(template, folder)
    done = attempt(case, folder)
    died = case.kind == "dies" and not done.status
    violations = [] if died else done.complaints
    try:
        violations += expected.find_violations(done.status, read_kept(folder))
    except AssertionError as error:
        violations.append(f"it does not start: {error}")
    return Outcome(case, died or done.calls.count(case.place) >= case.at, violations)


def sweep(folder: str, every: int, seed: int, only: str = "", kind: str = "") -> Iterator[Outcome]:
    """Yield the outcome of every n-th case of each route, at least of one."""
    template = os.path.join(folder, "template")
    prepare_folder(template)
    before = read_twice(template)
    chance = random.Random(seed)
    number = 0
    routes = [route for route in CALLS if only in ("", route)]
    if every > len(routes) and not only:  # a sample of the routes, too
        routes = chance.sample(routes, max(1, len(routes) * 10 // every))
    for route in routes:
        place = os.path.join(folder, "expected")
        os.mkdir(place)
        expected = expect(template, before, place, route)
        shutil.rmtree(place)
        cases = [
            Case(route, one, code, at)
            for one in ([kind] if kind else KINDS)
            for code, count in sorted(expected.calls.items())
            for at in range(1, count + 1)
        ]
        for case in chance.sample(cases, max(1, len(cases) // every) if cases else 0):
            number += 1
            place = os.path.join(folder, f"case-{number}")
            outcome = suffer(case, expected, template, place)
            if not outcome.violations:
                shutil.rmtree(place)
            yield outcome


def main() -> int:
    """Sweep; print one JSON object per violated case, then the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="try one case in so many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", choices=["", *CALLS])
    parser.add_argument("--kind", default="", choices=["", *KINDS])
    parser.add_argument("--folder", default="", help="keep the files here")
    parser.add_argument("--plant", default="", choices=["", *plants.DISK], help="a bug to find")
    args = parser.parse_args()
    plants.build_in(args.plant)
    folder = args.folder or tempfile.mkdtemp(prefix="agentd-endpoints-")
    began = time.monotonic()
    tried, missed, bad, routes = 0, 0, 0, set[str]()
    for case, was_made, violations in sweep(folder, args.every, args.seed, args.only, args.kind):
        tried += was_made
        missed += not was_made
        routes.add(case.route)
        if violations:
            bad += 1
            print(json.dumps({**case._asdict(), "violations": violations[:3]}), flush=True)
    took = time.monotonic() - began
    print(
        f"{took:.0f} s: {tried} faults in {len(routes)} endpoints, {bad} violated a rule"
        f" ({missed} calls were not made again)"
    )
    return 1 if bad or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
