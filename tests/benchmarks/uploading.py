"""How fast an upload is, and what it takes in memory while it comes."""

import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from os.path import dirname, join
from statistics import median

from tests.benchmarks import servers
from tests.benchmarks.measures import Row, Size, create_scratch_folder
from tests.benchmarks.servers import MIB, Gun, Server, encode_request, running_server
from tests.benchmarks.states import Maker

LENGTH = 24 * MIB
_BOUNDARY = b"----WebKitFormBoundary7MA4YWxkTrZu0gW"
_HEAD = (
    b"--%b\r\n" % _BOUNDARY + b'Content-Disposition: form-data; name="f"; filename="x.png"\r\n\r\n'
)
_TAIL = b"\r\n--%b--\r\n" % _BOUNDARY


def measure_upload(size: Size, gun: Gun) -> Iterator[Row]:
    """Measure a file of 24 MiB by upload, against the same file copied and synced."""
    with create_scratch_folder() as folder:
        maker = Maker(folder)
        maker.add_chat(3)
        key = maker.finish()
        original = join(folder, "original.png")
        with open(original, "wb") as file:
            file.write(b"\x89PNG\r\n\x1a\n" + os.urandom(LENGTH - 8))
        with running_server(servers.start_held_daemon(maker.layout)) as held:
            place = join(dirname(maker.layout.state), "uploads")
            _time_upload(held, key, original, place)
            ratios, added = [], []
            for number in range(size.rounds * 4):  # each is short, and disks are moody
                turns = [_time_copy, _time_upload]
                if number % 2:
                    turns.reverse()
                took = {turn: turn(held, key, original, place) for turn in turns}
                ratios.append(took[_time_copy] / took[_time_upload])
                added.append(_measure_memory(held, key, original, place))
        what = "upload of 24 MiB, durable: rate, of copying it with fsync"
        yield Row(what, median(ratios), 0.6, at_least=True)
        yield Row("resident memory that an upload adds while it comes", median(added), 8,
                  unit=" MiB")  # fmt: skip


def _time_copy(_: Server, __: str, original: str, place: str) -> float:
    """Return the seconds that a copy takes."""
    copy = join(place, "copy.png")
    began = time.perf_counter()
    shutil.copyfile(original, copy)
    for path in (copy, place):
        opened = os.open(path, os.O_RDONLY)
        os.fsync(opened)
        os.close(opened)
    took = time.perf_counter() - began
    os.unlink(copy)
    return took


def _time_upload(server: Server, key: str, original: str, place: str) -> float:
    """Return the seconds that an upload takes."""
    head = encode_request("POST", "/api/files", key)[:-2]
    length = len(_HEAD) + LENGTH + len(_TAIL)
    head += b"Content-Type: multipart/form-data; boundary=%b\r\n" % _BOUNDARY
    head += b"Content-Length: %d\r\n" % length
    with (
        open(original, "rb") as file,
        socket.create_connection(("127.0.0.1", server.port)) as connection,
    ):
        began = time.perf_counter()
        connection.sendall(head + b"\r\n" + _HEAD)
        connection.sendfile(file)
        connection.sendall(_TAIL)
        answer = connection.recv(65536)
        took = time.perf_counter() - began
    if not answer.startswith(b"HTTP/1.1 201"):
        raise SystemExit(answer.decode())
    os.unlink(join(place, "x.png"))
    return took


def _measure_memory(server: Server, key: str, original: str, place: str) -> float:
    """Return the MiB at the highest point beyond those before it."""
    before, peak, done = server.get_resident(), 0.0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.001):
            peak = max(peak, server.get_resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        _time_upload(server, key, original, place)
    finally:
        done.set()
        watcher.join()
    return peak - before
