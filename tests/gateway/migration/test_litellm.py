"""A LiteLLM configuration becomes channels and models, and nothing of it is dropped in silence."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.core.errors import BadRequest
from agentd.gateway.channels.validation import validate as validate_channels
from agentd.gateway.keys.limits import KeyLimits
from agentd.gateway.migration.litellm import map_litellm
from agentd.gateway.migration.plan import ConfigSource, ImportPlan
from agentd.models.model import Models
from agentd.models.model import validate as validate_models
from agentd.storage.yaml.untrusted import parse_untrusted_yaml_with_lines

CONFIG = Path(__file__).with_name("litellm.yaml")
ENVIRON = {
    f"{name}_API_KEY": f"sk-canary-{name.lower()}"
    for name in ("OPENAI", "AZURE", "ANTHROPIC", "GROQ", "TOGETHERAI")
} | {"TEAM_OPENAI_KEY": "sk-canary-team-openai"}


def map_text(text: str, **environ: str) -> ImportPlan:
    content, lines = parse_untrusted_yaml_with_lines(text)
    return map_litellm(ConfigSource("config.yaml", content, lines), environ)


def map_deployment(parameters: dict[str, Any], **more: Any) -> ImportPlan:
    entry = {"model_name": "m", "litellm_params": parameters, **more}
    return map_litellm(ConfigSource("config.yaml", {"model_list": [entry]}), {})


def require_valid(plan: ImportPlan) -> None:
    """Fail unless the daemon would take the plan."""
    assert list(validate_channels(plan.channels)) == []
    assert list(validate_models(Models(proxy=plan.models))) == []
    for one in (*plan.channels, *plan.models):
        assert msgspec.json.decode(msgspec.json.encode(one), type=type(one)) == one
    channels = {one.name for one in plan.channels}
    assert {route.channel for one in plan.models for route in one.routes} <= channels


@pytest.fixture(scope="module")
def plan() -> ImportPlan:
    return map_text(CONFIG.read_text(), **ENVIRON)


def test_a_usual_configuration_is_taken_and_valid(plan: ImportPlan) -> None:
    require_valid(plan)
    by_name = {one.name: one for one in plan.channels}
    assert list(by_name) == [
        *("openai", "azure", "openai-2", "anthropic", "gemini", "groq", "together_ai"),
        *("ollama_chat", "deepseek", "openai-3"),
    ]
    assert by_name["openai"].dialects == ("openai-responses", "openai-chat")
    assert by_name["openai"].key == "sk-canary-openai"
    assert by_name["azure"].url == "https://team-eu.openai.azure.com/openai/v1"
    team = by_name["openai-2"]
    assert (team.key, team.timeout) == ("sk-canary-team-openai", 120)
    assert team.headers == {"OpenAI-Organization": "org-team"}
    assert by_name["ollama_chat"].local
    assert not by_name["openai"].local
    own = by_name["openai-3"]
    assert (own.url, own.dialects) == ("https://llm.example.org/v1", ("openai-chat",))
    assert own.headers == {"X-Team": "red"}
    assert [one.name for one in plan.models] == [
        *("gpt-4o", "gpt-4o-mini", "team-model", "sonnet", "claude-haiku-4-5", "flash", "llama"),
        *("deepseek-chat", "team-gateway", "text-embedding-3-small", "gpt-4", "hidden"),
    ]


def test_prices_sizes_weights_and_fallbacks_are_those_of_the_file(plan: ImportPlan) -> None:
    models = {one.name: one for one in plan.models}
    large = models["gpt-4o"]
    assert large.prices
    assert (large.prices.input, large.prices.cache_read) == (Decimal("2.5"), Decimal("1.25"))
    assert large.prices.output == 10
    assert (large.context, large.max_output) == (128000, 16384)
    assert [(one.channel, one.model, one.weight) for one in large.routes] == [
        ("openai", "gpt-4o", 600),
        ("azure", "gpt-4o-eu", 200),
    ]
    mini = models["gpt-4o-mini"].prices
    assert mini and (mini.input, mini.output) == (Decimal("0.15"), Decimal("0.6"))
    sonnet = models["sonnet"].prices
    assert sonnet and [(one.tokens, one.input) for one in sonnet.above] == [(200_000, Decimal(6))]
    assert [(one.channel, one.priority, one.weight) for one in models["llama"].routes] == [
        ("groq", 0, 3),
        ("together_ai", 0, 1),
        ("ollama_chat", 1, 1),
    ]
    assert large.fallbacks == ("sonnet", "flash")
    assert models["sonnet"].fallbacks == ()
    assert (large.context_fallbacks, large.content_fallbacks) == (("sonnet",), ("sonnet",))
    assert models["gpt-4"].routes == large.routes


def test_each_field_that_is_left_is_told_with_its_line(plan: ImportPlan) -> None:
    lines = CONFIG.read_text().splitlines()
    told = {one.place: one.why for one in plan.leftovers}
    for name in (
        *("tags", "mode: image_generation", "bedrock/anthropic", 'model_name: "openai/*"'),
        *("drop_params", "num_retries", "success_callback", "- sonnet: [gpt-4o]"),
        *("no-such-model", "routing_strategy", "redis_password", "master_key", "database_url"),
        "os.environ/DEEPSEEK_API_KEY",
    ):
        number = next(number for number, line in enumerate(lines, 1) if name in line)
        assert any(place.startswith(f"config.yaml:{number}: ") for place in told), name
    assert next(one for one in plan.channels if one.name == "deepseek").enabled is False


def test_no_secret_is_in_what_is_told(plan: ImportPlan) -> None:
    assert "canary" not in repr((plan.leftovers, plan.notes))


def test_a_key_of_the_environment_is_not_sent_to_another_address() -> None:
    content = {
        "model_list": [
            {
                "model_name": "m",
                "litellm_params": {"model": "openai/x", "api_base": "https://other.example"},
            }
        ]
    }
    plan = map_litellm(ConfigSource("c", content), {"OPENAI_API_KEY": "sk-canary"})
    assert plan.channels[0].key == ""


def test_a_channel_with_an_address_that_no_request_can_be_sent_to_is_left_out() -> None:
    params = {"model": "openai/x", "api_base": "https://[::1"}
    content = {"model_list": [{"model_name": "m", "litellm_params": params}]}
    plan = map_litellm(ConfigSource("c", content), {})
    assert not plan.channels
    assert "its address is not one such as" in repr(plan.leftovers)


@pytest.mark.parametrize(
    "parameters",
    [
        {"model": "openai/x", "api_key": 5},
        {"model": ["openai/x"]},
        {"model": "openai/x", "api_key": "with blank"},
        {"model": "openai/x", "api_key": "env:HOME"},
        {"model": "openai/x", "api_base": "ftp://x"},
        {"model": "openai/x", "api_key": "k", "extra_headers": {"Host": "x"}},
        {"model": "openai/" + "x" * 300, "api_key": "k"},
        {},
    ],
)
def test_what_cannot_be_a_channel_is_told_and_not_made(parameters: dict[str, Any]) -> None:
    plan = map_deployment(parameters)
    assert plan.leftovers
    assert not [one for one in plan.channels if one.enabled]
    require_valid(plan)


@pytest.mark.parametrize("cost", [3, "1e-60"])
def test_a_cost_that_no_token_can_have_is_told(cost: object) -> None:
    costs = {"input_cost_per_token": 3e-6, "output_cost_per_token": 1e-5}
    plan = map_deployment({"model": "groq/x", **costs, "cache_read_input_token_cost": cost})
    (model,) = plan.models
    assert model.prices
    assert (model.prices.output, model.prices.cache_read) == (10, None)
    told = {one.place.rpartition(".")[2]: one.why for one in plan.leftovers}
    assert told["cache_read_input_token_cost"] == "is not a price of a token in USD"


@pytest.mark.parametrize(
    ("model", "given", "expected"),
    [
        (
            "groq/x",
            {"temperature": 0.2, "stop": "END", "seed": 7, "reasoning_effort": "low"},
            {"temperature": 0.2, "stop": "END", "seed": 7, "reasoning_effort": "low"},
        ),
        ("openai/x", {"temperature": 0, "top_p": 0.9}, {"temperature": 0, "top_p": 0.9}),
        (
            "anthropic/x",
            {"temperature": 1, "stop": "END"},
            {"temperature": 1, "stop_sequences": ["END"]},
        ),
        (
            "gemini/x",
            {"top_p": 0.5, "stop": ["A", "B"]},
            {"generationConfig.topP": 0.5, "generationConfig.stopSequences": ["A", "B"]},
        ),
        ("groq/x", {"extra_body": {"safe_prompt": True}}, {"safe_prompt": True}),
    ],
)
def test_parameters_are_defaults_under_the_names_of_the_suppliers_dialect(
    model: str, given: dict[str, Any], expected: dict[str, Any]
) -> None:
    plan = map_deployment({"model": model, "api_key": "k", **given})
    require_valid(plan)
    (channel,) = plan.channels
    assert channel.parameters
    assert channel.parameters.default == expected
    assert not plan.leftovers


@pytest.mark.parametrize(
    ("model", "name", "value", "why"),
    [
        ("groq/x", "max_tokens", 100, "max_output"),
        ("openai/x", "seed", 7, "openai-responses, openai-chat"),
        ("anthropic/x", "frequency_penalty", 1, "anthropic"),
        ("groq/x", "extra_body.messages", "x", "content"),
        ("anthropic/x", "extra_body.thinking", {}, "one dialect"),
        ("groq/x", "timeout", 4000, "an hour"),
        ("groq/x", "tags", ["a"], "priority"),
        ("groq/x", "anything_else", 1, "parameters"),
    ],
)
def test_a_parameter_that_does_not_map_is_left_with_its_reason(
    model: str, name: str, value: Any, why: str
) -> None:
    outer, _, inner = name.partition(".")
    plan = map_deployment(
        {"model": model, "api_key": "k", outer: {inner: value} if inner else value}
    )
    require_valid(plan)
    (leftover,) = plan.leftovers
    assert f"litellm_params.{outer}" in leftover.place
    assert why in leftover.why
    assert plan.channels[0].parameters is None


def test_deployments_with_other_parameters_have_channels_of_their_own() -> None:
    entries = [
        {"model_name": name, "litellm_params": {"model": "groq/x", "api_key": "k", **more}}
        for name, more in (("a", {}), ("b", {"temperature": 0.1}), ("c", {"temperature": 0.1}))
    ]
    plan = map_litellm(ConfigSource("c", {"model_list": entries}), {})
    require_valid(plan)
    assert [one.name for one in plan.channels] == ["groq", "groq-2"]
    assert [one.routes[0].channel for one in plan.models] == ["groq", "groq-2", "groq-2"]


names = st.sampled_from(["m", "n", "a*", "gpt-4o", "x y", ""])
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from(["openai/x", "anthropic/y", "os.environ/A", "sk-canary", "https://a.example"])
)  # fmt: skip
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3)
)
parameters = st.dictionaries(
    st.sampled_from(
        [
            *("model", "api_key", "api_base", "rpm", "weight", "order", "timeout", "headers"),
            *("input_cost_per_token", "output_cost_per_token", "organization", "temperature"),
            *("top_p", "stop", "reasoning_effort", "max_tokens", "extra_body"),
            *("litellm_credential_name", "input_cost_per_token_above_200k_tokens", "x"),
        ]
    ),
    anything,
)
deployments = st.fixed_dictionaries(
    {"model_name": names, "litellm_params": parameters | anything},
    optional={"model_info": parameters | anything, "other": anything},
)
fallbacks = st.lists(st.dictionaries(names, st.lists(names, max_size=12) | anything) | anything)
configurations = st.fixed_dictionaries(
    {"model_list": st.lists(deployments, max_size=6) | anything},
    optional={
        "router_settings": st.fixed_dictionaries(
            {"fallbacks": fallbacks, "model_group_alias": anything, "default_fallbacks": anything}
        )
        | anything,
        "litellm_settings": anything,
        "environment_variables": anything,
        "credential_list": anything,
    },
)


@settings(max_examples=60)
@given(configurations)
def test_whatever_the_file_says_the_plan_is_valid(content: dict[str, Any]) -> None:
    require_valid(map_litellm(ConfigSource("c", content), {"A": "value"}))


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdef"))))
def test_fallbacks_that_lead_in_a_circle_are_cut(pairs: list[tuple[str, str]]) -> None:
    content = {
        "model_list": [
            {"model_name": name, "litellm_params": {"model": "openai/x", "api_key": "k"}}
            for name in "abcdef"
        ],
        "router_settings": {"fallbacks": [{one: [other]} for one, other in pairs]},
    }
    plan = map_litellm(ConfigSource("c", content), {})
    require_valid(plan)
    kept = sum(len(one.fallbacks) for one in plan.models)
    assert kept + sum("leads back" in one.why for one in plan.leftovers) >= len(set(pairs))


def test_hostile_yaml_is_refused() -> None:
    bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)
    )
    for text in (bomb, "[" * 100_000, "model_list: !!python/object:os.system x", "a: *b"):
        with pytest.raises(BadRequest):
            map_text(text)


def test_lines_are_those_of_the_merged_and_aliased_parts() -> None:
    _, lines = parse_untrusted_yaml_with_lines("a: &a\n  x: 1\nb:\n  <<: *a\n  y: [1,\n   2]\n")
    assert lines["a", "x"] == lines["b", "x"] == 2
    assert (lines["b", "y"], lines["b", "y", 1]) == (5, 6)


def test_the_example_is_read_by_other_readers_alike() -> None:
    content, _ = parse_untrusted_yaml_with_lines(CONFIG.read_text())
    assert content == yaml.safe_load(CONFIG.read_text())


TAGS = """
model_list: []
litellm_settings:
  max_budget: 100
  default_internal_user_params: {max_budget: 5, budget_duration: 1d}
  tag_budget_config:
    product:chat-bot: {max_budget: 0.000000000001, budget_duration: 1d}
    weekly: {budget_limit: 20, time_period: 7d, tpm_limit: 5}
    monthly: {max_budget: 300.5, budget_duration: 30d}
    often: {max_budget: 3, budget_duration: 10d}
    amountless: {budget_duration: 1d}
