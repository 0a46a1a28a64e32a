"""What errors tell of names that are not known."""

from agentd.errors import SOUGHT, TOLD, nearest


def test_the_nearest_name_is_told_or_else_all_that_are_known() -> None:
    assert nearest("prot", ["host", "port"]) == '; did you mean "port"?'
    assert nearest("x", ["host", "port"]) == " (known: host, port)"
    assert nearest("x", []) == ""


def test_of_thousands_of_names_only_some_are_told() -> None:
    names = [f"key {number}" for number in range(SOUGHT + 1)]

    told = nearest("key 1000000", names)
    assert told.startswith(" (known: key 0, ")
    assert told.endswith(f"key {TOLD - 1} and {SOUGHT + 1 - TOLD} more)")
