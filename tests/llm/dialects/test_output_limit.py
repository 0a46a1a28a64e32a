"""The limit of a reply's tokens in a request that is passed on in its own dialect."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.errors import BadRequest
from agentd.llm.dialects.output_limit import apply_output_limit
from agentd.llm.endpoint import ChannelDialect

SAID = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
LIMITED: dict[ChannelDialect, list[tuple[dict[str, Any], dict[str, Any]]]] = {
    "openai-chat": [
        ({}, {"max_completion_tokens": 1000}),
        ({"max_tokens": None}, {"max_tokens": None, "max_completion_tokens": 1000}),
        ({"max_tokens": 64000}, {"max_tokens": 1000}),
        ({"max_completion_tokens": 64000}, {"max_completion_tokens": 1000}),
        (
            {"max_tokens": 5, "max_completion_tokens": 64000},
            {"max_tokens": 5, "max_completion_tokens": 1000},
        ),
        ({"prediction": {"content": "x"}}, {"prediction": {"content": "x"}, "max_tokens": 1000}),
    ],
    "openai-responses": [
        ({}, {"max_output_tokens": 1000}),
        ({"max_output_tokens": 64000}, {"max_output_tokens": 1000}),
    ],
    "anthropic": [
        ({}, {"max_tokens": 1000}),
        ({"max_tokens": 64000}, {"max_tokens": 1000}),
        (
            {"max_tokens": 64000, "thinking": {"type": "adaptive"}},
            {"max_tokens": 1000, "thinking": {"type": "adaptive"}},
        ),
    ],
    "gemini": [
        ({}, {"generationConfig": {"maxOutputTokens": 1000}}),
        (
            {"generationConfig": {"candidateCount": 2, "maxOutputTokens": 64000}},
            {"generationConfig": {"candidateCount": 2, "maxOutputTokens": 1000}},
        ),
        (
            {"generation_config": {"max_output_tokens": 64000}},
            {"generation_config": {"max_output_tokens": 1000}},
        ),
        (
            {"generation_config": {"temperature": 1}},
            {"generation_config": {"temperature": 1, "maxOutputTokens": 1000}},
        ),
    ],
}
CASES = [(dialect, *case) for dialect, cases in LIMITED.items() for case in cases]


def limit_output(dialect: ChannelDialect, asked: dict[str, Any], limit: int = 1000) -> Any:
    body = json.dumps({**SAID, **asked}).encode()
    result = json.loads(apply_output_limit(body, dialect, limit))
    return {name: value for name, value in result.items() if name not in SAID}


@pytest.mark.parametrize(("dialect", "asked", "result"), CASES)
def test_what_is_missing_is_added_and_what_is_too_much_is_lowered(
    dialect: ChannelDialect, asked: dict[str, Any], result: dict[str, Any]
) -> None:
    assert limit_output(dialect, asked) == result


@pytest.mark.parametrize(("dialect", "asked", "result"), CASES)
def test_a_request_within_the_limit_is_passed_on_byte_by_byte(
    dialect: ChannelDialect, asked: dict[str, Any], result: dict[str, Any]
) -> None:
    body = json.dumps({**SAID, **result}, indent=3).encode()
    assert apply_output_limit(body, dialect, 1000) == body


def test_a_budget_for_thinking_stays_below_the_limit() -> None:
    thinking = {"type": "enabled", "budget_tokens": 31999}
    result = limit_output("anthropic", {"max_tokens": 32000, "thinking": thinking}, 16000)
    assert result["thinking"] == {"type": "enabled", "budget_tokens": 15999}
    small = {"max_tokens": 32000, "thinking": {"type": "enabled", "budget_tokens": 2000}}
    assert limit_output("anthropic", small, 16000)["thinking"] == small["thinking"]
    with pytest.raises(BadRequest, match="thinking included"):
        limit_output("anthropic", {"max_tokens": 32000, "thinking": thinking}, 1024)


@pytest.mark.parametrize(
    "config",
    [
        '{"maxOutputTokens":5,"maxOutputTokens":64000}',
        '{"maxOutputTokens":64000,"maxOutput\\u0054okens":5}',
        '{"maxOutputTokens":"64000"}',
    ],
)
def test_a_limit_that_two_readers_read_differently_is_refused(config: str) -> None:
    body = f'{{"contents":[],"generationConfig":{config}}}'.encode()
    with pytest.raises(BadRequest, match="maxOutputTokens"):
        apply_output_limit(body, "gemini", 1000)


@given(st.sampled_from(CASES), st.integers(1, 10**6), st.integers(1, 10**6))
def test_no_limit_in_a_request_is_above_what_was_reserved(
    case: tuple[ChannelDialect, dict[str, Any], dict[str, Any]], asked: int, limit: int
) -> None:
    dialect, fields, _ = case
    result = limit_output(dialect, _replace_limit(fields, asked), limit)
    found = list(_iter_limits(result))
    assert found and all(1 <= one <= limit for one in found)


def _replace_limit(fields: dict[str, Any], number: int) -> dict[str, Any]:
    """Replace a large limit with another one."""
    return {
        name: number
        if value == 64000
        else _replace_limit(value, number)
        if isinstance(value, dict)
        else value
        for name, value in fields.items()
    }


def _iter_limits(fields: dict[str, Any]) -> Any:
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _iter_limits(value)
        elif name.lower().startswith("max") and value is not None:
            yield value
