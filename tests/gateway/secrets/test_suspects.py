"""Many texts are looked at together, which finds the same as to look at each, and is quicker."""

import json
from base64 import b64encode
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.gateway.secrets.builtin import BUILT_IN
from agentd.gateway.secrets.detect import Detector, KnownValueMatcher
from agentd.gateway.secrets.rules import ExactSecret, SecretPattern, SecretRules
from tests.gateway.secrets.bodies import create_masker, mask_body
from tests.gateway.secrets.innocents import INNOCENTS
from tests.gateway.secrets.plain_forms import FORMS
from tests.gateway.secrets.samples import TOKENS, make_letters

KNOWN = KnownValueMatcher({b"known-before-this": "assigned"})
VALUE = "registered: as it is"
BUILT = Detector(SecretRules(BUILT_IN, (ExactSecret(id="value", text=VALUE),)))
PLAIN = [f"Message {number}: look at the next file, and tell me of it" for number in range(400)]
SECRETS = [text for text, _ in FORMS]
ENCODED = [b64encode(f"token {TOKENS['github']}".encode()).decode(), "ghp%5F" + make_letters(36)]
TEXTS = [text.encode() for text in (*SECRETS, *INNOCENTS, *ENCODED, *PLAIN[:9], VALUE, "")]
TEXTS += [b"known-before-this", b"before known-before-this\n", b"\xed\xa0\x80", b"\n", b"\\"]


def find_missed(detector: Detector, texts: list[bytes]) -> list[bytes]:
    suspects = set(detector.find_suspects(texts, KNOWN))
    others = [text for number, text in enumerate(texts) if number not in suspects]
    return [text for text in others if detector.find(text, KNOWN)]


@given(st.lists(st.sampled_from(TEXTS), max_size=40))
def test_each_text_in_which_something_is_found_is_a_suspect_whatever_is_beside_it(texts):
    assert find_missed(BUILT, texts) == []


@pytest.mark.parametrize(
    "neighbour", [b"", b"x", b"\\", b"password", b"password=", b'<a key="', b"A"]
)
def test_every_form_is_a_suspect_between_texts_that_could_go_on_in_it(neighbour):
    for text, _ in FORMS:
        assert find_missed(BUILT, [neighbour, text.encode(), neighbour]) == []


def test_of_texts_without_secrets_none_is_a_suspect():
    assert not BUILT.find_suspects([text.encode() for text in PLAIN], KNOWN)


@pytest.mark.parametrize(
    "regex", [r"^abc[0-9]{4}$", r"\Aabc[0-9]{4}", r"abc[0-9]{4}\z", r"(?-m)^abc[0-9]{4}$"]
)
def test_a_pattern_that_asks_for_the_begin_or_end_finds_those_of_each_text(regex):
    detector = Detector(SecretRules((SecretPattern(id="edge", regex=regex),)))
    texts = [b"plain text", b"abc1234", b"plain text", b"abc5678"]
    assert {1, 3} <= set(detector.find_suspects(texts, None))


def test_many_short_texts_take_much_less_time_than_each_for_itself():
    texts = [text.encode() for text in PLAIN]

    def measure(look) -> float:
        times = []
        for _ in range(5):
            began = process_time()
            look()
            times.append(process_time() - began)
        return min(times)

    together = measure(lambda: BUILT.find_suspects(texts, KNOWN))
    assert together * 3 < measure(lambda: [BUILT.find(text, KNOWN) for text in texts])


def test_what_stands_twice_in_a_request_is_hidden_twice_when_it_is_looked_at_again():
    hiding = create_masker()
    said = [{"role": "user", "content": f"say {TOKENS['github']} twice"} for _ in range(2)]
    learnt = {"role": "user", "content": "DB_PASSWORD=tr0ub4dor3&xyz"}
    for messages in (said, [*said, learnt], [*said, learnt, *said]):
        assert TOKENS["github"].encode() not in mask_body({"messages": messages}, hiding).body


def test_every_string_of_a_request_is_looked_at_wherever_a_batch_of_them_ends():
    secret = TOKENS["github"]
    for size in (100, 4_000, 40_000):
        strings = [f"{number} {secret} " + "a " * (size // 2) for number in range(40)]
        arguments = json.dumps({"password": "correct-horse-7", "path": strings[0]})
        call = {"id": "c1", "function": {"name": "f", "arguments": arguments}}
        body = {"messages": [{"content": strings}, {"tool_calls": [call]}]}
        after = mask_body(body, dialect="openai-chat").body
        assert secret.encode() not in after
        assert b"correct-horse-7" not in after
