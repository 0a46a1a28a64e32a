"""Which entry of the catalogue is meant, and which prices hold on a day."""

from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.gateway.catalogue.model import (
    NamePattern,
    PriceCatalogue,
    differs,
    find_entry,
    merge_prices,
)
from agentd.llm.price import ServiceRates
from tests.gateway.catalogue.samples import build_catalogue, build_prices

ACME = "https://api.acme.example/v1"


@pytest.mark.parametrize(
    ("url", "name", "expected"),
    [
        (ACME, "scripted-large-2026", ("acme", "scripted-large", "address")),
        (ACME, "Scripted-Large", ("acme", "scripted-large", "address")),
        (ACME, "s", ("acme", "scripted-small", "address")),
        (ACME, "gpt-5.1", ("acme", "gpt-5.1", "address")),  # resold at the maker's prices
        ("https://other.example", "gpt-5.1", ("openai", "gpt-5.1", "name")),
        (ACME, "unheard-of", None),
        ("https://other.example", "scripted-large", None),
        ("https://evil.example/https://api.acme.example", "scripted-large", None),
        (ACME, "scripted-large" * 100, None),
    ],
)
def test_an_entry_is_found_by_the_address_and_else_by_the_makers_names(url, name, expected) -> None:
    found = find_entry(build_catalogue(), url, name)
    assert (found and (found.supplier.id, found.model.id, found.by)) == expected


def test_a_model_that_a_known_supplier_does_not_sell_has_no_price_of_its_maker() -> None:
    url = "https://api.openai.com/v1"
    assert find_entry(build_catalogue(), url, "scripted-large") is None


def test_a_date_without_dashes_is_that_date() -> None:
    catalogue = build_catalogue()
    (acme, openai) = catalogue.suppliers
    dated = msgspec.structs.replace(
        openai.models[0], match=NamePattern(equals="gpt-5.1-2025-11-13")
    )
    catalogue = msgspec.structs.replace(
        catalogue, suppliers=(acme, msgspec.structs.replace(openai, models=(dated,)))
    )
    assert find_entry(catalogue, "https://api.openai.com", "gpt-5.1-20251113")
    assert not find_entry(catalogue, "https://api.openai.com", "gpt-5.1-20251399")


@pytest.mark.parametrize(
    ("day", "rate"),
    [("1999-01-01", 4), ("2026-05-31", 4), ("2026-06-01", 2), ("2998-12-31", 2), ("2999-01-01", 1)],
)
def test_prices_hold_from_their_day_on(day: str, rate: int) -> None:
    model = build_catalogue().suppliers[0].models[0]
    assert model.get_prices(day).prices.input == rate


def test_a_pattern_without_a_condition_or_with_a_wrong_one_matches_nothing() -> None:
    assert not NamePattern().matches("")
    assert not NamePattern(regex="(").matches("(")
    assert NamePattern(regex="^a", ends_with="z").matches("abz")
    assert not NamePattern(regex="^a", ends_with="z").matches("ab")
    assert NamePattern(all_of=(NamePattern(contains="b"), NamePattern(contains="c"))).matches("bc")


@given(st.text(max_size=400), st.text(max_size=400))
def test_looking_up_any_text_raises_nothing(url: str, name: str) -> None:
    find_entry(build_catalogue(), url, name)


def test_prices_that_are_only_written_differently_do_not_differ() -> None:
    own = build_prices("2.0", "10", cache_read="0.20", reasoning="10", cache_write="2")
    assert not differs(own, build_prices("2", "10", cache_read="0.2"))
    assert differs(own, build_prices("2", "10", cache_read="0.3"))
    assert differs(None, own)


def test_rates_of_services_that_the_catalogue_does_not_have_are_kept() -> None:
    flex = ServiceRates(tier="flex", input=Decimal(1), output=Decimal(5))
    own = msgspec.structs.replace(build_prices("3", "15"), services=(flex,))
    listed = build_prices("2", "10")
    merged = merge_prices(own, listed)
    assert (merged.input, merged.services) == (2, (flex,))
    assert not differs(merged, listed)


def test_a_catalogue_is_the_same_after_it_was_written_and_read() -> None:
    catalogue = build_catalogue()
    assert msgspec.json.decode(msgspec.json.encode(catalogue), type=PriceCatalogue) == catalogue
