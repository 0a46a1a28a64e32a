"""Gemini: what is asked of it, and how its answers are understood."""

import json

import pytest

from agentd.errors import BadRequest
from agentd.proxy.dialects import gemini
from agentd.proxy.dialects.conversation import (
    CallDone,
    Conversation,
    Draft,
    Finished,
    Image,
    JsonFormat,
    Message,
    OneTool,
    SupplierError,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
)
from agentd.proxy.dialects.one_call import OneCallReader, without_further_calls
from agentd.proxy.price import Usage, from_gemini
from tests.proxy.dialects.streams import GEMINI, GEMINI_CALL, LS, chunks, gemini_piece

PROMPT = Message("user", (Text("Look around"),))
TOOL = Tool("ls", "List", {"properties": {"p": {"type": "string"}}})
PICTURE = Image("image/png", "iVBORw==")


def asked(model="gemini-3-pro", **fields):
    conversation = Conversation(**{"messages": (PROMPT,), **fields})
    return json.loads(gemini.request(conversation, model))


def read(*pieces):
    reader = gemini.reader()
    return [*reader.feed(chunks(*pieces)), *reader.close()]


def test_the_address_names_the_model_and_how_the_answer_comes():
    assert gemini.path("gemini-3-pro") == (
        "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse"
    )
    assert gemini.path("models/a b", stream=False) == "/v1beta/models/a%20b:generateContent"


def test_a_whole_conversation():
    seal = Thinking("gemini", "Hm", "EqQB==")
    result = ToolResult("call_1", (Text("etc"), PICTURE))
    body = asked(
        system="Be brief.",
        messages=(
            PROMPT,
            Message("assistant", (Text("I look."), seal, LS)),
            Message("user", (result, Text("And?"), Image(url="https://host/a.png"))),
        ),
        tools=(TOOL,),
        max_output=100,
        temperature=0.5,
        stop=("END",),
    )
    assert body == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Look around"}]},
            {
                "role": "model",
                "parts": [
                    {"text": "I look."},
                    {
                        "functionCall": {"id": "call_1", "name": "ls", "args": {"p": "/"}},
                        "thoughtSignature": "EqQB==",
                    },
                ],
            },
            {
                "role": "user",
                "parts": [
                    {
                        "functionResponse": {
                            "id": "call_1",
                            "name": "ls",
                            "response": {"output": "etc"},
                        }
                    },
                    {"text": "The pictures of the tool result call_1:"},
                    {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}},
                    {"text": "And?"},
                    {"fileData": {"fileUri": "https://host/a.png"}},
                ],
            },
        ],
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "ls",
                        "description": "List",
                        "parametersJsonSchema": {
                            "type": "object",
                            "properties": {"p": {"type": "string"}},
                        },
                    }
                ]
            }
        ],
        "generationConfig": {
            "maxOutputTokens": 100,
            "temperature": 0.5,
            "stopSequences": ["END"],
        },
    }


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        (OneTool("ls"), {"mode": "ANY", "allowedFunctionNames": ["ls"]}),
    ],
)
def test_the_choice_of_tools(choice, config):
    body = asked(tools=(TOOL,), tool_choice=choice)
    assert body["toolConfig"] == {"functionCallingConfig": config}
    assert "toolConfig" not in asked(tool_choice=choice) | asked(tools=(TOOL,))


@pytest.mark.parametrize(
    ("effort", "config"),
    [
        ("none", {"thinkingBudget": 0}),
        ("low", {"thinkingLevel": "LOW", "includeThoughts": True}),
        ("2048", {"thinkingBudget": 2048, "includeThoughts": True}),
    ],
)
def test_how_hard_to_think(effort, config):
    assert asked(effort=effort)["generationConfig"] == {"thinkingConfig": config}


def test_what_is_seldom_asked_for():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    wished = asked(top_p=0.5, top_k=7, reply_format=JsonFormat(schema), user="u")
    assert wished["generationConfig"] == {
        "topP": 0.5,
        "topK": 7,
        "responseMimeType": "application/json",
        "responseJsonSchema": schema,
    }
    assert asked(reply_format=JsonFormat())["generationConfig"] == {
        "responseMimeType": "application/json"
    }
    strict = asked(tools=(Tool("ls", "", {}, strict=True),))
    assert strict["toolConfig"] == {"functionCallingConfig": {"mode": "VALIDATED"}}


def test_one_tool_at_a_time_is_asked_for_in_words_and_further_calls_are_left_out():
    told = asked(system="Be brief.", tools=(TOOL,), parallel=False)
    (words,) = told["systemInstruction"]["parts"]
    assert words["text"].startswith("Be brief.\n\nCall at most one function")
    assert "systemInstruction" not in asked(parallel=False)
    calls = [{"functionCall": {"id": name, "name": name, "args": {}}} for name in "abc"]
    piece = {"candidates": [{"content": {"parts": calls}, "finishReason": "STOP"}]}
    reader = OneCallReader(gemini.reader())
    events = reader.feed(f"data: {json.dumps(piece)}\n\n".encode()) + reader.close()
    assert [event.call.name for event in events if isinstance(event, CallDone)] == ["a"]
    assert events[-1] == Finished("tool_calls")
    assert without_further_calls(gemini.answer(json.dumps(piece).encode())) == events


def test_what_it_cannot_do_is_said():
    with pytest.raises(BadRequest, match="verbosity"):
        asked(verbosity="low")
    with pytest.raises(BadRequest, match="'xhigh'"):
        asked(effort="xhigh")
    with pytest.raises(BadRequest, match="bytes and their type"):
        asked(messages=(Message("user", (Image(),)),))


