"""Parameters are set, given a default or removed; what decides costs and content never is."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.errors import BadRequest
from agentd.llm.conversation import Conversation
from agentd.llm.parameters import (
    ParameterChanges,
    apply_parameters,
    leave_out_changed,
    validate_parameters,
)

BODY = {"model": "m", "temperature": 1, "user": None, "reasoning": {"effort": "high", "x": [1.50]}}


def change(body: Any, *changes: ParameterChanges) -> Any:
    return json.loads(apply_parameters(json.dumps(body).encode(), changes))


def list_problems(**fields: Any) -> list[str]:
    found = validate_parameters(ParameterChanges(**fields))
    return [f"{'.'.join(map(str, place))} {what}" for place, what in found]


def test_a_set_value_replaces_the_callers_and_a_default_does_not():
    changes = ParameterChanges(
        set={"temperature": 0.2, "seed": 7}, default={"top_p": 0.9, "reasoning": {}, "user": "all"}
    )
    assert change(BODY, changes) == BODY | {
        "temperature": 0.2,
        "seed": 7,
        "top_p": 0.9,
        "user": "all",
    }


def test_a_path_changes_one_parameter_of_an_object_and_makes_the_object():
    changes = ParameterChanges(
        set={"reasoning.effort": "low", "text.format.type": "text"},
        default={"reasoning.effort": "none", "reasoning.summary": "auto"},
        remove=("reasoning.x", "stop", "metadata.user"),
    )
    result = change(BODY, changes)
    assert result["reasoning"] == {"effort": "low", "summary": "auto"}
    assert result["text"] == {"format": {"type": "text"}}
    assert "stop" not in result
    assert "metadata" not in result


def test_later_changes_win():
    first = ParameterChanges(set={"temperature": 0.2}, default={"top_p": 0.1})
    second = ParameterChanges(set={"temperature": 0.4}, default={"top_p": 0.9}, remove=("user",))
    result = change(BODY, first, second)
    assert (result["temperature"], result["top_p"], "user" in result) == (0.4, 0.1, False)


def test_the_spelling_of_the_request_is_kept():
    body = {"generation_config": {"topP": 1, "top_k": 2}}
    changes = ParameterChanges(set={"generationConfig.top_p": 0.5, "generationConfig.topK": 3})
    assert change(body, changes) == {"generation_config": {"topP": 0.5, "top_k": 3}}


def test_what_is_no_object_is_refused_and_not_replaced():
    for changes in (
        ParameterChanges(set={"temperature.x": 1}),
        ParameterChanges(default={"temperature.x": 1}),
    ):
        with pytest.raises(BadRequest, match="temperature"):
            change(BODY, changes)
    assert change(BODY, ParameterChanges(remove=("temperature.x",))) == BODY


VALUES = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: (
        st.dictionaries(st.text(max_size=50), inner) | st.lists(inner, min_size=1, max_size=4)
    ),
    max_leaves=5,
)


@given(
    st.dictionaries(st.sampled_from("abcdef"), VALUES | st.none()),
    st.dictionaries(st.sampled_from("abcdef"), VALUES),
    st.dictionaries(st.sampled_from("abcdef"), VALUES),
    st.sets(st.sampled_from("abcdef")),
)
def test_all_else_stays_as_it_was(body, fixed, usual, gone):
    expected = {name: value for name, value in body.items() if name not in gone}
    expected |= {name: value for name, value in usual.items() if expected.get(name) is None}
    expected |= fixed
    changes = ParameterChanges(set=fixed, default=usual, remove=tuple(gone))
    assert change(body, changes) == expected


@pytest.mark.parametrize(
    "name",
    [
        *("model", "messages", "input", "system", "tools", "stream", "max_tokens", "n"),
        *("service_tier", "maxTokens", "systemInstruction", "generationConfig", "system.0"),
        *("generationConfig.maxOutputTokens", "generation_config.max_output_tokens"),
        *("", "a b", ".a", "a.", "a-b", "stream_options.include_usage", "tools.x"),
    ],
)
def test_what_agentd_counts_masks_or_sets_cannot_be_changed(name):
    assert list_problems(set={name: 1})
    assert list_problems(default={name: 1})
    assert list_problems(remove=(name,))


@pytest.mark.parametrize("name", ["temperature", "reasoning.effort", "generationConfig.topP"])
def test_other_parameters_can_be_changed(name):
    assert not list_problems(set={name: 1})
    assert not list_problems(default={name: {"a": [1, "b", False]}})
    assert not list_problems(remove=(name,))


@pytest.mark.parametrize("value", [None, [], {"a": None}, {"a": {"b": []}}, {"a": [{"b": None}]}])
def test_null_and_empty_lists_are_refused_since_no_file_keeps_them(value):
    for field in ("set", "default"):
        with pytest.raises(ValueError, match=f"^{field}.stop: null"):
            ParameterChanges(**{field: {"stop": value}})


@pytest.mark.parametrize("value", [2**63, float("inf"), float("nan"), {"a" * 201: 1}, [-(2**64)]])
def test_what_a_file_cannot_hold_is_refused(value):
    with pytest.raises(ValueError, match=r"^set\.stop: "):
        ParameterChanges(set={"stop": value})


def test_a_value_has_a_largest_size():
    assert list_problems(set={"stop": "x" * 10_001})


def test_a_parameter_is_named_once():
    assert list_problems(set={"a": 1}, default={"a": 1}) == [
        "default.a is named twice; a parameter is set, has a default or is removed"
    ]
    assert list_problems(set={"a": 1}, remove=("a",))
    assert list_problems(remove=tuple(f"p{number}" for number in range(101)))


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        (ParameterChanges(remove=("top_k", "generationConfig.seed")), ("top_k", "seed")),
        (ParameterChanges(set={"temperature": 1}), ("temperature",)),
        (ParameterChanges(remove=("stop", "text.verbosity")), ("stop_sequences", "verbosity")),
        (ParameterChanges(default={"temperature": 1}), ()),
        (ParameterChanges(remove=("options.temperature", "reasoning.top_p", "user")), ()),
    ],
    ids=str,
)
def test_what_is_removed_or_set_is_left_out_before_a_request_is_translated(changes, fields):
    given = {"temperature": 0.7, "top_p": 0.5, "top_k": 64, "seed": 1, "verbosity": "low"}
    asked = Conversation(messages=(), system="Be brief.", stop_sequences=("x",), **given)
    left = leave_out_changed(asked, [ParameterChanges(), changes])
    usual = Conversation(messages=(), system="Be brief.")
    for name in (*given, "stop_sequences", "system"):
        assert getattr(left, name) == getattr(usual if name in fields else asked, name)
