"""What exists in a gateway stays as it is when something is imported."""

from typing import Any

import pytest

from agentd.core.errors import BadRequest
from agentd.gateway.limits.budgets import Budget
from agentd.gateway.migration.litellm import map_litellm
from agentd.gateway.migration.plan import ConfigSource, ImportPlan
from agentd.gateway.migration.reconcile import reconcile

OPENAI = "https://api.openai.com/v1"


def plan_models(*names: str, **more: Any) -> ImportPlan:
    entries = [
        {"model_name": name, "litellm_params": {"model": "openai/x", "api_key": "k", **more}}
        for name in names
    ]
    return map_litellm(ConfigSource("c", {"model_list": entries}), {})


def test_into_an_empty_gateway_all_goes_as_it_is() -> None:
    plan = plan_models("a", "b")
    assert reconcile(plan, {}, ()) == plan


def test_a_model_that_exists_stays_and_a_channel_of_the_same_address_is_used() -> None:
    plan = reconcile(plan_models("a", "b"), {"openai": OPENAI + "/"}, {"a"})
    assert plan.channels == ()
    assert [(one.name, one.routes[0].channel) for one in plan.models] == [("b", "openai")]
    assert [one.place for one in plan.leftovers] == ['channel "openai"', 'model "a"']


def test_a_channel_of_another_address_gets_a_name_and_the_same_the_next_time() -> None:
    others = {"openai": "https://other.example"}
    plan = reconcile(plan_models("a"), others, ())
    assert [one.name for one in plan.channels] == ["openai-2"]
    assert plan.models[0].routes[0].channel == "openai-2"
    again = reconcile(plan_models("a", "b"), others | {"openai-2": OPENAI}, {"a"})
    assert again.channels == ()
    assert [(one.name, one.routes[0].channel) for one in again.models] == [("b", "openai-2")]


def test_two_channels_of_an_import_stay_two_beside_one_that_has_the_name_of_the_second() -> None:
    entries = [
        {"model_name": "a", "litellm_params": {"model": "openai/x", "api_key": key}}
        for key in ("first", "second")
    ]
    source = ConfigSource("c", {"model_list": entries})
    existing = {"openai": "https://other.example", "openai-2": OPENAI}
    plan = reconcile(map_litellm(source, {}), existing, ())
    assert [(one.name, one.key) for one in plan.channels] == [("openai-3", "first")]
    assert [one.channel for one in plan.models[0].routes] == ["openai-3", "openai-2"]
    again = reconcile(map_litellm(source, {}), existing | {"openai-3": OPENAI}, ())
    assert again.channels == ()
    assert [one.channel for one in again.models[0].routes] == ["openai-3", "openai-2"]
    told = {one.place: one.why for one in again.leftovers}
    assert 'as "openai-3" and is used as it is' in told['channel "openai"']


def test_more_than_one_import_can_hold_is_refused() -> None:
    with pytest.raises(BadRequest, match="more than"):
        reconcile(plan_models(*(f"m{number}" for number in range(1001))), {}, ())


def test_a_budget_of_an_existing_name_owner_or_tag_stays_as_it_is() -> None:
    budgets = (Budget(name="a", tag="a"), Budget(name="b", owner="b"), Budget(name="c", tag="c"))
    existing = [("a", "x", ""), ("other", "b", ""), ("third", "c", "")]
    plan = reconcile(ImportPlan(budgets=budgets), {}, (), existing)
    assert plan.budgets == budgets[2:]
    assert [one.place for one in plan.leftovers] == ['budget "a"', 'budget "b"']
