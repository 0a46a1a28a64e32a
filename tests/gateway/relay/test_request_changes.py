"""Headers and parameters that a channel or a model adds to requests, in every dialect."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentd.llm.endpoint import ChannelDialect
from tests.gateway.conftest import GatewaySetup
from tests.gateway.relay.callers import (
    CHANNELS,
    DIALECTS,
    RunningGateway,
    build_call,
    every_dialect,
    running_gateway,
)
from tests.supplier.request import Request
from tests.supplier.steps import Say

TEMPERATURE = {
    "openai-chat": "temperature",
    "openai-responses": "temperature",
    "anthropic": "temperature",
    "gemini": "generationConfig.temperature",
}


def prepare(setup: GatewaySetup) -> None:
    for channel, model in zip(setup.channels, setup.models, strict=True):
        (dialect,) = channel["dialects"]
        name = TEMPERATURE[dialect]
        top_p = name.replace("temperature", "topP" if dialect == "gemini" else "top_p")
        channel["headers"] = {"X-Team": "channel", "X-Place": "here"}
        channel["parameters"] = {"set": {name: 0.1, top_p: 0.5}, "remove": ["user", "top_k"]}
        model["headers"] = {"x-team": "model"}
        model["parameters"] = {"set": {name: 0.25}, "default": {"metadata": {"who": "all"}}}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    folder: Path = tmp_path_factory.mktemp("gateway")
    with running_gateway(folder, prepare) as made:
        yield made


@pytest.fixture(autouse=True)
def _anew(gateway: RunningGateway) -> None:
    gateway.supplier.forget()


def send(
    gateway: RunningGateway, dialect: ChannelDialect, supplier: ChannelDialect, **more: Any
) -> Request:
    """Send a request by one dialect through a channel of another; return what arrived."""
    gateway.supplier.script(Say("well"))
    _, body = build_call(dialect, f"by-{CHANNELS[supplier]}")
    path_model = f"by-{CHANNELS[supplier]}"
    answer = gateway.add_caller().ask(dialect, path_model, body=body | more)
    assert answer.status == 200, answer.body
    return gateway.supplier.requests[-1]


@every_dialect
@pytest.mark.parametrize("supplier", DIALECTS)
def test_they_arrive_whether_passed_through_or_translated(
    gateway: RunningGateway, dialect: ChannelDialect, supplier: ChannelDialect
) -> None:
    request = send(gateway, dialect, supplier)
    body = request.body
    config = body["generationConfig"] if supplier == "gemini" else body
    assert (config["temperature"], config["topP" if supplier == "gemini" else "top_p"]) == (
        0.25,
        0.5,
    )
    assert body["metadata"] == {"who": "all"}
    assert (request.headers["x-team"], request.headers["x-place"]) == ("model", "here")


def test_the_callers_own_values_give_way_to_set_ones_and_not_to_defaults(
    gateway: RunningGateway,
) -> None:
    own = {"temperature": 1, "metadata": {"who": "me"}, "user": "ann", "seed": 5}
    body = send(gateway, "openai-chat", "openai-chat", **own).body
    assert (body["temperature"], body["metadata"], body["seed"]) == (0.25, {"who": "me"}, 5)
    assert "user" not in body


@pytest.mark.parametrize("supplier", DIALECTS)
def test_what_is_removed_need_not_be_something_that_the_supplier_knows(
    gateway: RunningGateway, supplier: ChannelDialect
) -> None:
    config = {"topK": 64, "temperature": 0.7, "thinkingConfig": {"thinkingLevel": "low"}}
    body = send(gateway, "gemini", supplier, generationConfig=config).body
    sent = body["generationConfig"] if supplier == "gemini" else body
    assert sent["temperature"] == 0.25
    if supplier != "gemini":  # there it has another name, which nobody removed
        assert not {"top_k", "topK"} & body.keys()


def test_token_counts_are_asked_for_as_they_are(gateway: RunningGateway) -> None:
    caller = gateway.add_caller()
    _, body = build_call("anthropic", "by-messages")
    with caller.connect() as line:
        del body["max_tokens"], body["stream"]
        line.sendall(caller.build_request("/v1/messages/count_tokens", body, "Connection: close"))
        assert b" 200 " in line.recv(100)
    counted = gateway.supplier.others[-1]
    assert counted.path.endswith("count_tokens")
    assert "temperature" not in counted.body
