"""Chats whose next turn waits for a time: a limit that ends, or the time of their prompts."""

import asyncio
from collections.abc import Callable
from math import inf

from agentd.chats.state import ChatSummary
from agentd.core.clock import Clock, Timestamp, parse_iso

LONGEST_SLEEP = 60.0
"""Seconds after which a wait is checked again: the machine's clock may have jumped."""


class WaitingChats:
    """Calls ``on_due`` with the chats whose time has come; one timer serves all of them."""

    def __init__(self, clock: Clock, on_due: Callable[[list[ChatSummary]], None]) -> None:
        self._clock = clock
        self._on_due = on_due
        self._chats: dict[int, ChatSummary] = {}
        self._ends: dict[int, float] = {}
        """When limits have passed by the monotonic clock, in case the other one is set back."""
        self._timer: asyncio.TimerHandle | None = None
        self.wakes_at: Timestamp = ""
        """The time for which the timer is set; empty: no chat waits."""

    def add(self, chat: ChatSummary) -> None:
        """Wait for this chat's time, instead of an earlier one."""
        self._chats[chat.id] = chat
        start = get_start(chat)
        if start == chat.waits_until:
            self._ends[chat.id] = self._clock.monotonic() + self._count_seconds_left(start)
        else:  # a person named that time
            self._ends.pop(chat.id, None)
        if not self.wakes_at or start < self.wakes_at:
            self._set_timer(start)

    def discard(self, chat_id: int) -> None:
        """Wait for this chat no longer; the timer may ring for nothing once."""
        self._chats.pop(chat_id, None)
        self._ends.pop(chat_id, None)

    def clear(self) -> None:
        """Wait for no chat."""
        self._chats.clear()
        self._ends.clear()
        self._set_timer("")

    def check(self) -> None:
        """Report the chats whose time has come, and set the timer for the rest."""
        now, seconds = self._clock.now(), self._clock.monotonic()
        due = [
            chat
            for chat in self._chats.values()
            if get_start(chat) <= now or self._ends.get(chat.id, inf) <= seconds
        ]
        for chat in due:
            self.discard(chat.id)
        self._set_timer(min(map(get_start, self._chats.values()), default=""))
        if due:
            self._on_due(due)

    def _set_timer(self, at: Timestamp) -> None:
        """Set the timer to a time of the wall clock, which may jump; empty: no timer."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        self.wakes_at = at
        if at:
            left = min(self._count_seconds_left(at), LONGEST_SLEEP)
            self._timer = asyncio.get_running_loop().call_later(max(left, 0.0), self.check)

    def _count_seconds_left(self, at: Timestamp) -> float:
        return (parse_iso(at) - parse_iso(self._clock.now())).total_seconds()


def get_start(chat: ChatSummary) -> Timestamp:
    """Return the time before which the chat's next turn does not start; empty: none."""
    return max(chat.waits_until, chat.later)
