"""Exact values are found, the longest at each place, whatever they and the text are."""

from collections.abc import Collection, Iterator

from hypothesis import given
from hypothesis import strategies as st

from agentd.gateway.secrets.exact_values import HEAD, ExactValues

VALUE = st.binary(min_size=HEAD, max_size=HEAD + 6)
ALIKE = st.text("ab", min_size=HEAD, max_size=HEAD + 12).map(str.encode)


@given(st.data(), st.sets(VALUE | ALIKE, max_size=12))
def test_the_first_and_longest_are_found_as_if_each_place_were_looked_at(data, values):
    piece = st.sampled_from(sorted(values)) if values else VALUE
    beginning = piece.map(lambda value: value[:-1])
    text = b"".join(data.draw(st.lists(piece | beginning | st.binary(max_size=5) | ALIKE)))
    looked = ExactValues(values)
    assert list(looked.find(text)) == list(_find_one_by_one(values, text))
    assert looked.is_any_in(text) == any(value in text for value in values)


def _find_one_by_one(values: Collection[bytes], text: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    while at < len(text):
        here = [len(value) for value in values if text.startswith(value, at)]
        if here:
            yield at, at + max(here)
        at += max(here, default=1)
