"""What a reply costs: the tokens that a supplier counted, in buckets, times its prices.

Suppliers count differently (OpenAI's prompt holds the cached tokens, Anthropic's does not), so
their words are taken apart here, at the edge. Only buckets are priced and kept. Money is exact:
``Decimal`` from the file to the ledger, so that a day's sum is the sum of its rows.
"""

from collections.abc import Iterable, Mapping
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from itertools import chain
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct, structs

from agentd.errors import find_repeated

MOST_TOKENS = 10**12
"""What claims more tokens than this is no count."""

MOST_USD = 10**6
"""The highest price of a million tokens."""

_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""Sums and products of finite decimals never need to be rounded."""


class Usage(Struct, frozen=True, omit_defaults=True):
    """Tokens of one or more replies. Each token is in exactly one bucket."""

    input: int = 0
    """Read anew by the model."""
    cache_read: int = 0
    """Known to the supplier from an earlier request."""
    cache_write: int = 0
    """Read, and remembered by the supplier for some minutes."""
    cache_write_1h: int = 0
    """Read, and remembered for an hour, where that has a price of its own."""
    output: int = 0
    """Written for the reader: text and tool calls."""
    reasoning: int = 0
    """Thought, where the supplier counts that apart."""

    @property
    def total_input(self) -> int:
        """Every token that went in; it decides the price tier."""
        return self.input + self.cache_read + self.cache_write + self.cache_write_1h

    @property
    def total_output(self) -> int:
        """Every token that came out."""
        return self.output + self.reasoning

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            *(a + b for a, b in zip(structs.astuple(self), structs.astuple(other), strict=True))
        )


NOTHING = Usage()
"""No token at all."""

_BUCKETS = Usage.__struct_fields__


class Rates(Struct, frozen=True, kw_only=True):
    """USD per million tokens of each bucket.

    A rate that is ``None`` was not given. Reasoning then costs what output does, which is how
    suppliers bill it; for a cache rate the input rate stands in, so that nothing is ever free
    by omission. Raises ``ValueError`` for what is no price.
    """

    input: Decimal
    """Tokens that are read anew."""
    output: Decimal
    """Tokens that are written."""
    cache_read: Decimal | None = None
    """Tokens that the supplier knows from an earlier request."""
    cache_write: Decimal | None = None
    """Tokens that the supplier remembers for some minutes."""
    cache_write_1h: Decimal | None = None
    """Tokens that it remembers for an hour."""
    reasoning: Decimal | None = None
    """Tokens that are thought."""

    def __post_init__(self) -> None:
        for name, rate in structs.asdict(self).items():
            if isinstance(rate, Decimal) and not (rate.is_finite() and 0 <= rate <= MOST_USD):
                raise ValueError(f"{name}: {rate} is no price; expected 0 to {MOST_USD} USD")

    def of(self, bucket: str) -> tuple[Decimal, bool]:
        """The rate of a ``Usage`` field, and whether another had to stand in for it."""
        known: Decimal | None = getattr(self, bucket)
        if known is not None:
            return known, False
        match bucket:
            case "reasoning":
                return self.output, False
            case "cache_write_1h":
                return self.of("cache_write")[0], True
        return self.input, True


class Tier(Rates, frozen=True, kw_only=True):
    """Rates of a request with more than ``tokens`` tokens of input."""

    tokens: int
    """Above how many tokens of input these rates hold."""

    def __post_init__(self) -> None:
        Rates.__post_init__(self)
        if self.tokens <= 0:
            raise ValueError(f"tokens: {self.tokens} is no size; expected more than 0")


class ServiceRates(Rates, frozen=True, kw_only=True):
    """Rates of a request that asks for another kind of service than the usual one."""

    tier: Annotated[str, Meta(min_length=1, max_length=100)]
    """As requests name it, such as ``priority`` or ``flex``; other fields that change the price
    with their names, such as ``speed:fast``."""


class Prices(Rates, frozen=True, kw_only=True):
    """What a model costs; ``above`` a size of the input, all of a request costs another rate."""

    above: tuple[Tier, ...] = ()
    """Other rates of a whole request, above a size of its input."""
    services: tuple[ServiceRates, ...] = ()
    """The rates of other tiers of service; one that is not here has no known price."""

    def __post_init__(self) -> None:
        Rates.__post_init__(self)
        size = find_repeated(tier.tokens for tier in self.above)
        if size is not None:
            raise ValueError(f"above: two tiers begin above {size} tokens; one must go")
        name = find_repeated(service.tier for service in self.services)
        if name is not None:
            raise ValueError(f"services: two have the tier {name}; one must go")

    def served(self, tier: str) -> "Prices | None":
        """The prices of a tier of service (empty: the usual one); None where it has none."""
        if not tier:
            return self
        for service in self.services:
            if service.tier == tier:
                rates = {name: getattr(service, name) for name in Rates.__struct_fields__}
                return Prices(**rates)
        return None

    def rates(self, total_input: int) -> Rates:
        """The rates of a whole request with so many tokens of input."""
        if not self.above:  # nearly always, and once for each request
            return self
        reached = [tier for tier in self.above if total_input > tier.tokens]
        return max(reached, key=lambda tier: tier.tokens, default=self)


def cost(usage: Usage, prices: Prices) -> Decimal:
    """What one request cost, in USD, exactly.

    Price the usage of each request by itself: the tier is that of a request, not of their sum.
    """
    rates, summed = prices.rates(usage.total_input), Decimal(0)
    for bucket in _BUCKETS:
        if tokens := getattr(usage, bucket):
            summed = _EXACT.add(summed, _EXACT.multiply(rates.of(bucket)[0], tokens))
    return _plain(summed.scaleb(-6, _EXACT))


def costs(usage: Usage, prices: Prices) -> dict[str, Decimal]:
    """The cost of one request by bucket, in USD, for the buckets that hold any token."""
    rates = prices.rates(usage.total_input)
    return {
        bucket: _plain(_EXACT.multiply(rates.of(bucket)[0], Decimal(tokens).scaleb(-6, _EXACT)))
        for bucket, tokens in structs.asdict(usage).items()
        if tokens
    }


def assumed(usage: Usage, prices: Prices) -> tuple[str, ...]:
    """The buckets of which the price is not known, and was taken from another."""
    rates = prices.rates(usage.total_input)
    return tuple(bucket for bucket in _BUCKETS if getattr(usage, bucket) and rates.of(bucket)[1])


def total(amounts: Iterable[Decimal]) -> Decimal:
    """The exact sum of amounts of money; the ordinary one would round at 28 digits."""
    summed = Decimal(0)
    for amount in amounts:
        summed = _EXACT.add(summed, amount)
    return _plain(summed)


def plus(one: Decimal, other: Decimal) -> Decimal:
    """The exact sum of two amounts, as ``total`` of them: what adds up row by row is cheaper so."""
    return _EXACT.add(one, other)


def decimals(amount: Decimal) -> int:
    """How many an amount is written with."""
    exponent = amount.as_tuple().exponent
    return max(-exponent, 0) if isinstance(exponent, int) else 0


def in_units(amount: Decimal, decimals: int) -> int:
    """How many units of so many decimals an amount is that has no more of them."""
    return int(amount.scaleb(decimals, _EXACT))


def from_units(units: int, decimals: int) -> Decimal:
    """The amount, written with so many decimals."""
    return Decimal(units).scaleb(-decimals, _EXACT)


def _plain(amount: Decimal) -> Decimal:
    """The same amount as it is written in one way only: no exponent, no idle zeros."""
    tidy = amount.normalize(_EXACT)
    return Decimal(int(tidy)) if tidy == tidy.to_integral_value() else tidy


def from_openai_chat(usage: object) -> Usage:
    """The ``usage`` of a chat completion, or of its last chunk.

    ``cached_tokens`` and ``cache_write_tokens`` are inside ``prompt_tokens``. Here and below:
    what is missing, negative or no number counts as 0; nothing is ever raised.
    """
    return _from_openai(usage, _CHAT)


def from_openai_responses(usage: object) -> Usage:
    """The ``usage`` of a whole response of the Responses API, counted as in a chat completion."""
    return _from_openai(usage, _RESPONSES)


def from_anthropic(*reports: object) -> Usage:
    """The ``usage`` of a message; of a stream those of ``message_start`` and ``message_delta``.

    Pass them in the order of their arrival: each is cumulative, so the latest word on a count
    holds. ``input_tokens`` is without the cached ones. Thinking is inside ``output_tokens``.
    """
    known: dict[str, object] = {}
    for name, value in chain.from_iterable(_map(report).items() for report in reports):
        if value is not None:
            known[name] = value
    by_age = _map(known.get("cache_creation"))
    hour, minutes = (_count(by_age, f"ephemeral_{age}_input_tokens") for age in ("1h", "5m"))
    written = max(_count(known, "cache_creation_input_tokens"), hour + minutes)
    return Usage(
        input=_count(known, "input_tokens"),
        cache_read=_count(known, "cache_read_input_tokens"),
        cache_write=written - hour,
        cache_write_1h=hour,
        output=_count(known, "output_tokens"),
    )


def from_gemini(usage: object) -> Usage:
    """The ``usageMetadata`` of an answer, or of any piece of one: each counts all up to then.

    The cached tokens are inside ``promptTokenCount``; what Google's own tools gave the model to
    read is beside it. Thinking is beside ``candidatesTokenCount``, unless the total tells that it
    is inside.
    """
    counts = _map(usage)
    prompt, read = _count(counts, "promptTokenCount"), _count(counts, "cachedContentTokenCount")
    given = _count(counts, "toolUsePromptTokenCount")
    told, thought = _count(counts, "candidatesTokenCount"), _count(counts, "thoughtsTokenCount")
    inside = thought <= told and _count(counts, "totalTokenCount") == prompt + given + told
    return Usage(
        input=max(prompt - read, 0) + given,
        cache_read=read,
        output=told - thought if inside else told,
        reasoning=thought,
    )


class _Words(NamedTuple):
    """How one of OpenAI's dialects calls what it counts."""

    into: str
    out_of: str
    of_input: str
    of_output: str


