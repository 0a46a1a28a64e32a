"""Metrics are read by Prometheus' own parser as they were written."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.http.prometheus import MetricFamily, MetricsText

parser = pytest.importorskip("prometheus_client.parser")

GAUGE = MetricFamily("rooms", "gauge", "Rooms of a house.")


def parse(text: MetricsText) -> list:
    return list(parser.text_string_to_metric_families(text.encode().decode()))


@given(st.text(st.characters(exclude_categories=["Cs"])), st.floats(allow_nan=False))
def test_any_label_and_number_is_read_as_it_was_written(label, number):
    text = MetricsText()
    text.add_family(GAUGE)
    text.add_sample("rooms", number, {"floor": label, "side": "left"})
    (family,) = parse(text)
    (sample,) = family.samples
    assert sample.labels == {"floor": label, "side": "left"}
    assert sample.value == number


@given(st.text(st.characters(exclude_categories=["Cs"])).map(lambda text: f"x{text}x"))
def test_any_description_is_read_as_it_was_written(description):
    text = MetricsText()
    text.add_metric(MetricFamily("rooms", "gauge", description), 4)
    (family,) = parse(text)
    assert family.documentation == description
    assert family.samples[0].value == 4


def test_families_without_samples_are_listed_and_lend_theirs_to_none():
    text = MetricsText()
    text.add_family(MetricFamily("doors_total", "counter", "Doors that were opened."))
    text.add_metric(GAUGE, 4)
    doors, rooms = parse(text)
    assert (doors.name, doors.type, doors.samples) == ("doors", "counter", [])
    assert (rooms.name, rooms.type, len(rooms.samples)) == ("rooms", "gauge", 1)


def test_an_amount_keeps_all_its_digits():
    text = MetricsText()
    text.add_metric(GAUGE, Decimal("12345678901234567890.000000000001"))
    assert b"rooms 12345678901234567890.000000000001\n" in text.encode()
    small = MetricsText()
    small.add_metric(GAUGE, Decimal("1E-12"))
    assert b"rooms 0.000000000001\n" in small.encode()


def test_text_that_is_no_unicode_does_not_hide_the_other_metrics():
    text = MetricsText()
    text.add_family(GAUGE)
    text.add_sample("rooms", 1, {"floor": "\ud800"})
    text.add_sample("rooms", 2, {"floor": "first"})
    (family,) = parse(text)
    assert [sample.value for sample in family.samples] == [1, 2]
