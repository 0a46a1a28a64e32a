"""Every process that a turn of a built-in engine started ends with the turn, whatever ends it.

The daemon is a process of its own; the commands leave their process group and their session.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.agent.served import Caller, ServedAgent
from tests.supplier.steps import Call, Say
from tests.supplier.supplier import Supplier
from tests.support.daemon import until

FLEES = "setsid sleep 611 > /dev/null 2>&1 & setsid sh -c 'sleep 612 & sleep 613' & sleep 614"
PROGRAMS = 5
"""The sleepers and the second shell; the first shell becomes no program of its own."""


@pytest.fixture
def supplier() -> Iterator[Supplier]:
    with Supplier() as serving:
        yield serving


@pytest.fixture
def served(tmp_path: Path, supplier: Supplier) -> ServedAgent:
    models = {
        "suppliers": {"acme": {"dialect": "openai-chat", "url": supplier.url}},
        "models": [
            {"name": "offline", "engine": "offline"},
            {"name": "native", "engine": "native", "supplier": "acme", "model": "scripted-large"},
        ],
    }
    return ServedAgent(tmp_path, models, approvals="auto", drain_seconds=0)


def find_sleeping(number: str) -> list[int]:
    """Return the living processes that sleep for so long."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if (entry / "cmdline").read_bytes() == f"sleep\0{number}\0".encode():
                found.append(int(entry.name))
    return found


Begin = Callable[[Caller, str], int]


@pytest.fixture
def begin(served: ServedAgent, supplier: Supplier) -> Iterator[Begin]:
    """Begin a turn whose command has fled with all its children; none outlives the test."""

    def begin_turn(caller: Caller, engine: str) -> int:
        supplier.script(Call("shell", {"command": FLEES}), Say("Done."))
        chat = caller.create_chat(f"/run {FLEES}", model=engine)
        until(lambda: len(served.marked) >= PROGRAMS)
        return chat

    with ExitStack() as stack:
        stack.callback(lambda: [os.kill(pid, signal.SIGKILL) for pid in served.marked])
        yield begin_turn


@pytest.mark.parametrize("engine", ["native", "offline"])
def test_a_stopped_turn_leaves_nothing_running(
    served: ServedAgent, begin: Begin, engine: str
) -> None:
    with served.running() as caller:
        caller.stop(begin(caller, engine))
        assert served.marked == []


@pytest.mark.parametrize("engine", ["native", "offline"])
def test_a_stopped_turn_takes_what_wiped_its_environment_with_it_and_leaves_other_chats_theirs(
    served: ServedAgent, supplier: Supplier, engine: str
) -> None:
    """Such a program has no trace of its owner: no variable, group, session or parent."""
    numbers = [f"{seconds}.{os.getpid()}" for seconds in (7001, 7002)]
    with served.running() as caller, ExitStack() as stack:
        stack.callback(lambda: [os.kill(pid, 9) for one in numbers for pid in find_sleeping(one)])
        chats = []
        for number in numbers:
            command = f"env -i setsid sleep {number} > /dev/null 2>&1 & sleep 7003"
            supplier.script(Call("shell", {"command": command}))
            chats.append(caller.create_chat(f"/run {command}", model=engine))
            until(lambda number=number: find_sleeping(number))
        caller.stop(chats[0])
        assert [len(find_sleeping(one)) for one in numbers] == [0, 1]
        caller.stop(chats[1])
        assert not find_sleeping(numbers[1])


@pytest.mark.parametrize("engine", ["native", "offline"])
def test_a_turn_that_ends_by_itself_leaves_nothing_running(
    served: ServedAgent, supplier: Supplier, engine: str
) -> None:
    fled = "setsid sh -c 'echo > fled; sleep 611' > /dev/null 2>&1 &"
    command = f"{fled} until test -s fled; do :; done; echo begun"
    with served.running() as caller:
        supplier.script(Call("shell", {"command": command}), Say("Done."))
        messages = caller.wait_until_idle(caller.create_chat(f"/run {command}", model=engine))
        assert "begun" in str(messages)
        assert served.marked == []


def test_a_daemon_that_stops_leaves_nothing_running(served: ServedAgent, begin: Begin) -> None:
    with served.running() as caller:
        begin(caller, "native")
        begin(caller, "offline")
        assert served.process.end(signal.SIGTERM) == 0
        assert served.marked == []


def test_what_a_killed_daemon_left_running_ends_at_the_next_start(
    served: ServedAgent, begin: Begin
) -> None:
    with served.running() as caller:
        begin(caller, "native")
        served.process.end(signal.SIGKILL)
        assert served.marked
    with served.running():
        assert served.marked == []
