"""The servers behind a VPN's link or subscription: every form, never a credential."""

import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from agentd.gateway.vpn.server import list_secrets
from agentd.gateway.vpn.subscription import BODY_LIMIT, parse_single, parse_subscription
from agentd.storage.yaml.untrusted import parse_untrusted_yaml as yaml
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.gateway.vpn.test_links import LINKS
from tests.gateway.vpn.test_subscription import BODIES, HOSTILE, INFO, SIP008, encode_base64
from tests.support.daemon import Client, Reply, Serving
from tests.support.ports import find_free_port

PATH = "/api/agent/channels/preview"


class Subscription(BaseHTTPRequestHandler):
    """Gives what the test has put there, at any path."""

    body = b""
    headers_: ClassVar[dict[str, str]] = {}
    status = 200
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        type(self).asked.append(self.path)
        self.send_response(self.status)
        for name, value in {"Content-Length": str(len(self.body)), **self.headers_}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("daemon")
    with Serving(folder, environ={"PROXY_APP_HASH": HASH}) as daemon:
        yield daemon.client(MANAGEMENT_KEY)


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(Subscription, "asked", [])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Subscription)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/s3cret-path"
    server.shutdown()
    server.server_close()
    thread.join()


def serve_body(
    monkeypatch: pytest.MonkeyPatch, body: bytes, status: int = 200, **headers: str
) -> None:
    result = {name.replace("_", "-"): value for name, value in headers.items()}
    for name, value in (("body", body), ("status", status), ("headers_", result)):
        monkeypatch.setattr(Subscription, name, value)


def get_refusal(reply: Reply) -> str:
    assert (reply.status, reply["error"]) == (400, "BadRequest"), reply.body
    assert b"s3cret" not in reply.body
    return f"{reply['message']} {reply['details']}"


def get_servers(reply: Reply) -> list[tuple[Any, ...]]:
    assert reply.status == 200, reply.body
    return [(one["name"], one["type"], one["host"], one["port"]) for one in reply["servers"]]


@pytest.mark.parametrize("kind", LINKS)
def test_every_kind_of_link_is_previewed_without_how_one_signs_in(
    client: Client, kind: str
) -> None:
    """The proxy specification, section 1: the servers behind a link are previewed."""
    link, expected = LINKS[kind]
    reply = client.post(PATH, {"link": link})
    assert get_servers(reply) == [(expected.name, expected.type, expected.host, expected.port)]
    (result,) = reply["servers"]
    assert set(result) == {"name", "type", "host", "port", "engine", "problem"}
    assert bool(result["engine"]) != bool(result["problem"])
    hidden = [one for one in list_secrets(parse_single(link).find_server("")) if len(one) > 3]
    assert not [one for one in hidden if one in reply.body.decode()]


