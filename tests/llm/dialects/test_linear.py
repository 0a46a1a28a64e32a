"""Reading a request takes time that is linear in its bytes, whatever stands in them."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from agentd.core.errors import BadRequest
from agentd.llm.dialects import openai_completions, token_estimate
from agentd.llm.dialects.caller import RequestSummary
from agentd.llm.dialects.callers import CALLERS
from agentd.llm.dialects.dialect import DIALECTS
from agentd.llm.dialects.embeddings import gemini as gemini_embeddings
from agentd.llm.dialects.embeddings import openai as openai_embeddings
from agentd.llm.dialects.embeddings.translation import EMBEDDING_DIALECTS
from agentd.llm.dialects.gemini import request as gemini_request
from agentd.llm.dialects.openai_responses.tool_namespaces import split_name
from tests.support.processor import assert_linear

SIZE = 32 * 1024
TIMES = 4

REQUESTS = {
    "openai-chat": '"model":"m","messages":[%s]',
    "anthropic": '"model":"m","max_tokens":9,"messages":[%s]',
    "openai-responses": '"model":"m","input":[%s]',
    "gemini": '"contents":[%s]',
}
MESSAGES = {
    "openai-chat": '{"role":"user","content":"%s"}',
    "anthropic": '{"role":"user","content":"%s"}',
    "openai-responses": '{"role":"user","content":"%s"}',
    "gemini": '{"role":"user","parts":[{"text":"%s"}]}',
}


def _repeat_numbered(form: str, count: int, *, back: bool = False) -> str:
    numbers = reversed(range(count)) if back else range(count)
    return ",".join(form.replace("#", str(number)) for number in numbers)


FIELDS: dict[str, Callable[[int], str]] = {
    "many names, the last one twice": lambda size: (
        _repeat_numbered('"a#":1', size // 11) + ',"z":1,"z":2'
    ),
    "one name many times": lambda size: '"a":null,' * (size // 9) + '"a":1',
    "many names": lambda size: _repeat_numbered('"a#":null', size // 13),
    "as deep as it gets": lambda size: '"z":' + "[" * (size // 2) + "]" * (size // 2),
    "deep many times": lambda size: f'"z":[{("[" * 60 + "]" * 60 + ",") * (size // 121)}1]',
    "a long whole number": lambda size: f'"z":{"7" * size}',
    "a long fraction": lambda size: f'"temperature":0.{"7" * size}',
    "a long exponent": lambda size: f'"top_p":1e-{"0" * size}1',
    "blanks": lambda size: " " * size + '"z":null',
    "a long name": lambda size: f'"{"a_" * (size // 2)}":null',
}
"""What stands beside one short message."""

MANY_MESSAGES = "many messages"
WORDS: dict[str, Callable[[int], str]] = {
    "escapes": lambda size: "\\u0041" * (size // 6),
    "quotes": lambda size: '\\"' * (size // 2),
}
"""What one long message says."""

CALLS = {
    "openai-chat": (
        '{"role":"assistant","content":null,"tool_calls":[%s]}',
        '{"id":"c#","type":"function","function":{"name":"f","arguments":"{}"}}',
        "%s",
        '{"role":"tool","tool_call_id":"c#","content":"x"}',
    ),
    "anthropic": (
        '{"role":"assistant","content":[%s]}',
        '{"type":"tool_use","id":"c#","name":"f","input":{}}',
        '{"role":"user","content":[%s]}',
        '{"type":"tool_result","tool_use_id":"c#","content":"x"}',
    ),
    "openai-responses": (
        "%s",
        '{"type":"function_call","call_id":"c#","name":"f","arguments":"{}"}',
        "%s",
        '{"type":"function_call_output","call_id":"c#","output":"x"}',
    ),
    "gemini": (
        '{"role":"model","parts":[%s]}',
        '{"functionCall":{"name":"f#"}}',
        '{"role":"user","parts":[%s]}',
        '{"functionResponse":{"name":"f#","response":{}}}',
    ),
}


@pytest.mark.parametrize("dialect", REQUESTS)
@pytest.mark.parametrize("shape", [*FIELDS, *WORDS, MANY_MESSAGES])
def test_a_hostile_request_is_read_in_linear_time(dialect, shape):
    little, much = (_build_request(dialect, shape, size) for size in (SIZE, TIMES * SIZE))
    assert_linear(lambda body: _read_fully(dialect, body), little, much, times=TIMES)


@pytest.mark.parametrize("dialect", REQUESTS)
def test_calls_answered_in_the_order_from_the_last_are_paired_in_linear_time(dialect):
    asked, call, answered, result = CALLS[dialect]

    def build_request(count):
        turns = [
            MESSAGES[dialect] % "x",
            asked % _repeat_numbered(call, count),
            answered % _repeat_numbered(result, count, back=True),
        ]
        return f"{{{REQUESTS[dialect] % ','.join(turns)}}}".encode()

    assert CALLERS[dialect].parse_request(build_request(3)).messages
    assert_linear(
        lambda body: _read_fully(dialect, body),
        build_request(2_000),
        build_request(TIMES * 2_000),
        times=TIMES,
    )


def test_replies_with_very_many_calls_at_once_are_reported_in_linear_time():
    def build_stream(count):
        chunk = '{"choices":[{"finish_reason":"stop","delta":{"tool_calls":[%s]}}]}'
        calls = '{"index":#,"id":"c#","function":{"name":"f","arguments":"{"}}'
        grows = '{"index":#,"function":{"arguments":"}"}}'
        chunks = (
            chunk % _repeat_numbered(calls, count),
            chunk % _repeat_numbered(grows, count, back=True),
        )
        return b"".join(f"data: {piece}\n\n".encode() for piece in chunks) + b"data: [DONE]\n\n"

    def read(data):
        events = DIALECTS["openai-chat"].create_reader().feed(data)
        for name in ("openai-responses", "anthropic", "gemini"):
            writer = CALLERS[name].create_writer(RequestSummary("m"), "r", 0)
            assert b"".join(map(writer.write, events))

    assert_linear(read, build_stream(1_000), build_stream(TIMES * 1_000), times=TIMES)


def test_a_groups_tool_is_found_in_time_that_does_not_grow_with_the_groups():
    def build_calls(count):
        groups = frozenset(f"g{number}" for number in range(count))
        return groups, [f"g{number}__f" for number in range(count)]

    def read(given):
        groups, names = given
        assert all(split_name(name, groups) == (name[:-3], "f") for name in names)

    assert_linear(read, build_calls(2_000), build_calls(TIMES * 2_000), times=TIMES)


def _build_request(dialect: str, shape: str, size: int) -> bytes:
    message, fields = MESSAGES[dialect] % "x", ""
    if shape in FIELDS:
        fields = f",{FIELDS[shape](size)}"
    elif shape in WORDS:
        message = MESSAGES[dialect] % WORDS[shape](size)
    else:
        message = ",".join([message] * (size // len(message)))
    return f"{{{REQUESTS[dialect] % message}{fields}}}".encode()


def _read_fully(dialect: str, body: bytes) -> None:
    """Do all that may be done with a request before a supplier has it."""
    caller = CALLERS[dialect]
    with suppress(BadRequest):
        gemini_request.peek(body, "m") if dialect == "gemini" else caller.peek(body)
    with suppress(BadRequest):
        caller.rewrite_for_passthrough(body, "other")
    with suppress(BadRequest):
        openai_embeddings.peek(body)
    with suppress(BadRequest):
        openai_completions.peek(body)
    with suppress(BadRequest):
        openai_completions.rewrite_for_passthrough(body, "other")
    for is_batch in (False, True):
        with suppress(BadRequest):
            gemini_embeddings.peek(body, "m", is_batch=is_batch)
    for embeddings in EMBEDDING_DIALECTS.values():
        with suppress(BadRequest):
            embeddings.estimate_tokens(body)
        with suppress(BadRequest):
            embeddings.rewrite_for_passthrough(body, "other")
        with suppress(BadRequest):
            embeddings.parse_request(body)
    token_estimate.estimate_tokens(body)
    with suppress(BadRequest):
        conversation = caller.parse_request(body)
        for other in DIALECTS.values():
            with suppress(BadRequest):
                other.encode_request(conversation, "m")
