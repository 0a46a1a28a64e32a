"""Background tasks are kept until they are done, and end when they are told to."""

import asyncio
import gc

import pytest

from agentd.core.tasks import BackgroundTasks, cancel_task

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
