"""Replay of missed events from the disk, beside the same bytes from a file."""

import re
import socket
import time
from collections.abc import Iterator
from os.path import join
from statistics import median

from tests.benchmarks import servers
from tests.benchmarks.measures import Row, Size, create_scratch_folder
from tests.benchmarks.servers import Gun, Server, encode_request, running_server
from tests.benchmarks.states import Maker
from tests.support.ports import find_free_port

CHATS = 10
_PLACE = re.compile(rb'"to":([0-9]+)\}')


def measure_replay(size: Size, _gun: Gun) -> Iterator[Row]:
    """Measure ten thousand stored events to a client that comes back."""
    messages = 300 if size.rounds > 1 else 30  # ten events for every three messages
    with create_scratch_folder() as scratch:
        maker = Maker(scratch)
        for _ in range(CHATS):
            maker.add_chat(messages)
        key = maker.finish()
        with running_server(servers.start_held_daemon(maker.layout)) as held:
            wanted = encode_request("GET", "/api/events?since=0", key)
            result = _read_replay(held, wanted)
            path = join(scratch, "told")
            with open(path, "wb") as file:
                file.write(result)
            port = find_free_port()
            command = ["-m", "tests.benchmarks.bare_file", str(port), path]
            plain = encode_request("GET", "/")
            with running_server(Server(command, port, plain, join(scratch, "bare.log"))) as bare:
                ratios = []
                for _ in range(size.rounds):
                    ours = _time_replay(held, wanted)
                    ratios.append(_time_replay(bare, plain) / ours)
        events = result.count(b"\nevent: ") - 1
        yield Row(f"{events:,} stored events: rate, of a file's", median(ratios), 0.5, True)


def _read_replay(server: Server, wanted: bytes) -> bytes:
    """Read the bytes of a replay, up to the mark that ends it."""
    with socket.create_connection(("127.0.0.1", server.port)) as caller:
        caller.settimeout(60)
        caller.sendall(wanted)
        result, end = bytearray(), None
        while end is None or not end.search(result[-200:]):
            result += caller.recv(1 << 20)
            if end is None and (place := _PLACE.search(result)):
                end = re.compile(rb"\r\nid: %b~[0-9a-f]{8}\n\n\r\n" % place[1])
        return bytes(result)


def _time_replay(server: Server, wanted: bytes) -> float:
    began = time.perf_counter()
    if b"since" in wanted:
        _read_replay(server, wanted)
    else:
        with socket.create_connection(("127.0.0.1", server.port)) as caller:
            caller.settimeout(60)
            caller.sendall(wanted)
            last = b""
            while not last.endswith(b"\r\n0\r\n\r\n"):
                last = last[-8:] + caller.recv(1 << 20)
    return time.perf_counter() - began
