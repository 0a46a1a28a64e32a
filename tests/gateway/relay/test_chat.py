"""OpenAI's client through the gateway."""

from collections.abc import Callable

import openai
import pytest

from tests.gateway.conftest import SECRET, GatewaySetup
from tests.supplier.steps import Answer, Call, Refuse, Say, Tokens
from tests.support.daemon import Serving

HELLO = [{"role": "user", "content": "hello"}]


def test_a_whole_reply_is_passed_on_and_recorded(
    setup: GatewaySetup, openai_client: openai.OpenAI
) -> None:
    setup.supplier.script(Answer((Say("hi there"),), Tokens(input=1000, output=100)))
    reply = openai_client.chat.completions.create(model="by-chat", messages=HELLO)
    assert reply.choices[0].message.content == "hi there"
    (asked,) = setup.supplier.requests
    assert asked.headers["authorization"] == f"Bearer {SECRET}"
    assert asked.body["model"] == "scripted-large"
    (entry,) = setup.wait_for_records(1)
    assert (entry.outcome, entry.status, entry.channel) == ("ok", 200, "chat")
    assert str(entry.cost) == "0.0045"


def test_a_stream_is_passed_on_and_recorded(
    setup: GatewaySetup, openai_client: openai.OpenAI
) -> None:
    setup.supplier.script(Answer((Say("one two three"),), Tokens(input=1000, output=100)))
    with openai_client.chat.completions.create(
        model="by-chat", messages=HELLO, stream=True
    ) as stream:
        chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "one two three"
    assert all(chunk.usage is None for chunk in chunks)  # nobody asked for it
    (entry,) = setup.wait_for_records(1)
    assert (entry.outcome, entry.stream, str(entry.cost)) == ("ok", True, "0.0045")


def test_a_tool_call_is_passed_on(setup: GatewaySetup, openai_client: openai.OpenAI) -> None:
    setup.supplier.script(Call("ls", {"path": "/"}))
    reply = openai_client.chat.completions.create(
        model="by-chat",
        messages=HELLO,
        tools=[{"type": "function", "function": {"name": "ls", "parameters": {}}}],
    )
    (call,) = reply.choices[0].message.tool_calls
    assert (call.function.name, call.function.arguments) == ("ls", '{"path": "/"}')


def test_without_a_licence_nothing_flows_and_the_refusal_says_what_to_do(
    setup: GatewaySetup, start_gateway: Callable[..., Serving]
) -> None:
    """The proxy specification, section 1: no traffic without a licence."""
    setup.licensed = False
    key, daemon = setup.add_key(), start_gateway()
    client = openai.OpenAI(base_url=f"{daemon.url}/v1", api_key=key, max_retries=0)
    with client, pytest.raises(openai.APIStatusError) as refused:
        client.chat.completions.create(model="by-chat", messages=HELLO)
    assert refused.value.status_code == 402
    assert "agentd licence" in str(refused.value)
    assert not setup.supplier.requests
    (entry,) = setup.wait_for_records(1)
    assert (entry.outcome, entry.error) == ("refused", "no_licence")


def test_a_stream_that_ends_without_the_last_word_is_recorded_as_whole(
    setup: GatewaySetup, openai_client: openai.OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some suppliers send no ``[DONE]``; that the reply is whole tells its finish reason."""
    monkeypatch.setattr("tests.supplier.chat.DONE", b"")
    setup.supplier.script(Answer((Say("one two"),), Tokens(input=1000, output=100)))
    with openai_client.chat.completions.create(
        model="by-chat", messages=HELLO, stream=True
    ) as stream:
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "one two"
    (entry,) = setup.wait_for_records(1)
    assert (entry.outcome, str(entry.cost)) == ("ok", "0.0045")


@pytest.mark.parametrize("model", ["by-chat", "by-responses"])
def test_a_request_that_is_larger_than_what_a_minute_may_have_stops_no_others(
    setup: GatewaySetup, openai_client: openai.OpenAI, model: str
) -> None:
    too_large = (
        "Request too large for scripted-large in organization org-1 on tokens per min (TPM): Limit"
        " 30000, Requested 36055. The input or output tokens must be reduced in order to run."
    )
    setup.supplier.script(Refuse(429, too_large, "tokens", "rate_limit_exceeded"), Say("hi"))
    with pytest.raises(openai.APIStatusError, match="must be reduced"):
        openai_client.chat.completions.create(model=model, messages=HELLO)
    reply = openai_client.chat.completions.create(model=model, messages=HELLO)
    assert reply.choices[0].message.content == "hi"
    assert [entry.error for entry in setup.wait_for_records(2)] == ["context_too_long", ""]
