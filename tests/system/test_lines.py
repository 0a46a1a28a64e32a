"""Lines come out whole, however the stream is cut."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agentd.system.lines import Lines


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=10), st.integers(1, 20))
def test_cuts_change_nothing_and_only_long_lines_are_missing(stream, cuts, longest):
    lines = Lines(longest)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    found = []
    for start, end in pairwise(edges):
        found += lines.feed(stream[start:end])
    *whole, rest = stream.split(b"\n")
    assert found == [line.removesuffix(b"\r") for line in whole if len(line) <= longest]
    assert list(lines.iter_rest()) == ([rest] if 0 < len(rest) <= longest else [])
    assert list(lines.iter_rest()) == []
    assert lines.passed_over == sum(len(line) > longest for line in (*whole, rest))
