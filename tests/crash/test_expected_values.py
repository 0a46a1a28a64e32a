"""Of what was acknowledged one value may be found, of what was not, that of before or of after."""

import pytest

from tests.crash.expected_values import ExpectedValues, Value


def find(expected: ExpectedValues, **found: Value) -> list[str]:
    return list(expected.find_violations(found))


@pytest.fixture
def expected() -> ExpectedValues:
    values = ExpectedValues()
    values.ask("a", 1)
    values.acknowledge("a", 1)
    return values


def test_what_was_acknowledged_is_there_and_nothing_else(expected: ExpectedValues) -> None:
    assert not find(expected, a=1)
    assert find(expected) == ["a is None, expected one of [1]"]
    assert find(expected, a=2)
    assert find(expected, a=1, b=1) == ["b is 1, expected one of [None]"]


def test_what_is_in_doubt_is_as_before_or_as_after_and_then_as_it_was_found(
    expected: ExpectedValues,
) -> None:
    expected.ask("a", None)
    assert not find(expected, a=1)
    assert not find(expected)
    assert find(expected, a=2)
    expected.settle({})
    assert expected.doubts == 1
    assert find(expected, a=1), "what was removed rises again"
    assert expected.get("a") is None
