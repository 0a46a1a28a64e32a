"""The limits of live connections, and the ones that are cut off."""

import pytest

from agentd.core.errors import LimitReached, Unavailable
from agentd.http.access import Caller
from agentd.http.connections import ConnectionRegistry
from agentd.http.hosts import Hosts

LAPTOP, PHONE = Caller("key", "laptop", "manager"), Caller("key", "phone", "manager")
ANYWHERE = "192.0.2.1"


def ignore(_: str) -> None:
    """Do nothing when a connection ends."""


def test_the_connections_of_one_key_and_of_all_keys_are_limited() -> None:
    roll = ConnectionRegistry(Hosts(), most=3, most_per_key=2)
    ends = [lambda _, n=n: ignore(str(n)) for n in range(3)]
    for end in ends[:2]:
        roll.check(LAPTOP, None, ANYWHERE)
        roll.add(LAPTOP, end, ANYWHERE)
    with pytest.raises(LimitReached):
        roll.check(LAPTOP, None, ANYWHERE)
    roll.check(PHONE, None, ANYWHERE)
    roll.add(PHONE, ends[2], ANYWHERE)
    with pytest.raises(LimitReached):
        roll.check(PHONE, None, ANYWHERE)
    roll.remove(ends[0])
    roll.remove(ends[0])
    roll.check(LAPTOP, None, ANYWHERE)
    assert len(roll) == 2


def test_the_connections_of_one_address_are_limited_whatever_their_keys() -> None:
    roll = ConnectionRegistry(Hosts(), most_per_address=2)
    ends = [lambda _, n=n: ignore(str(n)) for n in range(3)]
    for caller, end in ((LAPTOP, ends[0]), (PHONE, ends[1])):
        roll.check(caller, None, "192.0.2.7")
        roll.add(caller, end, "192.0.2.7")
    with pytest.raises(LimitReached):
        roll.check(LAPTOP, None, "192.0.2.7")
    roll.check(LAPTOP, None, "192.0.2.8")
    roll.remove(ends[0])
    roll.check(LAPTOP, None, "192.0.2.7")


def test_rule_11_only_the_connections_of_a_revoked_key_end() -> None:
    """Rule 11."""
    roll = ConnectionRegistry(Hosts())
    ended: list[str] = []
    roll.add(LAPTOP, lambda reason: ended.append(f"laptop: {reason}"), ANYWHERE)
    roll.add(PHONE, lambda reason: ended.append(f"phone: {reason}"), ANYWHERE)
    roll.close_keys(frozenset({"laptop"}))
    assert ended == ["laptop: The API key is no longer valid"]


def test_rule_12_a_roll_that_closes_ends_all_without_a_reason_and_no_longer_takes() -> None:
    """Rule 12."""
    roll = ConnectionRegistry(Hosts())
    ended: list[str] = []
    roll.add(LAPTOP, ended.append, ANYWHERE)
    roll.close_all()
    assert ended == [""]
    with pytest.raises(Unavailable):
        roll.check(PHONE, None, ANYWHERE)