router_settings:
  provider_budget_config: {openai: {budget_limit: 1, time_period: 1d}}
"""


def test_budgets_of_tags_are_taken_and_others_are_told_with_what_to_do() -> None:
    plan = map_text(TAGS)
    assert [(one.name, one.tag, one.limits) for one in plan.budgets] == [
        ("product:chat-bot", "product:chat-bot", KeyLimits(day=Decimal("0.000000000001"))),
        ("weekly", "weekly", KeyLimits(week=Decimal(20))),
        ("monthly", "monthly", KeyLimits(month=Decimal("300.5"))),
    ]
    told = {one.place.partition(": ")[2]: one.why for one in plan.leftovers}
    tags = "litellm_settings.tag_budget_config"
    assert "one of 1d" in told[f"{tags}.often"]
    assert "needs an amount" in told[f"{tags}.amountless"]
    assert f"{tags}.weekly.tpm_limit" in told
    assert "all keys one tag" in told["litellm_settings.max_budget"]
    assert "agentd proxy budget" in told["litellm_settings.default_internal_user_params"]
    assert "channels have no budgets" in told["router_settings.provider_budget_config"]
    assert any("--tag TAG" in note for note in plan.notes)
    assert any("Monday" in note for note in plan.notes)


def test_a_budget_that_cannot_be_is_told() -> None:
    plan = map_text(TAGS.replace("monthly:", f"{'x' * 300}:"))
    assert len(plan.budgets) == 2
    assert any("would not be valid" in one.why for one in plan.leftovers)


def test_a_header_for_which_a_channel_cannot_be_made_is_named() -> None:
    plan = map_text(
        """
        model_list:
          - model_name: gpt
            litellm_params:
              model: openai/gpt-4o
              api_key: sk-of-the-supplier
              extra_headers: {"AI-Resource Group": "some group"}
        """
    )
    (left,) = plan.leftovers
    assert left.why.endswith(
        " would not be valid: headers.AI-Resource Group is not a valid header name"
    )
    assert plan.channels == ()


def test_an_empty_key_is_none_and_its_channel_is_used_without_one() -> None:
    parameters = {"model": "openai/x", "api_base": "http://localhost:8000/v1", "api_key": ""}
    plan = map_deployment(parameters)
    (channel,) = plan.channels
    assert (channel.key, channel.enabled) == ("", True)
    assert plan.leftovers == ()
    (channel,) = map_deployment({"model": "openai/x", "api_key": ""}).channels
    assert not channel.enabled, "this supplier wants a key"
