"""What a model thought goes back to its supplier through callers of every dialect."""

import json

import anthropic
import openai
import pytest

from agentd.proxy.dialects import openai_responses
from agentd.proxy.dialects.caller import Glance
from agentd.proxy.dialects.callers import CALLERS
from agentd.proxy.dialects.conversation import (
    CallDone,
    CallStarted,
    Finished,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ThinkingDone,
    ToolCall,
)
from tests.proxy.dialects.callers.served import served

THOUGHTS = [
    Thinking("anthropic", "Which?", "c2ln"),
    Thinking("anthropic", sealed="c2VhbGVk"),
    Thinking("gemini", "", "EqQB=="),
    openai_responses.thinking(
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
    reply += [CallStarted(0, "call_1", "ls"), CallDone(0, call), Finished("tool_calls")]
    told = CALLERS[caller].understood(_sent_back(caller, reply, streamed=streamed))
    shown = Thinking("gemini", thinking.text)  # Gemini's clients keep the text beside its seal
    parts = [part for part in told.messages[1].parts if part != shown]
    assert parts[:2] == [thinking, Text("I look.")]
    assert parts[2:-1] == [one.thinking for one in again]
    assert (parts[-1].name, json.loads(parts[-1].arguments)) == ("ls", {"p": "/"})


def _sent_back(caller, events, *, streamed):
    """A request that goes on from this reply, as a client makes it that sends all back."""
    glance = Glance("m", stream=streamed)
    if streamed:
        writer = CALLERS[caller].writer(glance, "r", 1)
        body = b"".join(map(writer.write, events))
    else:
        body = CALLERS[caller].whole(events, glance, "r", 1)
    with served(body, stream=streamed) as url:
        match caller:
            case "openai-chat":
                message = _chat(url, streamed=streamed)
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
                turns = {"contents": [*_gemini(body), _RESPONSE]}
    return json.dumps({"model": "m", **turns}).encode()


_RESPONSE = {"parts": [{"functionResponse": {"id": "call_1", "response": {"output": "etc"}}}]}


def _chat(url, *, streamed):
    said = [{"role": "user", "content": "x"}]
    with openai.OpenAI(base_url=url, api_key="k", max_retries=0) as client:
        if not streamed:
            reply = client.chat.completions.create(model="m", messages=said)
        else:
            with client.chat.completions.stream(model="m", messages=said) as stream:
                reply = stream.get_final_completion()
    return reply.choices[0].message.model_dump()


def _gemini(body):
    """All parts, in their order, as Google's client keeps them of a whole answer or a stream."""
    pieces = body.split(b"data: ")[1:] if body.startswith(b"data:") else [body]
    said = [json.loads(piece)["candidates"][0]["content"]["parts"] for piece in pieces]
    parts = [part for piece in said for part in piece]
    return [{"role": "user", "parts": [{"text": "x"}]}, {"role": "model", "parts": parts}]
