"""Run blocking work in threads without losing its result when the caller is cancelled."""

import asyncio
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Given = TypeVarTuple("Given")


async def run_uncancellable(work: Callable[[Unpack[Given]], T], *given: *Given) -> T:
    """Run ``work`` in a thread of the loop's pool and return its result, or raise as it does.

    Cancelling a wait for a thread does not stop the thread. A cancellation is therefore delivered
    only once the work is done, so that the caller can undo it and releases no lock too early. Use
    it for short work, such as writing a file.
    """
    task = asyncio.ensure_future(asyncio.to_thread(work, *given))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def open_in_thread(open_: Callable[[], T], close: Callable[[T], None]) -> T:
    """Open a resource in a thread and return it; close it there if the caller was cancelled."""
    loop = asyncio.get_running_loop()

    def close_unwanted(work: "asyncio.Future[T]") -> None:
        if not work.cancelled() and not work.exception():
            loop.run_in_executor(None, close, work.result())

    work = loop.run_in_executor(None, open_)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        work.add_done_callback(close_unwanted)
        raise
