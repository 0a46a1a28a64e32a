"""The daemon as a process: how it starts, says that it is ready, stops, and dies."""

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest

from agentd.storage.layout import Layout
from tests.support.daemon import HASH, KEY, PATIENCE, Client, Serving, until
from tests.support.paths import REPOSITORY

HELD = """
import sys
from agentd.app import engines
from agentd.cli.main import main
from tests.support.daemon import Engine

engine = Engine()
engine.hold()
engines.OfflineEngine = lambda *_: engine
sys.exit(main(sys.argv[1:]))
"""
"""The command itself, with an engine whose turns never end."""

WARY = """
import sys
from agentd.cli.main import main
from agentd.app import background

background.LOCK_SECONDS = 0.05
sys.exit(main(sys.argv[1:]))
"""
"""The command itself, looking at its lock more often."""


IN_A_TERMINAL = """
import signal
import sys
from agentd.cli.main import main

signal.signal(signal.SIGHUP, signal.SIG_DFL)
sys.exit(main(sys.argv[1:]))
"""
"""The command itself, as a terminal starts it: the tests may run under nohup."""

UNDER_NOHUP = """
import signal
import sys
from agentd.cli.main import main

signal.signal(signal.SIGHUP, signal.SIG_IGN)
sys.exit(main(sys.argv[1:]))
"""
"""The command itself, as nohup starts it."""


class Process:
    """``agentd serve`` over one folder."""

    def __init__(self, folder: Path, *options: str, program: str = "", **environ: str) -> None:
        self.layout = Layout(str(folder / "state"), str(folder / "config"))
        self._log = folder / f"log-{time.monotonic_ns()}"
        python = ["-c", program] if program else ["-m", "agentd"]
        places = ["--state", self.layout.state, "--config", self.layout.config]
        with self._log.open("wb") as log:
            self.child = subprocess.Popen(
                [sys.executable, *python, "serve", *places, "--port", "0", *options],
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(folder),
                    "PYTHONPATH": str(REPOSITORY),
                    "AGENT_API_KEY": HASH,
                    **environ,
                },
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def log(self) -> str:
        """All that it wrote."""
        return self._log.read_text()

    def announced(self) -> dict[str, Any]:
        """Return the content of ``daemon.json``; empty before it exists."""
        try:
            found: dict[str, Any] = json.loads(Path(self.layout.daemon).read_text())
        except FileNotFoundError:
            return {}
        return found if found["pid"] == self.child.pid else {}

    def up(self) -> "Process":
        """Return once it has announced itself."""
        until(lambda: self.announced() or self.child.poll() is not None)
        assert self.child.poll() is None, self.log
        return self

    def client(self) -> Client:
        """Return a client for a few requests."""
        return Client(self.announced()["url"])

    def end(self, number: int) -> int:
        """Send a signal; the exit code."""
        self.child.send_signal(number)
        return self.child.wait(PATIENCE)


Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start daemons; none outlives the test."""
    with ExitStack() as stack:

        def started(*options: str, **more: str) -> Process:
            process = Process(tmp_path, *options, **more)
            stack.callback(process.child.wait, PATIENCE)
            stack.callback(process.child.kill)
            return process

        yield started


def test_the_folder_that_a_unit_names_is_made_and_worked_in(start: Start, tmp_path: Path) -> None:
    process = start(AGENTD_DEFAULT_WORKSPACE=str(tmp_path / "made")).up()
    (tmp_path / "made" / "a.txt").write_text("kettle\n")
    with closing(process.client()) as client:
        number = client.create_chat(prompt="read a.txt")
        until(lambda: client.status(number, 10)["status"] == "completed")
        assert "kettle" in client.messages(number)[-1]["content"]


def test_a_check_tells_the_folder_of_the_running_daemon(start: Start, tmp_path: Path) -> None:
    """A shell does not have what a unit names, and is mostly in the home folder."""
    process = start(AGENTD_DEFAULT_WORKSPACE=str(tmp_path / "made")).up()
    shell = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    places = ["--state", process.layout.state, "--config", process.layout.config]
    check = [sys.executable, "-m", "agentd", "check", *places]

    def run_check() -> str:
        done = subprocess.run(
            check, cwd=tmp_path, env=shell, capture_output=True, text=True, check=True
        )
        return done.stderr

    told = run_check()
    assert f"the running daemon's workspace is {tmp_path / 'made'}\n" in told
    assert "whole home" not in told
    assert process.end(signal.SIGKILL) == -signal.SIGKILL  # daemon.json stays
    assert "whole home" in run_check()


@pytest.mark.parametrize("workspace", ["/", "state"])
def test_a_folder_that_no_agent_may_work_in_is_refused_at_the_start(
    start: Start, workspace: str
) -> None:
    process = start("--workspace", workspace)
    assert process.child.wait(PATIENCE) == 1
    assert "agentd: --workspace: the workspace " in process.log


@pytest.fixture
def manager() -> Iterator[socket.socket]:
    """A service manager that listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0agentd-test-{os.getpid()}-{os.urandom(8).hex()}")
        listener.settimeout(PATIENCE)
        yield listener


