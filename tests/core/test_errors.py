"""The suggestions that errors make for unknown names."""

from difflib import SequenceMatcher, get_close_matches
from functools import partial
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from agentd.core.errors import MAX_CANDIDATES, MAX_LISTED, suggest_name
from tests.support.processor import busy_for_less_than

MODELS = [
    f"{maker}/{model}{version}"
    for maker in ("openai", "anthropic", "google", "mistral", "meta-llama", "deepseek")
    for model in ("gpt-5", "claude-opus-4", "gemini-2.5-pro", "mistral-large", "llama-3.1-70b")
    for version in ("", "-latest", "-2025-08-07", "-mini", ":free")
]


def test_the_nearest_name_is_reported_or_else_all_that_are_known() -> None:
    assert suggest_name("prot", ["host", "port"]) == '; did you mean "port"?'
    assert suggest_name("x", ["host", "port"]) == " (known: host, port)"
    assert suggest_name("x", []) == ""


def test_of_thousands_of_names_only_some_are_reported() -> None:
    names = [f"key {number}" for number in range(MAX_CANDIDATES + 1)]

    result = suggest_name("key 1000000", names)
    assert result.startswith(" (known: key 0, ")
    assert result.endswith(f"key {MAX_LISTED - 1} and {MAX_CANDIDATES + 1 - MAX_LISTED} more)")


@given(
    name=st.sampled_from(MODELS),
    place=st.integers(0, 30),
    letter=st.sampled_from("abcdefgh0-"),
    change=st.sampled_from(["replace", "insert", "remove"]),
)
def test_a_name_with_a_wrong_letter_is_found_among_hundreds(name, place, letter, change):
    place %= len(name)
    rest = name[place + (change != "insert") :]
    wrong = name[:place] + ("" if change == "remove" else letter) + rest
    (nearest,) = get_close_matches(wrong, MODELS, 1)
    found = suggest_name(wrong, MODELS).removeprefix('; did you mean "').removesuffix('"?')
    assert found in MODELS
    ratio = partial(measure_likeness, wrong)
    assert ratio(found) >= ratio(nearest) - 0.05


def measure_likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, other, one).ratio()


def test_a_long_name_is_looked_for_among_a_thousand_in_little_time():
    random = Random(1)  # noqa: S311
    names = ["".join(random.choices("abcdefgh-.0123", k=100)) for _ in range(MAX_CANDIDATES)]
    with busy_for_less_than(0.08):
        suggest_name("".join(random.choices("abcdefgh-.0123", k=100)), names)
