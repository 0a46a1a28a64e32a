"""One-time codes: once, for five minutes, and few wrong tries from one address."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, rule

from agentd import ids
from agentd.access.codes import MOST, SECONDS, TRIES, TRIES_OF_ALL, Codes
from agentd.clock import FrozenClock
from agentd.errors import LimitReached

NETWORKS = ("192.0.2.1", "192.0.2.2", "2001:db8::/64")


class OneByOne(RuleBasedStateMachine):
    """What plain lists of codes and wrong tries would say, the codes say too."""

    def __init__(self):
        super().__init__()
        self.clock = FrozenClock()
        self.codes = Codes(self.clock.monotonic)
        self.open: list[tuple[str, float]] = []  # code and until: the oldest first
        self.wrong: list[tuple[str, float]] = []  # network and until when it counts

    issued = Bundle("issued")

    def good(self):
        now = self.clock.monotonic()
        return [one for one in self.open if one[1] > now]

    @rule(target=issued)
    def issue(self):
        self.open = self.good()[-(MOST - 1) :]
        code = self.codes.issue()
        self.open.append((code, self.clock.monotonic() + SECONDS))
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

    @rule(seconds=st.sampled_from([0.5, 60, SECONDS - 1, SECONDS]))
    def wait(self, seconds):
        self.clock.move(seconds)

    @rule(seconds=st.sampled_from([-3600, -86400]))
    def put_the_wall_clock_back(self, seconds):
        self.clock.move(seconds)

    def expect(self, code, network, written=None):
        now = self.clock.monotonic()
        known = next((one for one in self.good() if one[0] == code), None)
        counted = [until for one, until in self.wrong if one == network and until > now]
        entered = code if written is None else written
        if len(counted) >= TRIES:
            with pytest.raises(LimitReached) as caught:
                self.codes.redeem(entered, network)
            assert caught.value.retry_after == max(1, math.ceil(counted[0] - now))
            return
        assert self.codes.redeem(entered, network) is bool(known)
        if known:
            self.open.remove(known)
        else:
            self.wrong.append((network, now + SECONDS))


TestOneByOne = OneByOne.TestCase


@given(st.integers(1, 200))
def test_a_code_is_ten_letters_none_of_which_is_taken_for_another(_):
    code = ids.new_code()
    assert len(code) == 10
    assert not set(code) & set("0O1IL2Z5S8B")
    assert code == code.upper()


HERE, THERE = NETWORKS[:2]


def test_a_code_works_once_whatever_comes_between():
    codes = Codes(FrozenClock().monotonic)
    code, other = codes.issue(), codes.issue()
    assert [codes.redeem(code, HERE), codes.redeem(code, HERE)] == [True, False]
    assert codes.redeem(other, HERE)


def test_five_wrong_tries_void_no_code_and_end_the_tries_of_their_address_alone():
    """Else anybody could void the codes of all who are to sign in."""
    clock = FrozenClock()
    codes = Codes(clock.monotonic)
    code, other = codes.issue(), codes.issue()
    for _ in range(TRIES):
        assert not codes.redeem("AAAAAAAAAA", THERE)
    with pytest.raises(LimitReached):
        codes.redeem(other, THERE)
    assert codes.redeem(code, HERE)
    clock.move(SECONDS)
    late = codes.issue()
    assert codes.redeem(late, THERE)


def test_a_crowd_of_addresses_cannot_guess_on_without_end():
    codes = Codes(FrozenClock().monotonic)
    code = codes.issue()
    for number in range(TRIES_OF_ALL):
        assert not codes.redeem("AAAAAAAAAA", f"net {number}")
    with pytest.raises(LimitReached):
        codes.redeem(code, HERE)
    chance = MOST * TRIES_OF_ALL / len(ids.CODE_LETTERS) ** ids.CODE_LENGTH
    assert chance < 1 / 200_000_000


def test_old_tries_are_forgotten():
    clock = FrozenClock()
    codes = Codes(clock.monotonic)
    for number in range(TRIES_OF_ALL):
        codes.redeem("AAAAAAAAAA", f"net {number}")
    clock.move(SECONDS)
    code = codes.issue()
    assert codes.redeem(code, HERE)
    assert "net 1" not in repr(vars(codes))


def test_five_minutes_later_it_is_no_code_though_the_wall_clock_was_put_back():
    clock = FrozenClock()
    codes = Codes(clock.monotonic)
    early, last = codes.issue(), codes.issue()
    clock.move(SECONDS - 0.001)
    assert codes.redeem(last, HERE)
    clock.move(-3600)
    clock.move(0.001)
    assert not codes.redeem(early, HERE)


def test_the_codes_themselves_are_not_kept():
    codes = Codes(FrozenClock().monotonic)
    code = codes.issue()
    assert code.encode() not in repr(vars(codes)).encode()
