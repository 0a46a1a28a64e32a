"""The dashboard of Grafana shows metrics that exist, by labels that they have."""

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from agentd.gateway.channels.balances import ChannelBalance, KeyBalance
from agentd.gateway.channels.model import Channel
from agentd.gateway.channels.routing import ChannelHealth
from agentd.gateway.ledger.record import FailedTry
from agentd.gateway.metrics.counters import RequestCounters
from agentd.gateway.metrics.exposition import GatewayMetrics, render_metrics
from agentd.gateway.metrics.key_states import KeyCounts
from tests.gateway.ledger.entries import build_record
from tests.support.paths import REPOSITORY

FILE = REPOSITORY / "config" / "grafana-dashboard.json"
DASHBOARD = json.loads(FILE.read_text())
PANELS = DASHBOARD["panels"]
QUERIES = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]
TARGET_LABELS = {"instance"}
"""Labels that Prometheus adds to what it scrapes."""


def list_known_labels() -> dict[str, set[str]]:
    """Return the labels of each metric that the gateway renders."""
    counters = RequestCounters()
    tries = (FailedTry("two", "server"),)
    shared = {"owner": "ann", "tags": ("nightly",)}
    counters.add_record(build_record(failed_tries=tries, outcome="failed", **shared))
    health = {"one": ChannelHealth(state="ok")}
    channel = Channel(name="one", dialects=("anthropic",), url="https://a.example")
    left = KeyBalance(field="key", amount=Decimal(5), currency="USD")
    balances = [("one", ChannelBalance(channel, "deepseek", (left,)))]
    text = render_metrics(
        GatewayMetrics(
            counters.take_snapshot(), health, balances, KeyCounts(), is_ledger_writable=True
        )
    ).decode()
    found: dict[str, set[str]] = {}
    for name, labels in re.findall(r"^(agentd_\w+)(?:\{(.*)\})? ", text, re.MULTILINE):
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return found


METRICS = list_known_labels()


def iter_selected_labels(query: str) -> Iterator[tuple[str, set[str]]]:
    """Yield each metric of a query with the labels that select it."""
    for name, labels in re.findall(r"\b(agentd_\w+)(?:\{([^}]*)\})?", query):
        yield name, set(re.findall(r'(\w+)(?:=|!=|=~|!~)"', labels))


@pytest.mark.parametrize(("title", "query"), QUERIES)
def test_every_query_names_metrics_and_labels_that_exist(title: str, query: str) -> None:
    metrics = list(iter_selected_labels(query))
    assert metrics
    for name, labels in metrics:
        assert name in METRICS
        assert labels <= METRICS[name] | TARGET_LABELS
    for labels in re.findall(r"\bby \(([^)]*)\)", query):
        grouped = {label.strip() for label in labels.split(",")}
        assert grouped <= set.intersection(*(METRICS[name] for name, _ in metrics))


def test_every_metric_is_shown() -> None:
    shown = {name for _, query in QUERIES for name, _ in iter_selected_labels(query)}
    families = {re.sub("_(bucket|sum|count)$", "", name) for name in METRICS}
    assert {re.sub("_(bucket|sum|count)$", "", name) for name in shown} == families


def test_every_legend_and_variable_names_a_label_that_exists() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            grouped = re.findall(r"\bby \(([^)]*)\)", target["expr"])
            assert named <= {label.strip() for one in grouped for label in one.split(",")}
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            (name, label), *more = re.findall(r"\((\w+), (\w+)\)", variable["query"]["query"])
            assert not more
            assert label in METRICS[name] | TARGET_LABELS


def test_panels_lie_side_by_side_and_none_is_there_twice() -> None:
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    covered: set[tuple[int, int]] = set()
    for panel in PANELS:
        place: dict[str, Any] = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & covered
        assert max(x for x, _ in cells) < 24
        covered |= cells
