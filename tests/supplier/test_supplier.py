"""What a script can say: faults on the way, steps that depend on the request, what is recorded."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

import anthropic
import openai
import pytest

from tests.supplier.request import Request
from tests.supplier.steps import (
    Answer,
    Break,
    Call,
    Garble,
    Made,
    Refuse,
    Say,
    Stall,
    say_in_one_event,
)
from tests.supplier.supplier import Supplier

USER: list[Any] = [{"role": "user", "content": "What is there?"}]
TOOL: dict[str, Any] = {"type": "object", "properties": {"path": {"type": "string"}}}


class TestFaults:
    def test_a_connection_breaks_after_the_events_reported(
        self, supplier: Supplier, openai_client: openai.OpenAI
    ) -> None:
        supplier.script(Answer((Say("one two three"),), faults=(Break(after=2),)), Refuse(418))
        heard = []
        with pytest.raises(openai.APIConnectionError):
            for chunk in openai_client.chat.completions.create(
                model="m", messages=USER, stream=True
            ):
                heard.append(chunk.choices[0].delta.content)
        assert heard == ["", "one"]

    @pytest.mark.parametrize("streaming", [False, True])
    def test_a_connection_breaks_before_the_answer(
        self, supplier: Supplier, openai_client: openai.OpenAI, streaming: bool
    ) -> None:
        supplier.script(Answer((Say("one"),), faults=(Break(),)))
        with pytest.raises(openai.APIConnectionError):
            openai_client.chat.completions.create(model="m", messages=USER, stream=streaming)

    def test_a_garbled_event_is_no_json(
        self, supplier: Supplier, openai_client: openai.OpenAI
    ) -> None:
        supplier.script(Answer((Say("one two"),), faults=(Garble(after=1),)))
        with pytest.raises(ValueError, match=r"Unterminated|delimiter|Expecting"):
            list(openai_client.chat.completions.create(model="m", messages=USER, stream=True))

    def test_a_stream_hangs_until_it_is_released(
        self, supplier: Supplier, openai_client: openai.OpenAI
    ) -> None:
        stall = Stall(after=2)
        supplier.script(Answer((Say("one two three"),), faults=(stall,)))
        stream = openai_client.chat.completions.create(model="m", messages=USER, stream=True)
        stall.reached.result(60)
        assert [next(stream).choices[0].delta.content for _ in range(2)] == ["", "one"]
        stall.release()
        assert [chunk.choices[0].delta.content for chunk in stream] == [" two", " three", None]

    def test_a_client_that_leaves_a_hanging_stream_is_noticed(
        self, supplier: Supplier, openai_client: openai.OpenAI
    ) -> None:
        stall = Stall(after=1)
        supplier.script(Answer((Say("one"),), faults=(stall,)))
        stream = openai_client.chat.completions.create(model="m", messages=USER, stream=True)
        stall.reached.result(60)
        assert not supplier.requests[0].gone.done()
        stream.close()
        supplier.requests[0].gone.result(60)

    def test_the_end_releases_anyone_who_hangs(self, openai_client: openai.OpenAI) -> None:
        stall = Stall()
        with ThreadPoolExecutor(1) as beside:
            with Supplier() as other:
                other.script(Answer((Say("one"),), faults=(stall,)))
                client = openai_client.with_options(base_url=other.base)
                call = beside.submit(client.chat.completions.create, model="m", messages=USER)
                stall.reached.result(60)
            assert stall.released.done()
            call.exception(60)  # it is cut off, or answered in the last moment

    def test_a_giant_comes_in_one_event(
        self, supplier: Supplier, openai_client: openai.OpenAI
    ) -> None:
        supplier.script(say_in_one_event(300_000))
        chunks = openai_client.chat.completions.create(model="m", messages=USER, stream=True)
        assert max(len(chunk.choices[0].delta.content or "") for chunk in chunks) == 300_000

    def test_events_come_with_a_pause_between_them(
        self, supplier: Supplier, openai_client: openai.OpenAI
    ) -> None:
        supplier.script(Answer((Say("one two"),), pause=0.001))
        chunks = openai_client.chat.completions.create(model="m", messages=USER, stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "one two"


class TestScript:
    def test_a_function_answers_by_what_was_asked(
        self, supplier: Supplier, openai_client: openai.OpenAI
    ) -> None:
        def agent(request: Request) -> Made:
            return Say(request.results[-1].text) if request.results else Call("ls", {"path": "."})

        supplier.script(agent, agent)
        tools: Any = [{"type": "function", "function": {"name": "ls", "parameters": TOOL}}]
        first = openai_client.chat.completions.create(model="m", messages=USER, tools=tools)
        assert supplier.requests[0].tools == {"ls": "function"}
        call = first.choices[0].message.tool_calls
        assert call
        result = {"role": "tool", "tool_call_id": call[0].id, "content": "a.txt"}
        history = [*USER, first.choices[0].message.model_dump(exclude_none=True), result]
        second = openai_client.chat.completions.create(model="m", messages=history, tools=tools)
        assert second.choices[0].message.content == "a.txt"
        assert supplier.requests[1].prompt == "What is there?"

    def test_results_are_found_in_every_dialect(
        self,
        supplier: Supplier,
        openai_client: openai.OpenAI,
        anthropic_client: anthropic.Anthropic,
    ) -> None:
        supplier.answer_always(
            lambda request: Say(request.results[0].text if request.results else "none")
        )
        block = {
            "type": "tool_result",
            "tool_use_id": "t",
            "content": [{"type": "text", "text": "a"}],
        }
        use = {"type": "tool_use", "id": "t", "name": "ls", "input": {}}
        history: Any = [
            *USER,
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [block]},
        ]
        output = anthropic_client.messages.create(model="m", max_tokens=9, messages=history)
        assert output.content[0].type == "text" and output.content[0].text == "a"
        items: Any = [
            *USER,
            {"type": "function_call", "call_id": "t", "name": "ls", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "t", "output": "b"},
        ]
        assert openai_client.responses.create(model="m", input=items).output_text == "b"
        later = [*items, {"role": "user", "content": "And now?"}]
        assert openai_client.responses.create(model="m", input=later).output_text == "none"

    def test_side_calls_are_answered_beside_the_script(
        self, supplier: Supplier, openai_client: openai.OpenAI
    ) -> None:
        supplier.answer_always(
            lambda request: Say("A title") if "title" in request.prompt else None
        )
        supplier.script(Say("first"), Say("second"))
        prompts = ("one", "a title, please", "two")
        said = [openai_client.responses.create(model="m", input=prompt) for prompt in prompts]
        assert [one.output_text for one in said] == ["first", "A title", "second"]

    def test_a_request_beyond_the_script_is_refused_for_good(
        self, supplier: Supplier, openai_client: openai.OpenAI
    ) -> None:
        with pytest.raises(openai.BadRequestError, match="no step left"):
            openai_client.responses.create(model="m", input="x")

    def test_requests_are_recorded_whole(
        self, supplier: Supplier, openai_client: openai.OpenAI
    ) -> None:
        supplier.script(Say("Hi"))
        openai_client.responses.create(model="gpt", input="Hello")
        (request,) = supplier.wait_for(1)
        assert (request.method, request.path) == ("POST", "/v1/responses")
        assert request.headers["authorization"] == "Bearer sk-x"
        assert request.body == {"model": "gpt", "input": "Hello"}
        assert (request.model, request.streaming, request.prompt) == ("gpt", False, "Hello")

    def test_a_wait_for_requests_that_do_not_come_ends(self, supplier: Supplier) -> None:
        with pytest.raises(TimeoutError, match="0 of 1"):
            supplier.wait_for(1, 0.01)

    def test_any_other_path_is_noted_and_not_found(self, supplier: Supplier) -> None:
        host = supplier.url.removeprefix("http://")
        plain, tunnel = HTTPConnection(host), HTTPConnection(host)
        with closing(plain), closing(tunnel):
            plain.request("GET", "/elsewhere")
            assert plain.getresponse().status == 404
            tunnel.set_tunnel("example.invalid", 443)
            with pytest.raises(OSError, match="404"):
                tunnel.connect()
        output = [(request.method, request.path) for request in supplier.others]
        assert output == [("GET", "/elsewhere"), ("CONNECT", "example.invalid:443")]
