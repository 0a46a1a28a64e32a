"""Each dialect of the scripted supplier is what the vendor's own client understands."""

import json
from typing import Any

import anthropic
import httpx
import openai
import pytest

from agentd.llm.conversation import (
    ReplyBuilder,
    ReplyEvent,
    ReplyFinished,
    SupplierError,
    TextPart,
    Thinking,
    ToolCall,
)
from agentd.llm.dialects.gemini import upstream as gemini_upstream
from agentd.llm.price import Usage
from tests.supplier.steps import Answer, Call, Fail, Refuse, Say, Search, Think, Tokens
from tests.supplier.supplier import Supplier

USED = Tokens(input=10, cached=20, written=3, output=9, reasoning=4)
LOOK = Answer(
    (Think("Which?"), Say("I look around."), Call("ls", {"path": "/"}), Call("cat", {"path": "a"})),
    usage=USED,
)
PAGE = ("https://docs.example/tornado", "Tornado's documentation")
SEARCHED = Answer(
    (Search("tornado version", (PAGE,)), Say("It is 6.6.", cites=(PAGE,))), usage=USED
)
USER: list[Any] = [{"role": "user", "content": "What is there?"}]


class TestChat:
    def test_a_whole_answer_holds_text_thought_calls_and_usage(
        self, supplier: Supplier, openai_client: openai.OpenAI
    ) -> None:
        supplier.script(LOOK)
        reply = openai_client.chat.completions.create(model="m", messages=USER)
        message = reply.choices[0].message
        assert reply.choices[0].finish_reason == "tool_calls"
        assert message.content == "I look around."
        assert message.model_extra == {"reasoning_content": "Which?"}
        calls = [call for call in message.tool_calls or [] if call.type == "function"]
        assert [(call.id, call.function.name, call.function.arguments) for call in calls] == [
            ("call_1_0", "ls", '{"path": "/"}'),
            ("call_1_1", "cat", '{"path": "a"}'),
        ]
        assert reply.usage and reply.usage.prompt_tokens == 33
        assert (
            reply.usage.prompt_tokens_details
            and reply.usage.prompt_tokens_details.cached_tokens == 20
        )

    def test_a_stream_adds_up_to_the_whole_answer(
        self, supplier: Supplier, openai_client: openai.OpenAI
    ) -> None:
        supplier.script(LOOK)
        with openai_client.chat.completions.stream(
            model="m", messages=USER, stream_options={"include_usage": True}
        ) as stream:
            reply = stream.get_final_completion()
        message = reply.choices[0].message
        assert message.content == "I look around."
        assert [call.function.arguments for call in message.tool_calls or []] == [
            '{"path": "/"}',
            '{"path": "a"}',
        ]
        assert reply.usage and reply.usage.total_tokens == 42

    def test_usage_is_streamed_only_when_it_was_asked_for(
        self, supplier: Supplier, openai_client: openai.OpenAI
    ) -> None:
        supplier.script(Say("Hi"), Answer((Say("Hi"),), usage=None))
        plain = openai_client.chat.completions.create(model="m", messages=USER, stream=True)
        assert [chunk.usage for chunk in plain if chunk.usage] == []
        asked = openai_client.chat.completions.create(
            model="m", messages=USER, stream=True, stream_options={"include_usage": True}
        )
        assert [chunk.usage for chunk in asked if chunk.usage] == []


