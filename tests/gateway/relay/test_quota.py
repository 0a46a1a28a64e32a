"""Whoever has an access key can ask what it may still spend, and nobody else's."""

import json
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal

import pytest

from agentd.gateway.keys.file import AccessKeyFile
from tests.gateway.relay.callers import (
    CHANNELS,
    Caller,
    RunningGateway,
    every_dialect,
    read_answer,
    running_gateway,
)
from tests.supplier.steps import Answer, Say, Stall, Tokens
from tests.support.daemon import Client, Reply, at_noon, build_request, send_raw, until

USED = Tokens(input=20, output=100)
COST = Decimal("0.00156")
"""USD of ``USED``, by the prices of the setup."""
LIMITS = {
    "total": "100",
    "day": "5",
    "week": "20",
    "month": "50",
    "requests_per_minute": 60,
    "tokens_per_minute": 100_000,
    "parallel": 4,
}
RESETS = {
    "total": None,
    "day": "2026-07-16T00:00:00.000Z",
    "week": "2026-07-20T00:00:00.000Z",
    "month": "2026-08-01T00:00:00.000Z",
    "requestsPerMinute": "2026-07-15T12:01:00.000Z",
    "tokensPerMinute": "2026-07-15T12:01:00.000Z",
    "parallel": None,
}
UNITS = dict.fromkeys(("total", "day", "week", "month"), "usd") | {
    "requestsPerMinute": "requests",
    "tokensPerMinute": "tokens",
    "parallel": "requests",
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway at noon, so that no window ends meanwhile."""
    with at_noon(), running_gateway(tmp_path_factory.mktemp("gateway")) as made:
        yield made


def ask(gateway: RunningGateway, caller: Caller) -> Reply:
    headers = {"Authorization": f"Bearer {caller.key}"}
    with closing(Client(gateway.daemon.url, None, headers)) as client:
        return client.get("/v1/quota")


def get_quota(gateway: RunningGateway, caller: Caller) -> dict:
    reply = ask(gateway, caller)
    assert reply.status == 200, reply.body
    return json.loads(reply.body, parse_float=Decimal)


def get_limits(gateway: RunningGateway, caller: Caller) -> dict[str, dict]:
    return {one["name"]: one for one in get_quota(gateway, caller)["limits"]}


def test_a_new_key_has_all_of_its_limits_left(gateway):
    found = get_limits(gateway, gateway.add_caller(limits=LIMITS))
    assert {name: one["resets"] for name, one in found.items()} == RESETS
    assert {name: one["unit"] for name, one in found.items()} == UNITS
    for one in found.values():
        assert Decimal(one["used"]) == Decimal(one["reserved"]) == 0
        assert Decimal(one["remaining"]) == Decimal(one["limit"]) > 0
    assert Decimal(found["day"]["limit"]) == 5


def test_what_was_spent_is_what_the_ledger_has(gateway):
    caller = gateway.add_caller(limits=LIMITS)
    gateway.supplier.script(*[Answer((Say("well"),), USED)] * 2)
    for _ in range(2):
        assert caller.ask("anthropic", "by-messages").status == 200
    told = get_quota(gateway, caller)
    spent = sum(record.cost for record in gateway.wait_for_records_of(caller, 2))
    assert spent == 2 * COST
    assert {Decimal(amount) for amount in told["spent"].values()} == {spent}
    found = {one["name"]: one for one in told["limits"]}
    for name in ("total", "day", "week", "month"):
        assert Decimal(found[name]["used"]) == spent
        assert Decimal(found[name]["remaining"]) == Decimal(LIMITS[name]) - spent
    assert Decimal(found["requestsPerMinute"]["used"]) == 2
    assert Decimal(found["tokensPerMinute"]["used"]) == 240


@every_dialect
def test_running_requests_are_reserved_until_they_end(gateway, dialect):
    caller = gateway.add_caller(limits=LIMITS)
    stall = Stall(0)
    gateway.supplier.script(Answer((Say("well"),), USED, faults=(stall,)))
    with caller.begin_call(dialect, f"by-{CHANNELS[dialect]}", stream=False) as line:
        running = until(
            lambda: (
                found
                if (found := get_limits(gateway, caller))["parallel"]["reserved"] != 0
                else None
            )
        )
        stall.release()
        assert read_answer(line, dialect).status == 200
    assert Decimal(running["parallel"]["remaining"]) == 3
    day = running["day"]
    assert Decimal(day["used"]) == 0 < Decimal(day["reserved"])
    assert Decimal(day["remaining"]) == 5 - Decimal(day["reserved"])
    after = get_limits(gateway, caller)["day"]
    assert (Decimal(after["used"]), Decimal(after["reserved"])) == (COST, 0)


def test_a_limit_that_was_passed_leaves_nothing_and_not_less(gateway):
    caller = gateway.add_caller(limits={"day": "0.018"})
    gateway.supplier.script(Answer((Say("well"),), Tokens(input=6000, output=100)))
    assert caller.ask("anthropic", "by-messages").status == 200
    (day,) = get_quota(gateway, caller)["limits"]
    assert Decimal(day["used"]) > Decimal(day["limit"])
    assert Decimal(day["remaining"]) == 0


def test_asking_uses_up_nothing(gateway):
    caller = gateway.add_caller(limits={"requests_per_minute": 2, "total": "1"})
    before = get_quota(gateway, caller)
    for _ in range(5):
        assert get_quota(gateway, caller) == before
    assert gateway.read_records_of(caller) == []


def test_a_key_without_limits_learns_what_it_spent(gateway):
    caller = gateway.add_caller(name="unlimited", expires="2099-01-01T00:00:00.000Z")
    gateway.supplier.script(Answer((Say("well"),), USED))
    assert caller.ask("anthropic", "by-messages").status == 200
    told = get_quota(gateway, caller)
    assert told["name"] == "unlimited"
    assert told["expires"] == "2099-01-01T00:00:00.000Z"
    assert told["limits"] == []
    assert Decimal(told["spent"]["total"]) == COST
    assert told["zone"] == "UTC"


def test_each_key_learns_its_own_only(gateway):
    rich = gateway.add_caller(name="rich", limits={"total": "999"})
    poor = gateway.add_caller(name="poor", limits={"total": "1"})
    assert get_quota(gateway, rich)["name"] == "rich"
    told = ask(gateway, poor).body
    assert b"rich" not in told
    assert b"999" not in told


def test_a_limit_that_a_person_changes_is_told_at_once(gateway):
    caller = gateway.add_caller(limits={"day": "5"})
    assert Decimal(get_limits(gateway, caller)["day"]["limit"]) == 5
    key_id = caller.key.split("-")[2]
    file = AccessKeyFile(gateway.setup.layout)
    with open(file.path, encoding="utf-8") as opened:
        text = opened.read()
    before, mark, entry = text.partition(key_id)
    assert "day: 5" in entry
    with open(file.path, "w", encoding="utf-8") as opened:
        opened.write(before + mark + entry.replace("day: 5", "day: 7", 1))
    until(lambda: Decimal(get_limits(gateway, caller)["day"]["limit"]) == 7)


@pytest.mark.parametrize(
    "fields", [{"enabled": False}, {"expires": "2026-01-02T00:00:00.000Z"}], ids=str
)
def test_a_key_that_opens_nothing_is_refused(gateway, fields):
    caller = gateway.add_caller(**fields)
    lines = f"Authorization: Bearer {caller.key}", "Connection: close"
    (reply,) = send_raw(gateway.daemon.port, build_request("GET", "/v1/quota", *lines, key=None))
    assert reply.status == 401
    assert set(reply.json()["error"]) == {"message", "type", "param", "code"}
