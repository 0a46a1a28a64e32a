"""An export of new-api's channels becomes channels and models."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.gateway.migration.new_api import find_rows, map_new_api
from agentd.gateway.migration.plan import ConfigSource, ImportPlan
from tests.gateway.migration.test_litellm import require_valid

ROW = {
    "id": 1,
    "type": 1,
    "key": "sk-canary-openai",
    "openai_organization": "",
    "test_model": "gpt-4o-mini",
    "status": 1,
    "name": "OpenAI main",
    "weight": 0,
    "created_time": 1700000000,
    "test_time": 1700000001,
    "response_time": 700,
    "base_url": "",
    "other": "",
    "balance": 0,
    "balance_updated_time": 0,
    "models": "gpt-4o,gpt-4o-mini",
    "group": "default",
    "used_quota": 12345,
    "model_mapping": "",
    "status_code_mapping": "",
    "priority": 0,
    "auto_ban": 1,
    "other_info": "",
    "tag": "",
    "setting": "",
    "param_override": None,
    "header_override": "",
    "remark": "",
    "channel_info": {
        "is_multi_key": False,
        "multi_key_size": 0,
        "multi_key_status_list": None,
        "multi_key_polling_index": 0,
        "multi_key_mode": "",
    },
    "settings": "{}",
}
"""A channel as the API and the table have it."""


def map_rows(*changes: dict[str, Any]) -> ImportPlan:
    plan = map_new_api(ConfigSource("channels.json", [ROW | change for change in changes]))
    require_valid(plan)
    return plan


def test_a_usual_channel_is_taken_whole() -> None:
    plan = map_rows({})
    assert plan.leftovers == ()
    (channel,) = plan.channels
    assert (channel.name, channel.url) == ("OpenAI-main", "https://api.openai.com/v1")
    assert channel.dialects == ("openai-responses", "openai-chat")
    assert channel.key == "sk-canary-openai"
    assert [one.name for one in plan.models] == ["gpt-4o", "gpt-4o-mini"]


def test_the_highest_priority_is_first_and_weights_and_names_are_kept() -> None:
    plan = map_rows(
        {"name": "low", "priority": -5, "base_url": "https://low.example"},
        {"name": "high", "priority": 10, "weight": 7, "type": 14, "key": "b"},
        {"name": "even", "priority": 10, "weight": 3, "type": 43, "key": "c"},
        {"name": "map", "key": "d", "model_mapping": '{"gpt-4o": "gpt-4o-2024-11-20"}'},
    )
    routes = [(one.channel, one.model, one.priority, one.weight) for one in plan.models[0].routes]
    assert routes == [
        ("low", "", 2, 1),
        ("high", "", 0, 7),
        ("even", "", 0, 3),
        ("map", "gpt-4o-2024-11-20", 1, 1),
    ]
    assert [one.dialects[0] for one in plan.channels] == [
        *("openai-chat", "anthropic", "openai-chat", "openai-responses")
    ]


@pytest.mark.parametrize("info", [None, "", {}, {"is_multi_key": False}, '{"is_multi_key": true}'])
def test_each_line_of_a_key_is_a_key_however_the_row_was_stored(info: Any) -> None:
    plan = map_rows({"key": "\nsk-one\r\n sk-two \nsk-one\n", "channel_info": info})
    (channel,) = plan.channels
    assert (channel.key, channel.keys) == ("sk-one", ("sk-two",))


def test_several_keys_overrides_and_the_proxy_are_taken() -> None:
    plan = map_rows(
        {
            "key": "sk-one\nsk-two\nsk-three\n",
            "channel_info": {"is_multi_key": True, "multi_key_status_list": {"1": 2}},
            "header_override": '{"X-Team": "red", "Authorization": "Bearer {api_key}"}',
            "param_override": '{"temperature": 0.2, "max_tokens": 5}',
            "setting": '{"proxy": "socks5://10.0.0.1:1080", "force_format": true}',
        }
    )
    (channel,) = plan.channels
    assert (channel.key, channel.keys) == ("sk-one", ("sk-three",))
    assert channel.headers == {"X-Team": "red"}
    assert channel.parameters and channel.parameters.set == {"temperature": 0.2}
    assert (channel.transport.kind, channel.transport.url) == ("socks5", "socks5://10.0.0.1:1080")
    told = [(one.place.rpartition(": ")[2], one.why) for one in plan.leftovers]
    assert [place for place, _ in told] == [
        *("[0].channel_info", "[0].header_override", "[0].param_override", "[0].setting")
    ]
    assert [
        word
        for word, (_, what) in zip(
            ("disabled", "Authorization", "max_tokens", "force_format"), told, strict=True
        )
        if word in what
    ] == ["disabled", "Authorization", "max_tokens", "force_format"]
    assert "canary" not in repr(plan.leftovers)


@pytest.mark.parametrize(
    ("kind", "given", "url"),
    [
        (1, "https://api.openai.com/", "https://api.openai.com/v1"),
        (3, "https://x.openai.azure.com", "https://x.openai.azure.com/openai/v1"),
        (4, "", "http://localhost:11434"),
        (8, "https://own.example/v1/chat/completions", "https://own.example/v1"),
        (17, "https://ali.example", "https://ali.example/compatible-mode/v1"),
        (20, "", "https://openrouter.ai/api/v1"),
        (24, "", "https://generativelanguage.googleapis.com"),
        (26, "", "https://open.bigmodel.cn/api/paas/v4"),
    ],
)
def test_addresses_are_those_that_new_api_calls(kind: int, given: str, url: str) -> None:
    assert map_rows({"type": kind, "base_url": given}).channels[0].url == url


def test_what_has_no_counterpart_is_told() -> None:
    plan = map_rows(
        {"type": 33, "name": "aws"},
        {"key": "", "name": "without key"},
        {"status": 2, "key": "k", "name": "off", "group": "vip", "tag": "t", "models": "a b,good"},
        {"key": '{"type": "service_account"}', "name": "vertex"},
    )
    assert [(one.name, one.enabled) for one in plan.channels] == [
        ("without-key", False),
        ("off", False),
        ("vertex", False),
    ]
    places = [one.place for one in plan.leftovers]
    assert places == [
        f"channels.json: {place}"
        for place in (
            *("[0].type", "[1].key", "[2].group", "[2].tag", "[2].models"),
            *("[3].key", "[3].key"),
        )
    ]


def test_the_answer_of_the_api_and_rows_of_the_table_are_found() -> None:
    rows = [ROW]
    for content in (rows, {"data": rows}, {"success": True, "data": {"items": rows, "total": 1}}):
        assert find_rows(json.loads(json.dumps(content))) == rows
    others: tuple[Any, ...] = (None, 5, [], {"data": None}, [1], {"model_list": []})
    for other in others:
        assert not find_rows(other)


anything = st.sampled_from(
    [
        *(None, True, 0, -1, 10**30, 0.5, float("nan"), "", "a", "{", "[1]", '{"a": null}'),
        *([], [None], {}, {"a": "b"}, {"a": {"b": []}}, {"proxy": "x", "operations": 1}),
    ]
) | st.text(max_size=5)
rows = st.fixed_dictionaries(
    {
        "type": st.sampled_from([1, 3, 8, 14, 17, 24, 99]) | anything,
        "models": st.text("ab, ", max_size=8) | anything,
    },
    optional={name: anything for name in ROW if name not in ("type", "models")},
)


@settings(max_examples=60)
@given(st.lists(rows, max_size=4))
def test_whatever_the_export_says_the_plan_is_valid(content: list[dict[str, Any]]) -> None:
    require_valid(map_new_api(ConfigSource("c", content)))
