"""What happened since some moment, read back from the journals: events survive a restart.

Only what is known to be safe is told: of each journal as many bytes as its chat's summary covers.
"""

import asyncio
import logging
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from typing import BinaryIO, TypeAlias

from agentd.chats.fold import Chat, Summary
from agentd.disk import checkpoint
from agentd.disk.layout import Layout
from agentd.disk.lines import Damage, read
from agentd.events import Event, told_by

log = logging.getLogger(__name__)

MOST_EVENTS = 50_000
"""More than that missed, and reading everything anew is cheaper: it is told as a gap."""
_CHUNK = 1024 * 1024
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Numbered: TypeAlias = tuple[int, Event]


class Replay:
    """Reads missed events; satisfies ``web.feed.History``."""

    def __init__(self, layout: Layout, most: int = MOST_EVENTS) -> None:
        self._layout = layout
        self._most = most
        self._thread = ThreadPoolExecutor(1, "replay")

    async def missed(
        self, chats: Iterable[Summary], after: int, upto: int
    ) -> list[Numbered] | None:
        """The events of records ``after < seq <= upto``, with their seq, in order.

        ``chats`` are all that may have any, as they are now. None when there are too many events.
        A chat that cannot be read, or only up to some line, tells no more than that.
        """
        loop = asyncio.get_running_loop()
        found: list[Numbered] = []
        for chat in chats:
            if chat.seq <= after:
                continue
            found += await loop.run_in_executor(self._thread, self._of, chat, after, upto)
            if len(found) > self._most:
                return None
        await loop.run_in_executor(self._thread, lambda: found.sort(key=itemgetter(0)))
        return found

    async def close(self) -> None:
        """End the thread."""
        await asyncio.to_thread(self._thread.shutdown)

    def _of(self, summary: Summary, after: int, upto: int) -> list[Numbered]:
        """One chat's part; one more than the most, where there are too many."""
        found: list[Numbered] = []
        path = self._layout.journal(summary.id)
        try:
            fd = os.open(path, _READ)
            with open(fd, "rb") as file:
                chat = checkpoint.read(self._layout.checkpoint(summary.id), summary.id, fd)
                if chat is None or chat.seq > after:
                    chat = Chat(summary.id)
                for event in _told(file, chat, after, min(upto, summary.seq), summary.size):
                    found.append(event)
                    if len(found) > self._most:
                        break
        except OSError as error:
            log.warning("what chat %d told cannot be read back: %s", summary.id, error)
        return found


def _told(file: BinaryIO, chat: Chat, after: int, upto: int, size: int) -> Iterator[Numbered]:
    """Fold on from ``chat`` to the byte ``size``; the events after one seq up to another."""
    file.seek(chat.size)
    while chat.size < size:
        data = file.read(min(_CHUNK, size - chat.size))
        if not data.endswith(b"\n"):
            data += file.readline()
        for step in read(data, chat.lines, chat.size):
            if isinstance(step, Damage):
                log.warning("chat %d is told up to line %d: %s", chat.id, chat.lines, step.reason)
                return
            entry, length = step
            if entry.seq > upto:
                return
            chat.apply(entry, length)
            if entry.seq > after:
                for event in told_by(entry, chat.id, chat.queue, chat.summary()):
                    yield entry.seq, event
        if not data:
            log.warning("the journal of chat %d is shorter than it was", chat.id)
            return
