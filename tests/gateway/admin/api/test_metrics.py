"""The metrics of a running gateway are the sums of its ledger."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agentd.gateway.channels.routing import MAX_COOLDOWN_SECONDS
from agentd.llm.price import Usage
from tests.gateway.admin.api.described import Manager
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.gateway.conftest import PRICES, SECRET, GatewaySetup
from tests.gateway.metrics.test_dashboard import QUERIES, iter_selected_labels
from tests.gateway.relay.callers import Caller, RunningGateway, running_gateway
from tests.supplier.steps import Answer, Refuse, Say, Tokens
from tests.support.daemon import Serving, at_noon, until

parser = pytest.importorskip("prometheus_client.parser")

PATH = "/api/agent/metrics"
USED = Tokens(input=20, cached=7, output=100)


def prepare(setup: GatewaySetup) -> None:
    setup.channels.append(
        setup.build_channel("spare", "openai-chat", cool_down=MAX_COOLDOWN_SECONDS)
    )
    setup.models.append(
        {
            "name": "fallback",
            "routes": [
                {"channel": "spare", "model": "scripted-small", "priority": 0},
                {"channel": "chat", "model": "scripted-large", "priority": 1},
            ],
            "prices": PRICES,
            "max_output": 1000,
        }
    )


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway after some requests, of which each ended in another way."""
    folder = tmp_path_factory.mktemp("gateway")
    with at_noon(), running_gateway(folder, prepare, environ={"PROXY_APP_HASH": HASH}) as made:
        make_requests(made)
        yield made


def make_requests(gateway: RunningGateway) -> None:
    caller = gateway.add_caller(name="laptop", owner='ann "x"', tags=["nightly", "2026"])
    gateway.supplier.script(*[Answer((Say("well"),), USED)] * 4)
    for stream in (False, True):
        assert caller.ask("anthropic", "by-messages", stream=stream).status == 200
        assert caller.ask("openai-chat", "by-chat", stream=stream).status == 200
    gateway.supplier.script(Refuse(429, "slow down"), Answer((Say("well"),), USED))
    assert caller.ask("openai-chat", "fallback").status == 200
    gateway.supplier.script(Refuse(400, "no such parameter"))
    assert caller.ask("openai-chat", "by-chat").status == 400
    for number in range(3):
        assert caller.ask("openai-chat", f"made-up-{number}").status == 404
    gateway.supplier.script(Answer((Say("well"),), Tokens(input=5000, output=100)))
    near = gateway.add_caller(name="near its limit", owner="bob", limits={"day": "0.02"})
    assert near.ask("anthropic", "by-messages").status == 200
    stopped = gateway.add_caller(name="at its limit", limits={"total": "0"})
    assert stopped.ask("openai-chat", "by-chat").status == 429
    gateway.add_caller(name="off", enabled=False)
    gateway.add_caller(name="over", expires="2026-01-02T00:00:00.000Z")


REQUESTS = 11


@pytest.fixture
def samples(gateway: RunningGateway) -> dict[str, dict[frozenset, float]]:
    """The samples of each metric by their labels, once all requests are counted."""

    def scrape() -> dict[str, dict[frozenset, float]] | None:
        found: dict[str, dict[frozenset, float]] = {}
        for family in parser.text_string_to_metric_families(read(gateway.daemon)):
            for sample in family.samples:
                values = found.setdefault(sample.name, {})
                labels = frozenset(sample.labels.items())
                assert labels not in values
                values[labels] = sample.value
        total = sum(found["agentd_gateway_requests_total"].values())
        return found if total == REQUESTS else None

    return until(scrape)


def read(daemon: Serving) -> str:
    with closing(Manager(daemon.url, MANAGEMENT_KEY)) as client:
        reply = client.get(PATH)
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return reply.body.decode()


def sum_by(samples: dict, name: str, *labels: str) -> dict[Any, float]:
    """Return the sums of a metric by some of its labels."""
    sums: Counter = Counter()
    for key, value in samples[f"agentd_gateway_{name}"].items():
        known = dict(key)
        group = tuple(known.get(label, "") for label in labels)
        sums[group if len(labels) > 1 else "".join(group)] += value
    return {key: value for key, value in sums.items() if value}


def iter_ledger_sums(gateway: RunningGateway) -> Iterator[tuple[Any, tuple[str, str]]]:
    """Yield each record of the ledger with its model and channel as in the metrics."""
    for record in gateway.setup.wait_for_records(REQUESTS):
        yield record, (record.model, record.channel) if record.channel else ("", "")


def test_requests_are_those_of_the_ledger(gateway, samples):
    expected = Counter(
        (*route, record.outcome, str(record.status)) for record, route in iter_ledger_sums(gateway)
    )
    assert sum_by(samples, "requests_total", "model", "channel", "outcome", "status") == expected
    assert expected["by-messages", "messages", "ok", "200"] == 3


