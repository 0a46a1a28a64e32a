# ruff: noqa: S311
"""Callers that change what is beside chats' queues: files, labels, the trash, settings, keys.

Each has names of its own, so it knows what every name must be after a crash.
"""

import contextlib
import itertools
import random
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from agentd.chats.approval import Approval
from agentd.chats.records import ApprovalAnswered
from tests.crash import reading
from tests.crash.callers import Caller, NoAnswer, Wire, World
from tests.crash.expected_values import ExpectedValues, Value
from tests.crash.keys import KEY, MANAGEMENT_KEY

MOST = 6
"""Things of a kind that a caller has at the same time."""
_MANAGER = {"X-API-Key": MANAGEMENT_KEY}


class ResourceCaller(ABC):
    """A program that changes one kind of thing at random, and remembers what it was told."""

    name = ""

    def __init__(self, world: World, seed: int, state: str) -> None:
        self.world = world
        self.state = state
        self.seed = seed
        self.expected = ExpectedValues()
        self.random = random.Random(f"{seed} {self.name}")
        self._numbers = itertools.count(1)

    def run_until_death(self, url: str, stop: threading.Event) -> None:
        """Change one thing after another until the daemon dies."""
        with contextlib.closing(Wire(url)) as wire, contextlib.suppress(NoAnswer):
            while not stop.is_set():
                self.change_one(wire)
                stop.wait(0.002)

    def compare(self, wire: Wire) -> None:
        """Compare what a daemon that was just started shows, and go on from there."""
        found = self.read(wire)
        self.world.complain(self.name, self.expected.find_violations(found))
        self.expected.settle(found)

    @abstractmethod
    def change_one(self, wire: Wire) -> None:
        """Send one request."""

    @abstractmethod
    def read(self, wire: Wire) -> dict[str, Value]:
        """Return the value of each name that has one."""

    def request(
        self, wire: Wire, name: str, value: Value, send: Callable[[], tuple[int, Any]]
    ) -> Any:
        """Have a name given a value; return the answer's body."""
        self.expected.ask(name, value)
        status, body = send()
        self._take_answer(name, value, status, body)
        return body

    def call(
        self,
        wire: Wire,
        name: str,
        value: Value,
        method: str,
        path: str,
        body: object = None,
        login: dict[str, str] | None = None,
    ) -> Any:
        """Have a name given a value by a call with JSON; return the answer's body."""
        return self.request(wire, name, value, lambda: wire.call(method, path, body, login)[:2])

    def try_call(self, wire: Wire, name: str, value: Value, method: str, path: str) -> None:
        """Have a name given a value by a call that may be refused (409), which changes nothing."""
        before = self.expected.get(name)
        self.expected.ask(name, value)
        status, body, _ = wire.call(method, path)
        if status == 409:
            self.expected.acknowledge(name, before)
        else:
            self._take_answer(name, value, status, body)

    def _take_answer(self, name: str, value: Value, status: int, body: object) -> None:
        if not 200 <= status < 300:
            self.world.complain(self.name, [f"{name} = {value!r} is answered {status}: {body}"])
        else:
            self.expected.acknowledge(name, value)
            with self.world.lock:
                self.world.answers += 1

    def list_there(self) -> list[str]:
        """Return the names that have a value."""
        return [name for name in self.expected.possible if self.expected.get(name) is not None]

    def make_name(self) -> str:
        """Return a name that was never used."""
        return f"{self.name}-{next(self._numbers)}"


class Uploader(ResourceCaller):
    """Uploads and deletes files; a value is a size, and the content tells it, too."""

    name = "uploads"

    def change_one(self, wire: Wire) -> None:
        """Upload a file, or delete one."""
        there = self.list_there()
        if len(there) < self.random.randrange(MOST + 1):
            size = self.random.choice([1, 100, 5000, 200_000])
            self.request(wire, name := self.make_name(), size, lambda: _upload(wire, name, size))
        elif there:
            name = self.random.choice(there)
            self.call(wire, name, None, "DELETE", f"/api/files/{name}")

    def read(self, wire: Wire) -> dict[str, Value]:
        """Read the list, and the files themselves."""
        listed = wire.call("GET", "/api/files")[1]["files"]
        for row in listed:
            if Path(self.state, row["path"]).read_bytes() != b"x" * row["size"]:
                self.world.complain(self.name, [f"{row['name']} has another content"])
        return {row["name"]: row["size"] for row in listed}


