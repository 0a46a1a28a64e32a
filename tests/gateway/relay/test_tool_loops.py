"""Tool loops of real libraries run through, whatever dialect the model's supplier speaks.

The libraries send the assistant's message back as they hold it, with fields of their own.
"""

import json
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from shutil import which
from typing import Any

import anthropic
import openai
import pytest
from anthropic import beta_tool

from agentd.llm.conversation import Conversation, ToolDefinition
from agentd.llm.dialects.tool_names import fit_tool_names
from agentd.llm.endpoint import ChannelDialect
from tests.gateway.relay.callers import RunningGateway, running_gateway
from tests.supplier.steps import Answer, Call, Say, Think

CLIENTS = Path(__file__).parent / "clients"
PROGRAM = CLIENTS / "loops.mjs"
MODELS = ["by-chat", "by-responses", "by-messages", "by-gemini"]
LOOPS = [
    "anthropic tool runner",
    "openai run tools",
    "ai sdk anthropic",
    "ai sdk anthropic streamed",
    "ai sdk chat",
    "ai sdk chat streamed",
    "ai sdk responses",
    "ai sdk responses streamed",
]
CALLED = Answer((Think("Which one?"), Say("I look."), Call("look", {"path": 'a "b"'})))
PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}}
STORED = {
    "anthropic tool runner": "by-messages",
    "ai sdk responses": "by-responses",
    "ai sdk responses streamed": "by-responses",
}
"""Loops that ask their own vendor to store something, and the model where that is passed on."""

every_channel = pytest.mark.parametrize("model", MODELS)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with running_gateway(tmp_path_factory.mktemp("gateway")) as made:
        yield made


@pytest.fixture(autouse=True)
def _anew(gateway: RunningGateway) -> None:
    gateway.supplier.forget()


def check_second_request(gateway: RunningGateway) -> None:
    """Check that the supplier received the tool's result and the model's earlier messages."""
    request = gateway.supplier.requests[-1]
    assert [result.text for result in request.results] == ['etc in a "b"']
    assert "I look." in json.dumps(request.body)


