"""Freeform tools of OpenAI's dialects are functions with one string for every other supplier."""

import itertools
import json

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core import sse
from agentd.llm.conversation import (
    NamedTool,
    ReplyFinished,
    ReplyStarted,
    TextPart,
    ToolCall,
    ToolCallDelta,
    ToolCallDone,
    ToolCallStarted,
    ToolResult,
)
from agentd.llm.dialects.callers import CALLERS
from agentd.llm.dialects.custom_tools import InputReader, unwrap_input, wrap_input
from agentd.llm.dialects.dialect import DIALECTS
from tests.llm.dialects.served import serving

RESPONSES = CALLERS["openai-responses"]
PATCH = '*** Begin Patch\n*** Add File: "ä".txt\n+\tx\\n 🎉\n*** End Patch\n'
GRAMMAR = 'start: begin_patch hunk+ end_patch\nbegin_patch: "*** Begin Patch" LF'
TOOL = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": GRAMMAR},
}


def build_body(**fields):
    return json.dumps({"model": "m", "input": "Go on", **fields}).encode()


def build_codex_body():
    call = {"type": "custom_tool_call", "call_id": "a", "name": "apply_patch", "input": PATCH}
    items = [
        {"role": "user", "content": "Go on"},
        {**call, "id": "ctc_1", "status": "completed"},
        {"type": "custom_tool_call_output", "call_id": "a", "output": "Done"},
    ]
    return build_body(
        input=items,
        tools=[TOOL, {"type": "web_search", "external_web_access": True}],
        include=["reasoning.encrypted_content", "web_search_call.action.sources"],
        stream=True,
    )


@pytest.mark.parametrize("supplier", DIALECTS)
def test_codex_edits_files_with_any_supplier(supplier):
    result = RESPONSES.parse_request(build_codex_body())
    (tool,) = result.tools
    assert (tool.name, tool.schema["required"]) == ("apply_patch", ["input"])
    assert tool.description == "Edits files."
    given_ = wrap_input(PATCH)
    assert result.messages[1].parts == (ToolCall("a", "apply_patch", given_, freeform=True),)
    assert result.messages[2].parts == (ToolResult("a", (TextPart("Done"),)),)
    assert result.dropped_fields == ("web_search",)
    assert PATCH in unwrap_input(result.messages[1].parts[0].arguments)
    sent = DIALECTS[supplier].encode_request(result, "n").decode()
    assert json.loads(sent)
    assert "Edits files." in sent
    assert json.dumps(GRAMMAR)[1:-1] in sent


def test_a_search_that_another_supplier_made_is_left_out_of_the_history():
    searched = {"type": "web_search_call", "id": "ws_1", "action": {"type": "search"}}
    result = RESPONSES.parse_request(build_body(input=[{"role": "user", "content": "x"}, searched]))
    assert len(result.messages) == 1
    assert result.dropped_fields == ("web_search_call",)


def test_one_freeform_tool_can_be_asked_for():
    chosen = {"type": "custom", "name": "apply_patch"}
    result = RESPONSES.parse_request(build_body(tools=[TOOL], tool_choice=chosen))
    assert result.tool_choice == NamedTool("apply_patch")


@pytest.mark.parametrize("group", ["", "files"])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
def test_a_call_is_reported_as_bare_text_whole_and_streamed(size, group):
    tools = [{"type": "namespace", "name": group, "tools": [TOOL]}] if group else [TOOL]
    glance = RESPONSES.peek(build_body(tools=tools))
    name = "files__apply_patch" if group else "apply_patch"
    given_ = json.dumps({"input": PATCH})
    pieces = [given_[at : at + size] for at in range(0, len(given_), size)]
    events = [
        *(ReplyStarted("x", "n"), ToolCallStarted(0, "a", name)),
        *(ToolCallDelta(0, piece) for piece in pieces),
        *(ToolCallDone(0, ToolCall("a", name, given_)), ReplyFinished("tool_calls")),
    ]
    writer = RESPONSES.create_writer(glance, "r", 1)
    stream = b"".join(map(writer.write, events))
    result = [json.loads(one.data) for one in sse.SseReader().feed(stream)]
    grown = [one for one in result if one["type"] == "response.custom_tool_call_input.delta"]
    assert "".join(one["delta"] for one in grown) == PATCH
    assert size == 1000 or len(grown) > len(PATCH) / (size + 12)
    (done,) = [one for one in result if one["type"] == "response.custom_tool_call_input.done"]
    assert done["input"] == PATCH
    whole = json.loads(RESPONSES.render_response(events, glance, "r", 1))
    last = result[-1]["response"]
    (item_done,) = [one["item"] for one in result if one["type"] == "response.output_item.done"]
    for item in (whole["output"][0], last["output"][0], item_done):
        assert (item["type"], item["name"]) == ("custom_tool_call", "apply_patch")
        assert (item["input"], item["call_id"]) == (PATCH, "a")
        assert item.get("namespace", "") == group
    with serving(stream) as url, openai.OpenAI(base_url=url, api_key="k", max_retries=0) as client:
        reply = list(client.responses.create(model="m", input="x", stream=True))[-1].response
    assert (reply.output[0].type, reply.output[0].input) == ("custom_tool_call", PATCH)


@given(text=st.text(), cuts=st.lists(st.integers(0, 200), max_size=8), ascii_=st.booleans())
def test_the_input_is_reported_exactly_however_it_was_cut(text, cuts, ascii_):
    arguments = json.dumps({"input": text}, ensure_ascii=ascii_)
    places = sorted({0, len(arguments), *(cut for cut in cuts if cut < len(arguments))})
    reader = InputReader()
    result = [reader.feed(arguments[a:b]) for a, b in itertools.pairwise(places)]
    assert "".join(result) + reader.close(arguments) == text
    assert unwrap_input(arguments) == unwrap_input(wrap_input(text)) == text


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ("{}", ""),
        ('{"patch": "x"}', "x"),
        ('{"other": 1, "input": "x"}', "x"),
        ("*** Begin Patch", "*** Begin Patch"),
        ('{"input": {"a": 1}}', '{"input": {"a": 1}}'),
        ('"x"', '"x"'),
    ],
)
def test_what_a_model_writes_otherwise_is_reported_in_the_end(arguments, meant):
    reader = InputReader()
    result = "".join(map(reader.feed, arguments))
    assert result + reader.close(arguments) == meant


def test_a_call_that_was_cut_off_shows_what_there_was():
    reader = InputReader()
    assert reader.feed('{"input": "half\\u00e') == "half"
    assert reader.close('{"input": "half\\u00e') == ""
    assert reader.text == "half"