def _upload(wire: Wire, name: str, size: int) -> tuple[int, Any]:
    head = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    headers = {"X-API-Key": KEY, "Content-Type": "multipart/form-data; boundary=x"}
    body = head.encode() + b"x" * size + b"\r\n--x--\r\n"
    return wire.call_raw("POST", "/api/files", body, headers)


class Organizer(ResourceCaller):
    """Makes labels, gives them to chats of its own, deletes, restores and removes these."""

    name = "organizer"

    def __init__(self, world: World, seed: int, state: str) -> None:
        super().__init__(world, seed, state)
        self._creator = Caller(self.name, world, seed)
        self._chats: list[int] = []
        self._labels: list[str] = []

    def change_one(self, wire: Wire) -> None:
        """Change a chat, or make a label or a chat."""
        if len(self._labels) < MOST and self.random.random() < 0.2:
            name = self.make_name()
            self.call(wire, f"label {name}", True, "POST", "/api/chat-labels", {"name": name})
            self._labels.append(name)
        elif len(self._chats) < MOST:
            self._creator.create(wire)
            for chat in self._creator.chats:
                self._chats.append(chat)
                self.expected.acknowledge(f"{chat} place", "there")
                self.expected.acknowledge(f"{chat} labels", ())
            self._creator.chats.clear()
        else:
            self._change_chat(wire, self.random.choice(self._chats))

    def _change_chat(self, wire: Wire, chat: int) -> None:
        place = f"{chat} place"
        if self.expected.get(place) == "trash":
            if self.random.random() < 0.3:
                self.expected.ask(f"{chat} labels", None)  # they go with the chat
                self.call(wire, place, None, "DELETE", f"/api/chats/trash/{chat}")
                self._forget(chat)
            else:
                self.call(wire, place, "there", "POST", f"/api/chats/{chat}/restore")
        elif self.random.random() < 0.3:
            # Refused while the agent works on it, as it may after a start.
            self.try_call(wire, place, "trash", "DELETE", f"/api/chats/{chat}")
        else:
            labels = self.random.sample(self._labels, self.random.randrange(len(self._labels) + 1))
            wish = {"labels": labels}
            path = f"/api/chats/{chat}/labels"
            self.call(wire, f"{chat} labels", tuple(sorted(labels)), "PUT", path, wish)

    def read(self, wire: Wire) -> dict[str, Value]:
        """Read the lists of labels and of chats, and the trash."""
        found: dict[str, Value] = {}
        labels = wire.call("GET", "/api/chat-labels")[1]["labels"]
        found.update({f"label {row['name']}": True for row in labels})
        for chat in self._chats:
            status, body, _ = wire.call("GET", f"/api/chats/{chat}")
            if status == 200:
                found[f"{chat} place"] = "there"
                found[f"{chat} labels"] = tuple(sorted(body["labels"]))
        for row in wire.call("GET", "/api/chats/trash")[1]["chats"]:
            chat = row["chat"]["chatId"]
            found[f"{chat} place"] = "trash"
            found[f"{chat} labels"] = tuple(sorted(row["chat"]["labels"]))
        return found

    def compare(self, wire: Wire) -> None:
        """Compare, and forget what was removed for ever."""
        super().compare(wire)
        for chat in list(self._chats):
            if self.expected.get(f"{chat} place") is None:
                self._forget(chat)

    def restore_all(self, wire: Wire) -> None:
        """Take everything out of the trash, so that all histories can be compared."""
        for chat in self._chats:
            if self.expected.get(f"{chat} place") == "trash":
                self.call(wire, f"{chat} place", "there", "POST", f"/api/chats/{chat}/restore")

    def _forget(self, chat: int) -> None:
        self._chats.remove(chat)
        self.expected.acknowledge(f"{chat} labels", None)
        self.world.chats.pop(chat)
        self.world.removed.add(chat)


