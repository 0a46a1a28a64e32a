"""Suppliers that lack some fields of OpenAI's dialect get requests without them."""

import json

import pytest

from agentd.llm.dialects.openai_chat.strict_suppliers import adapt_to_supplier

SAID = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "temperature": 0.2}
ASKED = {
    **SAID,
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_completion_tokens": 90,
    "user": "ann",
}


@pytest.mark.parametrize(
    "url", ["https://api.mistral.ai/v1", "https://API.mistral.ai", "https://codestral.mistral.ai"]
)
def test_mistral_gets_no_field_that_it_refuses(url: str) -> None:
    adapted = adapt_to_supplier(json.dumps(ASKED).encode(), "openai-chat", url)
    assert json.loads(adapted) == {**SAID, "stream": True, "max_tokens": 90}


@pytest.mark.parametrize("limit", [{}, {"max_completion_tokens": None}])
def test_mistral_gets_its_own_limit_as_it_is(limit: dict[str, None]) -> None:
    asked = json.dumps({**SAID, "max_tokens": 7, **limit}).encode()
    adapted = adapt_to_supplier(asked, "openai-chat", "https://api.mistral.ai/v1")
    assert json.loads(adapted) == {**SAID, "max_tokens": 7}


@pytest.mark.parametrize(
    "url",
    [
        "https://api.deepseek.com",
        "https://ollama.com/v1",
        "http://127.0.0.1:11434",
        "http://desk:11434/v1",
    ],
)
def test_who_knows_only_the_old_name_of_the_limit_gets_that(url: str) -> None:
    adapted = adapt_to_supplier(json.dumps(ASKED).encode(), "openai-chat", url)
    expected = {**ASKED, "max_tokens": 90}
    del expected["max_completion_tokens"]
    assert json.loads(adapted) == expected
    unlimited = json.dumps({**SAID, "max_tokens": 7}).encode()
    assert adapt_to_supplier(unlimited, "openai-chat", url) is unlimited


@pytest.mark.parametrize("url", ["https://api.mistral.ai/v1", "http://127.0.0.1:11434"])
def test_a_limit_whose_name_is_written_with_escapes_is_kept_to(url: str) -> None:
    """A caller could else have more written than is reserved for the request."""
    asked = json.dumps({**SAID, "max_completion_tokens": 7}).replace("tokens", r"token\u0073")
    adapted = adapt_to_supplier(asked.encode(), "openai-chat", url)
    assert json.loads(adapted) == {**SAID, "max_tokens": 7}


def test_mistral_gets_no_thinking_of_before() -> None:
    call = {"id": "a1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    answered = {"role": "assistant", "content": "reasoning_content", "tool_calls": [call]}
    told = {"role": "tool", "tool_call_id": "a1", "content": "ok"}
    thought = {**answered, "reasoning_content": "I look."}
    asked = json.dumps({"model": "m", "messages": [thought, told]}).encode()
    adapted = adapt_to_supplier(asked, "openai-chat", "https://api.mistral.ai/v1")
    assert json.loads(adapted) == {"model": "m", "messages": [answered, told]}


@pytest.mark.parametrize("messages", [{}, {"messages": "reasoning_content"}, {"messages": [1]}])
def test_messages_in_no_known_form_are_for_mistral_to_refuse(messages: dict[str, object]) -> None:
    asked = {"model": "reasoning_content", **messages}
    adapted = adapt_to_supplier(json.dumps(asked).encode(), "openai-chat", "https://api.mistral.ai")
    assert json.loads(adapted) == asked


@pytest.mark.parametrize(
    ("dialect", "url"),
    [
        ("openai-chat", "https://api.openai.com/v1"),
        ("openai-chat", "https://api.notmistral.ai/v1"),
        ("openai-chat", "http://127.0.0.1:8000"),
        ("openai-chat", "http://127.0.0.1:99999"),
        ("openai-chat", "https://example.org/api.mistral.ai"),
        ("anthropic", "https://api.mistral.ai/v1"),
    ],
)
def test_nobody_elses_request_changes(dialect: str, url: str) -> None:
    body = json.dumps(ASKED).encode()
    assert adapt_to_supplier(body, dialect, url) is body
