"""The users and the tokens of a new-api instance: rows of ``GET /api/user/`` or ``/api/token/``.

A user's quota becomes a budget of an owner. Tokens are not moved: how to make each again is listed.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import msgspec

from agentd.gateway.keys.limits import GLOB_PATTERN
from agentd.gateway.limits.budgets import Budget
from agentd.gateway.migration.new_api import find_rows_with
from agentd.gateway.migration.plan import ConfigSource, Fields, ImportPlan, Report

QUOTA_PER_USD = 500_000
"""The units of a quota that are worth 1 USD, unless an administrator of new-api changed that."""

_ENABLED = 1
_USER_FIELDS, _TOKEN_FIELDS = ("username", "quota"), ("remain_quota", "unlimited_quota")


def find_account_rows(content: object) -> list[Any] | None:
    """Return the users or tokens of an export; None if it has neither."""
    return find_rows_with(content, _USER_FIELDS) or find_rows_with(content, _TOKEN_FIELDS)


def map_new_api_accounts(source: ConfigSource) -> ImportPlan:
    """Map an export of users or of tokens, whose rows are ``source.content``."""
    report = Report(source)
    budgets: dict[str, Budget] = {}
    for number, row in enumerate(find_account_rows(source.content) or ()):
        fields = report.fields((number,), row)
        if "remain_quota" in fields:
            report.leave(fields.path, _explain_token(fields))
        elif (budget := _map_user(fields)) and budget.name in budgets:
            report.leave(fields.path, "there is a user of this name above")
        elif budget:
            budgets[budget.name] = budget
    if budgets:
        report.note(f"{QUOTA_PER_USD:,} units of quota are taken for 1 USD, as new-api does.")
        report.note("A budget counts keys of its owner: agentd proxy key change KEY --owner NAME.")
    return ImportPlan(
        budgets=tuple(budgets.values()),
        leftovers=tuple(report.leftovers),
        notes=tuple(report.notes),
    )


def _map_user(row: Fields) -> Budget | None:
    """Return what a user has left, as a budget that is never reset."""
    name, quota = row.take_text("username"), row.take("quota")
    if row.take("group") not in (None, "", "default"):
        row.leave("group", "owners have no groups; tags of keys can have budgets")
    if not isinstance(quota, int):
        row.leave("quota", "expected a whole number")
        return None
    fields = {
        "name": name,
        "owner": name,
        "limits": {"total": str(_to_usd(quota))},
        "enabled": row.take("status") in (None, _ENABLED),
    }
    try:
        return msgspec.convert(fields, Budget)
    except ValueError as error:  # msgspec's own errors are of this kind
        row.leave("username", f"the budget would not be valid: {error}")
        return None


def _explain_token(row: Fields) -> str:
    """Return the command that makes a key with the limits of a token."""
    quota = row.take("remain_quota")
    words = ["agentd proxy key add NAME"]
    if not row.take("unlimited_quota") and isinstance(quota, int):
        words.append(f"--total {_to_usd(quota)}")
    models = row.take_text("model_limits") if row.take("model_limits_enabled") else ""
    words += (f"--model {model}" for model in _iter_models(models))
    if row.take_text("allow_ips"):
        words.append("--address ADDRESS")
    if isinstance(ends := row.take("expired_time"), int) and ends > 0:
        words.append("--expires WHEN")
    return f"keys of callers are not moved; make it anew: {' '.join(words)}"


def _iter_models(text: str) -> Iterator[str]:
    return (one for part in text.split(",") if GLOB_PATTERN.fullmatch(one := part.strip()))


def _to_usd(quota: int) -> Decimal:
    usd = (Decimal(max(quota, 0)) / QUOTA_PER_USD).normalize()
    return Decimal(f"{usd:f}")
