"""The catalogue's prices for channels' models, models of the gateway, and recorded requests."""

from decimal import Decimal

import msgspec
import pytest
from msgspec import structs

from agentd.gateway.catalogue.listed import (
    build_routed_model,
    find_channel_prices,
    find_model_prices,
    has_other_prices,
    make_dated_lookup,
    take_listed_prices,
)
from agentd.gateway.channels.model import Channel
from agentd.gateway.ledger.record import RequestRecord
from agentd.gateway.pricing.bounds import compute_version
from agentd.gateway.pricing.repricing import make_price_lookup
from agentd.llm.price import ServiceRates
from agentd.models.gateway_model import GatewayModel, ModelRoute
from tests.gateway.catalogue.samples import build_catalogue, build_prices

CATALOGUE = build_catalogue()
ACME = Channel(name="acme", dialects=("anthropic",), url="https://api.acme.example")
OTHER = Channel(name="other", dialects=("openai-chat",), url="https://other.example")
CHANNELS = {"acme": ACME, "other": OTHER}
TODAY = "2026-11-01"


def build_model(*routes: ModelRoute) -> GatewayModel:
    """Build a model with these routes."""
    return GatewayModel(name="large", routes=routes)


def test_a_local_model_does_not_cost_what_its_maker_asks() -> None:
    found = find_channel_prices(CATALOGUE, OTHER, "gpt-5.1", TODAY)
    assert found and found.by == "name"
    local = msgspec.structs.replace(OTHER, local=True)
    assert find_channel_prices(CATALOGUE, local, "gpt-5.1", TODAY) is None


def test_the_first_route_without_own_prices_decides() -> None:
    own = ModelRoute(channel="acme", model="scripted-large", prices=build_prices("7", "8"))
    later = ModelRoute(channel="acme", model="scripted-large", priority=2)
    first = ModelRoute(channel="acme", model="scripted-small", priority=1)
    found = find_model_prices(CATALOGUE, CHANNELS, build_model(own, later, first), TODAY)
    assert found and found.model == "scripted-small"
    assert find_model_prices(CATALOGUE, CHANNELS, build_model(own), TODAY) is None
    gone = ModelRoute(channel="gone", model="scripted-small")
    assert find_model_prices(CATALOGUE, CHANNELS, build_model(gone), TODAY) is None


def test_a_route_without_a_name_has_the_models_name() -> None:
    model = GatewayModel(name="scripted-small", routes=(ModelRoute(channel="acme"),))
    found = find_model_prices(CATALOGUE, CHANNELS, model, TODAY)
    assert found and found.model == "scripted-small"


def test_taking_prices_keeps_an_own_context_and_leaves_no_difference() -> None:
    model = build_model(ModelRoute(channel="acme", model="scripted-large"))
    listed = find_model_prices(CATALOGUE, CHANNELS, model, TODAY)
    assert listed and has_other_prices(model, listed)
    taken = take_listed_prices(model, listed)
    assert (taken.prices, taken.context) == (listed.prices, 200_000)
    assert not has_other_prices(taken, listed)
    own = msgspec.structs.replace(model, context=5000)
    assert take_listed_prices(own, listed).context == 5000
    tiny = msgspec.structs.replace(listed, context=10)
    assert take_listed_prices(model, tiny).context is None  # models.yml takes none so small


@pytest.mark.parametrize(("name", "route"), [("scripted-small", ""), ("tiny", "scripted-small")])
def test_a_created_model_names_the_suppliers_model_only_where_it_differs(name, route) -> None:
    made = build_routed_model(name, ACME, "scripted-small", None)
    assert (made.name, made.routes, made.prices) == (
        name,
        (ModelRoute(channel="acme", model=route),),
        None,
    )


def build_record(**more: str) -> RequestRecord:
    """Build a record of a request through the channel ``acme``."""
    fields = {"at": "2026-05-31T23:59:59.999Z", "channel": "acme", "model": "large", **more}
    return msgspec.convert(
        {"id": "r", "key": "", "endpoint": "e", "status": 200, "outcome": "ok", **fields},
        RequestRecord,
    )


def test_a_request_is_priced_as_on_its_day_and_else_as_before() -> None:
    current = build_prices("9", "9")
    asked = []

    def find_current(entry: RequestRecord) -> tuple[object, str]:
        asked.append(entry)
        return current, "current"

    find = make_dated_lookup(CATALOGUE, CHANNELS, find_current)
    for day, rate in (("2026-05-31", 4), ("2026-06-01", 2)):
        record = build_record(at=f"{day}T12:00:00.000Z", supplier_model="scripted-large")
        prices, version = find(record)
        assert prices and prices.input == Decimal(rate)
        assert version == compute_version(prices)
    assert not asked
    for more in ({"supplier_model": "unheard-of"}, {"channel": "gone"}):
        assert find(build_record(**more)) == (current, "current")
    assert len(asked) == 2


def test_a_service_tier_that_is_not_listed_keeps_its_own_rates() -> None:
    flex = ServiceRates(tier="flex", input=Decimal("0.5"), output=Decimal(1))
    own = structs.replace(build_prices("9", "9"), services=(flex,))
    route = ModelRoute(channel="acme", model="scripted-large")
    models = {"large": GatewayModel(name="large", routes=(route,), prices=own)}
    find = make_dated_lookup(CATALOGUE, CHANNELS, make_price_lookup(models))
    for tier, rate in (("flex", Decimal("0.5")), ("unheard-of", Decimal(4)), ("", Decimal(4))):
        prices, version = find(build_record(supplier_model="scripted-large", tier=tier))
        assert prices and prices.input == rate
        assert version == compute_version(prices)
