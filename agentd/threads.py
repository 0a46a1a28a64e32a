"""Work on threads whose caller may be cancelled: what it does is not lost to its owner."""

import asyncio
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Given = TypeVarTuple("Given")


async def finished(work: Callable[[Unpack[Given]], T], *given: *Given) -> T:
    """What ``work`` returns on a thread of the loop's own; raises as it does.

    To cancel the wait for a thread does not end the thread. So a cancellation is heeded here only
    once the work is done: whoever is cancelled can undo it, and lets go of no lock too early. It
    is for work that is short, such as writing a file.
    """
    task = asyncio.ensure_future(asyncio.to_thread(work, *given))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def opened(open_: Callable[[], T], close: Callable[[T], None]) -> T:
    """What is opened on a thread; where nobody waits for it any more, it is closed again there."""
    loop = asyncio.get_running_loop()

    def unwanted(work: "asyncio.Future[T]") -> None:
        if not work.cancelled() and not work.exception():
            loop.run_in_executor(None, close, work.result())

    work = loop.run_in_executor(None, open_)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        work.add_done_callback(unwanted)
        raise
