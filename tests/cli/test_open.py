"""Sign-in links: ``agentd open``, and what ``agentd serve`` shows on a terminal at first."""

import json
import os
import pty
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentd.auth.sign_in_links import SignInLinks
from agentd.cli.main import main
from agentd.core.clock import FrozenClock, SystemClock
from agentd.storage.layout import Layout
from tests.support.daemon import Client, Serving
from tests.support.fixtures import Serve

LINK = re.compile(r"http://127\.0\.0\.1:\d+/login#code=([0-9a-f]{64})")


def make_link(daemon: Serving, capsys: pytest.CaptureFixture[str]) -> str:
    """Run the command and return the link, its only output."""
    assert main(["--state", daemon.layout.state, "open"]) == 0
    return capsys.readouterr().out.strip()


def parse_code(link: str) -> str:
    found = LINK.fullmatch(link)
    assert found, link
    return found[1]


def test_a_link_signs_an_administrator_in_once(
    shared: Serving, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make_link(shared, capsys)
    assert link.startswith(f"{shared.url}/login#")
    client = shared.client(None)
    reply = client.post("/api/session", {"code": parse_code(link)})
    assert (reply.status, reply["role"]) == (200, "administrator")
    cookie = reply.headers["Set-Cookie"].partition(";")[0]
    assert client.get("/api/users", {"Cookie": cookie}).status == 200
    again = client.post("/api/session", {"code": parse_code(link)})
    assert (again.status, "Set-Cookie" in again.headers) == (401, False)


def test_of_several_who_use_a_link_at_once_one_is_signed_in(
    shared: Serving, capsys: pytest.CaptureFixture[str]
) -> None:
    code = parse_code(make_link(shared, capsys))

    def use(_: int) -> int:
        client = Client(shared.url, None)
        try:
            return client.post("/api/session", {"code": code}).status
        finally:
            client.close()

    with ThreadPoolExecutor(4) as threads:
        assert sorted(threads.map(use, range(4))) == [200, 401, 401, 401]


def test_only_a_digest_of_the_code_is_on_disk_and_only_for_its_owner(serve: Serve) -> None:
    daemon = serve()
    code = parse_code(SignInLinks(daemon.layout, SystemClock()).create(daemon.url))
    (file,) = Path(daemon.layout.sign_in_links).iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for path in Path(daemon.layout.state).rglob("*"):
        assert code not in path.name
        assert not path.is_file() or code.encode() not in path.read_bytes()
    assert daemon.client(None).post("/api/session", {"code": code}).status == 200
    assert not file.exists()


def test_a_link_expires_and_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    links = SignInLinks(Layout(str(tmp_path), str(tmp_path)), SystemClock())
    with monkeypatch.context() as before:
        before.setattr(SystemClock, "now", lambda _: "2026-01-01T00:00:00.000Z")
        old, older = (parse_code(links.create("http://0.0.0.0:8750")) for _ in range(2))
    assert not links.redeem(old)
    new = parse_code(links.create("http://127.0.0.1:8750"))
    assert len(list(tmp_path.rglob("*.json"))) == 1, "the other one was removed"
    assert not links.redeem(older)
    assert links.redeem(new)


def test_a_link_lives_no_longer_where_the_clock_is_set_back(tmp_path: Path) -> None:
    clock = FrozenClock()
    links = SignInLinks(Layout(str(tmp_path), str(tmp_path)), clock)
    first, second = (parse_code(links.create("http://127.0.0.1:8750")) for _ in range(2))
    clock.move(-2)
    assert links.redeem(first), "a time server corrects a clock by seconds"
    clock.move(-3600)
    assert not links.redeem(second)


def test_wrong_links_void_nothing(shared: Serving, capsys: pytest.CaptureFixture[str]) -> None:
    link = make_link(shared, capsys)
    for wrong in ("0" * 64, "../" * 21 + "a", "f" * 100):
        reply = shared.client(None).post("/api/session", {"code": wrong})
        assert reply.status in (401, 429)
    assert SignInLinks(shared.layout, SystemClock()).redeem(parse_code(link))


def test_without_a_daemon_it_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--state", str(tmp_path), "open"]) == 1
    assert "agentd serve" in capsys.readouterr().err


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    ours, theirs = pty.openpty()
    yield ours, theirs
    os.close(ours)


def serve_on(terminal: int, folder: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "agentd", "serve", "--port", "0"]
    command += ["--state", str(folder / "state"), "--workspace", str(folder)]
    return subprocess.Popen(command, cwd=folder, stdout=terminal, stderr=terminal)


def read_until(terminal: int, text: str) -> str:
    shown = b""
    while text.encode() not in shown:
        shown += os.read(terminal, 4096)
    return shown.decode()


def test_a_fresh_daemon_on_a_terminal_shows_a_link(
    tmp_path: Path, terminal: tuple[int, int]
) -> None:
    ours, theirs = terminal
    daemon = serve_on(theirs, tmp_path)
    os.close(theirs)
    try:
        shown = read_until(ours, "agentd open")
        link = LINK.search(shown)
        assert link, shown
        address = json.loads((tmp_path / "state" / "daemon.json").read_bytes())["url"]
        client = Client(address, None)
        try:
            assert client.post("/api/session", {"code": link[1]})["role"] == "administrator"
        finally:
            client.close()
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(60)


def test_once_somebody_can_sign_in_no_link_is_shown(
    tmp_path: Path, terminal: tuple[int, int]
) -> None:
    ours, theirs = terminal
    with Serving(tmp_path) as daemon:
        daemon.administrator()
    command = [sys.executable, "-m", "agentd", "serve", "--port", "0"]
    command += ["--state", daemon.layout.state, "--config", daemon.layout.config]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=theirs, stderr=theirs)
    os.close(theirs)
    try:
        shown = read_until(ours, "serving ")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    with pytest.raises(OSError, match="rrno 5"):
        while True:
            shown += os.read(ours, 4096).decode()
    assert "#code" not in shown


def test_who_has_no_daemon_is_told_options_that_the_command_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--state", str(tmp_path / "state"), "open"]) == 1
    told = capsys.readouterr().err
    assert main(["open", "--help"]) == 0
    options = capsys.readouterr().out
    named = set(re.findall(r"--[a-z]+", told))
    assert named
    assert all(name in options for name in named), told
