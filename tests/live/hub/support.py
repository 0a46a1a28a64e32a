"""Real clients as child processes, a line that can be cut, and a WebSocket of the test's own."""

import contextlib
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from agentd.storage.layout import Layout
from tests.support.daemon import PATIENCE, until

HERE = Path(__file__).parent
HUB = "/liveChatHub"
END = "\x1e"

Line = dict[str, Any]

JAVASCRIPT = "javascript"
PYSIGNALR = "pysignalr"
SIGNALRCORE = "signalrcore"


def explain_missing(client: str) -> str:
    """Explain why a client cannot be tested here; empty if it can."""
    if client == JAVASCRIPT:
        if not shutil.which("node"):
            return "node is not installed"
        if not (HERE / "node_modules/@microsoft/signalr").is_dir():
            return f"@microsoft/signalr is not installed: npm install --prefix {HERE}"
        return ""
    from importlib.util import find_spec

    return "" if find_spec(client) else f"{client} is not installed: pip install '.[test]'"


def _build_command(client: str) -> list[str]:
    if client == JAVASCRIPT:
        return ["node", str(HERE / "clients/javascript.cjs")]
    return [sys.executable, "-W", "ignore", str(HERE / f"clients/with_{client}.py")]


_IMPATIENT = {
    "WEBSOCKETS_BACKOFF_INITIAL_DELAY": "0.05",
    "WEBSOCKETS_BACKOFF_MIN_DELAY": "0.1",
    "WEBSOCKETS_BACKOFF_MAX_DELAY": "0.15",
}
"""Have the library under pysignalr dial again at once, not after some seconds."""


