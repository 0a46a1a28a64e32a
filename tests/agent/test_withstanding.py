"""Whatever an engine, a supplier or the workspace does, a chat ends clearly and nothing leaks.

The daemon is a process of its own; its engines are programs that misbehave (``hostile``).
"""

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.agent.hostile import WORDS
from tests.agent.served import Caller, ServedAgent
from tests.supplier.steps import Answer, Break, Garble, Refuse, Say, Stall, Step
from tests.supplier.supplier import Supplier
from tests.support.daemon import until

SILENCE, TURN = 60.0, 60.0
"""Seconds of silence, of which a busy machine makes some, and of a turn of the native engine."""

LEAST = 1.0
"""The least of both that can be set."""

HASTY = """
import sys
from functools import partial
from agentd.cli.main import main
from agentd.app import engines
from agentd.system.dialogue import Graces

graces = Graces(exit=0.3, terminate=0.3)
engines.TurnTimeouts = partial(engines.TurnTimeouts, stop=0.5, graces=graces)
sys.exit(main(sys.argv[1:]))
"""
"""The command itself, with programs that have less time to end by themselves."""

DEAD = f"acp ended in the middle of the turn with exit code 3. Its last words:\n\n{WORDS}"
SILENT = r"acp said nothing for [\d,]+ seconds, so it was ended\."

ENGINES = {
    "garbage": re.escape(DEAD),
    "long_lines": re.escape(DEAD),
    "half_a_line": re.escape(DEAD),
    "leaves_a_child": re.escape(DEAD),
    "killed": r"acp was ended in the middle of the turn by SIGKILL\.",
    "hangs": SILENT,
    "ignores_sigterm": SILENT,
    "floods_errors": SILENT,
    "floods": r"acp keeps writing meaningless output, so it was ended\.",
    "floods_with_words": r"The engine wrote a reply of more than 1,000,000 characters, .*",
}
"""The act of each hostile program (a function of ``hostile``), and the chat's error message."""

SUPPLIERS: dict[str, tuple[Step, str]] = {
    "refuses the key": (
        Refuse(401, "Bad key"),
        r"acme requires a key, but none is set: Bad key .*",
    ),
    "refuses the request": (Refuse(400, "Nonsense"), r"acme could not answer: Nonsense.*"),
    "is silent": (Answer((Say("Never"),), faults=(Stall(),)), r".* \d+ seconds.*"),
    "stalls": (Answer((Say("Half of it"),), faults=(Stall(after=3),)), r".* \d+ seconds.*"),
    "breaks off": (
        Answer((Say("Half of it"),), faults=(Break(after=3),)),
        r".* closed the connection .*",
    ),
    "sends nonsense": (
        Answer((Say("Half of it"),), faults=(Garble(after=3),)),
        r".*incomplete or invalid.*",
    ),
}
"""The repeated act of a supplier, and the chat's error message."""

MORE_MEMORY = 16.0
"""MiB that the daemon may have more after many such turns."""


@pytest.fixture(scope="module")
def supplier() -> Iterator[Supplier]:
    with Supplier() as serving:
        yield serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, supplier: Supplier) -> ServedAgent:
    command = [sys.executable, "-S", str(Path(__file__).with_name("hostile.py"))]
    models = {
        "suppliers": {"acme": {"dialect": "openai-chat", "url": supplier.url}},
        "models": [
            *(
                {"name": how, "engine": "acp", "command": [*command, how]}
                for how in (*ENGINES, "good")
            ),
            {"name": "absent", "engine": "acp", "command": ["/no/such/program"]},
            {"name": "native", "engine": "native", "supplier": "acme", "model": "scripted-large"},
        ],
    }
    folder = tmp_path_factory.mktemp("served")
    return ServedAgent(folder, models, silence_seconds=SILENCE, turn_seconds=TURN)


@pytest.fixture(scope="module")
def caller(served: ServedAgent) -> Iterator[Caller]:
    """Yield a caller of a daemon that has carried out every kind of turn once."""
    with served.running(program=HASTY) as caller:
        caller.wait_until_idle(caller.create_chat("Say hello.", model="good"))
        yield caller


