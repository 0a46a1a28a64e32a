"""Nearly all plain forms of secrets are found, and nothing of what only looks like one."""

import pytest

from agentd.proxy.secrets.builtin import BUILT_IN
from agentd.proxy.secrets.detect import Detector
from agentd.proxy.secrets.rules import Rules
from tests.proxy.secrets.innocents import INNOCENTS
from tests.proxy.secrets.plain_forms import FORMS

BUILT = Detector(Rules(BUILT_IN))
MOST_LEFT = 7
"""Characters of a secret in a row that may stay."""


def left_of(text: str) -> str:
    raw = text.encode()
    at, left = 0, []
    for hit in BUILT.find(raw):
        left.append(raw[at : hit.start])
        at = hit.end
    return b"\0".join([*left, raw[at:]]).decode()


def leaks(text: str, secret: str) -> bool:
    left = left_of(text)
    size = min(MOST_LEFT + 1, len(secret))
    return any(secret[at : at + size] in left for at in range(len(secret) - size + 1))


def test_the_corpora_are_as_large_as_is_said():
    assert len({text for text, _ in FORMS}) >= 300
    assert len(set(INNOCENTS)) >= 250


@pytest.mark.parametrize(("text", "secret"), FORMS, ids=[f"form{at}" for at in range(len(FORMS))])
def test_a_plain_form_is_found(text, secret):
    assert not leaks(text, secret), text


@pytest.mark.parametrize("text", INNOCENTS, ids=[f"innocent{at}" for at in range(len(INNOCENTS))])
def test_what_holds_no_secret_is_left_alone(text):
    assert left_of(text) == text
    assert left_of(f"before\n{text}\nafter") == f"before\n{text}\nafter"
    assert left_of(f"first line\\n{text}\\nlast") == f"first line\\n{text}\\nlast"
    assert left_of(f"    {text}") == f"    {text}"


def test_all_innocents_together_are_left_alone():
    text = "\n\n".join(INNOCENTS)
    assert left_of(text) == text
