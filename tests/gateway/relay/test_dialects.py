"""Every client through every kind of channel: what one dialect says, another is told."""

import asyncio
from collections.abc import Callable
from typing import Any

import anthropic
import openai
import pytest

from tests.gateway.conftest import GatewaySetup
from tests.supplier.steps import Answer, Call, Refuse, Say, Tokens
from tests.support.daemon import Serving

MODELS = ["by-chat", "by-responses", "by-messages"]
USED = Tokens(input=1000, cached=200, output=100)
SAID = Answer((Say("one two three"),), USED)
CALLED = Answer((Say("I look."), Call("look", {"path": 'a "b"'})), USED)
PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}}

every_channel = pytest.mark.parametrize("model", MODELS)
HELLO = [{"role": "user", "content": "hello"}]


@every_channel
def test_chat_whole(setup: GatewaySetup, openai_client: openai.OpenAI, model: str) -> None:
    setup.supplier.script(SAID)
    reply = openai_client.chat.completions.create(model=model, messages=HELLO)
    assert reply.choices[0].message.content == "one two three"
    assert reply.choices[0].finish_reason == "stop"
    assert reply.usage
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (1200, 100)


@every_channel
def test_chat_streamed_with_a_tool_call(
    setup: GatewaySetup, openai_client: openai.OpenAI, model: str
) -> None:
    setup.supplier.script(CALLED)
    tool = {"type": "function", "function": {"name": "look", "parameters": PARAMETERS}}
    with openai_client.chat.completions.stream(
        model=model, messages=HELLO, tools=[tool], stream_options={"include_usage": True}
    ) as stream:
        reply = stream.get_final_completion()
    (choice,) = reply.choices
    assert choice.message.content == "I look."
    (call,) = choice.message.tool_calls
    assert (call.function.name, call.function.arguments) == ("look", '{"path": "a \\"b\\""}')
    assert choice.finish_reason == "tool_calls"
    assert reply.usage.prompt_tokens == 1200
    (entry,) = setup.wait_for_records(1)
    assert (entry.usage.input, entry.usage.cache_read, entry.usage.output) == (1000, 200, 100)
    assert entry.outcome == "ok"
    assert str(entry.cost) == "0.00456"


@every_channel
def test_responses_whole(setup: GatewaySetup, openai_client: openai.OpenAI, model: str) -> None:
    setup.supplier.script(SAID)
    reply = openai_client.responses.create(model=model, input="hello")
    assert reply.output_text == "one two three"
    assert reply.status == "completed"
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (1200, 100)


@every_channel
def test_responses_streamed_with_a_tool_call(
    setup: GatewaySetup, openai_client: openai.OpenAI, model: str
) -> None:
    setup.supplier.script(CALLED)
    tool = {"type": "function", "name": "look", "parameters": PARAMETERS}
    with openai_client.responses.stream(model=model, input="hello", tools=[tool]) as stream:
        reply = stream.get_final_response()
    assert reply.output_text == "I look."
    (call,) = (item for item in reply.output if item.type == "function_call")
    assert (call.name, call.arguments) == ("look", '{"path": "a \\"b\\""}')
    (entry,) = setup.wait_for_records(1)
    assert str(entry.cost) == "0.00456"


@every_channel
def test_messages_whole(
    setup: GatewaySetup, anthropic_client: anthropic.Anthropic, model: str
) -> None:
    setup.supplier.script(SAID)
    reply = anthropic_client.messages.create(model=model, max_tokens=100, messages=HELLO)
    assert reply.content[0].text == "one two three"
    assert reply.stop_reason == "end_turn"
    usage = reply.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens) == (1000, 200)
    assert usage.output_tokens == 100


@every_channel
def test_messages_streamed_with_a_tool_call(
    setup: GatewaySetup, anthropic_client: anthropic.Anthropic, model: str
) -> None:
    setup.supplier.script(CALLED)
    tool = {"name": "look", "input_schema": PARAMETERS}
    with anthropic_client.messages.stream(
        model=model, max_tokens=100, messages=HELLO, tools=[tool]
    ) as stream:
        reply = stream.get_final_message()
    text, call = reply.content
    assert (text.text, call.name, call.input) == ("I look.", "look", {"path": 'a "b"'})
    assert reply.stop_reason == "tool_use"
    (entry,) = setup.wait_for_records(1)
    assert str(entry.cost) == "0.00456"


