"""Background tasks are kept until they are done, and end when they are told to."""

import asyncio
import gc

import pytest

from agentd.core.tasks import BackgroundTasks, cancel_task, start_eagerly

pytestmark = pytest.mark.gen_test


async def test_a_task_that_nobody_else_holds_runs_to_its_end():
    done: list[int] = []
    tasks = BackgroundTasks()

    async def do_work() -> None:
        waiting = asyncio.Event()
        asyncio.get_running_loop().call_soon(waiting.set)
        await waiting.wait()
        done.append(1)

    tasks.start(do_work())
    gc.collect()
    assert len(tasks) == 1
    await tasks.wait()
    assert (done, len(tasks)) == ([1], 0)


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("fails", [False, True])
async def test_what_is_to_be_done_after_futures_is_done_though_the_caller_leaves(leaves, fails):
    futures = [asyncio.get_running_loop().create_future() for _ in range(2)]
    tasks, done = BackgroundTasks(), list[int]()
    caller = asyncio.create_task(tasks.run_when_done(futures, lambda: done.append(1)))
    await asyncio.sleep(0)
    if leaves:
        caller.cancel()
        await asyncio.wait([caller])
        assert caller.cancelled()
    assert not done
    futures[0].set_result(None)
    if fails:
        futures[1].set_exception(ZeroDivisionError())
    else:
        futures[1].set_result(None)
    await asyncio.wait([caller])
    await tasks.wait()
    assert done == ([] if fails else [1])
    assert leaves or isinstance(caller.exception(), ZeroDivisionError if fails else type(None))


async def test_what_a_task_starts_is_waited_for_too():
    done: list[str] = []
    tasks = BackgroundTasks()

    async def run_second() -> None:
        await asyncio.sleep(0)
        done.append("second")

    async def run_first() -> None:
        await asyncio.sleep(0)
        tasks.start(run_second())
        done.append("first")

    tasks.start(run_first())
    await tasks.wait()
    assert done == ["first", "second"]


async def test_cancelled_tasks_have_cleaned_up_when_cancel_returns():
    left: list[int] = []
    tasks = BackgroundTasks()

    async def do_work(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            left.append(number)

    for number in range(3):
        tasks.start(do_work(number))
    await asyncio.sleep(0)
    await tasks.cancel()
    assert sorted(left) == [0, 1, 2]
    assert len(tasks) == 0


async def test_cancelling_a_task_tells_only_how_it_failed():
    async def wait() -> None:
        await asyncio.Event().wait()

    async def fail() -> None:
        raise ZeroDivisionError

    waiting, failing = asyncio.create_task(wait()), asyncio.create_task(fail())
    await asyncio.sleep(0)
    await cancel_task(waiting)
    assert waiting.cancelled()
    with pytest.raises(ZeroDivisionError):
        await cancel_task(failing)


async def test_a_caller_that_is_cancelled_meanwhile_is_cancelled():
    may_end = asyncio.Event()

    async def end_slowly() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await may_end.wait()

    slow = asyncio.create_task(end_slowly())
    await asyncio.sleep(0)
    caller = asyncio.create_task(cancel_task(slow))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    may_end.set()
    await slow


async def test_a_coroutine_that_need_not_wait_is_done_without_a_task():
    done: list[int] = []

    async def do_work() -> None:
        done.append(1)

    assert start_eagerly(do_work()) is None
    assert done == [1]


async def test_the_rest_of_a_coroutine_that_waits_is_a_task_with_all_that_it_waits_for():
    steps: list[object] = []
    first, second = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def do_work() -> None:
        steps.append("begun")
        await first.wait()
        steps.append(await second)
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            steps.append("late")

    task = start_eagerly(do_work())
    assert task
    assert steps == ["begun"]
    first.set()
    second.set_result("second")
    await task
    assert steps == ["begun", "second", "late"]


async def test_a_coroutine_that_was_started_eagerly_fails_and_is_cancelled_as_any():
    async def fail_at_once() -> None:
        raise ValueError("at once")

    async def fail_later() -> None:
        await asyncio.sleep(0)
        raise ValueError("later")

    left: list[int] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            left.append(1)

    with pytest.raises(ValueError, match="at once"):
        start_eagerly(fail_at_once())
    failing, waiting = start_eagerly(fail_later()), start_eagerly(wait())
    assert failing
    assert waiting
    with pytest.raises(ValueError, match="later"):
        await failing
    await cancel_task(waiting)
    assert left == [1]
