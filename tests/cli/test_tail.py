"""``agentd tail`` as a process, through breaks, kills and restarts of the daemon."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agentd.app.state import read_daemon_info
from agentd.cli.tail import _describe_approval, _EventRenderer
from agentd.core.sse import ServerSentEvent, SseReader
from agentd.storage.layout import Layout
from tests.support.daemon import HASH, KEY, PATIENCE, Client, until


class Home:
    """A folder, the daemons that serve it one after the other, and those who follow them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.layout = Layout(str(folder / "state"), str(folder / "config"))
        self.daemon: subprocess.Popen[bytes]
        self._stack = stack
        self._count = 0

    def start_process(self, *words: str, key: str = KEY) -> "Process":
        self._count += 1
        return Process(self, f"{self._count}", words, key, self._stack)

    def serve(self) -> str:
        """Start a daemon; its address."""
        self.daemon = self.start_process("serve", "--port", "0").child
        found = until(lambda: self._read_url() or self.daemon.poll() is not None)
        assert self.daemon.poll() is None
        return str(found)

    def _read_url(self) -> str:
        found = read_daemon_info(self.layout)
        return found.url if found and found.pid == self.daemon.pid else ""

    def end(self, how: signal.Signals) -> None:
        self.daemon.send_signal(how)
        self.daemon.wait(PATIENCE)

    def read_events(self, since: str = "0") -> list[tuple[str, str, object]]:
        """Return all events up to now, as the daemon sends them."""
        address = f"{self._read_url()}/api/events?since={since}"
        asked = urllib.request.Request(address, headers={"X-API-Key": KEY})  # noqa: S310
        reader = SseReader()
        found: list[ServerSentEvent] = []
        with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:  # noqa: S310
            while not found or not reader.last_id.startswith(f"{json.loads(found[0].data)['to']}~"):
                found += reader.feed(answer.read1(65536))
        return [(event.id, event.name, json.loads(event.data)) for event in found[1:]]


