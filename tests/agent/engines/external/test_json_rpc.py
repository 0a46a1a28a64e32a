"""JSON-RPC over lines."""

import json

from hypothesis import given
from hypothesis import strategies as st

from agentd.agent.engines.external.json_rpc import (
    RpcError,
    RpcNotification,
    RpcPeer,
    RpcRequest,
    RpcResult,
    get_path,
    get_text,
    iter_list,
)


def test_an_answer_is_matched_to_what_was_asked_and_counts_once() -> None:
    peer = RpcPeer(marked=True)
    asked = json.loads(peer.request("session/new", {"cwd": "/w"}).line)
    assert asked == {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/w"}}
    line = b'{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}'
    assert peer.parse(line) == RpcResult("session/new", {"sessionId": "s"})
    assert peer.parse(line) is None


def test_an_error_is_an_answer_too() -> None:
    peer = RpcPeer(marked=False)
    assert b"jsonrpc" not in peer.request("thread/resume", {}).line
    line = b'{"error":{"code":-32600,"message":"no rollout found"},"id":1}'
    assert peer.parse(line) == RpcError("thread/resume", -32600, "no rollout found")


def test_what_they_ask_is_answered_or_refused_by_its_id() -> None:
    peer = RpcPeer(marked=False)
    heard = peer.parse(b'{"id":"a-1","method":"fs/read","params":{"path":"x"}}')
    assert heard == RpcRequest("a-1", "fs/read", {"path": "x"})
    assert json.loads(peer.respond("a-1", {"ok": True}).line) == {
        "id": "a-1",
        "result": {"ok": True},
    }
    refused = json.loads(peer.respond_error(0, "not here").line)
    assert refused == {"id": 0, "error": {"code": -32601, "message": "not here"}}


def test_a_text_that_is_cut_within_a_character_goes_on_in_the_next_line() -> None:
    peer = RpcPeer(marked=False)
    said = [
        peer.parse(rb'{"method":"say","params":"I \ud83d"}'),
        peer.parse(rb'{"method":"say","params":"\ude00 see \udc00"}'),
    ]
    assert said == [
        RpcNotification("say", "I "),
        RpcNotification("say", "\U0001f600 see \ufffd"),
    ]


def test_what_they_show_has_no_id() -> None:
    peer = RpcPeer(marked=False)
    assert peer.parse(b'{"method":"error","params":[1]}') == RpcNotification("error", [1])
    assert json.loads(peer.notify("initialized").line) == {"method": "initialized"}


@given(
    st.binary(max_size=60)
    | st.sampled_from(
        [
            b"[" * 100_000,
            b'{"id":true,"method":"x"}',
            b'{"id":null,"method":"x"}',
            b'{"id":1.5,"result":1}',
            b'{"id":{},"result":1}',
            b'{"method":7}',
            b'"text"',
            b'{"id":99,"result":1}',
            b'{"id":1,"result":"\\ud800"}',
        ]
    )
)
def test_junk_is_passed_over(line: bytes) -> None:
    peer = RpcPeer(marked=True)
    peer.request("initialize", {})
    try:
        known = isinstance(json.loads(line), dict) and "\\ud800" in line.decode()
    except (ValueError, RecursionError):
        known = False
    assert known or peer.parse(line) is None


def test_values_are_picked_without_raising() -> None:
    value = {"a": {"b": "c", "d": [1, 2]}}
    assert get_path(value, "a", "b") == "c"
    assert get_path(value, "a", "b", "c") is None
    assert get_text(value, "a", "d") == ""
    assert list(iter_list(value, "a", "d")) == [1, 2]
    assert list(iter_list(value, "a", "b")) == []
