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
from pathlib import Path
from typing import Any

import pytest

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
from tests.support.daemon import until
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
SLEEP = "sleep 300.75"


def answer_own_requests(request: Request) -> Say | None:
    """Answer what programs ask by themselves: titles of sessions."""
    own = not request.tools or request.model not in (MODEL, SMALL)
    return Say("A title") if own else None


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

    def finish(self, chat: int) -> list[dict[str, Any]]:
        """Allow whatever is asked; return the messages when nothing is left to do."""
        self.answer(chat, "allow")
        return self.caller.wait_until_idle(chat)

    def answer(self, chat: int, decision: str, note: str = "") -> list[dict[str, Any]]:
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

        until(is_over, PATIENCE)
        return asked

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
    stall = Stall()
    chat = site.create_chat("One.", Answer((Say("First."),), faults=(stall,)))
    stall.reached.result(PATIENCE)
    site.caller.client.close()  # it may have taken long
    for prompt in ("Two.", "Three."):
        site.caller.append(chat, prompt)
    site.supplier.script(Say("Second."), Say("Third."))
    stall.release()
    assert list_said(site.finish(chat)) == [
        ("user", "One."),
        ("assistant", "First."),
        ("user", "Two."),
        ("assistant", "Second."),
        ("user", "Three."),
        ("assistant", "Third."),
    ]


def test_follow_up(site: Site) -> None:
    chat = site.create_chat("Look around.", site.run_shell("echo $((6*7))00"), Say("I see."))
    site.finish(chat)
    site.supplier.script(Say("As I said."))
    site.caller.append(chat, "And now?")
    assert list_said(site.finish(chat))[-1] == ("assistant", "As I said.")
    seen = str(site.supplier.requests[-1].turns)
    assert all(seen.count(text) == 1 for text in ("Look around.", "I see.", "And now?"))
    assert "4200" in seen


def test_restart(site: Site) -> None:
    chat = site.create_chat("Look around.", site.run_shell("echo $((6*7))00"), Say("I see."))
    site.finish(chat)
    site.restart()
    site.supplier.script(Say("As I said."))
    site.caller.append(chat, "And now?")
    assert list_said(site.finish(chat))[-1] == ("assistant", "As I said.")
    seen = str(site.supplier.requests[-1].turns)
    assert all(seen.count(text) == 1 for text in ("Look around.", "I see.", "And now?"))
    assert "4200" in seen


def test_write(site: Site) -> None:
    chat = site.create_chat("Make it.", site.write_file(), Say("It is made."))
    made = site.workspace / "made.txt"
    question = site.wait_for_question(chat)
    assert "made.txt" in question["subject"]
    assert not made.exists()
    messages = site.finish(chat)
    assert made.read_text() == "hello\n"
    assert list_said(messages)[-1] == ("assistant", "It is made.")


def test_shell_allowed(site: Site) -> None:
    chat = site.create_chat("Make it.", site.run_shell("touch made.txt"), Say("It is made."))
    question = site.wait_for_question(chat)
    assert (question["kind"], question["subject"]) == ("shell", "touch made.txt")
    assert not (site.workspace / "made.txt").exists()
    assert list_said(site.finish(chat))[-1] == ("assistant", "It is made.")
    assert (site.workspace / "made.txt").exists()


def test_shell_denied(site: Site) -> None:
    chat = site.create_chat("Make it.", site.run_shell("touch made.txt"), Say("Then not."))
    (question,) = site.answer(chat, "deny", "Not on a Friday.")
    assert question["subject"] == "touch made.txt"
    assert list_said(site.finish(chat))[-1] == ("assistant", "Then not.")
    assert not (site.workspace / "made.txt").exists()
    assert "Not on a Friday." in json.dumps(site.supplier.requests[-1].body)