class Setter(ResourceCaller):
    """Changes settings, which are in a file that people read, too."""

    name = "settings"

    def change_one(self, wire: Wire) -> None:
        """Change one setting."""
        name = self.random.choice(["max_parallel_turns", "drain_seconds"])
        value = self.random.randrange(2, 60)
        self.call(wire, name, value, "POST", "/api/settings/set", {name: value})

    def read(self, _: Wire) -> dict[str, Value]:
        """Read the file: of it, this daemon takes nothing."""
        path = Path(self.state, "..", "config", "agentd.yml")
        found = yaml.safe_load(path.read_text()) if path.exists() else None
        return found or {}


class KeyCaller(ResourceCaller):
    """Issues and revokes keys of one kind; no key that was revoked is ever good again."""

    def __init__(self, world: World, seed: int, state: str) -> None:
        super().__init__(world, seed, state)
        self.secrets: dict[str, str] = {}
        self.revoked: list[str] = []

    def compare(self, wire: Wire) -> None:
        """Compare the list, and try keys."""
        super().compare(wire)
        for name in self.list_there():
            good = name not in self.secrets or self.is_good(wire, self.secrets[name])
            if good != self.must_be_good(name):
                self.world.complain(
                    self.name, [f"{name}: its key is {'good' if good else 'refused'}"]
                )
        for name in self.secrets.keys() - set(self.list_there()):
            self.revoked.append(self.secrets.pop(name))
        # Only one of them: who comes with wrong keys is made to wait.
        latest = self.random.random() < 0.5
        for secret in self.revoked[-1:] if latest else self.random.choices(self.revoked or [""]):
            if secret and self.is_good(wire, secret):
                self.world.complain(self.name, ["a revoked key is good again"])

    def must_be_good(self, _: str) -> bool:
        """Return whether the key of a name that is there has to be taken."""
        return True

    @abstractmethod
    def is_good(self, wire: Wire, secret: str) -> bool:
        """Return whether the daemon takes this key."""


class NamedKeyCaller(KeyCaller):
    """Keys of the remote API."""

    name = "named-keys"

    def change_one(self, wire: Wire) -> None:
        """Issue a key, or revoke one."""
        there = self.list_there()
        if len(there) < self.random.randrange(MOST + 1):
            name = self.make_name()
            self.secrets[name] = self.call(wire, name, True, "POST", "/api/keys", {"name": name})[
                "key"
            ]
        elif there:
            name = self.random.choice(there)
            self.call(wire, name, None, "DELETE", f"/api/keys/{name}")
            self.revoked += [self.secrets.pop(one) for one in [name] if one in self.secrets]

    def read(self, wire: Wire) -> dict[str, Value]:
        """Read the list."""
        listed = wire.call("GET", "/api/keys")[1]["keys"]
        return {row["name"]: True for row in listed if not row["revoked"]}

    def is_good(self, wire: Wire, secret: str) -> bool:
        """Return whether the daemon takes this key."""
        return wire.call("GET", "/api/chats?limit=1", None, {"X-API-Key": secret})[0] == 200


