"""``/api/files`` of a serving daemon: over real connections, whole, slow and broken ones."""

import errno
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from agentd.auth.gate import REMOTE_DISABLED
from agentd.storage.layout import Layout
from agentd.workspace.uploads import api as web_files
from agentd.workspace.uploads import rules
from agentd.workspace.uploads import store as folder_module
from tests.auth.test_revoked_meanwhile import read_reply
from tests.live.test_sse_api import listening
from tests.support.daemon import (
    KEY,
    PATIENCE,
    Client,
    Reply,
    Serving,
    build_request,
    parse_replies,
    read_until_close,
    send_raw,
    until,
)
from tests.support.fixtures import Serve

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 500
FORM = "multipart/form-data; boundary=BB"


def build_form(*files: tuple[str, bytes], kind: str = "") -> bytes:
    result = f"Content-Type: {kind}\r\n".encode() if kind else b""
    parts = [
        b'--BB\r\nContent-Disposition: form-data; name="f"; filename="%b"\r\n%b\r\n%b\r\n'
        % (name.encode(), result, data)
        for name, data in files
    ]
    return b"".join(parts) + b"--BB--\r\n"


def upload(client: Client, *files: tuple[str, bytes], kind: str = "") -> Reply:
    return client.post("/api/files", build_form(*files, kind=kind), {"Content-Type": FORM})


def paste(client: Client, data: bytes, kind: str = "image/png") -> Reply:
    return client.post("/api/files/clipboard", data, {"Content-Type": kind})


def fetch(daemon: Serving, name: str) -> Reply:
    lines = ["Connection: close"]
    (reply,) = send_raw(
        daemon.port, build_request("GET", f"/api/files/{quote(name, safe='')}", *lines)
    )
    return reply


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The upload folder of the daemon, whose workspace is the test's folder."""
    return tmp_path / "uploads"


def list_files(place: Path) -> set[str]:
    """Return the files in the folder, half-written ones included."""
    return set(os.listdir(place)) - {".gitignore"} if place.exists() else set()


def wait_until_empty(place: Path) -> None:
    until(lambda: not list_files(place))


# What works.


def test_upload_list_fetch_and_delete(client: Client, daemon: Serving, place: Path) -> None:
    """Specification 4, extended surface: upload files into the agent's working folder."""
    reply = upload(client, ("photo.png", PNG), ("notes ü.md", b"# hello\n"))
    assert reply.status == 201
    first, second = reply["files"]
    assert (first["name"], first["path"]) == ("photo.png", "uploads/photo.png")
    assert (first["size"], first["type"]) == (len(PNG), "image/png")
    assert (second["name"], second["type"]) == ("notes ü.md", "text/plain")
    assert (place / "photo.png").read_bytes() == PNG
    assert (place / "photo.png").stat().st_mode & 0o777 == 0o644
    assert place.stat().st_mode & 0o777 == 0o755
    listed = client.get("/api/files").json()
    assert {one["name"] for one in listed["files"]} == {"photo.png", "notes ü.md"}
    assert (listed["folder"], listed["bytesUsed"]) == ("uploads", len(PNG) + 8)
    found = fetch(daemon, "notes ü.md")
    assert (found.status, found.body) == (200, b"# hello\n")
    assert found.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert found.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in found.headers["Content-Security-Policy"]
    disposition = found.headers["Content-Disposition"]
    assert disposition == "attachment; filename*=UTF-8''notes%20%C3%BC.md"
    assert client.delete("/api/files/photo.png").status == 204
    assert client.delete("/api/files/photo.png").status == 404
    assert list_files(place) == {"notes ü.md"}


def test_a_picture_from_the_clipboard(client: Client, place: Path) -> None:
    """Specification 4, extended surface: images and clipboard files."""
    reply = paste(client, PNG)
    assert reply.status == 201
    (kept,) = reply["files"]
    assert re.fullmatch(r"clipboard-\d{8}-\d{6}\.png", kept["name"])
    assert (place / kept["name"]).read_bytes() == PNG
    assert paste(client, PNG, "application/octet-stream").status == 201