@every_channel
def test_a_refusal_is_reported_in_the_callers_dialect(
    setup: GatewaySetup, anthropic_client: anthropic.Anthropic, model: str
) -> None:
    setup.supplier.script(Refuse(429, "Slow down", headers={"Retry-After": "7"}))
    with pytest.raises(anthropic.RateLimitError) as refused:
        anthropic_client.messages.create(model=model, max_tokens=100, messages=HELLO)
    assert "Slow down" in str(refused.value)
    assert refused.value.response.headers["Retry-After"] == "7"
    (entry,) = setup.wait_for_records(1)
    assert (entry.outcome, entry.error, str(entry.cost)) == ("failed", "rate_limit", "0")


@every_channel
def test_asynchronous_clients_stream_at_the_same_time(
    setup: GatewaySetup, start_gateway: Callable[..., Serving], model: str
) -> None:
    key, daemon = setup.add_key(), start_gateway()
    setup.supplier.script(*[SAID] * 8)

    async def ask_all() -> list[str]:
        async with openai.AsyncOpenAI(
            base_url=f"{daemon.url}/v1", api_key=key, max_retries=0, timeout=60
        ) as client:

            async def ask_one() -> str:
                stream = await client.chat.completions.create(
                    model=model, messages=HELLO, stream=True
                )
                return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

            return list(await asyncio.gather(*(ask_one() for _ in range(8))))

    assert asyncio.run(ask_all()) == ["one two three"] * 8
    assert len(setup.wait_for_records(8)) == 8


def test_anthropics_client_counts_tokens(
    setup: GatewaySetup, anthropic_client: anthropic.Anthropic
) -> None:
    for model in ("by-messages", "by-chat"):
        counted = anthropic_client.messages.count_tokens(model=model, messages=HELLO)
        assert 1 <= counted.input_tokens < 100


def test_anthropics_client_fills_the_cache_without_a_reply(
    setup: GatewaySetup, anthropic_client: anthropic.Anthropic
) -> None:
    setup.supplier.script(Answer((), Tokens(input=3, written=2000, output=0), finish="max_tokens"))
    asked: dict[str, Any] = {"max_tokens": 0, "messages": HELLO}
    filled = anthropic_client.messages.create(model="by-messages", **asked)
    assert (filled.stop_reason, filled.content) == ("max_tokens", [])
    (sent,) = setup.supplier.requests
    assert sent.body["max_tokens"] == 0
    (entry,) = setup.wait_for_records(1)
    assert (str(entry.cost), entry.estimated) == ("0.007509", False)
    with pytest.raises(anthropic.BadRequestError, match="max_tokens"):  # others have no such thing
        anthropic_client.messages.create(model="by-chat", **asked)


def test_anthropics_client_can_tell_the_id_of_every_request(
    setup: GatewaySetup, anthropic_client: anthropic.Anthropic
) -> None:
    setup.supplier.script(SAID, SAID, Refuse(400, "No"))
    asked: dict[str, Any] = {"max_tokens": 100, "messages": HELLO}
    assert anthropic_client.messages.create(model="by-messages", **asked)._request_id == "req_1"
    reply = anthropic_client.messages.create(model="by-chat", **asked)
    with pytest.raises(anthropic.BadRequestError) as refused:
        anthropic_client.messages.create(model="by-chat", **asked)
    with pytest.raises(anthropic.NotFoundError) as unknown:
        anthropic_client.messages.create(model="none", **asked)
    counted = anthropic_client.messages.count_tokens(model="by-chat", messages=HELLO)
    ids = [reply._request_id, refused.value.request_id, unknown.value.request_id]
    assert [*ids, counted._request_id] == [entry.id for entry in setup.wait_for_records(5)[1:]]


def test_thinking_that_a_supplier_counts_is_counted_for_every_client(
    setup: GatewaySetup, openai_client: openai.OpenAI
) -> None:
    setup.supplier.script(*[Answer((Say("one"),), Tokens(output=100, reasoning=60))] * 3)
    for model in MODELS:
        reply = openai_client.chat.completions.create(model=model, messages=HELLO)
        assert reply.usage.completion_tokens == 100
        assert reply.usage.completion_tokens_details.reasoning_tokens == 60
    counts = [entry.usage for entry in setup.wait_for_records(3)]
    assert [(one.output, one.reasoning) for one in counts] == [(40, 60)] * 3


def test_models_are_listed_in_the_callers_dialect(
    openai_client: openai.OpenAI, anthropic_client: anthropic.Anthropic
) -> None:
    names = [*MODELS, "by-gemini"]
    assert [model.id for model in openai_client.models.list()] == names
    assert [model.id for model in anthropic_client.models.list()] == names
    assert openai_client.models.retrieve("by-chat").id == "by-chat"
