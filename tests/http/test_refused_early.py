"""Requests are refused before their body, and clients that send it still read the answer."""

import socket
import time
from collections.abc import Iterator

import pytest

from agentd.http import request_handler
from tests.support.daemon import (
    KEY,
    PATIENCE,
    Serving,
    build_request,
    parse_replies,
    read_until_close,
    send_raw,
)

SOON = PATIENCE
"""Seconds that an answer may take: less than a body."""
LONG = request_handler.MAX_DISCARDED + 1

REFUSED = pytest.mark.parametrize(
    ("method", "path", "key", "status"),
    [
        ("POST", "/api/remote/chats", "bad", 401),
        ("POST", "/api/remote/nowhere", KEY, 404),
        ("PUT", "/api/remote/chats", KEY, 405),
        ("POST", "/v1/chat/completions", "bad", 401),
        ("POST", "/v1/messages", None, 401),
        ("POST", "/v1beta/models/x:generateContent", "bad", 401),
        ("POST", "/api/agent/keys", "bad", 503),
    ],
)


@pytest.fixture
def daemon(serve, monkeypatch: pytest.MonkeyPatch) -> Serving:
    """A daemon that does not throttle wrong keys."""
    monkeypatch.setattr("agentd.http.throttle.FREE_FAILURES", 1000)
    made: Serving = serve()
    return made


@pytest.fixture
def line(daemon: Serving) -> Iterator[socket.socket]:
    """A connection to it."""
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=SOON) as made:
        yield made


def read_answer(line: socket.socket) -> bytes:
    """Read the first answer; the connection may stay open."""
    data = b""
    while b"}" not in data:
        more = line.recv(65536)
        assert more, data
        data += more
    return data


@REFUSED
@pytest.mark.parametrize("framing", ["Content-Length: 5000000", "Transfer-Encoding: chunked"])
def test_a_client_that_announces_a_body_and_sends_none_is_refused_at_once(
    line: socket.socket, method: str, path: str, key: str | None, status: int, framing: str
) -> None:
    line.sendall(build_request(method, path, framing, "Content-Type: application/json", key=key))
    (reply,) = parse_replies(read_answer(line))
    assert reply.status == status
    assert "Connection" not in reply.headers


@REFUSED
def test_who_announces_a_long_one_is_hung_up_on_but_may_send_it_before_he_listens(
    line: socket.socket, daemon: Serving, method: str, path: str, key: str | None, status: int
) -> None:
    head = build_request(method, path, f"Content-Length: {LONG}", key=key)
    line.sendall(head)
    (reply,) = parse_replies(read_until_close(line))
    assert (reply.status, reply.headers["Connection"]) == (status, "close")
    (sent,) = send_raw(daemon.port, head + b" " * LONG)
    assert sent.status == status


@REFUSED
def test_a_client_that_sends_it_later_has_received_already_and_the_connection_is_still_his(
    line: socket.socket, method: str, path: str, key: str | None, status: int
) -> None:
    line.sendall(build_request(method, path, "Content-Length: 100000", key=key))
    assert next(parse_replies(read_answer(line))).status == status
    line.sendall(b" " * 100_000 + build_request("GET", "/healthz", "Connection: close"))
    assert [reply.status for reply in parse_replies(read_until_close(line))] == [200]


@REFUSED
def test_a_client_that_asks_whether_to_send_it_is_not_reported_to(
    line: socket.socket, method: str, path: str, key: str | None, status: int
) -> None:
    asking = ("Expect: 100-continue", "Content-Length: 100")
    line.sendall(build_request(method, path, *asking, key=key))
    assert [reply.status for reply in parse_replies(read_until_close(line))] == [status]


@REFUSED
def test_a_body_that_came_with_its_head_is_passed_over_first(
    line: socket.socket, method: str, path: str, key: str | None, status: int
) -> None:
    both = build_request(method, path, body=b"{}", key=key) * 2
    line.sendall(both + build_request("GET", "/healthz", "Connection: close"))
    assert [reply.status for reply in parse_replies(read_until_close(line))] == [
        status,
        status,
        200,
    ]


def test_a_guesser_is_refused_once_and_late_whenever_its_body_comes(
    daemon: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentd.http.throttle.FREE_FAILURES", 5)
    monkeypatch.setattr("agentd.http.throttle.DELAY_SECONDS", 0.6)
    monkeypatch.setattr("agentd.http.throttle.WINDOW_SECONDS", 1000.0)
    head = build_request(
        "POST", "/api/remote/chats", "Content-Length: 2", "Connection: close", key="bad"
    )
    for _ in range(6):
        send_raw(daemon.port, head + b"{}")
    for body in (b"{}", b""):
        with socket.create_connection(("127.0.0.1", daemon.port), timeout=SOON) as line:
            began = time.monotonic()
            line.sendall(head)
            line.sendall(body)
            result = read_until_close(line) if body else read_answer(line)
        assert [reply.status for reply in parse_replies(result)] == [401]
        assert time.monotonic() - began > 0.5
