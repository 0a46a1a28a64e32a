"""What a request will cost at most, what it did cost, and what to do when no price is known.

Before a call ``upper_bound`` is reserved; after it ``booked`` is counted instead.
"""

from decimal import ROUND_CEILING, Context, Decimal
from functools import lru_cache
from hashlib import sha256
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct, structs

from agentd.errors import Forbidden
from agentd.proxy.price import NOTHING, Prices, Rates, Tier, Usage, assumed, cost, total

UnknownPrice: TypeAlias = Literal["refuse", "estimate", "flag"]
"""What becomes of a request to a model without a price: it is refused, counted at an assumed
price, or let through at no cost and marked in the ledger."""

BYTES_PER_TOKEN = 3
"""Of a request's JSON. Prose has four and more; code, other scripts and base64 have less."""

ASSUMED_OUTPUT = 32_000
"""Tokens of a reply when neither the caller nor the model's entry says how many at most."""

_INPUT = ("input", "cache_read", "cache_write", "cache_write_1h")
_OUTPUT = ("output", "reasoning")
"""Buckets of tokens by where they belong; of equal rates, the first one stands for all."""

_UP = Context(prec=100, rounding=ROUND_CEILING)
"""More digits than any sum of tokens and rates has; what had more would be rounded up."""


class Pricing(Struct, frozen=True):
    """The prices of one request, settled before it is sent."""

    prices: Prices | None
    """``None``: not known, and the request is let through all the same."""
    known: bool = True
    """Whether these are the model's own, not assumed ones."""

    @property
    def version(self) -> str:
        """Which prices these are, as the ledger keeps it; empty: none."""
        return version(self.prices) if self.prices else ""


class Booked(Struct, frozen=True):
    """What one request cost, as the ledger keeps it."""

    cost: Decimal
    priced: str
    """The version of the prices."""
    estimated: bool
    """Whether the usage or a price is assumed rather than told."""


def settled(
    model: str,
    prices: Prices | None,
    policy: UnknownPrice,
    otherwise: Prices,
    tier: str = "",
) -> Pricing:
    """The prices by which a request to ``model`` is counted; ``otherwise`` are the assumed ones.

    Where it is not known what another ``tier`` of service costs, and that is not refused, the
    prices of the usual one are counted, as a guess. Raises ``Forbidden`` when the price is not
    known and that is to be refused.
    """
    if prices and (served := prices.served(tier)):
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


def upper_bound(pricing: Pricing, input_tokens: int, output_tokens: int) -> Decimal:
    """The most USD that a request with at most so many tokens can cost; never rounded down.

    Each token is counted in the dearest bucket that it may fall into (read anew, from the cache
    or into it; written or thought), at the dearest rates that so much input reaches.
    """
    prices = pricing.prices
    if prices is None:
        return Decimal(0)
    bound = Decimal(0)
    for above, dearest, dearest_out in _dearest(prices):
        if input_tokens > above:
            into, out = (
                _UP.multiply(dearest, input_tokens),
                _UP.multiply(dearest_out, output_tokens),
            )
            bound = max(bound, _UP.add(into, out))
    return bound


def most_usage(pricing: Pricing, known: Usage, input_tokens: int, output_tokens: int) -> Usage:
    """The usage of a request that may have used up all that was reserved for it.

    ``known`` is what the supplier had counted before nobody listened any more: its input holds
    where there is any. Whatever else there may be is in the dearest buckets, as in ``upper_bound``.
    """
    into = known.total_input or input_tokens
    rates = pricing.prices.rates(into) if pricing.prices else None
    if not known.total_input:
        bucket = _dearest_of(rates, _INPUT)
        known = structs.replace(known, **{bucket: getattr(known, bucket) + input_tokens})
    bucket = _dearest_of(rates, _OUTPUT)
    unseen = max(output_tokens - known.total_output, 0)
    return structs.replace(known, **{bucket: getattr(known, bucket) + unseen})


def booked(usage: Usage, pricing: Pricing, *, told: bool = True) -> Booked:
    """What a request with this usage cost; ``told``: the supplier counted it, not we."""
    if usage == NOTHING and told:
        return Booked(Decimal(0), pricing.version, False)
    if pricing.prices is None:
        return Booked(Decimal(0), "", True)
    guessed = not (told and pricing.known) or bool(assumed(usage, pricing.prices))
    return Booked(cost(usage, pricing.prices), pricing.version, guessed)


def tokens_in(size: int) -> int:
    """How many tokens so many bytes of text may be; rather too many."""
    return -(-size // BYTES_PER_TOKEN)


def output_limit(asked: int, most: int | None, *, bounded: bool) -> int:
    """The most tokens of one reply that a supplier is told, thinking included; 0: no limit.

    ``asked`` is the caller's own limit (0: none), ``most`` what the model can do. Where neither is
    known, a key whose spending is ``bounded`` gets the assumed one: without it nothing could be
    reserved that is sure to be enough.
    """
    limits = [limit for limit in (asked, most) if limit]
    return min(limits, default=ASSUMED_OUTPUT if bounded else 0)


def output_at_most(limit: int, replies: int) -> int:
    """The most tokens of all replies together, each up to its limit (0: the assumed one)."""
    return (limit or ASSUMED_OUTPUT) * max(replies, 1)


@lru_cache(1024)
def version(prices: Prices) -> str:
    """A short name that two lists of prices share only if every rate and tier is the same.

    How a number is written (``3`` or ``3.00``), and the order of the tiers, make no difference.
    """
    tiers = sorted(prices.above, key=lambda tier: tier.tokens)
    plain = [_plain(prices), *({"tokens": tier.tokens, **_plain(tier)} for tier in tiers)]
    return sha256(msgspec.json.encode(plain, order="deterministic")).hexdigest()[:12]


def _plain(rates: Rates) -> dict[str, str]:
    return {
        name: str(total((rate,)))
        for name, rate in structs.asdict(rates).items()
        if isinstance(rate, Decimal)
    }


@lru_cache(1024)
def _dearest(prices: Prices) -> tuple[tuple[int, Decimal, Decimal], ...]:
    """For each tier: above how much input it begins, and its dearest USD per token in and out."""
    return tuple(
        (
            rates.tokens if isinstance(rates, Tier) else -1,
            _per_token(rates, _INPUT),
            _per_token(rates, _OUTPUT),
        )
        for rates in (prices, *prices.above)
    )


def _per_token(rates: Rates, buckets: tuple[str, ...]) -> Decimal:
    return max(rates.of(bucket)[0] for bucket in buckets).scaleb(-6, _UP)


@lru_cache(1024)
def _dearest_of(rates: Rates | None, buckets: tuple[str, ...]) -> str:
    return max(buckets, key=lambda bucket: rates.of(bucket)[0]) if rates else buckets[0]
