"""Real engines behind the real daemon, over its API.

What every engine must do there, a stop and a kill among it, is in ``test_matrix.py``.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.agent.engines.real.codex_talks import PATCH
from tests.agent.engines.real.driving import find_processes
from tests.agent.engines.real.opencode_talks import answer_title
from tests.agent.engines.real.programs import CODEX, KEY, MODEL, OPENCODE, install
from tests.agent.served import Caller, ServedAgent
from tests.supplier.steps import Answer, Call, Say, Stall, Step
from tests.supplier.supplier import Supplier
from tests.support.daemon import until

pytestmark = pytest.mark.engines

QUICK = pytest.mark.parametrize("engine", ["codex", "native"], indirect=True)
"""The engines that start at once, for what is alike with all."""

PROGRAMS = {"codex": CODEX, "opencode": OPENCODE}
SLEEP = "sleep 300.25"


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> str:
    """The name of an engine, and of its model."""
    name: str = request.param
    program = PROGRAMS.get(name)
    if program and not shutil.which(program):
        pytest.skip(f"no {program}: npm install --prefix {Path(__file__).parent}")
    return name


@pytest.fixture
def supplier() -> Iterator[Supplier]:
    with Supplier() as serving:
        serving.answer_always(answer_title)
        yield serving


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that the programs find as they left it, with the programs in ``bin``."""
    return install(tmp_path_factory.mktemp("home"))


@pytest.fixture
def environ(home: Path) -> dict[str, str]:
    """Return the environment in which the daemon is started."""
    path = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {"HOME": str(home), "PATH": path, "SCRIPTED_KEY": KEY}


@pytest.fixture
def served(tmp_path: Path, supplier: Supplier) -> ServedAgent:
    """A daemon that asks before every change; its workspace is a repository with one file."""
    dialects = {
        "codex": "openai-responses",
        "opencode": "openai-chat",
        "native": "anthropic",
    }
    known = {"model": MODEL, "context": 100_000, "prices": {"input": 3, "output": 15}}
    models = {
        "suppliers": {
            name: {"dialect": dialect, "url": supplier.url, "key": "env:SCRIPTED_KEY"}
            for name, dialect in dialects.items()
        },
        "models": [
            {"name": "codex", "engine": "codex", "supplier": "codex", **known},
            {"name": "opencode", "engine": "acp", "supplier": "opencode", **known}
            | {"command": ["opencode", "acp"]},
            {"name": "native", "engine": "native", "supplier": "native", **known},
        ],
    }
    made = ServedAgent(tmp_path, models, approval_rules=[{"decision": "ask", "kind": "write"}])
    subprocess.run(["git", "init", "--quiet", str(made.workspace)], check=True)
    (made.workspace / "notes.txt").write_text("one\ntwo\n")
    return made


def edit(engine: str) -> Call:
    """Return the model's call that translates the first line of the file."""
    if engine == "codex":
        return Call("exec_command", {"cmd": PATCH})
    return Call("edit_file", {"path": "notes.txt", "old": "one", "new": "uno"})


def sleep(engine: str) -> Call:
    """Return the model's call of a command that takes long."""
    if engine == "codex":
        return Call("exec_command", {"cmd": SLEEP})
    return Call("shell", {"command": SLEEP, "seconds": 600})


def find_sleeping() -> list[int]:
    """Return the processes that carry out the long command."""
    return find_processes(SLEEP.replace(" ", "\0"))


def list_roles(messages: list[dict[str, Any]]) -> list[str]:
    return [message["role"] for message in messages]


def begin_to_sleep(engine: str, caller: Caller, supplier: Supplier, *after: Step) -> int:
    """Create a chat in which the long command runs, approved, and another prompt waits."""
    supplier.script(sleep(engine), *after)
    chat = caller.create_chat("Sleep.", model=engine)
    caller.append(chat, "And then?")
    assert SLEEP in caller.allow(chat)["subject"]
    until(find_sleeping, 60)
    return chat


