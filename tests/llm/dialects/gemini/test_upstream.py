"""Gemini: what is asked of it, and how its answers are understood."""

import json

import pytest

from agentd.core.errors import BadRequest
from agentd.llm.conversation import (
    Conversation,
    ImagePart,
    JsonFormat,
    ModelMessage,
    NamedTool,
    ReplyBuilder,
    ReplyFinished,
    SupplierError,
    TextPart,
    Thinking,
    ToolCall,
    ToolCallDone,
    ToolDefinition,
    ToolResult,
)
from agentd.llm.dialects.gemini import upstream as gemini_upstream
from agentd.llm.dialects.single_tool_call import FirstCallReader, drop_further_calls
from agentd.llm.price import Usage, parse_gemini_usage
from tests.llm.dialects.streams import GEMINI, GEMINI_CALL, LS, build_gemini_piece, encode_chunks

PROMPT = ModelMessage("user", (TextPart("Look around"),))
TOOL = ToolDefinition("ls", "List", {"properties": {"p": {"type": "string"}}})
PICTURE = ImagePart("image/png", "iVBORw==")


def encode_fields(model="gemini-3-pro", **fields):
    conversation = Conversation(**{"messages": (PROMPT,), **fields})
    return json.loads(gemini_upstream.encode_request(conversation, model))


def read_chunks(*pieces):
    reader = gemini_upstream.create_reader()
    return [*reader.feed(encode_chunks(*pieces)), *reader.close()]


def test_the_address_names_the_model_and_how_the_answer_comes():
    assert gemini_upstream.get_path("gemini-3-pro") == (
        "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse"
    )
    assert (
        gemini_upstream.get_path("models/a b", stream=False)
        == "/v1beta/models/a%20b:generateContent"
    )


def test_a_whole_conversation():
    seal = Thinking("gemini", "Hm", "EqQB==")
    result = ToolResult("call_1", (TextPart("etc"), PICTURE))
    body = encode_fields(
        system="Be brief.",
        messages=(
            PROMPT,
            ModelMessage("assistant", (TextPart("I look."), seal, LS)),
            ModelMessage("user", (result, TextPart("And?"), ImagePart(url="https://host/a.png"))),
        ),
        tools=(TOOL,),
        max_output=100,
        temperature=0.5,
        stop_sequences=("END",),
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
        (NamedTool("ls"), {"mode": "ANY", "allowedFunctionNames": ["ls"]}),
    ],
)
def test_the_choice_of_tools(choice, config):
    body = encode_fields(tools=(TOOL,), tool_choice=choice)
    assert body["toolConfig"] == {"functionCallingConfig": config}
    assert "toolConfig" not in encode_fields(tool_choice=choice) | encode_fields(tools=(TOOL,))


@pytest.mark.parametrize(
    ("effort", "config"),
    [
        ("none", {"thinkingBudget": 0}),
        ("low", {"thinkingLevel": "LOW", "includeThoughts": True}),
        ("2048", {"thinkingBudget": 2048, "includeThoughts": True}),
    ],
)
def test_how_hard_to_think(effort, config):
    assert encode_fields(reasoning_effort=effort)["generationConfig"] == {"thinkingConfig": config}


def test_what_is_seldom_asked_for():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    wished = encode_fields(
        top_p=0.5, top_k=7, seed=-(2**31), response_format=JsonFormat(schema), user="u"
    )
    assert wished["generationConfig"] == {
        "topP": 0.5,
        "topK": 7,
        "seed": -(2**31),
        "responseMimeType": "application/json",
        "responseJsonSchema": schema,
    }
    assert encode_fields(response_format=JsonFormat())["generationConfig"] == {
        "responseMimeType": "application/json"
    }
    strict = encode_fields(tools=(ToolDefinition("ls", "", {}, strict=True),))
    assert strict["toolConfig"] == {"functionCallingConfig": {"mode": "VALIDATED"}}


def test_one_tool_at_a_time_is_asked_for_in_words_and_further_calls_are_left_out():
    reply = encode_fields(system="Be brief.", tools=(TOOL,), parallel_tool_calls=False)
    (words,) = reply["systemInstruction"]["parts"]
    assert words["text"].startswith("Be brief.\n\nCall at most one function")
    assert "systemInstruction" not in encode_fields(parallel_tool_calls=False)
    calls = [{"functionCall": {"id": name, "name": name, "args": {}}} for name in "abc"]
    piece = {"candidates": [{"content": {"parts": calls}, "finishReason": "STOP"}]}
    reader = FirstCallReader(gemini_upstream.create_reader())
    events = reader.feed(f"data: {json.dumps(piece)}\n\n".encode()) + reader.close()
    assert [event.call.name for event in events if isinstance(event, ToolCallDone)] == ["a"]
    assert events[-1] == ReplyFinished("tool_calls")
    assert drop_further_calls(gemini_upstream.parse_response(json.dumps(piece).encode())) == events


def test_what_it_cannot_do_is_said():
    with pytest.raises(BadRequest, match="verbosity"):
        encode_fields(verbosity="low")
    with pytest.raises(BadRequest, match="'xhigh'"):
        encode_fields(reasoning_effort="xhigh")
    with pytest.raises(BadRequest, match="bytes and their media type"):
        encode_fields(messages=(ModelMessage("user", (ImagePart(),)),))


def test_a_failed_tool_is_reported_as_an_error():
    failed = ToolResult("call_1", (TextPart("gone"),), is_error=True)
    body = encode_fields(
        messages=(PROMPT, ModelMessage("assistant", (LS,)), ModelMessage("user", (failed,)))
    )
    answered = body["contents"][-1]["parts"][0]["functionResponse"]
    assert answered["response"] == {"error": "gone"}


