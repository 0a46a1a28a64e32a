"""Limits on what access keys spend: hard ones, soft ones that only warn, and temporary raises."""

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct, structs

from agentd.core.clock import Timestamp, format_iso, parse_iso
from agentd.core.errors import BadRequest

MAX_USD = 10**9
"""The highest limit."""

MIN_EXPONENT = -12
"""The smallest power of ten in which an amount is shown."""

GLOB_PATTERN = re.compile("^[A-Za-z0-9._:/@+*?-]{1,200}$")

Glob: TypeAlias = Annotated[
    str,
    Meta(
        pattern=GLOB_PATTERN.pattern,
        extra={"form": "a name, or a pattern such as gpt-*"},
    ),
]
"""A name of a model or channel, or a pattern of names: ``*`` is any letters, ``?`` is one."""

Count: TypeAlias = Annotated[int, Meta(ge=0, le=10**12)]

WarnShare: TypeAlias = Annotated[float, Meta(gt=0, lt=1)]

USD_LIMITS = ("total", "day", "week", "month")
"""The limits in USD, all that a soft limit can be of."""


def _require_amounts(limits: Struct) -> None:
    for name, limit in structs.asdict(limits).items():
        if isinstance(limit, Decimal) and not _is_amount(limit):
            raise ValueError(f"{name}: {limit} is not a limit; expected 0 to {MAX_USD} USD")


def _is_amount(limit: Decimal) -> bool:
    place = limit.as_tuple().exponent
    return isinstance(place, int) and place >= MIN_EXPONENT and 0 <= limit <= MAX_USD


class KeyLimits(Struct, frozen=True, omit_defaults=True):
    """The limits of a key; ``None`` is unlimited, 0 forbids everything.

    Money in USD per window of the configured time zone; ``week`` begins on Monday.
    Raises ``ValueError`` for what is no amount.
    """

    total: Decimal | None = None
    """USD in total; never reset."""
    day: Decimal | None = None
    """USD a day."""
    week: Decimal | None = None
    """USD a week, from Monday on."""
    month: Decimal | None = None
    """USD a month."""
    requests_per_minute: Count | None = None
    """Requests per minute of the clock."""
    tokens_per_minute: Count | None = None
    """Input and output tokens per minute of the clock."""
    parallel: Count | None = None
    """Requests at the same time."""

    def __post_init__(self) -> None:
        _require_amounts(self)

    @property
    def has_usd_limit(self) -> bool:
        """True if any of them is of money."""
        return (self.total, self.day, self.week, self.month) != (None, None, None, None)

    @property
    def has_calendar_limit(self) -> bool:
        """True if any is of a day, week or month, which begin in the configured time zone."""
        return (self.day, self.week, self.month) != (None, None, None)

    @property
    def bounds_spending(self) -> bool:
        """True if there is a limit of money, or of tokens, which a single reply can pass."""
        return self.has_usd_limit or self.tokens_per_minute is not None


class SoftLimits(Struct, frozen=True, omit_defaults=True):
    """Amounts in USD that warn when they are spent, and refuse nothing; ``None``: no warning.

    Raises ``ValueError`` for what is no amount.
    """

    total: Decimal | None = None
    """USD in total; never reset."""
    day: Decimal | None = None
    """USD a day."""
    week: Decimal | None = None
    """USD a week, from Monday on."""
    month: Decimal | None = None
    """USD a month."""

    def __post_init__(self) -> None:
        _require_amounts(self)


class LimitRaise(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits that are higher until a moment; then the old ones hold again by themselves.

    What has no limit, or a higher one, stays as it is. Raises ``ValueError`` for what is no moment.
    """

    limits: KeyLimits = KeyLimits()
    """The higher limits; null: not raised."""
    models: dict[Glob, KeyLimits] = {}
    """Higher limits of models within a key, by the names in ``model_limits``."""
    until: Timestamp
    """When it ends."""
    by: Annotated[str, Meta(max_length=200)] = ""
    """Who raised them, such as ``user:ann``, ``management`` or ``cli``; empty: not known."""
    at: Timestamp | None = None
    """When they were raised; null: not known."""

    def __post_init__(self) -> None:
        for field in ("until", "at"):
            text = getattr(self, field)
            if text is not None:
                structs.force_setattr(self, field, parse_moment(field, text))


NO_LIMITS = KeyLimits()
NO_SOFT_LIMITS = SoftLimits()


def raise_limits(limits: KeyLimits, raised: KeyLimits) -> KeyLimits:
    """Return the limits with those that are set replaced by raised ones, where these are higher."""
    higher = {}
    for name in KeyLimits.__struct_fields__:
        before, after = getattr(limits, name), getattr(raised, name)
        if before is not None and after is not None and after > before:
            higher[name] = after
    return structs.replace(limits, **higher) if higher else limits


def require_higher(
    raised: LimitRaise,
    limits: KeyLimits,
    models: Mapping[str, KeyLimits],
    now: Timestamp,
    spell: Callable[[str], str] = str,
) -> None:
    """Return if a raise ends in the future, and raises limits that are set, nothing else.

    Raises ``BadRequest``; ``spell`` is how it writes the name of a limit.
    """
    if raised.until <= now:
        raise BadRequest("until must be in the future")
    for pattern in raised.models.keys() - models.keys():
        raise BadRequest(f'There are no limits on "{pattern[:100]}" that could be raised')
    higher = _count_higher("", limits, raised.limits, spell)
    for pattern, more in raised.models.items():
        higher += _count_higher(f" on {pattern}", models[pattern], more, spell)
    if not higher:
        raise BadRequest("Name at least one limit that is to be higher")


def _count_higher(
    where: str, limits: KeyLimits, raised: KeyLimits, spell: Callable[[str], str]
) -> int:
    """Return how many limits are raised. ``BadRequest`` for one that is not higher."""
    higher = 0
    for name in KeyLimits.__struct_fields__:
        before, after = getattr(limits, name), getattr(raised, name)
        if after is None:
            continue
        if before is None:
            raise BadRequest(f"There is no limit {spell(name)}{where} that could be raised")
        if after <= before:
            raise BadRequest(f"{spell(name)}{where}: {after} is not more than {before}")
        higher += 1
    return higher


def compute_soft_limits(limits: KeyLimits, soft: SoftLimits, warn_at: float | None) -> SoftLimits:
    """Return the amounts that warn: those that are given, else a share of the hard limits."""
    if warn_at is None or not limits.has_usd_limit:
        return soft
    share = Decimal(str(warn_at))
    amounts = {}
    for name in USD_LIMITS:
        hard, given = getattr(limits, name), getattr(soft, name)
        amounts[name] = given if given is not None or hard is None else _round(hard * share)
    return SoftLimits(**amounts)


def parse_moment(field: str, text: str) -> str:
    """Return a moment in the one form of ``clock``. Raises ``ValueError`` that names the field."""
    try:
        return format_iso(parse_iso(text))
    except ValueError as error:
        raise ValueError(f"{field}: {text[:40]!r} is not a time; expected ISO 8601") from error


def _round(amount: Decimal) -> Decimal:
    rounded = amount.quantize(Decimal(1).scaleb(MIN_EXPONENT)).normalize()
    return Decimal(f"{rounded:f}")
