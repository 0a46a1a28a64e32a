"""A JSON text is followed, however it is cut."""

import json

from hypothesis import given
from hypothesis import strategies as st

from agentd.proxy.secrets.json_text import JsonText


def followed(text: str, deep: int, cuts: list[int]) -> JsonText:
    follower = JsonText(deep)
    at = turn = 0
    while at < len(text):
        size = cuts[turn % len(cuts)]
        follower.feed(text[at : at + size])
        at, turn = at + size, turn + 1
    return follower


@given(
    st.text(st.sampled_from('ab"\\{ é\n'), max_size=12),
    st.text(st.sampled_from('ab"\\ é\n'), max_size=12),
    st.lists(st.integers(1, 5), min_size=1),
    st.booleans(),
)
def test_what_is_open_is_known_for_every_cut(done, begun, cuts, as_ascii):
    inner = json.dumps({"k": done, "l": begun}, ensure_ascii=as_ascii)[:-2]
    outer = json.dumps({"a": done, "b": inner}, ensure_ascii=as_ascii)[:-2]
    follower = followed(outer, 2, cuts)
    assert follower.open
    assert follower.inner is not None
    assert follower.inner.may_be_json
    assert follower.inner.open
    follower.feed('\\"')
    assert not follower.inner.open
    follower.feed('"')
    assert not follower.open
