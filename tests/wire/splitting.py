"""Splits bytes at places that hypothesis chooses."""

from itertools import pairwise

from hypothesis import strategies as st


def split(stream: bytes, data) -> list[bytes]:
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=12).map(sorted), label="cuts")
    edges = [0, *cuts, len(stream)]
    return [stream[start:end] for start, end in pairwise(edges)]
