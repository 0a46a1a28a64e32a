"""Nothing that a turn of a built-in engine started outlives the turn, whatever ends it.

The daemon is a process of its own; the commands leave their process group and their session.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.agent.served import Caller, Served
from tests.supplier.steps import Call, Say
from tests.supplier.supplier import Supplier
from tests.web.support import until

FLEES = "setsid sleep 611 > /dev/null 2>&1 & setsid sh -c 'sleep 612 & sleep 613' & sleep 614"
PROGRAMS = 5
"""The sleepers and the second shell; the first shell becomes no program of its own."""


@pytest.fixture
def supplier() -> Iterator[Supplier]:
    with Supplier() as serving:
        yield serving


@pytest.fixture
def served(tmp_path: Path, supplier: Supplier) -> Served:
    models = {
        "suppliers": {"acme": {"dialect": "openai-chat", "url": supplier.url}},
        "models": [
            {"name": "offline", "engine": "offline"},
            {"name": "native", "engine": "native", "supplier": "acme", "model": "scripted-large"},
        ],
    }
    return Served(tmp_path, models, approvals="auto", drain_seconds=0)


Begin = Callable[[Caller, str], int]


@pytest.fixture
def begin(served: Served, supplier: Supplier) -> Iterator[Begin]:
    """Begin a turn whose command has fled with all its children; none outlives the test."""

    def begun(caller: Caller, engine: str) -> int:
        supplier.script(Call("shell", {"command": FLEES}), Say("Done."))
        chat = caller.chat(f"/run {FLEES}", model=engine)
        until(lambda: len(served.marked) >= PROGRAMS)
        return chat

    with ExitStack() as stack:
        stack.callback(lambda: [os.kill(pid, signal.SIGKILL) for pid in served.marked])
        yield begun


@pytest.mark.parametrize("engine", ["native", "offline"])
def test_a_stopped_turn_leaves_nothing_running(served: Served, begin: Begin, engine: str) -> None:
    with served.running() as caller:
        caller.stop(begin(caller, engine))
        assert served.marked == []


@pytest.mark.parametrize("engine", ["native", "offline"])
def test_a_turn_that_ends_by_itself_leaves_nothing_running(
    served: Served, supplier: Supplier, engine: str
) -> None:
    fled = "setsid sh -c 'echo > fled; sleep 611' > /dev/null 2>&1 &"
    command = f"{fled} until test -s fled; do :; done; echo begun"
    with served.running() as caller:
        supplier.script(Call("shell", {"command": command}), Say("Done."))
        messages = caller.at_rest(caller.chat(f"/run {command}", model=engine))
        assert "begun" in str(messages)
        assert served.marked == []


def test_a_daemon_that_stops_leaves_nothing_running(served: Served, begin: Begin) -> None:
    with served.running() as caller:
        begin(caller, "native")
        begin(caller, "offline")
        assert served.process.end(signal.SIGTERM) == 0
        assert served.marked == []


def test_what_a_killed_daemon_left_running_ends_at_the_next_start(
    served: Served, begin: Begin
) -> None:
    with served.running() as caller:
        begin(caller, "native")
        served.process.end(signal.SIGKILL)
        assert served.marked
    with served.running():
        assert served.marked == []
