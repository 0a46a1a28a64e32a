"""The catalogue as it is read out of the real library."""

import sys
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from agentd.core.errors import Unavailable
from agentd.gateway.catalogue.extraction import extract_catalogue
from agentd.gateway.catalogue.model import PriceCatalogue, find_entry
from agentd.llm.price import Usage, compute_cost

NOW = "2026-01-01T00:00:00.000Z"


@pytest.fixture(scope="module")
def catalogue() -> PriceCatalogue:
    pytest.importorskip("genai_prices", reason="needs: pip install genai-prices")
    return extract_catalogue(NOW)


def test_it_says_where_it_is_from_and_when(catalogue: PriceCatalogue) -> None:
    assert catalogue.source.startswith("genai-prices ")
    assert catalogue.at == NOW
    assert sum(len(supplier.models) for supplier in catalogue.suppliers) > 1000


@pytest.mark.parametrize(
    ("url", "name", "supplier"),
    [
        ("https://api.anthropic.com", "claude-sonnet-4-5-20250929", "anthropic"),
        ("https://api.openai.com/v1", "gpt-5.1", "openai"),
        ("https://generativelanguage.googleapis.com", "gemini-2.5-pro", "google"),
        ("https://res.openai.azure.com", "gpt-4o", "azure"),
    ],
)
def test_well_known_models_of_well_known_suppliers_are_found(
    catalogue: PriceCatalogue, url: str, name: str, supplier: str
) -> None:
    found = find_entry(catalogue, url, name)
    assert found and (found.supplier.id, found.by) == (supplier, "address")
    prices = found.model.get_prices("2026-11-01").prices
    assert 0 < prices.input < prices.output


@pytest.mark.parametrize("tokens", [1000, 200_000, 300_000])
@pytest.mark.parametrize("day", ["2025-06-01", "2026-11-01"])
def test_a_request_costs_what_the_library_says(
    catalogue: PriceCatalogue, tokens: int, day: str
) -> None:
    """Also with tiers by size, on days with other prices, and for each supplier's whole list."""
    from genai_prices import Usage as LibraryUsage
    from genai_prices.data import providers

    moment = datetime.fromisoformat(f"{day}T00:00:00").replace(tzinfo=UTC)
    compared = 0
    by_id = {one.id: one for one in catalogue.suppliers}
    for provider in providers:
        known = {model.id: model for model in by_id[provider.id].models}
        for model in provider.models:
            ours = known.get(model.id)
            if ours is None or "time" in ours.note or "request" in ours.note:
                continue
            given = LibraryUsage(input_tokens=tokens, output_tokens=500)
            expected = model.calc_price(given, provider, genai_request_timestamp=moment)
            cost = compute_cost(Usage(input=tokens, output=500), ours.get_prices(day).prices)
            assert cost == expected.total_price, (provider.id, model.id)
            compared += 1
    assert compared > 1000


def test_of_prices_by_the_time_of_day_the_highest_is_taken(catalogue: PriceCatalogue) -> None:
    from genai_prices.data import providers

    found = [
        (provider.id, model)
        for provider in providers
        for model in provider.models
        if isinstance(model.prices, list)
        and any(hasattr(one.constraint, "start_time") for one in model.prices)
    ]
    assert found
    by_id = {one.id: one for one in catalogue.suppliers}
    for supplier, model in found:
        (ours,) = (one for one in by_id[supplier].models if one.id == model.id)
        now: list[Any] = [
            model.get_prices(datetime(2026, 11, 1, hour, 45, tzinfo=UTC)) for hour in range(24)
        ]
        assert ours.get_prices("2026-11-01").prices.input == max(one.input_mtok for one in now)
        assert "times of the day" in ours.note


def test_rates_of_service_tiers_are_those_of_the_library(catalogue: PriceCatalogue) -> None:
    found = find_entry(catalogue, "https://api.openai.com", "gpt-5.1")
    assert found
    prices = found.model.get_prices("2026-11-01").prices
    flex = prices.for_service("flex")
    assert flex and flex.input * 2 == prices.input
    assert isinstance(flex.input, Decimal)
    assert prices.for_service("batch") is None


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    with pytest.raises(Unavailable) as raised:
        extract_catalogue(NOW)
    assert "pip install 'agentd-workstation[prices]'" in raised.value.details
