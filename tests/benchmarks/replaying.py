"""What a returning listener missed, read back from the disk, beside the same bytes from a file."""

import re
import socket
import time
from collections.abc import Iterator
from os.path import join
from statistics import median

from tests.benchmarks import servers
from tests.benchmarks.measures import Row, Size, scratch_folder
from tests.benchmarks.servers import Gun, Server, request, running
from tests.benchmarks.states import Maker
from tests.ports import free_port

CHATS = 10
_PLACE = re.compile(rb'"to":([0-9]+)\}')


def replay(size: Size, _gun: Gun) -> Iterator[Row]:
    """Ten thousand stored events to a client that comes back."""
    messages = 300 if size.rounds > 1 else 30  # ten events for every three messages
    with scratch_folder() as scratch:
        maker = Maker(scratch)
        for _ in range(CHATS):
            maker.chat(messages)
        key = maker.finish()
        with running(servers.held(maker.layout)) as held:
            wanted = request("GET", "/api/events?since=0", key)
            told = _replayed(held, wanted)
            path = join(scratch, "told")
            with open(path, "wb") as file:
                file.write(told)
            port = free_port()
            command = ["-m", "tests.benchmarks.bare_file", str(port), path]
            plain = request("GET", "/")
            with running(Server(command, port, plain, join(scratch, "bare.log"))) as bare:
                ratios = []
                for _ in range(size.rounds):
                    ours = _seconds(held, wanted)
                    ratios.append(_seconds(bare, plain) / ours)
        events = told.count(b"\nevent: ") - 1
        yield Row(f"{events:,} stored events: rate, of a file's", median(ratios), 0.5, True)


def _replayed(server: Server, wanted: bytes) -> bytes:
    """The bytes of a replay as they come, up to the mark that ends it."""
    with socket.create_connection(("127.0.0.1", server.port)) as caller:
        caller.settimeout(60)
        caller.sendall(wanted)
        told, end = bytearray(), None
        while end is None or not end.search(told[-200:]):
            told += caller.recv(1 << 20)
            if end is None and (place := _PLACE.search(told)):
                end = re.compile(rb"\r\nid: %b~[0-9a-f]{8}\n\n\r\n" % place[1])
        return bytes(told)


def _seconds(server: Server, wanted: bytes) -> float:
    began = time.perf_counter()
    if b"since" in wanted:
        _replayed(server, wanted)
    else:
        with socket.create_connection(("127.0.0.1", server.port)) as caller:
            caller.settimeout(60)
            caller.sendall(wanted)
            last = b""
            while not last.endswith(b"\r\n0\r\n\r\n"):
                last = last[-8:] + caller.recv(1 << 20)
    return time.perf_counter() - began
