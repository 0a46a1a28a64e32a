"""Requests to Gemini's address are understood, or refused with what cannot be said."""

import json

import pytest

from agentd.core.errors import BadRequest
from agentd.llm.conversation import (
    Conversation,
    ImagePart,
    JsonFormat,
    ModelMessage,
    NamedTool,
    TextPart,
    Thinking,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from agentd.llm.dialects.caller import RequestSummary
from agentd.llm.dialects.gemini import request as gemini
from agentd.llm.dialects.gemini import upstream as supplier
from agentd.llm.dialects.thinking_signatures import wrap_thinking

HELLO = {"role": "user", "parts": [{"text": "Hello"}]}
CALL = {"role": "model", "parts": [{"functionCall": {"name": "ls", "args": {"p": "/"}}}]}
LS = {"name": "ls", "description": "List"}


def parse_contents(*contents, **fields):
    return gemini.parse_request(json.dumps({"contents": contents or [HELLO], **fields}).encode())


def parse_refused(*contents, **fields):
    with pytest.raises(BadRequest) as error:
        parse_contents(*contents, **fields)
    return error.value.message


def test_the_address_shows_the_model_and_whether_to_stream():
    body = json.dumps({"contents": [HELLO], "generationConfig": {"maxOutputTokens": 9}}).encode()
    assert gemini.peek(body, "gemini-3-pro", stream=True) == RequestSummary("gemini-3-pro", True, 9)
    assert gemini.peek(b'{"generation_config":{"candidate_count":3}}', "m").replies == 3
    for wrong in (b"", b"[]", b"{", b'{"a":1,"a":2}', b'{"generationConfig":7}', b"\xff"):
        with pytest.raises(BadRequest):
            gemini.peek(wrong, "m")
    with pytest.raises(BadRequest, match="no model"):
        gemini.peek(body)


def test_it_is_passed_on_as_it_was_but_for_a_model_named_within():
    body = b'{ "contents": [ ] }'
    assert gemini.rewrite_for_passthrough(body, "m") is body
    assert (
        gemini.rewrite_for_passthrough(b'{"model":"other", "contents":[1.0]}', "m")
        == b'{"contents":[1.0]}'
    )


def test_a_whole_conversation():
    body = parse_contents(
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
            "seed": 7,
            "stopSequences": ["END"],
        },
    )
    assert body == Conversation(
        messages=(
            ModelMessage("user", (TextPart("Hello"),)),
            ModelMessage(
                "assistant",
                (
                    Thinking("gemini", "Hm"),
                    TextPart("I look."),
                    Thinking("gemini", "", "EqQB=="),
                    ToolCall("c1", "ls", '{"p":"/"}'),
                ),
            ),
            ModelMessage(
                "user",
                (
                    ToolResult("c1", (TextPart("etc"), ImagePart("image/png", "iVB="))),
                    TextPart("And?"),
                    ImagePart(url="https://host/a.png"),
                ),
            ),
        ),
        system="Be brief.\n\nBe kind.",
        tools=(ToolDefinition("ls", "List", {"type": "object"}),),
        max_output=100,
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        seed=7,
        stop_sequences=("END",),
    )


def test_underscores_mean_the_same_but_not_below_what_is_the_caller_s_own():
    underscored = parse_contents(
        {"parts": [{"inline_data": {"mime_type": "image/png", "data": "iVB="}}]},
        {"role": "model", "parts": [{"function_call": {"name": "ls", "args": {"a_b": 1}}}]},
        {"parts": [{"function_response": {"name": "ls", "response": {"c_d": 2}}}]},
        system_instruction={"parts": [{"text": "Be brief."}]},
        generation_config={"max_output_tokens": 100, "thinking_config": None},
    )
    assert underscored.system == "Be brief."
    assert underscored.max_output == 100
    picture, call, result = [message.parts[0] for message in underscored.messages]
    assert picture == ImagePart("image/png", "iVB=")
    assert call.arguments == '{"a_b":1}'
    assert result.content == (TextPart('{"c_d":2}'),)
    with pytest.raises(BadRequest, match="repeated"):
        gemini.parse_request(b'{"contents":[],"tool_config":{},"toolConfig":{}}')


def test_calls_without_ids_find_their_results_by_their_names():
    call = CALL["parts"][0]
    other = {"functionCall": {"name": "cat"}}
    answers = [
        {"functionResponse": {"name": name, "response": {"output": said}}}
        for name, said in (("cat", "c"), ("ls", "a"), ("ls", "b"))
    ]
    found = parse_contents(
        HELLO, {"role": "model", "parts": [call, call, other]}, {"parts": answers}, CALL
    )
    ids = [part.id for part in found.messages[1].parts]
    assert len(set(ids)) == 3
    results = {part.id: part.content[0].text for part in found.messages[2].parts}
    assert [results[name] for name in ids] == ["a", "b", "c"]
    assert found.messages[3].parts[0].id not in ids
    assert "matches no function call" in parse_refused(HELLO, {"parts": answers})


