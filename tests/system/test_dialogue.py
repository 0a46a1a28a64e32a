"""A program that is spoken with is ended, whatever happens to those who wait for its end."""

import asyncio

import pytest

from agentd.system.dialogue import Graces, Program
from tests.support.transports import note_transports
from tests.support.waiting import wait_until_gone


@pytest.mark.parametrize("rounds", range(4))
@pytest.mark.parametrize("times", [1, 2])
def test_cancelling_the_end_of_a_program_kills_it_and_leaves_nothing_open(rounds, times):
    async def main() -> int:
        program = await Program.start(["sleep", "300"], folder="/", env={"PATH": "/bin:/usr/bin"})
        ending = asyncio.create_task(program.end(Graces(exit=300.0)))
        await asyncio.sleep(0)
        for _ in range(times):
            for _ in range(rounds):
                await asyncio.sleep(0)
            ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        # With which code, asyncio may not learn: closing its transport may wait for it first.
        assert await program.wait_for_exit(60.0) is not None
        return program.process

    with note_transports() as made:
        process = asyncio.run(main())
    wait_until_gone(process)
    assert [one.is_closing() for one in made] == [True]
