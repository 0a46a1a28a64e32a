"""The price of a reply: tokens as counted by the supplier, in buckets, times the model's rates.

Suppliers count differently (OpenAI's prompt tokens include the cached ones, Anthropic's do not), so
usage is normalized here, at the edge. Only buckets are priced and stored. Money is exact:
``Decimal`` from the price file to the ledger, so that a day's total is the sum of its rows.
"""

from collections.abc import Iterable, Mapping
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from itertools import chain
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct, structs

from agentd.core.errors import find_repeated

MAX_TOKENS = 10**12
"""The maximum plausible number of tokens; a higher count is ignored."""

MAX_USD_PER_MILLION = 10**6
"""The highest price of a million tokens."""

MAX_DECIMALS = 50
"""The most decimals of a price: exact sums have the digits of all that is added up."""

_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""Sums and products of finite decimals never need to be rounded."""


class Usage(Struct, frozen=True, omit_defaults=True):
    """Tokens of one or more replies. Each token is in exactly one bucket."""

    input: int = 0
    """Input tokens not read from the cache."""
    cache_read: int = 0
    """Input tokens read from the supplier's cache."""
    cache_write: int = 0
    """Input tokens written to the supplier's cache for some minutes."""
    cache_write_1h: int = 0
    """Input tokens written to the cache for an hour, where that has its own price."""
    output: int = 0
    """Output tokens: text and tool calls."""
    reasoning: int = 0
    """Reasoning tokens, where the supplier counts them separately."""

    @property
    def total_input(self) -> int:
        """The number of input tokens, which decides the price tier."""
        return self.input + self.cache_read + self.cache_write + self.cache_write_1h

    @property
    def total_output(self) -> int:
        """The number of output tokens."""
        return self.output + self.reasoning

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            *(a + b for a, b in zip(structs.astuple(self), structs.astuple(other), strict=True))
        )


NO_USAGE = Usage()
"""No token at all."""

_BUCKETS = Usage.__struct_fields__


class Rates(Struct, frozen=True, kw_only=True):
    """USD per million tokens of each bucket.

    A rate of ``None`` was not given. Reasoning then costs the output rate, which is how suppliers
    bill it; a missing cache rate falls back to the input rate, so that nothing is ever free by
    omission. Raises ``ValueError`` for an invalid price.
    """

    input: Decimal
    """Uncached input tokens."""
    output: Decimal
    """Output tokens."""
    cache_read: Decimal | None = None
    """Input tokens read from the supplier's cache."""
    cache_write: Decimal | None = None
    """Input tokens written to the supplier's cache for some minutes."""
    cache_write_1h: Decimal | None = None
    """Input tokens written to the supplier's cache for an hour."""
    reasoning: Decimal | None = None
    """Reasoning tokens."""

    def __post_init__(self) -> None:
        for name, rate in structs.asdict(self).items():
            if not isinstance(rate, Decimal):
                continue
            if not (rate.is_finite() and 0 <= rate <= MAX_USD_PER_MILLION):
                raise ValueError(
                    f"{name}: {rate} is not a price; expected 0 to {MAX_USD_PER_MILLION} USD"
                )
            if count_decimals(rate) > MAX_DECIMALS:
                raise ValueError(f"{name}: {rate} has more than {MAX_DECIMALS} decimals")

    def get_rate(self, bucket: str) -> tuple[Decimal, bool]:
        """Return the rate of a ``Usage`` field, and whether another rate had to stand in for it."""
        known: Decimal | None = getattr(self, bucket)
        if known is not None:
            return known, False
        match bucket:
            case "reasoning":
                return self.output, False
            case "cache_write_1h":
                return self.get_rate("cache_write")[0], True
        return self.input, True


class Tier(Rates, frozen=True, kw_only=True):
    """Rates of a request with more than ``tokens`` input tokens."""

    tokens: int
    """The rates apply to requests with more input tokens than this."""

    def __post_init__(self) -> None:
        Rates.__post_init__(self)
        if self.tokens <= 0:
            raise ValueError(f"tokens: {self.tokens} is not a size; expected more than 0")


class ServiceRates(Rates, frozen=True, kw_only=True):
    """Rates of a request that asks for a service tier other than the usual one."""

    tier: Annotated[str, Meta(min_length=1, max_length=100)]
    """The tier as requests name it, such as ``flex``; other fields that change the price, together
    with their names, such as ``speed:fast``."""


