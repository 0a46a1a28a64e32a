"""A call that was given up may be charged by its supplier, also when another channel answers."""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agentd.gateway.ledger.record import FailedTry, RequestRecord
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.gateway.conftest import PRICES, GatewaySetup
from tests.gateway.relay.callers import RunningGateway, running_gateway
from tests.supplier.steps import Answer, Refuse, Say, Stall, Tokens
from tests.supplier.supplier import Supplier

USED = Tokens(input=1000, output=100)
ANSWER = Answer((Say("one two three four"),), USED)
OTHER_PRICES = {"input": "30", "output": "150"}
FLEX = {"tier": "flex", "input": "1", "output": "5"}
OWN_COST = Decimal("0.045")
"""USD of ``USED`` by ``OTHER_PRICES``."""


@pytest.fixture(scope="module")
def other() -> Iterator[Supplier]:
    """The supplier of the second channel."""
    with Supplier() as made:
        yield made


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, other: Supplier) -> Iterator[RunningGateway]:
    """A gateway whose first channel is given up soon; nothing is in cooldown after a failure."""

    def prepare(setup: GatewaySetup) -> None:
        slow = {"timeout": 0.2, "cool_down": 0}
        setup.settings["idle_timeout"] = 1
        setup.channels += [
            setup.build_channel("slow", "openai-chat", **slow),
            setup.build_channel("other", "openai-chat", cool_down=0) | {"url": other.url},
            setup.build_channel("unready", "openai-chat", cool_down=0)
            | {"key": "env:NOT_SET_ANYWHERE"},
        ]
        setup.models += [
            build_model("routed", "slow", "unready", "other"),
            build_model("direct", "slow", "other"),
            build_model("with-fallback", "slow", fallbacks=["fallback"]),
            build_model("fallback", "other", prices=OTHER_PRICES),
            build_model("tiered", "slow", prices=PRICES | {"services": [FLEX]}, fallbacks=["flex"]),
            {"name": "flex", "routes": [{"channel": "other"}]}
            | {"prices": PRICES | {"services": [FLEX]}},
        ]

    folder = tmp_path_factory.mktemp("gateway")
    with running_gateway(folder, prepare, environ={"PROXY_APP_HASH": HASH}) as made:
        yield made


@pytest.fixture(autouse=True)
def _anew(gateway: RunningGateway, other: Supplier) -> None:
    for supplier in (gateway.supplier, other):
        supplier.forget()


def build_model(name: str, *channels: str, **more: Any) -> dict[str, Any]:
    """Build a model with routes that are tried in this order, the last one at other prices."""
    routes: list[dict[str, Any]] = [
        {"channel": channel, "model": f"{channel}-large", "priority": number}
        for number, channel in enumerate(channels)
    ]
    if channels[-1] == "other":
        routes[-1]["prices"] = OTHER_PRICES
    return {"name": name, "routes": routes, "prices": PRICES, "max_output": 1000, **more}


def fall_silent() -> Answer:
    """Return an answer that does not come."""
    return Answer((Say("well"),), USED, faults=(Stall(0),))


def compute_most(failed: FailedTry) -> Decimal:
    """Return USD of a call that used all that was reserved: at the dearest rates of ``PRICES``."""
    into, out = Decimal("3.75"), Decimal(15)
    tokens = failed.usage.total_input * into + failed.usage.total_output * out
    return tokens / 1_000_000