@pytest.mark.parametrize(
    ("names", "kept"),
    [
        ("filename*=utf-8''gr%C3%B6%C3%9Fe%20x.txt", "größe x.txt"),
        ("filename=\"=?utf-8?B?w6QudHh0?=\"; filename*=utf-8''%C3%A4.txt", "ä.txt"),
        ("filename=a.txt; FILENAME* = \"ISO-8859-1'de'%F6.txt\"", "ö.txt"),
        ("filename*=UTF-8''..%2F..%2Fup.txt", "up.txt"),
        ("filename=\"plain.txt\"; filename*=utf-8''%FF.txt", "plain.txt"),
        ("filename=\"other.txt\"; filename*=klingon''a.txt", "other.txt"),
    ],
)
def test_a_name_may_be_written_in_the_extended_way(
    client: Client, place: Path, names: str, kept: str
) -> None:
    head = f'--BB\r\nContent-Disposition: form-data; name="f"; {names}'.encode()
    reply = client.post("/api/files", head + b"\r\n\r\nhi\r\n--BB--\r\n", {"Content-Type": FORM})
    assert reply.status == 201, reply.body
    assert [one["name"] for one in reply["files"]] == [kept]


def test_nothing_is_there_before_the_first_upload(client: Client, place: Path) -> None:
    assert client.get("/api/files")["files"] == []
    assert client.get("/api/files/x").status == 404
    assert client.delete("/api/files/x").status == 404
    assert not place.exists()


