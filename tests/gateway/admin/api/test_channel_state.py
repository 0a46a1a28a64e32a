"""The state of a channel shows what its last calls were like."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tornado.httputil import HTTPHeaders

from agentd.core.clock import SystemClock, parse_iso
from agentd.gateway.admin.api.channel_state import ChannelStateEndpoints
from agentd.gateway.channels.recent_times import CallTimes
from agentd.gateway.channels.routing import ChannelHealth
from agentd.http.access import ANONYMOUS
from agentd.http.request import Request
from tests.gateway.admin.api.described import Manager
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.gateway.conftest import PRICES, SECRET, GatewaySetup
from tests.gateway.relay.callers import RunningGateway, running_gateway
from tests.supplier.steps import Answer, Refuse, Say, Tokens
from tests.support.daemon import NOON, at_noon
from tests.support.ports import find_free_port

WELL = Answer((Say("well"),), Tokens(input=20, output=100))
CHANNELS = ("calm", "limited", "refusing", "faulty", "mixed", "off", "gone")
PASSWORD = "sk-0123456789abcdef0123456789"
RECENT = {
    "calls": 0,
    "successRate": None,
    "timedCalls": 0,
    "headMsP50": None,
    "headMsP95": None,
    "firstTokenMsP50": None,
    "firstTokenMsP95": None,
}


def prepare(setup: GatewaySetup) -> None:
    setup.channels = [setup.build_channel(name, "openai-chat", cool_down=300) for name in CHANNELS]
    by_name = {channel["name"]: channel for channel in setup.channels}
    by_name["off"]["enabled"] = False
    by_name["gone"]["url"] = f"http://127.0.0.1:{find_free_port()}"
    by_name["gone"]["key"] = PASSWORD
    setup.models = [
        {
            "name": name,
            "routes": [{"channel": name, "model": "scripted-large"}],
            "prices": PRICES,
            "max_output": 1000,
        }
        for name in CHANNELS
    ]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway with a channel for each test, where it is noon."""
    folder: Path = tmp_path_factory.mktemp("gateway")
    with at_noon(), running_gateway(folder, prepare, environ={"PROXY_APP_HASH": HASH}) as made:
        yield made


@pytest.fixture(autouse=True)
def _anew(gateway: RunningGateway) -> None:
    gateway.supplier.forget()


def get_channel_state(gateway: RunningGateway, channel: str) -> dict[str, Any]:
    with closing(Manager(gateway.daemon.url, MANAGEMENT_KEY)) as client:
        reply = client.get(f"/api/agent/channels/{channel}/state")
    assert reply.status == 200, reply.body
    for secret in (SECRET, PASSWORD):
        assert secret.encode() not in reply.body
    return dict(reply.json())


def ask(gateway: RunningGateway, model: str, *, stream: bool = False) -> int:
    return gateway.add_caller().ask("openai-chat", model, stream=stream).status


def count_seconds_left(until: str) -> float:
    return (parse_iso(until) - parse_iso(NOON)) / timedelta(seconds=1)


def test_a_channel_that_was_never_called_is_ok(gateway):
    assert get_channel_state(gateway, "calm") == {
        "name": "calm",
        "state": "ok",
        "cooldownUntil": None,
        "cooldownReason": "",
        "modelCooldowns": [],
        "lastFailure": None,
        "succeeded": 0,
        "failed": 0,
        "recent": RECENT,
        "keys": [],
        "balance": None,
    }


def test_a_disabled_channel_is_shown_as_such(gateway):
    assert get_channel_state(gateway, "off")["state"] == "disabled"


def test_a_rate_limit_shows_until_when_its_model_is_left_out(gateway):
    gateway.supplier.script(Refuse(429, "slow down", headers={"Retry-After": "120"}))
    assert ask(gateway, "limited") == 429
    told = get_channel_state(gateway, "limited")
    assert (told["state"], told["cooldownUntil"], told["cooldownReason"]) == ("ok", None, "")
    (cooldown,) = told["modelCooldowns"]
    assert (cooldown["supplierModel"], cooldown["reason"]) == ("scripted-large", "rate_limit")
    assert 0 < count_seconds_left(cooldown["until"]) <= 120


