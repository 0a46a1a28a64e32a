"""A client that opens a chat in the middle of a turn: the reply so far, and the events after it."""

import asyncio
import json
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from agentd.agent.diff import make_diff
from agentd.agent.engine import (
    Approver,
    EngineEvent,
    ReplyCompleted,
    ReplyDelta,
    ThinkingProgress,
    ToolStarted,
    ToolUsed,
    TurnRequest,
)
from tests.live.test_sse_api import EVENTS, Stream, listening
from tests.support.daemon import Client, Engine, Serving, until
from tests.support.fixtures import Serve


class SteppedEngine(Engine):
    """Reports what the test puts in, when it does; None ends the turn."""

    def __init__(self) -> None:
        super().__init__()
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._steps: asyncio.Queue[EngineEvent | None]

    def put(self, *steps: EngineEvent | None) -> None:
        """Let the engine report these."""
        assert self._started.wait(60)
        for step in steps:
            self._loop.call_soon_threadsafe(self._steps.put_nowait, step)

    async def run(
        self, assignment: TurnRequest, approver: Approver
    ) -> AsyncGenerator[EngineEvent, None]:
        self._loop, self._steps = asyncio.get_running_loop(), asyncio.Queue()
        self._started.set()
        while step := await self._steps.get():
            yield step


@pytest.fixture
def engine() -> SteppedEngine:
    return SteppedEngine()


@pytest.fixture
def daemon(serve: Serve, engine: SteppedEngine) -> Serving:
    return serve(engine=engine)


def wait_for_text(client: Client, chat: int, text: str) -> dict[str, Any]:
    """Wait until the running reply has this text, and return it."""
    path = f"/api/chat/{chat}"
    return until(
        lambda: (reply := client.get(path)["runningReply"]) and reply["text"] == text and reply
    )


def show(reply: dict[str, Any], stream: Stream) -> list[str]:
    """Return the assistant's messages as a page shows them, the unfinished reply at the end."""
    shown: list[str] = []
    text, number = str(reply["text"]), reply["number"]
    for event in stream.events:
        match event.name, json.loads(event.data):
            case "messageDelta", [_, {"turn": turn, "text": piece, "number": at}]:
                if turn == reply["turn"] and at > number:
                    assert at == number + 1, "a piece is missing"
                    text, number = text + piece, at
            case "messageUpdate", [_, message]:
                seq = int(event.id.partition("~")[0].partition(".")[0])
                if seq > reply["seq"] and message["role"] == "assistant":
                    shown.append(message["content"])
                    text = ""
    return [*shown, text]


def test_the_reply_so_far_and_the_events_after_it_are_the_whole_reply(
    daemon: Serving, engine: SteppedEngine
) -> None:
    client = daemon.client()
    chat = client.create_chat(prompt="tell me a story")
    engine.put(ReplyDelta("Once "))
    wait_for_text(client, chat, "Once ")
    engine.put(ReplyDelta("upon "), ToolUsed("shell", "date", "now"), ReplyDelta("a time "))
    wait_for_text(client, chat, "Once upon a time ")
    with listening(daemon, f"{EVENTS}?chats={chat}") as stream:
        stream.read_until(lambda: stream.events)
        engine.put(ReplyDelta("there "))
        stream.read_until(
            lambda: "there" in stream.body.decode()
        )  # heard, and in the answer as well
        reply = client.get(f"/api/chat/{chat}")["runningReply"]
        assert reply["text"] == "Once upon a time there "
        assert show(reply, stream) == [reply["text"]]
        engine.put(ReplyDelta("was"))
        stream.read_until(lambda: '"was"' in stream.body.decode())
        assert show(reply, stream) == ["Once upon a time there was"]
        engine.put(ReplyCompleted("Once upon a time there was"), ReplyDelta("The end"))
        stream.read_until(lambda: "The end" in stream.body.decode())
        assert show(reply, stream) == ["Once upon a time there was", "The end"]

        later = wait_for_text(client, chat, "The end")
        assert show(later, stream) == ["The end"], "the message of before is not shown twice"
    engine.put(ReplyCompleted("The end"), None)
    client.messages(chat)
    until(lambda: client.get(f"/api/chat/{chat}")["runningReply"] is None)


def test_thinking_so_far_and_the_events_after_it_are_all_of_it_until_the_next_message(
    daemon: Serving, engine: SteppedEngine
) -> None:
    client = daemon.client()
    chat = client.create_chat(prompt="which file is it?")
    path = f"/api/chat/{chat}"

    def read_thinking() -> tuple[str, int]:
        reply = client.get(path)["runningReply"] or {"thinking": "", "thinkingNumber": 0}
        return reply["thinking"], reply["thinkingNumber"]

    engine.put(ThinkingProgress("Where "))
    until(lambda: read_thinking() == ("Where ", 1))
    with listening(daemon, f"{EVENTS}?chats={chat}") as stream:
        stream.read_until(lambda: stream.events)
        engine.put(ThinkingProgress("is it?"))
        stream.read_until(lambda: "is it?" in stream.body.decode())
        assert read_thinking() == ("Where is it?", 2)
        engine.put(ToolUsed("read_file", "a.txt", "one"))
        until(lambda: read_thinking() == ("", 2))
        engine.put(ThinkingProgress("There."))
        stream.read_until(lambda: "There." in stream.body.decode())
        pieces = [json.loads(one.data) for one in stream.events if one.name == "thinkingDelta"]
        assert [(piece["text"], piece["number"]) for _, piece in pieces] == [
            ("is it?", 2),
            ("There.", 3),
        ]
    engine.put(ReplyCompleted("In a.txt."), None)
    told = client.messages(chat)
    assert not any("Where" in message["content"] for message in told)


def test_tools_are_shown_in_their_parts_and_questions_with_what_would_change(
    serve: Serve, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("one\ntwo\n")

    def edit(assignment: TurnRequest) -> list[EngineEvent]:
        diff = make_diff("notes.txt", "one\ntwo\n", "one\n2\n")
        return [
            ToolStarted("edit", "notes.txt"),
            ToolUsed("edit", "notes.txt", "1 place edited", diff=diff),
            ToolUsed("shell", "make", "exit code 2", ok=False),
            ReplyCompleted("done"),
        ]

    engine = Engine()
    engine.says = edit
    client = serve(engine=engine).client()
    chat = client.create_chat(prompt="edit it")
    client.messages(chat)
    messages = client.get(f"/api/chat/{chat}/messages")["messages"]
    first, second = [message["toolUse"] for message in messages if message["role"] == "tool"]
    assert first["seconds"] >= 0
    assert {**first, "seconds": 0} == {
        "input": "notes.txt",
        "outcome": "1 place edited",
        "ok": True,
        "seconds": 0,
        "diff": "--- a/notes.txt\n+++ b/notes.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2",
        "number": 0,
        "parent": 0,
    }
    assert (second["input"], second["ok"], second["diff"]) == ("make", False, "")
    assert [message["toolUse"] for message in messages if message["role"] != "tool"] == [None] * 2
    shown = client.get(f"/api/remote/chats/{chat}/messages")["messages"]
    assert [m["content"] for m in shown if m["role"] == "tool"] == ["Tool: edit", "Tool: shell"]