def get_notify_address(manager: socket.socket) -> str:
    """Return the address of the socket in the form of ``NOTIFY_SOCKET``."""
    return "@" + manager.getsockname()[1:].decode()


def send_request(client: Client, method: str, path: str, body: Any = None) -> Any:
    """Return the JSON of an answer, on a connection of its own."""
    try:
        reply = client.send(method, path, body)
        assert reply.status < 300, reply.body
        return reply.json()
    finally:
        client.close()


def is_healthy(process: Process) -> bool:
    """Return whether the daemon answers at the first try."""
    return bool(send_request(process.client(), "GET", "/healthz") == {"status": "ok"})


# Starting.


def test_it_shows_where_it_listens_and_answers_there(start: Start) -> None:
    process = start().up()
    announced = process.announced()
    assert announced["pid"] == process.child.pid
    assert announced["url"].startswith("http://127.0.0.1:")
    assert not announced["url"].endswith(":0")
    assert is_healthy(process)
    until(lambda: f"on {announced['url']}" in process.log)


def test_what_it_keeps_is_its_owners_alone(start: Start) -> None:
    process = start().up()
    send_request(process.client(), "POST", "/api/remote/chats", {"prompt": "help"})
    for path in [Path(process.layout.state), *Path(process.layout.state).rglob("*")]:
        with suppress(FileNotFoundError):  # one that was being written has its name by now
            mode = path.stat().st_mode
            assert stat.S_IMODE(mode) == (0o700 if stat.S_ISDIR(mode) else 0o600), path


def test_a_prompt_is_answered_without_any_configuration(start: Start) -> None:
    """Specification 1: read its answers without a browser."""
    client = start().up().client()
    chat = client.create_chat(prompt="help")
    messages = client.messages(chat)
    client.close()
    assert [message["role"] for message in messages][:1] == ["user"]
    assert messages[-1]["role"] == "assistant"


def test_it_says_ready_once_requests_are_answered(start: Start, manager: socket.socket) -> None:
    process = start(NOTIFY_SOCKET=get_notify_address(manager))
    message = manager.recv(4096).decode()
    assert message.startswith("READY=1\nSTATUS=Serving ")
    assert is_healthy(process), "the first request after READY=1"


def test_it_gives_signs_of_life(start: Start, manager: socket.socket) -> None:
    start(NOTIFY_SOCKET=get_notify_address(manager), WATCHDOG_USEC="100000")
    heard = [manager.recv(4096) for _ in range(5)]
    assert heard.count(b"WATCHDOG=1") >= 3


@pytest.mark.parametrize("bad", [HASH.upper(), KEY, HASH + "0", "x", HASH[:-1] + "g"])
def test_a_hash_that_can_never_match_is_refused_at_the_start_and_not_repeated(
    start: Start, bad: str
) -> None:
    """Specification 5.3: AGENT_API_KEY holds the SHA-256 in lowercase hexadecimal."""
    process = start(AGENT_API_KEY=bad)
    assert process.child.wait(PATIENCE) not in (0, None)
    assert "AGENT_API_KEY" in process.log
    assert len(bad) < 10 or bad not in process.log
    assert "Traceback" not in process.log


def test_a_second_daemon_is_refused_and_reported_who_is_there(start: Start) -> None:
    first = start().up()
    second = start()
    assert second.child.wait(PATIENCE) not in (0, None)
    for word in (str(first.child.pid), first.announced()["url"], "--state"):
        assert word in second.log
    assert "Traceback" not in second.log
    assert is_healthy(first)


