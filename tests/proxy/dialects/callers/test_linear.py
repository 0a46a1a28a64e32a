"""Reading a request takes time that is linear in its bytes, whatever stands in them."""

import gc
from collections.abc import Callable
from contextlib import suppress
from math import inf
from time import process_time

import pytest

from agentd.errors import BadRequest
from agentd.proxy.dialects.caller import Glance
from agentd.proxy.dialects.callers import CALLERS, asked_gemini, embeddings, estimate
from agentd.proxy.dialects.callers.groups import parted
from agentd.proxy.dialects.dialect import DIALECTS

SIZE = 64 * 1024
TIMES = 4
MOST_TIMES_AS_LONG = 9
"""Four times the bytes take four times as long, where it is linear; sixteen times, where not."""
LEAST_SECONDS = 0.05
"""Less cannot be measured on a machine that is busy with other things."""

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


def _numbered(form: str, count: int, *, back: bool = False) -> str:
    numbers = reversed(range(count)) if back else range(count)
    return ",".join(form.replace("#", str(number)) for number in numbers)


FIELDS: dict[str, Callable[[int], str]] = {
    "many names, the last one twice": lambda size: _numbered('"a#":1', size // 11) + ',"z":1,"z":2',
    "one name many times": lambda size: '"a":null,' * (size // 9) + '"a":1',
    "many names": lambda size: _numbered('"a#":null', size // 13),
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
    little, much = (_request(dialect, shape, size) for size in (SIZE, TIMES * SIZE))
    _is_linear(lambda body: _read(dialect, body), little, much)


@pytest.mark.parametrize("dialect", REQUESTS)
def test_calls_answered_in_the_order_from_the_last_are_paired_in_linear_time(dialect):
    asked, call, answered, result = CALLS[dialect]

    def request(count):
        turns = [
            MESSAGES[dialect] % "x",
            asked % _numbered(call, count),
            answered % _numbered(result, count, back=True),
        ]
        return f"{{{REQUESTS[dialect] % ','.join(turns)}}}".encode()

    assert CALLERS[dialect].understood(request(3)).messages
    _is_linear(lambda body: _read(dialect, body), request(4_000), request(TIMES * 4_000))


def test_replies_with_very_many_calls_at_once_are_told_in_linear_time():
    def stream(count):
        chunk = '{"choices":[{"finish_reason":"stop","delta":{"tool_calls":[%s]}}]}'
        calls = '{"index":#,"id":"c#","function":{"name":"f","arguments":"{"}}'
        grows = '{"index":#,"function":{"arguments":"}"}}'
        chunks = (chunk % _numbered(calls, count), chunk % _numbered(grows, count, back=True))
        return b"".join(f"data: {piece}\n\n".encode() for piece in chunks) + b"data: [DONE]\n\n"

    def read(data):
        events = DIALECTS["openai-chat"].reader().feed(data)
        for name in ("openai-responses", "anthropic", "gemini"):
            writer = CALLERS[name].writer(Glance("m"), "r", 0)
            assert b"".join(map(writer.write, events))

    _is_linear(read, stream(2_000), stream(TIMES * 2_000))


def test_a_groups_tool_is_found_in_time_that_does_not_grow_with_the_groups():
    def calls(count):
        groups = frozenset(f"g{number}" for number in range(count))
        return groups, [f"g{number}__f" for number in range(count)]

    def read(given):
        groups, names = given
        assert all(parted(name, groups) == (name[:-3], "f") for name in names)

    _is_linear(read, calls(2_000), calls(TIMES * 2_000))


def _request(dialect: str, shape: str, size: int) -> bytes:
    message, fields = MESSAGES[dialect] % "x", ""
    if shape in FIELDS:
        fields = f",{FIELDS[shape](size)}"
    elif shape in WORDS:
        message = MESSAGES[dialect] % WORDS[shape](size)
    else:
        message = ",".join([message] * (size // len(message)))
    return f"{{{REQUESTS[dialect] % message}{fields}}}".encode()


def _read(dialect: str, body: bytes) -> None:
    """All that may be done with a request before a supplier has it."""
    caller = CALLERS[dialect]
    with suppress(BadRequest):
        asked_gemini.glance(body, "m") if dialect == "gemini" else caller.glance(body)
    with suppress(BadRequest):
        caller.passed_on(body, "other")
    with suppress(BadRequest):
        embeddings.glance(body)
    estimate.tokens(body)
    with suppress(BadRequest):
        conversation = caller.understood(body)
        for other in DIALECTS.values():
            with suppress(BadRequest):
                other.request(conversation, "m")


def _is_linear(work: Callable, little: object, much: object) -> None:
    before = max(LEAST_SECONDS, min(_seconds(work, little) for _ in range(3)))
    taken = inf
    for _ in range(4):  # others on this machine compete for its caches
        taken = min(taken, _seconds(work, much))
        if taken < MOST_TIMES_AS_LONG * before:
            return
    raise AssertionError(f"{before:.3f} s, then {taken:.3f} s")


def _seconds(work: Callable, given: object) -> float:
    gc.collect()
    gc.disable()  # it looks at what other tests left, too
    try:
        began = process_time()
        work(given)
        return process_time() - began
    finally:
        gc.enable()
