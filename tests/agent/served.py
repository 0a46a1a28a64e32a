"""The daemon as a process with engines of a test's own, called as a person's program would."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from agentd.system.process import MARK
from tests.support.daemon import Client, until
from tests.test_daemon import Process

PATIENCE = 90.0
"""Seconds: real engines start slowly on a busy machine."""


class ServedAgent:
    """A daemon over ``folder``, whose workspace is ``folder/workspace``; ``start`` it."""

    def __init__(self, folder: Path, models: dict[str, Any], **settings: Any) -> None:
        self.folder = folder
        self.workspace = folder / "workspace"
        self.workspace.mkdir(exist_ok=True)
        config = folder / "config"
        config.mkdir(exist_ok=True)
        # JSON is YAML.
        (config / "models.yml").write_text(json.dumps(models))
        said = {"workspace": str(self.workspace), **settings}
        (config / "agentd.yml").write_text(json.dumps(said))
        self._process: Process | None = None

    @property
    def process(self) -> Process:
        """The one that runs."""
        assert self._process
        return self._process

    @contextmanager
    def running(self, **environ: str) -> Iterator["Caller"]:
        """A daemon for as long as the block lasts, and a caller of it."""
        process = self._process = Process(self.folder, **environ)
        caller = None
        try:
            caller = Caller(process.up().client())
            yield caller
        finally:
            if caller:
                caller.client.close()
            process.child.kill()
            process.child.wait()

    @property
    def marked(self) -> list[int]:
        """The living programs that were started for a turn of this daemon, or of one before."""
        generation = json.loads(Path(self.process.layout.format).read_text())["generation"]
        return find_marked(generation)


def build_native(folder: Path, supplier_url: str, **settings: Any) -> ServedAgent:
    """Return a daemon whose native engine works with a scripted supplier."""
    models = {
        "suppliers": {"acme": {"dialect": "anthropic", "url": supplier_url, "key": "sk-1"}},
        "models": [{"name": "m", "engine": "native", "model": "large", "supplier": "acme"}],
        "default": "m",
    }
    made = ServedAgent(folder, models, **settings)
    (folder / "config" / "models.yml").chmod(0o600)
    return made


class Caller:
    """The requests that a person's program sends to the daemon."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.client.connection.timeout = PATIENCE

    def create_chat(self, prompt: str, **wish: str) -> int:
        """Create a chat with a prompt."""
        return self.client.create_chat(prompt=prompt, **wish)

    def append(self, chat: int, prompt: str, **more: str) -> None:
        """Append a prompt to the queue."""
        reply = self.client.post(f"/api/remote/chats/{chat}/queue", {"prompt": prompt, **more})
        assert reply.status == 201, reply.body

    def wait_until_idle(self, chat: int) -> list[dict[str, Any]]:
        """Return the messages, once no turn runs and no prompt waits."""
        until(lambda: self.client.status(chat, 10)["status"] == "completed", PATIENCE)
        return self.client.messages(chat)

    def cut_off(self, chat: int) -> list[dict[str, Any]]:
        """Return the messages that report an interruption."""
        found = self.client.get(f"/api/chat/{chat}/messages").json()["messages"]
        return [one for one in found if "Interrupted" in one["content"]]

    def look(self, chat: int) -> dict[str, Any]:
        """Return the chat and the state of its agent."""
        found: dict[str, Any] = self.client.get(f"/api/chat/{chat}").json()
        return found

    def wait_for_question(self, chat: int) -> dict[str, Any]:
        """Return the next open question; fail when the turn ends without one."""

        def read_questions() -> Any:
            found = self.look(chat)
            assert found["approvals"] or found["chat"]["status"] != "completed", found
            return found["approvals"]

        found: dict[str, Any] = until(read_questions, PATIENCE)[0]
        return found

    def allow(self, chat: int) -> dict[str, Any]:
        """Allow what is asked next; the question."""
        asked = self.wait_for_question(chat)
        path = f"/api/chat/{chat}/approvals/{asked['id']}"
        reply = self.client.post(path, {"decision": "allow"})
        assert reply.status == 200, reply.body
        return asked

    def stop(self, chat: int) -> None:
        """Stop the turn at work."""
        assert self.client.send("POST", f"/api/chat/{chat}/stop")["stopped"] is True

    def release(self, chat: int) -> None:
        """Let a held queue go on."""
        assert self.client.send("POST", f"/api/MessageQueue/{chat}/release")["held"] == ""


def find_marked(generation: str) -> list[int]:
    """Return the living processes with a mark of this generation in their environment."""
    mark = f"{MARK}={generation}.".encode()
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal() and mark in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found