def test_a_port_in_use_is_a_clear_error_and_leaves_nothing_locked(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = start("--port", port)
        assert refused.child.wait(PATIENCE) not in (0, None)
    assert f"127.0.0.1:{port}" in refused.log
    assert "--port" in refused.log
    assert "Traceback" not in refused.log
    assert is_healthy(start().up())


def test_the_service_manager_is_told_why_a_start_failed(
    start: Start, manager: socket.socket, tmp_path: Path
) -> None:
    """Once a unit has failed too often, systemd shows no line of the journal beside it."""
    (tmp_path / "config").mkdir()
    settings = tmp_path / "config" / "agentd.yml"
    settings.write_text("prot: 1\nhots: a\n")
    refused = start(NOTIFY_SOCKET=get_notify_address(manager))
    assert refused.child.wait(PATIENCE) == 1
    what = f'{settings}:1: "prot" is not known here; did you mean "port"? (and 1 more)'
    assert manager.recv(4096).decode() == f"STATUS=Failed: {what}"
    settings.unlink()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        start("--port", port, NOTIFY_SOCKET=get_notify_address(manager))
        told = manager.recv(4096).decode()
    assert told.startswith("STATUS=Failed: ") and port in told


# Stopping.


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_in_order(
    start: Start, manager: socket.socket, number: signal.Signals
) -> None:
    process = start(program=IN_A_TERMINAL, NOTIFY_SOCKET=get_notify_address(manager)).up()
    made = send_request(process.client(), "POST", "/api/remote/chats", {"title": "kept"})
    assert process.end(number) == 0
    assert not Path(process.layout.daemon).exists()
    assert b'"kept"' in Path(process.layout.index).read_bytes()
    heard = [manager.recv(4096), manager.recv(4096)]
    assert heard[1].startswith(b"STOPPING=1")
    assert "Traceback" not in process.log
    status = f"/api/remote/chats/{made['chatId']}/status"
    assert send_request(start().up().client(), "GET", status)["title"] == "kept"


def test_under_nohup_it_outlives_its_terminal(start: Start) -> None:
    process = start(program=UNDER_NOHUP).up()
    process.child.send_signal(signal.SIGHUP)
    status = Path(f"/proc/{process.child.pid}/status").read_text()
    (ignored,) = re.findall(r"SigIgn:\s*([0-9a-f]+)", status)
    assert int(ignored, 16) >> (signal.SIGHUP - 1) & 1
    assert process.end(signal.SIGTERM) == 0


def test_one_that_is_stopped_at_once_leaves_no_thread_and_no_watch_behind(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with Serving(tmp_path):
        pass
    until(lambda: set(threading.enumerate()) <= before)


def test_a_running_turn_is_interrupted_at_the_end_and_not_sent_again(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "agentd.yml").write_text("drain_seconds: 0.1\n")
    process = start(program=HELD).up()
    chat = _create_working_chat(process)
    assert process.end(signal.SIGTERM) == 0
    _assert_interrupted(start().up(), chat)


def _create_working_chat(process: Process) -> int:
    """Create a chat with one prompt at work and one that waits, paused."""
    client = process.client()
    chat = client.create_chat(prompt="first")
    until(lambda: client.status(chat)["status"] == "processing")
    wish = {"prompts": [{"prompt": "second", "isPaused": True}]}
    client.put(f"/api/remote/chats/{chat}/queue", wish)
    client.close()
    return chat


def _assert_interrupted(process: Process, chat: int) -> None:
    """Check that the prompt was sent once, its turn ended in an error, and the queue stays."""
    client = process.client()
    said = [(message["role"], message["content"][:11]) for message in client.messages(chat)]
    assert said == [("user", "first"), ("error", "Interrupted")]
    assert client.status(chat)["status"] == "queued"
    assert [prompt["prompt"] for prompt in client.prompts(chat)] == ["second"]
    client.close()


# Dying.


def test_after_kill_9_it_starts_again_and_sends_no_prompt_twice(start: Start) -> None:
    """Specification 3, 'Queued prompt lifecycle': sent is sent."""
    process = start(program=HELD).up()
    chat = _create_working_chat(process)
    assert process.end(signal.SIGKILL) == -signal.SIGKILL
    assert Path(process.layout.daemon).exists(), "nobody tidied up"
    again = start().up()
    _assert_interrupted(again, chat)
    assert again.end(signal.SIGTERM) == 0
    _assert_interrupted(start().up(), chat)


def test_what_waits_goes_on_after_kill_9(start: Start) -> None:
    process = start(program=HELD).up()
    chat = _create_working_chat(process)
    client = process.client()
    client.post(f"/api/remote/chats/{chat}/queue", {"prompt": "help"})
    client.close()
    process.end(signal.SIGKILL)
    client = start().up().client()
    said = [(message["role"], message["content"]) for message in client.messages(chat)]
    client.close()
    assert [role for role, _ in said][:2] == ["user", "error"]
    assert ("user", "help") in said
    assert said[-1][0] == "assistant"


def test_it_stops_when_its_lock_is_taken_away(start: Start) -> None:
    """Else a second daemon could be let in beside it."""
    process = start(program=WARY).up()
    os.unlink(process.layout.daemon_lock)
    assert process.child.wait(PATIENCE) == 75
    assert "no longer ours" in process.log


def test_a_daemon_that_lost_its_lock_touches_nothing_of_its_successors(start: Start) -> None:
    process = start(program=HELD).up()
    os.unlink(process.layout.daemon_lock)
    successor = start().up()
    send_request(successor.client(), "POST", "/api/remote/chats", {"title": "the successor's"})
    process.end(signal.SIGTERM)
    assert successor.announced()
    assert successor.end(signal.SIGTERM) == 0
    assert b"the successor's" in Path(successor.layout.index).read_bytes()
