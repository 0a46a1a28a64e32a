"""One of several concurrent reloads reads for all, and none returns content read too early."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.storage.watched_file import CoalescingReloader
from tests.conftest import until

pytestmark = pytest.mark.gen_test


class EditedSource:
    """Something that is edited, and read in two steps: a look, and what was seen is in force."""

    def __init__(self) -> None:
        self.content = self.in_force = 0
        self.readings = 0
        self.failure: OSError | None = None
        self.looked = asyncio.Event()
        self.may_end = asyncio.Semaphore(0)
        self.refresh = CoalescingReloader(self._read)

    async def _read(self) -> None:
        self.readings += 1
        seen = self.content
        self.looked.set()
        await self.may_end.acquire()
        failure, self.failure = self.failure, None
        if failure:
            raise failure
        self.in_force = seen

    def let(self, readings: int) -> None:
        """Let so many readings come to their end."""
        for _ in range(readings):
            self.may_end.release()

    async def reload(self) -> int:
        """Reload, and return the content in force."""
        await self.refresh.reload()
        return self.in_force


async def test_many_who_ask_at_once_share_one_reading():
    edited = EditedSource()
    edited.content = 1
    asking = [asyncio.create_task(edited.reload()) for _ in range(50)]
    await edited.looked.wait()
    edited.let(2)
    assert set(await asyncio.gather(*asking)) == {1}
    assert edited.readings == 2  # the first one had begun when the others asked


async def test_a_client_that_asks_while_it_is_read_waits_for_the_next_reading():
    edited = EditedSource()
    first = asyncio.create_task(edited.reload())
    await edited.looked.wait()
    edited.content = 1
    others = [asyncio.create_task(edited.reload()) for _ in range(9)]
    await asyncio.sleep(0)
    edited.let(2)
    assert await first == 0
    assert set(await asyncio.gather(*others)) == {1}
    assert edited.readings == 2


@pytest.mark.parametrize("fails", [False, True])
async def test_a_client_that_waits_for_a_reading_that_comes_to_no_end_reads_itself(fails):
    edited = EditedSource()
    first = asyncio.create_task(edited.reload())
    await edited.looked.wait()
    edited.content = 1
    reads, waits = (asyncio.create_task(edited.reload()) for _ in range(2))
    await asyncio.sleep(0)
    edited.let(1)
    await first
    await until(lambda: edited.readings == 2)
    if fails:
        edited.failure = OSError()
        edited.let(1)
    else:
        reads.cancel()
    await asyncio.wait([reads])
    assert reads.cancelled() or reads.exception()
    edited.let(1)
    assert await waits == 1


async def test_what_is_read_soon_waits_for_nobody_and_ends_with_a_stop():
    edited = EditedSource()
    edited.refresh.schedule()
    await edited.looked.wait()
    await edited.refresh.stop()
    edited.content = 1
    edited.let(1)
    edited.refresh.schedule()
    await until(lambda: edited.in_force == 1)
    await edited.refresh.stop()


STEPS = st.lists(st.sampled_from(["edit", "ask", "leave", "turn", "end"]), max_size=40)


@given(STEPS)
def test_anyone_who_is_answered_gets_what_was_there_when_it_asked_or_later(steps):
    async def run_scenario():
        edited, asking = EditedSource(), []

        async def ask():
            wanted = edited.content
            assert await edited.reload() >= wanted

        for step in steps:
            if step == "edit":
                edited.content += 1
            elif step == "ask":
                asking.append(asyncio.create_task(ask()))
                await asyncio.sleep(0)
            elif step == "leave" and asking:
                asking.pop(len(asking) // 2).cancel()
            elif step == "turn":
                await asyncio.sleep(0)
            elif step == "end":
                edited.let(1)
        edited.let(100)
        await asyncio.gather(*asking)

    asyncio.run(run_scenario())
