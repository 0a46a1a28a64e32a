"""Secrets in headers that are passed on to suppliers."""

from collections.abc import Iterator

import pytest

from tests.gateway.relay.callers import RunningGateway, build_call, read_answer, running_gateway
from tests.gateway.secrets.samples import TOKENS
from tests.supplier.steps import Answer, Say

GITHUB = TOKENS["github"]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with running_gateway(tmp_path_factory.mktemp("gateway")) as made:
        yield made


@pytest.mark.parametrize("name", ["anthropic-beta", "Anthropic-Beta"])
def test_a_header_that_is_passed_on_may_hold_no_secret(gateway: RunningGateway, name: str) -> None:
    caller = gateway.add_caller()
    for value, status in ((f"context-1m,{GITHUB}", 400), ("context-1m-2025-08-07", 200)):
        gateway.supplier.forget()
        gateway.supplier.script(Answer((Say("well"),)))
        before = len(gateway.supplier.requests)
        request = caller.build_request(*build_call("anthropic", "by-messages"), f"{name}: {value}")
        with caller.connect() as line:
            line.sendall(request)
            result = read_answer(line, "anthropic")
        assert result.status == status
        assert GITHUB.encode() not in result.body
        assert (len(gateway.supplier.requests) > before) == (status == 200)
        if status == 400:
            assert "header Anthropic-Beta holds a secret" in result.error()["message"]
