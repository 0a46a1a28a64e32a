"""The suggestions that errors make for unknown names."""

from agentd.core.errors import MAX_CANDIDATES, MAX_LISTED, suggest_name


def test_the_nearest_name_is_reported_or_else_all_that_are_known() -> None:
    assert suggest_name("prot", ["host", "port"]) == '; did you mean "port"?'
    assert suggest_name("x", ["host", "port"]) == " (known: host, port)"
    assert suggest_name("x", []) == ""


def test_of_thousands_of_names_only_some_are_reported() -> None:
    names = [f"key {number}" for number in range(MAX_CANDIDATES + 1)]

    result = suggest_name("key 1000000", names)
    assert result.startswith(" (known: key 0, ")
    assert result.endswith(f"key {MAX_LISTED - 1} and {MAX_CANDIDATES + 1 - MAX_LISTED} more)")
