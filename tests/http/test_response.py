"""The bytes of a response: written whole, they are those that Tornado would write."""

from typing import cast

import pytest
from tornado.http1connection import HTTP1Connection
from tornado.iostream import IOStream

from agentd.http.request import Response
from agentd.http.response import ResponseWriter
from agentd.http.timeout_queue import TimeoutQueue
from tests.support.daemon import Reply, Serving, build_request, send_raw

CHATS = "/api/remote/chats"
OF_ONE_RESPONSE = ("Connection", "Date", "X-Request-Id")


class RecordingConnection:
    """Records what is written to it."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, chunk: bytes) -> None:
        self.written.append(chunk)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/healthz", 200),
        ("GET", f"{CHATS}/1/status", 200),
        ("GET", f"{CHATS}/1/messages", 200),
        ("GET", f"{CHATS}/9/status", 404),
        ("DELETE", "/healthz", 405),
        ("DELETE", f"{CHATS}/1/queue/1", 404),
    ],
)
def test_a_head_does_not_depend_on_who_writes_it(
    daemon: Serving, method: str, path: str, status: int
) -> None:
    """A connection that is kept and one that is closed get the same but for that."""
    daemon.client().post(CHATS, {})
    kept, closed = (
        send_raw(daemon.port, build_request(method, path, *more) + end)
        for more, end in (
            ((), build_request("GET", "/healthz", "Connection: close")),
            (("Connection: close",), b""),
        )
    )
    assert kept[0].status == closed[0].status == status
    assert _list_headers(kept[0]) == _list_headers(closed[0])
    assert kept[0].body == closed[0].body


def _list_headers(reply: Reply) -> list[tuple[str, str]]:
    return [(name, value) for name, value in reply.headers.items() if name not in OF_ONE_RESPONSE]


@pytest.mark.parametrize("value", ["a\r\nSet-Cookie: b", "a\nb", "a\rb", "a\r\n\r\nb", "\u2028"])
def test_a_header_that_cannot_be_sent_sends_nothing(value: str) -> None:
    connection = RecordingConnection()
    writer = ResponseWriter(
        cast(HTTP1Connection, connection), lambda: "now", "id", cast(TimeoutQueue[IOStream], None)
    )
    writer.is_plain = True
    with pytest.raises(ValueError):
        writer.write(Response({}, 200, {"X-Name": value}))
    assert not connection.written
    assert not writer.has_started