@QUICK
def test_a_file_is_edited_with_leave_and_the_session_goes_on_in_the_next_daemon_too(
    engine: str, served: ServedAgent, supplier: Supplier, environ: dict[str, str]
) -> None:
    supplier.script((Say("I translate."), edit(engine)), Say("It is done."))
    with served.running(**environ) as caller:
        chat = caller.create_chat("Translate one.", model=engine)
        asked = caller.wait_for_question(chat)
        assert (asked["kind"], asked["state"]) == ("write", "open")
        assert "notes.txt" in asked["subject"]
        assert (served.workspace / "notes.txt").read_text() == "one\ntwo\n"
        caller.allow(chat)
        messages = caller.wait_until_idle(chat)
        assert (served.workspace / "notes.txt").read_text() == "uno\ntwo\n"
        assert "error" not in list_roles(messages), messages
        said = [(one["role"], one["content"]) for one in messages]
        tools = [text for role, text in said if role == "tool"]
        assert "Tool: approval" in tools
        assert "Tool: edit" in tools or "Tool: edit_file" in tools
        assert [text for role, text in said if role == "assistant"] == [
            "I translate.",
            "It is done.",
        ]
        assert sum(one["tokens"]["input"] for one in messages)
        assert sum(one["tokens"]["output"] for one in messages)
        cost = sum(Decimal(str(one["cost"])) for one in messages)
        assert cost == Decimal(str(caller.client.status(chat)["totalCost"])) > 0

        supplier.script(Say("As I said."))
        caller.append(chat, "And now?")
        assert caller.wait_until_idle(chat)[-1]["content"] == "As I said."
        assert served.process.end(signal.SIGTERM) == 0
    assert served.marked == []

    supplier.script(Say("Once more."))
    with served.running(**environ) as caller:
        caller.append(chat, "What did I want?")
        assert caller.wait_until_idle(chat)[-1]["content"] == "Once more."
        assert served.marked == []
    seen = str(supplier.requests[-1].turns)
    for words in ("Translate one.", "It is done.", "And now?", "As I said.", "What did I want?"):
        assert seen.count(words) == 1, "the session went on: it knows all, and once"


@pytest.mark.parametrize("engine", ["opencode"], indirect=True)
def test_opencode_runs_the_plugins_of_a_project_only_where_the_settings_say_so(
    engine: str,
    tmp_path: Path,
    served: ServedAgent,
    supplier: Supplier,
    environ: dict[str, str],
) -> None:
    ran = tmp_path / "ran"
    plugin = served.workspace / ".opencode" / "plugins" / "planted.js"
    plugin.parent.mkdir(parents=True)
    plugin.write_text(f'require("fs").writeFileSync("{ran}", "")\n')
    supplier.script(Say("Here I am."))
    with served.running(**environ) as caller:
        chat = caller.create_chat("Say it.", model=engine)
        [_, failed] = caller.wait_until_idle(chat)
        assert failed["role"] == "error"
        assert "plugins without a question: .opencode/plugins/planted.js" in failed["content"]
        assert "opencode_project: load" in failed["content"]
    assert not ran.exists() and not supplier.requests
    config = tmp_path / "config" / "agentd.yml"
    config.write_text(config.read_text().replace("{", '{"opencode_project": "load", ', 1))
    with served.running(**environ) as caller:
        caller.append(chat, "Say it now.")
        assert caller.wait_until_idle(chat)[-1]["content"] == "Here I am."
    assert ran.exists()


@QUICK
def test_sigterm_lets_a_turn_end(
    engine: str, served: ServedAgent, supplier: Supplier, environ: dict[str, str]
) -> None:
    stall = Stall(after=5)
    supplier.script(Answer((Say("It takes its time, but it comes."),), faults=(stall,)))
    with served.running(**environ) as caller:
        chat = caller.create_chat("Say it.", model=engine)
        stall.reached.result(60)
        served.process.child.send_signal(signal.SIGTERM)
        until(lambda: "stopping" in served.process.log)
        stall.release()
        assert served.process.child.wait(60) == 0
    assert served.marked == []
    with served.running(**environ) as caller:
        said = [(one["role"], one["content"]) for one in caller.wait_until_idle(chat)]
        assert said == [("user", "Say it."), ("assistant", "It takes its time, but it comes.")]


@QUICK
def test_sigterm_interrupts_what_does_not_end_in_time(
    engine: str, tmp_path: Path, served: ServedAgent, supplier: Supplier, environ: dict[str, str]
) -> None:
    config = tmp_path / "config" / "agentd.yml"
    config.write_text(config.read_text().replace("{", '{"drain_seconds": 0.2, ', 1))
    with served.running(**environ) as caller:
        chat = begin_to_sleep(engine, caller, supplier, Say("Here I am."))
        assert served.process.end(signal.SIGTERM) == 0
        assert not served.marked and not find_sleeping()
    with served.running(**environ) as caller:
        said = [(one["role"], one["content"][:11]) for one in caller.wait_until_idle(chat)]
        assert ("error", "Interrupted") in said
        assert said[-2:] == [("user", "And then?"), ("assistant", "Here I am.")]
