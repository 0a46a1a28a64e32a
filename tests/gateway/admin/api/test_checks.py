"""Channels tried step by step."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.conftest import SECRET, GatewaySetup
from tests.supplier.steps import Answer, Refuse, Say, Tokens
from tests.support.daemon import Client, until
from tests.support.ports import find_free_port

CHANNELS = "/api/agent/channels"
MODELS = "/api/agent/models"


def run_check(manager: Client, path: str) -> Any:
    reply = manager.send("POST", path)
    assert reply.status == 200, reply.body
    assert SECRET.encode() not in reply.body
    return reply.json()


def get_states(found: Any) -> dict[str, str]:
    return {step["name"]: step["state"] for step in found["steps"]}


def build_answer(status: str, body: bytes = b"{}") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


class Server:
    """Answers requests with these answers in turn, then with the last one; records the requests."""

    def __init__(self, *answers: bytes) -> None:
        self.heard: list[bytes] = []
        self._answers = answers
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection, suppress(OSError):  # who asked has heard enough
                if heard := connection.recv(65536):
                    self.heard.append(heard)
                    connection.sendall(self._answers[min(len(self.heard), len(self._answers)) - 1])

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


@pytest.fixture
def serving() -> Iterator[Any]:
    servers: list[Server] = []

    def make(*answers: bytes) -> Server:
        servers.append(Server(*answers))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


def change_address(manager: Client, url: str, **more: Any) -> None:
    """Give the channel ``chat`` another address, with its key."""
    wish = {"url": url, "key": f"{SECRET}x", "local": True, **more}
    assert manager.patch(f"{CHANNELS}/chat", wish).status == 200


def test_a_good_channel_passes_every_step_and_costs_nothing(
    setup: GatewaySetup, manager: Client
) -> None:
    """The proxy specification, sections 1 and 2: a channel's connection is checked."""
    found = run_check(manager, f"{CHANNELS}/chat/check")
    assert (found["ok"], found["channel"], found["cost"]) == (True, "chat", 0)
    assert get_states(found) == {
        "secret": "passed",
        "name": "passed",
        "connect": "passed",
        "tls": "skipped",
        "models": "passed",
    }
    assert found["steps"][-1]["detail"] == "2 models"
    assert all(step["ms"] >= 0 for step in found["steps"])
    assert not setup.supplier.requests
    assert setup.read_records() == []


@pytest.mark.parametrize("name", ["chat", "responses", "messages", "gemini"])
def test_only_when_asked_one_small_request_is_paid_and_recorded(
    setup: GatewaySetup, manager: Client, name: str
) -> None:
    setup.supplier.script(Answer((Say("x"),), Tokens(input=1000, output=1)))
    found = run_check(manager, f"{CHANNELS}/{name}/check?paid=true")
    assert (found["ok"], get_states(found)["request"]) == (True, "passed"), found
    assert found["cost"] == pytest.approx(0.003015)
    (asked,) = setup.supplier.requests
    assert asked.body.get("max_tokens", asked.body.get("max_completion_tokens", 1)) == 1
    (entry,) = setup.wait_for_records(1)
    assert (entry.key, entry.endpoint, entry.channel) == ("", "check", name)
    assert float(entry.cost) == found["cost"]


