"""Who is cancelled while a thread works for him goes once it has done so."""

import asyncio
import threading

import pytest

from agentd.threads import finished
from tests.conftest import until

pytestmark = pytest.mark.gen_test


async def test_what_the_work_gives_or_raises_is_told():
    assert await finished(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await finished(divmod, 7, 0)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_cancellation_is_heeded_once_the_work_is_done(fails):
    begun, may_end, done = threading.Event(), threading.Event(), []

    def work():
        begun.set()
        assert may_end.wait(60)
        done.append(1)
        if fails:
            raise ZeroDivisionError

    task = asyncio.create_task(finished(work))
    await until(begun.is_set)
    task.cancel()
    await asyncio.wait([task], timeout=0.05)
    assert not task.done()
    may_end.set()
    await asyncio.wait([task])
    assert task.cancelled()
    assert done
