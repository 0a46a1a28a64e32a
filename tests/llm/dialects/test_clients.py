"""The vendors' own clients understand what is told to callers, streamed and whole."""

import asyncio
import json
from contextlib import contextmanager

import anthropic
import openai
import pytest

from agentd.llm.conversation import SupplierError, Thinking, ThinkingDone
from agentd.llm.dialects.callers import CALLERS
from agentd.llm.dialects.thinking_signatures import unwrap_thinking
from tests.llm.dialects.replies import GLANCE, LOOK
from tests.llm.dialects.served import serving

USER = [{"role": "user", "content": "Look around"}]
ASKED = {"model": "m", "max_tokens": 99, "messages": USER}
WORDS = "I look around Ω🎉."
CALLS = [("call_1", "ls", {"p": "/"}), ("call_2", "cat", {"f": "a\nb"})]
BROKEN = [*LOOK[:8], SupplierError("overloaded", "Later")]


def write_stream(dialect, events=LOOK):
    return b"".join(map(CALLERS[dialect].create_writer(GLANCE, "r1", 17).write, events))


def render_whole(dialect):
    return CALLERS[dialect].render_response(LOOK, GLANCE, "r1", 17)


@contextmanager
def openai_client_at(answer, *, stream=True):
    with (
        serving(answer, stream=stream) as url,
        openai.OpenAI(base_url=url, api_key="k", max_retries=0, timeout=60) as client,
    ):
        yield client


@contextmanager
def anthropic_client_at(answer, *, stream=True):
    with (
        serving(answer, stream=stream) as url,
        anthropic.Anthropic(base_url=url, api_key="k", max_retries=0, timeout=60) as client,
    ):
        yield client


class TestChat:
    def check(self, result):
        message = result.choices[0].message
        assert (result.model, result.created, result.id) == ("m", 17, "chatcmpl-r1")
        assert result.choices[0].finish_reason == "tool_calls"
        assert message.content == WORDS
        assert message.model_extra["reasoning_content"] == "Which one?"
        calls = [
            (call.id, call.function.name, json.loads(call.function.arguments))
            for call in message.tool_calls
        ]
        assert calls == CALLS
        assert result.usage.prompt_tokens == 33
        assert result.usage.prompt_tokens_details.cached_tokens == 20
        assert result.usage.completion_tokens_details.reasoning_tokens == 4

    def test_a_whole_answer(self):
        with openai_client_at(render_whole("openai-chat"), stream=False) as client:
            self.check(client.chat.completions.create(model="m", messages=USER))

    def test_a_stream_is_gathered_by_the_client(self):
        with (
            openai_client_at(write_stream("openai-chat")) as client,
            client.chat.completions.stream(
                model="m", messages=USER, stream_options={"include_usage": True}
            ) as stream,
        ):
            kinds = {event.type for event in stream}
            self.check(stream.get_final_completion())
        assert {"content.delta", "tool_calls.function.arguments.done"} <= kinds

    def test_a_stream_is_read_by_the_asynchronous_client(self):
        async def read(url):
            async with openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=0) as client:
                stream = await client.chat.completions.create(model="m", messages=USER, stream=True)
                return [chunk async for chunk in stream]

        with serving(write_stream("openai-chat")) as url:
            chunks = asyncio.run(read(url))
        said = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
        assert "".join(filter(None, said)) == WORDS
        assert chunks[-1].usage.total_tokens == 42

    def test_an_error_is_raised(self):
        with (
            openai_client_at(write_stream("openai-chat", BROKEN)) as client,
            pytest.raises(openai.APIError, match="Later"),
        ):
            list(client.chat.completions.create(model="m", messages=USER, stream=True))


class TestResponses:
    def check(self, result):
        assert (result.model, result.id, result.status) == ("m", "resp_r1", "completed")
        assert result.output_text == WORDS
        reasoning, message, *calls = result.output
        assert [part.text for part in reasoning.summary] == ["Which one?"]
        assert message.role == "assistant"
        asked = [(call.call_id, call.name, json.loads(call.arguments)) for call in calls]
        assert asked == CALLS
        assert (result.usage.input_tokens, result.usage.total_tokens) == (33, 42)
        assert result.usage.input_tokens_details.cached_tokens == 20

    def test_a_whole_answer(self):
        with openai_client_at(render_whole("openai-responses"), stream=False) as client:
            self.check(client.responses.create(model="m", input="x"))

    def test_a_stream_is_gathered_by_the_client(self):
        with (
            openai_client_at(write_stream("openai-responses")) as client,
            client.responses.stream(model="m", input="x") as stream,
        ):
            kinds = [event.type for event in stream]
            self.check(stream.get_final_response())
        assert kinds[0] == "response.created"
        assert kinds[-1] == "response.completed"

    def test_a_stream_is_read_by_the_asynchronous_client(self):
        async def read(url):
            async with (
                openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=0) as client,
                client.responses.stream(model="m", input="x") as stream,
            ):
                return await stream.get_final_response()

        with serving(write_stream("openai-responses")) as url:
            self.check(asyncio.run(read(url)))

    def test_a_failure_is_reported(self):
        with openai_client_at(write_stream("openai-responses", BROKEN)) as client:
            last = list(client.responses.create(model="m", input="x", stream=True))[-1]
        assert last.type == "response.failed"
        assert last.response.error.message == "Later"


class TestAnthropic:
    def check(self, result):
        assert (result.model, result.id, result.stop_reason) == ("m", "msg_r1", "tool_use")
        thought, words, *calls = result.content
        assert thought.thinking == "Which one?"
        assert unwrap_thinking(thought.signature, thought.thinking) == LOOK[3].thinking
        assert words.text == WORDS
        assert [(call.id, call.name, call.input) for call in calls] == CALLS
        assert (result.usage.input_tokens, result.usage.output_tokens) == (10, 9)
        assert result.usage.cache_read_input_tokens == 20
        assert result.usage.cache_creation_input_tokens == 3

    def test_a_whole_answer(self):
        with anthropic_client_at(render_whole("anthropic"), stream=False) as client:
            self.check(client.messages.create(**ASKED))

    def test_a_stream_is_gathered_by_the_client(self):
        with (
            anthropic_client_at(write_stream("anthropic")) as client,
            client.messages.stream(**ASKED) as stream,
        ):
            assert "".join(stream.text_stream) == WORDS
            self.check(stream.get_final_message())

    def test_a_stream_is_read_by_the_asynchronous_client(self):
        async def read(url):
            async with (
                anthropic.AsyncAnthropic(base_url=url, api_key="k", max_retries=0) as client,
                client.messages.stream(**ASKED) as stream,
            ):
                return await stream.get_final_message()

        with serving(write_stream("anthropic")) as url:
            self.check(asyncio.run(read(url)))

    def test_seals_arrive(self):
        sealed = [
            ThinkingDone(Thinking("anthropic", "Hm", "EqQB==")),
            ThinkingDone(Thinking("anthropic", sealed="x==")),
            *LOOK[4:],
        ]
        with (
            anthropic_client_at(write_stream("anthropic", sealed)) as client,
            client.messages.stream(**ASKED) as stream,
        ):
            thought, shut, *_ = stream.get_final_message().content
        assert (thought.thinking, thought.signature) == ("Hm", "EqQB==")
        assert (shut.type, shut.data) == ("redacted_thinking", "x==")

    def test_an_error_is_raised(self):
        with (
            anthropic_client_at(write_stream("anthropic", BROKEN)) as client,
            pytest.raises(anthropic.APIStatusError, match="Later"),
            client.messages.stream(**ASKED) as stream,
        ):
            stream.get_final_message()