class TestResponses:
    def test_a_whole_answer_holds_text_thought_calls_and_usage(
        self, supplier: Supplier, openai_client: openai.OpenAI
    ) -> None:
        supplier.script(LOOK)
        reply = openai_client.responses.create(model="m", input="What is there?")
        assert [item.type for item in reply.output] == [
            "reasoning",
            "message",
            *["function_call"] * 2,
        ]
        assert reply.output_text == "I look around."
        assert reply.usage and reply.usage.input_tokens_details.cached_tokens == 20
        assert reply.usage.total_tokens == 42

    def test_a_stream_adds_up_to_the_whole_answer(
        self, supplier: Supplier, openai_client: openai.OpenAI
    ) -> None:
        supplier.script(LOOK, LOOK)
        with openai_client.responses.stream(model="m", input="What is there?") as stream:
            events = list(stream)
        streamed = stream.get_final_response()
        assert [event.sequence_number for event in events] == list(range(len(events)))
        whole = openai_client.responses.create(model="m", input="What is there?")
        assert streamed.output_text == whole.output_text
        reply = [json.loads(r.model_dump_json(include={"usage"})) for r in (streamed, whole)]
        assert reply[0] == reply[1]
        calls = [item for item in streamed.output if item.type == "function_call"]
        assert [call.arguments for call in calls] == ['{"path": "/"}', '{"path": "a"}']

    def test_a_web_search_tells_its_pages_to_who_asks_for_them_and_what_the_reply_cites(
        self, supplier: Supplier, openai_client: openai.OpenAI
    ) -> None:
        supplier.script(SEARCHED, SEARCHED)
        with openai_client.responses.stream(
            model="m",
            input="x",
            tools=[{"type": "web_search"}],
            include=["web_search_call.action.sources"],
        ) as stream:
            events = [event.type for event in stream]
            search, said = stream.get_final_response().output
        assert search.type == "web_search_call" and search.action.type == "search"
        assert search.action.query == "tornado version"
        assert [one.url for one in search.action.sources or []] == [PAGE[0]]
        assert "response.web_search_call.searching" in events
        assert said.type == "message" and said.content[0].type == "output_text"
        (note,) = said.content[0].annotations
        assert note.type == "url_citation" and (note.url, note.title) == PAGE
        whole = openai_client.responses.create(
            model="m", input="x", tools=[{"type": "web_search"}]
        ).output[0]
        assert whole.type == "web_search_call" and whole.action.type == "search"
        assert whole.action.sources is None

    def test_a_custom_tool_is_called_with_its_input_as_it_is(
        self, supplier: Supplier, openai_client: openai.OpenAI
    ) -> None:
        supplier.script(Call("apply_patch", "*** Begin Patch"))
        with openai_client.responses.stream(
            model="m", input="x", tools=[{"type": "custom", "name": "apply_patch"}]
        ) as stream:
            (item,) = stream.get_final_response().output
        assert item.type == "custom_tool_call"
        assert (item.name, item.input) == ("apply_patch", "*** Begin Patch")

    def test_an_answer_that_was_cut_short_is_incomplete(
        self, supplier: Supplier, openai_client: openai.OpenAI
    ) -> None:
        supplier.script(Answer((Say("Once upon"),), finish="max_output_tokens"))
        reply = openai_client.responses.create(model="m", input="x")
        assert reply.status == "incomplete"
        assert reply.incomplete_details and reply.incomplete_details.reason == "max_output_tokens"


