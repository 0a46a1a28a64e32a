"""Users of new-api become budgets of owners, and tokens are told with what makes each anew."""

from decimal import Decimal
from typing import Any

import pytest

from agentd.gateway.keys.limits import KeyLimits
from agentd.gateway.migration.new_api_accounts import find_account_rows, map_new_api_accounts
from agentd.gateway.migration.plan import ConfigSource, ImportPlan

USER: dict[str, Any] = {
    "id": 2,
    "username": "ann",
    "display_name": "Ann",
    "role": 1,
    "status": 1,
    "email": "ann@example.org",
    "quota": 1_250_000,
    "used_quota": 500_000,
    "request_count": 7,
    "group": "default",
}
TOKEN: dict[str, Any] = {
    "id": 3,
    "user_id": 2,
    "key": "canary-0123456789abcdef",
    "status": 1,
    "name": "laptop",
    "expired_time": -1,
    "remain_quota": 500_000,
    "unlimited_quota": False,
    "model_limits_enabled": True,
    "model_limits": "gpt-4o, gpt-4o-mini,$(rm)",
    "allow_ips": "10.0.0.7",
}


def map_rows(*rows: dict[str, Any]) -> ImportPlan:
    return map_new_api_accounts(ConfigSource("users.json", list(rows)))


def test_what_a_user_has_left_becomes_a_budget_of_an_owner() -> None:
    off = {**USER, "username": "bob", "status": 2, "group": "vip", "quota": -5}
    plan = map_rows(USER, off)
    ann, bob = plan.budgets
    assert (ann.name, ann.owner, ann.enabled) == ("ann", "ann", True)
    assert ann.limits == KeyLimits(total=Decimal("2.5"))
    assert (bob.enabled, bob.limits.total) == (False, 0)
    (group,) = plan.leftovers
    assert group.place == "users.json: [1].group"
    assert any("500,000 units" in note for note in plan.notes)


def test_users_that_cannot_be_are_told() -> None:
    plan = map_rows(USER, USER, {**USER, "username": ""}, {**USER, "quota": "much"})
    assert len(plan.budgets) == 1
    assert [one.place for one in plan.leftovers] == [
        "users.json: [1]",
        "users.json: [2].username",
        "users.json: [3].quota",
    ]


def test_a_token_is_told_with_the_command_that_makes_it_anew() -> None:
    unlimited = {**TOKEN, "unlimited_quota": True, "model_limits_enabled": False, "allow_ips": ""}
    plan = map_rows(TOKEN, {**unlimited, "expired_time": 1_800_000_000})
    assert plan.budgets == ()
    first, second = (one.why.partition("anew: ")[2] for one in plan.leftovers)
    command = "agentd proxy key add NAME"
    assert first == f"{command} --total 1 --model gpt-4o --model gpt-4o-mini --address ADDRESS"
    assert second == f"{command} --expires WHEN"
    assert "canary" not in str(plan)


@pytest.mark.parametrize("rows", [[USER], [TOKEN]])
def test_an_export_is_found_as_the_api_returns_it(rows: list[dict[str, Any]]) -> None:
    assert find_account_rows({"success": True, "data": {"items": rows}}) == rows
    assert find_account_rows([{"type": 1, "models": "m"}]) is None
