"""What a request has in common with the one before it in its conversation: nearly all.

Even to look up each element by its hash takes longer than all else that is done with a long
request. Bytes that both requests begin with need not even be hashed.
"""

from bisect import bisect_left
from collections.abc import Sequence
from hashlib import blake2b
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

from agentd.proxy.secrets.recent import Recent
from agentd.proxy.secrets.request import Apart

E = TypeVar("E")

LEAST = 16 * 1024
"""Bytes of a request from which on this is worth its while."""

MOST = 4 * 2**20
"""A larger one is not kept."""

CONVERSATIONS = 16
"""Of how many the last request is kept ..."""

MOST_BYTES = 96 * 2**20
"""... and what all of that takes, about."""

_PART_BYTES = 300

_HEAD = 4096
"""Bytes at the beginning by which a conversation is known again."""
_PLACEHOLDER = b"SECRET_"
_END = attrgetter("end")


class Shared(NamedTuple, Generic[E]):
    """What is known of a request already."""

    size: int = 0
    """Bytes at its beginning that are the same as before."""
    before: Apart = Apart([], [], [])
    """The whole request that has them, too, taken apart."""
    elements: Sequence[E] = ()
    """What was found out of those of its parts that are in them: the first ones."""
    placeholder: int = -1
    """Where the first placeholder stands in them; -1: there is none."""

    def placeholder_in(self, body: bytes) -> int:
        """The same of the whole request."""
        if self.placeholder >= 0:
            return self.placeholder
        return body.find(_PLACEHOLDER, max(self.size - len(_PLACEHOLDER) + 1, 0))


_NOTHING: Shared[Any] = Shared()


class _Before(NamedTuple, Generic[E]):
    body: bytes
    taken: Apart
    elements: Sequence[E]
    placeholder: int


class Growth(Generic[E]):
    """The last requests of some conversations, with what was found out of their parts."""

    def __init__(self) -> None:
        self._before: Recent[tuple[str, bytes], _Before[E]] = Recent(CONVERSATIONS, MOST_BYTES)

    def shared(self, key_id: str, body: bytes) -> Shared[E]:
        """What is known of this request of a key."""
        before = self._before.get(_name(key_id, body)) if LEAST <= len(body) <= MOST else None
        if before is None:
            return _NOTHING
        size = same(before.body, body)
        known = bisect_left(before.taken.parts, size, key=_END)
        whole = before.placeholder + len(_PLACEHOLDER) <= size
        first = before.placeholder if whole else -1
        return Shared(size, before.taken, before.elements[:known], first)

    def keep(
        self,
        key_id: str,
        body: bytes,
        taken: Apart,
        elements: Sequence[E],
        placeholder: int,
        weight: int = 0,
    ) -> None:
        """Remember a request and what was found out of its parts, for the next one.

        ``weight``: bytes that the elements take.
        """
        if LEAST <= len(body) <= MOST:
            before = _Before(body, taken, elements, placeholder)
            weight += len(body) + _PART_BYTES * len(taken.parts)
            self._before.put(_name(key_id, body), before, weight)

    def clear(self) -> None:
        """Forget all."""
        self._before.clear()


def same(one: bytes, other: bytes) -> int:
    """How many bytes both begin with. Compared where they stand: copies would cost more."""
    view = memoryview(one)
    low, high = 0, min(len(one), len(other)) + 1  # so many are the same, and so many are not
    while high - low > 1:
        middle = (low + high) // 2
        if other.startswith(view[low:middle], low):
            low = middle
        else:
            high = middle
    return low


def _name(key_id: str, body: bytes) -> tuple[str, bytes]:
    return key_id, blake2b(body[:_HEAD], digest_size=16).digest()
