"""What the recipe calls beside the management: each error that is told of it can be provoked."""

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentd.web import wrong_keys
from tests.supplier.steps import Answer, Break, Refuse, Say
from tests.web.gateway.callers import Standing, standing
from tests.web.gateway.conftest import House
from tests.web.manage.conftest import HASH, MANAGEMENT_KEY
from tests.web.manage.described import Description, Manager
from tests.web.support import Reply, raw, request, until

CHAT = ("POST", "/v1/chat/completions")
SIGN_IN = ("POST", "/api/session")
Found = set[tuple[int, str]]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    def prepare(house: House) -> None:
        house.settings["tries"] = 1
        for channel in house.channels:
            channel["cool_down"] = 0

    folder = tmp_path_factory.mktemp("house")
    with standing(folder, prepare, environ={"PROXY_APP_HASH": HASH}) as made:
        yield made


@pytest.fixture(scope="module")
def manager(place: Standing) -> Iterator[Manager]:
    made = Manager(place.daemon.url, MANAGEMENT_KEY)
    yield made
    made.close()


def told(manager: Manager, address: tuple[str, str]) -> Found:
    """The errors that the description tells of an address."""
    description = Description(manager.get("/api/agent").json())
    return {(one["status"], one["error"]) for one in description.addresses[address]["errors"]}


class Provoking:
    """Asks for a reply in all the ways that go wrong; ``found`` is what was answered."""

    def __init__(self, place: Standing) -> None:
        self.place = place
        self.key = place.caller().key
        self.found: Found = set()

    def ask(self, *lines: str, key: str = "", body: Any = None, model: str = "by-chat") -> None:
        """One request."""
        said = {"model": model, "messages": [{"role": "user", "content": "hello"}]}
        data = json.dumps(said if body is None else body).encode()
        kind = ("Content-Type: application/json", "Connection: close")
        bearer = f"Authorization: Bearer {key or self.key}"
        self.send(request(*CHAT, bearer, *kind, *lines, body=data, key=None))

    def send(self, data: bytes) -> None:
        """Send it, and note how it was refused."""
        (reply, *_) = raw(self.place.daemon.port, data)
        error = reply["error"]
        self.found.add((reply.status, error["code"] or error["type"]))

    def refused(self, *refusals: Refuse) -> None:
        """As a supplier refuses it."""
        for refusal in refusals:
            self.place.supplier.script(refusal)
            self.ask(model="by-messages")  # of another dialect: told in our words


def test_every_error_of_a_reply_can_be_provoked(place: Standing, manager: Manager) -> None:
    chat = Provoking(place)
    chat.ask(body={})
    chat.ask(key="sk-agentd-wrong")
    chat.ask(model="nobody")
    chat.ask(key=place.caller(channels=()).key)
    chat.ask(key=place.caller(limits={"total": "0"}).key)
    much = (f"Authorization: Bearer {chat.key}", "Content-Length: 999999999", "Connection: close")
    chat.send(request(*CHAT, *much, key=None))
    chat.send(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    )
    rule = {"id": "codeword", "value": "abracadabra-simsalabim", "mode": "block"}
    assert manager.post("/api/agent/secret-rules", rule).status == 201
    said = {"role": "user", "content": rule["value"]}
    chat.ask(body={"model": "by-chat", "messages": [said]})
    chat.refused(
        Refuse(400, "prompt is too long: 300000 tokens > 200000 maximum"),
        Refuse(429),
        Refuse(500, "It failed"),
        Refuse(503, "It is overloaded"),
        Refuse(200, body="what is this"),
    )
    broken = Answer((Say("well"),), faults=(Break(1),))
    place.supplier.script(broken, broken)  # a kept connection that is dead is not its answer
    chat.ask()
    licence = Path(place.house.layout.licence)
    licence.unlink()
    until(lambda: manager.get("/api/agent/licence")["state"] != "valid")
    chat.ask()
    place.house.write()
    assert chat.found >= told(manager, CHAT), told(manager, CHAT) - chat.found


def test_every_error_of_signing_in_can_be_provoked(
    place: Standing, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: Found = set()

    def sign_in(body: Any, *lines: str, host: str = "localhost") -> Reply:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = [f"POST {SIGN_IN[1]} HTTP/1.1", f"Host: {host}", "Connection: close", *lines]
        if not any(line.startswith("Content-Type") for line in lines):
            head.append("Content-Type: application/json")
        if not any(line.startswith("Content-Length") for line in lines):
            head.append(f"Content-Length: {len(data)}")
        (reply, *_) = raw(place.daemon.port, "\r\n".join([*head, "", ""]).encode() + data)
        if reply.status >= 400:
            found.add((reply.status, reply["error"]))
        return reply

    code = {"code": manager.post("/api/agent/session", None)["code"]}
    with monkeypatch.context() as patch:

        def full(_: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        patch.setattr("os.fsync", full)
        sign_in(code)
    wrong = {"code": "WRONGWRONG"}
    sign_in(b"{")
    sign_in(wrong)
    sign_in(wrong, "Origin: https://evil.example")
    sign_in(wrong, "Content-Type: text/plain")
    sign_in(b"", "Content-Length: 999999999")
    sign_in(wrong, host="evil.example")
    with monkeypatch.context() as patch:
        patch.setattr(wrong_keys, "WAITING", 0)
        patch.setattr(wrong_keys, "WITHIN", 1000.0)
        for _ in range(wrong_keys.FREE + 1):
            sign_in(wrong)
    with monkeypatch.context() as patch:

        async def broken(*_: object) -> None:
            raise RuntimeError("a bug")

        patch.setattr("agentd.access.people.People.enter", broken)
        sign_in(code)
    assert found >= told(manager, SIGN_IN), told(manager, SIGN_IN) - found
