"""Requests to Gemini's address are understood, or refused with what cannot be said."""

import json

import pytest

from agentd.errors import BadRequest
from agentd.proxy.dialects import gemini as supplier
from agentd.proxy.dialects.caller import Glance
from agentd.proxy.dialects.callers import asked_gemini as gemini
from agentd.proxy.dialects.conversation import (
    Conversation,
    Image,
    JsonFormat,
    Message,
    OneTool,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
)

HELLO = {"role": "user", "parts": [{"text": "Hello"}]}
CALL = {"role": "model", "parts": [{"functionCall": {"name": "ls", "args": {"p": "/"}}}]}
LS = {"name": "ls", "description": "List"}


def understood(*contents, **fields):
    return gemini.understood(json.dumps({"contents": contents or [HELLO], **fields}).encode())


def refused(*contents, **fields):
    with pytest.raises(BadRequest) as error:
        understood(*contents, **fields)
    return error.value.message


def test_the_address_tells_the_model_and_whether_to_stream():
    body = json.dumps({"contents": [HELLO], "generationConfig": {"maxOutputTokens": 9}}).encode()
    assert gemini.glance(body, "gemini-3-pro", stream=True) == Glance("gemini-3-pro", True, 9)
    assert gemini.glance(b'{"generation_config":{"candidate_count":3}}', "m").replies == 3
    for wrong in (b"", b"[]", b"{", b'{"a":1,"a":2}', b'{"generationConfig":7}', b"\xff"):
        with pytest.raises(BadRequest):
            gemini.glance(wrong, "m")
    with pytest.raises(BadRequest, match="no model"):
        gemini.glance(body)


def test_it_is_passed_on_as_it_was_but_for_a_model_named_within():
    body = b'{ "contents": [ ] }'
    assert gemini.passed_on(body, "m") is body
    assert gemini.passed_on(b'{"model":"other", "contents":[1.0]}', "m") == b'{"contents":[1.0]}'


def test_a_whole_conversation():
    body = understood(
        HELLO,
        {
            "role": "model",
            "parts": [
                {"text": "Hm", "thought": True},
                {"text": "I look."},
                {
                    "functionCall": {"id": "c1", "name": "ls", "args": {"p": "/"}},
                    "thoughtSignature": "EqQB==",
                },
            ],
        },
        {
            "parts": [
                {
                    "functionResponse": {
                        "id": "c1",
                        "name": "ls",
                        "response": {"output": "etc"},
                        "parts": [{"inlineData": {"mimeType": "image/png", "data": "iVB="}}],
                    }
                },
                {"text": "And?"},
                {"fileData": {"fileUri": "https://host/a.png"}},
            ]
        },
        systemInstruction={"parts": [{"text": "Be brief."}, {"text": "Be kind."}]},
        tools=[{"functionDeclarations": [LS | {"parametersJsonSchema": {"type": "object"}}]}],
        generationConfig={
            "maxOutputTokens": 100,
            "temperature": 0.5,
            "topP": 0.9,
            "topK": 40,
            "stopSequences": ["END"],
        },
    )
    assert body == Conversation(
        messages=(
            Message("user", (Text("Hello"),)),
            Message(
                "assistant",
                (
                    Thinking("gemini", "Hm"),
                    Text("I look."),
                    Thinking("gemini", "", "EqQB=="),
                    ToolCall("c1", "ls", '{"p":"/"}'),
                ),
            ),
            Message(
                "user",
                (
                    ToolResult("c1", (Text("etc"), Image("image/png", "iVB="))),
                    Text("And?"),
                    Image(url="https://host/a.png"),
                ),
            ),
        ),
        system="Be brief.\n\nBe kind.",
        tools=(Tool("ls", "List", {"type": "object"}),),
        max_output=100,
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        stop=("END",),
    )


def test_underscores_mean_the_same_but_not_below_what_is_the_caller_s_own():
    underscored = understood(
        {"parts": [{"inline_data": {"mime_type": "image/png", "data": "iVB="}}]},
        {"role": "model", "parts": [{"function_call": {"name": "ls", "args": {"a_b": 1}}}]},
        {"parts": [{"function_response": {"name": "ls", "response": {"c_d": 2}}}]},
        system_instruction={"parts": [{"text": "Be brief."}]},
        generation_config={"max_output_tokens": 100, "thinking_config": None},
    )
    assert underscored.system == "Be brief."
    assert underscored.max_output == 100
    picture, call, result = [message.parts[0] for message in underscored.messages]
    assert picture == Image("image/png", "iVB=")
    assert call.arguments == '{"a_b":1}'
    assert result.content == (Text('{"c_d":2}'),)
    with pytest.raises(BadRequest, match="twice"):
        gemini.understood(b'{"contents":[],"tool_config":{},"toolConfig":{}}')


def test_calls_without_ids_find_their_results_by_their_names():
    call = CALL["parts"][0]
    other = {"functionCall": {"name": "cat"}}
    answers = [
        {"functionResponse": {"name": name, "response": {"output": said}}}
        for name, said in (("cat", "c"), ("ls", "a"), ("ls", "b"))
    ]
    found = understood(
        HELLO, {"role": "model", "parts": [call, call, other]}, {"parts": answers}, CALL
    )
    ids = [part.id for part in found.messages[1].parts]
    assert len(set(ids)) == 3
    results = {part.id: part.content[0].text for part in found.messages[2].parts}
    assert [results[name] for name in ids] == ["a", "b", "c"]
    assert found.messages[3].parts[0].id not in ids
    assert "answers no call" in refused(HELLO, {"parts": answers})