class TestMessages:
    def test_a_web_search_is_a_request_and_a_result_and_the_reply_cites_its_pages(
        self, supplier: Supplier, anthropic_client: anthropic.Anthropic
    ) -> None:
        supplier.script(SEARCHED, Search("x", problem="max_uses_exceeded"))
        asked: dict[str, Any] = {"model": "m", "max_tokens": 99, "messages": USER}
        with anthropic_client.messages.stream(**asked) as stream:
            reply = stream.get_final_message()
        use, result, said = reply.content
        assert use.type == "server_tool_use" and use.input == {"query": "tornado version"}
        assert result.type == "web_search_tool_result" and result.tool_use_id == use.id
        assert isinstance(result.content, list)
        assert [(one.url, one.title) for one in result.content] == [PAGE]
        assert said.type == "text" and said.citations
        (note,) = said.citations
        assert note.type == "web_search_result_location" and (note.url, note.title) == PAGE
        assert reply.usage.server_tool_use and reply.usage.server_tool_use.web_search_requests == 1
        failed = anthropic_client.messages.create(**asked).content[1]
        assert failed.type == "web_search_tool_result" and not isinstance(failed.content, list)
        assert failed.content.error_code == "max_uses_exceeded"

    def test_a_whole_answer_and_a_stream_of_it_are_the_same(
        self, supplier: Supplier, anthropic_client: anthropic.Anthropic
    ) -> None:
        supplier.script(LOOK, LOOK)
        asked: dict[str, Any] = {"model": "m", "max_tokens": 99, "messages": USER}
        whole = anthropic_client.messages.create(**asked)
        with anthropic_client.messages.stream(**asked) as stream:
            streamed = stream.get_final_message()
        for reply, number in ((whole, 1), (streamed, 2)):
            assert reply.stop_reason == "tool_use"
            assert [block.type for block in reply.content] == [
                "thinking",
                "text",
                *["tool_use"] * 2,
            ]
            assert reply.content[0].model_dump()["signature"] == "c2lnbmVk"
            calls: list[Any] = [block for block in reply.content if block.type == "tool_use"]
            assert [call.id for call in calls] == [f"toolu_{number}_2", f"toolu_{number}_3"]
            assert [call.input for call in calls] == [{"path": "/"}, {"path": "a"}]
            assert (reply.usage.input_tokens, reply.usage.output_tokens) == (10, 9)
            assert reply.usage.cache_read_input_tokens == 20
            assert reply.usage.cache_creation_input_tokens == 3

    def test_tokens_are_counted_and_take_no_step(
        self, supplier: Supplier, anthropic_client: anthropic.Anthropic
    ) -> None:
        supplier.script(Say("Hi"))
        assert anthropic_client.messages.count_tokens(model="m", messages=USER).input_tokens > 0
        assert supplier.left == 1

    def test_models_are_listed_in_the_form_of_who_asks(
        self,
        supplier: Supplier,
        anthropic_client: anthropic.Anthropic,
        openai_client: openai.OpenAI,
    ) -> None:
        supplier.models = ["a", "b"]
        reply = list(anthropic_client.models.list())
        assert [(model.id, model.display_name) for model in reply] == [("a", "a"), ("b", "b")]
        assert [(model.id, model.object) for model in openai_client.models.list()] == [
            ("a", "model"),
            ("b", "model"),
        ]


class TestGemini:
    """Its vendor's client is no part of the suite: our reader stands in."""

    def asked(self, supplier: Supplier, method: str, body: dict[str, Any]) -> bytes:
        return httpx.post(f"{supplier.url}/v1beta/models/m%20x:{method}", json=body).content

    def check(self, events: list[ReplyEvent]) -> None:
        draft = ReplyBuilder()
        for event in events:
            draft.add(event)
        assert draft.build_message().parts == (
            Thinking("gemini", "Which?", "c2lnbmVk"),
            TextPart("I look around."),
            ToolCall("call_1_2", "ls", '{"path":"/"}'),
            ToolCall("call_1_3", "cat", '{"path":"a"}'),
        )
        assert draft.usage == Usage(input=13, cache_read=20, output=5, reasoning=4)
        assert draft.end == ReplyFinished("tool_calls")

    def test_a_whole_answer_and_a_stream_of_it_are_the_same(self, supplier: Supplier) -> None:
        body = {"contents": [{"role": "user", "parts": [{"text": "What is there?"}]}]}
        supplier.script(LOOK)
        self.check(gemini_upstream.parse_response(self.asked(supplier, "generateContent", body)))
        with Supplier() as another:
            another.script(LOOK)
            reader = gemini_upstream.create_reader()
            stream = self.asked(another, "streamGenerateContent?alt=sse", body)
            self.check([*reader.feed(stream), *reader.close()])
            (request,) = another.requests
        assert (request.model, request.streaming) == ("m x", True)
        assert request.prompt == "What is there?"

    def test_tools_and_what_they_gave_are_seen(self, supplier: Supplier) -> None:
        supplier.script(Say("Hi"))
        result = {"functionResponse": {"id": "c1", "name": "ls", "response": {"output": "etc"}}}
        body = {
            "contents": [{"role": "user", "parts": [result]}],
            "tools": [{"functionDeclarations": [{"name": "ls"}]}],
        }
        self.asked(supplier, "generateContent", body)
        (request,) = supplier.requests
        assert request.tools == {"ls": "function"}
        assert [(one.call, one.text) for one in request.results] == [("c1", "etc")]

    def test_it_refuses_and_fails_in_its_own_words(self, supplier: Supplier) -> None:
        supplier.script(
            Refuse(429, "Slow down"), Answer((Say("one two"),), faults=(Fail(after=1),))
        )
        reply = json.loads(self.asked(supplier, "generateContent", {"contents": []}))
        assert reply["error"] == {
            "code": 429,
            "message": "Slow down",
            "status": "RESOURCE_EXHAUSTED",
        }
        stream = self.asked(supplier, "streamGenerateContent", {"contents": []})
        (*_, last) = gemini_upstream.create_reader().feed(stream)
        assert last == SupplierError("overloaded", "The server is overloaded")

    def test_its_models_are_listed(self, supplier: Supplier) -> None:
        reply = httpx.get(f"{supplier.url}/v1beta/models").json()["models"]
        assert [model["name"] for model in reply] == [f"models/{one}" for one in supplier.models]


