"""No access key can make the masking of secrets slow, large or wrong for others."""

import json
from base64 import b64encode

import pytest

from agentd.core.errors import BadRequest
from agentd.gateway.secrets import known_values, prefix_cache
from agentd.gateway.secrets.masker import MaskingUnfinished
from agentd.gateway.secrets.split_body import MOST_MEMBERS, MOST_PARTS, split_body
from tests.gateway.secrets.bodies import build_body, create_masker, mask_body
from tests.gateway.secrets.hostile import HOSTILE, PERIOD, iter_bodies
from tests.gateway.secrets.samples import TOKENS, make_letters
from tests.support.processor import assert_linear

GITHUB = TOKENS["github"]
SMALL = 30_000
TIMES = 4


@pytest.mark.parametrize("name", HOSTILE)
def test_the_time_rises_with_the_size_of_a_request_and_no_faster(name):
    short, long = (json.dumps(HOSTILE[name](size)).encode() for size in (SMALL, SMALL * TIMES))
    assert_linear(_mask_fresh, short, long, times=len(long) / len(short))


def _mask_fresh(body: bytes) -> None:
    hiding = create_masker()
    hiding.mask(json.dumps(build_body(f"warm {GITHUB}")).encode(), "openai-chat", "k")
    hiding.mask(body, "openai-chat", "k")


def test_what_one_request_tried_changes_nothing_for_those_after_it():
    hiding = create_masker()
    for name, body in iter_bodies(100_000):
        hiding.mask(body, "openai-chat", "k")
        after = mask_body(
            build_body(f"{name}: a {GITHUB} and tr0ub4dor3, DB_PASSWORD=tr0ub4dor3"), hiding
        )
        assert GITHUB.encode() not in after.body
        assert b"tr0ub4dor3" not in after.body
        assert GITHUB in after.secrets.values()


def test_a_secret_in_very_much_base64_is_hidden_and_not_remembered():
    hiding = create_masker()
    text = make_letters(1_200_000)
    body = {"messages": [{"content": GITHUB + text}]}
    first = mask_body(build_body(f"{_encode(GITHUB + ' ' + text)} end"), hiding)
    assert len(first.body) < 200
    assert [len(value) for value in first.secrets.values()] == [len(_encode(GITHUB + " " + text))]
    for _ in range(3):
        assert GITHUB.encode() not in mask_body(body, hiding).body
    going_on = {"input": "go on", "previous_response_id": "resp_1"}
    output = mask_body(going_on, hiding, dialect="openai-responses").secrets
    assert sum(map(len, output.values())) < known_values.MOST_BYTES


def _encode(text: str) -> str:
    return b64encode(text.encode()).decode()


def test_a_text_that_repeats_itself_is_searched_for_long_secrets_in_proportion():
    hiding = create_masker()
    mask_body(build_body(f"DB_PASSWORD=x{PERIOD * 1500}"), hiding)

    def mask(size: int) -> None:
        text = f"{make_letters(9)} x{PERIOD * (size // 4)}"  # nothing that is known from before
        hiding.mask(json.dumps(build_body(text)).encode(), "openai-chat", "k")

    assert_linear(mask, 100_000, 400_000, times=4)


def test_more_secrets_than_are_remembered_are_learnt_once_and_not_over_and_over():
    hiding = create_masker()
    keys = [f"ghp_{make_letters(36)}" for _ in range(known_values.MOST * 2)]
    passes: list[int] = []
    looked = hiding._scan

    def count_and_run(run, *more):
        found = looked(run, *more)
        passes.append(hiding._get_known("k").mark)
        return found

    hiding._scan = count_and_run  # type: ignore[method-assign]
    result = mask_body({"messages": [{"content": key} for key in keys]}, hiding)
    assert len(result.secrets) == len(keys)
    assert passes == [len(keys)]


def test_no_more_is_looked_through_at_once_than_is_allowed_and_the_rest_later():
    body = json.dumps({"messages": [{"content": f"a {GITHUB} {n}"} for n in range(1000)]}).encode()
    whole = create_masker().mask(body, "openai-chat", "k")
    hiding = create_masker()
    with pytest.raises(MaskingUnfinished) as first:
        hiding.mask(body, "openai-chat", "k", most=16_384)
    assert GITHUB not in repr(first.value)
    after = hiding.mask(body, "openai-chat", "k", begun=first.value)
    assert after.body == whole.body
    assert dict(after.found) == dict(whole.found) == {"github": 1000}
    assert hiding.mask(body, "openai-chat", "k", most=16_384).body == whole.body, "it is known"


def test_so_it_is_where_a_secret_is_learnt_that_may_be_in_all_that_was_said_before():
    hiding = create_masker()
    messages = [{"content": f"{n} {make_letters(200)}"} for n in range(500)]
    mask_body({"messages": messages}, hiding)
    messages.append({"content": "DB_PASSWORD=tr0ub4dor/3"})
    with pytest.raises(MaskingUnfinished):
        hiding.mask(json.dumps({"messages": messages}).encode(), "anthropic", "k", most=16_384)


def test_a_request_has_only_so_many_members_and_a_long_list_is_looked_at_as_a_whole():
    body = json.dumps({f"m{number}": 1 for number in range(MOST_MEMBERS + 1)}).encode()
    with pytest.raises(BadRequest, match="members"):
        split_body(body)
    count = MOST_PARTS + 1
    (part,) = split_body(json.dumps({"input": [1] * count}).encode()).parts
    assert (part.place, part.end - part.start) == ("/input", 3 * count)
    result = mask_body({"input": [1] * count + [f"a {GITHUB}"]})
    assert [one.place for one in result.findings] == [f"/input/{count}"]


def test_a_list_that_grows_out_of_its_parts_is_hidden_all_the_same(monkeypatch):
    monkeypatch.setattr(prefix_cache, "LEAST", 0)
    hiding = create_masker()
    items: list[object] = [f"first {GITHUB}", *[1] * (MOST_PARTS - 1)]
    for _ in range(3):
        result = mask_body({"input": items}, hiding)
        assert GITHUB.encode() not in result.body
        assert GITHUB in result.secrets.values()
        items += [*[2] * MOST_PARTS, f"then {GITHUB}"]


def test_what_is_remembered_of_a_request_is_bounded_by_its_size():
    kept: prefix_cache.PrefixCache[int] = prefix_cache.PrefixCache()
    body = b"x" * prefix_cache.LEAST
    kept.store("k", body, split_body(b"{}"), [], -1, prefix_cache.MOST_BYTES)
    assert kept.find_shared("k", body).size == 0