class Prices(Rates, frozen=True, kw_only=True):
    """Prices of a model, with tiers by input size and rates by service tier."""

    above: tuple[Tier, ...] = ()
    """Other rates of a whole request, above a size of its input."""
    services: tuple[ServiceRates, ...] = ()
    """The rates of other tiers of service; one that is not here has no known price."""

    def __post_init__(self) -> None:
        Rates.__post_init__(self)
        size = find_repeated(tier.tokens for tier in self.above)
        if size is not None:
            raise ValueError(f"above: two tiers begin above {size} tokens; remove one")
        name = find_repeated(service.tier for service in self.services)
        if name is not None:
            raise ValueError(f"services: two have the tier {name}; remove one")

    def for_service(self, tier: str) -> "Prices | None":
        """Return the prices of a service tier (empty: the usual one), or None if there are none."""
        if not tier:
            return self
        for service in self.services:
            if service.tier == tier:
                rates = {name: getattr(service, name) for name in Rates.__struct_fields__}
                return Prices(**rates)
        return None

    def get_rates(self, total_input: int) -> Rates:
        """Return the rates of a whole request with this many input tokens."""
        if not self.above:  # nearly always, and once for each request
            return self
        reached = [tier for tier in self.above if total_input > tier.tokens]
        return max(reached, key=lambda tier: tier.tokens, default=self)


def compute_cost(usage: Usage, prices: Prices) -> Decimal:
    """Return the exact cost of one request in USD.

    Price each request's usage separately: the tier depends on the request, not on a sum of
    requests.
    """
    rates, summed = prices.get_rates(usage.total_input), Decimal(0)
    for bucket in _BUCKETS:
        if tokens := getattr(usage, bucket):
            summed = _EXACT.add(summed, _EXACT.multiply(rates.get_rate(bucket)[0], tokens))
    return _normalize(summed.scaleb(-6, _EXACT))


def compute_cost_by_bucket(usage: Usage, prices: Prices) -> dict[str, Decimal]:
    """Return the cost of one request in USD by bucket, for the non-empty buckets."""
    rates = prices.get_rates(usage.total_input)
    return {
        bucket: _normalize(
            _EXACT.multiply(rates.get_rate(bucket)[0], Decimal(tokens).scaleb(-6, _EXACT))
        )
        for bucket, tokens in structs.asdict(usage).items()
        if tokens
    }


def find_assumed_buckets(usage: Usage, prices: Prices) -> tuple[str, ...]:
    """Return the buckets whose price is unknown and was taken from another bucket."""
    rates = prices.get_rates(usage.total_input)
    return tuple(
        bucket for bucket in _BUCKETS if getattr(usage, bucket) and rates.get_rate(bucket)[1]
    )


def sum_amounts(amounts: Iterable[Decimal]) -> Decimal:
    """Return the exact sum of amounts of money; plain ``Decimal`` sums round at 28 digits."""
    summed = Decimal(0)
    for amount in amounts:
        summed = _EXACT.add(summed, amount)
    return _normalize(summed)


def add_amounts(one: Decimal, other: Decimal) -> Decimal:
    """Return the exact sum of two amounts, unnormalized: cheaper than ``sum_amounts`` per row."""
    return _EXACT.add(one, other)


def count_decimals(amount: Decimal) -> int:
    """Return the number of decimals that an amount is written with."""
    exponent = amount.as_tuple().exponent
    return max(-exponent, 0) if isinstance(exponent, int) else 0


def to_units(amount: Decimal, decimals: int) -> int:
    """Return an amount in units of ``decimals`` decimals; it must not have more decimals."""
    return int(amount.scaleb(decimals, _EXACT))


def from_units(units: int, decimals: int) -> Decimal:
    """Return the amount, written with this many decimals."""
    return Decimal(units).scaleb(-decimals, _EXACT)


def _normalize(amount: Decimal) -> Decimal:
    """Return the amount in its one canonical form: no exponent, no trailing zeros."""
    tidy = amount.normalize(_EXACT)
    return Decimal(int(tidy)) if tidy == tidy.to_integral_value() else tidy


def parse_chat_usage(usage: object) -> Usage:
    """Parse the ``usage`` of a chat completion, or of its last chunk.

    ``cached_tokens`` and ``cache_write_tokens`` are included in ``prompt_tokens``; Kimi has the
    first beside it, and DeepSeek names it otherwise. Here and below, a missing, negative or
    non-numeric count is 0, and nothing is raised.
    """
    return _parse_openai_usage(usage, _CHAT)


