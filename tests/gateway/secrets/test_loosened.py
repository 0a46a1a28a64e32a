"""The short expressions that search for suspects miss no match of the full ones."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.gateway.secrets.builtin import BUILT_IN
from agentd.gateway.secrets.detect import Detector, loosen
from agentd.gateway.secrets.rules import SecretRules, compile_regex
from tests.gateway.secrets.plain_forms import FORMS
from tests.gateway.secrets.samples import TOKENS

LOOSENED = [rule for rule in BUILT_IN if loosen(rule.regex) != rule.regex]
SAMPLES = [text.encode() for text in (*TOKENS.values(), *(text for text, _ in FORMS))]


@pytest.mark.parametrize("rule", LOOSENED, ids=lambda rule: rule.id)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_what_a_rule_finds_its_loosened_form_finds(rule, data):
    as_python_has_it = re.sub(r"\\x\{([0-9a-f]+)\}", lambda one: chr(int(one[1], 16)), rule.regex)
    text = data.draw(st.from_regex(as_python_has_it, alphabet=st.characters(codec="utf-8")))
    if compile_regex(rule.regex).search(text.encode()):
        assert compile_regex(loosen(rule.regex)).search(text.encode())


@pytest.mark.parametrize("rule", LOOSENED, ids=lambda rule: rule.id)
def test_in_every_sample_of_a_rule_its_loosened_form_is_found(rule):
    exact, loose = compile_regex(rule.regex), compile_regex(loosen(rule.regex))
    assert all(loose.search(text) for text in SAMPLES if exact.search(text))


def test_a_loosened_form_is_much_smaller():
    sizes = [(compile_regex(one.regex).programsize, compile_regex(loosen(one.regex)).programsize)
             for one in LOOSENED]  # fmt: skip
    assert sum(loose for _, loose in sizes) < sum(exact for exact, _ in sizes) * 2 / 3


def test_a_rule_that_is_not_built_in_stays_as_it_is_written():
    assert loosen("mine-[0-9]{40}") == "mine-[0-9]{40}"


@pytest.mark.parametrize(
    "near",
    ["ghp_" + "a1" * 10, "sk-" + "a1" * 12, "key-" + "0af" * 7, "glpat-" + "x" * 12],
)
def test_what_is_shorter_than_a_secret_is_none(near):
    text = f"It looks like {near} here."
    assert any(compile_regex(loosen(rule.regex)).search(text.encode()) for rule in LOOSENED)
    assert Detector(SecretRules(BUILT_IN)).find(text.encode()) == []
