"""The most a request can cost, what it did cost, and what to do when no price is known.

Before a call ``compute_upper_bound`` is reserved; after it ``compute_recorded_cost`` is counted
instead.
"""

from decimal import ROUND_CEILING, Context, Decimal
from functools import lru_cache
from hashlib import sha256
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct, structs

from agentd.core.errors import Forbidden
from agentd.llm.price import (
    NO_USAGE,
    Prices,
    Rates,
    Tier,
    Usage,
    compute_cost,
    find_assumed_buckets,
    sum_amounts,
)

UnknownPrice: TypeAlias = Literal["refuse", "estimate", "flag"]
"""The treatment of requests to a model without a price: refused, counted at an assumed
price, or let through at no cost and marked in the ledger."""

BYTES_PER_TOKEN = 3
"""The assumed bytes of JSON per token: prose has four or more; code and base64 have less."""

ASSUMED_OUTPUT = 32_000
"""Tokens of a reply when neither the caller nor the model's entry says how many at most."""

_INPUT = ("input", "cache_read", "cache_write", "cache_write_1h")
_OUTPUT = ("output", "reasoning")
"""Buckets of tokens by where they belong; of equal rates, the first represents all."""

_UP = Context(prec=100, rounding=ROUND_CEILING)
"""More digits than any sum of tokens and rates has; what had more would be rounded up."""


class Pricing(Struct, frozen=True):
    """The prices of one request, settled before it is sent."""

    prices: Prices | None
    """``None``: not known, and the request is let through all the same."""
    known: bool = True
    """True if these are the model's own, not assumed ones."""

    @property
    def version(self) -> str:
        """The short name of these prices, as the ledger keeps it; empty: none."""
        return compute_version(self.prices) if self.prices else ""


class RecordedCost(Struct, frozen=True):
    """The cost of a request, as the ledger keeps it."""

    cost: Decimal
    priced: str
    """The version of the prices."""
    estimated: bool
    """True if the usage or a price is estimated."""


def settle_pricing(
    model: str,
    prices: Prices | None,
    policy: UnknownPrice,
    otherwise: Prices,
    tier: str = "",
) -> Pricing:
    """Return the prices by which a request to ``model`` is counted.

    ``otherwise`` are the assumed ones.

    Where it is not known what another ``tier`` of service costs, and that is not refused, the
    prices of the usual one are counted, as a guess. Raises ``Forbidden`` when the price is not
    known and that is to be refused.
    """
    if prices and (served := prices.for_service(tier)):
        return Pricing(served)
    if tier and policy == "refuse":
        raise Forbidden(
            f'What the model "{model}" costs with the service tier "{tier}" is not known.',
            f'Leave it out, give the model\'s prices services with the tier "{tier}" in models.yml,'
            " or set unknown_price in proxy.yml to estimate or flag.",
        )
    if prices:
        return Pricing(prices, known=False)
    match policy:
        case "estimate":
            return Pricing(otherwise, known=False)
        case "flag":
            return Pricing(None, known=False)
    raise Forbidden(
        f'The price of the model "{model}" is not known, so nothing can be counted.',
        "Give it prices in models.yml, or set unknown_price in proxy.yml to estimate or flag.",
    )


def compute_upper_bound(pricing: Pricing, input_tokens: int, output_tokens: int) -> Decimal:
    """Return the most USD that a request with at most so many tokens can cost; never rounded down.

    Each token is counted in the most expensive bucket that it may fall into (uncached, cache read
    or cache write; output or reasoning), at the highest rates that so much input reaches.
    """
    prices = pricing.prices
    if prices is None:
        return Decimal(0)
    bound = Decimal(0)
    for above, input_rate, output_rate in _find_highest_rates(prices):
        if input_tokens > above:
            into, out = (
                _UP.multiply(input_rate, input_tokens),
                _UP.multiply(output_rate, output_tokens),
            )
            bound = max(bound, _UP.add(into, out))
    return bound


