"""``agentd mcp`` as a process: what it says, and that a session outlives its daemon."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import pytest

from agentd.http.routing import JSON_LIMIT
from agentd.mcp.revisions import META_CAPABILITIES, META_REVISION, SESSIONLESS
from tests.mcp.support import AskingEngine
from tests.support.daemon import KEY, PATIENCE, Serving
from tests.support.fixtures import Serve

META = {META_REVISION: SESSIONLESS, META_CAPABILITIES: {}}
INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}}


class Bridge:
    """A running ``agentd mcp``, and what it has written."""

    def __init__(self, folder: Path, *words: str, key: str | None = KEY) -> None:
        environ = {name: value for name, value in os.environ.items() if name != "AGENTD_KEY"}
        self._child = subprocess.Popen(
            [
                *(sys.executable, "-m", "agentd", "mcp"),
                *("--state", str(folder / "state"), "--config", str(folder / "config")),
                *words,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environ if key is None else {**environ, "AGENTD_KEY": key},
            cwd=folder,
        )
        self._timer = threading.Timer(2 * PATIENCE, self._child.kill)
        self._timer.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.communicate()
        self._timer.cancel()

    def write(self, line: bytes) -> None:
        assert self._child.stdin
        self._child.stdin.write(line + b"\n")
        self._child.stdin.flush()

    def send(self, method: str, request_id: Any = None, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if request_id is not None:
            message["id"] = request_id
        self.write(json.dumps(message).encode())

    def read(self) -> Any:
        assert self._child.stdout
        line = self._child.stdout.readline()
        assert line, self._child.communicate()[1]
        return json.loads(line)

    def read_answer(self, request_id: Any) -> Any:
        """Return the answer to a request; what comes before it is passed over."""
        while (message := self.read()).get("id") != request_id or "method" in message:
            pass
        return message

    def begin(self) -> None:
        self.send("initialize", 0, **INITIALIZE)
        assert self.read()["result"]["protocolVersion"] == "2025-06-18"
        self.send("notifications/initialized")

    def end(self) -> tuple[int, str]:
        """Close its standard input; return its exit code and what it said."""
        errors = self._child.communicate(timeout=PATIENCE)[1]
        return self._child.returncode, errors.decode()


@pytest.fixture
def bridge(tmp_path: Path) -> Iterator[Any]:
    """Start bridges over the folder of the test's daemon; all of them end with it."""
    with ExitStack() as stack:

        def start(*words: str, key: str | None = KEY) -> Bridge:
            return stack.enter_context(Bridge(tmp_path, *words, key=key))

        yield start


def test_without_a_daemon_or_a_key_it_says_what_to_do(bridge: Any, tmp_path: Path) -> None:
    code, text = bridge().end()
    assert (code, "agentd serve" in text) == (1, True)
    code, text = bridge(key=None).end()
    assert (code, "agentd keys generate" in text) == (1, True)
    code, text = bridge("--key-file", str(tmp_path / "none"), key=None).end()
    assert (code, "cannot be read" in text) == (1, True)
    (tmp_path / "empty").write_text("\n")
    code, text = bridge("--key-file", str(tmp_path / "empty"), key=None).end()
    assert (code, "is empty" in text) == (1, True)


def test_a_key_can_come_from_a_file(daemon: Serving, bridge: Any, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    running = bridge("--key-file", str(tmp_path / "key"), key=None)
    running.begin()
    running.send("tools/list", 1)
    assert running.read_answer(1)["result"]["tools"]
    assert running.end() == (0, "")


def test_a_wrong_key_is_the_answer_to_each_request(daemon: Serving, bridge: Any) -> None:
    running = bridge(key="wrong")
    for number in (1, 2):
        running.send("initialize", number, **INITIALIZE)
        error = running.read_answer(number)["error"]
        assert "agentd keys generate" in error["message"]


def test_what_is_no_message_is_answered_and_does_no_harm(daemon: Serving, bridge: Any) -> None:
    running = bridge()
    running.begin()
    no_id = b'{"jsonrpc":"2.0","id":[1],"method":"initialize"}'
    for line in (b"x", b"[]", b'"x"', no_id, b'{"a":"' + b"x" * JSON_LIMIT + b'"}'):
        running.write(line)
        assert running.read()["error"]["code"] == -32600
    running.write(b'{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":null}')
    assert running.read_answer(1)["error"]["code"] == -32600
    running.send("notifications/cancelled", requestId=[1])
    running.send("tools/call", "last", name="list_models")
    assert running.read_answer("last")["result"]["structuredContent"]["models"]


def test_requests_of_the_newest_revision_need_no_beginning(daemon: Serving, bridge: Any) -> None:
    running = bridge()
    running.send("server/discover", 1, _meta=META)
    assert SESSIONLESS in running.read_answer(1)["result"]["supportedVersions"]
    running.send("resources/read", 2, _meta=META, uri="agentd://ch\u00e4ts/1")
    assert running.read_answer(2)["error"]["code"] == -32602


def test_long_requests_do_not_keep_others_waiting_and_can_be_cancelled(
    daemon: Serving, bridge: Any
) -> None:
    daemon.engine.hold()
    chat = daemon.client().create_chat(prompt="Slow")
    for meta in ({}, {"_meta": META}):
        running = bridge()
        if not meta:
            running.begin()
        wait = {"name": "wait_for_chat", "arguments": {"chatId": chat, "seconds": 3600}}
        running.send("tools/call", "long", **wait, **meta)
        running.send("tools/list", "short", **meta)
        assert running.read_answer("short")["result"]["tools"]
        running.send("notifications/cancelled", requestId="long")
        if not meta:
            assert running.read_answer("long")["result"]["structuredContent"]["idle"] is False
        assert running.end() == (0, "")
    daemon.engine.release()


def test_a_session_outlives_a_restart_of_the_daemon(
    serve: Serve, bridge: Any, tmp_path: Path
) -> None:
    with Serving(tmp_path, AskingEngine()) as first:
        chat = first.client().create_chat()
        uri = f"agentd://chats/{chat}/messages"
        running = bridge()
        running.begin()
        running.send("resources/subscribe", 1, uri=uri)
        assert running.read_answer(1)["result"] == {}
    running.send("tools/list", 2)
    assert "agentd serve" in running.read_answer(2)["error"]["message"]
    second = serve()
    running.send("tools/call", 3, name="get_chat", arguments={"chatId": chat})
    found = running.read_answer(3)["result"]["structuredContent"]
    assert found["chat"]["chatId"] == chat
    second.client().post(f"/api/remote/chats/{chat}/queue", {"prompt": "Hello"})
    while (message := running.read()).get("method") != "notifications/resources/updated":
        pass
    assert message["params"]["uri"] == uri
