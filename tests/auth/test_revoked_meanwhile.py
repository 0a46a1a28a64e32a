"""A key that is revoked between the gate's first look and the answer opens nothing any more."""

import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from tornado.httputil import HTTPHeaders, RequestStartLine

from agentd.auth.key_service import KeyFileContents
from agentd.auth.key_store import KeyFile
from agentd.auth.user_store import UserFile
from agentd.auth.users_api import UserEndpoints
from agentd.chats.service import ChatService
from agentd.chats.state import ChatSummary
from agentd.http.request_handler import RequestHandler
from agentd.storage.lock import hold_lock
from tests.auth.test_login import Browser, add_users
from tests.live.hub.support import HUB, delete_by_hand
from tests.support.daemon import (
    PATIENCE,
    Reply,
    Serving,
    build_request,
    parse_replies,
    read_journals,
    until,
)
from tests.support.fixtures import Serve

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


def send_in_two_steps(
    daemon: Serving, data: bytes, body: bytes, meanwhile: Callable[[], None]
) -> Reply:
    """Send a head; once the gate let it in and ``meanwhile`` was done, send the body."""
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=PATIENCE) as connection:
        connection.sendall(data)
        assert connection.recv(1000).startswith(b"HTTP/1.1 100 ")
        meanwhile()
        connection.sendall(body)
        return read_reply(connection)


def read_reply(connection: socket.socket) -> Reply:
    """Return the first reply; the connection may stay open."""
    data = b""
    while b"}" not in data and not data.startswith(b"HTTP/1.1 101 "):
        more = connection.recv(65536)
        assert more, data
        data += more
    return next(parse_replies(data))


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
    head = build_request(method, path, "Expect: 100-continue", length, *lines, key=key)
    answer = send_in_two_steps(daemon, head, body, lambda: delete_by_hand(daemon.layout, "lost"))
    assert (answer.status, answer["message"]) == (401, "Invalid or missing API key")
    assert read_journals(daemon.layout) == {}


@pytest.mark.parametrize("framing", ["sized", "chunked"])
def test_while_the_body_comes_in_the_very_turn_of_the_loop(
    daemon: Serving, monkeypatch: pytest.MonkeyPatch, framing: str
) -> None:
    """Specification 5.3: nothing of ours runs meanwhile, but the world goes on."""
    key = daemon.new_key("lost")
    admitted, sent = threading.Event(), threading.Event()
    hear = RequestHandler.headers_received

    async def pause_after_head(
        self: RequestHandler, line: RequestStartLine, headers: HTTPHeaders
    ) -> None:
        await hear(self, line, headers)
        admitted.set()
        assert sent.wait(PATIENCE)

    monkeypatch.setattr(RequestHandler, "headers_received", pause_after_head)
    length = "Content-Length: 2" if framing == "sized" else "Transfer-Encoding: chunked"
    body = b"{}" if framing == "sized" else b"2\r\n{}\r\n0\r\n\r\n"
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=PATIENCE) as connection:
        connection.sendall(build_request("POST", "/api/remote/chats", length, key=key))
        assert admitted.wait(PATIENCE)
        delete_by_hand(daemon.layout, "lost")
        connection.sendall(body)
        sent.set()
        answer = read_reply(connection)
    assert (answer.status, answer["message"]) == (401, "Invalid or missing API key")
    assert read_journals(daemon.layout) == {}


@pytest.mark.parametrize(("path", "lines"), [(HUB, UPGRADE), ("/api/events", ())])
def test_in_the_very_turn_of_the_loop_before_a_stream_begins(
    daemon: Serving, monkeypatch: pytest.MonkeyPatch, path: str, lines: tuple[str, ...]
) -> None:
    """Specification 5.3."""
    key = daemon.new_key("lost")
    assert daemon.client(key).get("/api/remote/bots").status == 200
    later = RequestHandler._start_task

    def revoke_first(self: RequestHandler, answer: object) -> None:
        later(self, answer)  # type: ignore[arg-type]
        keys = self._context.keys
        keys._file._file.value = KeyFileContents()  # type: ignore[attr-defined]
        keys._apply()  # type: ignore[attr-defined]

    monkeypatch.setattr(RequestHandler, "_start_task", revoke_first)
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=PATIENCE) as connection:
        connection.sendall(build_request("GET", path, *lines, key=key))
        assert read_reply(connection).status == 401


