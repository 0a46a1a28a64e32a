"""Blocking work in threads: without losing its result, and at little cost on a hot path."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Thread
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
        while not task.done():
            with suppress(asyncio.CancelledError):  # once more, as a stop of the daemon does
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


class WorkerThreads:
    """Threads that run what they are given, in this order; each starts when it is first needed.

    For short work on a hot path: ``ThreadPoolExecutor`` has a future for each piece of work, and
    locks that its caller and its threads take turns to wait for.
    """

    def __init__(self, name: str, count: int) -> None:
        self._name = name
        self._count = count
        self._threads: list[Thread] = []
        self._work: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._is_closed = False

    def start(self, work: Callable[[], object]) -> None:
        """Run ``work``, which must not raise, after what was given before.

        Raises ``RuntimeError``, and does nothing, after ``close``, and where there is no thread and
        the system allows none.
        """
        if self._is_closed:
            raise RuntimeError(f"the threads {self._name!r} have ended")
        if len(self._threads) < self._count:
            self._add_thread()
        self._work.put(work)

    def run_on_each(self, work: Callable[[T], None], items: Sequence[T]) -> None:
        """Call ``work`` with every item, here and in the threads; return when all are done.

        Raises what ``work`` raised; those after it in the same thread are then left out.
        """
        share = min(len(items), self._count + 1)
        results: SimpleQueue[Exception | None] = SimpleQueue()
        for first in range(1, share):
            part = partial(_try_each, work, items[first::share], results)
            try:
                self.start(part)
            except RuntimeError:
                part()
        if items:
            _try_each(work, items[::share], results)
        for error in [results.get() for _ in range(share)]:
            if error:
                raise error

    def close(self) -> None:
        """Finish what was given, and end the threads."""
        self._is_closed = True
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join()

    def _add_thread(self) -> None:
        """Start one more thread; where the system allows no more, those that there are go on."""
        name = f"{self._name}_{len(self._threads)}"
        thread = Thread(target=self._run, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            if not self._threads:
                raise
        else:
            self._threads.append(thread)

    def _run(self) -> None:
        while work := self._work.get():
            work()


def _try_each(
    work: Callable[[T], None], items: Sequence[T], results: "SimpleQueue[Exception | None]"
) -> None:
    try:
        for item in items:
            work(item)
    except Exception as error:  # a thread boundary: the caller gets it
        results.put(error)
    else:
        results.put(None)
