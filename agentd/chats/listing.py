"""A page of the list of chats: the newest first, filtered, and stable while chats are added.

Pure: values in, a page out. What a page costs grows with what it looks at, never with how many
chats there are. Only ``list_notable`` looks at all, some milliseconds for 10,000.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import nlargest
from operator import attrgetter

from msgspec import Struct

from agentd.chats.state import ChatState, ChatSummary

MAX_SCANNED = 5000
"""Chats that one page looks at, at most: where few match, the rest is for the next page."""
MOST_OF_A_KIND = 200
"""Chats that wait, failed, were not seen, or none of this, which ``list_notable`` lists at most."""


class ChatFilter(Struct, frozen=True):
    """The condition for chats; empty fields match all."""

    label: str = ""
    status: str = ""
    state: ChatState | str = ""

    def matches(self, chat: ChatSummary) -> bool:
        """Return whether a chat meets all conditions."""
        return (
            (not self.label or self.label in chat.labels)
            and (not self.status or self.status == chat.status)
            and (not self.state or self.state == chat.state)
        )


class ChatPage(Struct, frozen=True):
    """A page of chats, the newest first, and where to go on."""

    chats: list[ChatSummary]
    next: int | None
    """All that follow have smaller ids than this; None if nothing follows."""


def list_page(
    ids: Sequence[int],
    known: Mapping[int, ChatSummary],
    wanted: ChatFilter,
    before: int | None,
    limit: int,
) -> ChatPage:
    """List at most ``limit`` matching chats with ids smaller than ``before``.

    ``ids`` rise, and each is ``known``. A page may have fewer than ``limit`` chats though more
    follow: only ``next`` marks the end.
    """
    end = len(ids) if before is None else bisect_left(ids, before)
    last = max(end - MAX_SCANNED, 0)
    found: list[ChatSummary] = []
    for place in range(end - 1, last - 1, -1):
        chat = known[ids[place]]
        if not wanted.matches(chat):
            continue
        if len(found) == limit:
            return ChatPage(found, found[-1].id)
        found.append(chat)
    return ChatPage(found, ids[last] if last else None)


def list_notable(
    chats: Iterable[ChatSummary], before: int, pins: Collection[int], seen: Mapping[int, int]
) -> list[ChatSummary]:
    """List the chats with ids smaller than ``before`` that a person's lists show all the same.

    Those that ask, are at work or are pinned, all of them; of those whose prompts wait, of those
    that failed, of those with messages that were not ``seen``, and of all others the ones that
    were active last.
    """
    notable: list[ChatSummary] = []
    waiting: list[ChatSummary] = []
    failed: list[ChatSummary] = []
    unseen: list[ChatSummary] = []
    others: list[ChatSummary] = []
    for chat in chats:
        if chat.id >= before:
            continue
        if chat.asking or chat.working or chat.id in pins:
            notable.append(chat)
        elif chat.waiting or chat.waits_until:
            waiting.append(chat)
        elif chat.damage or chat.state == "error":
            failed.append(chat)
        elif chat.messages > seen.get(chat.id, 0):
            unseen.append(chat)
        else:
            others.append(chat)
    for kind in (waiting, failed, unseen, others):
        notable += nlargest(MOST_OF_A_KIND, kind, key=attrgetter("updated_at"))
    return notable
