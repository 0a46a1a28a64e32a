"""Undoing a compression takes time that is linear in what comes, and in what comes of it."""

import gzip
import itertools
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.inflate import Inflater
from tests.support.processor import busy_for_less_than


@given(
    parts=st.lists(st.binary(max_size=40), max_size=4),
    cuts=st.lists(st.integers(0, 200)),
    deflate=...,
)
def test_whatever_was_compressed_comes_back_however_it_was_cut(
    parts: list[bytes], cuts: list[int], deflate: bool
) -> None:
    compress = zlib.compress if deflate else gzip.compress
    data = b"".join(map(compress, parts)) or compress(b"")
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    inflater = Inflater()
    result = [b"".join(inflater.feed(data[a:b])) for a, b in itertools.pairwise(places)]
    assert b"".join((*result, *inflater.finish())) == b"".join(parts)


def test_very_many_streams_in_a_row_are_read_in_linear_time() -> None:
    data = gzip.compress(b"x") * 200_000  # of 4 MB
    inflater = Inflater()
    with busy_for_less_than(3):
        assert sum(map(len, inflater.feed(data))) == 200_000


@pytest.mark.parametrize(
    "data",
    [b"{}", b"\x1f\x8b\x08", gzip.compress(b"x", mtime=0)[:-1]],
    ids=["plain", "a head alone", "cut short"],
)
def test_what_is_not_compressed_is_reported(data: bytes) -> None:
    inflater = Inflater()
    with pytest.raises(ValueError, match=r"."):
        list(inflater.feed(data))
        list(inflater.finish())
