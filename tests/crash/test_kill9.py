"""No acknowledged change is lost or doubled by ``kill -9``, and the checker would see it."""

from contextlib import closing
from pathlib import Path

import pytest

from tests.crash import kill9, plants

KILLS = 60


def test_no_kill_loses_doubles_or_renumbers_anything(tmp_path: Path) -> None:
    for run in kill9.run_rounds(str(tmp_path), KILLS, seed=20):
        assert not run.world.violations
    assert run.kills == KILLS
    assert run.world.answers > KILLS, "there was hardly any load"
    assert run.world.doubts > KILLS / 10, "hardly any kill met a request on its way"


EXPECTED = {
    "acknowledged_too_early": "expected",
    "sent_again": "sent 2 times",
    "left_in_the_queue": "in the queue and in the history",
    "ids_from_the_start": "was given before",
    "handed_over_twice": "handed over 2 times",
}


@pytest.mark.parametrize("plant", plants.ALL)
def test_the_checker_finds_what_a_broken_daemon_does(tmp_path: Path, plant: str) -> None:
    complaints: list[str] = []
    with closing(kill9.run_rounds(str(tmp_path), 25, seed=21, plant=plant)) as rounds:
        for run in rounds:
            complaints = run.world.violations
            if EXPECTED[plant] in str(complaints):
                return
    pytest.fail(f"not found: {complaints}")


def test_a_checker_that_loses_answers_is_found_too(tmp_path: Path) -> None:
    with closing(kill9.run_rounds(str(tmp_path), 12, seed=22, forgets=True)) as rounds:
        assert any("the checker loses answers" in str(run.world.violations) for run in rounds)


def test_no_kill_loses_anything_under_a_load_of_all_kinds(tmp_path: Path) -> None:
    for run in kill9.run_rounds(str(tmp_path), 8, seed=23, mixed=True):
        assert not run.world.violations
    assert run.mixed
    changed = sum(len(caller.expected.possible) for caller in run.mixed.resources)
    assert changed > run.kills, "hardly anything was changed beside queues"
    assert run.mixed.models.asked, "no model was called"
    assert run.mixed.follower.told, "nothing was followed"


def test_the_checker_finds_documents_that_are_written_too_late(tmp_path: Path) -> None:
    plant, found = "written_behind_the_answer", [""]
    with closing(kill9.run_rounds(str(tmp_path), 15, seed=24, plant=plant, mixed=True)) as rounds:
        for run in rounds:
            found = run.world.violations
            if "expected one of" in str(found):
                return
    pytest.fail(f"not found: {found}")
