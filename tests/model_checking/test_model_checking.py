"""Real code and model agree after every sequence of steps; planted faults are found."""

import asyncio

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model_checking.explorer import Difference, build_walk, explore, follow
from tests.model_checking.planted_faults import FAULTS, PlantedFault
from tests.model_checking.subjects import DEPTHS, SUBJECTS, get_depth

WALK_STEPS = 25


@pytest.mark.parametrize("name", SUBJECTS)
def test_real_code_and_model_agree_after_every_short_sequence(name: str) -> None:
    subject, depth = SUBJECTS[name], get_depth(name)
    count = explore(subject, depth)
    assert count == sum(len(subject.steps) ** length for length in range(1, depth + 1))


@pytest.mark.parametrize("name", SUBJECTS)
def test_real_code_and_model_agree_after_long_random_sequences(name: str) -> None:
    examples = min(settings().max_examples, 25) if DEPTHS[name] == get_depth(name) else 1000
    run_state_machine_as_test(
        build_walk(SUBJECTS[name]),
        settings=settings(max_examples=examples, stateful_step_count=WALK_STEPS, deadline=None),
    )


def test_a_recount_counts_days_that_are_still_open_once() -> None:
    """The sequence in which a random walk found the spend of an older day counted twice."""
    day = ("ann begins", "oldest costs less", "next day")
    asyncio.run(follow(SUBJECTS["ledger"], (*day * 3, "recount")))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.replace(" ", "_"))
def test_a_planted_fault_is_found(fault: PlantedFault) -> None:
    with fault.planted(), pytest.raises(Difference) as found:
        explore(SUBJECTS[fault.subject], DEPTHS[fault.subject] + 2)
    assert len(found.value.path) <= DEPTHS[fault.subject] + 2
