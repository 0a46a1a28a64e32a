"""What commands make of programs that answer at a daemon's address."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from agentd.cli.main import FAILED, USAGE, main
from tests.support.daemon import KEY
from tests.support.fixtures import Serve
from tests.support.reverse_proxy import reverse_proxy


@contextmanager
def _serve(status: int, body: bytes) -> Iterator[str]:
    """Run a program that answers all requests alike; yield its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - the name that the library calls

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b'{"detail": "Not Found"}'),
        (401, b'{"message": "no route matched"}'),
        (500, b'{"message": {"text": "oops"}, "details": ""}'),
        (502, b"<html>Bad Gateway</html>"),
        (200, b"[]"),
    ],
)
@pytest.mark.parametrize("words", [["ask", "hello"], ["approve"], ["schedules"], ["tail"]])
def test_another_program_at_the_address_is_told_as_no_agentd(
    status: int,
    body: bytes,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("AGENTD_KEY", "agent_x")
    with _serve(status, body) as url:
        assert main([words[0], "--url", url, *words[1:]]) == FAILED
    assert capsys.readouterr().err.startswith(f"agentd: no agentd answers at {url}\n")


@pytest.fixture
def proxied(serve: Serve) -> Iterator[str]:
    """The URL of a daemon behind a reverse proxy, below a path."""
    with reverse_proxy(serve().port) as url:
        yield url


@pytest.mark.parametrize("end", ["", "/"])
def test_a_daemon_below_a_path_of_a_reverse_proxy_is_reached(
    end: str, proxied: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AGENTD_KEY", KEY)
    assert main(["ask", "hello", "--url", f"{proxied}{end}"]) == 0
    assert "hello" in capsys.readouterr().out


@pytest.mark.parametrize("path", ["/\u00fc", "/ ", "/\x00"])
def test_a_url_whose_path_no_request_can_have_is_wrong_usage(
    path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AGENTD_KEY", KEY)
    assert main(["ask", "hello", "--url", f"http://127.0.0.1:1{path}x"]) == USAGE
    assert "is not the URL of a daemon" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["127.0.0.1:8750", "localhost:8750", "localhost", "//host:8750"])
def test_a_url_without_http_is_wrong_usage_and_not_another_port_of_this_machine(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AGENTD_KEY", "agent_x")
    assert main(["ask", "hello", "--url", url]) == USAGE
    told = capsys.readouterr().err
    assert told.startswith(f"agentd: {url} is not the URL of a daemon: it does not begin with http")
    assert told.endswith("\nagentd: Give one such as --url http://127.0.0.1:8750.\n")