def test_note(site: Site) -> None:
    # opencode has no way to hear it at once: it is told when it has ended.
    later = [Say("I heard.")] if site.engine == "opencode" else []
    run = site.run_shell("touch made.txt")
    chat = site.create_chat("Make it.", run, Say("It is made."), *later)
    site.answer(chat, "allow", note="Blue is the better colour.")
    site.caller.wait_until_idle(chat)
    assert (site.workspace / "made.txt").exists()
    assert "Blue is the better colour." in json.dumps(site.supplier.requests[-1].body)
    assert site.supplier.left == 0


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
    site.caller.allow(chat)
    until(lambda: find_processes(SLEEP.replace(" ", "\0")), PATIENCE)
    return chat


def test_stop(site: Site) -> None:
    chat = begin_to_sleep(site)
    site.caller.stop(chat)
    assert not find_processes(SLEEP.replace(" ", "\0"))
    assert not site.served.marked
    assert site.caller.look(chat)["held"]
    site.supplier.script(Say("Here I am."))
    site.caller.release(chat)
    assert list_said(site.finish(chat))[-2:] == [
        ("user", "And then?"),
        ("assistant", "Here I am."),
    ]


def test_kill_9(site: Site) -> None:
    chat = begin_to_sleep(site)
    site.served.process.end(signal.SIGKILL)
    site.stop()
    site.supplier.script(Say("Here I am."))
    site.start()
    messages = site.finish(chat)
    assert not find_processes(SLEEP.replace(" ", "\0"))
    assert list_said(messages) == [
        ("user", "Sleep."),
        ("user", "And then?"),
        ("assistant", "Here I am."),
    ]
    assert [one["role"] for one in messages if "Interrupted" in one["content"]]


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
    run = site.run_shell("touch made.txt")
    chat = site.create_chat(
        "Make it.",
        Answer((run,), usage=ONE_CALL),
        Answer((Say("It is made."),), usage=ONE_CALL),
    )
    site.finish(chat)
    rows = site.caller.client.get("/api/analytics?by=chat")["rows"]
    (row,) = (row for row in rows if row["name"] == str(chat))
    assert row["tokens"] == {"input": 2 * 1400, "output": 2 * 50}
    assert Decimal(str(row["cost"])) == 2 * Decimal("0.00415")
    assert Decimal(str(site.caller.client.status(chat)["totalCost"])) == 2 * Decimal("0.00415")


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
    chat = site.create_chat("One.", Say("First."))
    site.finish(chat)
    assert site.supplier.requests[-1].model == MODEL
    site.supplier.script(Say("Second."))
    site.caller.append(chat, "Two.", model="small")
    assert list_said(site.finish(chat))[-1] == ("assistant", "Second.")
    assert site.supplier.requests[-1].model == SMALL


def test_mode(site: Site) -> None:
    told = {"codex": "# Plan Mode", "claude-code": "Plan mode is active"}
    words = told.get(site.engine, "Plan mode")
    site.converse("Do it.", Say("Done."))
    assert words not in json.dumps(site.supplier.requests[-1].body)
    site.converse("Plan it.", Say("A plan."), mode="plan")
    assert words in json.dumps(site.supplier.requests[-1].body)


def test_system_prompt(site: Site) -> None:
    site.converse("Begin.", Say("Done."), systemPrompt="Speak like a pirate.")
    assert "Speak like a pirate." in json.dumps(site.supplier.requests[-1].body)


def test_skill(site: Site) -> None:
    site.converse("Begin.", Say("Done."), skill="haiku")
    assert "Reply in seventeen syllables." in json.dumps(site.supplier.requests[-1].body)


def test_project_files(site: Site) -> None:
    site.converse("Begin.", Say("Done."))
    assert "Use tabs in this project." in json.dumps(site.supplier.requests[-1].body)


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