class Process:
    """A command at work, and what it wrote so far."""

    def __init__(
        self, home: Home, name: str, words: tuple[str, ...], key: str, stack: ExitStack
    ) -> None:
        self._out, self._err = home.folder / f"{name}.out", home.folder / f"{name}.err"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AGENT")}
        places = {"AGENTD_STATE": home.layout.state, "AGENTD_CONFIG": home.layout.config}
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.child = subprocess.Popen(
                [sys.executable, "-m", "agentd", *words],
                cwd=home.folder,
                env=kept | places | {"AGENTD_KEY": key, "AGENT_API_KEY": HASH},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
        stack.callback(self.child.wait, PATIENCE)
        stack.callback(self.child.kill)

    @property
    def lines(self) -> list[str]:
        """Whole lines of standard output."""
        return self._out.read_text().split("\n")[:-1]

    @property
    def errors(self) -> str:
        return self._err.read_text()

    @property
    def events(self) -> list[tuple[str, str, object]]:
        """Return the events that ``--json`` printed."""
        rows = map(json.loads, self.lines)
        return [(row["id"], row["event"], row["arguments"]) for row in rows]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with ExitStack() as stack:
        yield Home(tmp_path, stack)


def talk(url: str, *prompts: str) -> int:
    client = Client(url)
    chat = client.create_chat(title="talk")
    for prompt in prompts:
        client.post(f"/api/remote/chats/{chat}/queue", {"prompt": prompt})
    client.messages(chat)
    client.close()
    return chat


def test_through_kill_9_and_restart_each_event_is_seen_once_and_in_order(home: Home) -> None:
    url = home.serve()
    tail = home.start_process("tail", "--json", "--since", "0")
    talk(url)
    until(lambda: tail.events)
    for number in range(4):
        talk(url, "help", f"find {number}")
        if number % 2:  # in the middle of a turn, and not
            client = Client(url)
            client.create_chat(prompt="help")
            client.close()
        home.end(signal.SIGKILL)
        url = home.serve()
        talk(url, "help")
        until(lambda times=number + 1: tail.errors.count("connected again") == times)
    home.end(signal.SIGTERM)
    home.serve()
    told = home.read_events()
    until(lambda: len(tail.events) >= len(told))
    assert tail.events == told
    assert len({row[0] for row in told}) == len(told) > 50
    assert tail.errors.count("connection lost") == 5
    until(lambda: tail.errors.count("connected again") == 5)
    assert len(tail.errors.splitlines()) == 10


def test_lines_show_time_chat_and_what_happened(home: Home) -> None:
    url = home.serve()
    tail = home.start_process("tail", "--since", "0")
    chat = talk(url, "help")
    until(lambda: f"chat {chat}  completed (turn.ended)" in "\n".join(tail.lines))
    moment = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    for line in tail.lines:
        assert re.match(rf"{moment}  chat {chat}  ", line), line
    said = [line.split("  ", 2)[2] for line in tail.lines]
    assert said[:6] == [
        "completed (chat.created)",
        "queue: 1 waiting",
        "queued (queue.appended)",
        "queue: 0 waiting",
        "user: help",
        "processing (turn.started)",
    ]
    assert tail.lines == sorted(tail.lines, key=lambda line: line[:24])


def test_only_the_chats_that_are_named(home: Home) -> None:
    url = home.serve()
    chats = [talk(url, "help") for _ in range(3)]
    tail = home.start_process("tail", "--json", "--since", "0", str(chats[0]), str(chats[2]))
    wanted = [row for row in home.read_events() if get_chat_id(row) != chats[1]]
    until(lambda: len(tail.events) >= len(wanted))
    assert tail.events == wanted


def get_chat_id(row: tuple[str, str, object]) -> int:
    first = row[2][0]  # type: ignore[index]
    return int(first if isinstance(first, int) else first["chatId"])


def test_since_begins_after_that_event(home: Home) -> None:
    talk(home.serve(), "help")
    told = home.read_events()
    tail = home.start_process("tail", "--json", "--since", told[2][0])
    until(lambda: len(tail.events) >= len(told) - 3)
    assert tail.events == told[3:]


def test_a_mark_from_the_future_is_reported_as_a_gap(home: Home) -> None:
    home.serve()
    tails = [home.start_process("tail", *more, "--since", "99999") for more in ((), ("--json",))]
    until(lambda: all(tail.lines for tail in tails))
    assert "gap: events from 99999 to 0" in tails[0].lines[0]
    ((mark, *gap),) = tails[1].events
    assert mark.startswith("0~")
    assert gap == ["gap", [{"from": 99999, "to": 0}]]


def test_ctrl_c_ends_it_silently_with_130(home: Home) -> None:
    url = home.serve()
    tail = home.start_process("tail", "--since", "0")
    talk(url, "help")
    until(lambda: tail.lines)
    tail.child.send_signal(signal.SIGINT)
    assert tail.child.wait(PATIENCE) == 130
    assert tail.errors == ""


def test_ctrl_c_ends_it_while_it_waits_for_a_daemon_too(home: Home) -> None:
    url = home.serve()
    tail = home.start_process("tail", "--since", "0")
    talk(url, "help")
    until(lambda: tail.lines)
    home.end(signal.SIGKILL)
    until(lambda: "connection lost" in tail.errors)
    tail.child.send_signal(signal.SIGINT)
    assert tail.child.wait(PATIENCE) == 130
    assert len(tail.errors.splitlines()) == 1


def test_a_reader_that_goes_away_ends_it(home: Home) -> None:
    url = home.serve()
    piped = f"{sys.executable} -m agentd tail --since 0 | head -n 1"
    with subprocess.Popen(
        ["sh", "-c", piped],
        cwd=home.folder,
        env={**os.environ, "AGENTD_KEY": KEY, "AGENTD_STATE": home.layout.state},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as pipe:
        until(lambda: talk(url) and pipe.poll() is not None)
        out, err = pipe.communicate()
    assert out.count(b"\n") == 1
    assert b"Traceback" not in err


def test_without_a_daemon_it_says_how_to_start_one(home: Home) -> None:
    tail = home.start_process("tail")
    assert tail.child.wait(PATIENCE) == 1
    assert "agentd serve" in tail.errors
    assert "Traceback" not in tail.errors


def test_without_a_valid_key_it_says_how_to_make_one(home: Home) -> None:
    home.serve()
    for key in ("", "agent_wrong"):
        tail = home.start_process("tail", key=key)
        assert tail.child.wait(PATIENCE) == 1
        assert "agentd keys generate" in tail.errors


@pytest.mark.parametrize("words", [("x",), ("0",), ("1", "-3"), ("--since", "1.x")])
def test_what_is_no_id_is_wrong_usage(home: Home, words: tuple[str, ...]) -> None:
    tail = home.start_process("tail", *words)
    assert tail.child.wait(PATIENCE) == 2
    assert "Traceback" not in tail.errors


def test_an_approval_says_how_many_lines_are_not_shown() -> None:
    asked = {"id": 7, "tool": "shell", "state": "open", "subject": "make\nrm -rf .\n"}
    assert _describe_approval(asked) == (
        "needs your approval: shell: make (and 1 more lines: agentd approve lists them)"
        "  (agentd approve 7)"
    )


def test_a_line_holds_nothing_that_a_terminal_would_obey() -> None:
    message = {"role": "assistant", "content": "\x1b[2Jhi\u202e\tthere\nmore", "createdAt": "T"}
    event = ServerSentEvent("messageUpdate", json.dumps([7, message]), "1")
    assert list(_EventRenderer().render(event)) == [
        "T  chat 7  assistant: \ufffd[2Jhi\ufffd\ufffdthere"
    ]
    message["content"] = "x" * 500
    event = ServerSentEvent("messageUpdate", json.dumps([7, message]), "1")
    (line,) = _EventRenderer().render(event)
    assert line.endswith("xxx…")
    assert len(line) < 250
