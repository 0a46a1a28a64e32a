"""A channel with several keys: used in turn, and a refused one is set aside alone."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.admin.api.described import Manager
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.gateway.conftest import PRICES, GatewaySetup
from tests.gateway.relay.callers import DIALECTS, RunningGateway, running_gateway
from tests.supplier.request import Request
from tests.supplier.steps import Answer, Refuse, Say, Tokens

KEYS = tuple(f"sk-{name}-0123456789abcdef" for name in ("first", "second", "third"))
CHANNELS = ("turns", "refused", "limited", "broken", "drained", "all-refused")
WELL = Answer((Say("well"),), Tokens(input=20, output=100))


def prepare(setup: GatewaySetup) -> None:
    more = {"key": KEYS[0], "keys": [KEYS[1], "env:THIRD_KEY"], "cool_down": 300}
    setup.channels = [setup.build_channel(name, *DIALECTS) | more for name in CHANNELS]
    setup.channels[4]["on_leave"] = "drain"
    setup.channels.append(setup.build_channel("spare", *DIALECTS))
    setup.models = [
        {
            "name": name,
            "routes": [
                {"channel": name, "model": "scripted-large"},
                {"channel": "spare", "model": "scripted-large", "priority": 1},
            ],
            "prices": PRICES,
            "max_output": 1000,
        }
        for name in CHANNELS
    ]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    folder: Path = tmp_path_factory.mktemp("gateway")
    environ = {"PROXY_APP_HASH": HASH, "THIRD_KEY": KEYS[2]}
    with running_gateway(folder, prepare, environ=environ) as made:
        yield made


@pytest.fixture(autouse=True)
def _anew(gateway: RunningGateway) -> None:
    gateway.supplier.forget()
    gateway.supplier.requests.clear()


def read_key(request: Request) -> str:
    """Return the key that a request was sent with."""
    return request.headers["authorization"].removeprefix("Bearer ")


def list_used(gateway: RunningGateway) -> list[str]:
    return [read_key(request) for request in gateway.supplier.requests]


def read_state(gateway: RunningGateway, channel: str) -> dict[str, Any]:
    with closing(Manager(gateway.daemon.url, MANAGEMENT_KEY)) as client:
        reply = client.get(f"/api/agent/channels/{channel}/state")
    for key in KEYS:
        assert key.encode() not in reply.body
    return dict(reply.json())


@pytest.mark.parametrize("stream", [False, True])
def test_keys_are_used_in_turn(gateway: RunningGateway, stream: bool) -> None:
    gateway.supplier.script(*[WELL] * 6)
    caller = gateway.add_caller()
    for _ in range(6):
        assert caller.ask("openai-chat", "turns", stream=stream).status == 200
    used = list_used(gateway)
    assert set(used[:3]) == set(KEYS)
    assert used[3:] == used[:3]


@pytest.mark.parametrize("model", ["refused", "drained"])
def test_a_key_that_the_supplier_refuses_is_set_aside_and_the_next_one_used(
    gateway: RunningGateway, model: str
) -> None:
    gateway.supplier.script(Refuse(401, "wrong key"), *[WELL] * 5)
    caller = gateway.add_caller()
    answer = caller.ask("openai-chat", model)
    assert (answer.status, answer.channel, answer.text()) == (200, model, "well")
    entry = gateway.wait_for_record(answer)
    assert (entry.outcome, entry.tries) == ("ok", 2)
    for _ in range(4):
        assert caller.ask("openai-chat", model).channel == model
    wrong, *good = list_used(gateway)
    assert wrong not in good
    assert set(good) == set(KEYS) - {wrong}
    told = read_state(gateway, model)
    assert told["state"] == "ok"
    (out,) = [one for one in told["keys"] if one["state"] == "cooldown"]
    assert (out["field"], out["cooldownReason"]) == ("key", "authentication")
    assert (out["key"], bool(out["cooldownUntil"])) == (f"****{KEYS[0][-4:]}", True)
    assert [one["key"] for one in told["keys"]][1:] == ["****cdef", "env:THIRD_KEY"]


def test_a_rate_limit_of_one_key_leaves_it_out_for_that_model_alone(
    gateway: RunningGateway,
) -> None:
    gateway.supplier.script(Refuse(429, "slow down", headers={"Retry-After": "120"}), WELL, WELL)
    caller = gateway.add_caller()
    for _ in range(2):
        assert caller.ask("openai-chat", "limited").channel == "limited"
    assert len(set(list_used(gateway))) == 3
    told = read_state(gateway, "limited")
    assert (told["state"], told["modelCooldowns"]) == ("ok", [])
    (out,) = [one for one in told["keys"] if one["modelCooldowns"]]
    assert out["modelCooldowns"][0]["supplierModel"] == "scripted-large"


def test_what_every_key_would_meet_is_tried_with_one_of_them(gateway: RunningGateway) -> None:
    gateway.supplier.script(Refuse(500, "broken"), WELL)
    assert gateway.add_caller().ask("openai-chat", "broken").channel == "spare"
    assert len(list_used(gateway)) == 2
    told = read_state(gateway, "broken")
    assert (told["state"], told["cooldownReason"]) == ("cooldown", "server")


def test_when_all_keys_are_refused_the_next_channel_answers(gateway: RunningGateway) -> None:
    gateway.supplier.script(*[Refuse(401, "wrong key")] * 3, WELL)
    assert gateway.add_caller().ask("openai-chat", "all-refused").channel == "spare"
    told = read_state(gateway, "all-refused")
    assert (told["state"], told["cooldownReason"]) == ("cooldown", "authentication")
    with closing(Manager(gateway.daemon.url, MANAGEMENT_KEY)) as client:
        notes = client.get("/api/agent/service-log?channel=all-refused&level=warning")["items"]
    assert {one["kind"] for one in notes} == {"channel_key_cooldown", "channel_cooldown"}


def test_a_key_in_a_request_is_masked_whichever_of_them_it_is(gateway: RunningGateway) -> None:
    gateway.supplier.script(*[WELL] * 3)
    for key in KEYS:
        text = f"is {key} mine?"
        assert gateway.add_caller().ask("openai-chat", "turns", text=text).status == 200
        assert key not in str(gateway.supplier.requests[-1].body)
