"""Custom tools of OpenAI's chat completions, for suppliers of every other dialect."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core import sse
from agentd.core.errors import BadRequest
from agentd.llm.conversation import (
    NamedTool,
    ReplyEvent,
    ReplyFinished,
    ReplyStarted,
    ToolCall,
    ToolCallDelta,
    ToolCallDone,
    ToolCallStarted,
)
from agentd.llm.dialects.callers import CALLERS
from agentd.llm.dialects.custom_tools import ArgumentsWriter, wrap_input
from agentd.llm.dialects.dialect import DIALECTS
from agentd.llm.dialects.openai_responses import upstream as openai_responses_upstream

CHAT = CALLERS["openai-chat"]
RESPONSES = CALLERS["openai-responses"]
GRAMMAR = {"syntax": "regex", "definition": r"[a-z]+\n"}
CUSTOM = {
    "name": "run",
    "description": "Runs code.",
    "format": {"type": "grammar", "grammar": GRAMMAR},
}
RUN = {"type": "custom", "custom": CUSTOM}
LOOK = {"type": "function", "function": {"name": "look"}}
CODE = 'print("ä\\n🎉")\n'


def build_body(**fields: Any) -> bytes:
    user = {"role": "user", "content": "Go on"}
    return json.dumps({"model": "m", "messages": [user], **fields}).encode()


def build_called_body(text: str) -> bytes:
    call = {"id": "a", "type": "custom", "custom": {"name": "run", "input": text}}
    look = {"id": "b", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Go on"},
        {"role": "assistant", "content": None, "tool_calls": [call, look]},
        {"role": "tool", "tool_call_id": "a", "content": "ran"},
        {"role": "tool", "tool_call_id": "b", "content": "seen"},
    ]
    return build_body(messages=messages, tools=[RUN, LOOK])


def encode_request(dialect: str, asked: bytes) -> Any:
    return json.loads(DIALECTS[dialect].encode_request(CHAT.parse_request(asked), "n"))


def cut_text(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(at for at in cuts if at < len(text))})
    return [text[a:b] for a, b in itertools.pairwise(places)]


def write_streamed_calls(events: list[ReplyEvent], asked: bytes) -> list[dict[str, Any]]:
    """Return the calls as a client puts them together from a stream."""
    writer = CHAT.create_writer(CHAT.peek(asked), "r", 1)
    calls: list[dict[str, Any]] = []
    for one in sse.SseReader().feed(b"".join(map(writer.write, events))):
        for piece in [] if one.data == "[DONE]" else json.loads(one.data)["choices"]:
            for call in piece["delta"].get("tool_calls", ()):
                if call["index"] == len(calls):
                    calls.append(call)
                else:
                    calls[call["index"]]["custom"]["input"] += call["custom"]["input"]
    return calls


def render_calls(events: list[ReplyEvent], asked: bytes) -> list[dict[str, Any]]:
    whole = json.loads(CHAT.render_response(events, CHAT.peek(asked), "r", 1))
    assert whole["choices"][0]["finish_reason"] == "tool_calls"
    return whole["choices"][0]["message"]["tool_calls"]


@given(text=st.text())
def test_a_call_and_its_result_stay_custom_for_the_responses_api(text: str) -> None:
    items = encode_request("openai-responses", build_called_body(text))["input"]
    custom = {"type": "custom_tool_call", "call_id": "a", "name": "run", "input": text}
    assert items[1] == custom
    assert items[2]["type"] == "function_call"
    assert items[3] == {"type": "custom_tool_call_output", "call_id": "a", "output": "ran"}
    assert items[4]["type"] == "function_call_output"


@given(text=st.text())
def test_a_call_is_that_of_a_function_with_one_string_for_the_others(text: str) -> None:
    use, _ = encode_request("anthropic", build_called_body(text))["messages"][1]["content"]
    assert (use["name"], use["input"]) == ("run", {"input": text})
    part, _ = encode_request("gemini", build_called_body(text))["contents"][1]["parts"]
    assert (part["functionCall"]["name"], part["functionCall"]["args"]) == ("run", {"input": text})


def test_a_tool_keeps_its_grammar_where_it_can_and_describes_it_elsewhere() -> None:
    native = {"name": "run", "description": "Runs code."}
    form = {"type": "grammar", **GRAMMAR}
    tools = encode_request("openai-responses", build_body(tools=[RUN, LOOK]))["tools"]
    assert tools[0] == {"type": "custom", **native, "format": form}
    assert tools[1]["type"] == "function"
    (tool, _) = encode_request("anthropic", build_body(tools=[RUN, LOOK]))["tools"]
    assert tool["input_schema"]["required"] == ["input"]
    assert tool["description"].startswith("Runs code.")
    assert GRAMMAR["definition"] in tool["description"]


@pytest.mark.parametrize("form", [None, {"type": "text"}])
def test_a_tool_without_a_grammar_takes_any_text(form: object) -> None:
    tool = {"type": "custom", "custom": {"name": "run", "format": form}}
    (result,) = encode_request("openai-responses", build_body(tools=[tool]))["tools"]
    assert result == {"type": "custom", "name": "run", "format": {"type": "text"}}


def test_one_custom_tool_can_be_asked_for() -> None:
    choice = {"type": "custom", "custom": {"name": "run"}}
    asked = build_body(tools=[RUN, LOOK], tool_choice=choice)
    assert CHAT.parse_request(asked).tool_choice == NamedTool("run")
    result = encode_request("openai-responses", asked)["tool_choice"]
    assert result == {"type": "custom", "name": "run"}
    assert encode_request("anthropic", asked)["tool_choice"]["name"] == "run"
    function = {"type": "function", "function": {"name": "look"}}
    result = encode_request("openai-responses", build_body(tools=[RUN, LOOK], tool_choice=function))
    assert result["tool_choice"] == {"type": "function", "name": "look"}


@pytest.mark.parametrize("mode", ["auto", "required"])
@pytest.mark.parametrize("name", ["run", "look"])
def test_only_allowed_tools_are_offered(name: str, mode: str) -> None:
    kind = "custom" if name == "run" else "function"
    one = {"type": kind, kind: {"name": name}}
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [one]}}
    result = CHAT.parse_request(build_body(tools=[RUN, LOOK], tool_choice=choice))
    assert ([tool.name for tool in result.tools], result.tool_choice) == ([name], mode)
    flat = [{"type": "custom", "name": "run"}, {"type": "function", "name": "look"}]
    flat_choice = {"type": "allowed_tools", "mode": mode, "tools": [{"type": kind, "name": name}]}
    asked = {"model": "m", "input": "x", "tools": flat, "tool_choice": flat_choice}
    result = RESPONSES.parse_request(json.dumps(asked).encode())
    assert ([tool.name for tool in result.tools], result.tool_choice) == ([name], mode)


@pytest.mark.parametrize(("names", "result"), [(["run", "other"], "'other'"), ([], "no tool")])
def test_allowed_tools_that_do_not_exist_are_an_error(names: list[str], result: str) -> None:
    tools = [{"type": "custom", "custom": {"name": name}} for name in names]
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": tools}}
    with pytest.raises(BadRequest, match=f'"tool_choice" allows {result}'):
        CHAT.parse_request(build_body(tools=[RUN], tool_choice=choice))


@given(text=st.text(), cuts=st.lists(st.integers(0, 200), max_size=8), ascii_=st.booleans())
def test_a_functions_call_is_reported_as_a_custom_one(
    text: str, cuts: list[int], ascii_: bool
) -> None:
    arguments = json.dumps({"input": text}, ensure_ascii=ascii_)
    events: list[ReplyEvent] = [
        *(ReplyStarted("x", "n"), ToolCallStarted(0, "a", "run")),
        *(ToolCallDelta(0, piece) for piece in cut_text(arguments, cuts)),
        *(ToolCallDone(0, ToolCall("a", "run", arguments)), ReplyFinished("tool_calls")),
    ]
    custom = {"id": "a", "type": "custom", "custom": {"name": "run", "input": text}}
    assert render_calls(events, build_called_body("")) == [custom]
    assert write_streamed_calls(events, build_called_body("")) == [{"index": 0, **custom}]


@given(texts=st.lists(st.text(), min_size=1, max_size=3), cuts=st.lists(st.integers(0, 50)))
def test_what_a_responses_supplier_writes_is_reported_exactly(
    texts: list[str], cuts: list[int]
) -> None:
    reader = openai_responses_upstream.create_reader()
    events: list[ReplyEvent] = []
    items = []
    for at, text in enumerate(texts):
        item = {"type": "custom_tool_call", "call_id": f"c{at}", "name": "run", "input": text}
        items.append(item)
        grown = [
            {"type": "response.custom_tool_call_input.delta", "delta": piece}
            for piece in cut_text(text, cuts)
        ]
        for event in (
            {"type": "response.output_item.added", "item": {**item, "input": ""}},
            *grown,
            {"type": "response.custom_tool_call_input.done", "input": text},
            {"type": "response.output_item.done", "item": item},
        ):
            events += reader.feed(sse.encode_event(json.dumps({**event, "output_index": at})))
    done = {"id": "r", "model": "n", "status": "completed", "output": items}
    ended = json.dumps({"type": "response.completed", "response": done})
    events += [*reader.feed(sse.encode_event(ended)), *reader.close()]
    custom = [
        {"id": f"c{at}", "type": "custom", "custom": {"name": "run", "input": text}}
        for at, text in enumerate(texts)
    ]
    assert write_streamed_calls(events, build_called_body("")) == [
        {"index": at, **call} for at, call in enumerate(custom)
    ]
    assert render_calls(events, build_called_body("")) == custom
    assert (
        render_calls(
            openai_responses_upstream.parse_response(json.dumps(done).encode()),
            build_called_body(""),
        )
        == custom
    )


@given(text=st.text(), cuts=st.lists(st.integers(0, 50)))
def test_pieces_of_an_input_make_the_arguments_of_the_function(text: str, cuts: list[int]) -> None:
    writer = ArgumentsWriter()
    written = "".join(map(writer.feed, cut_text(text, cuts))) + writer.close()
    assert written == wrap_input(text)


@pytest.mark.parametrize("arguments", ['{"input": "half', "bare words"])
def test_of_a_call_that_was_cut_off_there_is_shown_what_there_was(arguments: str) -> None:
    events: list[ReplyEvent] = [
        *(ReplyStarted("x", "n"), ToolCallStarted(0, "a", "run")),
        *(ToolCallDelta(0, arguments), ReplyFinished("length")),
    ]
    (call,) = write_streamed_calls(events, build_called_body(""))
    assert call["custom"]["input"] == arguments.removeprefix('{"input": "')