def test_the_contents_of_one_streamed_reply_are_one_turn():
    """Google's chats keep a reply as one content for each chunk, the last one without text."""
    called = [
        {"role": "model", "parts": [{"functionCall": {"id": name, "name": "ls"}}]} for name in "ab"
    ]
    end = {"role": "model", "parts": [{"text": ""}]}
    answers = [
        {"functionResponse": {"id": name, "name": "ls", "response": {"output": name}}}
        for name in "ba"
    ]
    reply, results = parse_contents(HELLO, *called, end, {"parts": answers}).messages[1:]
    assert [part.id for part in reply.parts] == ["a", "b"]
    assert [(part.id, part.content[0].text) for part in results.parts] == [("b", "b"), ("a", "a")]


def test_the_texts_of_one_streamed_reply_are_one_text():
    """Chunks of whitespace alone would get lost, and each of the others would be a message."""
    pieces = ["One\n", "\n", "- two", " three", ""]
    chunks = [{"role": "model", "parts": [{"text": piece}]} for piece in pieces]
    shown = {"role": "model", "parts": [CALL["parts"][0], {"text": "four"}, {"text": " five"}]}
    said = {"parts": [{"text": "a"}, {"text": "b"}]}
    user, reply = parse_contents(said, *chunks, shown).messages
    assert user.parts == (TextPart("a"), TextPart("b"))
    first, call, last = reply.parts
    assert (first, last) == (TextPart("One\n\n- two three"), TextPart("four five"))
    assert call.name == "ls"


@pytest.mark.parametrize("role", ["user", "function", "tool", "", None])
def test_results_are_given_in_any_role_that_google_names(role):
    answer = {"functionResponse": {"name": "ls", "response": {"output": "etc"}}}
    *_, last = parse_contents(HELLO, CALL, {"role": role, "parts": [answer]}).messages
    assert (last.role, last.parts[0].content) == ("user", (TextPart("etc"),))


@pytest.mark.parametrize("role", ["system", "user", "model", "", None])
def test_instructions_are_given_in_any_role(role):
    given = {"role": role, "parts": [{"text": "Be brief."}]}
    assert parse_contents(systemInstruction=given).system == "Be brief."


def test_a_response_belongs_to_a_call_of_the_turn_before_it():
    answer = {"parts": [{"functionResponse": {"name": "ls", "response": {"output": "etc"}}}]}
    messages = parse_contents(HELLO, CALL, HELLO, CALL, answer).messages
    assert messages[4].parts[0].id == messages[3].parts[0].id != messages[1].parts[0].id


def test_a_thought_with_another_supplier_s_seal_is_not_shown_as_text():
    thinking = Thinking("anthropic", "Hm", "EqQB==")
    piece = {
        "text": "Hm",
        "thought": True,
        "thoughtSignature": wrap_thinking(thinking, with_text=True),
    }
    reply = parse_contents(HELLO, {"role": "model", "parts": [piece, {"text": "Yes"}]}).messages[1]
    assert reply.parts == (thinking, TextPart("Yes"))


def test_a_single_value_is_a_list_of_one():
    """As in Google's own examples: {"parts": {"text": "Hello"}}."""
    alone = {
        "contents": {"parts": {"text": "Hello"}},
        "system_instruction": {"parts": {"text": "Be brief."}},
        "tools": {"function_declarations": LS},
        "tool_config": {"function_calling_config": {"mode": "any", "allowed_function_names": "ls"}},
        "generation_config": {"stop_sequences": "END"},
    }
    found = gemini.parse_request(json.dumps(alone).encode())
    assert found.messages == (ModelMessage("user", (TextPart("Hello"),)),)
    assert (found.system, found.stop_sequences) == ("Be brief.", ("END",))
    assert ([tool.name for tool in found.tools], found.tool_choice) == (["ls"], NamedTool("ls"))


@pytest.mark.parametrize("tools", [{"googleSearch": {}}, [{"google_search": {}}]])
def test_a_search_by_google_is_noticed_because_it_costs_a_fee(tools):
    assert gemini.peek(json.dumps({"tools": tools}).encode(), "m").uses_paid_tools
    assert not gemini.peek(json.dumps({"tools": LS}).encode(), "m").uses_paid_tools


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
    (result,) = parse_contents(CALL, {"parts": [answer]}).messages[-1].parts
    assert (result.content, result.is_error) == ((TextPart(words),), failed)


@pytest.mark.parametrize(
    ("config", "choice"),
    [
        ({"mode": "AUTO"}, "auto"),
        ({"mode": "VALIDATED"}, "auto"),
        ({"mode": "NONE"}, "none"),
        ({"mode": "ANY"}, "required"),
        ({"mode": "ANY", "allowedFunctionNames": ["ls"]}, NamedTool("ls")),
        ({"mode": "ANY", "allowedFunctionNames": ["cat", "ls"]}, "required"),
    ],
)
def test_the_choice_of_tools(config, choice):
    tools = [{"functionDeclarations": [LS, LS | {"name": "cat"}]}]
    output = parse_contents(tools=tools, toolConfig={"functionCallingConfig": config})
    assert output.tool_choice == choice
    assert [tool.name for tool in output.tools] == ["ls", "cat"]


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
    assert parse_contents(generationConfig={"thinkingConfig": config}).reasoning_effort == effort


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
    (tool,) = parse_contents(tools=[{"functionDeclarations": [LS | {"parameters": own}]}]).tools
    assert tool.schema == {
        "type": "object",
        "properties": {
            "max_items": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
            "b": {"anyOf": [{"type": ["number", "null"]}, {"type": "boolean"}]},
        },
        "required": ["b"],
    }
    settings = {"responseMimeType": "application/json", "responseSchema": {"type": "INTEGER"}}
    assert parse_contents(generationConfig=settings).response_format == JsonFormat(
        {"type": "integer"}
    )