class AccessKeyCaller(KeyCaller):
    """Keys of the gateway; a value is the limit of a day, and whether the key is enabled."""

    name = "access-keys"

    def __init__(self, world: World, seed: int, state: str) -> None:
        super().__init__(world, seed, state)
        self._ids: dict[str, str] = {}

    def change_one(self, wire: Wire) -> None:
        """Issue a key, or change, disable, enable or delete one."""
        there = [name for name in self.list_there() if name in self._ids]
        if len(there) < self.random.randrange(MOST + 1):
            name, day = self.make_name(), self.random.randrange(1, 100)
            wish = {"name": name, "limits": {"day": day}}
            path = "/api/agent/keys"
            made = self.call(wire, name, (day, True), "POST", path, wish, _MANAGER)
            self.secrets[name], self._ids[name] = made["key"], made["id"]
        elif there:
            self._change_key(wire, self.random.choice(there))

    def _change_key(self, wire: Wire, name: str) -> None:
        value = self.expected.get(name)
        assert isinstance(value, tuple)
        path, (day, enabled) = f"/api/agent/keys/{self._ids[name]}", value
        match self.random.randrange(3):
            case 0:
                self.call(wire, name, None, "DELETE", path, None, _MANAGER)
                self.revoked.append(self.secrets.pop(name))
            case 1:
                verb = "disable" if enabled else "enable"
                self.call(wire, name, (day, not enabled), "POST", f"{path}/{verb}", None, _MANAGER)
            case _:
                day = self.random.randrange(1, 100)
                wish = {"limits": {"day": day}}
                self.call(wire, name, (day, enabled), "PATCH", path, wish, _MANAGER)

    def read(self, wire: Wire) -> dict[str, Value]:
        """Read the list of this caller's keys."""
        status, body, _ = wire.call("GET", "/api/agent/keys?limit=200", None, _MANAGER)
        assert status == 200, body
        return {
            row["name"]: (row["limits"]["day"], row["enabled"])
            for row in body["items"]
            if row["name"].startswith(self.name)
        }

    def is_good(self, wire: Wire, secret: str) -> bool:
        """Return whether the gateway takes this key."""
        login = {"Authorization": f"Bearer {secret}"}
        return wire.call("GET", "/v1/models", None, login)[0] == 200

    def must_be_good(self, name: str) -> bool:
        """Return whether the key is enabled; one whose secret was never told counts as good."""
        value = self.expected.get(name)
        return name not in self.secrets or (isinstance(value, tuple) and value[1] is True)


class Decider(ResourceCaller):
    """Answers what the engine asks in a chat of its own; a decision is made once, for good."""

    name = "ask"
    """The engine asks before it carries out a prompt that begins so."""

    def __init__(self, world: World, seed: int, state: str) -> None:
        super().__init__(world, seed, state)
        self._creator = Caller(self.name, world, seed)
        self._subjects: dict[str, str] = {}
        """The prompt of each question that was answered."""

    def change_one(self, wire: Wire) -> None:
        """Answer a question, or send a prompt that the engine asks about."""
        if not self._creator.chats:
            self._creator.create(wire)
            return
        chat = self._creator.chats[0]
        asked = wire.call("GET", f"/api/chat/{chat}/approvals")[1]["approvals"]
        if not asked and not wire.send("GET", f"/{chat}/queue")[1]["prompts"]:
            self._creator.append(wire, chat)
        for row in asked:
            decision = self.random.choice(["allow", "deny"])
            value = {"allow": "allowed", "deny": "denied"}[decision]
            path = f"/api/chat/{chat}/approvals/{row['id']}"
            self.call(wire, f"{row['id']}", value, "POST", path, {"decision": decision})

    def read(self, wire: Wire) -> dict[str, Value]:
        """Read the decisions in the history; what the turn's end withdrew is none."""
        found: dict[str, Value] = {}
        for chat in self._creator.chats:
            for decided in _list_decisions(Path(self.state, "chats", str(chat), "journal.jsonl")):
                if str(decided.id) in found:
                    self.world.complain(self.name, [f"question {decided.id} is decided twice"])
                if decided.state in ("allowed", "denied"):
                    found[str(decided.id)] = decided.state
                    self._subjects[decided.subject] = decided.state
        self.world.complain(self.name, self._find_false_decisions())
        return found

    def _find_false_decisions(self) -> Iterator[str]:
        """Yield what the engine was told otherwise than the journal has it, or twice."""
        told = reading.read_decisions(str(Path(self.state, "..", "ledger.jsonl")))
        for subject, times in Counter(subject for subject, _ in told).items():
            if times > 1:
                yield f"the engine was told {times} times what was decided about {subject}"
        for subject, allowed in told:
            if allowed and self._subjects.get(subject) != "allowed":
                yield f"the engine was allowed {subject}, and the journal does not say so"


def _list_decisions(journal: Path) -> Iterator[Approval]:
    for entry in reading.read_entries(str(journal)):
        if isinstance(entry.body, ApprovalAnswered):
            yield entry.body.approval


KINDS = (Uploader, Organizer, Setter, NamedKeyCaller, AccessKeyCaller, Decider)
