"""Requests for Anthropic's messages, as Anthropic's client and Claude Code make them."""

import json

import pytest
from anthropic.types import Message as Reply
from pydantic import BaseModel

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
from agentd.llm.dialects.anthropic.request import parse_request, peek, rewrite_for_passthrough
from agentd.llm.dialects.caller import RequestSummary
from agentd.llm.dialects.openai_chat import upstream as openai_chat_upstream
from agentd.llm.dialects.openai_responses import upstream as openai_responses_upstream
from tests.llm.dialects.clients import capture_anthropic_body

USER = {"role": "user", "content": "Hi"}
MARK = {"type": "ephemeral"}
CLAUDE_CODE = {
    "model": "m",
    "max_tokens": 32000,
    "stream": True,
    "temperature": 1,
    "system": [
        {"type": "text", "text": "You code."},
        {"type": "text", "text": "Be terse.", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
    ],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "<system-reminder>Mind.</system-reminder>"},
                {"type": "text", "text": "Go on", "cache_control": MARK},
            ],
        }
    ],
    "tools": [
        {"name": "Bash", "description": "Runs", "input_schema": {"type": "object"}},
        {
            "name": "Read",
            "description": "Reads",
            "input_schema": {"type": "object"},
            "cache_control": MARK,
            "eager_input_streaming": True,
        },
    ],
    "thinking": {"type": "enabled", "budget_tokens": 31999},
    "metadata": {"user_id": "user_" + "0" * 64 + "_account__session_" + "1" * 36},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
}


class Name(BaseModel):
    name: str


def build_body(**fields):
    return json.dumps({"model": "m", "max_tokens": 9, "messages": [USER], **fields}).encode()


def parse_content(*content):
    (message,) = parse_request(
        build_body(messages=[{"role": "user", "content": list(content)}])
    ).messages
    return message.parts


def test_a_whole_turn_by_anthropics_client():
    reply = Reply.model_validate(
        {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
            "content": [
                {"type": "thinking", "thinking": "Hm", "signature": "EqQB=="},
                {"type": "redacted_thinking", "data": "sealed"},
                {"type": "text", "text": "I look", "citations": None},
                {"type": "tool_use", "id": "a", "name": "ls", "input": {"p": 1}},
            ],
        }
    )
    picture = {"type": "base64", "media_type": "image/png", "data": "cG5n"}
    sent = capture_anthropic_body(
        lambda client: client.messages.create(
            model="m",
            max_tokens=100,
            system="Be brief.",
            messages=[
                {"role": "user", "content": [{"type": "text", "text": "Who?"}]},
                {"role": "assistant", "content": reply.content},
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "a",
                            "is_error": True,
                            "content": [
                                {"type": "text", "text": "No"},
                                {"type": "image", "source": picture},
                            ],
                        },
                        {"type": "image", "source": {"type": "url", "url": "https://host/a.png"}},
                    ],
                },
            ],
            tools=[{"name": "ls", "input_schema": {"type": "object"}, "strict": True}],
            tool_choice={"type": "any", "disable_parallel_tool_use": True},
            output_config={"effort": "low"},
            thinking={"type": "adaptive"},
            stop_sequences=["END"],
            extra_body={"top_k": 5},
            metadata={"user_id": "u1"},
        )
    )
    assert parse_request(sent) == Conversation(
        messages=(
            ModelMessage("user", (TextPart("Who?"),)),
            ModelMessage(
                "assistant",
                (
                    Thinking("anthropic", "Hm", "EqQB=="),
                    Thinking("anthropic", sealed="sealed"),
                    TextPart("I look"),
                    ToolCall("a", "ls", '{"p":1}'),
                ),
            ),
            ModelMessage(
                "user",
                (
                    ToolResult(
                        "a", (TextPart("No"), ImagePart("image/png", "cG5n")), is_error=True
                    ),
                    ImagePart(url="https://host/a.png"),
                ),
            ),
        ),
        system="Be brief.",
        tools=(ToolDefinition("ls", "", {"type": "object"}, strict=True),),
        tool_choice="required",
        parallel_tool_calls=False,
        max_output=100,
        reasoning_effort="low",
        stop_sequences=("END",),
        top_k=5,
        user="u1",
    )