@pytest.mark.parametrize("revoked", [True, False])
def test_while_it_waits_for_a_chat(
    daemon: Serving, monkeypatch: pytest.MonkeyPatch, *, revoked: bool
) -> None:
    """Specification 5.3; the requests of all other keys wait on."""
    daemon.engine.hold()
    chat = daemon.client().create_chat(prompt="work")
    waits = threading.Event()
    wait = ChatService.wait_until_idle

    def note(self: ChatService, chat_id: int, seconds: float) -> Awaitable[ChatSummary]:
        waits.set()
        return wait(self, chat_id, seconds)

    monkeypatch.setattr(ChatService, "wait_until_idle", note)
    key = daemon.new_key("lost" if revoked else "kept")
    other = daemon.new_key("gone")
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=PATIENCE) as connection:
        path = f"/api/remote/chats/{chat}/status?wait=60"
        connection.sendall(build_request("GET", path, key=key))
        assert waits.wait(PATIENCE)
        delete_by_hand(daemon.layout, "lost" if revoked else "gone")
        if not revoked:
            until(lambda: daemon.client(other).get("/api/remote/bots").status == 401)
            daemon.engine.release()
        answer = read_reply(connection)
    daemon.engine.release()
    assert answer.status == (401 if revoked else 200)


LARGE = 24 * 1024 * 1024
"""More bytes than the buffers of a connection take."""


def read_slowly(daemon: Serving, request: bytes, meanwhile: Callable[[], object]) -> int:
    """Begin a download, do ``meanwhile``, and return how many bytes come until it ends."""
    with socket.socket() as connection:
        connection.settimeout(PATIENCE)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
        connection.connect(("127.0.0.1", daemon.port))
        connection.sendall(request)
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")
        meanwhile()
        size = 0
        with contextlib.suppress(ConnectionResetError):
            while size < LARGE - 1000 and (data := connection.recv(256 * 1024)):
                size += len(data)
    return size


