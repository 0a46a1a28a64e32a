"""A supplier has back what its model thought, though the caller speaks another dialect."""

import json
from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.llm.conversation import ReplyFinished, TextDelta, Thinking, ThinkingDone
from agentd.llm.dialects.callers import CALLERS
from agentd.llm.dialects.thinking_signatures import unwrap_thinking, wrap_thinking
from tests.llm.dialects.replies import GLANCE
from tests.llm.dialects.streams import SEALED

ITEM = SEALED
THOUGHTS = [
    Thinking("openai-chat", "Hm"),
    Thinking("openai-responses", "Look.", sealed=ITEM),
    Thinking(
        "openai-responses",
        "",
        sealed='{"summary":[],"type":"reasoning","id":"r","encrypted_content":"g"}',
    ),
    Thinking("gemini", "Hm", "EqQB=="),
    Thinking("gemini", "", "EqQB=="),
    Thinking("anthropic", "Hm", "EqQB=="),
    Thinking("anthropic", "", "EqQB=="),
    Thinking("anthropic", sealed="x=="),
]


def build_next_request(dialect, body):
    """Build the next request of a caller that sends back the answer as it came."""
    answer = json.loads(body)
    if dialect == "anthropic":
        said = [{"role": "user", "content": "a"}, {"role": "assistant", **_get_content(answer)}]
        return json.dumps({"model": "m", "max_tokens": 9, "messages": said}).encode()
    items = [{"role": "user", "content": "a"}, *answer["output"]]
    return json.dumps({"model": "m", "input": items}).encode()


def _get_content(answer):
    return {"content": answer["content"]}


@pytest.mark.parametrize("thinking", THOUGHTS)
@pytest.mark.parametrize("dialect", ["anthropic", "openai-responses"])
def test_what_a_caller_gives_back_is_what_the_supplier_thought(dialect, thinking):
    caller = CALLERS[dialect]
    reply = [ThinkingDone(thinking), TextDelta("Yes"), ReplyFinished("end")]
    body = build_next_request(dialect, caller.render_response(reply, GLANCE, "r1", 17))
    (found, _) = caller.parse_request(body).messages[1].parts
    if dialect == thinking.dialect == "openai-responses":  # its item has a name of ours
        assert json.loads(found.sealed)["encrypted_content"]
    else:
        assert found == thinking


@given(st.text(max_size=30))
def test_a_supplier_s_own_seal_is_left_alone(text):
    assert unwrap_thinking(text, "a") is None


@pytest.mark.parametrize(
    "rubbish",
    [
        b"",
        b"{",
        b"7",
        b"{}",
        b'{"dialect":"klingon"}',
        b'{"dialect":"anthropic","wonder":1}',
        b'{"dialect":"openai-responses","sealed":"[]"}',
        b'{"dialect":"openai-responses","sealed":"{"}',
    ],
)
def test_a_seal_that_nobody_of_us_wrote_is_none(rubbish):
    assert unwrap_thinking(b64encode(b"agentd:1:" + rubbish).decode(), "a") is None
    assert unwrap_thinking(b64encode(b"agentd:1:" + rubbish).decode()[:-1] + "!", "a") is None


def test_a_forged_seal_puts_nothing_into_a_request():
    forged = '{"type":"web_search_call","id":"x","encrypted_content":"g","wonder":1}'
    found = unwrap_thinking(wrap_thinking(Thinking("openai-responses", sealed=forged)), "")
    assert found is not None
    assert json.loads(found.sealed) == {
        "summary": [],
        "type": "reasoning",
        "id": "x",
        "encrypted_content": "g",
    }
    broken = '{"type":"reasoning"}],"model":"dear","x":[{}'
    assert unwrap_thinking(wrap_thinking(Thinking("openai-responses", sealed=broken)), "") is None