def test_images(site: Site) -> None:
    picture = make_png()
    upload = site.workspace / "uploads" / "dots.png"
    upload.parent.mkdir(exist_ok=True)
    upload.write_bytes(picture)
    site.converse("What is this?\n\nAttached files:\n- uploads/dots.png", Say("Dots."))
    sent = json.dumps(site.supplier.requests[-1].body)
    images = [
        base64.b64decode(found) for found in re.findall(r'"(?:[^"]*base64,)?(iVBOR[^"]+)"', sent)
    ]
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
        chat = site.create_chat(
            "Which tea?", Call(name, {"name": "TEA_TOKEN"}, namespace), Say("It is mint.")
        )
        (question,) = site.answer(chat, "allow")
        messages = site.caller.wait_until_idle(chat)
        sent = json.dumps(site.supplier.requests[-1].body)
        pour, space = (part.replace("tea", "leak") for part in (name, namespace))
        call = Call(pour.replace("environment", "pour"), {}, space)
        leaking = site.create_chat("Pour it.", call, Say("It cannot be poured."))
        site.answer(leaking, "allow")
        site.caller.wait_until_idle(leaking)
    finally:
        file.unlink()
    assert question["tool"] == "mcp__tea__environment"
    # opencode does not tell what it would call the tool with.
    assert ("TEA_TOKEN" in question["subject"]) == (site.engine != "opencode")
    assert list_said(messages)[-1] == ("assistant", "It is mint.")
    assert "mint-0123456789" in sent
    (lacking,) = [one for one in site.list_told(chat) if "LOST_KEY" in one]
    assert "lost" in lacking and "is not set" in lacking
    (leaked,) = [one for one in site.list_told(leaking) if "is no token" in one]
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


def test_commands(site: Site) -> None:
    folder = site.served.folder / "config" / "commands"
    folder.mkdir()
    (folder / "brew.md").write_text("---\ndescription: Makes tea\n---\nBrew $1 for $2.\n")
    try:
        messages = site.converse("/brew mint 'two guests'", Say("It is brewed."))
    finally:
        shutil.rmtree(folder)
    assert list_said(messages)[-1] == ("assistant", "It is brewed.")
    sent = str(site.supplier.requests[-1].turns)
    assert "Brew mint for two guests." in sent
    assert "/brew" not in sent


def test_own_commands(site: Site) -> None:
    folders = [site.workspace / one for one in (".claude/commands", ".opencode/command")]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "steep.md").write_text("---\ndescription: Makes tea\n---\nSteep $1 slowly.\n")
    try:
        messages = site.converse("/steep mint", Say("It is steeped."))
    finally:
        for folder in folders:
            shutil.rmtree(folder.parent)
    assert list_said(messages)[-1] == ("assistant", "It is steeped.")
    assert "Steep mint slowly." in str(site.supplier.requests[-1].turns)


BLOCKING_HOOK = {"hooks": [{"type": "command", "command": "echo Wash up first. >&2; exit 2"}]}


def expect_block(site: Site) -> None:
    """Check that a hook keeps a command from running, and that the model reads why."""
    site.converse("Make it.", site.run_shell("touch made.txt"), Say("Then not."))
    assert not (site.workspace / "made.txt").exists()
    assert "Wash up first." in json.dumps(site.supplier.requests[-1].body)


def test_hooks(site: Site) -> None:
    file = site.served.folder / "config" / "hooks.yml"
    file.write_text(json.dumps({"hooks": {"PreToolUse": [BLOCKING_HOOK]}}))
    file.chmod(0o600)
    try:
        expect_block(site)
    finally:
        file.unlink()


def test_own_hooks(site: Site) -> None:
    folder = site.workspace / ".claude"
    folder.mkdir()
    hooks = {"hooks": {"PreToolUse": [BLOCKING_HOOK]}}
    (folder / "settings.json").write_text(json.dumps(hooks))
    try:
        expect_block(site)
    finally:
        shutil.rmtree(folder)


def test_every_behaviour_has_a_test_and_the_readme_shows_the_table() -> None:
    for behaviour in BEHAVIOURS:
        assert f"test_{behaviour}" in globals()
    assert all(engine in ENGINES and cell in BEHAVIOURS for engine, cell in MISSING)
    assert render_table() in (REPOSITORY / "agentd" / "agent" / "README.md").read_text()
