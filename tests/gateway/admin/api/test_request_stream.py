"""The request log as a stream: live, filtered, resumed, and at the pace of its reader."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

import pytest

from agentd.core.sse import ServerSentEvent, SseReader
from agentd.gateway.admin.api import request_stream
from agentd.gateway.ledger import tail
from agentd.gateway.ledger.record import RequestRecord
from tests.gateway.admin.api.described import Manager
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.gateway.conftest import GatewaySetup
from tests.gateway.relay.callers import Caller
from tests.supplier.steps import Answer, Say, Tokens
from tests.support.daemon import Client, Serving, until

STREAM = "/api/agent/requests/stream"
ENVIRON = {"PROXY_APP_HASH": HASH}


class Follower:
    """The events of one stream, as they come."""

    def __init__(self, answer: HTTPResponse) -> None:
        self.answer = answer
        self.reader = SseReader()
        self.raw = b""
        self._events: list[ServerSentEvent] = []

    def read_event(self) -> ServerSentEvent:
        """Wait for the next event."""
        while not self._events:
            self.read_more()
        return self._events.pop(0)

    def read_more(self) -> bytes:
        """Wait for more bytes; none at the end of the stream."""
        data = self.answer.read1(65536)
        assert data, "the stream ended"
        self.raw += data
        self._events += self.reader.feed(data)
        return data

    def read_requests(self, count: int) -> list[dict[str, Any]]:
        """Wait for so many requests, and for nothing else."""
        found = []
        for _ in range(count):
            event = self.read_event()
            assert event.name == "request"
            found.append(json.loads(event.data))
        return found


@contextmanager
def follow(
    daemon: Serving | Client, query: str = "", last: str = "", key: str = MANAGEMENT_KEY
) -> Iterator[Follower]:
    """Open a stream that has answered, so that it misses nothing from now on."""
    headers = {"X-API-Key": key, **({"Last-Event-ID": last} if last else {})}
    with closing(HTTPConnection(urlsplit(daemon.url).netloc, timeout=60)) as connection:
        connection.request("GET", f"{STREAM}{query}", headers=headers)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        follower = Follower(answer)
        while not follower.reader.last_id:
            follower.read_more()
        yield follower
        answer.close()


@pytest.fixture
def setup(setup: GatewaySetup) -> GatewaySetup:
    setup.supplier.answer_always(Answer((Say("Hello."),), Tokens(input=1000, output=100)))
    return setup


@pytest.fixture
def caller(setup: GatewaySetup, manager: Manager) -> Caller:
    assert setup.daemon
    return Caller(setup.daemon.port, setup.add_key(name="laptop"))


def ask(caller: Caller, model: str = "by-chat") -> int:
    return caller.ask("openai-chat", model).status


def test_requests_come_as_in_the_list_and_filters_hold(manager: Manager, caller: Caller) -> None:
    assert ask(caller) == 200
    queries = ("", "?ok=false", "?key=laptop&from=2020-01-01")
    with ExitStack() as stack:
        every, failed, whole = (stack.enter_context(follow(manager, one)) for one in queries)
        assert [ask(caller), ask(caller, "none"), ask(caller)] == [200, 404, 200]
        told = every.read_requests(3)
        assert [one["outcome"] for one in told] == ["ok", "refused", "ok"]
        assert failed.read_requests(1) == [told[1]]
        listed = manager.get("/api/agent/requests")["items"]
        assert listed[:3] == told[::-1]
        assert whole.read_requests(4) == listed[::-1]
    past = manager.get(f"{STREAM}?from=2020-01-01&to=2021-01-01")
    assert (past.status, b"data:" in past.body) == (200, False)


def test_a_stream_goes_on_after_a_restart_where_it_was(setup: GatewaySetup) -> None:
    setup.write()
    key = setup.add_key()
    with Serving(setup.folder, environ=ENVIRON) as daemon:
        caller = Caller(daemon.port, key)
        with follow(daemon) as first:
            assert [ask(caller), ask(caller), ask(caller)] == [200] * 3
            event = first.read_event()  # the others may have come with it, and are not taken
            seen, cursor = [json.loads(event.data)["id"]], event.id
    with Serving(setup.folder, environ=ENVIRON) as daemon:
        assert ask(Caller(daemon.port, key)) == 200
        with follow(daemon, last=cursor) as second, follow(daemon, f"?cursor={cursor}") as other:
            found = second.read_requests(3)
            assert other.read_requests(3) == found
        with closing(Manager(daemon.url, MANAGEMENT_KEY)) as manager:
            listed = manager.get("/api/agent/requests")["items"]
            assert [one["id"] for one in listed][::-1] == seen + [one["id"] for one in found]
            assert manager.get(f"{STREAM}?cursor=nothing").status == 400


def test_a_reader_that_takes_nothing_is_told_all_of_it_later(
    setup: GatewaySetup, manager: Manager, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "MAX_RECORDS", 2)
    with follow(manager) as slow, follow(manager) as fast:
        assert [ask(caller) for _ in range(15)] == [200] * 15
        ids = [one["id"] for one in fast.read_requests(15)]
        assert [one["id"] for one in slow.read_requests(15)] == ids


def test_a_quiet_stream_is_kept_alive_and_its_cursor_moves_on(
    manager: Manager, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_stream, "KEEP_ALIVE_SECONDS", 0.05)
    with follow(manager, "?model=none") as quiet:
        begin = quiet.reader.last_id
        while b"\n:\n\n" not in quiet.raw:
            quiet.read_more()
        assert ask(caller) == 200
        while quiet.reader.last_id == begin:
            quiet.read_more()
        assert b"data:" not in quiet.raw
        cursor = quiet.reader.last_id
    assert ask(caller) == 200
    with follow(manager, last=cursor) as again:
        (one,) = again.read_requests(1)
        assert one["id"] == manager.get("/api/agent/requests?limit=1")["items"][0]["id"]


def test_a_revoked_key_ends_its_stream_and_scopes_hold(manager: Manager) -> None:
    keys = {}
    for scope in ("read", "keys"):
        made = manager.post("/api/agent/management-keys", {"name": scope, "scope": scope})
        keys[scope] = made["key"]
    with closing(Manager(manager.url, keys["keys"])) as other:
        assert other.get(STREAM).status == 403
    with follow(manager, key=keys["read"]) as stream:
        assert manager.delete("/api/agent/management-keys/read").status == 204
        with suppress(HTTPException):  # it is cut off
            while stream.answer.read1(65536):
                pass


def test_nothing_stays_behind_when_a_client_leaves(
    manager: Manager, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[object] = []
    real = request_stream._Follower.on_recorded

    def note(follower: request_stream._Follower, record: RequestRecord) -> None:
        waiting.append(follower)
        real(follower, record)

    monkeypatch.setattr(request_stream._Follower, "on_recorded", note)
    with follow(manager) as stream:
        assert ask(caller) == 200
        stream.read_requests(1)
    assert len(waiting) == 1

    def is_gone() -> bool:
        waiting.clear()
        assert ask(caller) == 200
        return not waiting

    until(is_gone)
