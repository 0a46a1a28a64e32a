"""How long something keeps the processor busy, whatever processor it is."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from time import process_time

KNOWN = 0.025
"""Seconds that ``_known_work`` takes on the machine for which limits are given."""


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
        assert taken < seconds or taken < seconds * slowness()


def slowness() -> float:
    """How many times as long this machine takes as the one for which limits are given."""
    return max(1.0, *(_known_work() / KNOWN for _ in range(3)))


def _known_work() -> float:
    """Seconds for a bit of everything that the tests do."""
    began = process_time()
    words = [f"word {number} of {number % 7}" for number in range(20_000)]
    text = json.dumps(json.loads(json.dumps(words)))
    assert len(re.findall("word ([0-9]+)", text)) == len(words)
    assert sum(len(word) for word in words if word.endswith("3"))
    return process_time() - began
