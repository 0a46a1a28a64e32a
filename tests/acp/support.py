"""An editor that speaks the Agent Client Protocol by hand, line by line, and an agent that asks."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, Self

from agentd.agent.engine import (
    Approver,
    EngineEvent,
    Question,
    ReplyCompleted,
    ReplyDelta,
    ToolStarted,
    ToolUsed,
    TurnRequest,
)
from agentd.chats.approval import ApprovalKind
from tests.support.daemon import KEY, PATIENCE, Engine

DIFF = "--- a/notes.txt\n+++ b/notes.txt\n@@ -1,2 +1,2 @@\n-buy milk\n+buy bread\n water\n"
PLAN = "- [x] read it\n- [ ] **change it** (now)\n- [ ] test it"


class AskingEngine(Engine):
    """Asks before it answers a prompt that begins with "run" or "which"; else it echoes."""

    async def run(
        self, assignment: TurnRequest, approver: Approver
    ) -> AsyncGenerator[EngineEvent, None]:
        """Carry out one prompt."""
        word, _, subject = assignment.prompt.partition(" ")
        if word not in ("run", "which"):
            async for event in super().run(assignment, approver):
                yield event
            return
        choices = ("red", "blue") if word == "which" else ()
        kind: ApprovalKind = "question" if choices else "shell"
        tool = "ask_person" if choices else "shell"
        yield ToolStarted(tool, subject)
        answer = await approver.ask(Question(kind, tool, subject, choices=choices))
        yield ToolUsed(tool, subject, answer.reason or "done", answer.allowed)
        yield ReplyCompleted(f"{'allowed' if answer.allowed else 'denied'}: {answer.reason}")


def say_all(assignment: TurnRequest) -> list[EngineEvent]:
    """Answer in pieces, with a plan, a change of a file and a failed command."""
    return [
        ReplyDelta("I "),
        ReplyDelta("see."),
        ReplyCompleted("I see."),
        ToolStarted("update_todos", "items=..."),
        ToolUsed("update_todos", "items=...", PLAN),
        ToolStarted("edit_file", "path=notes.txt"),
        ToolUsed("edit_file", "path=notes.txt", "changed", diff=DIFF),
        ToolStarted("shell", "command=make test"),
        ToolUsed("shell", "command=make test", "it broke", ok=False),
        ReplyDelta("Do"),
        ReplyCompleted("Done."),
    ]


class Editor:
    """A running ``agentd acp``, and what it has written."""

    def __init__(self, folder: Path, *words: str, key: str | None = KEY) -> None:
        environ = {name: value for name, value in os.environ.items() if name != "AGENTD_KEY"}
        self.folder = folder
        self.updates: list[Any] = []
        """The updates of sessions that were read."""
        self.requests: list[Any] = []
        """The requests of the agent that were read."""
        self.withdrawn: list[Any] = []
        """The ids of requests that the agent has withdrawn."""
        self._answers: dict[Any, Any] = {}
        self._last = 0
        self._child = subprocess.Popen(
            [
                *(sys.executable, "-m", "agentd", "acp"),
                *("--state", str(folder / "state"), "--config", str(folder / "config")),
                *words,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environ if key is None else {**environ, "AGENTD_KEY": key},
            cwd=folder,
        )
        self._timer = threading.Timer(3 * PATIENCE, self._child.kill)
        self._timer.start()

    def __enter__(self) -> Self:
        """Return the editor itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the program."""
        self._child.kill()
        self._child.communicate()
        self._timer.cancel()

    def write(self, line: bytes) -> None:
        """Write a line, whatever it is."""
        assert self._child.stdin
        self._child.stdin.write(line + b"\n")
        self._child.stdin.flush()

    def send(self, method: str, **params: Any) -> int:
        """Send a request and return its id."""
        self._last += 1
        message = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}
        self.write(json.dumps(message).encode())
        return self._last

    def notify(self, method: str, **params: Any) -> None:
        """Send a notification."""
        self.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    def respond(self, request: Any, **result: Any) -> None:
        """Answer a request of the agent."""
        message = {"jsonrpc": "2.0", "id": request["id"], "result": result}
        self.write(json.dumps(message).encode())

    def read(self) -> Any:
        """Return the next message, which is noted too."""
        assert self._child.stdout
        line = self._child.stdout.readline()
        assert line, self._child.communicate()[1]
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        match message.get("method"):
            case "session/update":
                self.updates.append(message["params"]["update"])
            case "$/cancel_request":
                self.withdrawn.append(message["params"]["requestId"])
            case None:
                self._answers[message["id"]] = message
            case _:
                self.requests.append(message)
        return message

    def read_answer(self, number: Any) -> Any:
        """Return the answer to a request."""
        while number not in self._answers:
            self.read()
        return self._answers.pop(number)

    def read_request(self) -> Any:
        """Return the next request of the agent."""
        while not self.requests:
            self.read()
        return self.requests.pop(0)

    def read_until(self, is_there: Callable[[], object]) -> None:
        """Read until something is there."""
        while not is_there():
            self.read()

    def call(self, method: str, **params: Any) -> Any:
        """Send a request and return its result."""
        answer = self.read_answer(self.send(method, **params))
        assert "result" in answer, answer
        return answer["result"]

    def refuse(self, method: str, **params: Any) -> Any:
        """Send a request and return its error."""
        answer = self.read_answer(self.send(method, **params))
        assert "error" in answer, answer
        return answer["error"]

    def begin(self, **capabilities: Any) -> None:
        """Send the first request."""
        found = self.call("initialize", protocolVersion=1, clientCapabilities=capabilities)
        assert found["protocolVersion"] == 1

    def open(self, **more: Any) -> str:
        """Begin a session in the workspace, and return its id."""
        made = self.call("session/new", cwd=str(self.folder), mcpServers=[], **more)
        return str(made["sessionId"])

    def ask(self, session: str, text: str) -> int:
        """Send a prompt and return the request's id."""
        return self.send("session/prompt", sessionId=session, prompt=[write_text(text)])

    def list_updates(self, kind: str) -> list[Any]:
        """Return the updates of a kind."""
        return [one for one in self.updates if one["sessionUpdate"] == kind]

    @property
    def reply(self) -> str:
        """The text of the agent so far."""
        return "".join(one["content"]["text"] for one in self.list_updates("agent_message_chunk"))

    def end(self) -> tuple[int, str]:
        """Close its standard input; return its exit code and what it said."""
        errors = self._child.communicate(timeout=PATIENCE)[1]
        return self._child.returncode, errors.decode()


def write_text(text: str) -> dict[str, str]:
    """Return a block of text."""
    return {"type": "text", "text": text}
