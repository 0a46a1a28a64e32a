"""Texts made to be slow for the hiding of secrets spoil nothing for the requests after them."""

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway.relay.callers import Caller, CallResult, RunningGateway, running_gateway
from tests.gateway.secrets.bodies import build_body
from tests.gateway.secrets.hostile import HOSTILE
from tests.gateway.secrets.samples import TOKENS, make_letters
from tests.supplier.steps import Answer, Say

GITHUB = TOKENS["github"]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with running_gateway(tmp_path_factory.mktemp("gateway")) as made:
        yield made


def send_body(gateway: RunningGateway, caller: Caller, body: dict[str, Any]) -> CallResult:
    gateway.supplier.forget()
    gateway.supplier.script(Answer((Say("well"),)))
    return caller.ask("openai-chat", "by-chat", body={**body, "model": "by-chat"})


def check_served_and_masked(gateway: RunningGateway, caller: Caller) -> None:
    result = send_body(gateway, caller, build_body(f"a {GITHUB}"))
    assert result.status == 200
    request = gateway.supplier.requests[-1]
    assert "SECRET_github_" in json.dumps(request.body)
    assert GITHUB not in json.dumps(request.body)


def test_after_much_base64_with_a_secret_in_it_a_key_is_served_as_before(
    gateway: RunningGateway,
) -> None:
    caller = gateway.add_caller()
    text = b64encode(f"{GITHUB} {make_letters(1_300_000)}".encode()).decode()
    for _ in range(2):
        assert send_body(gateway, caller, build_body(text)).status == 200
        request = gateway.supplier.requests[-1]
        assert len(json.dumps(request.body)) < 1000
        for _ in range(2):
            check_served_and_masked(gateway, caller)


def test_after_every_hostile_text_a_key_is_served_as_before(gateway: RunningGateway) -> None:
    caller = gateway.add_caller()
    for name, made in HOSTILE.items():
        assert send_body(gateway, caller, made(60_000)).status in (200, 400), name
        check_served_and_masked(gateway, caller)
