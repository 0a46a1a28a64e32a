# ruff: noqa: S311
"""Callers of the remote API that do all kinds of things at random, and remember what they saw."""

import contextlib
import http.client
import json
import random
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tests.crash.keys import KEY
from tests.crash.oracle import (
    GONE,
    Append,
    ExpectedChat,
    Found,
    Given,
    Register,
    Remove,
    Replace,
    Rewrite,
    Said,
    WaitingPrompt,
)

CHATS = 3
"""Chats that a caller works on at the same time."""
LONG_ENOUGH = 120
"""Prompts after which a caller lets a chat rest."""


class NoAnswer(Exception):
    """The daemon has died, or was never there: whether it was done is not known."""


@dataclass
class Wire:
    """A connection."""

    url: str
    connection: http.client.HTTPConnection = field(init=False)

    def __post_init__(self) -> None:
        address = urlsplit(self.url)
        self.connection = http.client.HTTPConnection(
            address.hostname or "", address.port, timeout=100
        )

    def close(self) -> None:
        """Hang up."""
        self.connection.close()

    def send(self, method: str, path: str, body: object = None) -> tuple[int, Any, str]:
        """Status, JSON body and ETag of an answer about the chats of the remote API."""
        return self.call(method, f"/api/remote/chats{path}", body)

    def call(
        self, method: str, path: str, body: object = None, login: dict[str, str] | None = None
    ) -> tuple[int, Any, str]:
        """Send a request to any path, by key or with the headers of a ``login``."""
        data = None if body is None else json.dumps(body).encode()
        headers = {**(login or {"X-API-Key": KEY}), "Content-Type": "application/json"}
        return self._exchange(method, path, data, headers)

    def call_raw(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, Any]:
        """Send any body with any headers; return the status and the JSON body."""
        return self._exchange(method, path, body or None, headers)[:2]

    def _exchange(
        self, method: str, path: str, data: bytes | None, headers: dict[str, str]
    ) -> tuple[int, Any, str]:
        try:
            self.connection.request(method, path, data, headers)
            answer = self.connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()
            raise NoAnswer from error
        return answer.status, json.loads(content or b"null"), answer.headers.get("ETag", "")

    def read_chat(self, chat: int) -> Found:
        """Read a chat at one moment: nothing moved from queue to history meanwhile."""
        while True:
            status, first, before = self.send("GET", f"/{chat}/queue")
            told, history, _ = self.send("GET", f"/{chat}/messages")
            _, _, after = self.send("GET", f"/{chat}/queue")
            if status != 200 or told != 200:
                return Found((), (), damage=f"{first} {history}")
            if before == after:
                return Found(_parse_queue(first), tuple(map(_parse_message, history["messages"])))