def test_a_failed_tool_is_told_as_an_error():
    failed = ToolResult("call_1", (Text("gone"),), is_error=True)
    body = asked(messages=(PROMPT, Message("assistant", (LS,)), Message("user", (failed,))))
    answered = body["contents"][-1]["parts"][0]["functionResponse"]
    assert answered["response"] == {"error": "gone"}


def test_the_first_call_of_another_model_says_that_it_bears_no_seal():
    calls = Message("assistant", (LS, ToolCall("call_2", "ls")))
    results = Message("user", (ToolResult("call_1", ()), ToolResult("call_2", ())))
    messages = (PROMPT, calls, results)
    parts = asked(messages=messages)["contents"][1]["parts"]
    assert parts[0]["thoughtSignature"] == "skip_thought_signature_validator"
    assert "thoughtSignature" not in parts[1]
    older = asked("gemini-2.5-flash", messages=messages)["contents"][1]["parts"]
    assert "thoughtSignature" not in older[0]


def test_what_was_read_goes_back_as_it_came():
    draft = Draft()
    for event in gemini.answer(json.dumps(GEMINI).encode()):
        draft.add(event)
    assert draft.message() == Message(
        "assistant",
        (Thinking("gemini", "Look."), Text("I look."), Thinking("gemini", "", "EqQB=="), LS),
    )
    result = Message("user", (ToolResult("call_1", ()),))
    said = asked(messages=(PROMPT, draft.message(), result))["contents"][1]
    assert said["parts"] == GEMINI["candidates"][0]["content"]["parts"][1:]


def test_a_seal_at_the_end_of_a_reply_goes_back_alone():
    sealed = Message("assistant", (Text("Hi"), Thinking("gemini", "", "EqQB==")))
    said = asked(messages=(PROMPT, sealed, PROMPT))["contents"][1]
    assert said["parts"] == [{"text": "Hi"}, {"text": "", "thoughtSignature": "EqQB=="}]


@pytest.mark.parametrize(
    ("reason", "end"),
    [
        ("STOP", Finished("end")),
        ("MAX_TOKENS", Finished("length")),
        ("SAFETY", Finished("refused")),
        ("PROHIBITED_CONTENT", Finished("refused")),
        ("OTHER", Finished("refused")),
    ],
)
def test_why_it_ended(reason, end):
    assert read(gemini_piece([{"text": "a"}], finishReason=reason))[-1] == end


def test_a_call_that_nobody_can_follow_is_a_failure():
    (*_, end) = read(gemini_piece([], finishReason="MALFORMED_FUNCTION_CALL"))
    assert end == SupplierError("garbled", "The model failed: MALFORMED_FUNCTION_CALL")


def test_a_prompt_that_was_blocked_is_refused():
    (*_, end) = read({"promptFeedback": {"blockReason": "SAFETY"}, "responseId": "r"})
    assert end == Finished("refused")


def test_older_models_tell_the_reason_in_each_piece():
    told = read(
        gemini_piece([{"text": "a"}], finishReason="STOP"),
        gemini_piece([{"text": "b"}], finishReason="STOP"),
    )
    draft = Draft()
    for event in told:
        draft.add(event)
    assert (draft.text, draft.end) == ("ab", Finished("end"))


def test_calls_without_an_id_are_told_apart():
    call = {"functionCall": {"name": "ls"}}
    told = read(gemini_piece([call, call], finishReason="STOP"))
    ids = {event.call.id for event in told if isinstance(event, CallDone)}
    assert len(ids) == 2
    assert all(len(name) > 10 for name in ids)
    assert [event.call.arguments for event in told if isinstance(event, CallDone)] == ["{}", "{}"]


def test_an_error_within_the_stream():
    error = {"code": 429, "message": "Slow down", "status": "RESOURCE_EXHAUSTED"}
    assert read({"error": error}) == [SupplierError("rate_limit", "Slow down")]


def test_the_end_is_known_once_the_stream_is_closed():
    reader = gemini.reader()
    assert not any(isinstance(event, Finished) for event in reader.feed(GEMINI_CALL))
    assert reader.close() == [Finished("tool_calls")]


class TestUsage:
    def test_what_was_cached_is_inside_the_prompt_and_thinking_beside_the_reply(self):
        counted = from_gemini(GEMINI["usageMetadata"])
        assert counted == Usage(input=10, cache_read=20, output=5, reasoning=4)

    def test_thinking_inside_the_reply_is_not_counted_twice(self):
        told = {"promptTokenCount": 10, "candidatesTokenCount": 9, "thoughtsTokenCount": 4}
        assert from_gemini(told | {"totalTokenCount": 19}) == Usage(10, output=5, reasoning=4)
        assert from_gemini(told | {"totalTokenCount": 23}) == Usage(10, output=9, reasoning=4)
        assert from_gemini(told) == Usage(10, output=9, reasoning=4)

    def test_what_google_s_own_tools_gave_to_read_is_input(self):
        told = {"promptTokenCount": 10, "toolUsePromptTokenCount": 7, "totalTokenCount": 17}
        assert from_gemini(told) == Usage(input=17)

    @pytest.mark.parametrize("junk", [None, 7, [], {"promptTokenCount": "x"}, {"a": -1}])
    def test_what_is_no_count_is_none(self, junk):
        assert from_gemini(junk) == Usage()
