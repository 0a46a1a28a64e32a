"""What happened since some moment, read back from the journals: events survive a restart."""

import asyncio
import heapq
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from agentd.chats.fold import Chat, Summary
from agentd.disk import checkpoint
from agentd.disk.layout import Layout
from agentd.disk.lines import Damage, read
from agentd.events import Event, told_by

MOST_EVENTS = 50_000
"""More than that missed, and reading everything anew is cheaper: it is told as a gap."""


class Replay:
    """Reads missed events; satisfies ``web.feed.History``."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._thread = ThreadPoolExecutor(1, "replay")

    async def missed(
        self, chats: Iterable[Summary], after: int, upto: int
    ) -> list[tuple[int, Event]] | None:
        """The events of records ``after < seq <= upto``, with their seq, in order.

        ``chats`` are those that have any. None when there are too many of them.
        """
        touched = sorted(chat.id for chat in chats if chat.seq > after)
        loop = asyncio.get_running_loop()
        found: list[list[tuple[int, Event]]] = []
        total = 0
        for chat_id in touched:
            events = await loop.run_in_executor(
                self._thread, _of_chat, self._layout, chat_id, after, upto
            )
            total += len(events)
            if total > MOST_EVENTS:
                return None
            found.append(events)
        return list(heapq.merge(*found, key=lambda pair: pair[0]))

    async def close(self) -> None:
        """End the thread."""
        await asyncio.to_thread(self._thread.shutdown)


def _of_chat(layout: Layout, chat_id: int, after: int, upto: int) -> list[tuple[int, Event]]:
    """One chat's part: fold up to ``after``, then tell. One that cannot be read tells nothing."""
    found: list[tuple[int, Event]] = []
    try:
        fd = os.open(layout.journal(chat_id), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return found
    with open(fd, "rb") as file:
        chat = checkpoint.read(layout.checkpoint(chat_id), chat_id, fd)
        if chat is None or chat.seq > after:
            chat = Chat(chat_id)
        file.seek(chat.size)
        data = file.read()
    for step in read(data, chat.lines, chat.size):
        if isinstance(step, Damage) or step[0].seq > upto:
            break
        entry, size = step
        chat.apply(entry, size)
        if entry.seq > after:
            told = told_by(entry, chat_id, chat.queue, chat.summary())
            found += [(entry.seq, event) for event in told]
    return found