def test_a_reply_in_json():
    sent = capture_anthropic_body(
        lambda client: client.messages.parse(
            model="m", max_tokens=9, messages=[USER], output_format=Name
        )
    )
    result = parse_request(sent).response_format
    assert isinstance(result, JsonFormat)
    assert result.schema and result.schema["required"] == ["name"]
    assert result.strict
    chat = json.loads(openai_chat_upstream.encode_request(parse_request(sent), "n"))
    assert chat["response_format"]["json_schema"]["schema"] == result.schema


def test_claude_code_is_understood_and_can_be_said_to_openai():
    sent = json.dumps(CLAUDE_CODE).encode()
    assert peek(sent) == RequestSummary("m", stream=True, max_output=32000)
    result = parse_request(sent)
    assert result.system == "You code.\n\nBe terse."
    assert (result.reasoning_effort, result.temperature) == ("31999", 1)
    assert [tool.name for tool in result.tools] == ["Bash", "Read"]
    for dialect in (openai_chat_upstream, openai_responses_upstream):
        body = json.loads(dialect.encode_request(result, "n"))
        assert len(body["user"]) == 64  # OpenAI takes no longer ones
        assert body.get("reasoning_effort") or body["reasoning"] == {"effort": "high"}
    assert json.loads(rewrite_for_passthrough(sent, "n")) == {**CLAUDE_CODE, "model": "n"}


def test_arguments_keep_their_bytes():
    call = b'{"type":"tool_use","id":"a","name":"ls","input":{ "p":  1.50,"q":"\\u00e4" }}'
    message = b'{"role":"assistant","content":[' + call + b"]}"
    result = parse_request(b'{"model":"m","messages":[' + message + b"]}")
    assert result.messages[0].parts == (ToolCall("a", "ls", '{ "p":  1.50,"q":"\\u00e4" }'),)


def test_a_result_may_be_a_text_or_nothing():
    texts = {"type": "tool_result", "tool_use_id": "a", "content": "x"}
    nothing = {"type": "tool_result", "tool_use_id": "b"}
    assert parse_content(texts, nothing) == (ToolResult("a", (TextPart("x"),)), ToolResult("b", ()))


def test_a_document_of_plain_text_is_text():
    source = {"type": "text", "media_type": "text/plain", "data": "All."}
    document = {"type": "document", "source": source, "title": "Notes", "cache_control": MARK}
    assert parse_content(document) == (TextPart("Notes\n\nAll."),)


def test_a_document_in_pieces_is_its_pieces_after_what_is_said_about_it():
    about = {"title": "Notes", "context": "Of last year.", "citations": {"enabled": False}}
    link = {"type": "url", "url": "https://example.org/a.png"}
    pieces = [{"type": "text", "text": "One."}, {"type": "image", "source": link}]
    document = {"type": "document", "source": {"type": "content", "content": pieces}}
    image = ImagePart(url=link["url"])
    assert parse_content(document) == (TextPart("One."), image)
    told = TextPart("Notes\n\nOf last year.")
    assert parse_content({**document, **about}) == (told, TextPart("One."), image)
    document["source"] = {"type": "content", "content": "All."}
    assert parse_content({**document, **about}) == (TextPart("Notes\n\nOf last year.\n\nAll."),)


def test_what_the_caller_found_is_text_also_as_a_tools_result():
    found = {
        "type": "search_result",
        "source": "https://example.org/a",
        "title": "Notes",
        "content": [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}],
        "cache_control": MARK,
    }
    text = TextPart("Notes\n\nhttps://example.org/a\n\nOne.\n\nTwo.")
    answer = {"type": "tool_result", "tool_use_id": "a", "content": [found, found]}
    assert parse_content(answer, found) == (ToolResult("a", (text, text)), text)


def test_what_is_said_about_a_document_stands_before_it():
    source = {"type": "url", "url": "https://example.org/a.pdf"}
    about = {"title": "Notes", "context": "Of last year."}
    before, document = parse_content({"type": "document", "source": source, **about})
    assert before == TextPart("Of last year.")
    assert (document.url, document.name) == (source["url"], "Notes")


def test_without_a_limit_a_reply_has_none():
    body = json.dumps({"model": "m", "messages": [USER]}).encode()
    assert (parse_request(body).max_output, peek(body).max_output) == (0, 0)


