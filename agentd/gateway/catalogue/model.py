"""The price catalogue: what known models cost at their suppliers, since when, and their sizes.

Which entry is meant by a channel and a supplier's name of a model is decided here, without I/O.
"""

import re
from functools import lru_cache
from typing import Annotated, Literal

from msgspec import Meta, Struct, structs

from agentd.core.clock import Timestamp, require_timestamps
from agentd.llm.price import Prices, Rates

_MAX_NAME_CHARS = 300
"""A longer name is no model's; the bound keeps patterns of the catalogue cheap."""

_COMPACT_DATE = re.compile(r"-(20\d{2})(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?=-|:|$)")


class NamePattern(Struct, frozen=True, omit_defaults=True):
    """A condition on a name in lower case; each field that is given must hold."""

    equals: str = ""
    starts_with: str = ""
    ends_with: str = ""
    contains: str = ""
    regex: str = ""
    """A Python regular expression; one that is not valid matches nothing."""
    any_of: tuple["NamePattern", ...] = ()
    all_of: tuple["NamePattern", ...] = ()

    def matches(self, name: str) -> bool:
        """Return whether the name fulfils the condition; an empty condition matches nothing."""
        held = [
            *([name == self.equals] if self.equals else ()),
            *([name.startswith(self.starts_with)] if self.starts_with else ()),
            *([name.endswith(self.ends_with)] if self.ends_with else ()),
            *([self.contains in name] if self.contains else ()),
            *([_search(self.regex, name)] if self.regex else ()),
            *([any(one.matches(name) for one in self.any_of)] if self.any_of else ()),
            *([all(one.matches(name) for one in self.all_of)] if self.all_of else ()),
        ]
        return bool(held) and all(held)


class DatedPrices(Struct, frozen=True, omit_defaults=True):
    """Prices, and the day from which they hold."""

    prices: Prices
    since: str = ""
    """The first day (UTC), such as 2026-01-31; empty: always, or not known."""


class CatalogueModel(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model of a supplier."""

    id: str
    """The name by which the catalogue knows it."""
    name: str = ""
    """The name that people use."""
    match: NamePattern
    """The supplier's names of it."""
    history: Annotated[tuple[DatedPrices, ...], Meta(min_length=1)]
    """Its prices, by day, the oldest first."""
    context: int | None = None
    """Maximum tokens of a conversation."""
    note: str = ""
    """What these prices leave out."""

    def get_prices(self, day: str) -> DatedPrices:
        """Return the prices of a day such as ``2026-01-31``; before the first, the first."""
        held = [one for one in self.history if one.since <= day]
        return held[-1] if held else self.history[0]


class CatalogueSupplier(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A supplier and the models it sells."""

    id: str
    name: str
    address: str = ""
    """A regular expression that the beginning of its addresses matches."""
    model_names: NamePattern | None = None
    """The names by which its models are known wherever they are sold."""
    resells: tuple[str, ...] = ()
    """The ids of suppliers whose models it sells at their prices, where it lists none itself."""
    models: tuple[CatalogueModel, ...] = ()

    def find_model(self, name: str) -> CatalogueModel | None:
        """Return the model that this supplier calls so; also with a date written without dashes."""
        lowered = name.lower()
        dashed = _COMPACT_DATE.sub(r"-\1-\2-\3", lowered)
        for spelling in dict.fromkeys((lowered, dashed)):
            for model in self.models:
                if model.match.matches(spelling):
                    return model
        return None


class PriceCatalogue(Struct, frozen=True, kw_only=True):
    """The whole catalogue, as the state folder keeps it."""

    format: Literal[1] = 1
    source: str
    """The library and its version."""
    at: Timestamp
    """When it was read from there."""
    suppliers: tuple[CatalogueSupplier, ...]

    def __post_init__(self) -> None:
        require_timestamps(self.at)


class CatalogueMatch(Struct, frozen=True):
    """An entry of the catalogue, and how it was found."""

    supplier: CatalogueSupplier
    model: CatalogueModel
    by: Literal["address", "name"]
    """By the channel's address, or only by the name of the model: then the price is the maker's."""


def find_entry(catalogue: PriceCatalogue, url: str, name: str) -> CatalogueMatch | None:
    """Return the entry for a supplier's model, by the supplier's address.

    Where the catalogue does not know the address, the maker of the model is found by its name.
    """
    if len(name) > _MAX_NAME_CHARS:
        return None
    by_id = {supplier.id: supplier for supplier in catalogue.suppliers}
    called = [one for one in catalogue.suppliers if _search(one.address, url, at_start=True)]
    for supplier in called:
        sellers = (supplier, *(by_id[one] for one in supplier.resells if one in by_id))
        for seller in sellers:
            if model := seller.find_model(name):
                return CatalogueMatch(supplier, model, "address")
    if called:
        return None
    for supplier in catalogue.suppliers:
        if supplier.model_names and supplier.model_names.matches(name.lower()):
            model = supplier.find_model(name)
            return CatalogueMatch(supplier, model, "name") if model else None
    return None


def merge_prices(own: Prices | None, listed: Prices) -> Prices:
    """Return the listed prices, with the own rates of service tiers that are not listed."""
    if own is None:
        return listed
    known = {service.tier for service in listed.services}
    kept = tuple(service for service in own.services if service.tier not in known)
    return structs.replace(listed, services=(*listed.services, *kept))


def differs(own: Prices | None, listed: Prices) -> bool:
    """Return whether taking over the listed prices would change what anything costs."""
    return own is None or _summarize(own) != _summarize(merge_prices(own, listed))


def _summarize(prices: Prices) -> object:
    """Return the prices in a form that is equal for equal costs."""
    return (
        _list_rates(prices),
        {tier.tokens: _list_rates(tier) for tier in prices.above},
        {service.tier: _list_rates(service) for service in prices.services},
    )


def _list_rates(rates: Rates) -> list[object]:
    return [rates.get_rate(bucket)[0] for bucket in Rates.__struct_fields__]


def _search(pattern: str, text: str, *, at_start: bool = False) -> bool:
    compiled = _compile(pattern)
    if not pattern or compiled is None:
        return False
    return bool(compiled.match(text) if at_start else compiled.search(text))


@lru_cache(maxsize=512)
def _compile(pattern: str) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern)
    except re.error:
        return None
