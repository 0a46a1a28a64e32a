"""Suppliers get names of tools that their dialect allows, and callers read their own."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from agentd.llm.conversation import (
    Conversation,
    ModelMessage,
    NamedTool,
    ReplyFinished,
    TextPart,
    ToolCall,
    ToolCallDelta,
    ToolCallDone,
    ToolCallStarted,
    ToolDefinition,
    ToolResult,
)
from agentd.llm.dialects.dialect import DIALECTS
from agentd.llm.dialects.tool_names import OwnNamesReader, fit_tool_names, restore_tool_names

LONG = "mcp__plugin_chrome-devtools-mcp_chrome-devtools__performance_analyze_insight"
REFUSED = {
    "openai-chat": [LONG, "a.b", "a:b", "größe"],
    "openai-responses": [LONG, "a.b", "a:b"],
    "anthropic": ["x" * 129, "a.b", "a:b"],
    "gemini": [LONG, "2fa", "-v"],
}
TAKEN = {
    "openai-chat": ["look", "2fa", "x" * 64],
    "openai-responses": ["look", "-v"],
    "anthropic": [LONG, "2fa"],
    "gemini": ["a.b", "a:b", "_x"],
}
EVERYWHERE = re.compile("[A-Za-z_][A-Za-z0-9_-]{0,63}")


def ask(*names):
    """Return a conversation in which the first of these tools was called, and must be again."""
    call = ToolCall("c1", names[0], "{}")
    return Conversation(
        messages=(
            ModelMessage("user", (TextPart("go"),)),
            ModelMessage("assistant", (call,)),
            ModelMessage("user", (ToolResult("c1", (TextPart("done"),)),)),
        ),
        tools=tuple(ToolDefinition(name, "", {"type": "object"}) for name in names),
        tool_choice=NamedTool(names[0]),
    )


@pytest.mark.parametrize(("dialect", "name"), [(d, n) for d, ns in REFUSED.items() for n in ns])
def test_a_name_that_is_refused_is_replaced_wherever_it_stands(dialect, name):
    fitted, own = fit_tool_names(ask(name, "look"), dialect)
    (made,) = own
    assert own == {made: name}
    assert EVERYWHERE.fullmatch(made)
    assert fitted.tools[1].name == "look"
    body = DIALECTS[dialect].encode_request(fitted, "m").decode()
    assert json.dumps(name) not in body
    assert body.count(json.dumps(made)) >= 3  # the tool, its call, and the choice


@pytest.mark.parametrize(("dialect", "name"), [(d, n) for d, ns in TAKEN.items() for n in ns])
def test_a_name_that_is_allowed_stays(dialect, name):
    known = ask(name)
    assert fit_tool_names(known, dialect) == (known, {})


def test_the_caller_reads_its_own_names():
    _, own = fit_tool_names(ask(LONG, "look"), "openai-chat")
    (made,) = own
    events = [
        ToolCallStarted(0, "c", made),
        ToolCallDelta(0, "{}"),
        ToolCallDone(0, ToolCall("c", made, "{}")),
        ToolCallStarted(1, "d", "look"),
    ]
    assert restore_tool_names(events, own) == [
        ToolCallStarted(0, "c", LONG),
        ToolCallDelta(0, "{}"),
        ToolCallDone(0, ToolCall("c", LONG, "{}")),
        ToolCallStarted(1, "d", "look"),
    ]


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
def test_a_choice_that_names_no_tool_stays(choice):
    fitted, own = fit_tool_names(structs.replace(ask(LONG), tool_choice=choice), "openai-chat")
    assert own
    assert fitted.tool_choice == choice


def test_a_reply_that_is_read_piece_by_piece_has_the_callers_names_to_its_last_event():
    _, own = fit_tool_names(ask(LONG), "openai-chat")
    (made,) = own
    call = {"index": 0, "id": "c", "function": {"name": made, "arguments": "{}"}}
    chunk = {"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    reader = OwnNamesReader(DIALECTS["openai-chat"].create_reader(), own)
    events = [*reader.feed(f"data: {json.dumps(chunk)}\n\n".encode()), *reader.close()]
    assert ToolCallStarted(0, "c", LONG) in events
    assert ToolCallDone(0, ToolCall("c", LONG, "{}")) in events
    assert events[-1] == ReplyFinished("tool_calls")


def test_half_a_character_in_a_name_breaks_nothing():
    _, own = fit_tool_names(ask("\ud83d"), "openai-chat")
    assert list(own.values()) == ["\ud83d"]


@given(st.sets(st.text(min_size=1), min_size=1, max_size=5), st.sampled_from(list(DIALECTS)))
def test_different_names_stay_different_and_each_is_the_same_every_time(names, dialect):
    fitted, own = fit_tool_names(ask(*names), dialect)
    made = [tool.name for tool in fitted.tools]
    assert len(set(made)) == len(names)
    assert {own.get(name, name) for name in made} == names
    for name in names:
        alone, _ = fit_tool_names(ask(name), dialect)
        assert alone.tools[0].name in made