_CHAT = _Words(
    "prompt_tokens", "completion_tokens", "prompt_tokens_details", "completion_tokens_details"
)
_RESPONSES = _Words(
    "input_tokens", "output_tokens", "input_tokens_details", "output_tokens_details"
)


def _from_openai(usage: object, words: _Words) -> Usage:
    counts = _map(usage)
    prompt, completion = _count(counts, words.into), _count(counts, words.out_of)
    details = _map(counts.get(words.of_input))
    read, written = _count(details, "cached_tokens"), _count(details, "cache_write_tokens")
    reasoning = _count(_map(counts.get(words.of_output)), "reasoning_tokens")
    # xAI counts reasoning beside the completion, all others inside it; its total tells.
    beside = _count(counts, "total_tokens") == prompt + completion + reasoning
    return Usage(
        input=max(prompt - read - written, 0),
        cache_read=read,
        cache_write=written,
        output=completion if beside or reasoning > completion else completion - reasoning,
        reasoning=reasoning,
    )


def _map(value: object) -> Mapping[Any, object]:
    return value if isinstance(value, dict) else {}


def _count(counts: Mapping[Any, object], name: str) -> int:
    value = counts.get(name)
    if type(value) is float and value.is_integer():  # 12.0, as some languages write JSON
        value = int(value)
    if type(value) is not int:  # True is another type
        return 0
    return value if 0 < value <= MOST_TOKENS else 0
