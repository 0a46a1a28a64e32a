"""A connection is listened to until it says something that nobody wants to hear yet."""

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest
from tornado.ioloop import IOLoop
from tornado.iostream import IOStream, StreamClosedError

from agentd.web.listening import listen_on

pytestmark = pytest.mark.gen_test


class Watch:
    """How often reading was switched on and off, of the loop itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.switched: list[str] = []
        self.loop = IOLoop.current().asyncio_loop  # type: ignore[attr-defined]
        for name in ("add_reader", "remove_reader"):
            monkeypatch.setattr(self.loop, name, self._noting(name, getattr(self.loop, name)))

    def _noting(self, name, do):
        def noted(*given):
            self.switched.append(name)
            return do(*given)

        return noted


@pytest.fixture
def ends(io_loop: IOLoop) -> Iterator[tuple[socket.socket, IOStream]]:
    other, ours = socket.socketpair()
    stream = IOStream(ours)
    listen_on(stream)
    with closing(other), closing(stream):
        yield other, stream


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


async def test_what_nobody_wants_to_hear_yet_waits_where_it_is(ends, monkeypatch):
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


async def test_an_end_that_came_while_nobody_listened_is_heard_with_the_next_read(ends):
    other, stream = ends
    head = stream.read_until(b"\n\n")
    other.sendall(b"head\n\nrest")
    await head
    other.close()
    await IOLoop.current().run_in_executor(None, bool)
    with pytest.raises(StreamClosedError):
        await stream.read_bytes(5)


async def test_an_end_is_told_while_an_answer_is_made(ends):
    other, stream = ends
    head = stream.read_until(b"\n\n")
    other.sendall(b"head\n\n")
    await head
    gone = IOLoop.current().asyncio_loop.create_future()  # type: ignore[attr-defined]
    stream.set_close_callback(lambda: gone.set_result(None))
    other.close()
    await gone


async def test_what_is_written_in_pieces_arrives_beside_it(ends):
    other, stream = ends
    head = stream.read_until(b"\n\n")
    other.sendall(b"head\n\nrest")
    await head
    answer = stream.write(b"y" * 3_000_000)
    received = await IOLoop.current().run_in_executor(None, _received, other, 3_000_000)
    await answer
    assert received == 3_000_000
    assert await stream.read_bytes(4) == b"rest"


def _received(other: socket.socket, size: int) -> int:
    got = 0
    while got < size:
        got += len(other.recv(65536))
    return got