def test_a_wrong_key_is_reported_at_the_sign_in_without_the_key(
    setup: GatewaySetup, manager: Client, serving: Any
) -> None:
    server = serving(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
    change_address(manager, f"http://127.0.0.1:{server.port}")
    found = run_check(manager, f"{CHANNELS}/chat/check?paid=true")
    assert (found["ok"], get_states(found)["models"]) == (False, "failed")
    assert "401" in found["steps"][-1]["detail"]
    assert "request" not in get_states(found)


def test_no_redirect_is_followed_with_the_key(manager: Client, serving: Any) -> None:
    other = serving(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    to = f"http://127.0.0.1:{other.port}/v1/models".encode()
    first = serving(b"HTTP/1.1 302 Found\r\nLocation: " + to + b"\r\nContent-Length: 0\r\n\r\n")
    change_address(manager, f"http://127.0.0.1:{first.port}")
    found = run_check(manager, f"{CHANNELS}/chat/check")
    assert (found["ok"], get_states(found)["models"]) == (False, "failed")
    assert "302" in found["steps"][-1]["detail"]
    assert (len(first.heard), other.heard) == (1, [])


def test_a_supplier_without_a_list_of_models_is_in_order_if_it_takes_requests(
    manager: Client, serving: Any
) -> None:
    server = serving(build_answer("404 Not Found"), build_answer("400 Bad Request"))
    change_address(manager, f"http://127.0.0.1:{server.port}")
    found = run_check(manager, f"{CHANNELS}/chat/check")
    assert (found["ok"], get_states(found)["models"]) == (True, "skipped")
    assert b"POST /v1/chat/completions" in server.heard[1]


def test_nobody_listens(manager: Client) -> None:
    change_address(manager, f"http://127.0.0.1:{find_free_port()}")
    found = run_check(manager, f"{CHANNELS}/chat/check")
    assert [step["state"] for step in found["steps"]] == ["passed", "passed", "failed"]
    assert found["steps"][-1]["name"] == "connect"


def test_a_name_that_is_none(manager: Client) -> None:
    change_address(manager, "http://nowhere.invalid")
    found = run_check(manager, f"{CHANNELS}/chat/check")
    assert [step["state"] for step in found["steps"]] == ["passed", "failed"]
    assert "nowhere.invalid" in found["steps"][-1]["detail"]


def test_what_speaks_no_tls(manager: Client, serving: Any) -> None:
    server = serving(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    change_address(manager, f"https://127.0.0.1:{server.port}")
    found = run_check(manager, f"{CHANNELS}/chat/check")
    assert get_states(found)["tls"] == "failed"
    assert "TLS" in found["steps"][-1]["detail"]


def test_a_channel_that_may_not_go_inside_does_not(setup: GatewaySetup, manager: Client) -> None:
    path = Path(setup.layout.channels)
    text = path.read_text().replace("127.0.0.1", "inside.localtest.invalid", 1)
    path.write_text(text.replace('"local": true', '"local": false', 1))
    until(lambda: not manager.get(f"{CHANNELS}/chat")["local"])
    found = run_check(manager, f"{CHANNELS}/chat/check")
    assert get_states(found)["name"] == "failed"


def test_a_secret_that_is_unavailable_is_reported(setup: GatewaySetup, manager: Client) -> None:
    path = Path(setup.layout.channels)
    path.write_text(path.read_text().replace(SECRET, "env:NOWHERE", 1))
    until(lambda: manager.get(f"{CHANNELS}/chat")["key"] == "env:NOWHERE")
    found = run_check(manager, f"{CHANNELS}/chat/check")
    assert get_states(found) == {"secret": "failed"}
    assert "NOWHERE" in found["steps"][0]["detail"]


def test_a_proxy_resolves_the_name_and_its_failure_is_the_connections(
    manager: Client, serving: Any
) -> None:
    proxy = serving(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
    url = f"http://user:pass-word-0123456789@127.0.0.1:{proxy.port}"
    change_address(manager, "http://far.example.com", transport={"kind": "http", "url": url})
    reply = manager.send("POST", f"{CHANNELS}/chat/check")
    found = reply.json()
    assert [step["state"] for step in found["steps"]] == ["passed", "passed", "failed"]
    assert proxy.heard[0].startswith(b"CONNECT far.example.com:80")
    assert b"pass-word" not in reply.body


def test_a_stalled_supplier_does_not_hold_a_check_up(
    manager: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy specification, section 1: checks are quick probes.

    On a slow machine the time may be over before it comes to the stall; not each time, though.
    """
    monkeypatch.setattr("agentd.gateway.channels.check.SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        change_address(manager, f"http://127.0.0.1:{silent.getsockname()[1]}")
        found = until(
            lambda: (
                found
                if (found := run_check(manager, f"{CHANNELS}/chat/check"))["steps"][-1]["name"]
                == "models"
                else None
            )
        )
    assert get_states(found)["models"] == "failed"
    assert "0.2 s" in found["steps"][-1]["detail"]


@pytest.mark.parametrize("before", [0, 590])
def test_what_a_supplier_says_of_a_refusal_is_reported_without_the_channel_s_secrets(
    setup: GatewaySetup, manager: Client, before: int
) -> None:
    """Nor with the beginning of one where a long message is cut."""
    key, token = "of-no-known-form-0123456789", "nor-this-9876543210"
    headers = {"X-Proxy-Auth": f"Bearer {token}"}
    manager.patch(f"{CHANNELS}/chat", {"key": key, "headers": headers})
    setup.supplier.script(Refuse(400, f"what is {token}{' ' * 9}for? {'.' * before}{key}"))
    found = run_check(manager, f"{CHANNELS}/chat/check?paid=true")
    assert not any(part in str(found) for part in (key[:4], token))
    assert (found["ok"], "what is *** for" in found["steps"][-1]["detail"]) == (False, True)
    (entry,) = setup.wait_for_records(1)
    assert (entry.outcome, entry.status, entry.cost) == ("failed", 400, 0)


def test_a_model_is_tried_through_its_first_way(setup: GatewaySetup, manager: Client) -> None:
    manager.patch(
        f"{MODELS}/by-chat",
        {"routes": [{"channel": "gemini", "priority": 2}, {"channel": "chat", "model": "odd"}]},
    )
    found = run_check(manager, f"{MODELS}/by-chat/check")
    assert (found["channel"], found["ok"]) == ("chat", True)
    assert "odd is not " in found["steps"][-1]["detail"]


def test_what_cannot_be_tried_is_refused(setup: GatewaySetup, manager: Client) -> None:
    manager.post(CHANNELS, {"name": "x", "dialects": ["gemini"], "url": "https://e.example.com"})
    assert manager.send("POST", f"{CHANNELS}/x/check?paid=true").status == 400
    assert manager.send("POST", f"{CHANNELS}/chat/check?paid=true&model=by-gemini").status == 400
    assert manager.send("POST", f"{CHANNELS}/chat/check?paid=1").status == 400
    unknown = manager.send("POST", f"{CHANNELS}/chat/check?model=by-chatt")
    assert (unknown.status, 'did you mean "by-chat"?' in unknown["message"]) == (400, True)
    assert manager.send("POST", f"{CHANNELS}/y/check").status == 404
    assert manager.send("POST", f"{MODELS}/y/check").status == 404


@pytest.mark.parametrize(
    "said",
    [
        build_answer("404 Not Found"),
        build_answer("405 Method Not Allowed"),
        build_answer("200 OK", b'{"hello": "world"}'),
        build_answer("200 OK", b"[]"),
    ],
)
def test_an_address_at_which_nothing_takes_requests_is_not_in_order(
    manager: Client, serving: Any, said: bytes
) -> None:
    server = serving(said)
    change_address(manager, f"http://127.0.0.1:{server.port}/wrong")
    found = run_check(manager, f"{CHANNELS}/chat/check")
    assert (found["ok"], get_states(found)["models"]) == (False, "failed")
    assert "is the address right?" in found["steps"][-1]["detail"]
