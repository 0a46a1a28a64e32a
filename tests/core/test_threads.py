"""A coroutine that is cancelled while a thread works for it ends once the thread is done."""

import asyncio
import threading

import pytest

from agentd.core.threads import run_uncancellable
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