@pytest.mark.parametrize(
    ("response", "words", "failed"),
    [
        ({"output": "a"}, "a", False),
        ({"output": {"b": 1}}, '{"b":1}', False),
        ({"error": "no"}, "no", True),
        ({"result": "a"}, '{"result":"a"}', False),
        ({}, "{}", False),
    ],
)
def test_what_a_tool_gave_back(response, words, failed):
    answer = {"functionResponse": {"name": "ls", "response": response}}
    (result,) = understood(CALL, {"parts": [answer]}).messages[-1].parts
    assert (result.content, result.is_error) == ((Text(words),), failed)


@pytest.mark.parametrize(
    ("config", "choice"),
    [
        ({"mode": "AUTO"}, "auto"),
        ({"mode": "VALIDATED"}, "auto"),
        ({"mode": "NONE"}, "none"),
        ({"mode": "ANY"}, "required"),
        ({"mode": "ANY", "allowedFunctionNames": ["ls"]}, OneTool("ls")),
        ({"mode": "ANY", "allowedFunctionNames": ["cat", "ls"]}, "required"),
    ],
)
def test_the_choice_of_tools(config, choice):
    tools = [{"functionDeclarations": [LS, LS | {"name": "cat"}]}]
    told = understood(tools=tools, toolConfig={"functionCallingConfig": config})
    assert told.tool_choice == choice
    assert [tool.name for tool in told.tools] == ["ls", "cat"]


@pytest.mark.parametrize(
    ("config", "effort"),
    [
        ({}, ""),
        ({"thinkingBudget": 0}, "none"),
        ({"thinkingBudget": -1}, ""),
        ({"thinkingBudget": 2048, "includeThoughts": True}, "2048"),
        ({"thinkingLevel": "LOW"}, "low"),
        ({"thinkingLevel": "THINKING_LEVEL_UNSPECIFIED"}, ""),
    ],
)
def test_how_hard_to_think(config, effort):
    assert understood(generationConfig={"thinkingConfig": config}).effort == effort


def test_a_schema_in_gemini_s_own_form():
    own = {
        "type": "OBJECT",
        "properties": {
            "max_items": {"type": "ARRAY", "items": {"type": "STRING"}, "max_items": "3"},
            "b": {"anyOf": [{"type": "NUMBER", "nullable": True}, {"type": "BOOLEAN"}]},
        },
        "required": ["b"],
        "propertyOrdering": ["b"],
    }
    (tool,) = understood(tools=[{"functionDeclarations": [LS | {"parameters": own}]}]).tools
    assert tool.schema == {
        "type": "object",
        "properties": {
            "max_items": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
            "b": {"anyOf": [{"type": ["number", "null"]}, {"type": "boolean"}]},
        },
        "required": ["b"],
    }
    settings = {"responseMimeType": "application/json", "responseSchema": {"type": "INTEGER"}}
    assert understood(generationConfig=settings).reply_format == JsonFormat({"type": "integer"})


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "OBJECT", "wonder": 1}, "'wonder' is no field"),
        ({"type": "ARRAY", "items": 7}, "no schema"),
        ({"minItems": "x"}, "'minItems' is a number"),
    ],
)
def test_what_is_no_schema_is_refused(schema, words):
    assert words in refused(tools=[{"functionDeclarations": [LS | {"parameters": schema}]}])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"tools": [{"googleSearch": {}}]}, "googleSearch"),
        ({"cachedContent": "cachedContents/1"}, "stored at Google"),
        ({"generationConfig": {"seed": 1}}, "seed"),
        ({"generationConfig": {"candidateCount": 2}}, "candidateCount"),
        ({"generationConfig": {"responseModalities": ["IMAGE"]}}, "IMAGE"),
        ({"wonder": 1}, "wonder"),
        ({"contents": [{"parts": [{"executableCode": {}}]}]}, "executableCode"),
        (
            {"contents": [{"parts": [{"inlineData": {"mimeType": "audio/wav", "data": "x"}}]}]},
            "audio/wav",
        ),
        ({"contents": [{"parts": [{"fileData": {"fileUri": "files/1"}}]}]}, "public address"),
        (
            {
                "tools": [
                    {"functionDeclarations": [LS, LS | {"name": "b"}, LS | {"name": "c"}]},
                ],
                "toolConfig": {
                    "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["ls", "b"]}
                },
            },
            "some of the tools",
        ),
    ],
)
def test_what_cannot_be_said_to_others_is_refused(fields, words):
    assert words in refused(**fields)


def test_what_others_need_not_know_is_left_out():
    settings = [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]
    assert understood(safetySettings=settings, model="x") == understood()


def test_what_is_said_to_a_supplier_comes_back_as_it_was():
    seal = Thinking("gemini", "", "EqQB==")
    conversation = Conversation(
        messages=(
            Message("user", (Text("Look"), Image("image/png", "iVB="))),
            Message("assistant", (Text("I look."), seal, ToolCall("c1", "ls", '{"p":"/"}'))),
            Message("user", (ToolResult("c1", (Text("gone"),), is_error=True), Text("And?"))),
        ),
        system="Be brief.",
        tools=(Tool("ls", "List", {"type": "object", "properties": {"p": {"type": "string"}}}),),
        tool_choice=OneTool("ls"),
        max_output=100,
        effort="low",
        temperature=0.5,
        top_p=0.5,
        top_k=3,
        stop=("END",),
        reply_format=JsonFormat({"type": "object"}),
    )
    assert gemini.understood(supplier.request(conversation, "gemini-3-pro")) == conversation
