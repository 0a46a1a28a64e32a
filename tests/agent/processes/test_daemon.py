"""Processes in the background of a real daemon's chats: kept, listed, stopped, ended with all."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.agent.served import Caller, ServedAgent
from tests.supplier.steps import Call, Say
from tests.supplier.supplier import Supplier
from tests.support.daemon import until

FLEES = "echo begun; setsid sleep 611 > /dev/null 2>&1 & sleep 612"
PROGRAMS = 3
"""The shell and both sleepers."""


@pytest.fixture
def supplier() -> Iterator[Supplier]:
    with Supplier() as serving:
        yield serving


@pytest.fixture
def served(tmp_path: Path, supplier: Supplier) -> Iterator[ServedAgent]:
    models = {
        "suppliers": {"acme": {"dialect": "openai-chat", "url": supplier.url}},
        "models": [
            {"name": "native", "engine": "native", "supplier": "acme", "model": "scripted-large"}
        ],
    }
    served = ServedAgent(tmp_path, models, approvals="auto", drain_seconds=0)
    yield served
    for pid in served.marked:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def begin(caller: Caller, supplier: Supplier, command: str = FLEES, *, keep: bool = True) -> int:
    """Return a chat whose first turn started a process; ``keep``: the chat keeps it."""
    supplier.script(Call("start_process", {"command": command}), Say("It runs."))
    chat = caller.client.create_chat(model="native")
    if keep:
        reply = caller.client.put(f"/api/chat/{chat}/settings", {"keepProcesses": True})
        assert (reply.status, reply["keepProcesses"]) == (200, True)
    caller.append(chat, "Start it.")
    assert caller.wait_until_idle(chat)[-1]["content"] == "It runs."
    return chat


def list_processes(caller: Caller, chat: int, chats: str = "/api/chats") -> list[dict[str, Any]]:
    """Return the processes of a chat."""
    found: list[dict[str, Any]] = caller.client.get(f"{chats}/{chat}/processes")["processes"]
    return found


def test_a_kept_process_goes_on_after_the_turn_and_is_stopped_with_all_it_started(
    served: ServedAgent, supplier: Supplier
) -> None:
    with served.running() as caller:
        chat = begin(caller, supplier)
        until(lambda: len(served.marked) == PROGRAMS)
        (one,) = list_processes(caller, chat)
        assert (one["id"], one["command"], one["running"]) == (1, FLEES, True)
        assert (one["exitCode"], one["endedAt"], one["output"]) == (None, None, "begun\n")
        assert list_processes(caller, chat, "/api/remote/chats") == [one]
        path = f"/api/remote/chats/{chat}/processes"
        reply = caller.client.post(f"{path}/1/stop", {})
        assert (reply.status, reply["running"], reply["exitCode"]) == (200, False, -9)
        assert served.marked == []
        assert caller.client.post(f"{path}/2/stop", {}).status == 404
        assert caller.client.get("/api/chats/99/processes").status == 404


def test_the_next_turn_s_model_is_told_what_runs_and_what_ended(
    served: ServedAgent, supplier: Supplier
) -> None:
    with served.running() as caller:
        chat = begin(caller, supplier)
        supplier.script(Call("read_process", {"id": 1}), Say("It still runs."))
        caller.append(chat, "And now?")
        caller.wait_until_idle(chat)
        told, read = (json.dumps(request.turns) for request in supplier.requests[-2:])
        assert "it goes on after this turn" in told
        assert f"1: {FLEES} (running since" in told
        assert "process 1 running" in read
        caller.client.post(f"/api/chats/{chat}/processes/1/stop", {})
        for prompt in ("And now?", "And then?"):
            supplier.script(Say("I know."))
            caller.append(chat, prompt)
            caller.wait_until_idle(chat)
        told = json.dumps(supplier.requests[-1].turns)
        assert told.count("ended with exit code -9") == 1, "an end is told once"


def test_without_the_setting_a_process_ends_with_its_turn(
    served: ServedAgent, supplier: Supplier
) -> None:
    with served.running() as caller:
        chat = begin(caller, supplier, keep=False)
        assert served.marked == []
        assert list_processes(caller, chat) == []


def test_a_chat_that_keeps_them_no_longer_or_is_deleted_ends_them(
    served: ServedAgent, supplier: Supplier
) -> None:
    with served.running() as caller:
        chats = [begin(caller, supplier) for _ in range(2)]
        until(lambda: len(served.marked) == 2 * PROGRAMS)
        caller.client.put(f"/api/chat/{chats[0]}/settings", {"keepProcesses": False})
        until(lambda: len(served.marked) == PROGRAMS)
        assert list_processes(caller, chats[0]) == []
        assert caller.client.delete(f"/api/chats/{chats[1]}").status == 200
        until(lambda: served.marked == [])


def test_a_stopped_turn_leaves_what_the_chat_keeps(served: ServedAgent, supplier: Supplier) -> None:
    with served.running() as caller:
        chat = begin(caller, supplier)
        supplier.script(Call("shell", {"command": "sleep 613"}), Say("Never."))
        caller.append(chat, "Wait.")
        until(lambda: len(served.marked) > PROGRAMS)
        caller.stop(chat)
        until(lambda: len(served.marked) == PROGRAMS)
        assert list_processes(caller, chat)[0]["running"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_none_outlives_the_daemon(
    served: ServedAgent, supplier: Supplier, number: signal.Signals
) -> None:
    with served.running() as caller:
        chat = begin(caller, supplier)
        until(lambda: len(served.marked) == PROGRAMS)
        served.process.child.send_signal(number)
        served.process.child.wait()
        if number == signal.SIGTERM:
            assert served.marked == []
    with served.running() as caller:
        until(lambda: served.marked == [])
        assert list_processes(caller, chat) == []
        assert caller.client.get(f"/api/chat/{chat}")["settings"]["keepProcesses"] is True