@pytest.mark.parametrize("number", range(len(BODIES)))
def test_every_form_of_a_body_is_previewed_as_text_and_from_an_address(
    client: Client, url: str, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    body = BODIES[number]
    expected = parse_subscription(body.encode(), {}, yaml)
    wanted = [(one.name, one.type, one.host, one.port) for one in expected.servers]
    reply = client.post(PATH, {"body": body})
    assert get_servers(reply) == wanted
    assert reply["skipped"] == expected.skipped
    serve_body(monkeypatch, body.encode(), Subscription_Userinfo=INFO, Profile_Title="A VPN")
    fetched = client.post(PATH, {"url": url, "local": True})
    assert get_servers(fetched) == wanted
    assert fetched["title"] == "A VPN"
    assert fetched["traffic"] == {
        "used": 3,
        "total": 10,
        "left": 7,
        "expiresAt": "2022-12-23T17:17:52.000Z",
    }
    assert reply["traffic"] == dict.fromkeys(("used", "total", "left", "expiresAt"))
    for body_ in (reply.body, fetched.body):
        assert b"s3cret" not in body_


def test_sip008_and_base64_of_anything_are_previewed(client: Client) -> None:
    text = json.dumps(SIP008)
    for body in (
        text,
        encode_base64(text).decode(),
        encode_base64(BODIES[0], "-_", pad=False).decode(),
    ):
        assert get_servers(client.post(PATH, {"body": body}))


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_body_is_refused_clearly_from_wherever_it_comes(
    client: Client, url: str, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    body = HOSTILE[kind]
    serve_body(monkeypatch, body)
    assert get_refusal(client.post(PATH, {"url": url, "local": True}))
    assert get_refusal(client.post(PATH, {"body": body.decode("utf-8", "replace")}))


def test_a_bomb_of_gzip_counts_as_what_it_becomes(
    client: Client, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_body(monkeypatch, gzip.compress(b"#" * 2**25), Content_Encoding="gzip")
    assert "larger than" in get_refusal(client.post(PATH, {"url": url, "local": True}))


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "localhost", "127.1", "2130706433", "0x7f.1", "0", "[::1]",
        "[::ffff:127.0.0.1]", "169.254.169.254", "10.0.0.1", "192.168.1.1", "100.64.0.1",
        "[fe80::1]", "[fd00::1]", "localhost.",
    ],
)  # fmt: skip
def test_an_address_inside_is_refused_unless_it_is_allowed(
    client: Client, url: str, host: str
) -> None:
    port = url.split(":")[2].split("/", maxsplit=1)[0]
    assert "local: true" in get_refusal(client.post(PATH, {"url": f"http://{host}:{port}/s3cret"}))
    assert not Subscription.asked


def test_what_leads_in_circles_or_elsewhere_is_refused(
    client: Client, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_body(monkeypatch, b"", 302, Location="/s3cret-again")
    assert "more than 3 redirects" in get_refusal(client.post(PATH, {"url": url, "local": True}))
    assert len(Subscription.asked) == 4
    serve_body(monkeypatch, b"", 302, Location="file:///etc/passwd")
    assert get_refusal(client.post(PATH, {"url": url, "local": True}))
    serve_body(monkeypatch, b"gone", 404)
    assert "status 404" in get_refusal(client.post(PATH, {"url": url, "local": True}))


def test_a_host_that_does_not_exist_is_unavailable_and_the_address_is_not_reported(
    client: Client,
) -> None:
    url = f"http://127.0.0.1:{find_free_port()}/s3cret"
    reply = client.post(PATH, {"url": url, "local": True})
    assert (reply.status, reply["error"]) == (503, "Unavailable")
    assert b"s3cret" not in reply.body


@pytest.mark.parametrize(
    "wish",
    [
        {},
        {"local": True},
        {"link": "trojan://s3cret@h:1", "body": "x"},
        {"link": "trojan://s3cret@h:1", "url": "https://h/s3cret"},
        {"url": "trojan://s3cret@h:1"},
        {"url": "ftp://h/s3cret"},
        {"url": "http://u:s3cret@h/"},
        {"url": "https://"},
        {"url": "http://h/ s3cret"},
        {"link": ""},
        {"link": "s3cret"},
        {"link": "ssr://s3cret"},
        {"body": 1},
        {"link": "x" * (BODY_LIMIT + 1)},
        {"bodies": "x"},
    ],
)
def test_what_is_none_of_these_is_refused(client: Client, wish: dict[str, Any]) -> None:
    assert get_refusal(client.post(PATH, wish))


def test_lone_surrogates_and_giant_requests_are_refused(client: Client) -> None:
    assert get_refusal(client.post(PATH, b'{"body": "\\ud800 s3cret"}'))
    assert client.post(PATH, {"body": "s3cret" * 2**20}).status == 413


def test_without_a_program_the_preview_shows_what_to_install(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    (one,) = client.post(PATH, {"link": LINKS["ss"][0]})["servers"]
    assert one["engine"] is None
    assert "install sing-box" in one["problem"]