def compute_worst_case_usage(
    pricing: Pricing, known: Usage, input_tokens: int, output_tokens: int
) -> Usage:
    """Return the usage of a request that may have used up all that was reserved for it.

    ``known`` is the usage that the supplier had reported before the call was abandoned: its input
    is used if there is any. The rest is in the most expensive buckets, as in
    ``compute_upper_bound``.
    """
    into = known.total_input or input_tokens
    rates = pricing.prices.get_rates(into) if pricing.prices else None
    if not known.total_input:
        bucket = _find_most_expensive_bucket(rates, _INPUT)
        known = structs.replace(known, **{bucket: getattr(known, bucket) + input_tokens})
    bucket = _find_most_expensive_bucket(rates, _OUTPUT)
    unseen = max(output_tokens - known.total_output, 0)
    return structs.replace(known, **{bucket: getattr(known, bucket) + unseen})


def compute_recorded_cost(usage: Usage, pricing: Pricing, *, reported: bool = True) -> RecordedCost:
    """Return the cost of a request with this usage; ``reported`` if by the supplier."""
    if usage == NO_USAGE and reported:
        return RecordedCost(Decimal(0), pricing.version, False)
    if pricing.prices is None:
        return RecordedCost(Decimal(0), "", True)
    guessed = not (reported and pricing.known) or bool(find_assumed_buckets(usage, pricing.prices))
    return RecordedCost(compute_cost(usage, pricing.prices), pricing.version, guessed)


def estimate_tokens(size: int) -> int:
    """Estimate the tokens of so many bytes of text; rather too many."""
    return -(-size // BYTES_PER_TOKEN)


def choose_output_limit(asked: int, most: int | None, *, bounded: bool) -> int:
    """Return the output limit that a supplier gets, thinking included; 0: no limit.

    ``asked`` is the caller's own limit (0: none), ``most`` what the model can do. Where neither is
    known, a key whose spending is ``bounded`` gets the assumed one: without it nothing could be
    reserved that is sure to be enough.
    """
    limits = [limit for limit in (asked, most) if limit]
    return min(limits, default=ASSUMED_OUTPUT if bounded else 0)


def compute_max_output_tokens(limit: int, replies: int) -> int:
    """Return the most tokens of all replies together, each up to its limit (0: the assumed one)."""
    return (limit or ASSUMED_OUTPUT) * max(replies, 1)


@lru_cache(1024)
def compute_version(prices: Prices) -> str:
    """Return a short name that two lists of prices share only if every rate and tier is the same.

    How a number is written (``3`` or ``3.00``), and the order of the tiers, make no difference.
    """
    tiers = sorted(prices.above, key=lambda tier: tier.tokens)
    plain = [
        _format_rates(prices),
        *({"tokens": tier.tokens, **_format_rates(tier)} for tier in tiers),
    ]
    return sha256(msgspec.json.encode(plain, order="deterministic")).hexdigest()[:12]


def _format_rates(rates: Rates) -> dict[str, str]:
    return {
        name: str(sum_amounts((rate,)))
        for name, rate in structs.asdict(rates).items()
        if isinstance(rate, Decimal)
    }


@lru_cache(1024)
def _find_highest_rates(prices: Prices) -> tuple[tuple[int, Decimal, Decimal], ...]:
    """Yield for each tier its lower bound of input, and its highest USD per token in and out."""
    return tuple(
        (
            rates.tokens if isinstance(rates, Tier) else -1,
            _get_rate_per_token(rates, _INPUT),
            _get_rate_per_token(rates, _OUTPUT),
        )
        for rates in (prices, *prices.above)
    )


def _get_rate_per_token(rates: Rates, buckets: tuple[str, ...]) -> Decimal:
    return max(rates.get_rate(bucket)[0] for bucket in buckets).scaleb(-6, _UP)


@lru_cache(1024)
def _find_most_expensive_bucket(rates: Rates | None, buckets: tuple[str, ...]) -> str:
    return max(buckets, key=lambda bucket: rates.get_rate(bucket)[0]) if rates else buckets[0]
