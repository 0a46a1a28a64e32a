"""Connections: how they are kept, shared, left and closed."""

import asyncio
import gc
import io
import os
import re
import socket
import threading
from collections.abc import AsyncIterator, Awaitable
from contextlib import ExitStack, asynccontextmanager, closing
from functools import partial
from http.client import HTTPConnection

import pytest
from tornado.httpclient import AsyncHTTPClient

from agentd.app import http_server
from agentd.chats.service import ChatService
from agentd.chats.state import ChatSummary
from agentd.core.errors import Unauthorized
from agentd.http.access_log import AccessLog
from agentd.http.request import Response
from agentd.http.request_handler import RequestHandler
from agentd.http.server import (
    MAX_CONNECTIONS,
    RESERVED_DESCRIPTORS,
    HttpServer,
    get_descriptor_limit,
)
from agentd.system.ports import explain_unusable_host
from tests.support.daemon import (
    KEY,
    PATIENCE,
    Client,
    Engine,
    Reply,
    Serving,
    build_request,
    parse_replies,
    read_journals,
    read_until_close,
    send_raw,
    until,
)
from tests.support.fixtures import Serve

CHATS = "/api/remote/chats"
LAST = "Connection: close"
LINE = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z 127\.0\.0\.1"
    r" (?P<caller>\S+) (?P<method>\S+) (?P<path>\S+) (?P<status>\d{3}) \d+\.\dms (?P<id>\S+)"
)


# One connection, many requests.


def test_a_connection_is_kept_after_every_kind_of_answer(client: Client) -> None:
    client.get("/healthz")
    first = client.connection.sock
    big = b'{"x":"' + b"x" * 2 * 1024 * 1024
    for method, path, body, status in [
        ("GET", "/healthz", None, 200),
        ("POST", CHATS, b"{}", 201),
        ("POST", CHATS, b"{", 400),
        ("POST", "/nothing", b"x" * 100_000, 404),
        ("POST", "/healthz", b"x" * 100_000, 405),
        ("POST", CHATS, big, 413),
        ("POST", "/nothing", big, 404),
        ("HEAD", "/healthz", None, 200),
    ]:
        assert client.send(method, path, body).status == status
        assert client.connection.sock is first
    client.key = "bad"
    assert client.post(CHATS, b"x" * 100_000).status == 401
    assert client.connection.sock is first


def test_pipelined_requests_are_answered_in_order(daemon: Serving) -> None:
    bodies = [b'{"prompt":"p%d"}' % number for number in range(20)]
    data = b"".join(build_request("POST", CHATS, body=body) for body in bodies)
    answers = send_raw(daemon.port, data + build_request("GET", "/healthz", LAST))
    assert [answer.status for answer in answers] == [201] * 20 + [200]
    ids = [answer["chatId"] for answer in answers[:20]]
    assert ids == sorted(ids)


def test_a_body_may_be_chunked(daemon: Serving) -> None:
    head = build_request("POST", CHATS, "Transfer-Encoding: chunked", LAST)
    body = b'4\r\n{"pr\r\nb\r\nompt":"hi"}\r\n0\r\n\r\n'
    (answer,) = send_raw(daemon.port, head + body)
    assert (answer.status, answer["status"]) == (201, "queued")


def test_a_client_that_asks_first_is_asked_to_go_on(daemon: Serving) -> None:
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=PATIENCE) as connection:
        lines = ["Expect: 100-continue", "Content-Length: 2", LAST]
        connection.sendall(build_request("POST", CHATS, *lines))
        assert connection.recv(1000).startswith(b"HTTP/1.1 100 ")
        connection.sendall(b"{}")
        assert [answer.status for answer in parse_replies(read_until_close(connection))] == [201]


def test_connection_close_is_honoured(daemon: Serving) -> None:
    (answer,) = send_raw(daemon.port, build_request("GET", "/healthz", LAST))
    assert answer.headers["Connection"] == "close"
    old = build_request("GET", "/healthz").replace(b"HTTP/1.1", b"HTTP/1.0")
    assert [answer.status for answer in send_raw(daemon.port, old)] == [200]


