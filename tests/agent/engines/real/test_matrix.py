"""Every engine with every behaviour that a person expects, over the API of a real daemon.

The cells are in ``matrix.py``. One daemon serves the tests of an engine, one after another.
"""

import base64
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from msgspec import Struct

from agentd.chats.turns import TOOL_INTERRUPTED
from tests.acp.support import Editor
from tests.agent.engines.real.driving import find_processes
from tests.agent.engines.real.matrix import BEHAVIOURS, ENGINES, MISSING, render_table
from tests.agent.engines.real.programs import (
    CLAUDE,
    CODEX,
    KEY,
    MODEL,
    OPENCODE,
    install,
)
from tests.agent.served import PATIENCE, ServedAgent
from tests.supplier.request import Request
from tests.supplier.steps import Answer, Call, Refuse, Say, Stall, Step, Tokens
from tests.supplier.supplier import Supplier
from tests.support.daemon import Beats, until
from tests.support.paths import REPOSITORY

pytestmark = pytest.mark.engines

PROGRAMS = {"codex": CODEX, "claude-code": CLAUDE, "opencode": OPENCODE}
DIALECTS = {
    "native": "anthropic",
    "codex": "openai-responses",
    "claude-code": "anthropic",
    "opencode": "openai-chat",
}
ADDED = """apply_patch <<'EOF'
*** Begin Patch
*** Add File: made.txt
+hello
*** End Patch
EOF"""
ONE_CALL = Tokens(input=1000, cached=400, output=50)
MCP_SERVER = Path(__file__).parents[2] / "mcp_servers" / "sdk_server.py"
LEAKING_SERVER = MCP_SERVER.with_name("leaking_server.py")
MCP_TOOLS = {
    "native": ("mcp__tea__environment", ""),
    "codex": ("environment", "mcp__tea"),
    "claude-code": ("mcp__tea__environment", ""),
    "opencode": ("tea_environment", ""),
}
"""The name that each engine gives to the server's tool, and its namespace."""
SMALL = "scripted-small"
PICTURE = "uploads/dots.png"
DENIED = "touch denied.txt"
RUN = "echo ran > ran.txt"
SLEEP = "sleep 300.75"
TOOLS = {"claude-code": "Bash"}
"""The tool that runs commands, where its name is not ``shell``."""


def answer_own_requests(request: Request) -> Say | None:
    """Answer what programs ask by themselves: titles of sessions."""
    own = not request.tools or request.model not in (MODEL, SMALL)
    return Say("A title") if own else None


def make_png() -> bytes:
    """Return a picture of eight by eight random dots."""

    def make_chunk(kind: bytes, data: bytes) -> bytes:
        checksum = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)

    rows = b"".join(b"\0" + os.urandom(24) for _ in range(8))
    head = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(make_chunk(*chunk) for chunk in chunks)


def read_pixels(png: bytes) -> bytes:
    """Return what a picture shows: programs may write it anew."""
    found = b""
    place = 8
    while place < len(png):
        (size,) = struct.unpack(">I", png[place : place + 4])
        if png[place + 4 : place + 8] == b"IDAT":
            found += png[place + 8 : place + 8 + size]
        place += size + 12
    return zlib.decompress(found)


