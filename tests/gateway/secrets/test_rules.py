"""A rule that cannot be one is told, field by field."""

import pytest

from agentd.gateway.secrets.builtin import BUILT_IN
from agentd.gateway.secrets.rules import Allow, ExactSecret, SecretPattern, SecretRules, find_faults


@pytest.mark.parametrize("rule", BUILT_IN, ids=lambda rule: rule.id)
def test_what_is_built_in_has_no_fault(rule):
    assert list(find_faults(rule)) == []
    assert rule.description


def test_every_fault_is_reported_with_its_field():
    rule = SecretPattern(id="a", regex="(?<!x)y", allow=Allow(regexes=("ok", "(")))
    result = list(find_faults(rule))
    assert [field for field, _ in result] == ["allow", "regex"]
    assert "regexes[1]" in result[0][1]
    assert "look-around" in result[1][1]


def test_an_exact_value_is_not_printed():
    rules = SecretRules().with_values([ExactSecret(id="mine", text="tr0ub4dor")])
    assert rules.values[0].text == "tr0ub4dor"
    assert "tr0ub4dor" not in repr(rules)
