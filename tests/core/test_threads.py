"""Work in threads is done whole, in order, and what it raises is reported."""

import asyncio
import threading

import pytest

from agentd.core.threads import WorkerThreads, run_uncancellable
from tests.conftest import until

pytestmark = pytest.mark.gen_test


async def test_what_the_work_gives_or_raises_is_reported():
    assert await run_uncancellable(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await run_uncancellable(divmod, 7, 0)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_cancellation_is_heeded_once_the_work_is_done(fails):
    begun, may_end, done = threading.Event(), threading.Event(), []

    def do_work():
        begun.set()
        assert may_end.wait(60)
        done.append(1)
        if fails:
            raise ZeroDivisionError

    task = asyncio.create_task(run_uncancellable(do_work))
    await until(begun.is_set)
    task.cancel()
    await asyncio.wait([task], timeout=0.05)
    assert not task.done()
    may_end.set()
    await asyncio.wait([task])
    assert task.cancelled()
    assert done


async def test_a_second_cancellation_is_heeded_no_earlier():
    begun, may_end = threading.Event(), threading.Event()

    def do_work():
        begun.set()
        assert may_end.wait(60)

    task = asyncio.create_task(run_uncancellable(do_work))
    await until(begun.is_set)
    for _ in range(3):
        task.cancel()
        await asyncio.wait([task], timeout=0.05)
        assert not task.done()
    may_end.set()
    await asyncio.wait([task])
    assert task.cancelled()


@pytest.fixture
def threads():
    made = WorkerThreads("test", 3)
    yield made
    made.close()


def test_one_thread_does_the_work_in_the_order_in_which_it_was_given():
    done, alone = [], WorkerThreads("alone", 1)
    for number in range(100):
        alone.start(lambda number=number: done.append(number))
    alone.close()
    assert done == list(range(100))


def test_no_thread_is_started_before_it_is_needed_and_no_more_than_allowed(threads):
    def list_threads():
        return {one.name for one in threading.enumerate() if one.name.startswith("test_")}

    assert list_threads() == set()
    threads.start(lambda: None)
    assert list_threads() == {"test_0"}
    threads.run_on_each(lambda _: None, range(20))
    assert list_threads() == {"test_0", "test_1", "test_2"}
    threads.close()
    assert list_threads() == set()


@pytest.mark.parametrize("count", [0, 1, 2, 4, 5, 23])
def test_every_item_is_worked_on_once_before_it_returns(threads, count):
    done = []
    threads.run_on_each(done.append, range(count))
    assert sorted(done) == list(range(count))


def test_items_are_worked_on_at_the_same_time_here_and_in_the_threads(threads):
    together = threading.Barrier(4, timeout=60)
    where = []

    def work(_):
        together.wait()
        where.append(threading.current_thread().name)

    threads.run_on_each(work, range(4))
    assert sorted(where) == ["MainThread", "test_0", "test_1", "test_2"]


@pytest.mark.parametrize("failing", range(8))
def test_an_error_of_one_item_is_raised_once_the_others_are_done(threads, failing):
    done = []

    def work(item):
        if item == failing:
            raise ValueError(item)
        done.append(item)

    with pytest.raises(ValueError, match=str(failing)):
        threads.run_on_each(work, range(8))
    left_out = {failing + 4} if failing < 4 else set()
    assert set(done) == set(range(8)) - {failing} - left_out
    threads.run_on_each(done.append, "x")
    assert done[-1] == "x"


class AllowedThreads:
    """Has the system allow only so many more threads."""

    def __init__(self, monkeypatch):
        self.left = 0
        start = threading.Thread.start

        def try_start(thread):
            if not self.left:
                raise RuntimeError("can't start new thread")
            self.left -= 1
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", try_start)


@pytest.fixture
def allowed(monkeypatch):
    return AllowedThreads(monkeypatch)


def test_work_that_no_thread_can_be_started_for_is_not_accepted_and_later_work_is_done(
    threads, allowed
):
    done = []
    with pytest.raises(RuntimeError, match="can't start"):
        threads.start(lambda: done.append("lost"))
    allowed.left = 1
    for _ in range(3):
        threads.start(lambda: done.append("kept"))
    threads.close()
    assert done == ["kept"] * 3


@pytest.mark.parametrize("count", [0, 1, 2])
def test_every_item_is_worked_on_with_as_few_threads_as_the_system_allows(threads, allowed, count):
    for _ in range(2):
        allowed.left, done = count, []
        threads.run_on_each(done.append, range(20))
        assert sorted(done) == list(range(20))


def test_nothing_is_accepted_after_the_end_and_what_was_given_before_is_done(threads):
    done = []
    for _ in range(20):
        threads.start(lambda: done.append(1))
    threads.close()
    assert len(done) == 20
    with pytest.raises(RuntimeError, match="have ended"):
        threads.start(lambda: done.append(1))
    assert len(done) == 20
