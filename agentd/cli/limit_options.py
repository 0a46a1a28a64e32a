"""Options for limits, which access keys and budgets have alike, and what they say."""

import argparse
from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from agentd.core.clock import SystemClock, format_iso, parse_iso
from agentd.core.errors import BadRequest
from agentd.gateway.keys.limits import (
    USD_LIMITS,
    KeyLimits,
    LimitRaise,
    SoftLimits,
    require_higher,
)

T = TypeVar("T")

BY_CLI = "cli"
"""Recorded as the author of what is made here."""

_COUNTS = {
    "requests_per_minute": "limit of requests per minute",
    "tokens_per_minute": "limit of tokens per minute",
    "parallel": "limit of requests at the same time",
}
_LIMITS = (*USD_LIMITS, *_COUNTS)
_UNITS = {"d": 86400, "h": 3600, "m": 60}


def add_limit_options(parser: argparse.ArgumentParser, *, removable: bool) -> None:
    """Add the options of hard limits."""
    none = "; none removes the limit" if removable else ""
    for name in USD_LIMITS:
        parser.add_argument(
            f"--{name}", metavar="USD", help=f"spending limit {_get_period(name)}{none}"
        )
    for name, description in _COUNTS.items():
        parser.add_argument(spell_option(name), metavar="NUMBER", help=f"{description}{none}")


def add_soft_limit_options(parser: argparse.ArgumentParser, *, removable: bool) -> None:
    """Add the options of amounts that warn."""
    none = "; none removes it" if removable else ""
    for name in USD_LIMITS:
        parser.add_argument(
            f"--soft-{name}",
            metavar="USD",
            help=f"amount {_get_period(name)} that warns and refuses nothing{none}",
        )
    parser.add_argument(
        "--warn-at",
        metavar="SHARE",
        help=f"share of each spending limit that warns, such as 0.8{none}",
    )


def add_model_limit_option(parser: argparse.ArgumentParser, *, removable: bool) -> None:
    """Add the option of limits on models."""
    none = "; none removes those of the model" if removable else ""
    parser.add_argument(
        "--model-limit",
        action="append",
        nargs=2,
        metavar=("MODEL", "LIMITS"),
        help="limits on a model or a pattern of names, such as 'gpt-*' day=5,parallel=2;"
        f" repeatable{none}",
    )


def add_until_option(parser: argparse.ArgumentParser) -> None:
    """Add the option of a raise's end."""
    parser.add_argument(
        "--until",
        required=True,
        metavar="WHEN",
        help="when the old limits hold again: 2027-01-31, 2d or 12h",
    )


def names_limits(args: argparse.Namespace) -> bool:
    """Return whether any hard limit is given."""
    return any(getattr(args, name) is not None for name in _LIMITS)


def parse_limits(args: argparse.Namespace, before: KeyLimits) -> KeyLimits:
    """Return the limits with those of the options. Raises ``BadRequest``."""
    given = {name: text for name in _LIMITS if (text := getattr(args, name)) is not None}
    return _replace_limits(before, given, spell_option)


def parse_model_limits(
    args: argparse.Namespace, before: Mapping[str, KeyLimits]
) -> dict[str, KeyLimits]:
    """Return the limits on models with those of the options. Raises ``BadRequest``."""
    found = dict(before)
    for pattern, text in getattr(args, "model_limit", None) or ():
        if text == "none":
            if found.pop(pattern, None) is None:
                raise BadRequest(f"--model-limit: there are no limits on {pattern[:100]!r}")
            continue
        given = dict(part.partition("=")[::2] for part in text.split(","))
        names = {name.replace("-", "_"): value for name, value in given.items()}
        if unknown := names.keys() - set(_LIMITS):
            known = ", ".join(_LIMITS).replace("_", "-")
            raise BadRequest(f"--model-limit: {unknown.pop()[:40]!r} is no limit; expected {known}")
        found[pattern] = _replace_limits(
            found.get(pattern, KeyLimits()), names, f"--model-limit {pattern} ".__add__
        )
    return found


