"""Work in the background sees its end, so that it can record what it was about."""

import asyncio

import pytest

from agentd.gateway.relay.running_work import RunningWork
from tests.conftest import until

pytestmark = pytest.mark.gen_test


@pytest.mark.parametrize("closing", [False, True])
async def test_work_that_was_only_just_begun_sees_that_it_is_cancelled(closing):
    """A caller may leave in the moment in which its key is revoked, or the daemon stops."""
    work, seen = RunningWork(), list[str]()

    async def wait_for_supplier(key: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(key)

    for key in ("a", "b"):
        work.run(wait_for_supplier(key), waits=key)
    if not closing:
        work.cancel_revoked(frozenset("a"))
        await until(lambda: seen == ["a"])
    await work.close()
    assert sorted(seen) == ["a", "b"]
