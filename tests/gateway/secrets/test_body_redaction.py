"""The kept bodies of requests and answers hold nothing that any rule finds."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.gateway.secrets.builtin import BUILT_IN
from agentd.gateway.secrets.rules import SecretPattern, SecretRules
from tests.gateway.secrets.bodies import PLACEHOLDER, build_body, create_masker, mask_body
from tests.gateway.secrets.replies import DIALECTS, build_reply, build_stream, parse_stream
from tests.gateway.secrets.samples import TOKENS

GITHUB, REPORTED = TOKENS["github"], "rrr-12345678"
RULES = SecretRules((SecretPattern(id="only-told", regex="rrr-[0-9]{8}", mode="report"), *BUILT_IN))
CUTS = st.lists(st.integers(1, 30), min_size=1, max_size=4)


@pytest.mark.parametrize("secret", [GITHUB, REPORTED])
@pytest.mark.parametrize(
    "make",
    [
        build_body,
        lambda text: {"metadata": {text: text}, "user": text},
        lambda text: {text: "x", "model": text, "previous_response_id": text},
        lambda text: {"messages": [{"role": text, "name": text, "tool_call_id": text}]},
        lambda text: {"messages": [{"content": [{"type": "thinking", "thinking": text}]}]},
        lambda text: {"input": [{"arguments": json.dumps({"a": json.dumps({"b": text})})}]},
    ],
)
def test_no_place_of_a_request_is_spared(make, secret):
    hiding = create_masker(RULES)
    body = json.dumps(make(f"my {secret} is")).encode()
    kept = hiding.redact_body(body, "openai-chat", "k")
    assert secret.encode() not in kept
    assert PLACEHOLDER.search(kept.decode())
    assert json.loads(kept)
    assert hiding.redact_body(kept, "openai-chat", "k") == kept


@given(st.sampled_from(DIALECTS), st.sampled_from([GITHUB, REPORTED]), CUTS)
def test_no_answer_shows_a_secret_however_it_is_cut(dialect, secret, cuts):
    hiding = create_masker(RULES)
    text, arguments = f"é {secret} and {secret}.", json.dumps({"a": f"x {secret}", "b": 1})
    data = build_stream(dialect, text, arguments, cuts)
    kept = hiding.redact_body(data, dialect, "k")
    assert secret.encode() not in kept
    output, called = parse_stream(dialect, kept)
    assert secret not in output
    assert PLACEHOLDER.sub("@", output) == "é @ and @."
    assert {**json.loads(called), "a": ""} == {"a": "", "b": 1}
    assert secret not in called
    answer: Any = json.dumps(build_reply(dialect, text, arguments)).encode()
    kept = hiding.redact_body(answer, dialect, "k")
    assert secret.encode() not in kept
    assert json.loads(kept)


@pytest.mark.parametrize("secret", [GITHUB, REPORTED])
@pytest.mark.parametrize(
    "write",
    [
        lambda text: json.dumps({"output": [text, {text: 1}]}, indent=1),
        lambda text: f"data: {json.dumps(build_body(text))}\n\n",
        lambda text: f"data: {json.dumps([text])}\n\ndata: {json.dumps(text)}\n\n",
        lambda text: f'data: {{"choices": [{{"delta": {{"cont\\u0065nt": "{text}"}}}}]}}\n\n',
    ],
)
def test_a_secret_whose_letters_are_escaped_is_found_in_json_and_in_streams(write, secret):
    escaped = "".join(f"\\u{ord(letter):04X}" for letter in secret)
    kept = create_masker(RULES).redact_body(
        write("@").replace("@", f"my {escaped}.").encode(), "openai-chat", "k"
    )
    assert escaped.encode() not in kept
    assert PLACEHOLDER.search(kept.decode())


def test_what_was_hidden_stays_the_placeholder_that_it_is_and_what_is_known_is_not_bare():
    hiding = create_masker()
    result = mask_body(build_body("DB_PASSWORD=tr0ub4dor3"), hiding)
    assert hiding.redact_body(result.body, "openai-chat", "k") == result.body
    bare = json.dumps(build_body("it is tr0ub4dor3")).encode()
    assert b"tr0ub4dor3" not in hiding.redact_body(bare, "openai-chat", "k")


@pytest.mark.parametrize("body", [b"no JSON, %b", b"\xff\xfe %b", b"data: {%b\n\ndata: [DONE]\n\n"])
def test_what_is_neither_json_nor_a_stream_is_looked_at_as_text(body):
    kept = create_masker().redact_body(body % GITHUB.encode(), "openai-chat", "k")
    assert GITHUB.encode() not in kept


@pytest.mark.parametrize("body", [b"", b"hello", b'{"a": "b"}', b"data: {}\n\n", b"\xff"])
def test_a_body_without_secrets_is_kept_as_it_is(body):
    assert create_masker().redact_body(body, "openai-chat", "k") == body
