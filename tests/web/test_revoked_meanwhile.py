"""A key that is revoked between the gate's first look and the answer opens nothing any more."""

import socket
import threading
from collections.abc import Callable

import pytest
from tornado.httputil import HTTPHeaders, RequestStartLine

from agentd.access.service import Kept
from agentd.web.exchange import Exchange
from tests.web.live.support import HUB, delete_by_hand
from tests.web.support import PATIENCE, Reply, Serving, journals, replies, request

UPGRADE = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
CASES = pytest.mark.parametrize(
    ("method", "path", "lines"),
    [
        ("POST", "/api/remote/chats", ()),
        ("DELETE", "/api/remote/chats/1/queue/1", ()),
        ("POST", f"{HUB}/negotiate?negotiateVersion=1", ()),
        ("GET", HUB, UPGRADE),
        ("GET", "/api/events?since=0", ()),
    ],
)


def dawdling(daemon: Serving, data: bytes, body: bytes, meanwhile: Callable[[], None]) -> Reply:
    """Send a head, then, after the gate has let it in and something else was done, the body."""
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=PATIENCE) as connection:
        connection.sendall(data)
        assert connection.recv(1000).startswith(b"HTTP/1.1 100 ")
        meanwhile()
        connection.sendall(body)
        return first(connection)


def first(connection: socket.socket) -> Reply:
    """The first answer; the connection may stay."""
    data = b""
    while b"}" not in data and not data.startswith(b"HTTP/1.1 101 "):
        more = connection.recv(65536)
        assert more, data
        data += more
    return next(replies(data))


@CASES
@pytest.mark.parametrize("framing", ["sized", "chunked", "chunked and empty"])
def test_while_the_body_dawdles(
    daemon: Serving, method: str, path: str, lines: tuple[str, ...], framing: str
) -> None:
    """Specification 5.3: deleting a key takes effect at once."""
    key = daemon.new_key("lost")
    sized = framing == "sized"
    length = "Content-Length: 2" if sized else "Transfer-Encoding: chunked"
    body = {"sized": b"{}", "chunked": b"2\r\n{}\r\n0\r\n\r\n"}.get(framing, b"0\r\n\r\n")
    head = request(method, path, "Expect: 100-continue", length, *lines, key=key)
    answer = dawdling(daemon, head, body, lambda: delete_by_hand(daemon.layout, "lost"))
    assert (answer.status, answer["message"]) == (401, "Invalid or missing API key")
    assert journals(daemon.layout) == {}


@pytest.mark.parametrize("framing", ["sized", "chunked"])
def test_while_the_body_comes_in_the_very_turn_of_the_loop(
    daemon: Serving, monkeypatch: pytest.MonkeyPatch, framing: str
) -> None:
    """Specification 5.3: nothing of ours runs meanwhile, but the world goes on."""
    key = daemon.new_key("lost")
    admitted, sent = threading.Event(), threading.Event()
    hear = Exchange.headers_received

    async def slowly(self: Exchange, line: RequestStartLine, headers: HTTPHeaders) -> None:
        await hear(self, line, headers)
        admitted.set()
        assert sent.wait(PATIENCE)

    monkeypatch.setattr(Exchange, "headers_received", slowly)
    length = "Content-Length: 2" if framing == "sized" else "Transfer-Encoding: chunked"
    body = b"{}" if framing == "sized" else b"2\r\n{}\r\n0\r\n\r\n"
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=PATIENCE) as connection:
        connection.sendall(request("POST", "/api/remote/chats", length, key=key))
        assert admitted.wait(PATIENCE)
        delete_by_hand(daemon.layout, "lost")
        connection.sendall(body)
        sent.set()
        answer = first(connection)
    assert (answer.status, answer["message"]) == (401, "Invalid or missing API key")
    assert journals(daemon.layout) == {}


@pytest.mark.parametrize(("path", "lines"), [(HUB, UPGRADE), ("/api/events", ())])
def test_in_the_very_turn_of_the_loop_before_a_stream_begins(
    daemon: Serving, monkeypatch: pytest.MonkeyPatch, path: str, lines: tuple[str, ...]
) -> None:
    """Specification 5.3."""
    key = daemon.new_key("lost")
    assert daemon.client(key).get("/api/remote/bots").status == 200
    later = Exchange._later

    def revoked_first(self: Exchange, answer: object) -> None:
        later(self, answer)  # type: ignore[arg-type]
        self._desk.keys._take(Kept())  # type: ignore[attr-defined]

    monkeypatch.setattr(Exchange, "_later", revoked_first)
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=PATIENCE) as connection:
        connection.sendall(request("GET", path, *lines, key=key))
        assert first(connection).status == 401
