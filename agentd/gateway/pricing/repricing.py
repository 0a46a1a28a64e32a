"""Repricing of recorded requests: by other prices, or by prices that were not known then.

A record keeps what its last repricing replaced, with the number of that change, so that the change
can be undone exactly while no later one has repriced the record.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TypeAlias

from msgspec import Struct, structs

from agentd.gateway.ledger.record import EarlierPrice, FailedTry, RequestRecord
from agentd.gateway.pricing.bounds import compute_version
from agentd.llm.price import (
    NO_USAGE,
    Prices,
    add_amounts,
    compute_cost,
    find_assumed_buckets,
    sum_amounts,
)
from agentd.models.gateway_model import GatewayModel

PricesOf: TypeAlias = Callable[[RequestRecord], tuple[Prices | None, str]]
"""The prices of a request and their version; ``None`` where none are known."""


def make_price_lookup(models: Mapping[str, GatewayModel]) -> PricesOf:
    """Return a lookup of today's prices: of the route that a request took, else of its model."""
    known: dict[tuple[str, str, str], Prices] = {}
    for model in models.values():
        for route in model.routes:
            prices = route.prices or model.prices
            if prices:
                known[model.name, route.channel, route.model or model.name] = prices

    def find_prices(entry: RequestRecord) -> tuple[Prices | None, str]:
        name = entry.fallback or entry.model
        model = models.get(name)
        otherwise = model.prices if model else None
        usual = known.get((name, entry.channel, entry.supplier_model), otherwise)
        prices = usual and (usual.for_service(entry.tier) or usual)
        return prices, compute_version(prices) if prices else ""

    return find_prices


class RepricingSummary(Struct):
    """The changes made by a repricing."""

    requests: int = 0
    """Requests of these days that have any usage."""
    changed: int = 0
    """Requests among them whose cost or version of prices changed."""
    unpriced: int = 0
    """Requests among them without known prices, which stay unchanged."""
    before: Decimal = Decimal(0)
    """Cost of all of them before, in USD."""
    after: Decimal = Decimal(0)
    """Their cost afterwards, in USD."""

    def add_request(self, was: RequestRecord, now: RequestRecord, *, known: bool) -> None:
        """Count a request in."""
        self.requests += 1
        self.changed += was != now
        self.unpriced += not known
        self.before = add_amounts(self.before, was.cost)
        self.after = add_amounts(self.after, now.cost)

    def add(self, other: "RepricingSummary") -> None:
        """Count the other in."""
        self.requests += other.requests
        self.changed += other.changed
        self.unpriced += other.unpriced
        self.before = add_amounts(self.before, other.before)
        self.after = add_amounts(self.after, other.after)


def reprice(
    entry: RequestRecord, difference: RepricingSummary, find_prices: PricesOf, change: int
) -> RequestRecord:
    """Return the request at these prices, and what that changes noted.

    The first cost stays in ``was``, what was replaced in ``earlier``, by the number of the
    ``change``; 0: it cannot be undone.

    Estimated records stay marked: it is unknown whether the usage or the price was estimated.
    """
    charged = any(one.usage != NO_USAGE for one in entry.failed_tries)
    if entry.usage == NO_USAGE and not charged:
        return entry
    tries = tuple(_reprice_try(one, entry, find_prices) for one in entry.failed_tries)
    own = add_amounts(entry.cost, entry.given_up_cost.copy_negate())
    prices, version = find_prices(entry) if entry.usage != NO_USAGE else (None, "")
    now = structs.replace(entry, failed_tries=tries)
    if prices:
        own = compute_cost(entry.usage, prices)
        estimated = entry.estimated or bool(find_assumed_buckets(entry.usage, prices))
        now = structs.replace(now, priced=version, estimated=estimated)
    first = entry.cost if entry.was is None else entry.was
    repriced = sum_amounts((own, now.given_up_cost))
    now = structs.replace(now, cost=repriced, was=None if repriced == first else first)
    if now == entry:
        now = entry
    else:
        now = structs.replace(now, earlier=_keep_price(entry, change) if change else None)
    known = prices is not None or entry.usage == NO_USAGE
    difference.add_request(entry, now, known=known)
    return now


def _reprice_try(one: FailedTry, entry: RequestRecord, find_prices: PricesOf) -> FailedTry:
    """Return a failed try of a request at these prices; most cost nothing."""
    if one.usage == NO_USAGE:
        return one
    prices, _ = find_prices(
        structs.replace(
            entry,
            channel=one.channel,
            supplier_model=one.supplier_model,
            fallback=one.model,
            tier=one.tier,
        )
    )
    return structs.replace(one, cost=compute_cost(one.usage, prices)) if prices else one


def restore_price(
    entry: RequestRecord, difference: RepricingSummary, undone: int, change: int
) -> RequestRecord:
    """Return the request as it was before the change ``undone`` repriced it, if that did last.

    The undo is the repricing of a ``change`` itself, which can be undone in turn.
    """
    before = entry.earlier
    if before is None or before.change != undone:
        return entry
    tries = zip(entry.failed_tries, before.tries, strict=False)
    now = structs.replace(
        entry,
        failed_tries=tuple(structs.replace(one, cost=cost) for one, cost in tries)
        or entry.failed_tries,
        cost=before.cost,
        was=before.was,
        priced=before.priced,
        estimated=before.estimated,
        earlier=_keep_price(entry, change),
    )
    difference.add_request(entry, now, known=True)
    return now


def _keep_price(entry: RequestRecord, change: int) -> EarlierPrice:
    charged = any(one.usage != NO_USAGE for one in entry.failed_tries)
    tries = tuple(one.cost for one in entry.failed_tries) if charged else ()
    return EarlierPrice(change, entry.cost, entry.was, entry.priced, entry.estimated, tries)