def parse_responses_usage(usage: object) -> Usage:
    """Parse the ``usage`` of a complete Responses API response, counted as in a chat completion."""
    return _parse_openai_usage(usage, _RESPONSES)


def parse_anthropic_usage(*reports: object) -> Usage:
    """Parse the ``usage`` of a message, or those of ``message_start`` and ``message_delta``.

    Pass them in order of arrival: each is cumulative, so the latest value of a count holds.
    ``input_tokens`` excludes the cached tokens. Thinking is included in ``output_tokens``; how much
    of it, not all suppliers say.
    """
    known: dict[str, object] = {}
    for name, value in chain.from_iterable(_ensure_mapping(report).items() for report in reports):
        if value is not None:
            known[name] = value
    by_age = _ensure_mapping(known.get("cache_creation"))
    hour, minutes = (_read_count(by_age, f"ephemeral_{age}_input_tokens") for age in ("1h", "5m"))
    written = max(_read_count(known, "cache_creation_input_tokens"), hour + minutes)
    output = _read_count(known, "output_tokens")
    thought = _read_count(_ensure_mapping(known.get("output_tokens_details")), "thinking_tokens")
    thought = min(thought, output)
    return Usage(
        input=_read_count(known, "input_tokens"),
        cache_read=_read_count(known, "cache_read_input_tokens"),
        cache_write=written - hour,
        cache_write_1h=hour,
        output=output - thought,
        reasoning=thought,
    )


def parse_gemini_usage(usage: object) -> Usage:
    """Parse the ``usageMetadata`` of a response, or of any chunk of one: each is cumulative.

    Cached tokens are included in ``promptTokenCount``; the input from Google's own tools is counted
    separately. Thinking is not part of ``candidatesTokenCount``, unless the total shows that it is.
    """
    counts = _ensure_mapping(usage)
    prompt, read = (
        _read_count(counts, "promptTokenCount"),
        _read_count(counts, "cachedContentTokenCount"),
    )
    given = _read_count(counts, "toolUsePromptTokenCount")
    total, thought = (
        _read_count(counts, "candidatesTokenCount"),
        _read_count(counts, "thoughtsTokenCount"),
    )
    inside = thought <= total and _read_count(counts, "totalTokenCount") == prompt + given + total
    return Usage(
        input=max(prompt - read, 0) + given,
        cache_read=read,
        output=total - thought if inside else total,
        reasoning=thought,
    )


class _UsageFields(NamedTuple):
    """The names of the counts in one of OpenAI's dialects."""

    into: str
    out_of: str
    of_input: str
    of_output: str


_CHAT = _UsageFields(
    "prompt_tokens", "completion_tokens", "prompt_tokens_details", "completion_tokens_details"
)
_RESPONSES = _UsageFields(
    "input_tokens", "output_tokens", "input_tokens_details", "output_tokens_details"
)


_READ_BESIDE = ("cached_tokens", "prompt_cache_hit_tokens")
"""Where some suppliers have the input tokens from the cache, instead of among the details."""


def _parse_openai_usage(usage: object, words: _UsageFields) -> Usage:
    counts = _ensure_mapping(usage)
    prompt, completion = _read_count(counts, words.into), _read_count(counts, words.out_of)
    details = _ensure_mapping(counts.get(words.of_input))
    written = _read_count(details, "cache_write_tokens")
    read = _read_count(details, "cached_tokens") or max(
        _read_count(counts, name) for name in _READ_BESIDE
    )
    reasoning = _read_count(_ensure_mapping(counts.get(words.of_output)), "reasoning_tokens")
    # xAI counts reasoning beside the completion, all others inside it; its total shows which.
    beside = _read_count(counts, "total_tokens") == prompt + completion + reasoning
    return Usage(
        input=max(prompt - read - written, 0),
        cache_read=read,
        cache_write=written,
        output=completion if beside or reasoning > completion else completion - reasoning,
        reasoning=reasoning,
    )


def _ensure_mapping(value: object) -> Mapping[Any, object]:
    return value if isinstance(value, dict) else {}


def _read_count(counts: Mapping[Any, object], name: str) -> int:
    value = counts.get(name)
    if type(value) is float and value.is_integer():  # 12.0, as some languages write JSON
        value = int(value)
    if type(value) is not int:  # True is another type
        return 0
    return value if 0 < value <= MAX_TOKENS else 0
