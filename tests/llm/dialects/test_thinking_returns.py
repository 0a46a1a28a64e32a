"""Thinking goes back to its supplier through callers of every dialect."""

import json

import anthropic
import openai
import pytest

from agentd.llm.conversation import (
    ReplyFinished,
    TextDelta,
    TextPart,
    Thinking,
    ThinkingDelta,
    ThinkingDone,
    ToolCall,
    ToolCallDone,
    ToolCallStarted,
)
from agentd.llm.dialects.caller import RequestSummary
from agentd.llm.dialects.callers import CALLERS
from agentd.llm.dialects.openai_responses import upstream as openai_responses_upstream
from tests.llm.dialects.served import serving

THOUGHTS = [
    Thinking("anthropic", "Which?", "c2ln"),
    Thinking("anthropic", sealed="c2VhbGVk"),
    Thinking("gemini", "", "EqQB=="),
    openai_responses_upstream.parse_reasoning(
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Which?"}],
            "encrypted_content": "Z0FB",
        }
    ),
]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("thinking", THOUGHTS)
@pytest.mark.parametrize("caller", ["openai-chat", "gemini", "anthropic", "openai-responses"])
def test_thinking_comes_back_to_its_supplier_through_a_caller_of_any_dialect(
    caller, thinking, streamed
):
    if caller == thinking.dialect == "openai-responses":
        pytest.skip("passed on as it is, never told anew")
    call = ToolCall("call_1", "ls", '{"p":"/"}')
    deltas = [ThinkingDelta(thinking.text)] if thinking.text else []
    reply = [*deltas, ThinkingDone(thinking), TextDelta("I look.")]
    again = []
    if thinking.dialect == "gemini":  # whose seals belong to what they came before
        again = [ThinkingDone(Thinking("gemini", "", "EqQC=="))]
    reply += again
    reply += [
        ToolCallStarted(0, "call_1", "ls"),
        ToolCallDone(0, call),
        ReplyFinished("tool_calls"),
    ]
    received = CALLERS[caller].parse_request(_build_next_request(caller, reply, streamed=streamed))
    shown = Thinking("gemini", thinking.text)  # Gemini's clients keep the text beside its seal
    parts = [part for part in received.messages[1].parts if part != shown]
    assert parts[:2] == [thinking, TextPart("I look.")]
    assert parts[2:-1] == [one.thinking for one in again]
    assert (parts[-1].name, json.loads(parts[-1].arguments)) == ("ls", {"p": "/"})


def _build_next_request(caller, events, *, streamed):
    """Build a request that continues from this reply, as a client does that sends all back."""
    glance = RequestSummary("m", stream=streamed)
    if streamed:
        writer = CALLERS[caller].create_writer(glance, "r", 1)
        body = b"".join(map(writer.write, events))
    else:
        body = CALLERS[caller].render_response(events, glance, "r", 1)
    with serving(body, stream=streamed) as url:
        match caller:
            case "openai-chat":
                message = _read_by_openai_client(url, streamed=streamed)
                result = {"role": "tool", "tool_call_id": "call_1", "content": "etc"}
                turns = {"messages": [{"role": "user", "content": "x"}, message, result]}
            case "openai-responses":
                with openai.OpenAI(base_url=url, api_key="k", max_retries=0) as client:
                    reply = client.responses.create(model="m", input="x", stream=streamed)
                    whole = list(reply)[-1].response if streamed else reply
                items = [item.model_dump() for item in whole.output]
                result = {"type": "function_call_output", "call_id": "call_1", "output": "etc"}
                turns = {"input": [{"role": "user", "content": "x"}, *items, result]}
            case "anthropic":
                said = [{"role": "user", "content": "x"}]
                asked = {"model": "m", "max_tokens": 9, "messages": said}
                with anthropic.Anthropic(base_url=url, api_key="k", max_retries=0) as client:
                    if streamed:
                        with client.messages.stream(**asked) as stream:
                            whole = stream.get_final_message()
                    else:
                        whole = client.messages.create(**asked)
                blocks = [block.model_dump() for block in whole.content]
                result = {"type": "tool_result", "tool_use_id": "call_1", "content": "etc"}
                said += [{"role": "assistant", "content": blocks}]
                turns = {"messages": [*said, {"role": "user", "content": [result]}]}
            case _:
                turns = {"contents": [*_build_gemini_contents(body), _RESPONSE]}
    return json.dumps({"model": "m", **turns}).encode()


_RESPONSE = {"parts": [{"functionResponse": {"id": "call_1", "response": {"output": "etc"}}}]}


def _read_by_openai_client(url, *, streamed):
    said = [{"role": "user", "content": "x"}]
    with openai.OpenAI(base_url=url, api_key="k", max_retries=0) as client:
        if not streamed:
            reply = client.chat.completions.create(model="m", messages=said)
        else:
            with client.chat.completions.stream(model="m", messages=said) as stream:
                reply = stream.get_final_completion()
    return reply.choices[0].message.model_dump()


def _build_gemini_contents(body):
    """Return all parts in order, as Google's client keeps them of an answer or a stream."""
    pieces = body.split(b"data: ")[1:] if body.startswith(b"data:") else [body]
    said = [json.loads(piece)["candidates"][0]["content"]["parts"] for piece in pieces]
    parts = [part for piece in said for part in piece]
    return [{"role": "user", "parts": [{"text": "x"}]}, {"role": "model", "parts": parts}]
