"""Pricing what was booked anew: by other prices, or by prices that were not known then."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TypeAlias

from msgspec import Struct, structs

from agentd.proxy.channel import ProxyModel
from agentd.proxy.entry import Entry
from agentd.proxy.price import NOTHING, Prices, assumed, cost, plus
from agentd.proxy.pricing import version

PricesOf: TypeAlias = Callable[[Entry], tuple[Prices | None, str]]
"""The prices of a request and their version; ``None`` where none are known."""


def prices_in(models: Mapping[str, ProxyModel]) -> PricesOf:
    """Prices as they are now: of the way that a request took, else of its model."""
    known: dict[tuple[str, str, str], Prices] = {}
    for model in models.values():
        for way in model.ways:
            prices = way.prices or model.prices
            if prices:
                known[model.name, way.channel, way.model or model.name] = prices

    def prices_of(entry: Entry) -> tuple[Prices | None, str]:
        model = models.get(entry.model)
        otherwise = model.prices if model else None
        usual = known.get((entry.model, entry.channel, entry.supplier_model), otherwise)
        prices = usual and (usual.served(entry.tier) or usual)
        return prices, version(prices) if prices else ""

    return prices_of


class Difference(Struct):
    """What pricing anew changes."""

    requests: int = 0
    """With any usage."""
    changed: int = 0
    """Of these, with another cost or version of prices."""
    unpriced: int = 0
    """Of these, without known prices: they stay as they are."""
    before: Decimal = Decimal(0)
    """USD of all of them ..."""
    after: Decimal = Decimal(0)
    """... and what it becomes."""

    def note(self, was: Entry, now: Entry, *, known: bool) -> None:
        """Count a request in."""
        self.requests += 1
        self.changed += was != now
        self.unpriced += not known
        self.before = plus(self.before, was.cost)
        self.after = plus(self.after, now.cost)

    def add(self, other: "Difference") -> None:
        """Count the other in."""
        self.requests += other.requests
        self.changed += other.changed
        self.unpriced += other.unpriced
        self.before = plus(self.before, other.before)
        self.after = plus(self.after, other.after)


def repriced(entry: Entry, prices_of: PricesOf, difference: Difference) -> Entry:
    """The request at these prices, and what that changes noted; the first cost stays in ``was``.

    What was estimated stays marked so, for nobody can tell whether its usage was, or its price.
    """
    if entry.usage == NOTHING:
        return entry
    prices, version = prices_of(entry)
    now = entry
    if prices:
        first = entry.cost if entry.was is None else entry.was
        anew = cost(entry.usage, prices)
        now = structs.replace(
            entry,
            cost=anew,
            was=None if anew == first else first,
            priced=version,
            estimated=entry.estimated or bool(assumed(entry.usage, prices)),
        )
    difference.note(entry, now, known=prices is not None)
    return now
