"""One-time codes: once, for five minutes, and void after five wrong tries."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, rule

from agentd import ids
from agentd.access.codes import MOST, SECONDS, TRIES, Codes
from agentd.clock import FrozenClock


class OneByOne(RuleBasedStateMachine):
    """What a plain list of codes with their ends and tries would say, the codes say too."""

    def __init__(self):
        super().__init__()
        self.clock = FrozenClock()
        self.codes = Codes(self.clock.monotonic)
        self.open: list[list] = []  # code, until, tries left: the oldest first

    issued = Bundle("issued")

    def good(self):
        now = self.clock.monotonic()
        return [one for one in self.open if one[1] > now and one[2] > 0]

    @rule(target=issued)
    def issue(self):
        self.open = self.good()[-(MOST - 1) :]
        code = self.codes.issue()
        self.open.append([code, self.clock.monotonic() + SECONDS, TRIES])
        return code

    @rule(code=issued)
    def enter(self, code):
        self.expect(code)

    @rule(code=consumes(issued), odd=st.sampled_from(["{} ", "{:.3}-{}", "{}"]))
    def enter_as_people_write(self, code, odd):
        written = f" {code[:4]}-{code[4:].lower()} " if "-" in odd else odd.format(code).lower()
        self.expect(code, written)

    @rule(wrong=st.text(max_size=12))
    def enter_what_is_none(self, wrong):
        self.expect(wrong)

    @rule(seconds=st.sampled_from([0.5, 60, SECONDS - 1, SECONDS]))
    def wait(self, seconds):
        self.clock.move(seconds)

    @rule(seconds=st.sampled_from([-3600, -86400]))
    def put_the_wall_clock_back(self, seconds):
        self.clock.move(seconds)

    def expect(self, code, written=None):
        known = next((one for one in self.good() if one[0] == code), None)
        assert self.codes.redeem(code if written is None else written) is bool(known)
        if known:
            self.open.remove(known)
        else:
            for one in self.good():
                one[2] -= 1


TestOneByOne = OneByOne.TestCase


@given(st.integers(1, 200))
def test_a_code_is_ten_letters_none_of_which_is_taken_for_another(_):
    code = ids.new_code()
    assert len(code) == 10
    assert not set(code) & set("0O1IL2Z5S8B")
    assert code == code.upper()


def test_a_code_works_once_whatever_comes_between():
    codes = Codes(FrozenClock().monotonic)
    code, other = codes.issue(), codes.issue()
    assert [codes.redeem(code), codes.redeem(code)] == [True, False]
    assert codes.redeem(other)


def test_four_wrong_tries_are_forgiven_and_the_fifth_voids_every_open_code():
    codes = Codes(FrozenClock().monotonic)
    kind, strict = codes.issue(), codes.issue()
    for _ in range(TRIES - 1):
        assert not codes.redeem("AAAAAAAAAA")
    assert codes.redeem(kind)
    late = codes.issue()
    assert not codes.redeem("AAAAAAAAAA")
    assert not codes.redeem(strict)
    assert codes.redeem(late)


def test_five_minutes_later_it_is_no_code_though_the_wall_clock_was_put_back():
    clock = FrozenClock()
    codes = Codes(clock.monotonic)
    early, last = codes.issue(), codes.issue()
    clock.move(SECONDS - 0.001)
    assert codes.redeem(last)
    clock.move(-3600)
    clock.move(0.001)
    assert not codes.redeem(early)


def test_the_codes_themselves_are_not_kept():
    codes = Codes(FrozenClock().monotonic)
    code = codes.issue()
    assert code.encode() not in repr(vars(codes)).encode()