class ListeningClient:
    """A real client in a process of its own, and all that it has told so far."""

    def __init__(self, client: str, url: str, **wish: Any) -> None:
        self.lines: list[Line] = []
        self._process = subprocess.Popen(
            [*_build_command(client), json.dumps({"url": url, **wish})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **_IMPATIENT},
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            if line.endswith("\n"):  # else it was killed in the middle of its last word
                self.lines.append(json.loads(line))

    def list_lines(self, what: str) -> list[Line]:
        """Return all lines of a kind."""
        return [line for line in self.lines if line["what"] == what]

    def wait(self, what: str, count: int = 1, seconds: float = PATIENCE) -> Line:
        """Wait for the ``count``-th line of a kind and return it."""
        try:
            until(lambda: len(self.list_lines(what)) >= count, seconds)
        except AssertionError:
            raise AssertionError(f"no {count} lines {what!r} in {self.lines[-20:]}") from None
        return self.list_lines(what)[count - 1]

    def list_events(self, name: str = "messageUpdate") -> list[list[Any]]:
        """Return the arguments of the events of a name."""
        return [line["arguments"] for line in self.list_lines("event") if line["name"] == name]

    def list_contents(self) -> list[str]:
        """Return the texts of the messages that were received."""
        return [message["content"] for _, message in self.list_events()]

    def wait_for_texts(self, *texts: str) -> None:
        """Wait until messages with these texts were received."""
        try:
            until(lambda: set(texts) <= set(self.list_contents()))
        except AssertionError:
            lost = set(texts) - set(self.list_contents())
            raise AssertionError(f"{lost} not in {self.lines[-20:]}") from None

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                with contextlib.suppress(OSError):
                    stream.close()


class Wire:
    """A forwarder to a daemon, which breaks when told: what clients dial instead of it."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.through = threading.Event()
        """Set as long as new connections get through at once; if not, they wait."""
        self.through.set()
        self.made = 0
        """The number of connections that were let through."""
        self._open: list[tuple[socket.socket, socket.socket]] = []
        self._ended = False
        self._server = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        """Return the address that the clients dial."""
        return f"http://127.0.0.1:{self._server.getsockname()[1]}"

    def cut(self, *, half: bool = False) -> None:
        """Break all connections at once; ``half``: the daemon does not hear of it."""
        pairs, self._open = self._open, []
        for near, far in pairs:
            _reset(near)
            if half:
                self._open.append((near, far))
            else:
                _reset(far)

    def close(self) -> None:
        """Break all, and be gone."""
        self._ended = True
        self.through.set()
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._threads[0].join(PATIENCE)  # what it lets through meanwhile is broken below
        self._server.close()
        for near, far in self._open:
            _reset(near)
            _reset(far)
        for thread in self._threads:
            thread.join(PATIENCE)

    def _accept(self) -> None:
        while not self._ended:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            try:
                self.through.wait(PATIENCE)
                far = socket.create_connection(("127.0.0.1", self.target), PATIENCE)
            except OSError:
                _reset(near)
                near.close()
                continue
            far.settimeout(None)
            self.made += 1
            self._open.append((near, far))
            for source, sink in ((near, far), (far, near)):
                thread = threading.Thread(target=self._pump, args=(source, sink))
                self._threads.append(thread)
                thread.start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)


def _reset(end: socket.socket) -> None:
    """Hang up rudely; whoever waits on it in another thread wakes up."""
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.shutdown(socket.SHUT_RDWR)
    end.close()


def delete_by_hand(layout: Layout, name: str) -> None:
    """Take a key out of ``keys.yml`` as a person does, with an editor."""
    path = Path(layout.keys)
    text = path.read_text()
    head, *entries = re.split(r"(?m)^(?= *- )", text)
    kept = [entry for entry in entries if not re.search(rf"\bname: ['\"]?{name}\b", entry)]
    assert len(kept) == len(entries) - 1, text
    saved = path.with_suffix(".new")
    saved.write_text(head + "".join(kept))
    saved.chmod(0o600)
    saved.rename(path)


class Socket:
    """A WebSocket of the hub's, by hand: it sends what no client would, or reads nothing."""

    def __init__(self, port: int, query: str = "", *headers: str, host: str = "localhost") -> None:
        self.connection = socket.create_connection(("127.0.0.1", port), PATIENCE)
        lines = [
            f"GET {HUB}?{query} HTTP/1.1",
            f"Host: {host}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            *headers,
        ]
        self.connection.sendall("\r\n".join([*lines, "", ""]).encode())
        self._read = self.connection.makefile("rb")
        self.status = int(self._read.readline().split()[1])
        self.headers = dict(line.split(": ", 1) for line in self._read_lines())

    def _read_lines(self) -> Iterator[str]:
        while line := self._read.readline().decode().rstrip("\r\n"):
            yield line

    def __enter__(self) -> Self:
        """Return the connection, which is open already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Hang up."""
        self._read.close()
        _reset(self.connection)

    def send(self, *messages: object) -> None:
        """Records, in one frame."""
        self.send_text("".join(json.dumps(message) + END for message in messages))

    def send_text(self, text: str) -> None:
        """Send one text frame, masked with zeros."""
        data = text.encode()
        size = bytes([0xFE]) + struct.pack("!H", len(data))
        if len(data) < 126:
            size = bytes([0x80 | len(data)])
        elif len(data) > 0xFFFF:
            size = bytes([0xFF]) + struct.pack("!Q", len(data))
        self.connection.sendall(b"\x81" + size + bytes(4) + data)

    def greet(self, version: int = 1, *more: object) -> None:
        """Handshake and its answer."""
        self.send({"protocol": "json", "version": version}, *more)
        assert next(self.read_records()) == {}

    def read_records(self) -> Iterator[Line]:
        """Yield the records until the closing frame or the end."""
        while len(head := self._read.read(2)) == 2:
            size = head[1]
            if size == 126:
                (size,) = struct.unpack("!H", self._read.read(2))
            elif size == 127:
                (size,) = struct.unpack("!Q", self._read.read(8))
            data = self._read.read(size)
            if head[0] == 0x88:
                self.code = struct.unpack("!H", data[:2])[0] if data else None
                return
            if head[0] == 0x81:
                assert data.endswith(END.encode())
                for record in data.decode().split(END)[:-1]:
                    yield json.loads(record)

    def read_events(self, count: int) -> list[Line]:
        """Read so many events, and pass over the pings between them."""
        found: list[Line] = []
        for record in self.read_records():
            if record.get("type") == 1:
                found.append(record)
            if len(found) >= count:
                return found
        raise AssertionError(f"only {found}")
