"""Whoever holds an access key cannot make the hiding of secrets slow, large or wrong for others."""

import gc
import json
from base64 import b64encode
from time import process_time

import pytest

from agentd.errors import BadRequest
from agentd.proxy.secrets import growth, known
from agentd.proxy.secrets.hiding import Hiding, Unfinished
from agentd.proxy.secrets.request import MOST_MEMBERS, MOST_PARTS, apart
from tests.proxy.secrets.bodies import hidden, new, said
from tests.proxy.secrets.hostile import HOSTILE, PERIOD, all_of
from tests.proxy.secrets.samples import TOKENS, letters

GITHUB = TOKENS["github"]
SMALL = 30_000
TIMES = 4
SLACK = 2.5
"""How much longer than in proportion a larger body may take: quadratic would be four times."""


@pytest.mark.parametrize("name", HOSTILE)
def test_the_time_rises_with_the_size_of_a_request_and_no_faster(name):
    short, long = (json.dumps(HOSTILE[name](size)).encode() for size in (SMALL, SMALL * TIMES))
    proportion = len(long) / len(short)
    for _ in range(3):  # whatever else the machine does, one of them is not disturbed
        if _time(long) < 0.05 or _time(long) < _time(short) * proportion * SLACK:
            return
    pytest.fail(f"{_time(short):.2f} s for {len(short)} bytes, {_time(long):.2f} for {len(long)}")


def _time(body: bytes) -> float:
    hiding = new()
    hiding.hide(json.dumps(said(f"warm {GITHUB}")).encode(), "openai-chat", "k")
    gc.collect()
    began = process_time()
    hiding.hide(body, "openai-chat", "k")
    return process_time() - began


def test_what_one_request_tried_changes_nothing_for_those_after_it():
    hiding = new()
    for name, body in all_of(100_000):
        hiding.hide(body, "openai-chat", "k")
        after = hidden(said(f"{name}: a {GITHUB} and tr0ub4dor3, DB_PASSWORD=tr0ub4dor3"), hiding)
        assert GITHUB.encode() not in after.body
        assert b"tr0ub4dor3" not in after.body
        assert GITHUB in after.secrets.values()


def test_a_secret_in_very_much_base64_is_hidden_and_not_remembered():
    hiding = new()
    text = letters(1_200_000)
    body = {"messages": [{"content": GITHUB + text}]}
    first = hidden(said(f"{_encoded(GITHUB + ' ' + text)} end"), hiding)
    assert len(first.body) < 200
    assert [len(value) for value in first.secrets.values()] == [len(_encoded(GITHUB + " " + text))]
    for _ in range(3):
        assert GITHUB.encode() not in hidden(body, hiding).body
    going_on = {"input": "go on", "previous_response_id": "resp_1"}
    told = hidden(going_on, hiding, dialect="openai-responses").secrets
    assert sum(map(len, told.values())) < known.MOST_BYTES


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


def test_a_text_that_repeats_itself_is_searched_for_long_secrets_in_proportion():
    hiding = new()
    hidden(said(f"DB_PASSWORD=x{PERIOD * 1500}"), hiding)
    assert _time_more(hiding, 400_000) < 0.05 + _time_more(hiding, 100_000) * 4 * SLACK


def _time_more(hiding: Hiding, size: int) -> float:
    body = json.dumps(said(f"{letters(9)} x{PERIOD * (size // 4)}")).encode()
    began = process_time()
    hiding.hide(body, "openai-chat", "k")
    return process_time() - began


def test_more_secrets_than_are_remembered_are_learnt_once_and_not_over_and_over():
    hiding = new()
    keys = [f"ghp_{letters(36)}" for _ in range(known.MOST * 2)]
    passes: list[int] = []
    looked = hiding._looked_through

    def counted(run, *more):
        found = looked(run, *more)
        passes.append(hiding._known("k").mark)
        return found

    hiding._looked_through = counted  # type: ignore[method-assign]
    result = hidden({"messages": [{"content": key} for key in keys]}, hiding)
    assert len(result.secrets) == len(keys)
    assert passes == [len(keys)]


def test_no_more_is_looked_through_at_once_than_is_allowed_and_the_rest_later():
    body = json.dumps({"messages": [{"content": f"a {GITHUB} {n}"} for n in range(1000)]}).encode()
    whole = new().hide(body, "openai-chat", "k")
    hiding = new()
    with pytest.raises(Unfinished) as first:
        hiding.hide(body, "openai-chat", "k", most=16_384)
    assert GITHUB not in repr(first.value)
    after = hiding.hide(body, "openai-chat", "k", begun=first.value)
    assert after.body == whole.body
    assert dict(after.found) == dict(whole.found) == {"github": 1000}
    assert hiding.hide(body, "openai-chat", "k", most=16_384).body == whole.body, "it is known"


def test_so_it_is_where_a_secret_is_learnt_that_may_be_in_all_that_was_said_before():
    hiding = new()
    messages = [{"content": f"{n} {letters(200)}"} for n in range(500)]
    hidden({"messages": messages}, hiding)
    messages.append({"content": "DB_PASSWORD=tr0ub4dor/3"})
    with pytest.raises(Unfinished):
        hiding.hide(json.dumps({"messages": messages}).encode(), "anthropic", "k", most=16_384)


def test_a_request_has_only_so_many_members_and_a_long_list_is_looked_at_as_a_whole():
    body = json.dumps({f"m{number}": 1 for number in range(MOST_MEMBERS + 1)}).encode()
    with pytest.raises(BadRequest, match="members"):
        apart(body)
    count = MOST_PARTS + 1
    (part,) = apart(json.dumps({"input": [1] * count}).encode()).parts
    assert (part.place, part.end - part.start) == ("/input", 3 * count)
    result = hidden({"input": [1] * count + [f"a {GITHUB}"]})
    assert [one.place for one in result.findings] == [f"/input/{count}"]


def test_a_list_that_grows_out_of_its_parts_is_hidden_all_the_same(monkeypatch):
    monkeypatch.setattr(growth, "LEAST", 0)
    hiding = new()
    items: list[object] = [f"first {GITHUB}", *[1] * (MOST_PARTS - 1)]
    for _ in range(3):
        result = hidden({"input": items}, hiding)
        assert GITHUB.encode() not in result.body
        assert GITHUB in result.secrets.values()
        items += [*[2] * MOST_PARTS, f"then {GITHUB}"]


def test_what_is_remembered_of_a_request_is_bounded_by_its_size():
    kept: growth.Growth[int] = growth.Growth()
    body = b"x" * growth.LEAST
    kept.keep("k", body, apart(b"{}"), [], -1, growth.MOST_BYTES)
    assert kept.shared("k", body).size == 0