def test_errors_are_those_of_the_ledger(gateway, samples):
    expected = Counter(
        (*route, record.error)
        for record, route in iter_ledger_sums(gateway)
        if record.outcome != "ok"
    )
    assert sum_by(samples, "errors_total", "model", "channel", "error") == expected
    assert expected["", "", "not_found"] == 3
    tries = Counter(
        (one.channel, one.error)
        for record, _ in iter_ledger_sums(gateway)
        for one in record.failed_tries
    )
    assert sum_by(samples, "failed_tries_total", "channel", "error") == tries
    assert tries["spare", "rate_limit"] == 1


def test_tokens_and_cost_are_those_of_the_ledger(gateway, samples):
    tokens, cost = Counter(), Counter()
    for record, route in iter_ledger_sums(gateway):
        cost[route] += record.cost
        for kind in Usage.__struct_fields__:
            tokens[(*route, kind)] += getattr(record.usage, kind)
    assert sum_by(samples, "tokens_total", "model", "channel", "kind") == +tokens
    assert tokens["by-messages", "messages", "cache_read"] == 14
    found = sum_by(samples, "cost_usd_total", "model", "channel")
    assert found == {route: float(amount) for route, amount in cost.items() if amount}
    assert sum(cost.values()) > Decimal("0.005")


@pytest.mark.parametrize("scope", ["owner", "tag"])
def test_owners_and_tags_have_the_sums_of_the_ledger(gateway, samples, scope):
    expected = {name: Counter() for name in ("requests", "tokens", "cost_usd")}
    for record, _ in iter_ledger_sums(gateway):
        for name in record.tags if scope == "tag" else filter(None, (record.owner,)):
            expected["requests"][name] += 1
            expected["tokens"][name] += record.usage.total_input + record.usage.total_output
            expected["cost_usd"][name] += record.cost
    for name, sums in expected.items():
        found = sum_by(samples, f"{scope}_{name}_total", scope)
        assert found == {group: float(amount) for group, amount in sums.items()}
    names = {"nightly", "2026"} if scope == "tag" else {'ann "x"', "bob"}
    assert expected["requests"].keys() == names


def test_the_dashboard_shows_metrics_of_a_gateway_that_served_requests(samples):
    shown = {name for _, query in QUERIES for name, _ in iter_selected_labels(query)}
    unread = {name for name in shown if name.startswith("agentd_gateway_channel_balance")}
    assert shown - unread <= samples.keys()  # no supplier here tells its balance
    for part in ("requests", "tokens", "cost_usd", "errors"):
        assert f"agentd_gateway_{part}_total" in shown
    for name in ("channels", "channel_cooldown_seconds", "first_token_seconds_bucket"):
        assert f"agentd_gateway_{name}" in shown


def test_times_are_those_of_the_ledger(gateway, samples):
    streamed = [
        record.timings.first / 1000 for record, _ in iter_ledger_sums(gateway) if record.stream
    ]
    assert sum(samples["agentd_gateway_first_token_seconds_count"].values()) == len(streamed) == 2
    total = sum(samples["agentd_gateway_first_token_seconds_sum"].values())
    assert total == pytest.approx(sum(streamed))
    for bound, count in sum_by(samples, "first_token_seconds_bucket", "le").items():
        assert count == sum(seconds <= float(bound) for seconds in streamed)
    ended = [
        record.timings.total / 1000
        for record, _ in iter_ledger_sums(gateway)
        if record.outcome == "ok"
    ]
    total = sum(samples["agentd_gateway_request_seconds_sum"].values())
    assert total == pytest.approx(sum(ended))
    assert sum_by(samples, "request_seconds_bucket", "le")["+Inf"] == len(ended) == 6


def test_channels_in_cooldown_are_told_with_the_time_that_is_left(samples):
    assert sum_by(samples, "channels", "state") == {"ok": 5}
    (left,) = sum_by(samples, "channel_cooldown_seconds", "channel", "supplier_model").items()
    assert left[0] == ("spare", "scripted-small")
    assert 0 < left[1] <= MAX_COOLDOWN_SECONDS


def test_keys_near_and_at_their_limits_are_counted_and_not_named(gateway, samples):
    assert sum_by(samples, "keys", "state") == {"enabled": 3, "disabled": 1, "expired": 1}
    assert sum_by(samples, "keys_at_limit") == {"": 1}
    assert sum_by(samples, "keys_near_limit") == {"": 1}
    text = read(gateway.daemon)
    for secret in (
        SECRET,
        MANAGEMENT_KEY,
        "laptop",
        "its limit",
        "made-up",
        "sk-agentd",
        *gateway.setup.keys,
    ):
        assert secret not in text
    assert "127.0.0.1" not in text


def test_the_ledger_is_writable(samples):
    assert sum_by(samples, "ledger_writable") == {"": 1}


def test_a_ledger_that_cannot_be_written_shows(setup, start_gateway):
    daemon = start_gateway(environ={"PROXY_APP_HASH": HASH})
    caller = Caller(daemon.port, setup.add_key())
    ledger = Path(setup.layout.ledger)
    for path in ledger.glob("*"):
        path.unlink()
    ledger.rmdir()
    ledger.write_text("no folder")
    setup.supplier.script(Answer((Say("well"),), USED))
    caller.ask("openai-chat", "by-chat")
    until(lambda: re.search(r"^agentd_gateway_ledger_writable 0$", read(daemon), re.MULTILINE))
