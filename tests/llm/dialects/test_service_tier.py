"""Service tiers and other extras are found in every dialect, and nothing else is taken for one."""

import json

import pytest

from agentd.llm.dialects import service_tier
from agentd.llm.dialects.callers import CALLERS
from agentd.llm.dialects.gemini import request as gemini_request

BODY = {"model": "m", "messages": [], "input": "hello", "max_tokens": 5}


def peek(dialect, **more):
    body = json.dumps({**BODY, **more}).encode()
    return gemini_request.peek(body, "m") if dialect == "gemini" else CALLERS[dialect].peek(body)


@pytest.mark.parametrize(
    ("dialect", "usual", "other"),
    [
        ("openai-chat", ["auto", "default", None], ["priority", "flex", "scale", 7, {"a": []}]),
        ("openai-responses", ["auto", "default", None], ["priority", "flex"]),
        ("anthropic", ["auto", "standard_only", None], ["priority", "batch"]),
        ("gemini", ["standard", "SERVICE_TIER_UNSPECIFIED", None], ["priority", "flex"]),
    ],
)
def test_another_tier_of_service_is_seen(dialect, usual, other):
    name = "serviceTier" if dialect == "gemini" else "service_tier"
    assert [peek(dialect, **{name: one}).service_tier for one in usual] == [""] * len(usual)
    assert [peek(dialect, **{name: one}).service_tier for one in other] == list(map(str, other))
    assert peek(dialect).service_tier == ""


@pytest.mark.parametrize(
    ("dialect", "more", "served"),
    [
        ("openai-chat", {"web_search_options": {}}, True),
        ("openai-chat", {"tools": [{"type": "function", "function": {"name": "a"}}]}, False),
        ("openai-responses", {"tools": [{"type": "web_search"}]}, True),
        ("openai-responses", {"tools": [{"type": "code_interpreter", "container": {}}]}, True),
        ("openai-responses", {"tools": [{"type": "function", "name": "web_search"}]}, False),
        ("anthropic", {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, True),
        ("anthropic", {"tools": [{"name": "web_search", "input_schema": {}}]}, False),
        ("anthropic", {"tools": [{"type": "bash_20250124", "name": "bash"}]}, False),
        ("anthropic", {"tools": [7, None]}, False),
        ("anthropic", {"tools": "web_search"}, False),
        ("gemini", {"tools": [{"googleSearch": {}}]}, True),
        ("gemini", {"tools": [{"google_search_retrieval": {}}]}, True),
        ("gemini", {"tools": [{"functionDeclarations": []}]}, False),
    ],
)
def test_tools_that_the_supplier_runs_are_seen(dialect, more, served):
    assert peek(dialect, **more).uses_paid_tools is served


@pytest.mark.parametrize(
    ("told", "used"),
    [
        ({"output": [{"type": "web_search_call", "status": "completed"}]}, True),
        ({"content": [{"type": "server_tool_use", "name": "web_search"}]}, True),
        ({"choices": [{"message": {"annotations": [{"type": "url_citation"}]}}]}, True),
        ({"candidates": [{"groundingMetadata": {"webSearchQueries": []}}]}, True),
        ({"tools": [{"type": "web_search"}], "output": [{"type": "function_call"}]}, False),
        ({"content": [{"type": "text", "text": '"type":"server_tool_use"'}]}, False),
    ],
)
def test_the_use_of_such_a_tool_is_seen(told, used):
    assert bool(service_tier.mentions_paid_tools(json.dumps(told).encode())) is used


@pytest.mark.parametrize(
    ("dialect", "part", "heard"),
    [
        ("openai-chat", {"type": "input_audio", "input_audio": {"data": "UklGRg=="}}, True),
        ("openai-chat", {"type": "text", "text": '{"type": "input_audio"}'}, False),
        ("openai-responses", {"type": "input_audio", "input_audio": {"data": ""}}, True),
        ("gemini", {"inlineData": {"mimeType": "audio/wav", "data": "UklGRg=="}}, True),
        ("gemini", {"file_data": {"mime_type": "audio/mp3", "file_uri": "x"}}, True),
        ("gemini", {"inlineData": {"mimeType": "image/png", "data": ""}}, False),
        ("gemini", {"text": '{"mimeType": "audio/wav"}'}, False),
    ],
)
def test_audio_is_seen(dialect, part, heard):
    said = [{"role": "user", "content": [part], "parts": [part]}]
    assert peek(dialect, messages=said, input=said, contents=said).has_audio is heard
