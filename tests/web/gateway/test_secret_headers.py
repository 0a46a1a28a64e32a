"""Secrets in headers that are passed on to suppliers."""

from collections.abc import Iterator

import pytest

from tests.proxy.secrets.samples import TOKENS
from tests.supplier.steps import Answer, Say
from tests.web.gateway.callers import Standing, asked, read, standing

GITHUB = TOKENS["github"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    with standing(tmp_path_factory.mktemp("house")) as made:
        yield made


@pytest.mark.parametrize("name", ["anthropic-beta", "Anthropic-Beta"])
def test_a_header_that_is_passed_on_may_hold_no_secret(place: Standing, name: str) -> None:
    caller = place.caller()
    for value, status in ((f"context-1m,{GITHUB}", 400), ("context-1m-2025-08-07", 200)):
        place.supplier.forget()
        place.supplier.script(Answer((Say("well"),)))
        before = len(place.supplier.requests)
        request = caller.request(*asked("anthropic", "by-messages"), f"{name}: {value}")
        with caller.connected() as line:
            line.sendall(request)
            told = read(line, "anthropic")
        assert told.status == status
        assert GITHUB.encode() not in told.body
        assert (len(place.supplier.requests) > before) == (status == 200)
        if status == 400:
            assert "header Anthropic-Beta holds a secret" in told.error()["message"]
