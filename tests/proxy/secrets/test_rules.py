"""A rule that cannot be one is told, field by field."""

import pytest

from agentd.proxy.secrets.builtin import BUILT_IN
from agentd.proxy.secrets.rules import Allow, Rule, Rules, Value, faults


@pytest.mark.parametrize("rule", BUILT_IN, ids=lambda rule: rule.id)
def test_what_is_built_in_has_no_fault(rule):
    assert list(faults(rule)) == []
    assert rule.description


def test_every_fault_is_told_with_its_field():
    rule = Rule(id="a", regex="(?<!x)y", allow=Allow(regexes=("ok", "(")))
    told = list(faults(rule))
    assert [field for field, _ in told] == ["allow", "regex"]
    assert "regexes[1]" in told[0][1]
    assert "look-around" in told[1][1]


def test_an_exact_value_is_not_printed():
    rules = Rules().including([Value(id="mine", text="tr0ub4dor")])
    assert rules.values[0].text == "tr0ub4dor"
    assert "tr0ub4dor" not in repr(rules)