def test_git_does_not_see_what_is_uploaded(client: Client, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    upload(client, ("a.txt", b"x"))
    result = subprocess.run(["git", "status", "--porcelain", "uploads"], cwd=tmp_path, check=True,
                          capture_output=True)  # fmt: skip
    assert result.stdout == b""


def test_nothing_is_overwritten(client: Client, place: Path) -> None:
    names = [
        upload(client, (name, name.encode()))["files"][0]["name"]
        for name in ("a.txt", "a.txt", "A.TXT", "a-2.txt")
    ]
    assert names == ["a.txt", "a-2.txt", "A-3.TXT", "a-2-2.txt"]
    both = upload(client, ("e\u0301", b"1"), ("\u00e9", b"2"))["files"]
    assert [one["name"] for one in both] == ["\u00e9", "\u00e9-2"]


def test_bytes_are_kept_exactly_however_they_come(daemon: Serving, place: Path) -> None:
    data = PNG + os.urandom(300_000) + b"\r\n--B" + b"\r\n--BX" + b"\r" * 100
    body = build_form(("x.png", data))
    lines = [f"Content-Type: {FORM}", "Connection: close", "Transfer-Encoding: chunked"]
    for size in (1009, 65_536, len(body)):
        cuts = [body[start : start + size] for start in range(0, len(body), size)]
        chunked = b"".join(b"%x\r\n%b\r\n" % (len(cut), cut) for cut in cuts) + b"0\r\n\r\n"
        (reply,) = send_raw(daemon.port, build_request("POST", "/api/files", *lines) + chunked)
        assert reply.status == 201, reply.body
        assert (place / reply["files"][0]["name"]).read_bytes() == data


def test_bytes_are_kept_exactly_while_a_slow_disk_makes_their_sender_wait(
    daemon: Serving, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes that the stream reads by itself in a pause come before those that are read directly."""
    write = folder_module._write

    def write_slowly(file: int, chunks: list[bytes]) -> None:
        time.sleep(0.01)
        write(file, chunks)

    monkeypatch.setattr(folder_module, "_write", write_slowly)
    data = PNG + os.urandom(12 * 2**20)
    body = build_form(("x.png", data))
    lines = [f"Content-Type: {FORM}", "Connection: close", f"Content-Length: {len(body)}"]
    (reply,) = send_raw(daemon.port, build_request("POST", "/api/files", *lines) + body)
    assert reply.status == 201, reply.body
    assert (place / reply["files"][0]["name"]).read_bytes() == data


# Names.


@pytest.mark.parametrize(
    "name",
    [
        *("../../x.txt", "/etc/x.txt", "C:\\x.txt", ".git/hooks/x", ".git", "..", "a/../../b"),
        *("x" * 300, "con", "-rf", "a%2F..%2Fb", "a\u202eb", "%2e%2e", ".ssh/authorized_keys"),
    ],
)
def test_no_name_leads_out(client: Client, tmp_path: Path, place: Path, name: str) -> None:
    upload(client, ("first", b""))  # makes the folder
    before = {path for path in tmp_path.rglob("*") if "state" not in path.parts}
    reply = upload(client, (name, b"text"))
    assert reply.status == 201
    (kept,) = reply["files"]
    after = {path for path in tmp_path.rglob("*") if "state" not in path.parts}
    assert after - before == {place / kept["name"]}
    assert kept["name"][0] not in ".-"


@pytest.mark.parametrize("name", ["..", "%2e%2e", ".gitignore", "..%2Fx", "a%2Fb", "%00", "%ff"])
def test_no_other_file_is_fetched_or_deleted(client: Client, place: Path, name: str) -> None:
    upload(client, ("a", b""))
    for method in ("GET", "DELETE"):
        assert client.send(method, f"/api/files/{name}").status in (400, 404)
    assert (place / ".gitignore").exists()


def test_a_link_instead_of_the_folder_is_refused(
    client: Client, tmp_path: Path, place: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    place.symlink_to(elsewhere)
    for reply in (upload(client, ("a", b"")), paste(client, PNG), client.get("/api/files")):
        assert reply.status == 403
    assert list(elsewhere.iterdir()) == []


def test_a_link_in_the_folder_is_neither_shown_nor_followed(
    client: Client, tmp_path: Path, place: Path
) -> None:
    upload(client, ("a.txt", b"mine"))
    (tmp_path / "secret").write_text("secret")
    (place / "b.txt").symlink_to(tmp_path / "secret")
    os.mkfifo(place / "fifo")
    assert [one["name"] for one in client.get("/api/files")["files"]] == ["a.txt"]
    assert client.get("/api/files/b.txt").status == 403
    assert client.get("/api/files/fifo").status == 400
    assert upload(client, ("b.txt", b"x"))["files"][0]["name"] == "b-2.txt"
    assert (tmp_path / "secret").read_text() == "secret"


# What is refused, with nothing left behind.


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("x.png", b"no picture", "image/png"),
        ("x.txt", b"\x7fELF" + b"\0" * 100, ""),
        ("x.txt", b"text\0", "text/plain"),
        ("x.pdf", PNG, "application/pdf"),
    ],
)
def test_another_kind_is_refused(
    client: Client, place: Path, name: str, data: bytes, kind: str
) -> None:
    assert upload(client, ("good.txt", b"good"), (name, data), kind=kind).status == 415
    wait_until_empty(place)


def test_a_clipboard_takes_only_pictures(client: Client, place: Path) -> None:
    assert paste(client, b"text").status == 415
    assert paste(client, b"").status == 415
    assert paste(client, PNG, "text/plain").status == 415
    assert paste(client, PNG, "").status == 415
    wait_until_empty(place)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"--BB--\r\n",
        b"nonsense",
        build_form(("a", b"x"))[:-10],
        b'--BB\r\nContent-Disposition: form-data; name="f"\r\n\r\nno file\r\n--BB--\r\n',
        b"--BB\r\nX: " + b"y" * 100_000,
        build_form(*[(f"n{number}", b"x") for number in range(rules.MOST_AT_ONCE + 1)]),
        b'--BB\r\nContent-Disposition: form-data; name="f"; filename="\xff"\r\n\r\nx\r\n--BB--\r\n',
    ],
)
def test_a_form_that_is_none_is_refused(client: Client, place: Path, body: bytes) -> None:
    reply = client.post("/api/files", body, {"Content-Type": FORM})
    assert reply.status == 400
    assert "Error(" not in reply["details"], "words, no Python"
    wait_until_empty(place)


def test_what_comes_behind_a_form_is_passed_over(client: Client) -> None:
    for size in (1, 100_000):
        body = build_form(("a", b"x")) + b"more" * size
        assert client.post("/api/files", body, {"Content-Type": FORM}).status == 201


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "multipart/mixed; boundary=BB"])
def test_a_body_of_another_type_is_refused(client: Client, kind: str) -> None:
    assert client.post("/api/files", build_form(("a", b"x")), {"Content-Type": kind}).status == 415


@pytest.mark.parametrize("kind", ["multipart/form-data", "multipart/form-data; boundary="])
def test_a_form_without_a_boundary_is_refused(client: Client, kind: str) -> None:
    assert client.post("/api/files", build_form(("a", b"x")), {"Content-Type": kind}).status == 400


def test_too_large_is_reported_before_the_body_comes(daemon: Serving, place: Path) -> None:
    for path, limit, kind in (
        ("/api/files", rules.LARGEST_REQUEST, FORM),
        ("/api/files/clipboard", rules.LARGEST, "image/png"),
    ):
        lines = [f"Content-Type: {kind}", f"Content-Length: {limit + 1}"]
        with socket.create_connection(("127.0.0.1", daemon.port), timeout=PATIENCE) as connection:
            connection.sendall(build_request("POST", path, *lines))
            (reply,) = parse_replies(read_until_close(connection))
        assert reply.status == 413
    wait_until_empty(place)


def test_too_large_is_reported_while_the_body_comes(
    daemon: Serving, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "LARGEST", 200_000)
    head = build_request(
        "POST", "/api/files", f"Content-Type: {FORM}", "Transfer-Encoding: chunked"
    )
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=PATIENCE) as connection:
        connection.sendall(head)
        body = build_form(("x.png", PNG + b"\0" * 300_000))[:-50]
        connection.sendall(b"%x\r\n%b\r\n" % (len(body), body))
        reply = read_reply(connection)
        assert reply.status == 413
        connection.sendall(b"0\r\n\r\n" + build_request("GET", "/healthz", "Connection: close"))
        (after,) = parse_replies(read_until_close(connection))
        assert after.status == 200
    wait_until_empty(place)


def test_a_full_folder_takes_nothing_more(
    client: Client, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_module, "MOST_FILES", 3)
    assert upload(client, ("a", b"1"), ("b", b"2")).status == 201
    assert upload(client, ("c", b"3"), ("d", b"4"), ("e", b"5")).status in (201, 409)
    reply = upload(client, ("f", b"6"))
    assert (reply.status, reply["error"]) == (409, "Conflict")
    client.delete("/api/files/a")
    monkeypatch.setattr(folder_module, "MOST_BYTES", 100)
    assert paste(client, PNG).status == 409
    assert all(name[0] != "." for name in list_files(place))


def test_a_disk_that_fills_half_way_is_reported_and_leaves_nothing(
    client: Client, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [1_500_000]

    def writev(file: int, chunks: list[bytes]) -> int:
        """Write half of the last chunk that has room, as a disk does."""
        size = min(sum(map(len, chunks)), left[0])
        left[0] -= size
        if not size:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.pwrite(file, b"".join(chunks)[:size], os.lseek(file, 0, os.SEEK_END))

    def write(file: int, data: Any) -> int:
        return writev(file, [bytes(data)])

    monkeypatch.setattr(folder_module.os, "writev", writev)
    monkeypatch.setattr(folder_module.os, "write", write)
    reply = upload(client, ("a.png", PNG), ("b.png", PNG + b"\0" * 3_000_000))
    assert reply.status == 503
    assert "No space left" in reply["message"]
    wait_until_empty(place)


@pytest.mark.parametrize("step", ["fsync", "link"])
def test_a_disk_that_fails_at_the_end_leaves_nothing(
    client: Client, place: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    upload(client, ("first", b""))
    real, calls = getattr(os, step), []

    def fail_second_call(*arguments: Any, **more: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 2:
            raise OSError(errno.EIO, "Input/output error")
        return real(*arguments, **more)

    monkeypatch.setattr(folder_module.os, step, fail_second_call)
    reply = upload(client, ("a.png", PNG), ("b.png", PNG))
    assert reply.status == 503
    monkeypatch.undo()
    assert list_files(place) == {"first"}


# Who leaves, is slow, or loses the key.


def begin_upload(daemon: Serving, key: str = KEY, size: int = 300_000) -> socket.socket:
    """Return a connection on which half of a file has come."""
    connection = socket.create_connection(("127.0.0.1", daemon.port), timeout=PATIENCE)
    body = build_form(("x.png", PNG + b"\0" * size))
    lines = [f"Content-Type: {FORM}", f"Content-Length: {len(body)}"]
    connection.sendall(
        build_request("POST", "/api/files", *lines, key=key) + body[: len(body) // 2]
    )
    return connection


def test_a_client_that_leaves_half_way_leaves_nothing(daemon: Serving, place: Path) -> None:
    with begin_upload(daemon):
        until(lambda: list_files(place))
    wait_until_empty(place)


def test_an_upload_that_stands_still_is_given_up(
    daemon: Serving, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentd.http.body_stream.IDLE_TIMEOUT", 0.3)
    monkeypatch.setattr("agentd.http.request_handler.DISCARD_TIMEOUT", 0.3)
    with begin_upload(daemon) as connection:
        (reply,) = parse_replies(read_until_close(connection))
    assert (reply.status, reply["error"]) == (400, "BadRequest")
    wait_until_empty(place)


def test_a_revoked_key_ends_the_upload(daemon: Serving, place: Path) -> None:
    """Specification 5.3: revoking takes effect at once."""
    key = daemon.new_key("laptop")
    with begin_upload(daemon, key) as connection:
        until(lambda: list_files(place))
        Path(daemon.layout.keys).unlink()  # nothing more comes, and yet it is noticed
        reply = read_reply(connection)
        assert reply.status == 401
    wait_until_empty(place)


def test_only_so_many_at_the_same_time(
    daemon: Serving, client: Client, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_files, "MOST_UNDER_WAY", 2)
    with begin_upload(daemon), begin_upload(daemon):
        until(lambda: len(list_files(place)) == 2)
        reply = upload(client, ("a", b"x"))
        assert (reply.status, reply.headers["Retry-After"]) == (429, "5")
    wait_until_empty(place)
    until(lambda: upload(client, ("a", b"x")).status == 201)


def test_without_a_key_nothing_is_read_or_written(daemon: Serving, place: Path) -> None:
    assert upload(daemon.client("bad"), ("a", b"x")).status == 401
    assert upload(daemon.client(None), ("a", b"x")).status == 401
    assert REMOTE_DISABLED
    assert not place.exists()


def test_many_at_once_get_names_of_their_own(daemon: Serving, place: Path) -> None:
    found: list[str] = []

    def upload_one(number: int) -> None:
        reply = upload(daemon.client(), ("same.txt", b"%d" % number))
        found.append(reply["files"][0]["name"])

    threads = [threading.Thread(target=upload_one, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 12
    assert {(place / name).read_bytes() for name in found} == {b"%d" % n for n in range(12)}


def test_what_a_killed_daemon_was_receiving_is_swept_away(serve: Serve, tmp_path: Path) -> None:
    """A whole process, killed in the middle; the next daemon of the same folder cleans up."""
    place = tmp_path / "uploads"
    layout = Layout(str(tmp_path / "state"), str(tmp_path / "config"))
    command = [sys.executable, "-m", "agentd", "--state", layout.state, "--config", layout.config]
    command += ["--workspace", str(tmp_path), "serve", "--port", "0"]
    hashed = hashlib.sha256(KEY.encode()).hexdigest()
    env = {**os.environ, "AGENT_API_KEY": hashed}
    log = tmp_path / "log"
    with log.open("wb") as errors:
        child = subprocess.Popen(command, env=env, stderr=errors)
    port = until(lambda: re.search(r"on http://127.0.0.1:(\d+)", log.read_text()))[1]
    body = build_form(("x.png", PNG + b"\0" * 300_000))
    with socket.create_connection(("127.0.0.1", int(port)), timeout=PATIENCE) as connection:
        lines = [f"Content-Type: {FORM}", f"Content-Length: {len(body)}"]
        connection.sendall(build_request("POST", "/api/files", *lines) + body[:1000])
        until(lambda: list_files(place))
        child.send_signal(signal.SIGKILL)
        child.wait()
    (place / ".agentd-upload-another-1").write_text("another daemon's")
    assert len(list_files(place)) == 2
    serve(tmp_path)
    assert list_files(place) == {".agentd-upload-another-1"}


def test_memory_stays_flat_while_much_is_uploaded(client: Client, daemon: Serving) -> None:
    """No data is held on its way: a slow disk makes the sender wait."""
    peak = 0
    data = build_form(*[(f"{n}.png", PNG + b"\0" * (20 * 2**20)) for n in range(2)])

    def measure_memory() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = measure_memory()
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.002):
            peak = max(peak, measure_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        assert upload(client).status == 400
        reply = client.post("/api/files", data, {"Content-Type": FORM})
    finally:
        done.set()
        watcher.join()
    assert reply.status == 201
    assert peak - before < 16 * 2**20


# What is told.


def test_what_comes_and_goes_is_published_live_and_nothing_that_failed(
    client: Client, daemon: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening(daemon) as stream:
        stream.read_until(lambda: stream.events)
        with monkeypatch.context() as broken:
            broken.setattr(folder_module.os, "link", fail_disk)
            assert upload(client, ("lost.png", PNG)).status == 503
        assert client.delete("/api/files/nothing.png").status == 404
        kept = upload(client, ("one.png", PNG), ("two.md", b"# hello\n"))
        client.delete("/api/files/one.png")
        events = stream.count(2)
        assert [(one.name, json.loads(one.data)) for one in events] == [
            ("filesUpdate", [{"added": kept["files"], "removed": []}]),
            ("filesUpdate", [{"added": [], "removed": ["one.png"]}]),
        ]


def fail_disk(*_: Any, **__: Any) -> None:
    raise OSError(errno.EIO, "Input/output error")