def test_the_first_call_of_another_model_says_that_it_has_no_seal():
    calls = ModelMessage("assistant", (LS, ToolCall("call_2", "ls")))
    results = ModelMessage("user", (ToolResult("call_1", ()), ToolResult("call_2", ())))
    messages = (PROMPT, calls, results)
    parts = encode_fields(messages=messages)["contents"][1]["parts"]
    assert parts[0]["thoughtSignature"] == "skip_thought_signature_validator"
    assert "thoughtSignature" not in parts[1]
    older = encode_fields("gemini-2.5-flash", messages=messages)["contents"][1]["parts"]
    assert "thoughtSignature" not in older[0]


def test_what_was_read_goes_back_as_it_came():
    draft = ReplyBuilder()
    for event in gemini_upstream.parse_response(json.dumps(GEMINI).encode()):
        draft.add(event)
    assert draft.build_message() == ModelMessage(
        "assistant",
        (Thinking("gemini", "Look."), TextPart("I look."), Thinking("gemini", "", "EqQB=="), LS),
    )
    result = ModelMessage("user", (ToolResult("call_1", ()),))
    said = encode_fields(messages=(PROMPT, draft.build_message(), result))["contents"][1]
    assert said["parts"] == GEMINI["candidates"][0]["content"]["parts"][1:]


def test_a_seal_at_the_end_of_a_reply_goes_back_alone():
    sealed = ModelMessage("assistant", (TextPart("Hi"), Thinking("gemini", "", "EqQB==")))
    said = encode_fields(messages=(PROMPT, sealed, PROMPT))["contents"][1]
    assert said["parts"] == [{"text": "Hi"}, {"text": "", "thoughtSignature": "EqQB=="}]


@pytest.mark.parametrize(
    ("reason", "end"),
    [
        ("STOP", ReplyFinished("end")),
        ("MAX_TOKENS", ReplyFinished("length")),
        ("SAFETY", ReplyFinished("refused")),
        ("PROHIBITED_CONTENT", ReplyFinished("refused")),
        ("OTHER", ReplyFinished("refused")),
    ],
)
def test_why_it_ended(reason, end):
    assert read_chunks(build_gemini_piece([{"text": "a"}], finishReason=reason))[-1] == end


def test_a_call_that_nobody_can_follow_is_a_failure():
    (*_, end) = read_chunks(build_gemini_piece([], finishReason="MALFORMED_FUNCTION_CALL"))
    assert end == SupplierError("unusable_reply", "The model failed: MALFORMED_FUNCTION_CALL")


def test_a_prompt_that_was_blocked_is_refused():
    (*_, end) = read_chunks({"promptFeedback": {"blockReason": "SAFETY"}, "responseId": "r"})
    assert end == ReplyFinished("refused")


def test_older_models_show_the_reason_in_each_piece():
    reply = read_chunks(
        build_gemini_piece([{"text": "a"}], finishReason="STOP"),
        build_gemini_piece([{"text": "b"}], finishReason="STOP"),
    )
    draft = ReplyBuilder()
    for event in reply:
        draft.add(event)
    assert (draft.text, draft.end) == ("ab", ReplyFinished("end"))


def test_calls_without_an_id_are_reported_apart():
    call = {"functionCall": {"name": "ls"}}
    reply = read_chunks(build_gemini_piece([call, call], finishReason="STOP"))
    ids = {event.call.id for event in reply if isinstance(event, ToolCallDone)}
    assert len(ids) == 2
    assert all(len(name) > 10 for name in ids)
    assert [event.call.arguments for event in reply if isinstance(event, ToolCallDone)] == [
        "{}",
        "{}",
    ]


def test_an_error_within_the_stream():
    error = {"code": 429, "message": "Slow down", "status": "RESOURCE_EXHAUSTED"}
    assert read_chunks({"error": error}) == [SupplierError("rate_limit", "Slow down")]


def test_the_end_is_known_once_the_stream_is_closed():
    reader = gemini_upstream.create_reader()
    assert not any(isinstance(event, ReplyFinished) for event in reader.feed(GEMINI_CALL))
    assert reader.close() == [ReplyFinished("tool_calls")]


class TestUsage:
    def test_what_was_cached_is_inside_the_prompt_and_thinking_beside_the_reply(self):
        counted = parse_gemini_usage(GEMINI["usageMetadata"])
        assert counted == Usage(input=10, cache_read=20, output=5, reasoning=4)

    def test_thinking_inside_the_reply_is_not_counted_twice(self):
        reply = {"promptTokenCount": 10, "candidatesTokenCount": 9, "thoughtsTokenCount": 4}
        assert parse_gemini_usage(reply | {"totalTokenCount": 19}) == Usage(
            10, output=5, reasoning=4
        )
        assert parse_gemini_usage(reply | {"totalTokenCount": 23}) == Usage(
            10, output=9, reasoning=4
        )
        assert parse_gemini_usage(reply) == Usage(10, output=9, reasoning=4)

    def test_what_google_s_own_tools_gave_to_read_is_input(self):
        reply = {"promptTokenCount": 10, "toolUsePromptTokenCount": 7, "totalTokenCount": 17}
        assert parse_gemini_usage(reply) == Usage(input=17)

    @pytest.mark.parametrize("junk", [None, 7, [], {"promptTokenCount": "x"}, {"a": -1}])
    def test_what_is_no_count_is_none(self, junk):
        assert parse_gemini_usage(junk) == Usage()
