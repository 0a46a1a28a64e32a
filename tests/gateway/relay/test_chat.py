"""OpenAI's client through the gateway."""

import json
import socket
from collections.abc import Callable

import anthropic
import openai
import pytest

from tests.gateway.conftest import SECRET, GatewaySetup
from tests.gateway.relay.raw_supplier import read_request, running_raw_supplier
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


@pytest.mark.parametrize("stream", [False, True])
def test_a_supplier_s_headers_are_passed_on_but_those_that_name_its_account(
    setup: GatewaySetup, openai_client: openai.OpenAI, stream: bool
) -> None:
    account = {"OpenAI-Organization": "acme", "OpenAI-Project": "proj_1"}
    others = {"OpenAI-Version": "2020-10-01", "X-RateLimit-Remaining-Requests": "7"}
    hidden = {"Anthropic-Organization-Id": "acme", "Set-Cookie": "a=b", "X-Other": "c"}
    setup.supplier.script(Answer((Say("hi"),), headers=account | others | hidden))
    reply = openai_client.chat.completions.with_raw_response.create(
        model="by-chat", messages=HELLO, stream=stream
    )
    assert {name: reply.headers.get(name) for name in others} == others
    assert not {name.lower() for name in account | hidden} & set(reply.headers)


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


def test_mistral_gets_no_field_that_it_refuses_from_any_caller(
    setup: GatewaySetup, start_gateway: Callable[..., Serving]
) -> None:
    sent: list[dict[str, object]] = []
    choice = {"index": 0, "message": {"role": "assistant", "content": "hi"}}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    reply = json.dumps(
        {"id": "1", "choices": [{**choice, "finish_reason": "stop"}]} | {"usage": usage}
    )

    def behave(line: socket.socket) -> None:  # as a proxy: the supplier is far away
        line.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        sent.append(json.loads(read_request(line).partition(b"\r\n\r\n")[2]))
        head = f"Content-Type: application/json\r\nContent-Length: {len(reply)}\r\n\r\n"
        line.sendall(f"HTTP/1.1 200 OK\r\nConnection: close\r\n{head}{reply}".encode())

    with running_raw_supplier() as proxy:
        proxy.behave = behave
        transport = {"kind": "http", "url": proxy.url}
        mistral = setup.build_channel("mistral", "openai-chat", transport=transport)
        setup.channels.append(mistral | {"url": "http://api.mistral.ai/v1"})
        setup.models[0]["routes"] = [{"channel": "mistral", "model": "mistral-large"}]
        key, url = setup.add_key(), start_gateway().url
        with openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client:
            client.chat.completions.create(
                model="by-chat", messages=HELLO, max_completion_tokens=90, user="ann"
            )
        with anthropic.Anthropic(base_url=url, api_key=key, max_retries=0) as other:
            other.messages.create(
                model="by-chat", messages=HELLO, max_tokens=80, metadata={"user_id": "ann"}
            )
        assert proxy.heard[0].startswith(b"CONNECT api.mistral.ai:80 ")
    asked = {"model": "mistral-large", "messages": HELLO}
    assert sent == [{**asked, "max_tokens": 90}, {**asked, "max_tokens": 80}]