@dataclass
class World:
    """The knowledge that all callers share."""

    register: Register = field(default_factory=Register)
    chats: dict[int, ExpectedChat] = field(default_factory=dict)
    creating: set[str] = field(default_factory=set)
    """Texts of chats that were asked for, without an answer."""
    asked: set[str] = field(default_factory=set)
    removed: set[int] = field(default_factory=set)
    """Chats that were removed for ever."""
    violations: list[str] = field(default_factory=list)
    answers: int = 0
    """Changes that were acknowledged."""
    doubts: int = 0
    """Requests that were never answered."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def ask_chat(self, text: str) -> None:
        """Note that a chat with this prompt is about to be requested."""
        self.creating.add(text)

    def acknowledge_chat(self, text: str, chat: int) -> None:
        """Note that a creation was acknowledged: the prompt waits or was sent, its id unknown."""
        self.creating.discard(text)
        self.chats[chat] = ExpectedChat(first=text)

    def complain(self, where: object, complaints: Iterable[str]) -> None:
        """Something is wrong."""
        self.violations += [f"{where}: {complaint}" for complaint in complaints]

    def give(self, kind: str, number: int) -> None:
        """Note that something new got a number."""
        with self.lock:
            self.complain("ids", self.register.give(kind, number))
            self.answers += 1

    def check(self, chat: int, found: Found) -> None:
        """Compare, and go on from what was found."""
        expected = self.chats[chat]
        self.complain(f"chat {chat}", expected.find_violations(found))
        self.complain(f"chat {chat}", self.register.note(found))
        expected.settle(found)

    def adopt(self, chat: int, found: Found) -> None:
        """Adopt a chat whose creation was never answered."""
        texts = {said.text for said in found.messages} | {row.text for row in found.queue}
        if not texts & self.creating:
            self.complain(f"chat {chat}", [f"nobody asked for it: {found}"])
        self.chats[chat] = ExpectedChat(maybe=texts & self.creating)


NOTED = {"ask", "acknowledge_change", "acknowledge_append", "acknowledge_queue", "note_messages"}


class NotedState:
    """Wraps the expected state of a chat and notes each call that changes it."""

    def __init__(self, chat: int, expected: ExpectedChat, tell: Callable[..., None]) -> None:
        self._chat = chat
        self._expected = expected
        self._tell = tell

    def __getattr__(self, name: str) -> Any:
        """Return the attribute of the wrapped state."""
        value = getattr(self._expected, name)
        if name not in NOTED:
            return value

        def note_and_call(*what: Any, **named: Any) -> None:
            self._tell(self._chat, name, what, named)
            value(*what, **named)

        return note_and_call


class NotedWorld(World):
    """Has ``tell`` note, in order, what was asked before it leaves and answered once it came."""

    def __init__(self, tell: Callable[..., None]) -> None:
        super().__init__()
        self._tell = tell

    def ask_chat(self, text: str) -> None:
        """Note it and pass it on."""
        self._tell(0, "ask_chat", (text,), {})
        super().ask_chat(text)

    def acknowledge_chat(self, text: str, chat: int) -> None:
        """Note it and pass it on."""
        self._tell(0, "acknowledge_chat", (text, chat), {})
        super().acknowledge_chat(text, chat)
        self.expect(chat)

    def expect(self, chat: int) -> ExpectedChat:
        """Return the expected state of a chat; from now on its changes are noted."""
        expected = self.chats.get(chat, ExpectedChat())
        self.chats[chat] = NotedState(chat, expected, self._tell)  # type: ignore[assignment]
        return expected


def replay_notes(notes: Iterable[tuple[Any, ...]]) -> tuple[World, list[Given]]:
    """Return the expected states after these notes, and the prompts that the engine received."""
    world, given = World(), []
    for chat, name, what, named in notes:
        if name == "given":
            given.append(Given(*what))
        else:
            getattr(world.chats[chat] if chat else world, name)(*what, **named)
    return world, given


class Caller:
    """A program that uses the API, on chats of its own."""

    def __init__(self, name: str, world: World, seed: int) -> None:
        self.name = name
        self.world = world
        self.random = random.Random(f"{seed} {name}")
        self.chats: list[int] = []
        self.forgets = False
        """A bug to build in: of some answers it forgets that it got them."""
        self._texts = 0

    def run_until_death(self, url: str, stop: threading.Event) -> None:
        """Do one thing after another until the daemon dies."""
        with contextlib.closing(Wire(url)) as wire, contextlib.suppress(NoAnswer):
            while not stop.is_set():
                self.send_one(wire)

    def send_one(self, wire: Wire) -> None:
        """Send one request."""
        chat = self.random.choice(self.chats) if self.chats else 0
        if not chat or (len(self.chats) < CHATS and self.random.random() < 0.1):
            self.create(wire)
            return
        expected = self.world.chats[chat]
        if len(expected.prompts) > LONG_ENOUGH:
            self.chats.remove(chat)
            return
        actions = [self._append, self._rewrite, self._remove, self._replace, self._look]
        weights = [10 if len(expected.order) < 12 else 1, 3, 2, 3, 4]
        self.random.choices(actions, weights)[0](wire, chat, expected)

    def _make_text(self) -> str:
        self._texts += 1
        size = self.random.choice([0, 0, 0, 100, 1000, 6000])
        text = f"{self.name}.{self._texts} " + "x" * self.random.randrange(size + 1)
        with self.world.lock:
            self.world.asked.add(text.strip())
        return text.strip()

    def append(self, wire: Wire, chat: int) -> None:
        """Send a prompt to a chat."""
        self._append(wire, chat, self.world.chats[chat])

    def create(self, wire: Wire) -> None:
        """Create a chat with a prompt."""
        text = self._make_text()
        self.world.ask_chat(text)
        status, body, _ = wire.send("POST", "", {"prompt": text})
        if self._check_status(status, 201, body):
            self.world.acknowledge_chat(text, body["chatId"])
            self.world.give("chat", body["chatId"])
            self.chats.append(body["chatId"])

    def _append(self, wire: Wire, chat: int, expected: ExpectedChat) -> None:
        wish = Append(self._make_text())
        expected.ask(wish)
        status, body, _ = wire.send("POST", f"/{chat}/queue", {"prompt": wish.text})
        if self._check_status(status, 201, body):
            expected.acknowledge_append(wish, body["id"])
            self.world.give("prompt", body["id"])

    def _rewrite(self, wire: Wire, chat: int, expected: ExpectedChat) -> None:
        if not expected.order:
            return
        wish = Rewrite(self.random.choice(expected.order), self._make_text())
        expected.ask(wish)
        path = f"/{chat}/queue/{wish.id}"
        status, body, _ = wire.send("PUT", path, {"prompt": wish.text})
        if status == 404 or self._check_status(status, 200, body):
            expected.acknowledge_change(wish, there=status != 404)
            self.world.answers += 1

    def _remove(self, wire: Wire, chat: int, expected: ExpectedChat) -> None:
        if not expected.order:
            return
        # The highest is the one whose number a careless store would give away again.
        prompt = max(expected.order) if self.random.random() < 0.5 else expected.order[0]
        wish = Remove(prompt)
        expected.ask(wish)
        status, body, _ = wire.send("DELETE", f"/{chat}/queue/{prompt}")
        if status == 404 or self._check_status(status, 204, body):
            expected.acknowledge_change(wish, there=status != 404)
            self.world.answers += 1

    def _replace(self, wire: Wire, chat: int, expected: ExpectedChat) -> None:
        kept = [one for one in expected.order if GONE not in expected.prompts[one].places]
        kept = self.random.sample(kept, self.random.randrange(len(kept) + 1))
        rows = [WaitingPrompt(one, self._make_text(), self.random.random() < 0.5) for one in kept]
        for _ in range(self.random.randrange(4)):
            row = WaitingPrompt(0, self._make_text(), self.random.random() < 0.5)
            rows.insert(self.random.randrange(len(rows) + 1), row)
        wish = Replace(tuple(rows))
        expected.ask(wish)
        wanted = [{"id": row.id, "prompt": row.text, "isPaused": row.paused} for row in rows]
        status, body, _ = wire.send("PUT", f"/{chat}/queue", {"prompts": wanted})
        if self._check_status(status, 200, body):
            queue = _parse_queue(body)
            for row in queue:
                if row.id not in expected.prompts:
                    self.world.give("prompt", row.id)
            expected.acknowledge_queue(wish, queue)
            self.world.answers += 1

    def _look(self, wire: Wire, chat: int, expected: ExpectedChat) -> None:
        if self.random.random() < 0.5:
            status, body, _ = wire.send("GET", f"/{chat}/status")
            self._check_status(status, 200, body)
            return
        status, body, _ = wire.send("GET", f"/{chat}/messages")
        if self._check_status(status, 200, body):
            expected.note_messages(tuple(map(_parse_message, body["messages"])))

    def _check_status(self, status: int, wanted: int, body: object) -> bool:
        if status != wanted:
            self.world.complain(self.name, [f"answered {status}: {body}"])
        return status == wanted and not (self.forgets and self.random.random() < 0.1)


def _parse_queue(body: dict[str, Any]) -> tuple[WaitingPrompt, ...]:
    return tuple(
        WaitingPrompt(row["id"], row["prompt"], row["isPaused"]) for row in body["prompts"]
    )


def _parse_message(row: dict[str, Any]) -> Said:
    return Said(row["id"], row["role"], row["content"])
