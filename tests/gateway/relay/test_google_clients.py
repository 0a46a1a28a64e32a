"""Google's own clients, for JavaScript and Python, whatever dialect the model's supplier speaks.

Their chats send a streamed reply back as one content for each chunk, and their requests mix both
forms of names.
"""

import enum
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from shutil import which
from typing import Any

import pydantic
import pytest
from google import genai
from google.genai import errors, types

from tests.gateway.relay.callers import RunningGateway, running_gateway
from tests.supplier.embeddings import embed
from tests.supplier.steps import Answer, Call, Fail, Refuse, Say, Stall, Step, Think, Tokens
from tests.support.daemon import PATIENCE

CLIENTS = Path(__file__).parent / "clients"
MODELS = ["by-gemini", "by-chat", "by-responses", "by-messages"]
FIRST = "one\n\n- two three"
COUNT = "/v1beta/models/scripted-large:countTokens"
every_channel = pytest.mark.parametrize("model", MODELS)
CALLED = Answer(
    (Think("Which one?"), Say("I look."), Call("look", {"path": "a"}), Call("look", {"path": "b"}))
)
PATHS = [{"path": "a"}, {"path": "b"}]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with running_gateway(tmp_path_factory.mktemp("gateway")) as made:
        made.supplier.documents[COUNT] = {"totalTokens": 12}
        yield made


@pytest.fixture(autouse=True)
def _anew(gateway: RunningGateway) -> None:
    gateway.supplier.forget()
    gateway.supplier.requests.clear()


@pytest.fixture
def client(gateway: RunningGateway) -> Iterator[genai.Client]:
    with gateway.open_google_client(gateway.add_caller().key) as made:
        yield made


def run(gateway: RunningGateway, scenario: str, model: str, *steps: Step) -> Any:
    """Run a scenario of the program in JavaScript, and return what it printed."""
    if not (which("node") and (CLIENTS / "node_modules/@google").is_dir()):
        pytest.skip("no Node.js here, or its packages are not installed (.ci/run does)")
    gateway.supplier.script(*steps)
    key = gateway.add_caller().key
    ended = subprocess.run(
        ["node", str(CLIENTS / "google.mjs"), scenario, gateway.daemon.url, key, model],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return json.loads(ended.stdout)


def list_replies(body: dict[str, Any], model: str) -> list[str]:
    """Return the texts of the model's turns as the supplier received them."""
    turns = body.get("messages") or body.get("input") or body["contents"]
    found = []
    for turn in turns:
        if turn.get("role") in ("assistant", "model"):
            said = turn.get("content", turn.get("parts"))
            pieces = said if isinstance(said, list) else [{"text": said}]
            texts = [one["text"] for one in pieces if "text" in one and not one.get("thought")]
            found += texts if model != "by-gemini" else ["".join(texts)]
    return found


@every_channel
def test_a_request_with_an_image_and_settings_is_answered_whole(
    gateway: RunningGateway, model: str
) -> None:
    step = Answer((Say("A dot."),), Tokens(input=7, output=3))
    assert run(gateway, "whole", model, step) == ["A dot.", "STOP", 7, 10]
    body = json.dumps(gateway.supplier.requests[0].body)
    for part in ("iVBORw0KGgo=", "Be brief.", "Be kind."):
        assert part in body


@every_channel
def test_thoughts_are_streamed(gateway: RunningGateway, model: str) -> None:
    step = Answer((Think("Let me see."), Say("Hello there.")))
    assert run(gateway, "thinking", model, step) == {
        "said": "Hello there.",
        "thought": "Let me see.",
        "calls": [],
    }
    assert "low" in json.dumps(gateway.supplier.requests[0].body).lower() or model == "by-messages"


@every_channel
def test_a_chat_has_several_turns(gateway: RunningGateway, model: str) -> None:
    steps: list[Step] = [[Think("Hm."), Say(FIRST)], Say("four five"), Say("six")]
    assert run(gateway, "chat", model, *steps) == [FIRST, "four five", "six"]
    last = gateway.supplier.requests[-1].body
    if model == "by-gemini":  # passed on as the client sends it
        assert "".join(list_replies(last, model)) == f"{FIRST}four five"
    else:
        assert list_replies(last, model) == [FIRST, "four five"]


@every_channel
@pytest.mark.parametrize("way", ["tools by hand", "tools by hand, without ids"])
def test_tools_are_called_by_hand(gateway: RunningGateway, model: str, way: str) -> None:
    assert run(gateway, way, model, CALLED, Say("It holds etc.")) == [PATHS, "It holds etc."]
    results = gateway.supplier.requests[-1].results
    assert [result.text for result in results] == ["etc in a", "etc in b"]


@every_channel
@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("tools by itself", "It holds etc."),
        ("tools by itself, streamed", "I look.It holds etc."),
    ],
)
def test_the_client_calls_tools_by_itself(
    gateway: RunningGateway, model: str, way: str, said: str
) -> None:
    again = Call("look", {"path": "c"})
    assert run(gateway, way, model, CALLED, again, Say("It holds etc.")) == [said]
    _, second, third = gateway.supplier.requests
    assert [result.text for result in second.results] == ["etc in a", "etc in b"]
    assert [result.text for result in third.results] == ["etc in c"]


