"""What comes and goes leaves no descriptor, thread, task, child or file behind; leaks are told."""

from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from msgspec.structs import replace

from tests.crash.keys import KEY
from tests.crash.soak import Comparison, Sample, Soak, compare, describe, read_samples

STEPS = 6
"""Of each kind of work in a round: what leaves one thing behind in each step leaves as many."""
ROUNDS = 3
THREADS = 64
"""More threads than the daemon's pools have, which fill slowly."""
SAMPLE = Sample(1, 0, 0, 50, 20, 30, 20, 1, 10, 10, 10, 0.2)


def test_rounds_of_everything_leave_nothing_open(tmp_path: Path) -> None:
    with Soak(str(tmp_path)) as soak:
        soak.go_round(STEPS)
        first = soak.go_round(STEPS)
        for _ in range(ROUNDS):
            last = soak.go_round(STEPS)
    assert last.descriptors - first.descriptors < STEPS, (first, last)
    assert last.tasks - first.tasks < STEPS, (first, last)
    assert last.children == first.children == 1, "only the program that is deployed"
    assert last.threads <= THREADS, (first, last)
    assert last.disk - first.disk < 64, (first, last)
    assert last.steps == STEPS * (ROUNDS + 2) * len(soak.load.work)
    assert last.ledger > first.ledger


def test_what_each_step_leaves_open_is_seen(tmp_path: Path) -> None:
    left: list[HTTPConnection] = []

    def leave(soak: Soak) -> Callable[[int], None]:
        def connect(_: int) -> None:
            address = urlsplit(soak.load.url)
            left.append(HTTPConnection(address.hostname or "", address.port, timeout=60))
            left[-1].request("GET", "/api/events", headers={"X-API-Key": KEY})
            assert left[-1].getresponse().status == 200  # each stream that is open is a task

        return connect

    with Soak(str(tmp_path)) as soak:
        soak.load.work = {"left open": leave(soak)}
        first, last = soak.go_round(STEPS), soak.go_round(STEPS)
        for connection in left:
            with closing(connection):
                pass
    assert last.descriptors - first.descriptors >= STEPS
    assert last.tasks - first.tasks >= STEPS


def test_the_last_window_is_compared_with_the_second_of_the_same_daemon() -> None:
    def build(part: int, seconds: float, memory: float) -> Sample:
        return replace(SAMPLE, part=part, seconds=seconds, memory=memory)

    before = [build(1, at, 500) for at in range(100)]
    now = [build(2, at, 50 + at // 10) for at in range(45)]
    result = {one.name: one for one in compare([*before, *now], 10)}
    assert (result["memory"].second, result["memory"].last) == (51, 53)
    assert result["threads"].growth == 0
    assert not compare(now[:25], 10)


def test_growth_beyond_one_in_a_hundred_is_told_and_what_is_kept_for_good_is_not() -> None:
    assert describe([Comparison("memory", 100, 100.9), Comparison("ledger", 100, 300)])[1] is False
    words, grew = describe([Comparison("tasks", 100, 102)])
    assert grew
    assert words == ["tasks: 100.00, then 102.00 (+2.0%): GROWN"]


def test_a_sample_that_was_cut_off_is_none(tmp_path: Path) -> None:
    path = tmp_path / "soak.jsonl"
    assert read_samples(path) == []
    path.write_bytes(b'{"part":1')
    assert read_samples(path) == []
