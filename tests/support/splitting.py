"""Splits bytes at places that hypothesis chooses, or at every one."""

from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st

from tests.support.examples import ORDINARY


def split(stream: bytes, data) -> list[bytes]:
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=12).map(sorted), label="cuts")
    edges = [0, *cuts, len(stream)]
    return [stream[start:end] for start, end in pairwise(edges)]


def list_split_places(stream: bytes) -> range:
    """Return every place in the stream, or with ``--fast`` only some."""
    return range(0, len(stream), max(1, ORDINARY // settings().max_examples))
