"""One-time codes are valid once, for five minutes, with few wrong tries from one address."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, rule

from agentd.auth.login_codes import (
    CODE_SECONDS,
    MAX_OPEN_CODES,
    MAX_TOTAL_TRIES,
    MAX_TRIES,
    LoginCodes,
)
from agentd.core import ids
from agentd.core.clock import FrozenClock
from agentd.core.errors import LimitReached

NETWORKS = ("192.0.2.1", "192.0.2.2", "2001:db8::/64")


class OneByOne(RuleBasedStateMachine):
    """A model in plain lists of the codes and the wrong tries."""

    def __init__(self):
        super().__init__()
        self.clock = FrozenClock()
        self.codes = LoginCodes(self.clock.monotonic)
        self.open: list[tuple[str, float]] = []  # code and until: the oldest first
        self.wrong: list[tuple[str, float]] = []  # network and until when it counts

    issued = Bundle("issued")

    def list_good(self):
        now = self.clock.monotonic()
        return [one for one in self.open if one[1] > now]

    @rule(target=issued)
    def issue(self):
        self.open = self.list_good()[-(MAX_OPEN_CODES - 1) :]
        code = self.codes.issue_code()
        self.open.append((code, self.clock.monotonic() + CODE_SECONDS))
        return code

    @rule(code=issued, network=st.sampled_from(NETWORKS))
    def enter(self, code, network):
        self.expect(code, network)

    @rule(
        code=consumes(issued),
        odd=st.sampled_from(["{} ", "{:.3}-{}", "{}"]),
        network=st.sampled_from(NETWORKS),
    )
    def enter_as_people_write(self, code, odd, network):
        written = f" {code[:4]}-{code[4:].lower()} " if "-" in odd else odd.format(code).lower()
        self.expect(code, network, written)

    @rule(wrong=st.text(max_size=12), network=st.sampled_from(NETWORKS))
    def enter_what_is_none(self, wrong, network):
        self.expect(wrong, network)

    @rule(seconds=st.sampled_from([0.5, 60, CODE_SECONDS - 1, CODE_SECONDS]))
    def wait(self, seconds):
        self.clock.move(seconds)

    @rule(seconds=st.sampled_from([-3600, -86400]))
    def put_the_wall_clock_back(self, seconds):
        self.clock.move(seconds)

    def expect(self, code, network, written=None):
        now = self.clock.monotonic()
        known = next((one for one in self.list_good() if one[0] == code), None)
        counted = [until for one, until in self.wrong if one == network and until > now]
        entered = code if written is None else written
        if len(counted) >= MAX_TRIES:
            with pytest.raises(LimitReached) as caught:
                self.codes.redeem(entered, network)
            assert caught.value.retry_after == max(1, math.ceil(counted[0] - now))
            return
        assert self.codes.redeem(entered, network) is bool(known)
        if known:
            self.open.remove(known)
        else:
            self.wrong.append((network, now + CODE_SECONDS))


TestOneByOne = OneByOne.TestCase


@given(st.integers(1, 200))
def test_a_code_is_ten_letters_none_of_which_is_taken_for_another(_):
    code = ids.generate_login_code()
    assert len(code) == 10
    assert not set(code) & set("0O1IL2Z5S8B")
    assert code == code.upper()


HERE, THERE = NETWORKS[:2]


def test_a_code_works_once_whatever_comes_between():
    codes = LoginCodes(FrozenClock().monotonic)
    code, other = codes.issue_code(), codes.issue_code()
    assert [codes.redeem(code, HERE), codes.redeem(code, HERE)] == [True, False]
    assert codes.redeem(other, HERE)


def test_five_wrong_tries_void_no_code_and_end_the_tries_of_their_address_alone():
    """Else anybody could void the codes of all who are to sign in."""
    clock = FrozenClock()
    codes = LoginCodes(clock.monotonic)
    code, other = codes.issue_code(), codes.issue_code()
    for _ in range(MAX_TRIES):
        assert not codes.redeem("AAAAAAAAAA", THERE)
    with pytest.raises(LimitReached):
        codes.redeem(other, THERE)
    assert codes.redeem(code, HERE)
    clock.move(CODE_SECONDS)
    late = codes.issue_code()
    assert codes.redeem(late, THERE)


def test_a_crowd_of_addresses_cannot_guess_on_without_end():
    codes = LoginCodes(FrozenClock().monotonic)
    code = codes.issue_code()
    for number in range(MAX_TOTAL_TRIES):
        assert not codes.redeem("AAAAAAAAAA", f"net {number}")
    with pytest.raises(LimitReached):
        codes.redeem(code, HERE)
    chance = MAX_OPEN_CODES * MAX_TOTAL_TRIES / len(ids.CODE_ALPHABET) ** ids.CODE_LENGTH
    assert chance < 1 / 200_000_000


def test_an_address_waits_for_its_own_oldest_try_and_no_others():
    clock = FrozenClock()
    codes = LoginCodes(clock.monotonic)
    codes.redeem("AAAAAAAAAA", THERE)
    for _ in range(MAX_TRIES):
        clock.move(10)
        codes.redeem("AAAAAAAAAA", HERE)
    with pytest.raises(LimitReached) as caught:
        codes.redeem("AAAAAAAAAA", HERE)
    assert caught.value.retry_after == CODE_SECONDS - 10 * (MAX_TRIES - 1)


def test_one_code_more_than_may_be_open_voids_the_oldest_alone():
    codes = LoginCodes(FrozenClock().monotonic)
    issued = [codes.issue_code() for _ in range(MAX_OPEN_CODES)]
    again = codes.issue_code()
    assert not codes.redeem(issued[0], HERE)
    assert all(codes.redeem(code, HERE) for code in (*issued[1:], again))


def test_old_tries_are_forgotten():
    clock = FrozenClock()
    codes = LoginCodes(clock.monotonic)
    for number in range(MAX_TOTAL_TRIES):
        codes.redeem("AAAAAAAAAA", f"net {number}")
    clock.move(CODE_SECONDS)
    code = codes.issue_code()
    assert codes.redeem(code, HERE)
    assert "net 1" not in repr(vars(codes))


def test_five_minutes_later_it_is_no_code_though_the_wall_clock_was_put_back():
    clock = FrozenClock()
    codes = LoginCodes(clock.monotonic)
    early, last = codes.issue_code(), codes.issue_code()
    clock.move(CODE_SECONDS - 0.001)
    assert codes.redeem(last, HERE)
    clock.move(-3600)
    clock.move(0.001)
    assert not codes.redeem(early, HERE)


def test_the_codes_themselves_are_not_kept():
    codes = LoginCodes(FrozenClock().monotonic)
    code = codes.issue_code()
    assert code.encode() not in repr(vars(codes)).encode()
