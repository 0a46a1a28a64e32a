"""``agentd tls``, and the daemon that answers https with what it made."""

import asyncio
import http.client
import json
import os
import shutil
import ssl
import stat
import textwrap
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography.x509 import load_pem_x509_certificate
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from agentd.cli.main import main
from agentd.core.errors import ConfigError
from agentd.http.tls import load_tls_context
from agentd.settings.sources import load
from tests.support.daemon import KEY, PATIENCE, WORD, Serving
from tests.support.fixtures import Serve


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    config = tmp_path_factory.mktemp("config")
    state = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        shown: list[str] = []
        patch.setattr("builtins.print", lambda text, **_: shown.append(text))
        command = ["--config", str(config), "--state", str(state), "tls", "--json"]
        assert main([*command, "--name", "workshop.example"]) == 0
    found: dict[str, str] = json.loads(shown[0])
    return found


@pytest.fixture
def daemon(serve: Serve, files: dict[str, str]) -> Serving:
    return serve(tls={"certificate": files["certificate"], "key": files["key"]})


@pytest.fixture
def daemon_without_tls(serve: Serve) -> Serving:
    return serve()


class Browser:
    """Speaks https to the daemon, and trusts the authority alone."""

    def __init__(self, daemon: Serving, files: dict[str, str]) -> None:
        assert daemon._running
        address = daemon._running.public_url
        assert address.startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=files["authority"])
        port = int(address.rpartition(":")[2])
        self.connection = http.client.HTTPSConnection("127.0.0.1", port, context=context)

    def send(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        data = None if body is None else json.dumps(body)
        head = {"Content-Type": "application/json", **(headers or {})}
        self.connection.request(method, path, data, head)
        answer = self.connection.getresponse()
        return answer.status, answer.headers, answer.read()


@pytest.fixture
def browser(daemon: Serving, files: dict[str, str]) -> Iterator[Browser]:
    browser = Browser(daemon, files)
    yield browser
    browser.connection.close()


def test_the_key_is_private_and_no_key_of_the_authority_is_kept(files: dict[str, str]) -> None:
    assert stat.S_IMODE(os.stat(files["key"]).st_mode) == 0o600
    kept = sorted(os.listdir(os.path.dirname(files["key"])))
    assert kept == ["authority.crt", "server.crt", "server.key"]
    assert Path(files["key"]).read_text().count("PRIVATE KEY") == 2
    assert "PRIVATE" not in Path(files["authority"]).read_text()
    assert {"localhost", "127.0.0.1", "workshop.example"} <= set(files["names"])


def test_what_is_printed_can_be_followed_word_for_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--config", str(tmp_path), "--state", str(tmp_path / "state"), "tls"]
    assert main([*command, "--name", "workshop.example", "--name", "192.0.2.7"]) == 0
    result = capsys.readouterr().out
    assert str(tmp_path / "agentd.yml") in result
    added = result.split("\n\n")[1]
    (tmp_path / "agentd.yml").write_text(textwrap.dedent(added))
    settings = load({"config": str(tmp_path)}, {}, str(tmp_path)).settings
    assert ip_address(settings.host).is_unspecified
    assert {"workshop.example", "192.0.2.7"} <= set(settings.hosts)
    assert not {"localhost", "127.0.0.1", "::1"} & set(settings.hosts)
    assert settings.tls
    load_tls_context(settings.tls.certificate, settings.tls.key)

    authority = tmp_path / "tls" / "authority.crt"
    trust = result.partition(str(authority))
    assert trust[1], "the file that devices are to trust"
    expires = load_pem_x509_certificate(authority.read_bytes()).not_valid_after_utc
    assert str(expires.date()) in trust[2]
    for device in ("iPhone", "iPad", "Android", "macOS", "Windows", "Linux"):
        assert device in trust[2], device
    assert "server.key" not in trust[2], "it goes to no device"
    assert "PRIVATE" not in result


def test_a_name_that_is_none_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    command = ["--config", str(tmp_path), "--state", str(tmp_path / "state"), "tls"]
    assert main([*command, "--name", "not a host!"]) == 2
    assert not (tmp_path / "tls").exists()


def test_a_client_that_trusts_the_authority_signs_in_by_https_with_a_secure_cookie(
    daemon: Serving, browser: Browser
) -> None:
    daemon.administrator()
    status, headers, _ = browser.send("POST", "/api/session", {"user": "ada", "password": WORD})
    assert status == 200
    cookie = headers["Set-Cookie"]
    assert cookie.startswith("__Host-agentd-session-")
    assert cookie.endswith("; Secure")
    status, _, body = browser.send(
        "GET", "/api/session", headers={"Cookie": cookie.partition(";")[0]}
    )
    assert (status, json.loads(body)["user"]) == (200, "ada")


@pytest.mark.parametrize("trusts", [True, False])
def test_a_command_reaches_a_daemon_by_https_if_this_machine_trusts_it(
    daemon: Serving,
    files: dict[str, str],
    trusts: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert daemon._running
    url = daemon._running.public_url
    monkeypatch.setenv("AGENTD_KEY", KEY)
    if trusts:
        monkeypatch.setenv("SSL_CERT_FILE", files["authority"])
    code = main(["ask", "hello", "--url", url])
    told = capsys.readouterr()
    if trusts:
        assert (code, told.out != "") == (0, True), told.err
        return
    assert (code, told.out) == (1, "")
    assert f"the certificate of {url} is not trusted: " in told.err
    assert "SSL_CERT_FILE" in told.err


def test_a_command_tells_at_once_that_a_daemon_speaks_no_tls(
    daemon_without_tls: Serving,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert daemon_without_tls._running
    url = daemon_without_tls._running.public_url.replace("http://", "https://")
    monkeypatch.setenv("AGENTD_KEY", KEY)
    assert main(["ask", "hello", "--url", url]) == 1
    told = capsys.readouterr().err
    assert f"what answers at {url} does not speak TLS" in told
    assert "http://" in told


def test_large_bodies_pass_both_ways(daemon: Serving, browser: Browser) -> None:
    prompt = "a line of text\n" * 16_000
    status, _, body = browser.send(
        "POST", "/api/remote/chats", {"prompt": prompt}, {"X-API-Key": KEY}
    )
    assert status == 201
    chat = json.loads(body)["chatId"]
    daemon.client().messages(chat)
    _, _, body = browser.send("GET", f"/api/chat/{chat}/messages", headers={"X-API-Key": KEY})
    assert json.loads(body)["messages"][0]["content"] == prompt


def test_a_stream_goes_on_and_a_connection_is_kept(daemon: Serving, browser: Browser) -> None:
    connection = browser.connection
    assert browser.send("GET", "/healthz")[0] == 200
    kept = connection.sock
    assert [browser.send("GET", "/healthz")[0] for _ in range(3)] == [200] * 3
    assert connection.sock is kept
    kept.settimeout(PATIENCE)
    connection.request("GET", "/api/events", headers={"X-API-Key": KEY})
    stream = connection.getresponse()
    for _ in range(5):
        chat = daemon.client().create_chat()
        while f'"chatId":{chat}'.encode() not in stream.readline():
            pass


@pytest.mark.gen_test(timeout=PATIENCE)
async def test_a_websocket_gets_events_and_ends_in_order(daemon: Serving, files: dict[str, str]):
    assert daemon._running
    address = daemon._running.public_url.replace("https", "wss")
    context = ssl.create_default_context(cafile=files["authority"])
    request = HTTPRequest(f"{address}/liveChatHub?api_key={KEY}", ssl_options=context)
    connection = await websocket_connect(request)
    await connection.write_message('{"protocol":"json","version":1}\x1e')
    assert await connection.read_message() == "{}\x1e"
    for _ in range(5):
        chat = await asyncio.to_thread(daemon.client().create_chat)
        while f'"chatId":{chat}' not in str(await connection.read_message()):
            pass
    connection.close()
    while await connection.read_message() is not None:
        pass


def test_programs_of_this_machine_go_on_by_http(daemon: Serving) -> None:
    result = json.loads(Path(daemon.layout.daemon).read_bytes())
    assert result["url"].startswith("http://127.0.0.1:")
    assert result["public_url"].startswith("https://")
    assert daemon.client().get("/api/session")["kind"] == "key"


def test_what_speaks_no_tls_gets_no_answer_and_affects_nobody_else(
    daemon: Serving, browser: Browser
) -> None:
    assert daemon._running
    port = int(daemon._running.public_url.rpartition(":")[2])
    plain = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with pytest.raises((http.client.HTTPException, OSError)):
        plain.request("GET", "/healthz")
        plain.getresponse()
    plain.close()
    assert browser.send("GET", "/healthz")[0] == 200


def test_files_that_are_wrong_are_reported_with_their_path(
    tmp_path: Path, files: dict[str, str]
) -> None:
    key = tmp_path / "key"
    for wrong, message in (("", "certificate"), ("x", "certificate")):
        key.write_text(wrong)
        key.chmod(0o600)
        with pytest.raises(ConfigError, match=message):
            load_tls_context(files["certificate"], str(key))
    shutil.copy(files["key"], key)
    key.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod o-rwx"):
        load_tls_context(files["certificate"], str(key))
    with pytest.raises(ConfigError, match=r"missing\.crt"):
        load_tls_context(str(tmp_path / "missing.crt"), files["key"])


def test_a_check_before_a_start_reports_what_would_prevent_https(
    tmp_path: Path, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    check = ["--config", str(tmp_path), "--state", str(tmp_path / "state"), "check"]
    settings, key = tmp_path / "agentd.yml", tmp_path / "server.key"
    shutil.copy(files["key"], key)
    settings.write_text(f"tls: {{certificate: '{files['certificate']}', key: '{key}'}}\n")
    assert main(check) == 0
    key.chmod(0o644)
    assert main(check) == 1
    key.unlink()
    assert main(check) == 1
    told = capsys.readouterr().out.splitlines()
    assert told == [
        f"{key}: can be accessed by others; chmod o-rwx {key}",
        f"{key}: cannot be read: No such file or directory",
    ]
