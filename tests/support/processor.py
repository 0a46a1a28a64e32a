"""How long something keeps the processor busy, whatever processor it is."""

import gc
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from time import process_time
from typing import TypeVar

Input = TypeVar("Input")

LEAST_SECONDS = 0.01
"""Less cannot be compared on a machine that is busy with other things."""
ATTEMPTS = 5

KNOWN = 0.025
"""Seconds that ``_time_known_work`` takes on the machine for which limits are given."""


@contextmanager
def busy_for_less_than(seconds: float) -> Iterator[None]:
    """The block takes less of the processor's time; on a slower one as much more as it is slower.

    How slow it is, is only looked at where the block took longer.
    """
    began = process_time()
    try:
        yield
    finally:  # whatever it raises
        taken = process_time() - began
        assert taken < seconds or taken < seconds * measure_slowness()


def assert_linear(
    work: Callable[[Input], object], little: Input, much: Input, *, times: float
) -> None:
    """Fail where ``work`` on ``much``, which is ``times`` as large, takes more than in proportion.

    The limit is halfway between linear and quadratic. The shortest of several attempts counts, for
    others on the machine compete for its caches; most need one, and none of the smaller input.
    """
    limit = (times + times * times) / 2
    before = taken = inf
    for _ in range(ATTEMPTS):
        taken = min(taken, measure_seconds(work, much))
        if taken < limit * LEAST_SECONDS:
            return
        before = min(before, measure_seconds(work, little))
        if taken < limit * before:
            return
    raise AssertionError(f"{before:.3f} s, and {taken:.3f} s for {times} times as much")


def measure_seconds(work: Callable[[Input], object], given: Input) -> float:
    """Return the processor's seconds for one run, without garbage of other tests."""
    gc.disable()
    try:
        began = process_time()
        work(given)
        return process_time() - began
    finally:
        gc.enable()


def measure_slowness() -> float:
    """Return this machine's time relative to the machine that the limits are for."""
    return max(1.0, *(_time_known_work() / KNOWN for _ in range(3)))


def _time_known_work() -> float:
    """Return the seconds for a bit of everything that the tests do."""
    began = process_time()
    words = [f"word {number} of {number % 7}" for number in range(20_000)]
    text = json.dumps(json.loads(json.dumps(words)))
    assert len(re.findall("word ([0-9]+)", text)) == len(words)
    assert sum(len(word) for word in words if word.endswith("3"))
    return process_time() - began
