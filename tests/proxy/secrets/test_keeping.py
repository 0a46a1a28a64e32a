"""What is kept of a request and its answer holds nothing that any rule finds."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.proxy.secrets.builtin import BUILT_IN
from agentd.proxy.secrets.rules import Rule, Rules
from tests.proxy.secrets.bodies import PLACEHOLDER, hidden, new, said
from tests.proxy.secrets.replies import DIALECTS, heard, stream, whole
from tests.proxy.secrets.samples import TOKENS

GITHUB, REPORTED = TOKENS["github"], "rrr-12345678"
RULES = Rules((Rule(id="only-told", regex="rrr-[0-9]{8}", mode="report"), *BUILT_IN))
CUTS = st.lists(st.integers(1, 30), min_size=1, max_size=4)


@pytest.mark.parametrize("secret", [GITHUB, REPORTED])
@pytest.mark.parametrize(
    "make",
    [
        said,
        lambda text: {"metadata": {text: text}, "user": text},
        lambda text: {text: "x", "model": text, "previous_response_id": text},
        lambda text: {"messages": [{"role": text, "name": text, "tool_call_id": text}]},
        lambda text: {"messages": [{"content": [{"type": "thinking", "thinking": text}]}]},
        lambda text: {"input": [{"arguments": json.dumps({"a": json.dumps({"b": text})})}]},
    ],
)
def test_no_place_of_a_request_is_spared(make, secret):
    hiding = new(RULES)
    body = json.dumps(make(f"my {secret} is")).encode()
    kept = hiding.without_secrets(body, "openai-chat", "k")
    assert secret.encode() not in kept
    assert PLACEHOLDER.search(kept.decode())
    assert json.loads(kept)
    assert hiding.without_secrets(kept, "openai-chat", "k") == kept


@given(st.sampled_from(DIALECTS), st.sampled_from([GITHUB, REPORTED]), CUTS)
def test_no_answer_tells_a_secret_however_it_is_cut(dialect, secret, cuts):
    hiding = new(RULES)
    text, arguments = f"é {secret} and {secret}.", json.dumps({"a": f"x {secret}", "b": 1})
    data = stream(dialect, text, arguments, cuts)
    kept = hiding.without_secrets(data, dialect, "k")
    assert secret.encode() not in kept
    told, called = heard(dialect, kept)
    assert secret not in told
    assert PLACEHOLDER.sub("@", told) == "é @ and @."
    assert {**json.loads(called), "a": ""} == {"a": "", "b": 1}
    assert secret not in called
    answer: Any = json.dumps(whole(dialect, text, arguments)).encode()
    kept = hiding.without_secrets(answer, dialect, "k")
    assert secret.encode() not in kept
    assert json.loads(kept)


def test_what_was_hidden_stays_the_placeholder_that_it_is_and_what_is_known_is_not_bare():
    hiding = new()
    result = hidden(said("DB_PASSWORD=tr0ub4dor3"), hiding)
    assert hiding.without_secrets(result.body, "openai-chat", "k") == result.body
    bare = json.dumps(said("it is tr0ub4dor3")).encode()
    assert b"tr0ub4dor3" not in hiding.without_secrets(bare, "openai-chat", "k")


@pytest.mark.parametrize("body", [b"no JSON, %b", b"\xff\xfe %b", b"data: {%b\n\ndata: [DONE]\n\n"])
def test_what_is_neither_json_nor_a_stream_is_looked_at_as_text(body):
    kept = new().without_secrets(body % GITHUB.encode(), "openai-chat", "k")
    assert GITHUB.encode() not in kept


@pytest.mark.parametrize("body", [b"", b"hello", b'{"a": "b"}', b"data: {}\n\n", b"\xff"])
def test_a_body_without_secrets_is_kept_as_it_is(body):
    assert new().without_secrets(body, "openai-chat", "k") == body
