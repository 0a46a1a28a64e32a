"""No parser of what comes from outside breaks, or takes more than linear time."""

import pytest

from tests.fuzz.mutating import LARGE, SMALL, find_growth, run_for, try_input
from tests.fuzz.targets import TARGETS, FuzzTarget

SECONDS = 1.0


@pytest.mark.parametrize("name", TARGETS)
def test_a_parser_refuses_what_nobody_meant_in_a_known_way(name: str) -> None:
    assert run_for(TARGETS[name], SECONDS, seed=18) > 0


@pytest.mark.parametrize("name", TARGETS)
def test_a_parser_takes_linear_time(name: str) -> None:
    assert not list(find_growth(TARGETS[name]))


@pytest.mark.parametrize("name", TARGETS)
def test_the_inputs_to_begin_with_are_understood(name: str) -> None:
    target = TARGETS[name]
    assert any(try_input(target, seed) for seed in target.seeds)


def test_a_parser_that_breaks_is_found_with_its_input() -> None:
    def parse(data: bytes) -> None:
        if b"\xff" in data:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as found:
        run_for(FuzzTarget(parse, (b"abc",)), 10, seed=1)
    assert "input: b" in found.value.__notes__[0]


def test_a_run_begins_with_what_earlier_ones_found() -> None:
    """A parser that accepts only what begins with a word is not got past it by chance."""

    def parse(data: bytes) -> None:
        if not data.startswith(b"abracadabra"):
            raise ValueError
        if len(data) > 11:
            raise ZeroDivisionError

    kept: list[bytes] = []
    target = FuzzTarget(parse, (b"x",), raises=(ValueError,))
    assert run_for(target, 0.2, 1, kept.append) > 0
    assert kept == []
    with pytest.raises(ZeroDivisionError):
        run_for(target, 10, 1, kept.append, [b"abracadabra"])


def test_a_parser_that_takes_quadratic_time_is_found() -> None:
    def parse(data: bytes) -> None:
        for _ in range(len(data) // 24):
            data.count(b"b")

    target = FuzzTarget(parse, (b"a",), ((b"", b"a", b""),))
    assert SMALL < LARGE
    assert list(find_growth(target))