@every_channel
def test_replies_fit_a_schema(gateway: RunningGateway, model: str) -> None:
    reply = '{"kind": null}'
    assert run(gateway, "schemas", model, *[Say(reply)] * 3) == [reply] * 3
    own, standard, _ = (json.dumps(one.body) for one in gateway.supplier.requests)
    if model != "by-gemini":
        assert '{"type": ["string", "null"], "enum": ["a", "b", null]}' in own
    assert '"kind": {"type": "string"}' in standard


@every_channel
def test_models_are_listed_and_tokens_counted(gateway: RunningGateway, model: str) -> None:
    names, one, counted = run(gateway, "models", model)
    assert sorted(names) == sorted(f"models/{name}" for name in MODELS)
    assert (one, counted) == (f"models/{model}", True)


@pytest.mark.parametrize("model", ["by-gemini", "by-chat"])
def test_texts_are_embedded(gateway: RunningGateway, model: str) -> None:
    assert run(gateway, "embeddings", model) == [embed("Hello", 0, 3), embed("x", 1, 3)]


@every_channel
def test_errors_have_a_status_and_say_what_is_wrong(gateway: RunningGateway, model: str) -> None:
    failing = Answer((Say("one two three"),), faults=(Fail(after=3, message="It melted"),))
    refused = Refuse(400, "Not this")
    found = run(gateway, "errors", model, refused, refused, failing)
    assert found["refused"] == found["refusedStream"] == [400, "INVALID_ARGUMENT", "Not this"]
    code, status, message = found["failedStream"]
    assert (code, status) in ((500, "INTERNAL"), (503, "UNAVAILABLE"))
    assert "It melted" in message
    for name, expected in (
        ("unknown", [404, "NOT_FOUND", 'no model "none"']),
        ("unknownModel", [404, "NOT_FOUND", 'no model "none"']),
        ("key", [401, "UNAUTHENTICATED", "not an access key"]),
    ):
        code, status, message = found[name]
        assert [code, status] == expected[:2]
        assert expected[2] in message


@every_channel
def test_a_program_that_leaves_a_stream_ends_the_suppliers(
    gateway: RunningGateway, model: str
) -> None:
    after = {"by-responses": 6, "by-messages": 4}.get(model, 2)  # the first ones have no text
    step = Answer((Say("one two three four five six"),), faults=(Stall(after),))
    assert run(gateway, "abort", model, step) == [True, "AbortError"]
    gateway.supplier.requests[0].gone.result(PATIENCE)


class Kind(enum.Enum):
    """A choice."""

    A = "a"
    B = "b"


class Found(pydantic.BaseModel):
    """A reply in which a choice may be missing."""

    name: str
    kind: Kind | None = None