def test_an_idle_connection_is_closed(monkeypatch: pytest.MonkeyPatch, serve: Serve) -> None:
    """With or without a request before; a slow machine may need some tries for that."""
    monkeypatch.setattr("agentd.http.context.HEAD_TIMEOUT", 0.1)
    port = serve().port
    assert send_raw(port, b"") == []
    until(lambda: [a.status for a in send_raw(port, build_request("GET", "/healthz"))] == [200])


# Large bodies.


def test_413_comes_before_the_body_is_sent(daemon: Serving) -> None:
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=PATIENCE) as connection:
        connection.sendall(build_request("POST", CHATS, "Content-Length: 2000000"))
        first = connection.recv(65536)
        assert first.startswith(b"HTTP/1.1 413 ")
        connection.sendall(b"x" * 2_000_000)
        connection.sendall(build_request("GET", "/healthz", LAST))
        (answer,) = parse_replies(read_until_close(connection))
        assert answer.status == 200


def test_401_wastes_no_memory_on_a_body(daemon: Serving) -> None:
    client = daemon.client(None)
    before = _get_peak_memory(client)
    for _ in range(3):
        assert client.post(CHATS, b"x" * 15 * 1024 * 1024).status == 401
    assert _get_peak_memory(client) - before < 40 * 1024 * 1024


def _get_peak_memory(client: Client) -> int:
    (peak,) = re.findall(rb"agentd_resident_peak_bytes (\d+)", client.get("/metrics").body)
    return int(peak)


# Callers who leave.


def test_what_a_caller_asked_for_is_done_though_it_left(daemon: Serving) -> None:
    """Specification 1: a prompt of a new chat is processed; nobody need wait for it."""
    for number in range(10):
        with socket.create_connection(("127.0.0.1", daemon.port)) as connection:
            connection.sendall(build_request("POST", CHATS, body=b'{"prompt":"%d"}' % number))
    until(lambda: len(daemon.engine.given) == 10)
    assert daemon.client().get("/healthz").status == 200


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """``begun`` and ``over`` of each wait for a chat to come to rest."""
    found: list[str] = []
    rest = ChatService.wait_until_idle

    async def watch_wait(self: ChatService, chat_id: int, seconds: float) -> object:
        found.append("begun")
        try:
            return await rest(self, chat_id, seconds)
        finally:
            found.append("over")

    monkeypatch.setattr(ChatService, "wait_until_idle", watch_wait)
    return found


def test_a_client_that_leaves_during_a_wait_is_no_longer_waited_for(
    waits: list[str], client: Client, daemon: Serving, engine: Engine
) -> None:
    engine.hold()
    chat = client.create_chat(prompt="p")
    with socket.create_connection(("127.0.0.1", daemon.port)) as connection:
        connection.sendall(build_request("GET", f"{CHATS}/{chat}/status?wait=60"))
        until(lambda: waits == ["begun"])
    until(lambda: waits == ["begun", "over"])
    until(lambda: engine.given)
    assert client.status(chat)["status"] == "processing"


