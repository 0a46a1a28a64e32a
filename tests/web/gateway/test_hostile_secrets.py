"""Texts made to be slow for the hiding of secrets spoil nothing for the requests after them."""

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from tests.proxy.secrets.bodies import said
from tests.proxy.secrets.hostile import HOSTILE
from tests.proxy.secrets.samples import TOKENS, letters
from tests.supplier.steps import Answer, Say
from tests.web.gateway.callers import Caller, Standing, Told, standing

GITHUB = TOKENS["github"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    with standing(tmp_path_factory.mktemp("house")) as made:
        yield made


def asks(place: Standing, caller: Caller, body: dict[str, Any]) -> Told:
    place.supplier.forget()
    place.supplier.script(Answer((Say("well"),)))
    return caller.ask("openai-chat", "by-chat", body={**body, "model": "by-chat"})


def is_served_and_masked(place: Standing, caller: Caller) -> None:
    told = asks(place, caller, said(f"a {GITHUB}"))
    assert told.status == 200
    request = place.supplier.requests[-1]
    assert "SECRET_github_" in json.dumps(request.body)
    assert GITHUB not in json.dumps(request.body)


def test_after_much_base64_with_a_secret_in_it_a_key_is_served_as_before(place: Standing) -> None:
    caller = place.caller()
    text = b64encode(f"{GITHUB} {letters(1_300_000)}".encode()).decode()
    for _ in range(2):
        assert asks(place, caller, said(text)).status == 200
        request = place.supplier.requests[-1]
        assert len(json.dumps(request.body)) < 1000
        for _ in range(2):
            is_served_and_masked(place, caller)


def test_after_every_hostile_text_a_key_is_served_as_before(place: Standing) -> None:
    caller = place.caller()
    for name, made in HOSTILE.items():
        assert asks(place, caller, made(60_000)).status in (200, 400), name
        is_served_and_masked(place, caller)
