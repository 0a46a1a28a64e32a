"""Secrets of a key are remembered, and found bare."""

from agentd.gateway.secrets.known_values import KnownSecrets


def test_of_two_that_begin_alike_the_longer_one_is_found():
    known = KnownSecrets()
    known.add(b"abcdefgh", "SECRET_a", "a")
    known.add(b"abcdefghij", "SECRET_b", "b")
    _, looks = known.get_matcher()
    assert looks is not None
    hits = [(hit.start, hit.end, hit.rule) for hit in looks.find(b"xabcdefghijx abcdefghi")]
    assert hits == [(1, 11, "b"), (13, 21, "a")]


def test_a_short_one_is_put_back_but_not_looked_for():
    known = KnownSecrets()
    known.add(b"short", "SECRET_a", "a")
    assert known.get_matcher() == (1, None)
    assert known.get_values() == {"SECRET_a": "short"}
    assert known.get_placeholder(b"short") == "SECRET_a"
    assert known.add(b"short", "SECRET_b", "b") == "SECRET_a"


def test_what_may_hold_a_newer_one_is_reported_by_its_bytes_or_by_none():
    known = KnownSecrets()
    known.add(b"tr0ub4dor3", "SECRET_a", "a")
    known.add(b"tr0ub4dor4", "SECRET_b", "a")
    assert known.may_hold(b"x tr0ub4dor3", 0)
    assert not known.may_hold(b"x tr0ub4dor3", 1)
    assert known.may_hold(b"x tr0ub4dor4", 1)
    assert not known.may_hold(b"x", 0)
    known.add(b"two\nlines in it", "SECRET_c", "a")
    assert known.may_hold(b"x", 2), "it is written in many ways"


def test_what_no_rule_finds_any_more_is_forgotten():
    known = KnownSecrets()
    known.add(b"tr0ub4dor3", "SECRET_a", "a")
    known.add(b"tr0ub4dor4", "SECRET_b", "b")
    assert known.select(lambda rule, _: rule == "b").get_values() == {"SECRET_b": "tr0ub4dor4"}