@pytest.mark.parametrize("revoked", [True, False])
def test_a_download_ends_with_its_key(daemon: Serving, tmp_path: Path, *, revoked: bool) -> None:
    """Specification 5.3; the downloads of all other keys go on."""
    (tmp_path / "uploads").mkdir()
    (tmp_path / "uploads" / "large.txt").write_bytes(b"0123456789abcde\n" * (LARGE // 16))
    key = daemon.new_key("lost" if revoked else "kept")
    other = daemon.new_key("gone")

    def revoke() -> None:
        name, lost = ("lost", key) if revoked else ("gone", other)
        delete_by_hand(daemon.layout, name)
        until(lambda: daemon.client(lost).get("/api/remote/bots").status == 401)

    request = build_request("GET", "/api/files/large.txt", key=key)
    assert (read_slowly(daemon, request, revoke) < LARGE // 2) is revoked


@pytest.mark.parametrize("way", ["signed out", "demoted", "signed out elsewhere"])
def test_a_download_ends_with_its_login(serve: Serve, tmp_path: Path, way: str) -> None:
    daemon = serve(add_users(tmp_path))
    (tmp_path / "uploads").mkdir()
    (tmp_path / "uploads" / "large.txt").write_bytes(b"0123456789abcde\n" * (LARGE // 16))
    mia, elsewhere = Browser(daemon), Browser(daemon)

    def end() -> None:
        if way == "demoted":
            UserFile(daemon.layout).change("mia", role="viewer")
        else:
            ending = mia if way == "signed out" else elsewhere
            assert ending.send("DELETE", "/api/session").status == 204
        if way != "signed out elsewhere":
            until(lambda: mia.send("GET", "/api/session").status == 401)

    request = build_request("GET", "/api/files/large.txt", f"Cookie: {mia.cookie}", key=None)
    assert (read_slowly(daemon, request, end) < LARGE // 2) is (way != "signed out elsewhere")


def note_waiting(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Return an event that is set once a request waits for the lock of the keys."""
    waits = threading.Event()
    lock = KeyFile._lock

    def note(self: KeyFile) -> AbstractContextManager[None]:
        waits.set()
        return lock(self)

    monkeypatch.setattr(KeyFile, "_lock", note)
    return waits


@pytest.mark.parametrize("path", ["/api/keys", "/api/keys/phone/regenerate"])
def test_while_it_waits_to_make_a_key(
    daemon: Serving, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Specification 5.3: whoever has a leaked key must not get another one with it."""
    key, phone = daemon.new_key("lost"), daemon.new_key("phone")
    waits = note_waiting(monkeypatch)
    body = b'{"name": "child"}'
    request = build_request("POST", path, "Content-Type: application/json", key=key, body=body)
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=PATIENCE) as connection:
        with hold_lock(daemon.layout.keys_lock, "the keys"):
            connection.sendall(request)
            assert waits.wait(PATIENCE)
            delete_by_hand(daemon.layout, "lost")
        answer = read_reply(connection)
    assert (answer.status, answer["message"]) == (401, "Invalid or missing API key")
    assert [one["name"] for one in daemon.client().get("/api/keys")["keys"]] == ["phone"]
    assert daemon.client(phone).get("/api/remote/bots").status == 200


@pytest.mark.parametrize("path", ["/api/keys", "/api/keys/phone/regenerate"])
def test_while_a_user_waits_to_make_a_key(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Whoever has a leaked login must not get a key with it that outlives it."""
    daemon = serve(add_users(tmp_path))
    phone, mia = daemon.new_key("phone"), Browser(daemon, "mia")
    waits = note_waiting(monkeypatch)
    with ThreadPoolExecutor() as pool:
        with hold_lock(daemon.layout.keys_lock, "the keys"):
            wish = pool.submit(mia.send, "POST", path, {"name": "child"})
            assert waits.wait(PATIENCE)
            UserFile(daemon.layout).remove("mia")
        assert wish.result().status == 401
    assert [one["name"] for one in daemon.client().get("/api/keys")["keys"]] == ["phone"]
    until(lambda: daemon.client(phone).get("/api/remote/bots").status == 200)


def test_while_an_administrator_waits_to_add_another(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hashing a password takes long, so such requests queue up behind the removal."""
    daemon = serve(add_users(tmp_path))
    ada = Browser(daemon, "ada")
    first = {"name": "eve", "role": "administrator", "password": "a word that is good"}
    assert ada.send("POST", "/api/users", first).status == 201
    client = daemon.client(None)
    login = {"user": "eve", "password": first["password"], "bearer": True}
    eve = {"Authorization": f"Bearer {client.post('/api/session', login)['token']}"}
    removing, waits = threading.Event(), threading.Event()
    hash_password, remove = UserEndpoints._hash, UserFile.remove

    def note(self: UserEndpoints, entered: str) -> Awaitable[str]:
        waits.set()
        return hash_password(self, entered)

    def remove_later(self: UserFile, name: str) -> None:
        removing.set()
        assert waits.wait(PATIENCE)
        remove(self, name)

    monkeypatch.setattr(UserEndpoints, "_hash", note)
    monkeypatch.setattr(UserFile, "remove", remove_later)
    with ThreadPoolExecutor() as pool:
        removal = pool.submit(ada.send, "DELETE", "/api/users/eve")
        assert removing.wait(PATIENCE)
        child = {**first, "name": "child"}
        assert client.send("POST", "/api/users", child, eve).status == 401
        assert removal.result().status == 204
    listed = ada.send("GET", "/api/users")["users"]
    assert [one["name"] for one in listed] == ["vera", "mia", "ada"]
