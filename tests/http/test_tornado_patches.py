"""A connection stops listening only when it has to; the daemon works without the patches."""

import ast
import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tornado.ioloop import IOLoop
from tornado.iostream import IOStream, StreamClosedError

import agentd
from agentd.http.server import HttpServer
from agentd.http.tornado_patches import keep_listening
from tests.live.hub.support import Socket
from tests.live.test_sse_api import listening
from tests.support.daemon import KEY, PATIENCE, Serving, build_request, send_raw
from tests.support.fixtures import Serve


class Watch:
    """How often reading was switched on and off, of the loop itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.switched: list[str] = []
        self.loop = IOLoop.current().asyncio_loop  # type: ignore[attr-defined]
        for name in ("add_reader", "remove_reader"):
            monkeypatch.setattr(self.loop, name, self._record(name, getattr(self.loop, name)))

    def _record(self, name, do):
        def record_and_call(*given):
            self.switched.append(name)
            return do(*given)

        return record_and_call


@pytest.fixture
def ends(io_loop: IOLoop) -> Iterator[tuple[socket.socket, IOStream]]:
    other, ours = socket.socketpair()
    stream = IOStream(ours)
    keep_listening(stream)
    with closing(other), closing(stream):
        yield other, stream


@pytest.mark.gen_test
async def test_requests_with_bodies_switch_nothing_after_the_first(ends, monkeypatch):
    other, stream = ends
    watch = Watch(monkeypatch)
    for number in range(5):
        stream.set_close_callback(None)
        head = stream.read_until(b"\n\n")
        other.sendall(b"head %d\n\nbody" % number)
        assert await head == b"head %d\n\n" % number
        assert await stream.read_bytes(4) == b"body"
        stream.set_close_callback(bool)
        await stream.write(b"answer")
        assert other.recv(100) == b"answer"
    assert watch.switched in ([], ["add_reader"])


@pytest.mark.gen_test
async def test_what_nobody_wants_to_receive_yet_waits_where_it_is(ends, monkeypatch):
    other, stream = ends
    head = stream.read_until(b"\n\n")
    other.sendall(b"head\n\nbody")
    await head
    watch = Watch(monkeypatch)
    other.setblocking(False)
    sent = 0
    for _ in range(2000):  # as much as the kernel takes, and turns of the loop to take it in
        try:
            sent += other.send(b"x" * 65536)
        except BlockingIOError:
            await IOLoop.current().run_in_executor(None, bool)
    assert sent < 4 * 1024 * 1024
    assert stream._read_buffer_size == len(b"body")
    assert watch.switched == ["remove_reader"]  # or the loop would turn and turn
    data = await stream.read_bytes(4 + sent)
    assert data == b"body" + b"x" * sent


@pytest.mark.gen_test
async def test_an_end_that_came_while_nobody_listened_is_received_with_the_next_read(ends):
    other, stream = ends
    head = stream.read_until(b"\n\n")
    other.sendall(b"head\n\nrest")
    await head
    other.close()
    await IOLoop.current().run_in_executor(None, bool)
    with pytest.raises(StreamClosedError):
        await stream.read_bytes(5)


@pytest.mark.gen_test
async def test_an_end_is_reported_while_an_answer_is_made(ends):
    other, stream = ends
    head = stream.read_until(b"\n\n")
    other.sendall(b"head\n\n")
    await head
    gone = IOLoop.current().asyncio_loop.create_future()  # type: ignore[attr-defined]
    stream.set_close_callback(lambda: gone.set_result(None))
    other.close()
    await gone


@pytest.mark.gen_test
async def test_what_is_written_in_pieces_arrives_beside_it(ends):
    other, stream = ends
    head = stream.read_until(b"\n\n")
    other.sendall(b"head\n\nrest")
    await head
    answer = stream.write(b"y" * 3_000_000)
    received = await IOLoop.current().run_in_executor(None, _count_received, other, 3_000_000)
    await answer
    assert received == 3_000_000
    assert await stream.read_bytes(4) == b"rest"


def _count_received(other: socket.socket, size: int) -> int:
    got = 0
    while got < size:
        got += len(other.recv(65536))
    return got


PNG = b"\x89PNG\r\n\x1a\n"


def test_no_other_module_touches_what_is_private_to_tornado() -> None:
    root = Path(agentd.__file__).parent
    for path in root.rglob("*.py"):
        text = path.read_text()
        if "tornado" not in text or path.name == "tornado_patches.py":
            continue
        assert "method-assign" not in text, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
                owner = node.value.id if isinstance(node.value, ast.Name) else ""
                assert owner in ("self", "cls"), f"{path}:{node.lineno}"


@pytest.fixture
def unpatched(monkeypatch: pytest.MonkeyPatch, serve: Serve) -> Serving:
    """A daemon that runs on Tornado as it is."""
    monkeypatch.setattr(HttpServer, "_patch", lambda *_: None)
    monkeypatch.setattr("agentd.http.request_handler.count_buffered_bytes", lambda _: 0)
    return serve()


def test_requests_are_answered_without_the_patches(unpatched: Serving) -> None:
    client = unpatched.client()
    first = client.get("/healthz")
    connection = client.connection.sock
    assert first.status == 200
    assert client.post("/api/remote/chats", {"prompt": "hello"}).status == 201
    assert client.post("/api/remote/chats", b"{").status == 400
    assert client.post("/api/remote/chats", b"x" * 2 * 2**20).status == 413
    assert client.connection.sock is connection
    client.key = "bad"
    assert client.post("/api/remote/chats", b"x" * 100_000).status == 401


def test_large_bodies_come_and_go_without_the_patches(unpatched: Serving) -> None:
    client = unpatched.client()
    data = os.urandom(3 * 2**20)
    sent = client.post("/api/files/clipboard", PNG + data, {"Content-Type": "image/png"})
    assert sent.status == 201
    (fetched,) = send_raw(
        unpatched.port,
        build_request("GET", f"/api/files/{sent['files'][0]['name']}", "Connection: close"),
    )
    assert fetched.body == PNG + data


def test_live_connections_work_without_the_patches(unpatched: Serving) -> None:
    with Socket(unpatched.port, f"api_key={KEY}") as opened, listening(unpatched) as stream:
        opened.greet()
        stream.read_until(lambda: stream.events)
        unpatched.client().post("/api/remote/chats", {"prompt": "hello"})
        assert stream.count(1)[0].name == "queueUpdate"
        assert opened.read_events(1)[0]["target"] == "queueUpdate"


def test_what_is_no_request_is_refused_without_the_patches(unpatched: Serving) -> None:
    """In Tornado's way: with a bare 400, or not at all."""
    for data in (b"no request\r\n\r\n", b"GET /" + b"x" * 200_000):
        try:
            with socket.create_connection(("127.0.0.1", unpatched.port), PATIENCE) as other:
                other.sendall(data)
                assert other.recv(1000)[:13] in (b"HTTP/1.1 400 ", b"")
        except ConnectionError:
            pass  # a close with bytes unread is a reset
    assert unpatched.client().get("/healthz").status == 200
