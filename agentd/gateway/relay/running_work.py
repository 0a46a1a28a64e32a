"""The relay's work beside the requests under way: background tasks, and streams being sent."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol


class RevocableStream(Protocol):
    """A reply that is being sent (``gateway.relay.stream.RelayedStream``)."""

    def cancel_revoked(self) -> None:
        """End it: its access key was revoked."""
        ...


class RunningWork:
    """Ends what runs on a revoked access key, and on shutdown whatever waits for a supplier."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting_for_supplier: dict[asyncio.Task[None], str] = {}
        """The tasks that wait for a supplier, with the ids of their access keys."""
        self._streams: dict[RevocableStream, str] = {}
        """The streams being sent, with the ids of their access keys."""

    def run(self, work: Coroutine[Any, Any, None], *, waits: str = "") -> None:
        """Run a coroutine in the background; ``close`` waits for it.

        ``waits`` is the id of the access key whose supplier it waits for: such work is cancelled by
        ``close`` and when the key is revoked.
        """
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if waits:
            self._waiting_for_supplier[task] = waits
            task.add_done_callback(self._waiting_for_supplier.pop)

    def add_stream(self, stream: RevocableStream, key_id: str) -> None:
        """End this stream when the key is revoked, until ``remove_stream``."""
        self._streams[stream] = key_id

    def remove_stream(self, stream: RevocableStream) -> None:
        """Forget a stream that ended, or was never added."""
        self._streams.pop(stream, None)

    def cancel_revoked(self, revoked: frozenset[str]) -> None:
        """End the streams and cancel the waiting tasks of revoked access keys."""
        for stream in [stream for stream, key in self._streams.items() if key in revoked]:
            stream.cancel_revoked()
        for task, key in self._waiting_for_supplier.items():
            if key in revoked:  # soon: a task that was only just created must see it, to record
                task.get_loop().call_soon(task.cancel)

    async def close(self) -> None:
        """Cancel what waits for suppliers and return once all tasks are done."""
        await asyncio.sleep(0)  # a task that was only just created must see its cancellation
        while self._tasks:
            for task in self._waiting_for_supplier:
                task.cancel()
            await asyncio.wait(self._tasks)
