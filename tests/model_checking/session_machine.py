"""A live connection with stateful reconnect, and a client that loses its link at any moment.

The client counts records as Microsoft's clients do: after a break it says from which number on it
sends, the server from which on it sends again, and what was received before is skipped. Whatever
breaks, each event must reach the client once, in order, and each call must be carried out once.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.live.signalr.driving import PING, STATEFUL, Drive
from tests.model_checking.explorer import Subject

TRACKED = range(1, 6)
"""The types of messages that both sides count."""


class StatefulClient:
    """The receiving and sending side of a client that can resume."""

    def __init__(self) -> None:
        self.events: list[int] = []
        self.completed: list[str] = []
        self.received = 0
        self.next = 1
        """The number of the server's next counted record."""
        self.sent: list[dict[str, Any]] = []
        """Its calls, the first of which has number 1."""
        self.acknowledged = 0

    def receive(self, records: list[dict[str, Any]]) -> None:
        """Take records from the link."""
        for record in records:
            if record.get("type") == 8:
                self.acknowledged = max(self.acknowledged, record["sequenceId"])
            elif record.get("type") == 9:
                assert record["sequenceId"] <= self.received + 1, f"a gap before {record}"
                self.next = record["sequenceId"]
            elif record.get("type") in TRACKED:
                number, self.next = self.next, self.next + 1
                if number > self.received:
                    self.received = number
                    self._take(record)

    def _take(self, record: dict[str, Any]) -> None:
        if record["type"] == 1:
            self.events.append(record["arguments"][1]["n"])
        else:
            self.completed.append(record["invocationId"])


class SessionMachine:
    """The real connection, and its client."""

    def __init__(self) -> None:
        self._drive = Drive(STATEFUL)
        self._client = StatefulClient()
        self._linked = True
        self._count = 0
        self._on_the_way: list[dict[str, Any]] = []
        """What the server wrote, and the client has not read."""
        self._client.receive(self._drive.settle(2))

    async def apply(self, step: str) -> None:
        """Take one step; compare where the client is linked."""
        if step not in ("acknowledge", "break") and self._linked:
            self._read()
        match step:
            case "slow event":
                self._count += 1
                self._on_the_way = self._drive.tell(self._count)
                return
            case "event" | "lost event":
                self._count += 1
                self._deliver(self._drive.tell(self._count), step)
            case "call" | "lost call":
                self._call(lost=step == "lost call")
            case "acknowledge" if self._linked:
                told = self._drive.send({"type": 8, "sequenceId": self._client.received})
                self._on_the_way += told
                return
            case "wait":
                self._deliver(self._drive.wait(1), step)
            case "break" if self._linked:
                self._lose()
            case "come back" if not self._linked:
                self._come_back()
        assert not self._drive.forgotten, "the connection was given up"
        if self._linked:
            expected = list(range(1, self._count + 1))
            assert self._client.events == expected, f"{self._client.events} of {expected}"

    async def finish(self) -> None:
        """Come back, and compare events and calls."""
        await self.apply("come back")
        calls = [call["invocationId"] for call in self._client.sent]
        assert self._client.completed == calls, f"{self._client.completed} of {calls}"
        assert len(self._drive.commands) == len(calls), f"{self._drive.commands} of {calls}"

    def _deliver(self, records: list[dict[str, Any]], step: str) -> None:
        """Hand over what the server wrote; a lost record takes the link with it."""
        if step.startswith("lost") and self._linked:
            self._lose()
        elif self._linked:
            self._client.receive(records)

    def _read(self) -> None:
        self._client.receive(self._on_the_way)
        self._on_the_way = []

    def _lose(self) -> None:
        self._drive.lose()
        self._linked = False
        self._on_the_way = []

    def _call(self, *, lost: bool) -> None:
        """Call; where it is lost, the server carries it out and its answer does not arrive."""
        name = f"call {len(self._client.sent) + 1}"
        self._client.sent.append(
            {"type": 1, "invocationId": name, "target": "Subscribe", "arguments": ["all"]}
        )
        if self._linked:
            told = self._drive.send(self._client.sent[-1])
            self._deliver(told, "lost" if lost else "")

    def _come_back(self) -> None:
        """Take another link: say from where on calls are sent again, and send them."""
        client = self._client
        assert self._drive.dial() == [], "it spoke before the client's Sequence"
        self._linked = True
        first = client.acknowledged + 1
        again = client.sent[client.acknowledged :]
        told = self._drive.send({"type": 9, "sequenceId": first})
        assert told, "no Sequence came back"
        assert told[0].get("type") == 9, f"it began with {told[0]}"
        client.receive(told)
        for call in again:
            client.receive(self._drive.send(call))
        client.receive(self._drive.send(PING))


@asynccontextmanager
async def open_session(folder: str) -> AsyncIterator[SessionMachine]:
    """Run a connection."""
    yield SessionMachine()


SESSION = Subject(
    "session",
    (
        *("event", "slow event", "lost event", "call", "lost call", "acknowledge", "wait", "break"),
        "come back",
    ),
    open_session,
)