class Footprint:
    """The resources that the daemon's process has while no turn runs, to be compared later."""

    def __init__(self, served: ServedAgent) -> None:
        self._process = Path(f"/proc/{served.process.child.pid}")
        until(lambda: not self.list_children())
        self.descriptors = self._list_descriptors()

    def _list_descriptors(self) -> list[str]:
        """Return the descriptors that a turn could leave: pipes and processes, not files.

        The daemon hides itself: only root sees any.
        """
        found: list[str] = []
        if os.geteuid():
            return found
        for entry in (self._process / "fd").iterdir():
            try:
                to = os.readlink(entry)
            except FileNotFoundError:
                continue
            if to.startswith(("pipe:", "anon_inode:[pidfd]")):
                found.append(to)
        return sorted(found)

    def list_children(self) -> str:
        """Return the processes that are its children, zombies too."""
        return (self._process / f"task/{self._process.name}/children").read_text()

    def measure_memory(self) -> float:
        """Return the memory in MiB."""
        pages = int((self._process / "statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def measure_processor(self) -> float:
        """Return the seconds of processor time that it has used."""
        result = (self._process / "stat").read_text().rpartition(")")[2].split()
        return (int(result[11]) + int(result[12])) / os.sysconf("SC_CLK_TCK")

    def as_before(self) -> bool:
        """Return whether nothing is left of a turn; descriptors of before may be closed."""
        return not self.list_children() and set(self._list_descriptors()) <= set(self.descriptors)


@contextmanager
def least_patience(caller: Caller) -> Iterator[None]:
    """A turn that begins meanwhile may be silent, and at work, for the shortest time there is."""
    set_patience(caller, LEAST, LEAST)
    yield
    set_patience(caller, SILENCE, TURN)


def set_patience(caller: Caller, silence: float, turn: float) -> None:
    """Set the time limits, in seconds, of the turns that begin from now on."""
    result = {"silence_seconds": silence, "turn_seconds": turn}
    assert caller.client.post("/api/settings/set", result).status == 200


def begin(caller: Caller, model: str, begun: Callable[[], object]) -> int:
    """Create a chat with a prompt, and wait until it runs or has run."""
    chat = caller.create_chat("Go.", model=model)
    until(lambda: begun() or caller.client.status(chat)["status"] == "completed")
    return chat


def assert_ends_with(
    caller: Caller,
    served: ServedAgent,
    model: str,
    reason: str,
    begun: Callable[[], object] | None = None,
) -> list[dict[str, Any]]:
    """Assert that a turn ends in this error, the next prompt is carried out, and nothing is left.

    ``begun`` tells whether the turn has: it has not much time then, but the next one has.
    """
    before = Footprint(served)
    if begun:
        with least_patience(caller):
            chat = begin(caller, model, begun)
    else:
        chat = caller.create_chat("Go.", model=model)
    caller.append(chat, "And now?", model="good")
    messages = caller.wait_until_idle(chat)
    said = [(one["role"], one["content"]) for one in messages]
    [error] = [text for role, text in said if role == "error"]
    assert re.fullmatch(reason, error, re.DOTALL), error
    assert said[-2:] == [("user", "And now?"), ("assistant", "Here I am.")]
    until(before.as_before)
    assert served.marked == []
    assert "Traceback" not in served.process.log
    return messages


@pytest.mark.parametrize("how", ENGINES)
def test_a_hostile_engine_ends_in_a_clear_error(
    how: str, caller: Caller, served: ServedAgent
) -> None:
    waits = ENGINES[how] == SILENT
    begun = (lambda: served.marked) if waits else None
    messages = assert_ends_with(caller, served, how, ENGINES[how], begun)
    if how == "half_a_line":
        assert messages[1]["content"] == "I begin", "what was said before is kept"


def test_a_program_that_does_not_exist_is_reported(caller: Caller, served: ServedAgent) -> None:
    assert_ends_with(caller, served, "absent", r"The program /no/such/program is not installed.*")


@pytest.mark.parametrize("how", SUPPLIERS)
def test_a_hostile_supplier_ends_in_a_clear_error(
    how: str, caller: Caller, served: ServedAgent, supplier: Supplier
) -> None:
    step, reason = SUPPLIERS[how]
    supplier.script(*[step] * 20)
    waits = how in ("is silent", "stalls")
    begun = (lambda: supplier.left < 20) if waits else None
    try:
        assert_ends_with(caller, served, "native", reason, begun)
    finally:
        supplier.forget()


def test_a_workspace_that_vanishes_is_reported(caller: Caller, served: ServedAgent) -> None:
    """Before a turn, and in the middle of one."""
    away = served.folder / "away"
    gone = re.escape(f"The workspace {served.workspace} is not there any more")
    served.workspace.rename(away)
    chat = caller.create_chat("Go.", model="good")
    [_, error] = caller.wait_until_idle(chat)
    assert re.match(gone, error["content"])
    away.rename(served.workspace)
    caller.append(chat, "And now?")
    assert caller.wait_until_idle(chat)[-1]["content"] == "Here I am."

    with least_patience(caller):
        chat = begin(caller, "hangs", lambda: served.marked)
        served.workspace.rename(away)
    error = caller.wait_until_idle(chat)[-1]
    away.rename(served.workspace)
    assert error["role"] == "error"
    until(lambda: not served.marked)


def test_what_heeds_nothing_can_be_stopped(caller: Caller, served: ServedAgent) -> None:
    before = Footprint(served)
    chat = caller.create_chat("Go.", model="ignores_sigterm")
    until(lambda: len(served.marked) == 2)
    caller.stop(chat)
    assert served.marked == []
    until(before.as_before)
    assert caller.look(chat)["held"] == "The turn was stopped by a person."


def test_a_flood_holds_nobody_up(caller: Caller, served: ServedAgent) -> None:
    footprint = Footprint(served)
    waits: list[float] = []
    while len(waits) < 4:
        chat = caller.create_chat("Go.", model="floods")
        while caller.client.status(chat, 0.01)["status"] != "completed":
            began = footprint.measure_processor()
            caller.client.status(chat)
            waits.append(footprint.measure_processor() - began)
    assert max(waits) < 1, "a chunk of it is looked at in some hundredths of a second"


def test_many_such_turns_leave_no_memory(caller: Caller, served: ServedAgent) -> None:
    footprint = Footprint(served)

    def measure_memory_after_all() -> float:
        quick = [how for how in ENGINES if ENGINES[how] != SILENT and how != "floods_with_words"]
        for chat in [caller.create_chat("Go.", model=how) for how in 2 * quick]:
            caller.wait_until_idle(chat)
        return footprint.measure_memory()

    first = measure_memory_after_all()
    assert measure_memory_after_all() - first < MORE_MEMORY
    until(footprint.as_before)