class TestErrors:
    @pytest.mark.parametrize(
        ("status", "kind"),
        [
            (400, openai.BadRequestError),
            (401, openai.AuthenticationError),
            (404, openai.NotFoundError),
            (429, openai.RateLimitError),
            (500, openai.InternalServerError),
        ],
    )
    @pytest.mark.parametrize("streaming", [False, True])
    def test_openai_refuses_in_its_own_words(
        self,
        supplier: Supplier,
        openai_client: openai.OpenAI,
        status: int,
        kind: type[openai.APIStatusError],
        streaming: bool,
    ) -> None:
        supplier.script(Refuse(status, "No", code="nope", headers={"Retry-After": "7"}))
        with pytest.raises(kind) as refused:
            openai_client.chat.completions.create(model="m", messages=USER, stream=streaming)
        assert refused.value.code == "nope"
        assert refused.value.response.headers["retry-after"] == "7"

    @pytest.mark.parametrize(
        ("status", "kind", "word"),
        [
            (401, anthropic.AuthenticationError, "authentication_error"),
            (429, anthropic.RateLimitError, "rate_limit_error"),
            (529, anthropic.InternalServerError, "overloaded_error"),
        ],
    )
    def test_anthropic_refuses_in_its_own_words(
        self,
        supplier: Supplier,
        anthropic_client: anthropic.Anthropic,
        status: int,
        kind: type[anthropic.APIStatusError],
        word: str,
    ) -> None:
        supplier.script(Refuse(status, "No"))
        with pytest.raises(kind) as refused:
            anthropic_client.messages.create(model="m", max_tokens=9, messages=USER)
        body: Any = refused.value.body
        assert body["error"] == {"type": word, "message": "No"}

    def test_a_body_of_the_script_s_own_goes_out_as_it_is(
        self, supplier: Supplier, openai_client: openai.OpenAI
    ) -> None:
        supplier.script(Refuse(429, body={"error": {"type": "usage_limit_reached"}}))
        with pytest.raises(openai.RateLimitError) as refused:
            openai_client.responses.create(model="m", input="x")
        assert refused.value.type == "usage_limit_reached"

    def test_a_failure_within_a_stream_ends_it_in_each_dialect(
        self,
        supplier: Supplier,
        openai_client: openai.OpenAI,
        anthropic_client: anthropic.Anthropic,
    ) -> None:
        step = Answer((Say("one two three"),), faults=(Fail(after=4, message="Down"),))
        supplier.script(step, step, step)
        with pytest.raises(openai.APIError, match="Down"):
            list(openai_client.chat.completions.create(model="m", messages=USER, stream=True))
        last = list(openai_client.responses.create(model="m", input="x", stream=True))[-1]
        assert last.type == "response.failed"
        assert last.response.error and last.response.error.message == "Down"
        with (
            pytest.raises(anthropic.APIStatusError, match="Down"),
            anthropic_client.messages.stream(model="m", max_tokens=9, messages=USER) as stream,
        ):
            stream.get_final_message()