def build_hook(file: str, words: str) -> dict[str, Any]:
    """Return a hook that keeps commands from making a file."""
    command = f"grep -q {file} || exit 0; echo {words} >&2; exit 2"
    return {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": command}]}]}}


class Talk(Struct):
    """What was said in a chat, and what the model was sent; several cells look at it."""

    chat: int
    messages: list[dict[str, Any]]
    requests: list[Request]
    """Those with tools: not the ones that programs make by themselves."""
    booked: dict[str, Any]
    """The chat's tokens and cost in the analytics."""
    cost: float

    @property
    def sent(self) -> str:
        """The last request."""
        return json.dumps(self.requests[-1].body)


Decision: TypeAlias = tuple[str, dict[str, Any], str]
"""What a file held when its question was put, the question, and what it held afterwards."""


class Decisions(Struct):
    """A turn in which a command was denied, a file written, and another command allowed."""

    talk: Talk
    denied: Decision
    written: Decision
    ran: Decision
    left: int
    """The model's steps that nobody asked for."""


class Site:
    """A daemon with one engine, and a workspace; ``caller`` sends requests."""

    def __init__(self, engine: str, folder: Path, supplier: Supplier) -> None:
        self.engine = engine
        self.supplier = supplier
        self._home = install(folder / "home")
        folder = folder / "daemon"
        folder.mkdir()
        self.served = ServedAgent(folder, self._build_models(), **self._settings())
        self._environ = {
            "HOME": str(self._home),
            "PATH": f"{self._home / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "SCRIPTED_KEY": KEY,
        }
        self._stack = ExitStack()
        subprocess.run(["git", "init", "--quiet", str(self.workspace)], check=True)
        for name in ("AGENTS.md", "CLAUDE.md"):
            (self.workspace / name).write_text("Use tabs in this project.\n")
        skill = folder / "config" / "skills" / "haiku"
        skill.mkdir(parents=True)
        about = "---\nname: haiku\ndescription: Writes haiku.\n---\n"
        (skill / "SKILL.md").write_text(f"{about}Reply in seventeen syllables.\n")
        self.start()

    @property
    def workspace(self) -> Path:
        """The folder that the agent works in."""
        return self.served.workspace

    def list_told(self, chat: int) -> list[str]:
        """Return the texts of all messages of a chat, those of tools too."""
        found = self.caller.client.get(f"/api/chat/{chat}/messages").json()["messages"]
        return [one["content"] for one in found]

    def start(self, **settings: Any) -> None:
        """Start the daemon, with these settings beside the usual ones."""
        config = self.served.folder / "config" / "agentd.yml"
        said = {"workspace": str(self.workspace), **self._settings(), **settings}
        config.write_text(json.dumps(said))
        self.caller = self._stack.enter_context(self.served.running(**self._environ))

    def restart(self, **settings: Any) -> None:
        """Stop the daemon, and start it again."""
        self.stop()
        self.start(**settings)

    def stop(self) -> None:
        """Stop the daemon."""
        if self.served.process.child.poll() is None:
            assert self.served.process.end(signal.SIGTERM) == 0
        self._stack.close()

    def run_shell(self, command: str) -> Call:
        """Return the model's call that runs a command line, for as long as ten minutes."""
        match self.engine:
            case "native":
                return Call("shell", {"command": command, "seconds": 600})
            case "claude-code":
                return Call(
                    "Bash", {"command": command, "description": "runs it", "timeout": 600_000}
                )
            case "opencode":
                return Call("bash", {"command": command, "description": "runs it"})
            case _:
                return Call("exec_command", {"cmd": command})

    def write_file(self) -> Call:
        """Return the model's call that writes ``made.txt``."""
        made = str(self.workspace / "made.txt")
        match self.engine:
            case "native":
                return Call("write_file", {"path": "made.txt", "text": "hello\n"})
            case "claude-code":
                return Call("Write", {"file_path": made, "content": "hello\n"})
            case "opencode":
                return Call("write", {"filePath": made, "content": "hello\n"})
            case _:
                return Call("exec_command", {"cmd": ADDED})

    def create_chat(self, prompt: str, *steps: Step, **wish: Any) -> int:
        """Create a chat with a prompt, for whose turn the model has these steps."""
        self.supplier.script(*steps)
        return self.caller.create_chat(prompt, **{"model": self.engine, **wish})

    def converse(self, prompt: str, *steps: Step, **wish: Any) -> list[dict[str, Any]]:
        """Return the messages of a new chat after its first turn, in which all is allowed."""
        return self.finish(self.create_chat(prompt, *steps, **wish))

    def finish(self, chat: int, turns: int = 1) -> list[dict[str, Any]]:
        """Allow whatever is asked; return the messages when nothing is left to do."""
        self.answer(chat, "allow", turns=turns)
        return self.caller.wait_until_idle(chat)

    def answer(
        self, chat: int, decision: str, note: str = "", turns: int = 1
    ) -> list[dict[str, Any]]:
        """Answer all questions of a chat until its queue is empty; return them."""
        asked: list[dict[str, Any]] = []

        def is_over() -> bool:
            found = self.caller.look(chat)
            for question in found["approvals"]:
                path = f"/api/chat/{chat}/approvals/{question['id']}"
                body = {"decision": decision, "note": note}
                assert self.caller.client.post(path, body).status == 200
                asked.append(question)
            return bool(found["chat"]["status"] == "completed")

        until(is_over, PATIENCE * turns)
        return asked

    def record(self, chat: int, turns: int = 1) -> Talk:
        """Allow whatever is asked; return what was said when nothing is left to do."""
        messages = self.finish(chat, turns)
        rows = self.caller.client.get("/api/analytics?by=chat")["rows"]
        row = next(row for row in rows if row["name"] == str(chat))
        requests = [one for one in self.supplier.requests if not answer_own_requests(one)]
        cost = self.caller.client.status(chat)["totalCost"]
        return Talk(chat, messages, requests, row, cost)

    @cached_property
    def first_turn(self) -> Talk:
        """A turn of a chat with all that a chat can be told, in which a command is run."""
        (self.workspace / PICTURE).parent.mkdir(exist_ok=True)
        (self.workspace / PICTURE).write_bytes(make_png())
        chat = self.create_chat(
            f"Look around.\n\nAttached files:\n- {PICTURE}",
            Answer((self.run_shell("echo $((6*7))00"),), usage=ONE_CALL),
            Answer((Say("I see."),), usage=ONE_CALL),
            systemPrompt="Speak like a pirate.",
            skill="haiku",
        )
        return self.record(chat)

    @cached_property
    def second_turn(self) -> Talk:
        """The chat's next, with another model."""
        chat = self.first_turn.chat
        self.supplier.script(Say("As I said."))
        self.caller.append(chat, "And now?", model="small")
        return self.record(chat)

    @cached_property
    def decisions(self) -> Decisions:
        """A turn whose questions are answered in three ways."""
        # opencode has no way to hear it at once: it is told when it has ended.
        later = [Say("I heard.")] if self.engine == "opencode" else []
        denied, run = self.run_shell(DENIED), self.run_shell(RUN)
        steps = (denied, self.write_file(), run, Say("It is made."), *later)
        chat = self.create_chat("Make it.", *steps)
        decided = [
            self._decide(chat, "denied.txt", "deny", "Not on a Friday."),
            self._decide(chat, "made.txt", "allow"),
            self._decide(chat, "ran.txt", "allow", "Blue is the better colour."),
        ]
        talk = self.record(chat)
        files = [(*one, self._read(one[1])) for one in decided]
        first, second, third = [(before, asked, after) for asked, _, before, after in files]
        return Decisions(talk, first, second, third, self.supplier.left)

    @cached_property
    def queue(self) -> Talk:
        """A chat with three prompts, two of which are custom commands."""
        own = self.served.folder / "config" / "commands"
        theirs = [self.workspace / one for one in (".claude/commands", ".opencode/command")]
        for folder in (own, *theirs):
            folder.mkdir(parents=True)
        head = "---\ndescription: Makes tea\n---\n"
        (own / "brew.md").write_text(f"{head}Brew $1 for $2.\n")
        for folder in theirs:
            (folder / "steep.md").write_text(f"{head}Steep $1 slowly.\n")
        try:
            stall = Stall()
            chat = self.create_chat("One.", Answer((Say("First."),), faults=(stall,)))
            stall.reached.result(PATIENCE)
            self.caller.client.close()  # it may have taken long
            for prompt in ("/brew mint 'two guests'", "/steep mint"):
                self.caller.append(chat, prompt)
            self.supplier.script(Say("Second."), Say("Third."))
            stall.release()
            return self.record(chat, turns=3)
        finally:
            for folder in (own, *(one.parent for one in theirs)):
                shutil.rmtree(folder)

    @cached_property
    def hooked(self) -> Talk:
        """A turn with two commands; each of two hooks is to keep one from running."""
        ours = self.served.folder / "config" / "hooks.yml"
        theirs = self.workspace / ".claude" / "settings.json"
        theirs.parent.mkdir()
        theirs.write_text(json.dumps(build_hook("second.txt", "Dry up first.")))
        ours.write_text(json.dumps(build_hook("first.txt", "Wash up first.")))
        ours.chmod(0o600)
        runs = [self.run_shell(f"touch {name}.txt") for name in ("first", "second")]
        try:
            return self.record(self.create_chat("Make it.", *runs, Say("Then not.")))
        finally:
            ours.unlink()
            shutil.rmtree(theirs.parent)

    def _decide(
        self, chat: int, file: str, decision: str, note: str = ""
    ) -> tuple[dict[str, Any], str, str]:
        """Answer the next question; return it, the file, and what that holds until then."""
        asked = self.wait_for_question(chat)
        before = self._read(file)
        path = f"/api/chat/{chat}/approvals/{asked['id']}"
        body = {"decision": decision, "note": note}
        assert self.caller.client.post(path, body).status == 200
        return asked, file, before

    def _read(self, file: str) -> str:
        path = self.workspace / file
        return path.read_text() if path.exists() else ""

    def wait_for_question(self, chat: int) -> dict[str, Any]:
        """Return the next question."""
        return self.caller.wait_for_question(chat)

    def _settings(self) -> dict[str, Any]:
        return {"approval_rules": [{"decision": "ask", "kind": "write"}], "drain_seconds": 0}

    def _build_models(self) -> dict[str, Any]:
        dialect = DIALECTS[self.engine]
        known = {"context": 100_000, "prices": {"input": 3, "output": 15, "cache_read": 1}}
        supplier = {"dialect": dialect, "url": self.supplier.url, "key": "env:SCRIPTED_KEY"}
        entry: dict[str, Any] = {"engine": self.engine, "supplier": "scripted", **known}
        if self.engine == "opencode":
            entry |= {"engine": "acp", "command": ["opencode", "acp"]}
        names = {self.engine: MODEL, "small": SMALL}
        models = [{"name": name, "model": model, **entry} for name, model in names.items()]
        return {"suppliers": {"scripted": supplier}, "models": models}


@pytest.fixture(scope="module", params=ENGINES)
def running_site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    engine: str = request.param
    program = PROGRAMS.get(engine)
    if program and not shutil.which(program):
        pytest.skip(f"no {program}: npm install --prefix {Path(__file__).parent}")
    with Supplier() as supplier:
        supplier.answer_always(answer_own_requests)
        supplier.models = [MODEL, SMALL]
        site = Site(engine, tmp_path_factory.mktemp(engine), supplier)
        yield site
        site.stop()


@pytest.fixture
def site(running_site: Site, request: pytest.FixtureRequest) -> Iterator[Site]:
    """The engine's site; a cell that is said to be missing must fail."""
    behaviour = request.node.originalname.removeprefix("test_")
    if reason := MISSING.get((running_site.engine, behaviour)):
        request.applymarker(pytest.mark.xfail(strict=True, reason=reason))
    (running_site.workspace / "made.txt").unlink(missing_ok=True)
    running_site.supplier.forget()
    running_site.caller.client.close()  # the daemon hangs up on who is silent for long
    yield running_site


def list_said(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return what the person and the model said."""
    return [
        (one["role"], one["content"]) for one in messages if one["role"] in ("user", "assistant")
    ]


def test_queue(site: Site) -> None:
    assert list_said(site.queue.messages) == [
        ("user", "One."),
        ("assistant", "First."),
        ("user", "/brew mint 'two guests'"),
        ("assistant", "Second."),
        ("user", "/steep mint"),
        ("assistant", "Third."),
    ]


def test_commands(site: Site) -> None:
    sent = str(site.queue.requests[-2].turns)
    assert "Brew mint for two guests." in sent
    assert "/brew" not in sent


def test_own_commands(site: Site) -> None:
    assert "Steep mint slowly." in str(site.queue.requests[-1].turns)


def expect_all_known(talk: Talk, *said: str) -> None:
    """Check that the model knows what was said so far, once each, and what its command told."""
    seen = str(talk.requests[-1].turns)
    assert all(seen.count(text) == 1 for text in ("Look around.", "I see.", *said))
    assert "4200" in seen


def test_follow_up(site: Site) -> None:
    assert list_said(site.second_turn.messages)[-1] == ("assistant", "As I said.")
    expect_all_known(site.second_turn, "And now?")


def test_restart(site: Site) -> None:
    chat = site.second_turn.chat
    site.restart()
    site.supplier.script(Say("Once more."))
    site.caller.append(chat, "And then?")
    talk = site.record(chat)
    assert list_said(talk.messages)[-1] == ("assistant", "Once more.")
    expect_all_known(talk, "And now?", "As I said.", "And then?")


def test_write(site: Site) -> None:
    (before, question, after) = site.decisions.written
    assert "made.txt" in question["subject"]
    assert (before, after) == ("", "hello\n")


def test_shell_allowed(site: Site) -> None:
    (before, question, after) = site.decisions.ran
    assert (question["kind"], question["subject"]) == ("shell", RUN)
    assert (before, after) == ("", "ran\n")
    assert ("assistant", "It is made.") in list_said(site.decisions.talk.messages)


def test_shell_denied(site: Site) -> None:
    (before, question, after) = site.decisions.denied
    assert question["subject"] == DENIED
    assert (before, after) == ("", "")
    assert ("assistant", "It is made.") in list_said(site.decisions.talk.messages)
    assert "Not on a Friday." in json.dumps(site.decisions.talk.requests[-1].body)


def test_note(site: Site) -> None:
    assert "Blue is the better colour." in json.dumps(site.decisions.talk.requests[-1].body)
    assert site.decisions.left == 0


def test_shell_nobody(site: Site) -> None:
    site.restart(approval_seconds=1)
    try:
        chat = site.create_chat("Make it.", site.run_shell("touch made.txt"), Say("Then not."))
        messages = site.caller.wait_until_idle(chat)
    finally:
        site.restart()
    assert list_said(messages)[-1] == ("assistant", "Then not.")
    assert not (site.workspace / "made.txt").exists()


def test_question(site: Site) -> None:
    options = [{"label": "Red", "description": "Warm."}, {"label": "Blue", "description": "Cold."}]
    question = {"question": "Which colour?", "header": "Colour", "options": options}
    ask = {
        "native": Call("ask_person", {"question": "Which colour?", "choices": ["Red", "Blue"]}),
        "codex": Call("request_user_input", {"questions": [{"id": "colour", **question}]}),
        "claude-code": Call("AskUserQuestion", {"questions": [{**question, "multiSelect": False}]}),
        "opencode": Call("question", {"questions": [question]}),
    }[site.engine]
    chat = site.create_chat("Paint it.", ask, Say("I paint it blue."))
    (asked,) = site.answer(chat, "allow", note="Blue")
    assert (asked["kind"], asked["choices"]) == ("question", ["Red", "Blue"])
    assert asked["subject"].startswith("Which colour?")
    assert list_said(site.finish(chat))[-1] == ("assistant", "I paint it blue.")
    assert "Blue" in str(site.supplier.requests[-1].results)


def begin_to_sleep(site: Site) -> int:
    """Create a chat in which a long command runs, and another prompt waits."""
    chat = site.create_chat("Sleep.", site.run_shell(f"touch begun; {SLEEP}"))
    site.caller.append(chat, "And then?")
    assert SLEEP in site.caller.allow(chat)["subject"]
    until(find_sleeping, PATIENCE)
    return chat


def find_sleeping() -> list[int]:
    """Return the processes that carry out the long command."""
    return find_processes(SLEEP.replace(" ", "\0"))


def test_stop(site: Site) -> None:
    chat = begin_to_sleep(site)
    with Beats() as beats:
        began = beats.seconds
        site.caller.stop(chat)
        assert beats.seconds - began < 10
    assert not find_sleeping() and not site.served.marked
    found = site.caller.look(chat)
    assert (found["chat"]["status"], found["held"]) == (
        "queued",
        "The turn was stopped by a person.",
    )
    told = str(site.caller.client.messages(chat))
    assert f"Tool: {TOOLS.get(site.engine, 'shell')}" in told and "Tool: stop" in told
    if site.engine in ("native", "codex"):  # others forget what they used in an unfinished step
        assert site.caller.client.status(chat)["totalCost"] > 0
    site.supplier.script(Say("Here I am."))
    site.caller.release(chat)
    messages = site.finish(chat)
    assert list_said(messages)[-2:] == [("user", "And then?"), ("assistant", "Here I am.")]
    assert "error" not in [one["role"] for one in messages]


def test_kill_9(site: Site) -> None:
    chat = begin_to_sleep(site)
    before = {*site.served.marked, *find_sleeping()}
    assert before
    site.served.process.end(signal.SIGKILL)
    site.stop()
    site.supplier.script(Say("Here I am."))
    site.start()
    left = before.intersection(site.served.marked)
    assert not left, "when it answers, what the killed one left behind has ended"
    messages = site.finish(chat)
    said = [(one["role"], one["content"]) for one in messages if one["role"] != "tool"]
    assert said[0] == ("user", "Sleep.")
    assert said[1][0] == "error" and said[1][1].startswith("Interrupted")
    assert said[2:] == [("user", "And then?"), ("assistant", "Here I am.")]
    tool, turn = site.caller.cut_off(chat)
    cut_off = (tool["role"], tool["tool"], turn["role"])
    assert cut_off == ("tool", TOOLS.get(site.engine, "shell"), "error")
    assert SLEEP in tool["content"] and TOOL_INTERRUPTED in tool["content"]
    assert site.caller.look(chat)["approvals"] == []
    until(lambda: not site.served.marked and not find_sleeping())
    if site.engine == "codex":  # its thread's count goes on, so the killed call is booked, too
        booked = [sum(one["tokens"][way] for one in messages) for way in ("input", "output")]
        # Codex may be killed before it has written the call's count: then it is unknown.
        assert booked in ([20, 10], [10, 5])


def test_crash(site: Site) -> None:
    stall = Stall()
    chat = site.create_chat("Begin.", Answer((Say("I begin."),), faults=(stall,)))
    stall.reached.result(PATIENCE)
    site.caller.client.close()  # it may have taken long
    programs = site.served.marked
    assert programs
    for program in programs:
        with suppress(ProcessLookupError):  # of several, some run for a moment only
            os.kill(program, signal.SIGKILL)
    stall.release()
    messages = site.finish(chat)
    assert messages[-1]["role"] == "error"
    site.supplier.forget()
    site.supplier.script(Say("Here I am."))
    site.caller.append(chat, "And then?")
    assert list_said(site.finish(chat))[-1] == ("assistant", "Here I am.")


def test_rate_limit(site: Site) -> None:
    site.restart(silence_seconds=20)
    limited = Refuse(429, "Too many requests", headers={"retry-after": "900"})
    chat = site.create_chat("Begin.", *[limited] * 30)
    until(lambda: site.caller.look(chat)["waitsUntil"], PATIENCE)
    (waiting,) = site.caller.client.prompts(chat)
    assert waiting["prompt"] == "Begin."
    assert site.caller.client.delete(f"/api/remote/chats/{chat}/queue/{waiting['id']}").status < 300
    site.restart()


def test_cost(site: Site) -> None:
    row = site.first_turn.booked
    assert row["tokens"] == {"input": 2 * 1400, "output": 2 * 50}
    assert Decimal(str(row["cost"])) == 2 * Decimal("0.00415")
    assert Decimal(str(site.first_turn.cost)) == 2 * Decimal("0.00415")


def test_budget(site: Site) -> None:
    """Also where the model says nothing meanwhile; what it has begun by then it may still do."""
    run = Answer((site.run_shell("echo again >> made.txt"),), usage=Tokens(input=20_000))
    site.supplier.script(*[run] * 9, Say("It is made."))
    client = site.caller.client
    wish = {"name": "often", "cron": "0 3 * * 1", "prompt": "Make it.", "model": site.engine}
    assert client.post("/api/schedules", {**wish, "budget": 0.1}).status == 201
    assert client.post("/api/schedules/often/run", None).status == 201

    def find_end() -> dict[str, Any] | None:
        [found] = client.get("/api/schedules/often/runs").json()["runs"]
        if found["chatId"]:
            for asked in site.caller.look(found["chatId"])["approvals"]:
                answer = f"/api/chat/{found['chatId']}/approvals/{asked['id']}"
                assert client.post(answer, {"decision": "allow"}).status == 200
        return None if found["state"] in ("queued", "running") else found

    ended: dict[str, Any] = until(find_end, PATIENCE)
    assert client.delete("/api/schedules/often").status == 204
    assert ended["state"] == "failed" and "its limit is 0.1 USD" in ended["note"], ended
    assert 0.1 <= ended["cost"] < 0.2
    assert len((site.workspace / "made.txt").read_text().splitlines()) <= 2


def test_model(site: Site) -> None:
    assert site.first_turn.requests[-1].model == MODEL
    assert site.second_turn.requests[-1].model == SMALL


def test_mode(site: Site) -> None:
    told = {"codex": "# Plan Mode", "claude-code": "Plan mode is active"}
    words = told.get(site.engine, "Plan mode")
    assert words not in site.first_turn.sent
    site.converse("Plan it.", Say("A plan."), mode="plan")
    assert words in json.dumps(site.supplier.requests[-1].body)


def test_system_prompt(site: Site) -> None:
    assert "Speak like a pirate." in site.first_turn.sent


def test_skill(site: Site) -> None:
    assert "Reply in seventeen syllables." in site.first_turn.sent


def test_project_files(site: Site) -> None:
    assert "Use tabs in this project." in site.first_turn.sent


def test_images(site: Site) -> None:
    picture = (site.workspace / PICTURE).read_bytes()
    found = re.findall(r'"(?:[^"]*base64,)?(iVBOR[^"]+)"', site.first_turn.sent)
    images = [base64.b64decode(one) for one in found]
    assert [read_pixels(image) for image in images] == [read_pixels(picture)]


def test_refused_image(site: Site) -> None:
    """The session of a program has the image for good: no later prompt would be answered."""
    upload = site.workspace / "uploads" / "refused.png"
    upload.parent.mkdir(exist_ok=True)
    upload.write_bytes(make_png())

    def answer(request: Request) -> Say | Refuse:
        if '"iVBOR' in (sent := json.dumps(request.body)) or "base64,iVBOR" in sent:
            return Refuse(400, "This model does not support image input")
        return Say("It is fine.")

    prompt = "What is this?\n\nAttached files:\n- uploads/refused.png"
    chat = site.create_chat(prompt, *[answer] * 30)  # Claude Code tries it several times
    assert list_said(site.finish(chat)) == [("user", prompt), ("assistant", "It is fine.")]
    assert "left out" in json.dumps(site.supplier.requests[-1].body)
    site.caller.append(chat, "And now?")
    messages = site.finish(chat)
    assert list_said(messages)[-2:] == [("user", "And now?"), ("assistant", "It is fine.")]
    assert "error" not in [one["role"] for one in messages]
    assert "What is this?" in json.dumps(site.supplier.requests[-1].body)


def test_output_schema(site: Site) -> None:
    pytest.importorskip("jsonschema", reason="jsonschema is not installed: pip install '.[schema]'")
    city = {
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
        "additionalProperties": False,
    }
    said = {"name": "Riga"}
    # Claude Code gives its model a tool for it.
    reply = (
        [Call("StructuredOutput", said), Say("Done.")]
        if site.engine == "claude-code"
        else [Say(json.dumps(said))]
    )
    chat = site.create_chat("Which city?", *reply, outputSchema=city)
    site.finish(chat)
    messages = site.caller.client.get(f"/api/chat/{chat}/messages").json()["messages"]
    assert messages[-1]["role"] == "assistant"
    assert json.loads(messages[-1]["content"]) == said
    assert messages[-1]["output"] == said
    assert '"additionalProperties": false' in json.dumps(site.supplier.requests[-1].body)


def test_mcp(site: Site) -> None:
    pytest.importorskip("mcp", reason="mcp is not installed: pip install '.[test]'")
    file = site.served.folder / "config" / "mcp.yml"
    command = [sys.executable, "-W", "ignore", str(MCP_SERVER), "stdio"]
    environment = {"TEA_TOKEN": "mint-0123456789"}
    tea = {"name": "tea", "command": command, "env": environment}
    leak = {**tea, "name": "leak", "command": [sys.executable, str(LEAKING_SERVER)]}
    lost = {"name": "lost", "url": "https://lost.example/${LOST_KEY}"}
    file.write_text(json.dumps({"servers": [tea, leak, lost]}))
    file.chmod(0o600)
    name, namespace = MCP_TOOLS[site.engine]
    try:
        look = Call(name, {"name": "TEA_TOKEN"}, namespace)
        pour, space = (part.replace("tea", "leak") for part in (name, namespace))
        leaky = Call(pour.replace("environment", "pour"), {}, space)
        chat = site.create_chat("Which tea?", look, leaky, Say("It is mint."))
        question, *_ = site.answer(chat, "allow")
        messages = site.caller.wait_until_idle(chat)
        sent = json.dumps(site.supplier.requests[-1].body)
    finally:
        file.unlink()
    assert question["tool"] == "mcp__tea__environment"
    # opencode does not tell what it would call the tool with.
    assert ("TEA_TOKEN" in question["subject"]) == (site.engine != "opencode")
    assert list_said(messages)[-1] == ("assistant", "It is mint.")
    assert "mint-0123456789" in sent
    (lacking,) = [one for one in site.list_told(chat) if "LOST_KEY" in one]
    assert "lost" in lacking and "is not set" in lacking
    (leaked,) = [one for one in site.list_told(chat) if "is no token" in one]
    assert "*** is no token" in leaked


def test_editor_mcp(site: Site) -> None:
    pytest.importorskip("mcp", reason="mcp is not installed: pip install '.[test]'")
    name, namespace = MCP_TOOLS[site.engine]
    secret = "mint-editor-0123456789"
    variables = [{"name": "TEA_TOKEN", "value": secret}]
    arguments = ["-W", "ignore", str(MCP_SERVER), "stdio"]
    tea = {"name": "tea", "command": sys.executable, "args": arguments, "env": variables}
    site.supplier.script(Call(name, {"name": "TEA_TOKEN"}, namespace), Say("It is mint."))
    with Editor(site.served.folder) as editor:
        editor.begin()
        made = editor.call("session/new", cwd=str(site.workspace), mcpServers=[tea])
        session = made["sessionId"]
        editor.call(
            "session/set_config_option", sessionId=session, configId="model", value=site.engine
        )
        asked = editor.ask(session, "Which tea?")
        until(lambda: site.caller.look(int(session))["chat"]["messageCount"], PATIENCE)
        questions = site.answer(int(session), "allow")
        assert editor.read_answer(asked)["result"] == {"stopReason": "end_turn"}
    assert str(MCP_SERVER) in questions[0]["subject"], "the server is asked about first"
    assert "environment" in questions[1]["tool"] + questions[1]["subject"]
    assert secret in json.dumps(site.supplier.requests[-1].body)


def test_hooks(site: Site) -> None:
    assert not (site.workspace / "first.txt").exists()
    assert "Wash up first." in site.hooked.sent


def test_own_hooks(site: Site) -> None:
    assert not (site.workspace / "second.txt").exists()
    assert "Dry up first." in site.hooked.sent


def test_every_behaviour_has_a_test_and_the_readme_shows_the_table() -> None:
    for behaviour in BEHAVIOURS:
        assert f"test_{behaviour}" in globals()
    assert all(engine in ENGINES and cell in BEHAVIOURS for engine, cell in MISSING)
    assert render_table() in (REPOSITORY / "agentd" / "agent" / "README.md").read_text()
