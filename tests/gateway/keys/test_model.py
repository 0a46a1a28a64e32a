"""How an access key is made, kept and read."""

from decimal import Decimal

import msgspec
import pytest

from agentd.gateway.keys.limits import MAX_USD, KeyLimits, SoftLimits
from agentd.gateway.keys.model import (
    KEY_PATTERN,
    MAX_TAGS,
    AccessKey,
    SecretHash,
    is_key_id,
    issue,
    reissue,
)

NOW = "2026-01-31T12:00:00.000Z"
SECRET = SecretHash("0" * 32, "1" * 64, "abcd")


def build_key(**fields: object) -> AccessKey:
    given = {"id": "a" * 12, "name": "one", "secret": SECRET, "created": NOW}
    return AccessKey(**given | fields)


def test_a_key_has_its_id_and_is_not_in_what_is_kept():
    made, kept = issue("laptop", NOW)
    found = KEY_PATTERN.fullmatch(made)
    assert found
    assert found[1] == kept.id
    assert kept.secret.last4 == made[-4:]
    assert made[-32:] not in msgspec.json.encode(kept).decode()
    assert kept.matches(made, NOW)
    assert not kept.matches(made[:-1] + ("a" if made[-1] != "a" else "b"), NOW)


def test_the_kept_sum_does_not_open_anything():
    _, kept = issue("laptop", NOW)
    assert not kept.matches(kept.secret.sha256, NOW)


def test_no_two_keys_share_an_id_or_a_salt():
    keys = [issue("one", NOW)[1] for _ in range(100)]
    assert len({one.id for one in keys}) == len({one.secret.salt for one in keys}) == 100


def test_reissued_letters_replace_those_before_at_once():
    first, kept = issue("laptop", NOW)
    second, again = reissue(kept, NOW, 0)
    assert again.id == kept.id
    assert again.before is again.before_until is None
    assert again.matches(second, NOW)
    assert not again.matches(first, NOW)


def test_the_letters_before_are_valid_for_their_grace_and_no_longer():
    first, kept = issue("laptop", NOW)
    _, again = reissue(kept, NOW, 60)
    assert again.matches(first, "2026-01-31T12:00:59.999Z")
    assert not again.matches(first, "2026-01-31T12:01:00.000Z")


def test_a_second_reissue_ends_the_grace_of_the_first_letters():
    first, kept = issue("laptop", NOW)
    second, again = reissue(kept, NOW, 60)
    _, third = reissue(again, NOW, 60)
    assert not third.matches(first, NOW)
    assert third.matches(second, NOW)


def test_a_key_expires_at_its_moment():
    one = build_key(expires="2026-02-01")
    assert one.expires == "2026-02-01T00:00:00.000Z"
    assert not one.is_expired("2026-01-31T23:59:59.999Z")
    assert one.is_expired("2026-02-01T00:00:00.000Z")


@pytest.mark.parametrize(
    "fields",
    [
        {"expires": "tomorrow"},
        {"created": ""},
        {"name": " one"},
        {"name": "o\nne"},
        {"name": "o\u202ene"},
        {"before": SECRET},
        {"before_until": NOW},
        {"addresses": ("10.0.0.0/33",)},
        {"owner": " ann"},
        {"tags": ("a", "o\u202ene")},
        {"tags": ("a", "b", "a")},
        {"tags": tuple(map(str, range(MAX_TAGS + 1)))},
        {"model_limits": {"gpt 5": KeyLimits()}},
        {"model_limits": {"": KeyLimits()}},
    ],
)
def test_what_is_no_key_is_refused(fields):
    with pytest.raises(ValueError, match=next(iter(fields))):
        build_key(**fields)


LIMITS = pytest.mark.parametrize("kind", [KeyLimits, SoftLimits])


@LIMITS
@pytest.mark.parametrize(
    "limit",
    ["NaN", "sNaN", "Infinity", "-1", "-0.01", "1e400", "1e-13", f"{MAX_USD}.000000000001"],
)
def test_what_is_no_amount_is_no_limit(kind, limit):
    with pytest.raises(msgspec.ValidationError, match="not a limit"):
        msgspec.json.decode(msgspec.json.encode({"day": limit}), type=kind)


@LIMITS
@pytest.mark.parametrize("limit", ["0", "1e-12", "1000000000"])
def test_nothing_the_smallest_place_and_the_highest_amount_are_limits(kind, limit):
    assert kind(day=Decimal(limit)).day == Decimal(limit)


@pytest.mark.parametrize("name", KeyLimits.__struct_fields__)
def test_each_limit_counts_for_what_it_bounds_and_zero_is_one(name):
    limits = KeyLimits(**{name: 0 if "_" in name or name == "parallel" else Decimal(0)})
    assert limits.has_usd_limit == (name in ("total", "day", "week", "month"))
    assert limits.has_calendar_limit == (name in ("day", "week", "month"))
    assert limits.bounds_spending == (limits.has_usd_limit or name == "tokens_per_minute")
    assert not KeyLimits().bounds_spending


def test_an_address_that_is_written_as_ipv6_is_the_same_one():
    one = build_key(addresses=("10.0.0.0/30",))
    assert one.may_come_from("::ffff:10.0.0.1")
    assert not one.may_come_from("::ffff:10.0.0.9")
    assert not one.may_come_from("::10.0.0.1")


def test_an_id_is_twelve_letters_and_digits():
    assert is_key_id(issue("one", NOW)[1].id)
    for other in ("a" * 11, "a" * 13, "a" * 11 + "-", "a" * 12 + "\n", "é" * 12):
        assert not is_key_id(other)


@pytest.mark.parametrize("field", ["parallel", "requests_per_minute", "tokens_per_minute"])
@pytest.mark.parametrize("count", [-1, 1.5, True, "many"])
def test_what_is_no_count_is_no_limit(field, count):
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(msgspec.json.encode({field: count}), type=KeyLimits)


def test_a_limit_keeps_its_digits():
    assert msgspec.json.decode(b'{"day": 0.1}', type=KeyLimits).day == Decimal("0.1")


def test_models_and_channels_are_named_or_matched():
    one = build_key(models=("gpt-5", "claude-*", "o?"), channels=("main",))
    assert [one.may_call(name) for name in ("gpt-5", "claude-opus", "o3")] == [True] * 3
    assert [one.may_call(name) for name in ("gpt-5-mini", "o33", "GPT-5", "gpt-5 ")] == [False] * 4
    assert one.may_use("main")
    assert not one.may_use("main2")


def test_no_list_is_all_and_an_empty_one_is_none():
    assert build_key().may_call("any")
    assert build_key().may_use("any")
    assert not build_key(models=()).may_call("any")
    assert not build_key(channels=()).may_use("any")
