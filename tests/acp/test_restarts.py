"""``kill -9`` of a real daemon in the middle of an editor's prompt, and its restart."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agentd.app.state import DaemonInfo, read_daemon_info
from agentd.cli.client import Client, find_daemon_url
from agentd.storage.layout import Layout
from tests.acp.conftest import Start
from tests.supplier.steps import Answer, Say, Stall
from tests.supplier.supplier import Supplier
from tests.support.daemon import HASH, KEY, PATIENCE, until

SETTINGS = """\
port: 0
agent_api_key: {hash}
workspace: {folder}
on_interrupted: {after}
drain_seconds: 0
"""
MODELS = """\
default: scripted
suppliers:
  here: {{dialect: openai-chat, url: "{url}"}}
models:
  - {{name: scripted, engine: native, model: scripted-large, supplier: here}}
"""


class DaemonProgram:
    """``agentd serve`` over one folder, again and again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._layout = Layout(str(folder / "state"), str(folder / "config"))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it has announced itself."""
        self._process = process = subprocess.Popen(
            [
                *(sys.executable, "-m", "agentd", "serve"),
                *("--state", self._layout.state, "--config", self._layout.config),
            ],
            cwd=self._folder,
            env={name: value for name, value in os.environ.items() if name != "AGENTD_KEY"},
            stderr=subprocess.DEVNULL,
        )

        def find() -> DaemonInfo | None:
            found = read_daemon_info(self._layout)
            return found if found and found.pid == process.pid else None

        until(find, PATIENCE)

    def list_queue(self, session: str) -> list[str]:
        """Return the prompts that wait."""
        with Client(find_daemon_url(self._layout), KEY) as client:
            found = client.request("GET", f"/api/remote/chats/{session}/queue")["prompts"]
        return [one["prompt"] for one in found]

    def is_idle(self, session: str) -> bool:
        """Return whether nothing waits or is worked on."""
        with Client(find_daemon_url(self._layout), KEY) as client:
            return bool(client.get_status(int(session), 0)["status"] == "completed")

    def kill(self) -> None:
        """Kill it as the system would."""
        if self._process:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(PATIENCE)
            self._process = None


@pytest.fixture
def supplier() -> Iterator[Supplier]:
    """A supplier with an empty script."""
    with Supplier() as running:
        yield running


@pytest.mark.parametrize("after", ["retry", "stop"])
def test_a_prompt_survives_the_death_of_the_daemon_and_nothing_comes_twice(
    supplier: Supplier, start: Start, tmp_path: Path, after: str
) -> None:
    config = tmp_path / "config"
    config.mkdir()
    (config / "agentd.yml").write_text(SETTINGS.format(hash=HASH, folder=tmp_path, after=after))
    (config / "models.yml").write_text(MODELS.format(url=supplier.url))
    stall = Stall(3)
    supplier.script(Answer([Say("One two three four five")], faults=(stall,)))
    supplier.script(Say("One two three four five"))
    with ExitStack() as stack:
        daemon = DaemonProgram(tmp_path)
        stack.callback(daemon.kill)
        daemon.start()
        editor = start()
        editor.begin()
        session = editor.open()
        asked = editor.ask(session, "Count")
        stall.reached.result(PATIENCE)
        editor.read_until(lambda: editor.reply)
        seen = editor.reply
        assert "One two three four five".startswith(seen)
        daemon.kill()
        assert "agentd serve" in editor.refuse("session/list")["message"]
        daemon.start()
        answer = editor.read_answer(asked)
        if after == "retry":
            assert answer["result"] == {"stopReason": "end_turn"}
            assert editor.reply == "One two three four five"
        else:
            assert "error" in answer
            assert editor.reply == seen
        supplier.forget()
        supplier.script(Say("Six"))
        again = editor.ask(session, "And then?")
        assert editor.read_answer(again)["result"] == {"stopReason": "end_turn"}
        assert editor.reply.endswith("Six")
        assert not editor.list_updates("user_message_chunk")


def test_what_is_cancelled_without_a_daemon_is_answered_and_not_worked_on_later(
    supplier: Supplier, start: Start, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.mkdir()
    (config / "agentd.yml").write_text(SETTINGS.format(hash=HASH, folder=tmp_path, after="stop"))
    (config / "models.yml").write_text(MODELS.format(url=supplier.url))
    stall = Stall(3)
    supplier.script(Answer([Say("One two three four five")], faults=(stall,)))
    with ExitStack() as stack:
        daemon = DaemonProgram(tmp_path)
        stack.callback(daemon.kill)
        daemon.start()
        editor = start()
        editor.begin()
        session = editor.open()
        running = editor.ask(session, "Count")
        stall.reached.result(PATIENCE)
        waiting = editor.ask(session, "Count again")
        until(lambda: daemon.list_queue(session), PATIENCE)
        daemon.kill()
        supplier.forget()
        supplier.script(Answer([Say("Never")], faults=(Stall(1),)))
        editor.notify("session/cancel", sessionId=session)
        for number in (running, waiting):
            assert editor.read_answer(number)["result"] == {"stopReason": "cancelled"}
        daemon.start()
        until(lambda: daemon.is_idle(session), PATIENCE)
        supplier.forget()
        supplier.script(Say("Six"))
        again = editor.ask(session, "And then?")
        assert editor.read_answer(again)["result"] == {"stopReason": "end_turn"}
        assert editor.reply.endswith("Six")
        assert "Never" not in editor.reply
