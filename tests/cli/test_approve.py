"""``agentd approve`` against a running daemon whose agent asks before it runs a command."""

import json
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import redirect_stdout
from io import StringIO

import pytest

from agentd.agent.engine import Approver, EngineEvent, Question, ReplyCompleted, TurnRequest
from agentd.cli.approve import _print_list
from agentd.cli.main import USAGE, main
from tests.cli.test_conversing import (
    PATIENCE,
    ServedFolder,
    _build_environment,
    _run_agentd,
    served,
)
from tests.support.daemon import KEY, Serving, until
from tests.support.fixtures import Serve

__all__ = ["served"]


@pytest.fixture
def asking(served: ServedFolder) -> Iterator["subprocess.Popen[str]"]:
    """``agentd ask`` for a command, which waits for somebody's leave."""
    process = subprocess.Popen(
        [sys.executable, "-m", "agentd", "ask", "/run echo it-ran"],
        cwd=served.home,
        env=_build_environment(served.home, served.key),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        yield process
        process.kill()


def read_number(asking: "subprocess.Popen[str]") -> str:
    """Return the question's number from the output of ``ask``."""
    assert asking.stderr
    for line in asking.stderr:
        if found := re.search(r"agentd approve ([0-9]+)", line):
            return found[1]
    raise AssertionError("nothing was asked")


def test_a_question_is_listed_and_allowing_it_lets_the_command_run(served, asking) -> None:
    number = read_number(asking)
    listed = _run_agentd("approve", home=served.home, key=served.key)
    assert re.match(rf"{number}  chat [0-9]+ \(until .*\)  \w+: echo it-ran\n", listed.stdout)
    (one,) = json.loads(_run_agentd("approve", "--json", home=served.home, key=served.key).stdout)
    assert (one["id"], one["kind"], one["state"]) == (int(number), "shell", "open")
    allowed = _run_agentd("approve", number, home=served.home, key=served.key)
    assert allowed.stdout.startswith("allowed: ")
    out, _ = asking.communicate(timeout=PATIENCE)
    assert "it-ran" in out
    assert asking.returncode == 0
    again = _run_agentd("approve", number, home=served.home, key=served.key)
    assert again.returncode == 1
    assert f"approval {number} is not open" in again.stderr


def test_all_lines_of_a_command_are_listed() -> None:
    command = "echo one\necho two\t\u202e\n" + "echo " + "x" * 300
    question = {"id": 7, "chatId": 3, "deadline": "", "tool": "shell", "reason": ""}
    with redirect_stdout(StringIO()) as out:
        _print_list([{**question, "subject": command}], as_json=False)
    long = "echo " + "x" * 300
    assert out.getvalue() == f"7  chat 3  shell: echo one\n    | echo two��\n    | {long}\n"


def test_a_denial_reaches_the_agent_with_its_note(served, asking) -> None:
    number = read_number(asking)
    words = ("approve", number, "--deny", "--note", "not on Fridays", "--json")
    denied = json.loads(_run_agentd(*words, home=served.home, key=served.key).stdout)
    assert (denied["state"], denied["answeredBy"]) == ("denied", "key:laptop")
    out, _ = asking.communicate(timeout=PATIENCE)
    assert "not on Fridays" in out
    assert "it-ran" not in out.replace("echo it-ran", "")


def test_a_denial_for_the_chat_stands_there(served, asking) -> None:
    words = ("approve", read_number(asking), "--deny", "--session", "--json")
    denied = json.loads(_run_agentd(*words, home=served.home, key=served.key).stdout)
    assert (denied["state"], denied["session"]) == ("denied", True)
    asking.communicate(timeout=PATIENCE)


def test_when_nothing_is_asked_it_says_so(served) -> None:
    assert _run_agentd("approve", home=served.home, key=served.key).stdout == "no open approvals\n"


def test_what_is_no_number_is_wrong_usage(served) -> None:
    assert _run_agentd("approve", "x", home=served.home, key=served.key).returncode == 2


@pytest.fixture
def started(serve: Serve) -> Serving:
    """A daemon that was started before the output is captured."""
    return serve()


def test_what_the_agent_asks_a_person_is_answered_with_words_alone(
    started: Serving, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon = started

    async def run(assignment: TurnRequest, approver: Approver) -> AsyncGenerator[EngineEvent, None]:
        answer = await approver.ask(Question("question", "ask_person", "Which name?"))
        yield ReplyCompleted(f"It is {answer.reason}")

    daemon.engine.run = run  # type: ignore[method-assign]
    client = daemon.client()
    chat = client.create_chat(prompt="hello")
    until(lambda: client.get("/api/chat/approvals")["approvals"])
    (asked,) = client.get("/api/chat/approvals")["approvals"]
    monkeypatch.setenv("AGENTD_KEY", KEY)
    words = ["approve", str(asked["id"]), "--url", daemon.url]
    assert main(words) == USAGE
    assert f"agentd approve {asked['id']} --note ANSWER" in capsys.readouterr().err
    assert client.get("/api/chat/approvals")["approvals"]
    assert main([*words, "--note", "Ada"]) == 0
    until(lambda: client.status(chat)["status"] == "completed")
    assert client.messages(chat)[-1]["content"] == "It is Ada"
