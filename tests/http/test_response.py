"""The bytes of a response, by what its client understands."""

from collections.abc import AsyncIterator
from typing import cast

import pytest

from agentd.http.http_connection import HttpConnection
from agentd.http.request import Response
from agentd.http.response import ResponseWriter
from tests.support.daemon import Reply, Serving, build_request, send_raw

CHATS = "/api/remote/chats"
OF_ONE_RESPONSE = ("Connection", "Date", "X-Request-Id")


class RecordingConnection:
    """Records what is written to it."""

    is_flushed, is_closed = True, False

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.keeps_alive = True

    def write(self, chunk: bytes) -> None:
        self.written.append(chunk)

    async def flush(self) -> None:
        pass


def make_writer() -> tuple[RecordingConnection, ResponseWriter]:
    connection = RecordingConnection()
    return connection, ResponseWriter(cast(HttpConnection, connection), lambda: "now", "id")


async def generate(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def parse(connection: RecordingConnection) -> tuple[dict[str, str], bytes]:
    """Return the headers and the body as they were written."""
    head, _, body = b"".join(connection.written).partition(b"\r\n\r\n")
    lines = (line.partition(": ") for line in head.decode().split("\r\n")[1:])
    return {name: value for name, _, value in lines}, body


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
    connection, writer = make_writer()
    with pytest.raises(ValueError):
        writer.write(Response({}, 200, {"X-Name": value}))
    assert not connection.written
    assert not writer.has_started


@pytest.mark.gen_test
async def test_a_stream_of_unknown_length_comes_in_chunks():
    connection, writer = make_writer()
    await writer.stream(Response(chunks=generate(b"one", b"", b"more than fifteen bytes")))
    headers, body = parse(connection)
    assert headers["Transfer-Encoding"] == "chunked"
    assert body == b"3\r\none\r\n17\r\nmore than fifteen bytes\r\n0\r\n\r\n"
    assert "Connection" not in headers


@pytest.mark.gen_test
@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_what_is_sent_as_it_comes_is_not_gathered_by_proxies(version: str):
    connection, writer = make_writer()
    writer.takes_chunks = version == "1.1"
    await writer.stream(Response(chunks=generate(b"one")))
    assert parse(connection)[0]["X-Accel-Buffering"] == "no"
    whole, writer = make_writer()
    await writer.stream(Response(chunks=generate(b"one"), headers={"Content-Length": "3"}))
    assert "X-Accel-Buffering" not in parse(whole)[0]


@pytest.mark.gen_test
async def test_a_client_of_http_1_0_gets_no_chunks_and_a_close():
    connection, writer = make_writer()
    writer.takes_chunks = False
    await writer.stream(Response(chunks=generate(b"one", b"two")))
    headers, body = parse(connection)
    assert (headers["Connection"], body) == ("close", b"onetwo")
    assert "Transfer-Encoding" not in headers
    assert not connection.keeps_alive


def test_a_client_of_http_1_0_is_told_that_its_connection_is_kept() -> None:
    connection, writer = make_writer()
    writer.takes_chunks = False
    writer.write(Response({}))
    assert parse(connection)[0]["Connection"] == "keep-alive"
    assert connection.keeps_alive


def test_a_response_that_announces_a_close_ends_its_connection() -> None:
    connection, writer = make_writer()
    writer.close_after = True
    writer.write(Response({}))
    assert parse(connection)[0]["Connection"] == "close"
    assert not connection.keeps_alive


@pytest.mark.gen_test
@pytest.mark.parametrize(
    ("length", "fault"), [(6, ""), (7, "1 bytes shorter"), (5, "1 bytes longer")]
)
async def test_a_stream_has_the_length_that_it_announces(length: int, fault: str):
    connection, writer = make_writer()
    answer = Response(chunks=generate(b"one", b"two"), headers={"Content-Length": str(length)})
    if fault:
        with pytest.raises(RuntimeError, match=fault):
            await writer.stream(answer)
        return
    await writer.stream(answer)
    headers, body = parse(connection)
    assert body == b"onetwo"
    assert "Transfer-Encoding" not in headers


@pytest.mark.gen_test
async def test_the_head_of_a_stream_is_sent_without_its_body_to_who_asked_for_the_head():
    connection, writer = make_writer()
    writer.omit_body = True
    await writer.stream(Response(chunks=generate(b"one")))
    assert parse(connection)[1] == b""