def parse_warnings(args: argparse.Namespace, before: SoftLimits) -> dict[str, Any]:
    """Return the fields ``soft_limits`` and ``warn_at``, those that the options name."""
    found: dict[str, Any] = {}
    given = {
        name: text for name in USD_LIMITS if (text := getattr(args, f"soft_{name}")) is not None
    }
    if given:
        amounts = {
            name: None if text == "none" else _parse_number(f"--soft-{name}", text, Decimal)
            for name, text in given.items()
        }
        found["soft_limits"] = call_or_bad_request(lambda: structs.replace(before, **amounts))
    if args.warn_at is not None:
        found["warn_at"] = None if args.warn_at == "none" else _parse_share(args.warn_at)
    return found


def parse_raise(
    args: argparse.Namespace, limits: KeyLimits, models: Mapping[str, KeyLimits]
) -> LimitRaise:
    """Return the raise that the options say. Raises ``BadRequest``, as the API does."""
    now = SystemClock().now()
    higher, higher_on_models = parse_limits(args, KeyLimits()), parse_model_limits(args, {})
    raised = call_or_bad_request(
        lambda: LimitRaise(
            limits=higher,
            models=higher_on_models,
            until=parse_moment_or_period("--until", args.until),
            by=BY_CLI,
            at=now,
        )
    )
    require_higher(raised, limits, models, now, spell_option)
    return raised


def parse_moment_or_period(option: str, text: str) -> str:
    """Return the time that a period from now, a date or a time denotes."""
    if not text[:1].isdecimal():
        raise BadRequest(f"{option}: {text[:40]!r} is not a time; expected 2027-01-31, 90d or 12h")
    if text[:-1].isascii() and text[:-1].isdecimal() and text[-1:] in _UNITS:
        try:
            period = timedelta(seconds=int(text[:-1]) * _UNITS[text[-1]])
            return format_iso(parse_iso(SystemClock().now()) + period)
        except OverflowError:
            raise BadRequest(f"{option}: {text[:40]} is out of range") from None
    return text


def format_limits(limits: KeyLimits, models: Mapping[str, KeyLimits] | None = None) -> str:
    """Return limits in one line, as lists show them."""
    listed = [_format_amounts(limits)] if limits != KeyLimits() else []
    listed += [f"{model}: {_format_amounts(one)}" for model, one in (models or {}).items()]
    return "; ".join(listed) or "none"


def spell_option(name: str) -> str:
    """Return the option of a limit."""
    return f"--{name.replace('_', '-')}"


def call_or_bad_request(make: Callable[[], T]) -> T:
    """Call ``make``; raise its ``ValueError`` as ``BadRequest``."""
    try:
        return make()
    except ValueError as error:  # msgspec's own errors are of this kind
        raise BadRequest(str(error)) from error


def _replace_limits(
    before: KeyLimits, given: Mapping[str, str], spell: Callable[[str], str]
) -> KeyLimits:
    amounts = {
        name: None
        if text == "none"
        else _parse_number(spell(name), text, int if name in _COUNTS else Decimal)
        for name, text in given.items()
    }
    return call_or_bad_request(lambda: structs.replace(before, **amounts))


def _parse_number(
    option: str, text: str, kind: type[Decimal] | type[int] = Decimal
) -> Decimal | int:
    try:
        return kind(text)
    except (InvalidOperation, ValueError):
        raise BadRequest(f"{option}: {text[:40]!r} is not a number") from None


def _parse_share(text: str) -> float:
    share = float(_parse_number("--warn-at", text))
    if not 0 < share < 1:
        raise BadRequest(f"--warn-at: {text[:40]} is not a share; expected one such as 0.8")
    return share


def _format_amounts(limits: KeyLimits) -> str:
    listed = msgspec.to_builtins(limits)
    return ", ".join(f"{name.replace('_', ' ')} {limit}" for name, limit in listed.items())


def _get_period(name: str) -> str:
    return "in total" if name == "total" else f"per {name}"
