"""A whole daemon in a thread of the test, a scripted engine, and a client of the daemon."""

import asyncio
import contextlib
import hashlib
import http.client
import json
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message as Headers
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec
import pytest

from agentd.agent.engine import Approver, EngineEvent, ReplyCompleted, TurnRequest
from agentd.app import daemon
from agentd.auth.key import issue_key
from agentd.auth.key_store import KeyFile
from agentd.auth.password import HashCost, hash_password
from agentd.auth.roles import User
from agentd.auth.user_store import UserFile
from agentd.core.clock import SystemClock
from agentd.core.errors import Conflict
from agentd.settings.model import Settings
from agentd.settings.sources import load
from agentd.storage.layout import Layout
from tests.support.waiting import PATIENCE, until  # noqa: F401 - most tests of a daemon wait

KEY = "agent_" + "Kk0" * 10 + "Zz"
HASH = hashlib.sha256(KEY.encode()).hexdigest()
"""What ``AGENT_API_KEY`` holds for it."""

WORD = "the good word of ada"
"""The password of the administrator ``ada``."""
CHEAP = HashCost(14, 8, 1)

NOON = "2026-07-15T12:00:00.000Z"


@contextlib.contextmanager
def at_noon() -> Iterator[str]:
    """Stop the clock at noon in the middle of a month: no day or month ends meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SystemClock, "now", lambda _: NOON)
        yield NOON


class Beats:
    """Seconds of a machine that has time: of a hundred times that a thread slept and woke up.

    What waits for no reason takes as many of them on a busy machine as on an idle one. What has
    to wait for the processor takes few, for the thread has to as well.
    """

    def __init__(self) -> None:
        self._count = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat)

    @property
    def seconds(self) -> float:
        """Since it began."""
        return self._count / 100

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self._ended.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._ended.wait(0.01):
            self._count += 1


class Engine:
    """Carries out prompts by a script, and can be held in the middle of all its turns."""

    name = "scripted"

    def __init__(self) -> None:
        self.given: list[TurnRequest] = []
        """What was handed over, in order."""
        self.says: Callable[[TurnRequest], list[EngineEvent]] = _build_echo
        self._lock = threading.Lock()
        self._held = False
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def hold(self) -> None:
        """Hold all turns from now on after their begin."""
        self._held = True

    def release(self) -> None:
        """Let all turns go on."""
        with self._lock:
            self._held = False
            waiting, self._waiting = self._waiting, []
        for loop, event in waiting:
            loop.call_soon_threadsafe(event.set)

    async def run(
        self, assignment: TurnRequest, approver: Approver
    ) -> AsyncGenerator[EngineEvent, None]:
        """Say what the script says."""
        event = asyncio.Event()
        with self._lock:
            if self._held:
                self._waiting.append((asyncio.get_running_loop(), event))
            else:
                event.set()
            self.given.append(assignment)
        await event.wait()
        for progress in self.says(assignment):
            yield progress


def _build_echo(assignment: TurnRequest) -> list[EngineEvent]:
    return [ReplyCompleted(f"echo: {assignment.prompt}")]


MODELS = """
suppliers:
  none: {dialect: openai-chat, url: "http://127.0.0.1:9"}
models:
  - {name: m, engine: native, model: the m, supplier: none}
  - {name: mine, engine: native, model: the mine, supplier: none}
  - {name: chats, engine: native, model: the chats, supplier: none}
