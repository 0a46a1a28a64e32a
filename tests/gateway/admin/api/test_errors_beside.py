"""The described errors of the recipe's calls outside the management: each can be provoked."""

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentd.http import throttle
from tests.gateway.admin.api.described import Description, Manager
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.gateway.conftest import GatewaySetup
from tests.gateway.relay.callers import RunningGateway, running_gateway
from tests.supplier.steps import Answer, Break, Refuse, Say
from tests.support.daemon import Reply, build_request, send_raw, until

CHAT = ("POST", "/v1/chat/completions")
SIGN_IN = ("POST", "/api/session")
Found = set[tuple[int, str]]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    def prepare(setup: GatewaySetup) -> None:
        setup.settings["tries"] = 1
        for channel in setup.channels:
            channel["cool_down"] = 0

    folder = tmp_path_factory.mktemp("gateway")
    with running_gateway(folder, prepare, environ={"PROXY_APP_HASH": HASH}) as made:
        yield made


@pytest.fixture(scope="module")
def manager(gateway: RunningGateway) -> Iterator[Manager]:
    made = Manager(gateway.daemon.url, MANAGEMENT_KEY)
    yield made
    made.close()


def get_described_errors(manager: Manager, address: tuple[str, str]) -> Found:
    """Return the errors in the description of an address."""
    description = Description(manager.get("/api/agent").json())
    return {(one["status"], one["error"]) for one in description.addresses[address]["errors"]}


class ErrorProvoker:
    """Sends requests that fail in all ways; ``found`` is the answers."""

    def __init__(self, gateway: RunningGateway) -> None:
        self.gateway = gateway
        self.key = gateway.add_caller().key
        self.found: Found = set()

    def send_call(
        self, *lines: str, key: str = "", body: Any = None, model: str = "by-chat"
    ) -> None:
        """Send one request."""
        said = {"model": model, "messages": [{"role": "user", "content": "hello"}]}
        data = json.dumps(said if body is None else body).encode()
        kind = ("Content-Type: application/json", "Connection: close")
        bearer = f"Authorization: Bearer {key or self.key}"
        self.send(build_request(*CHAT, bearer, *kind, *lines, body=data, key=None))

    def send(self, data: bytes) -> None:
        """Send the bytes, and record how they were refused."""
        (reply, *_) = send_raw(self.gateway.daemon.port, data)
        error = reply["error"]
        self.found.add((reply.status, error["code"] or error["type"]))

    def send_supplier_refusal(self, *refusals: Refuse) -> None:
        """Let the supplier refuse a request."""
        for refusal in refusals:
            self.gateway.supplier.script(refusal)
            self.send_call(model="by-messages")  # of another dialect: told in our words


def test_every_error_of_a_reply_can_be_provoked(gateway: RunningGateway, manager: Manager) -> None:
    chat = ErrorProvoker(gateway)
    chat.send_call(body={})
    chat.send_call(key="sk-agentd-wrong")
    chat.send_call(model="nobody")
    chat.send_call(key=gateway.add_caller(channels=()).key)
    chat.send_call(key=gateway.add_caller(limits={"total": "0"}).key)
    much = (f"Authorization: Bearer {chat.key}", "Content-Length: 999999999", "Connection: close")
    chat.send(build_request(*CHAT, *much, key=None))
    chat.send(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    )
    rule = {"id": "codeword", "value": "abracadabra-simsalabim", "mode": "block"}
    assert manager.post("/api/agent/secret-rules", rule).status == 201
    said = {"role": "user", "content": rule["value"]}
    chat.send_call(body={"model": "by-chat", "messages": [said]})
    chat.send_supplier_refusal(
        Refuse(400, "prompt is too long: 300000 tokens > 200000 maximum"),
        Refuse(400, "Output blocked by content filtering policy"),
        Refuse(429),
        Refuse(500, "It failed"),
        Refuse(503, "It is overloaded"),
        Refuse(200, body="what is this"),
    )
    broken = Answer((Say("well"),), faults=(Break(1),))
    gateway.supplier.script(broken, broken)  # a kept connection that is dead is not its answer
    chat.send_call()
    (served,) = manager.get("/api/agent/models/by-messages")["routes"]
    manager.patch(f"/api/agent/channels/{served['channel']}", {"enabled": False})
    chat.send_call(model="by-messages")
    licence = Path(gateway.setup.layout.licence)
    licence.unlink()
    until(lambda: manager.get("/api/agent/licence")["state"] != "valid")
    chat.send_call()
    gateway.setup.write()
    assert chat.found >= get_described_errors(manager, CHAT), (
        get_described_errors(manager, CHAT) - chat.found
    )


def test_every_error_of_signing_in_can_be_provoked(
    gateway: RunningGateway, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: Found = set()

    def sign_in(body: Any, *lines: str, host: str = "localhost") -> Reply:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = [f"POST {SIGN_IN[1]} HTTP/1.1", f"Host: {host}", "Connection: close", *lines]
        if not any(line.startswith("Content-Type") for line in lines):
            head.append("Content-Type: application/json")
        if not any(line.startswith("Content-Length") for line in lines):
            head.append(f"Content-Length: {len(data)}")
        (reply, *_) = send_raw(gateway.daemon.port, "\r\n".join([*head, "", ""]).encode() + data)
        if reply.status >= 400:
            found.add((reply.status, reply["error"]))
        return reply

    code = {"code": manager.post("/api/agent/session", None)["code"]}
    with monkeypatch.context() as patch:

        def raise_disk_full(_: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        patch.setattr("os.fsync", raise_disk_full)
        sign_in(code)
    wrong = {"code": "WRONGWRONG"}
    sign_in(b"{")
    sign_in(wrong)
    sign_in(wrong, "Origin: https://evil.example")
    sign_in(wrong, "Content-Type: text/plain")
    sign_in(b"", "Content-Length: 999999999")
    sign_in(wrong, host="evil.example")
    with monkeypatch.context() as patch:
        patch.setattr(throttle, "MAX_DELAYED", 0)
        patch.setattr(throttle, "WINDOW_SECONDS", 1000.0)
        for _ in range(throttle.FREE_FAILURES + 1):
            sign_in(wrong)
    with monkeypatch.context() as patch:

        async def raise_bug(*_: object) -> None:
            raise RuntimeError("a bug")

        patch.setattr("agentd.auth.sessions.SessionManager.sign_in_with_code", raise_bug)
        sign_in(code)
    assert found >= get_described_errors(manager, SIGN_IN), (
        get_described_errors(manager, SIGN_IN) - found
    )