def test_a_request_cut_before_its_first_step_is_answered_and_leaves_nothing_unawaited(
    monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    chat = client.create_chat(prompt="p")
    client.status(chat, 10)
    start = RequestHandler._start_task

    def cut_request(self: RequestHandler, answer: Response | Awaitable[Response]) -> None:
        start(self, answer)
        self.interrupt(Unauthorized("Access key revoked or expired"))

    monkeypatch.setattr(RequestHandler, "_start_task", cut_request)
    answer = client.get(f"{CHATS}/{chat}/status?wait=1")
    assert answer.status == 401
    gc.collect()  # a coroutine that nobody awaited is an error of this test


def test_a_caller_that_never_reads_holds_nobody_up(client: Client, daemon: Serving) -> None:
    chat = client.create_chat(prompt="x" * 200_000)
    client.messages(chat)
    with socket.create_connection(("127.0.0.1", daemon.port)) as connection:
        connection.sendall(build_request("GET", f"{CHATS}/{chat}/messages") * 50)
        for _ in range(20):
            assert client.get("/healthz").status == 200


# Stopping.


def test_an_answer_begun_before_the_stop_is_given_after_it(
    monkeypatch: pytest.MonkeyPatch, client: Client, daemon: Serving, engine: Engine
) -> None:
    begun, stopped, stop = threading.Event(), asyncio.Event(), HttpServer.stop

    async def wait_slowly(self: ChatService, chat_id: int, seconds: float) -> ChatSummary:
        begun.set()
        await stopped.wait()
        return self.get_summary(chat_id)

    def notice_and_stop(self: HttpServer) -> None:
        stop(self)
        stopped.set()

    monkeypatch.setattr(http_server, "FINISH_SECONDS", PATIENCE)
    monkeypatch.setattr(ChatService, "wait_until_idle", wait_slowly)
    monkeypatch.setattr(HttpServer, "stop", notice_and_stop)
    engine.hold()
    chat = client.create_chat(prompt="p")
    until(lambda: engine.given)
    threading.Thread(target=lambda: begun.wait(PATIENCE) and daemon.stop()).start()
    assert client.status(chat, 60)["chatId"] == chat
    daemon.join()


def test_a_stop_ends_the_turns_and_so_the_waits_for_them(
    monkeypatch: pytest.MonkeyPatch,
    waits: list[str],
    client: Client,
    daemon: Serving,
    engine: Engine,
) -> None:
    monkeypatch.setattr(http_server, "FINISH_SECONDS", PATIENCE)
    engine.hold()
    chat = client.create_chat(prompt="p")
    until(lambda: engine.given)
    found: list[str] = []
    other = daemon.client()
    thread = threading.Thread(target=lambda: found.append(other.status(chat, 60)["status"]))
    thread.start()
    until(lambda: waits)
    daemon.stop()
    daemon.join()
    thread.join(PATIENCE)
    assert found == ["completed"]
    assert b"Interrupted" in next(iter(read_journals(daemon.layout).values()))
    assert daemon.exit_code == 0


def test_after_a_stop_nobody_is_admitted(daemon: Serving) -> None:
    port = daemon.port
    daemon.stop()
    daemon.join()
    with pytest.raises(ConnectionError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


# Too many.


def test_one_connection_too_many_is_turned_away_with_an_answer_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, serve: Serve
) -> None:
    most = max(map(int, os.listdir("/proc/self/fd"))) + 60
    monkeypatch.setattr("agentd.http.server.get_descriptor_limit", lambda: most)
    daemon = serve()
    first = daemon.client()
    assert first.get("/healthz").status == 200
    with ExitStack() as crowd:
        address, highest = ("127.0.0.1", daemon.port), 0
        while highest < most:  # both ends of each are in this process
            highest = crowd.enter_context(socket.create_connection(address)).fileno()

        def turned_away() -> Reply | None:
            """The answer: nobody else is being turned away just now, and no file was closed."""
            answers = send_raw(daemon.port, build_request("GET", "/healthz", LAST))
            if answers and answers[0].status == 200:
                crowd.enter_context(socket.create_connection(address))
                return None
            return answers[0] if answers else None

        for _ in range(5):
            answer = until(turned_away)
            assert (answer.status, answer["error"]) == (503, "Unavailable")
            assert int(answer.headers["Retry-After"]) > 0
            assert first.post(CHATS, {}).status == 201
    until(lambda: send_raw(daemon.port, build_request("GET", "/healthz", LAST))[0].status == 200)


def test_many_descriptors_are_kept_for_files(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, most in ((1024, 768), (256, 128), (1 << 20, MAX_CONNECTIONS + RESERVED_DESCRIPTORS)):
        monkeypatch.setattr("resource.getrlimit", lambda _, limit=limit: (limit, limit))
        assert get_descriptor_limit() == most


# The access log.


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """The access lines of daemons that start later."""
    stream = io.StringIO()
    monkeypatch.setattr(http_server, "AccessLog", partial(AccessLog, stream=stream))
    return stream


@pytest.fixture
def logged(written: io.StringIO, serve: Serve) -> Serving:
    """A daemon whose access lines are captured."""
    return serve()


def stop_and_read_log(written: io.StringIO, daemon: Serving) -> list[re.Match[str]]:
    """Stop the daemon and return its log: access lines, and nothing else."""
    daemon.stop()
    daemon.join()
    found = [LINE.fullmatch(line) for line in written.getvalue().splitlines()]
    return [line for line in found if line or pytest.fail(written.getvalue())]


def test_the_answer_that_opens_a_websocket_has_the_request_id_of_its_line_too(
    written: io.StringIO, logged: Serving
) -> None:
    handshake = {
        "X-API-Key": KEY,
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    with closing(HTTPConnection("127.0.0.1", logged.port, timeout=PATIENCE)) as connection:
        connection.request("GET", "/liveChatHub", headers=handshake)
        answer = connection.getresponse()
    assert answer.status == 101
    (line,) = stop_and_read_log(written, logged)
    assert (line["id"], line["status"]) == (answer.headers["X-Request-Id"], "101")
    assert "Server" not in answer.headers, "as in all other answers"


def test_each_answer_has_one_line_with_its_request_id(
    written: io.StringIO, logged: Serving
) -> None:
    client = logged.client()
    answers = [
        client.get("/api/remote/bots?x=secret"),
        client.post(CHATS, {}),
        client.get("/nothing"),
        client.send("PUT", "/healthz", b"x" * 2 * 1024 * 1024),
        logged.client("bad").get("/api/remote/bots"),
        *send_raw(logged.port, b"nonsense\r\n\r\n"),
    ]
    lines = stop_and_read_log(written, logged)
    assert {(line["id"], int(line["status"])) for line in lines} == {
        (answer.headers["X-Request-Id"], answer.status) for answer in answers
    }
    assert len(lines) == len(answers)
    assert lines[0]["path"] == "/api/remote/bots", "the query is never written"
    callers = [line["caller"] for line in lines]
    assert callers == ["key:environment"] * 2 + ["nobody"] * 2 + ["-"] * 2


def test_what_a_caller_may_choose_cannot_fill_the_log_or_the_numbers(
    written: io.StringIO, logged: Serving
) -> None:
    client = logged.client()
    client.get("/" + "x" * 50_000)
    for number in range(100):
        client.send(f"METHOD{number}", "/healthz")
    numbers = client.get("/metrics").body.decode()
    assert 'agentd_http_answers_total{method="other",status="405"} 100\n' in numbers
    assert "METHOD" not in numbers
    longest = max(stop_and_read_log(written, logged), key=lambda line: len(line["path"]))
    assert len(longest["path"]) < 1000


# Many at once.


@asynccontextmanager
async def open_client(count: int) -> AsyncIterator[AsyncHTTPClient]:
    """A client with that many connections."""
    patience = {"connect_timeout": PATIENCE, "request_timeout": 2 * PATIENCE}
    client = AsyncHTTPClient(force_instance=True, max_clients=count, defaults=patience)
    try:
        yield client
    finally:
        client.close()


@pytest.mark.gen_test
async def test_two_hundred_at_once_are_all_served(daemon: Serving) -> None:
    headers = {"X-API-Key": KEY, "Content-Type": "application/json"}
    async with open_client(200) as client:
        answers = await asyncio.gather(
            *(
                client.fetch(daemon.url + CHATS, method="POST", headers=headers, body="{}")
                for _ in range(200)
            )
        )
        assert {answer.code for answer in answers} == {201}
        assert len({answer.body for answer in answers}) == 200


@pytest.mark.gen_test
async def test_fifty_waits_end_together_and_hold_nobody_up(daemon: Serving) -> None:
    daemon.engine.hold()
    headers = {"X-API-Key": KEY}
    async with open_client(60) as client:
        made = await client.fetch(
            daemon.url + CHATS,
            method="POST",
            headers={**headers, "Content-Type": "application/json"},
            body='{"prompt":"p"}',
        )
        chat = re.findall(rb'"chatId":(\d+)', made.body)[0].decode()
        url = f"{daemon.url}{CHATS}/{chat}/status"
        waits = [
            asyncio.ensure_future(client.fetch(f"{url}?wait=60", headers=headers))
            for _ in range(50)
        ]
        for _ in range(20):
            status = (await client.fetch(url, headers=headers)).body
            assert re.search(rb'"(queued|processing)"', status)
        assert not any(wait.done() for wait in waits)
        daemon.engine.release()
        for wait in waits:
            assert b'"completed"' in (await wait).body


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_every_address_of_the_host_is_listened_on_for_two_colons(
    address: str, serve: Serve
) -> None:
    if ":" in address and explain_unusable_host(address):
        pytest.skip("this machine has no IPv6")
    daemon = serve(host="::")
    with socket.create_connection((address, daemon.port), timeout=PATIENCE) as connection:
        connection.sendall(build_request("GET", "/healthz", "Connection: close"))
        (reply,) = parse_replies(read_until_close(connection))
    assert reply.status == 200
