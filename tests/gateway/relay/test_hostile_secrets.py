"""Texts made to be slow for the hiding of secrets spoil nothing for the requests after them."""

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway.relay.callers import Caller, Standing, Told, running_gateway
from tests.gateway.secrets.bodies import build_body
from tests.gateway.secrets.hostile import HOSTILE
from tests.gateway.secrets.samples import TOKENS, make_letters
from tests.supplier.steps import Answer, Say

GITHUB = TOKENS["github"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    with running_gateway(tmp_path_factory.mktemp("house")) as made:
        yield made


def send_body(place: Standing, caller: Caller, body: dict[str, Any]) -> Told:
    place.supplier.forget()
    place.supplier.script(Answer((Say("well"),)))
    return caller.ask("openai-chat", "by-chat", body={**body, "model": "by-chat"})


def check_served_and_masked(place: Standing, caller: Caller) -> None:
    result = send_body(place, caller, build_body(f"a {GITHUB}"))
    assert result.status == 200
    request = place.supplier.requests[-1]
    assert "SECRET_github_" in json.dumps(request.body)
    assert GITHUB not in json.dumps(request.body)


def test_after_much_base64_with_a_secret_in_it_a_key_is_served_as_before(place: Standing) -> None:
    caller = place.add_caller()
    text = b64encode(f"{GITHUB} {make_letters(1_300_000)}".encode()).decode()
    for _ in range(2):
        assert send_body(place, caller, build_body(text)).status == 200
        request = place.supplier.requests[-1]
        assert len(json.dumps(request.body)) < 1000
        for _ in range(2):
            check_served_and_masked(place, caller)


def test_after_every_hostile_text_a_key_is_served_as_before(place: Standing) -> None:
    caller = place.add_caller()
    for name, made in HOSTILE.items():
        assert send_body(place, caller, made(60_000)).status in (200, 400), name
        check_served_and_masked(place, caller)
