"""The gateway's metrics as Prometheus reads them. Pure.

No label is of a caller's making: models and channels are those of the configuration, and access
keys are only counted. So the number of time series is bounded, and nothing secret is among them.
Owners and tags are those of access keys: the first 100 of each since the start have series of their
own, all further ones together are ``other``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TypeAlias

from msgspec import Struct

from agentd.gateway.channels.balances import ChannelBalance
from agentd.gateway.channels.routing import ChannelHealth
from agentd.gateway.limits.budgets import BudgetScope
from agentd.gateway.metrics.counters import DurationCounts, RequestCounts, RouteCounts
from agentd.gateway.metrics.key_states import KeyCounts
from agentd.http.prometheus import MetricFamily, MetricsText
from agentd.llm.price import Usage

_PREFIX = "agentd_gateway_"

_SHARED_WORDS: Mapping[BudgetScope, str] = {
    "owner": "owner of the access keys; keys without one are not counted",
    "tag": "tag of the access keys; a request counts in each tag of its key",
}

REQUESTS = MetricFamily(
    f"{_PREFIX}requests_total",
    "counter",
    "Recorded requests. Model and channel are empty if no channel was called.",
)
ERRORS = MetricFamily(
    f"{_PREFIX}errors_total", "counter", "Requests that did not succeed, by kind of error."
)
FAILED_TRIES = MetricFamily(
    f"{_PREFIX}failed_tries_total",
    "counter",
    "Calls of a channel that brought no reply; another channel may have replied.",
)
TOKENS = MetricFamily(
    f"{_PREFIX}tokens_total", "counter", "Tokens; each is counted in exactly one kind."
)
COST = MetricFamily(
    f"{_PREFIX}cost_usd_total", "counter", "Cost in USD, as counted against the limits."
)
FIRST_TOKEN = MetricFamily(
    f"{_PREFIX}first_token_seconds",
    "histogram",
    "Time until the first part of a streamed reply was sent to the caller.",
)
DURATION = MetricFamily(
    f"{_PREFIX}request_seconds", "histogram", "Time until the end of a successful reply."
)
CHANNELS = MetricFamily(f"{_PREFIX}channels", "gauge", "Channels by state.")
COOLDOWN = MetricFamily(
    f"{_PREFIX}channel_cooldown_seconds",
    "gauge",
    "Remaining cooldown of a channel, or only of a supplier's model there; 0: none.",
)
BALANCE = MetricFamily(
    f"{_PREFIX}channel_balance",
    "gauge",
    "Balance of the supplier's account of a channel's key, as it was last read.",
)
BALANCE_READ = MetricFamily(
    f"{_PREFIX}channel_balance_read",
    "gauge",
    "1 if the last reading of a balance succeeded, else 0.",
)
KEYS = MetricFamily(f"{_PREFIX}keys", "gauge", "Access keys by state.")
KEYS_NEAR_LIMIT = MetricFamily(
    f"{_PREFIX}keys_near_limit",
    "gauge",
    "Enabled access keys that used 80 % of a limit in USD, with running requests, but not all.",
)
KEYS_AT_LIMIT = MetricFamily(
    f"{_PREFIX}keys_at_limit", "gauge", "Enabled access keys that used up a limit in USD."
)
LEDGER_WRITABLE = MetricFamily(
    f"{_PREFIX}ledger_writable", "gauge", "1 if requests can be recorded, else 0."
)

SHARED: Mapping[BudgetScope, tuple[MetricFamily, MetricFamily, MetricFamily]] = {
    scope: (
        MetricFamily(
            f"{_PREFIX}{scope}_requests_total", "counter", f"Recorded requests by {what}."
        ),
        MetricFamily(
            f"{_PREFIX}{scope}_tokens_total", "counter", f"Tokens, in and out, by {what}."
        ),
        MetricFamily(f"{_PREFIX}{scope}_cost_usd_total", "counter", f"Cost in USD by {what}."),
    )
    for scope, what in _SHARED_WORDS.items()
}
"""Requests, tokens and cost by owner and by tag."""

_STATES = ("ok", "cooldown", "disabled")

_Labels: TypeAlias = Mapping[str, object]


class GatewayMetrics(Struct, frozen=True):
    """The values of all metrics at one moment."""

    requests: RequestCounts
    channels: Mapping[str, ChannelHealth]
    """By name."""
    balances: Sequence[tuple[str, ChannelBalance]]
    """Those that were read, with the channel's name."""
    keys: KeyCounts
    is_ledger_writable: bool