@pytest.mark.parametrize(
    ("own", "standard"),
    [
        (
            {"type": "STRING", "format": "enum", "enum": ["a", "b"]},
            {"type": "string", "enum": ["a", "b"]},
        ),
        ({"type": "INTEGER", "format": "int32"}, {"type": "integer"}),
        ({"type": "STRING", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        (
            {"type": "STRING", "enum": ["a"], "nullable": True},
            {"type": ["string", "null"], "enum": ["a", None]},
        ),
        (
            {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}], "nullable": True},
            {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]},
        ),
        ({"nullable": True}, {}),
        ({"type": "STRING", "nullable": False}, {"type": "string"}),
    ],
)
def test_what_a_schema_means_to_others(own, standard):
    settings = {"responseMimeType": "application/json", "responseSchema": own}
    wanted = parse_contents(generationConfig=settings).response_format
    assert wanted == JsonFormat(standard)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "OBJECT", "wonder": 1}, "'wonder' is not a field"),
        ({"type": "ARRAY", "items": 7}, "not a JSON Schema"),
        ({"minItems": "x"}, "'minItems' must be a number"),
    ],
)
def test_what_is_no_schema_is_refused(schema, words):
    assert words in parse_refused(tools=[{"functionDeclarations": [LS | {"parameters": schema}]}])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"tools": [{"googleSearch": {}}]}, "googleSearch"),
        ({"cachedContent": "cachedContents/1"}, "stored at Google"),
        ({"generationConfig": {"seed": "one"}}, "seed"),
        ({"generationConfig": {"candidateCount": 2}}, "candidateCount"),
        ({"generationConfig": {"presencePenalty": 0.1}}, "presencePenalty"),
        ({"generationConfig": {"frequency_penalty": -1}}, "frequencyPenalty"),
        ({"generationConfig": {"responseModalities": ["IMAGE"]}}, "IMAGE"),
        ({"wonder": 1}, "wonder"),
        ({"contents": [{"parts": [{"executableCode": {}}]}]}, "executableCode"),
        (
            {"contents": [{"parts": [{"inlineData": {"mimeType": "audio/wav", "data": "x"}}]}]},
            "audio/wav",
        ),
        ({"contents": [{"parts": [{"fileData": {"fileUri": "files/1"}}]}]}, "http(s)"),
        (
            {
                "tools": [
                    {"functionDeclarations": [LS, LS | {"name": "b"}, LS | {"name": "c"}]},
                ],
                "toolConfig": {
                    "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["ls", "b"]}
                },
            },
            "Requiring one of several tools",
        ),
    ],
)
def test_what_cannot_be_said_to_others_is_refused(fields, words):
    assert words in parse_refused(**fields)


def test_what_others_need_not_know_is_left_out():
    settings = [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]
    assert parse_contents(safetySettings=settings, model="x") == parse_contents()
    for tier in ("standard", "SERVICE_TIER_UNSPECIFIED"):
        more = {"labels": {"team": "a"}, "store": False, "serviceTier": tier}
        assert parse_contents(**more) == parse_contents()
    assert parse_contents(generationConfig={"responseModalities": "TEXT"}) == parse_contents()
    none = {"presencePenalty": 0, "frequencyPenalty": 0.0}
    assert parse_contents(generationConfig=none) == parse_contents()


def test_what_is_said_to_a_supplier_comes_back_as_it_was():
    seal = Thinking("gemini", "", "EqQB==")
    conversation = Conversation(
        messages=(
            ModelMessage("user", (TextPart("Look"), ImagePart("image/png", "iVB="))),
            ModelMessage(
                "assistant", (TextPart("I look."), seal, ToolCall("c1", "ls", '{"p":"/"}'))
            ),
            ModelMessage(
                "user", (ToolResult("c1", (TextPart("gone"),), is_error=True), TextPart("And?"))
            ),
        ),
        system="Be brief.",
        tools=(
            ToolDefinition(
                "ls", "List", {"type": "object", "properties": {"p": {"type": "string"}}}
            ),
        ),
        tool_choice=NamedTool("ls"),
        max_output=100,
        reasoning_effort="low",
        temperature=0.5,
        top_p=0.5,
        top_k=3,
        stop_sequences=("END",),
        response_format=JsonFormat({"type": "object"}),
    )
    assert (
        gemini.parse_request(supplier.encode_request(conversation, "gemini-3-pro")) == conversation
    )
