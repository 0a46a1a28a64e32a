"""Requests of the Responses API whose items are named by their ids."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.errors import BadRequest
from agentd.llm.dialects.openai_responses.item_references import (
    decode_items,
    encode_items,
    resolve_references,
)

ITEM = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
KNOWN = encode_items([ITEM])


def build_body(*items, **fields):
    return json.dumps({"model": "m", "input": items, **fields}).encode()


def build_reference(name):
    return {"type": "item_reference", "id": name}


def test_known_items_stand_where_they_were_named_and_others_stay():
    said = {"role": "user", "content": "item_reference"}
    result = resolve_references(
        build_body(said, build_reference("msg_1"), build_reference("msg_2"), n=1), KNOWN.get
    )
    wanted = {"model": "m", "input": [said, ITEM, build_reference("msg_2")], "n": 1}
    assert json.loads(result) == wanted


@pytest.mark.parametrize(
    "asked",
    [
        build_body({"role": "user", "content": "Hi"}),
        build_body(build_reference("msg_2")),
        build_body({"type": "item_reference", "id": 7}, {"type": "message", "id": "msg_1"}),
        b'{"model":"m","input":"item_reference"}',
        b'{"model":"m","instructions":"item_reference"}',
        b'{"input":["item_reference",7,null,[{"type":"item_reference","id":"msg_1"}]]}',
    ],
)
def test_a_request_without_known_references_stays_as_it_was_written(asked):
    assert resolve_references(asked, KNOWN.get) is asked


@pytest.mark.parametrize("name", ["msg_1", "msg_2"])
def test_an_item_can_be_named_once_only(name):
    with pytest.raises(BadRequest, match=r"\$\.input\[1\].*same item"):
        resolve_references(build_body(build_reference(name), build_reference(name)), KNOWN.get)


def test_the_items_of_a_whole_reply_are_known_by_their_ids():
    items = decode_items(json.dumps({"id": "resp_1", "output": [ITEM]}).encode())
    assert {name: json.loads(text) for name, text in items.items()} == {"msg_1": ITEM}


@given(st.binary() | st.text().map(str.encode))
def test_whatever_stands_as_input_it_stays_or_is_refused(given_input):
    asked = b'{"x":"item_reference","input":%b}' % given_input
    with suppress(BadRequest):
        assert resolve_references(asked, KNOWN.get) is asked
