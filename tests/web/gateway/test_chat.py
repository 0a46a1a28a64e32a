"""OpenAI's client through the gateway."""

import openai

from tests.supplier.steps import Answer, Call, Say, Tokens
from tests.web.gateway.conftest import SECRET, House

HELLO = [{"role": "user", "content": "hello"}]


def test_a_whole_reply_is_passed_on_and_booked(house: House, openai_client: openai.OpenAI) -> None:
    house.supplier.script(Answer((Say("hi there"),), Tokens(input=1000, output=100)))
    reply = openai_client.chat.completions.create(model="by-chat", messages=HELLO)
    assert reply.choices[0].message.content == "hi there"
    (asked,) = house.supplier.requests
    assert asked.headers["authorization"] == f"Bearer {SECRET}"
    assert asked.body["model"] == "scripted-large"
    (entry,) = house.entries(1)
    assert (entry.outcome, entry.status, entry.channel) == ("ok", 200, "chat")
    assert str(entry.cost) == "0.0045"


def test_a_stream_is_passed_on_and_booked(house: House, openai_client: openai.OpenAI) -> None:
    house.supplier.script(Answer((Say("one two three"),), Tokens(input=1000, output=100)))
    with openai_client.chat.completions.create(
        model="by-chat", messages=HELLO, stream=True
    ) as stream:
        chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "one two three"
    assert all(chunk.usage is None for chunk in chunks)  # nobody asked for it
    (entry,) = house.entries(1)
    assert (entry.outcome, entry.stream, str(entry.cost)) == ("ok", True, "0.0045")


def test_a_tool_call_is_passed_on(house: House, openai_client: openai.OpenAI) -> None:
    house.supplier.script(Call("ls", {"path": "/"}))
    reply = openai_client.chat.completions.create(
        model="by-chat",
        messages=HELLO,
        tools=[{"type": "function", "function": {"name": "ls", "parameters": {}}}],
    )
    (call,) = reply.choices[0].message.tool_calls
    assert (call.function.name, call.function.arguments) == ("ls", '{"path": "/"}')