def check_charged(entry: RequestRecord, model: str, channels: list[str]) -> FailedTry:
    """Check a record of a call that was given up, and of an answer; return the former."""
    assert [one.channel for one in entry.failed_tries] == channels
    first, *rest = entry.failed_tries
    assert (first.channel, first.supplier_model, first.model) == ("slow", "slow-large", "")
    assert first.usage.total_input > 0
    assert (first.usage.total_output, first.cost) == (1000, compute_most(first))
    assert not any(one.cost for one in rest)
    assert (entry.channel, entry.model, entry.outcome) == ("other", model, "ok")
    assert (entry.usage.input, entry.usage.output) == (USED.input, USED.output)
    assert entry.cost == OWN_COST + first.cost
    assert entry.estimated
    return first


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("model", "tried"), [("routed", ["slow", "unready"]), ("with-fallback", ["slow"])]
)
def test_a_call_that_was_given_up_is_charged_beside_the_one_that_answered(
    gateway: RunningGateway, other: Supplier, model: str, tried: list[str], stream: bool
) -> None:
    gateway.supplier.script(fall_silent())
    other.script(ANSWER)
    caller = gateway.add_caller(name=f"{model} {stream}", limits={"day": "1"})
    told = caller.ask("openai-chat", model, stream=stream)
    assert told.status == 200
    entry = gateway.wait_for_record(told)
    charged = check_charged(entry, model, tried)
    manager = gateway.daemon.client(MANAGEMENT_KEY)
    key = f"/api/agent/keys/{entry.key}"
    (day,) = manager.get(key)["limitUsage"]
    assert (Decimal(str(day["used"])), day["reserved"]) == (entry.cost, 0)
    rows = manager.get(f"/api/agent/reports/by-channel?key={entry.key}")["items"]
    by_channel = {row["name"]: (row["requests"], Decimal(str(row["cost"]))) for row in rows}
    assert by_channel == {"slow": (0, charged.cost), "other": (1, OWN_COST)}


def test_a_call_that_was_given_up_is_charged_at_the_rates_of_its_tier(
    gateway: RunningGateway, other: Supplier
) -> None:
    gateway.supplier.script(fall_silent())
    other.script(Refuse(400, "Not like that", "invalid_request_error"))
    said = [{"role": "user", "content": "hello"}]
    body = {"model": "tiered", "messages": said, "service_tier": "flex"}
    told = gateway.add_caller().ask("openai-chat", "tiered", body=body)
    entry = gateway.wait_for_record(told)
    first = entry.failed_tries[0]
    assert (first.channel, first.tier) == ("slow", "flex")
    assert entry.cost == first.cost == Decimal(first.usage.total_input + 5 * 1000) / 1_000_000


def test_a_call_that_was_given_up_is_charged_though_the_next_one_is_refused(
    gateway: RunningGateway, other: Supplier
) -> None:
    gateway.supplier.script(fall_silent())
    other.script(Refuse(400, "Not like that", "invalid_request_error"))
    told = gateway.add_caller().ask("openai-chat", "routed")
    entry = gateway.wait_for_record(told)
    assert (entry.outcome, entry.usage.total_input) == ("failed", 0)
    assert entry.cost == entry.failed_tries[0].cost > 0


def test_no_further_call_is_made_that_could_pass_a_limit_beside_the_one_that_was_given_up(
    gateway: RunningGateway, other: Supplier
) -> None:
    """The first call may cost 0.015 USD, the second one 0.15, and a little more for the input."""
    for limit, status, calls in (("0.16", 502, 0), ("0.2", 200, 1)):
        caller, before = gateway.add_caller(limits={"day": limit}), len(other.requests)
        gateway.supplier.script(fall_silent())
        other.script(ANSWER)
        told = caller.ask("openai-chat", "direct")
        assert (told.status, len(other.requests) - before) == (status, calls)
        assert gateway.wait_for_record(told).cost > Decimal("0.015")
        other.forget()


def test_a_crash_in_the_next_call_loses_no_cost_of_the_one_that_was_given_up(
    gateway: RunningGateway, other: Supplier
) -> None:
    stall = Stall(0)
    gateway.supplier.script(fall_silent())
    other.script(Answer((Say("well"),), USED, faults=(stall,)))
    with gateway.add_caller().begin_call("openai-chat", "routed"):
        stall.reached.result(60)
        folder = Path(gateway.setup.layout.ledger)
        lines = b"".join(path.read_bytes() for path in folder.glob("begun-*.jsonl")).splitlines()
        marks = [one for line in lines if (one := json.loads(line)).get("begun")]
        charged = Decimal(marks[-1]["failed_tries"][0]["cost"])
        upper = Decimal(marks[-2]["cost"])
        assert (marks[-2]["id"], marks[-2]["channel"]) == (marks[-1]["id"], "slow")
        assert 0 < charged <= upper
        assert Decimal(marks[-1]["cost"]) > Decimal("0.15") + charged
