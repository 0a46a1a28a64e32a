"""A page of the list of chats: the newest first, filtered, and stable while chats are added.

Pure: values in, a page out. What a page costs grows with what it looks at, never with how many
chats there are.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from msgspec import Struct

from agentd.chats.fold import State, Summary

LOOKED_AT = 5000
"""Chats that one page looks at, at most: where few match, the rest is for the next page."""


class Filter(Struct, frozen=True):
    """Which chats are wanted; what is empty lets all pass."""

    label: str = ""
    status: str = ""
    state: State | str = ""

    def matches(self, chat: Summary) -> bool:
        """Whether a chat is wanted."""
        return (
            (not self.label or self.label in chat.labels)
            and (not self.status or self.status == chat.status)
            and (not self.state or self.state == chat.state)
        )


class Page(Struct, frozen=True):
    """Some chats, the newest first, and where to go on."""

    chats: list[Summary]
    next: int | None
    """All that follow have smaller ids than this; None: nothing follows."""


def page(
    ids: Sequence[int], known: Mapping[int, Summary], wanted: Filter, before: int | None, limit: int
) -> Page:
    """At most ``limit`` chats that are wanted, with ids smaller than ``before``.

    ``ids`` rise, and each is ``known``. A page may have fewer than ``limit`` chats though more
    follow: ``next`` alone tells the end.
    """
    end = len(ids) if before is None else bisect_left(ids, before)
    last = max(end - LOOKED_AT, 0)
    found: list[Summary] = []
    for place in range(end - 1, last - 1, -1):
        chat = known[ids[place]]
        if not wanted.matches(chat):
            continue
        if len(found) == limit:
            return Page(found, found[-1].id)
        found.append(chat)
    return Page(found, ids[last] if last else None)