def look(path: str) -> str:
    """Look into a folder."""
    if path == "b":
        raise ValueError("there is no b")
    return f"etc in {path}"


@every_channel
@pytest.mark.parametrize("streamed", [False, True])
def test_pythons_chat_calls_functions_by_itself(
    gateway: RunningGateway, client: genai.Client, model: str, streamed: bool
) -> None:
    gateway.supplier.script(CALLED, Say(FIRST), Say("four"))
    chat = client.chats.create(
        model=model,
        config=types.GenerateContentConfig(tools=[look], system_instruction=["Be", "brief"]),
    )
    for text, end in (("Look around", FIRST), ("Go on", "four")):
        if streamed:
            pieces = [
                part.text or ""
                for chunk in chat.send_message_stream(text)
                for part in chunk.candidates[0].content.parts
            ]
            assert "".join(pieces).endswith(end)
        else:
            assert chat.send_message(text).text == end
    _, second, third = gateway.supplier.requests
    first, failed = (result.text for result in second.results)
    assert "etc in a" in first
    assert "there is no b" in failed
    replies = list_replies(third.body, model)
    assert "".join(replies) == f"I look.{FIRST}"
    if model != "by-gemini":
        assert replies == ["I look.", FIRST]


@every_channel
def test_pythons_functions_are_answered_in_the_role_of_a_tool(
    gateway: RunningGateway, client: genai.Client, model: str
) -> None:
    gateway.supplier.script(CALLED, Say("It holds etc."))
    declared = types.FunctionDeclaration.from_callable(client=client._api_client, callable=look)
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=[declared])],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_budget=-1),
    )
    said = [types.Content(role="user", parts=[types.Part(text="Look around")])]
    reply = client.models.generate_content(model=model, contents=said, config=config)
    answers = [
        types.Part.from_function_response(
            name=call.name, response={"output": f"etc in {call.args['path']}"}
        )
        for call in reply.function_calls
    ]
    said += [reply.candidates[0].content, types.Content(role="tool", parts=answers)]
    last = client.models.generate_content(model=model, contents=said, config=config)
    assert last.text == "It holds etc."
    results = gateway.supplier.requests[-1].results
    assert [result.text for result in results] == ["etc in a", "etc in b"]


@every_channel
def test_pythons_reply_is_parsed(gateway: RunningGateway, client: genai.Client, model: str) -> None:
    gateway.supplier.script(Say('{"name": "x", "kind": null}'))
    config = types.GenerateContentConfig(
        response_mime_type="application/json", response_schema=Found
    )
    reply = client.models.generate_content(model=model, contents="Which?", config=config)
    assert reply.parsed == Found(name="x", kind=None)
    if model != "by-gemini":
        assert '"enum": ["a", "b", null]' in json.dumps(gateway.supplier.requests[0].body)


@pytest.mark.parametrize("model", ["by-gemini", "by-chat"])
def test_pythons_image_costs_no_more_than_an_image_in_tokens(
    gateway: RunningGateway, client: genai.Client, model: str
) -> None:
    picture = types.Part.from_bytes(data=b"\x89PNG\r\n" + bytes(3_000_000), mime_type="image/png")
    gateway.supplier.script(Say("A dot."))
    reply = client.models.generate_content(model=model, contents=["What is it?", picture])
    assert reply.text == "A dot."
    counted = client.models.count_tokens(model=model, contents=["What is it?", picture])
    assert (counted.total_tokens or 0) in range(1, 6000)


@every_channel
def test_pythons_errors_have_a_status(
    gateway: RunningGateway, client: genai.Client, model: str
) -> None:
    gateway.supplier.script(Refuse(400, "Not this"))
    with pytest.raises(errors.ClientError) as caught:
        client.models.generate_content(model=model, contents="Hello")
    assert (caught.value.code, caught.value.status) == (400, "INVALID_ARGUMENT")
    assert caught.value.message == "Not this"