def render_metrics(metrics: GatewayMetrics) -> bytes:
    """Return the metrics in the text format."""
    text = MetricsText()
    _add_requests(text, metrics.requests)
    _add_channels(text, metrics.channels)
    _add_balances(text, metrics.balances)
    _add_keys(text, metrics.keys)
    text.add_metric(LEDGER_WRITABLE, int(metrics.is_ledger_writable))
    return text.encode()


def _add_requests(text: MetricsText, counted: RequestCounts) -> None:
    groups = [
        ({"model": model, "channel": channel}, counts)
        for (model, channel), counts in counted.groups.items()
    ]
    text.add_family(REQUESTS)
    for labels, counts in groups:
        for (outcome, status), count in sorted(counts.statuses.items()):
            text.add_sample(REQUESTS.name, count, {**labels, "outcome": outcome, "status": status})
    text.add_family(ERRORS)
    for labels, counts in groups:
        for error, count in sorted(counts.totals.errors.items()):
            text.add_sample(ERRORS.name, count, {**labels, "error": error})
    text.add_family(FAILED_TRIES)
    for (channel, error), count in counted.failed_tries.items():
        text.add_sample(FAILED_TRIES.name, count, {"channel": channel, "error": error})
    text.add_family(TOKENS)
    for labels, counts in groups:
        for kind in Usage.__struct_fields__:
            text.add_sample(TOKENS.name, getattr(counts.totals, kind), {**labels, "kind": kind})
    text.add_family(COST)
    for labels, counts in groups:
        text.add_sample(COST.name, counts.totals.cost, labels)
    _add_histogram(text, FIRST_TOKEN, groups, lambda counts: counts.first_token)
    _add_histogram(text, DURATION, groups, lambda counts: counts.duration)
    for scope, families in SHARED.items():
        for family, field in zip(families, ("requests", "tokens", "cost"), strict=True):
            text.add_family(family)
            for (of, name), spent in counted.shared.items():
                if of == scope:
                    text.add_sample(family.name, getattr(spent, field), {scope: name})


def _add_histogram(
    text: MetricsText,
    family: MetricFamily,
    groups: Iterable[tuple[_Labels, RouteCounts]],
    get_durations: Callable[[RouteCounts], DurationCounts],
) -> None:
    text.add_family(family)
    for labels, counts in groups:
        durations = get_durations(counts)
        bounds = [*durations.bounds, "+Inf"]
        cumulative = list(accumulate(durations.counts))
        for bound, count in zip(bounds, cumulative, strict=True):
            text.add_sample(f"{family.name}_bucket", count, {**labels, "le": bound})
        text.add_sample(f"{family.name}_sum", durations.milliseconds / 1000, labels)
        text.add_sample(f"{family.name}_count", cumulative[-1], labels)


def _add_channels(text: MetricsText, channels: Mapping[str, ChannelHealth]) -> None:
    text.add_family(CHANNELS)
    for state in _STATES:
        count = sum(one.state == state for one in channels.values())
        text.add_sample(CHANNELS.name, count, {"state": state})
    text.add_family(COOLDOWN)
    for name, one in sorted(channels.items()):
        for model, seconds in sorted({"": one.seconds, **one.models}.items()):
            labels = {"channel": name, "supplier_model": model}
            text.add_sample(COOLDOWN.name, round(seconds, 3), labels)


def _add_balances(text: MetricsText, balances: Sequence[tuple[str, ChannelBalance]]) -> None:
    if not balances:
        return
    each = [(name, one) for name, balance in balances for one in balance.keys]
    text.add_family(BALANCE)
    for name, one in each:
        if one.amount is not None:
            labels = {"channel": name, "key": one.field, "currency": one.currency}
            text.add_sample(BALANCE.name, one.amount, labels)
    text.add_family(BALANCE_READ)
    for name, one in each:
        labels = {"channel": name, "key": one.field}
        text.add_sample(BALANCE_READ.name, int(not one.error), labels)


def _add_keys(text: MetricsText, keys: KeyCounts) -> None:
    text.add_family(KEYS)
    states = {"enabled": keys.enabled, "disabled": keys.disabled, "expired": keys.expired}
    for state, count in states.items():
        text.add_sample(KEYS.name, count, {"state": state})
    text.add_metric(KEYS_NEAR_LIMIT, keys.near_limit)
    text.add_metric(KEYS_AT_LIMIT, keys.at_limit)
