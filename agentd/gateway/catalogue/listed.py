"""The catalogue's prices for a channel's model, a model of the gateway, or a recorded request."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, structs

from agentd.gateway.catalogue.model import (
    CatalogueModel,
    PriceCatalogue,
    differs,
    find_entry,
    merge_prices,
)
from agentd.gateway.channels.model import Channel
from agentd.gateway.ledger.record import RequestRecord
from agentd.gateway.pricing.bounds import compute_version
from agentd.gateway.pricing.repricing import PricesOf
from agentd.llm.price import Prices
from agentd.models.gateway_model import GatewayModel, ModelRoute

_LEAST_CONTEXT = 1000
"""The least context that ``models.yml`` takes."""


class ListedPrices(Struct, frozen=True, kw_only=True):
    """The prices of a model in the catalogue, as of some day."""

    supplier: str
    """The supplier whose prices these are."""
    model: str
    """The catalogue's id of the model."""
    title: str
    """The name that people use; empty: none."""
    prices: Prices
    """The prices, in USD per million tokens."""
    since: str
    """The first day (UTC) of these prices; empty: always, or not known."""
    context: int | None
    """Maximum tokens of a conversation; null: not known."""
    note: str
    """What these prices leave out; empty: nothing."""
    by: Literal["address", "name"]
    """Found by the channel's address, or only by the name of the model: then they are those of
    the model's maker, and the channel's supplier may have others."""


def list_prices(
    supplier: str, model: CatalogueModel, day: str, by: Literal["address", "name"] = "address"
) -> ListedPrices:
    """Return the prices of a catalogue's model on a day such as ``2026-01-31``."""
    dated = model.get_prices(day)
    return ListedPrices(
        supplier=supplier,
        model=model.id,
        title=model.name,
        prices=dated.prices,
        since=dated.since,
        context=model.context,
        note=model.note,
        by=by,
    )


def find_channel_prices(
    catalogue: PriceCatalogue, channel: Channel, name: str, day: str
) -> ListedPrices | None:
    """Return the prices of what a channel's supplier calls ``name``.

    A model on this machine or its network is known by no maker's price.
    """
    found = find_entry(catalogue, channel.url, name)
    if found is None or (found.by == "name" and channel.local):
        return None
    return list_prices(found.supplier.id, found.model, day, found.by)


def find_model_prices(
    catalogue: PriceCatalogue, channels: Mapping[str, Channel], model: GatewayModel, day: str
) -> ListedPrices | None:
    """Return the prices of a model's first route that has no prices of its own."""
    priced = (route for route in model.routes if route.prices is None)
    first = min(priced, key=lambda route: (route.priority, -route.weight), default=None)
    channel = channels.get(first.channel) if first else None
    if first is None or channel is None:
        return None
    return find_channel_prices(catalogue, channel, first.model or model.name, day)


def has_other_prices(model: GatewayModel, listed: ListedPrices | None) -> bool:
    """Return whether taking the listed prices would change what the model costs."""
    return listed is not None and differs(model.prices, listed.prices)


def take_listed_prices(model: GatewayModel, listed: ListedPrices) -> GatewayModel:
    """Return the model with the listed prices, and their context if it has none."""
    context = model.context
    if context is None and (listed.context or 0) >= _LEAST_CONTEXT:
        context = listed.context
    return structs.replace(model, prices=merge_prices(model.prices, listed.prices), context=context)


def build_routed_model(
    name: str, channel: Channel, supplier_model: str, listed: ListedPrices | None
) -> GatewayModel:
    """Return a new model through a channel, with the listed prices if there are any."""
    usual = "" if supplier_model == name else supplier_model
    model = GatewayModel(name=name, routes=(ModelRoute(channel=channel.name, model=usual),))
    return take_listed_prices(model, listed) if listed else model


def make_dated_lookup(
    catalogue: PriceCatalogue, channels: Mapping[str, Channel], otherwise: PricesOf
) -> PricesOf:
    """Return a lookup of the catalogue's prices on the day of each request.

    ``otherwise`` is asked for what is not in the catalogue: models, and service tiers of models.
    Where nobody has rates of a tier, it is priced as the usual one.
    """
    known: dict[tuple[str, str], CatalogueModel | None] = {}

    def find_model(entry: RequestRecord) -> CatalogueModel | None:
        channel = channels.get(entry.channel)
        found = channel and find_entry(catalogue, channel.url, entry.supplier_model)
        if not channel or not found or (found.by == "name" and channel.local):
            return None
        return found.model

    def find_prices(entry: RequestRecord) -> tuple[Prices | None, str]:
        key = entry.channel, entry.supplier_model
        if key not in known:
            known[key] = find_model(entry)
        model = known[key]
        if model is None:
            return otherwise(entry)
        usual = model.get_prices(entry.at[:10]).prices
        prices = usual.for_service(entry.tier)
        if prices is None:
            own = otherwise(entry)
            if own != otherwise(structs.replace(entry, tier="")):
                return own
        prices = prices or usual
        return prices, compute_version(prices)

    return find_prices
