"""What others wrote, on a terminal: it must not obey the control characters in it."""

import os
import pty
from collections.abc import AsyncGenerator, Iterator
from typing import TextIO

import pytest

from agentd.agent.engine import Approver, EngineEvent, ReplyCompleted, TurnRequest
from agentd.cli.main import main
from agentd.cli.output import print_foreign, print_table
from tests.support.daemon import KEY, Serving
from tests.support.fixtures import Serve

TITLE = "\x1b]0;owned\x07"
"""A terminal that obeys it has another title."""
REPLY = f"one {TITLE}two\x9b2J\rthree\n\tfour \N{WOMAN}\N{ZERO WIDTH JOINER}\N{MAN}"
SHOWN = "one �]0;owned�two�2J�three\n\tfour \N{WOMAN}\N{ZERO WIDTH JOINER}\N{MAN}\n"


@pytest.fixture
def started(serve: Serve) -> Serving:
    """A daemon that was started before the output is captured."""
    return serve()


@pytest.fixture
def terminal() -> Iterator[tuple[int, TextIO]]:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as stream:
        yield ours, stream
    os.close(ours)


def read_lines(terminal: int, count: int) -> str:
    """Return so many lines that the terminal was sent."""
    sent = b""
    while sent.count(b"\n") < count:
        sent += os.read(terminal, 4096)
    return sent.decode().replace("\r\n", "\n")


def reply_with(daemon: Serving, text: str) -> None:
    async def run(assignment: TurnRequest, approver: Approver) -> AsyncGenerator[EngineEvent, None]:
        yield ReplyCompleted(text)

    daemon.engine.run = run  # type: ignore[method-assign]


def test_a_terminal_gets_a_reply_without_control_characters(
    started: Serving, terminal: tuple[int, TextIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    reply_with(started, REPLY)
    monkeypatch.setenv("AGENTD_KEY", KEY)
    monkeypatch.setattr("sys.stdout", terminal[1])
    assert main(["ask", "hello", "--url", started.url]) == 0
    assert read_lines(terminal[0], 2) == SHOWN


def test_a_program_gets_a_reply_as_it_is(
    started: Serving, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reply_with(started, REPLY)
    monkeypatch.setenv("AGENTD_KEY", KEY)
    assert main(["ask", "hello", "--url", started.url]) == 0
    assert capsys.readouterr().out == f"{REPLY}\n"


def test_lines_that_end_as_on_windows_stay_lines(terminal: tuple[int, TextIO]) -> None:
    print_foreign("one\r\ntwo", terminal[1])
    assert read_lines(terminal[0], 2) == "one\ntwo\n"


def test_an_error_tells_a_terminal_nothing_to_obey(
    terminal: tuple[int, TextIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", terminal[1])
    monkeypatch.setenv("AGENTD_KEY", KEY)
    assert main(["approve", "--url", f"nowhere{TITLE}"]) != 0
    shown = read_lines(terminal[0], 1)
    assert "owned" in shown
    assert "\x1b" not in shown


def test_the_cells_of_a_table_hold_nothing_to_obey(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([("name", "means"), (f"a{TITLE}", "b")])
    assert capsys.readouterr().out == "name         means\na�]0;owned�  b\n"