"""
"""The models that tests name; their engine is the scripted one."""


SERVING: "list[Serving]" = []
"""The daemons that are up."""


class Serving:
    """A daemon over the folder, from ``with`` to its end."""

    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    """What makes its event loop; None: asyncio's own."""

    def __init__(
        self,
        folder: Path,
        engine: Engine | None = None,
        *,
        options: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        self.layout = Layout(str(folder / "state"), str(folder / "config"))
        self.engine = engine or Engine()
        self.said = {
            "port": 0,
            "workspace": str(folder),
            "agent_api_key": HASH,
            "drain_seconds": 0,
            "max_parallel_turns": 64,
            **settings,
        }
        self.settings = Settings(**self.said)
        """What stands in ``agentd.yml``, unless a test wrote one by hand."""
        self.options = {"state": self.layout.state, "config": self.layout.config, **(options or {})}
        self.environ = environ or {}
        self.url = ""
        self.exit_code: int | None = None
        self._clients: list[Client] = []
        self._failure: BaseException | None = None
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: daemon.RunningDaemon | None = None
        self._thread = threading.Thread(target=self._run_thread)

    def __enter__(self) -> Self:
        """Return once it answers."""
        models, settings = Path(self.layout.models), Path(self.layout.settings)
        models.parent.mkdir(parents=True, exist_ok=True)
        if not models.exists():
            models.write_text(MODELS)
        if not settings.exists() or settings.read_bytes().startswith(b"{"):
            settings.write_bytes(msgspec.json.encode(self.said))  # JSON is YAML
        self._thread.start()
        self._ready.wait(PATIENCE)
        if self._failure:
            self._thread.join()
            raise self._failure
        assert self.url, "it did not start"
        SERVING.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop it, with its clients."""
        SERVING.remove(self)
        self.hang_up()
        self.stop()
        self.join()

    def hang_up(self) -> None:
        """Close the connections of its clients, who may connect again."""
        for client in self._clients:
            client.close()

    def stop(self) -> None:
        """Ask the daemon to stop."""
        assert self._loop
        assert self._running
        with contextlib.suppress(RuntimeError):  # it has stopped already
            self._loop.call_soon_threadsafe(self._running.stop, 0)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Block the daemon's event loop; what arrives meanwhile is then there at once."""
        stands, go_on = threading.Event(), threading.Event()

        def stand() -> None:
            stands.set()
            go_on.wait(PATIENCE)

        assert self._loop
        self._loop.call_soon_threadsafe(stand)
        try:
            assert stands.wait(PATIENCE)
            yield
        finally:
            go_on.set()

    def join(self) -> None:
        """Wait until it has stopped."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "it did not stop"
        if self._failure:
            raise self._failure

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return urlsplit(self.url).port or 0

    def new_key(self, name: str, *, answers: bool = True) -> str:
        """Add a named key, as ``agentd keys generate`` does: through the file."""
        key, kept = issue_key(name, "2026-01-01T00:00:00.000Z", answers=answers)
        KeyFile(self.layout).add(kept)
        return key

    def client(self, key: str | None = KEY) -> "Client":
        """Return a client with a key."""
        self._clients.append(Client(self.url, key))
        return self._clients[-1]

    def administrator(self) -> "Client":
        """Return a client who is signed in as an administrator and sends the login's token."""
        with contextlib.suppress(Conflict):
            UserFile(self.layout).add(User("ada", "administrator", hash_password(WORD, CHEAP)))
        signing = {"user": "ada", "password": WORD, "bearer": True}
        token = self.client(None).post("/api/session", signing)["token"]
        self._clients.append(Client(self.url, None, {"Authorization": f"Bearer {token}"}))
        return self._clients[-1]

    def _run_thread(self) -> None:
        try:
            with asyncio.Runner(loop_factory=self.loop_factory) as runner:
                runner.run(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        place = load(self.options, self.environ, self.layout.config)
        async with daemon.start_daemon(
            place.settings, place.layout, self.environ, self.engine, place.overrides
        ) as self._running:
            self.url = self._running.url
            self._ready.set()
            self.exit_code = await self._running.stopped


@dataclass(slots=True)
class Reply:
    """An answer."""

    status: int
    headers: Headers
    body: bytes

    def json(self) -> Any:
        """Decode the body as JSON, in which no key comes twice."""
        return json.loads(self.body.decode(), object_pairs_hook=_reject_duplicate_keys)

    def __getitem__(self, name: str) -> Any:
        """Return a field of the JSON body."""
        return self.json()[name]


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


@dataclass(slots=True)
class Client:
    """An HTTP client with one connection that checks each answer by ``check_reply``."""

    url: str
    key: str | None = KEY
    headers: Mapping[str, str] = field(default_factory=dict)
    """What each request has, too."""
    connection: http.client.HTTPConnection = field(init=False)

    def __post_init__(self) -> None:
        address = urlsplit(self.url)
        assert address.hostname
        self.connection = http.client.HTTPConnection(
            address.hostname, address.port, timeout=PATIENCE
        )

    def send(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Send a request: ``body`` as it is when it is bytes, else as JSON."""
        sent = {"X-API-Key": self.key} if self.key is not None else {}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            sent["Content-Type"] = "application/json"
        self.connection.request(method, path, body, {**sent, **self.headers, **(headers or {})})
        response = self.connection.getresponse()
        reply = Reply(response.status, response.headers, response.read())
        check_reply(reply, with_body=method != "HEAD")
        return reply

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Reply:
        """``GET``."""
        return self.send("GET", path, None, headers)

    def post(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Reply:
        """``POST``."""
        return self.send("POST", path, body, headers)

    def patch(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Reply:
        """``PATCH``."""
        return self.send("PATCH", path, body, headers)

    def put(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Reply:
        """``PUT``."""
        return self.send("PUT", path, body, headers)

    def delete(self, path: str) -> Reply:
        """``DELETE``."""
        return self.send("DELETE", path)

    def close(self) -> None:
        """Hang up."""
        self.connection.close()

    # Short forms of what most tests begin with.

    def create_chat(self, **wish: Any) -> int:
        """Create a chat and return its id."""
        reply = self.post("/api/remote/chats", wish)
        assert reply.status == 201, reply.body
        return int(reply["chatId"])

    def status(self, chat: int, wait: float = 0) -> Any:
        """Get a chat's status."""
        return self.get(f"/api/remote/chats/{chat}/status?wait={wait}").json()

    def messages(self, chat: int) -> list[dict[str, Any]]:
        """Get a chat's messages, once it is idle."""
        self.status(chat, 20)
        found: list[dict[str, Any]] = self.get(f"/api/remote/chats/{chat}/messages")["messages"]
        return found

    def prompts(self, chat: int) -> list[dict[str, Any]]:
        """Get a chat's queue."""
        found: list[dict[str, Any]] = self.get(f"/api/remote/chats/{chat}/queue")["prompts"]
        return found


def check_reply(reply: Reply, *, with_body: bool = True) -> None:
    """Check the rules that hold for every answer (specification 7, and our own promises)."""
    assert reply.headers["Cache-Control"] == "no-store"
    assert reply.headers["X-Request-Id"]
    assert "Server" not in reply.headers
    check_defences(reply.headers)
    if reply.status == 204:
        assert reply.body == b""
    elif reply.headers["Content-Type"].startswith(
        ("text/plain", "text/csv", "text/markdown", "text/event-stream")
    ):
        assert reply.status in (200, 202)
    elif with_body:
        assert reply.headers["Content-Type"] == "application/json; charset=utf-8"
        found = reply.json()
        if reply.status >= 400:
            assert set(found) == {"error", "message", "details"}
            assert all(isinstance(text, str) for text in found.values())
            assert found["error"]
            assert found["message"]
            assert "Traceback" not in found["details"]


def check_defences(headers: Mapping[str, str]) -> None:
    """Check the headers that keep browsers from framing, sniffing and leaking the address."""
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert headers["Referrer-Policy"] == "no-referrer"


def send_raw(port: int, data: bytes, *, leave: bool = False) -> list[Reply]:
    """Send these bytes; return every answer until the daemon hangs up.

    To ``leave`` is to say that no more will come: for what the daemon would wait for.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(data)
            if leave:
                connection.shutdown(socket.SHUT_WR)
        return list(parse_replies(read_until_close(connection)))


def read_until_close(connection: socket.socket) -> bytes:
    """Read all bytes until the other side hangs up."""
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def parse_replies(data: bytes) -> Iterator[Reply]:
    """Parse the answers in a stream of bytes; each must be complete."""
    while data:
        head, blank, rest = data.partition(b"\r\n\r\n")
        assert blank, data
        line, _, lines = head.partition(b"\r\n")
        headers = Headers()
        for one in lines.decode("latin1").split("\r\n"):
            name, _, value = one.partition(": ")
            headers[name] = value
        assert line.startswith(b"HTTP/1.1 "), line
        status = int(line.split(b" ")[1])
        if status >= 200:
            check_defences(headers)
        length = int(headers.get("Content-Length", "0" if status in (100, 204) else len(rest)))
        assert len(rest) >= length, data
        yield Reply(status, headers, rest[:length])
        data = rest[length:]


def build_request(
    method: str, path: str, *lines: str, body: bytes = b"", key: str | None = KEY
) -> bytes:
    """Encode a request with ``Host``, the key and, for a body, its length."""
    head = [f"{method} {path} HTTP/1.1", "Host: localhost", *lines]
    if key is not None:
        head.append(f"X-API-Key: {key}")
    if body:
        head.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*head, "", ""]).encode("latin1") + body


def read_journals(layout: Layout) -> dict[str, bytes]:
    """Read the journals of all chats, by path."""
    found = Path(layout.chats).glob("*/journal.jsonl")
    return {str(path): path.read_bytes() for path in found}