@pytest.mark.parametrize("loop", LOOPS)
@every_channel
def test_a_tool_loop_in_javascript_runs_through(
    gateway: RunningGateway, loop: str, model: str
) -> None:
    if not (which("node") and (CLIENTS / "node_modules").is_dir()):
        pytest.skip("no Node.js here, or its packages are not installed (.ci/run does)")
    if STORED.get(loop) == model:
        pytest.skip("passed on, and the scripted supplier stores nothing")
    gateway.supplier.script(CALLED, Say("It holds etc."))
    key = gateway.add_caller().key
    ended = subprocess.run(
        ["node", str(PROGRAM), loop, gateway.daemon.url, key, model],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert json.loads(ended.stdout) == {"said": "It holds etc.", "seen": ['a "b"']}
    check_second_request(gateway)


@pytest.mark.parametrize("model", [name for name in MODELS if name != "by-messages"])
def test_anthropics_tool_runner_goes_on_without_a_thread(
    gateway: RunningGateway, model: str
) -> None:
    @beta_tool
    def look(path: str) -> str:
        """Look into a folder."""
        return f"etc in {path}"

    gateway.supplier.script(CALLED, Say("It holds etc."))
    key = gateway.add_caller().key
    with anthropic.Anthropic(base_url=gateway.daemon.url, api_key=key, max_retries=0) as client:
        runner = client.beta.messages.tool_runner(
            model=model,
            max_tokens=500,
            tools=[look],
            messages=[{"role": "user", "content": "Look around"}],
        )
        last = runner.until_done()
    assert last.content[-1].text == "It holds etc."
    check_second_request(gateway)


@every_channel
@pytest.mark.parametrize("streamed", [False, True])
def test_openais_parsed_message_goes_back(
    gateway: RunningGateway, model: str, streamed: bool
) -> None:
    function = {"name": "look", "parameters": {**PARAMETERS, "additionalProperties": False}}
    tool: Any = {"type": "function", "function": {**function, "strict": True}}
    said: list[Any] = [{"role": "user", "content": "Look around"}]
    gateway.supplier.script(CALLED, Say("It holds etc."))
    key = gateway.add_caller().key
    with gateway.open_openai_client(key) as client:
        if streamed:
            with client.chat.completions.stream(model=model, messages=said, tools=[tool]) as stream:
                reply = stream.get_final_completion()
        else:
            reply = client.chat.completions.parse(model=model, messages=said, tools=[tool])
        message = reply.choices[0].message
        (call,) = message.tool_calls
        received = {"role": "tool", "tool_call_id": call.id, "content": 'etc in a "b"'}
        said += [message.model_dump(), received]
        last = client.chat.completions.create(model=model, messages=said, tools=[tool])
    assert last.choices[0].message.content == "It holds etc."
    check_second_request(gateway)


@pytest.mark.parametrize("model", [name for name in MODELS if name != "by-responses"])
def test_an_openai_client_is_reported_to_send_the_whole_conversation(
    gateway: RunningGateway, model: str
) -> None:
    key, asked = gateway.add_caller().key, len(gateway.supplier.requests)
    with (
        gateway.open_openai_client(key) as client,
        pytest.raises(openai.BadRequestError, match="send the whole conversation") as caught,
    ):
        client.responses.create(model=model, input="Go on", previous_response_id="resp_1")
    assert caught.value.code == "previous_response_not_found"
    assert caught.value.param == "previous_response_id"
    assert caught.value.type == "invalid_request_error"
    assert "openai-responses channel" in caught.value.message
    assert len(gateway.supplier.requests) == asked


def put_together(chunks: Iterable[Any]) -> dict[str, Any]:
    """Assemble the only call of a streamed reply, as clients do."""
    call: dict[str, Any] = {}
    for chunk in chunks:
        for choice in chunk.choices:
            for piece in choice.delta.tool_calls or ():
                received = piece.model_dump(exclude_none=True)
                if call:
                    assert not {"id", "type", "function"} & received.keys()
                    call["custom"]["input"] += received["custom"]["input"]
                else:
                    call = received
    return call


@every_channel
@pytest.mark.parametrize("streamed", [False, True])
def test_openais_custom_tool_is_called_with_text(
    gateway: RunningGateway, model: str, streamed: bool
) -> None:
    grammar = {"syntax": "lark", "definition": "start: /.+/"}
    form = {"type": "grammar", "grammar": grammar}
    tool: Any = {"type": "custom", "custom": {"name": "run", "description": "x", "format": form}}
    code = 'print("ä\\n🎉")\n' * 3
    own = model in ("by-chat", "by-responses")  # the others are asked for a function
    gateway.supplier.script(Call("run", code if own else {"input": code}), Say("It ran."))
    said: list[Any] = [{"role": "user", "content": "Go on"}]
    key = gateway.add_caller().key
    with gateway.open_openai_client(key) as client:
        choice: Any = {"type": "custom", "custom": {"name": "run"}}
        asked: Any = {"model": model, "messages": said, "tools": [tool], "tool_choice": choice}
        if streamed:
            with client.chat.completions.create(**asked, stream=True) as stream:
                call = put_together(stream)
            del call["index"]
        else:
            (received,) = (
                client.chat.completions.create(**asked).choices[0].message.tool_calls or ()
            )
            call = received.model_dump(exclude_none=True)
        assert (call["type"], call["custom"]) == ("custom", {"name": "run", "input": code})
        result = {"role": "tool", "tool_call_id": call["id"], "content": "ran"}
        said += [{"role": "assistant", "content": None, "tool_calls": [call]}, result]
        last = client.chat.completions.create(**{**asked, "tool_choice": "auto"})
    assert last.choices[0].message.content == "It ran."
    first, second = gateway.supplier.requests[-2:]
    assert (first.tools["run"] == "custom") is own
    assert grammar["definition"] in json.dumps(first.body)
    assert [result.text for result in second.results] == ["ran"]
    assert json.dumps(code)[1:-1] in json.dumps(second.body)


@every_channel
def test_openais_parsed_response_goes_back(gateway: RunningGateway, model: str) -> None:
    tool: Any = {"type": "function", "name": "look", "strict": True, "parameters": PARAMETERS}
    said: list[Any] = [{"role": "user", "content": "Look around"}]
    gateway.supplier.script(CALLED, Say("It holds etc."))
    key = gateway.add_caller().key
    with gateway.open_openai_client(key) as client:
        reply = client.responses.parse(model=model, input=said, tools=[tool])
        (call,) = [item for item in reply.output if item.type == "function_call"]
        received = {
            "type": "function_call_output",
            "call_id": call.call_id,
            "output": 'etc in a "b"',
        }
        said += [*(item.model_dump() for item in reply.output), received]
        last = client.responses.create(model=model, input=said, tools=[tool])
    assert last.output_text == "It holds etc."
    check_second_request(gateway)


LONG = "mcp__plugin_chrome-devtools-mcp_chrome-devtools__performance_analyze_insight"


@pytest.mark.parametrize("model", ["by-chat", "by-responses", "by-gemini"])
@pytest.mark.parametrize("streamed", [False, True])
def test_claude_codes_long_names_of_tools_are_its_own_at_every_supplier(
    gateway: RunningGateway, model: str, streamed: bool
) -> None:
    made = find_name_for(LONG, "openai-chat")
    gateway.supplier.script(Answer((Call(made, {"path": "a"}),)), Say("It holds etc."))
    key = gateway.add_caller().key
    said: list[Any] = [{"role": "user", "content": "Look around"}]
    tools: Any = [{"name": LONG, "input_schema": PARAMETERS}]
    with anthropic.Anthropic(base_url=gateway.daemon.url, api_key=key, max_retries=0) as client:

        def ask() -> anthropic.types.Message:
            given = {"model": model, "max_tokens": 500, "tools": tools, "messages": said}
            if not streamed:
                return client.messages.create(**given)
            with client.messages.stream(**given) as stream:
                return stream.get_final_message()

        reply = ask()
        (call,) = reply.content
        assert isinstance(call, anthropic.types.ToolUseBlock)
        assert (call.name, call.input) == (LONG, {"path": "a"})
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "etc"}
        said += [
            {"role": "assistant", "content": reply.content},
            {"role": "user", "content": [result]},
        ]
        assert ask().content[-1].text == "It holds etc."
    for request in gateway.supplier.requests[-2:]:
        body = json.dumps(request.body)
        assert LONG not in body
        assert made in body


def find_name_for(name: str, dialect: ChannelDialect) -> str:
    """Return the name that suppliers of a dialect get in the place of a caller's."""
    tool = ToolDefinition(name, "", {})
    _, own = fit_tool_names(Conversation(messages=(), tools=(tool,)), dialect)
    (made,) = own
    return made
