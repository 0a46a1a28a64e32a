"""Items that are named by their ids, of replies that another dialect's supplier told."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway.relay.callers import Caller, CallResult, RunningGateway, running_gateway
from tests.supplier.steps import Answer, Call, Say

BARE = "tr0ub4dor3"
TOOL = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
GO_ON = {"role": "user", "content": "go on"}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with running_gateway(tmp_path_factory.mktemp("gateway")) as made:
        yield made


@pytest.fixture(autouse=True)
def _anew(gateway: RunningGateway) -> None:
    gateway.supplier.forget()


def ask_with_tool(caller: Caller, model: str, *said: Any, **fields: Any) -> CallResult:
    body = {"model": model, "input": said, "tools": [TOOL], **fields}
    return caller.ask("openai-responses", model, body=body)


def list_item_ids(output: CallResult) -> list[str]:
    """List the ids of a reply's items."""
    assert output.status == 200, output.body
    reply = (
        output.events[-1]["response"]
        if output.body.startswith(b"event")
        else json.loads(output.body)
    )
    return [item["id"] for item in reply["output"]]


def build_references(output: CallResult) -> list[dict[str, str]]:
    return [{"type": "item_reference", "id": name} for name in list_item_ids(output)]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("then", ["by-chat", "by-messages", "by-responses"])
def test_what_was_reported_of_a_translated_reply_can_be_named(
    gateway: RunningGateway, stream: bool, then: str
) -> None:
    caller = gateway.add_caller()
    gateway.supplier.script(Answer((Say("I look."), Call("look", {}))), Say("It holds etc."))
    first = ask_with_tool(caller, "by-chat", {"role": "user", "content": "look"}, stream=stream)
    named = build_references(first)
    assert len(named) == 2
    reply = first.events[-1]["response"] if stream else json.loads(first.body)
    result = {"type": "function_call_output", "output": "etc"}
    result["call_id"] = reply["output"][1]["call_id"]
    assert ask_with_tool(caller, then, *named, result).text() == "It holds etc."
    sent = json.dumps(gateway.supplier.requests[-1].body)
    assert "I look." in sent
    assert '"look"' in sent
    assert "item_reference" not in sent


def test_only_what_this_key_was_reported_and_wanted_stored_is_known(
    gateway: RunningGateway,
) -> None:
    caller, other = gateway.add_caller(), gateway.add_caller()
    gateway.supplier.script(Say("one"), Say("two"))
    output = build_references(ask_with_tool(caller, "by-chat", GO_ON))
    unstored = build_references(ask_with_tool(caller, "by-chat", GO_ON, store=False))
    asked = len(gateway.supplier.requests)
    for who, said in (
        (other, output),
        (caller, unstored),
        (caller, [{**output[0], "id": "msg_1"}]),
    ):
        refused = ask_with_tool(who, "by-chat", *said, GO_ON)
        assert refused.status == 400
        assert "$.input[0] refers to an unknown item" in refused.error()["message"]
        assert '"store": false' in refused.error()["message"]
    assert len(gateway.supplier.requests) == asked


@pytest.mark.parametrize("stream", [False, True])
def test_secrets_in_named_items_stay_hidden_and_are_put_back(
    gateway: RunningGateway, stream: bool
) -> None:
    caller = gateway.add_caller()
    gateway.supplier.script(Say("fine"))
    ask_with_tool(caller, "by-chat", {"role": "user", "content": f"DB_PASSWORD={BARE}"})
    hidden = json.dumps(gateway.supplier.requests[-1].body)
    placeholder = hidden[hidden.index("SECRET_") :].split('"')[0].rstrip("\\")
    gateway.supplier.script(Say(f"so it is {placeholder}"), Say(f"again {placeholder}"))
    output = ask_with_tool(
        caller, "by-chat", {"role": "user", "content": f"is it {BARE}?"}, stream=stream
    )
    assert output.text() == f"so it is {BARE}"
    again = ask_with_tool(caller, "by-messages", *build_references(output), GO_ON, stream=stream)
    sent = json.dumps(gateway.supplier.requests[-1].body)
    assert f"so it is {placeholder}" in sent
    assert BARE not in sent
    assert again.text() == f"again {BARE}"