def test_instructions_in_the_middle_may_come_in_parts_which_are_text():
    told = [{"type": "text", "text": "B"}, {"type": "text", "text": "C", "cache_control": MARK}]
    messages = [USER, {"role": "system", "content": told}]
    result = parse_request(build_body(system="A", messages=messages))
    assert (result.system, len(result.messages)) == ("A\n\nB\n\nC", 1)
    image = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
    with pytest.raises(BadRequest, match="only text"):
        parse_request(build_body(messages=[USER, {"role": "system", "content": [*told, image]}]))


def test_instructions_in_the_middle_go_to_the_others():
    result = parse_request(
        build_body(system="A", messages=[USER, {"role": "system", "content": "B"}])
    )
    assert (result.system, len(result.messages)) == ("A\n\nB", 1)


@pytest.mark.parametrize(
    ("fields", "effort"),
    [
        ({}, ""),
        ({"thinking": {"type": "disabled"}}, ""),
        ({"thinking": {"type": "adaptive", "display": "omitted"}}, "high"),
        ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, "2000"),
        ({"output_config": {"effort": "max"}}, "max"),
        (
            {
                "thinking": {"type": "enabled", "budget_tokens": 2000},
                "output_config": {"effort": "low"},
            },
            "low",
        ),
    ],
)
def test_how_hard_to_think(fields, effort):
    assert parse_request(build_body(**fields)).reasoning_effort == effort


@pytest.mark.parametrize(
    ("choice", "meant"),
    [
        ({"type": "auto"}, "auto"),
        ({"type": "any"}, "required"),
        ({"type": "none"}, "none"),
        ({"type": "tool", "name": "ls"}, NamedTool("ls")),
    ],
)
def test_the_choice_of_tools(choice, meant):
    assert parse_request(build_body(tool_choice=choice)).tool_choice == meant


def test_counting_tokens_needs_no_limit_of_the_reply():
    sent = capture_anthropic_body(
        lambda client: client.messages.count_tokens(model="m", messages=[USER])
    )
    assert peek(sent) == RequestSummary("m")


ARCHIVE = {"type": "base64", "media_type": "application/zip", "data": "cGRm"}
PLAIN = {"type": "text", "media_type": "text/plain", "data": "x"}


@pytest.mark.parametrize(
    "fields",
    [
        {"container": "c"},
        {"mcp_servers": [{"type": "url", "url": "https://host", "name": "x"}]},
        {"inference_geo": "eu"},
        {"speed": "fast"},
        {"user_profile_id": "u"},
        {"thinking": {"type": "between_tools"}},
        {"output_config": {"task_budget": {}}},
        {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        {"tools": [{"name": "x", "input_schema": {}, "defer_loading": True}]},
        {"tool_choice": {"type": "tool"}},
        {"messages": [{"role": "user", "content": [{"type": "document", "source": ARCHIVE}]}]},
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "document", "source": PLAIN, "citations": {"enabled": True}}
                    ],
                }
            ]
        },
        {"messages": [{"role": "user", "content": [{"type": "search_result"}]}]},
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "search_result",
                            "source": "s",
                            "title": "t",
                            "content": [],
                            "citations": {"enabled": True},
                        }
                    ],
                }
            ]
        },
        {"messages": [{"role": "assistant", "content": [{"type": "server_tool_use"}]}]},
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "image", "source": {"type": "file", "file_id": "x"}}],
                }
            ]
        },
        {"messages": [{"role": "system", "content": [{"type": "redacted_thinking", "data": "x"}]}]},
    ],
    ids=str,
)
def test_what_cannot_be_translated_is_reported(fields):
    peek(build_body(**fields))
    with pytest.raises(BadRequest) as caught:
        parse_request(build_body(**fields))
    assert caught.value.message


def test_what_says_nothing_to_another_supplier_is_no_obstacle():
    quiet = {
        "cache_control": MARK,
        "service_tier": "standard_only",
        "mcp_servers": [],
        "speed": "standard",
        "stream": True,
        "metadata": {"user_id": None},
        "container": None,
    }
    assert parse_request(build_body(**quiet)) == parse_request(build_body())
