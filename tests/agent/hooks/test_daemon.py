"""Hooks of a whole daemon: a stop and a kill end them, and the history tells who blocked."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.served import ServedAgent, build_native
from tests.supplier.steps import Call, Say
from tests.supplier.supplier import Supplier
from tests.support.waiting import until


@pytest.fixture
def supplier() -> Iterator[Supplier]:
    with Supplier() as serving:
        yield serving


@pytest.fixture
def served(tmp_path: Path, supplier: Supplier) -> ServedAgent:
    return build_native(tmp_path, supplier.url, approvals="auto")


def configure(served: ServedAgent, command: str) -> None:
    group = {"hooks": [{"command": command}]}
    file = served.folder / "config" / "hooks.yml"
    file.write_text(json.dumps({"hooks": {"PreToolUse": [group]}}))


def test_no_hook_outlives_a_stop_or_a_killed_daemon(
    served: ServedAgent, supplier: Supplier
) -> None:
    configure(served, "setsid sleep 1000 & sleep 1000")
    supplier.script(*[Call("shell", {"command": "touch made"})] * 2)
    with served.running() as caller:
        chat = caller.create_chat("Do it.")
        until(lambda: len(served.marked) > 1)
        caller.stop(chat)
        until(lambda: not served.marked)
        assert not (served.workspace / "made").exists()
        caller.release(chat)
        caller.append(chat, "Again.")
        until(lambda: len(served.marked) > 1)
        before = served.marked
        served.process.end(signal.SIGKILL)
    with served.running() as caller:
        assert not set(before).intersection(served.marked)
        caller.wait_until_idle(chat)
        assert not (served.workspace / "made").exists()


def test_the_history_tells_which_hook_blocked_and_why(
    served: ServedAgent, supplier: Supplier
) -> None:
    configure(served, "echo Not today. >&2; exit 2")
    supplier.script(Call("shell", {"command": "touch made"}), Say("It was blocked."))
    with served.running() as caller:
        chat = caller.create_chat("Do it.")
        caller.wait_until_idle(chat)
        messages = caller.client.get(f"/api/chat/{chat}/messages")["messages"]
    told = [one["content"] for one in messages if "blocked: Not today." in one["content"]]
    assert len(told) == 1
    assert "(hooks.yml)" in told[0]