def test_a_channel_that_its_supplier_refuses_shows_the_error_and_not_its_text(gateway):
    gateway.supplier.script(Refuse(401, f"wrong key {SECRET}"))
    assert ask(gateway, "refusing") >= 500
    told = get_channel_state(gateway, "refusing")
    assert (told["state"], told["cooldownReason"]) == ("cooldown", "authentication")
    assert 0 < count_seconds_left(told["cooldownUntil"]) <= 300
    failure = told["lastFailure"]
    assert (failure["error"], failure["detail"]) == ("authentication", "")
    assert -300 < count_seconds_left(failure["at"]) <= 0
    assert told["failed"] == 1


def test_an_unreachable_supplier_is_explained(gateway):
    assert ask(gateway, "gone") >= 500
    told = get_channel_state(gateway, "gone")
    assert (told["state"], told["cooldownReason"]) == ("cooldown", "unreachable")
    assert told["lastFailure"]["error"] == "unreachable"
    assert "127.0.0.1" in told["lastFailure"]["detail"]
    assert told["recent"] == RECENT | {"calls": 1, "successRate": 0.0}


def test_what_callers_do_wrong_does_not_make_a_channel_look_bad(gateway):
    gateway.supplier.script(WELL, Refuse(400, "no such parameter"))
    assert [ask(gateway, "faulty") for _ in range(2)] == [200, 400]
    told = get_channel_state(gateway, "faulty")
    assert told["state"] == "ok"
    assert (told["recent"]["calls"], told["recent"]["successRate"]) == (1, 1.0)
    assert told["lastFailure"]["error"] == "invalid_request"


def test_the_last_calls_show_how_often_and_how_fast_they_succeeded(gateway):
    gateway.supplier.script(WELL, WELL, WELL, Refuse(500, "broken"))
    for stream in (False, True, True):
        assert ask(gateway, "mixed", stream=stream) == 200
    assert ask(gateway, "mixed") >= 500
    told = get_channel_state(gateway, "mixed")
    assert (told["succeeded"], told["failed"]) == (3, 1)
    recent = told["recent"]
    assert (recent["calls"], recent["successRate"], recent["timedCalls"]) == (4, 0.75, 3)
    assert 0 <= recent["headMsP50"] <= recent["headMsP95"]
    assert 0 <= recent["firstTokenMsP50"] <= recent["firstTokenMsP95"]
    assert recent["headMsP50"] <= recent["firstTokenMsP50"] * 1.03 + 1


class LeakingChannel:
    """A channel whose last failure was explained with a secret."""

    def get_health(self) -> dict[str, ChannelHealth]:
        detail = f"refused with Authorization: Bearer {PASSWORD} and {PASSWORD}"
        return {"one": ChannelHealth(state="ok", error="unreachable", detail=detail)}

    def get_times(self, channel: str, /) -> CallTimes:
        return CallTimes()

    def find_balance(self, channel: str, /) -> None:
        return None


def test_secrets_in_the_explanation_of_a_failure_are_redacted():
    path = "/api/agent/channels/one/state"
    call = Request("GET", path, "", {"name": "one"}, HTTPHeaders(), ANONYMOUS, "127.0.0.1")
    reply = ChannelStateEndpoints(LeakingChannel(), SystemClock()).get_channel_state(call)
    assert reply.body.last_failure.detail.startswith("refused with")
    assert PASSWORD not in reply.body.last_failure.detail


def test_an_unknown_channel_is_not_found_with_the_nearest_name(gateway):
    with closing(Manager(gateway.daemon.url, MANAGEMENT_KEY)) as client:
        reply = client.get("/api/agent/channels/limitd/state")
    assert (reply.status, reply["error"]) == (404, "NotFound")
    assert '"limited"' in reply["message"]
