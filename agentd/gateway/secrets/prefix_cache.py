"""The prefix that a request shares with the previous one of its conversation: nearly all of it.

In a long request, even looking up each element by its hash takes longer than everything else. Bytes
that both requests begin with need not even be hashed.
"""

from bisect import bisect_left
from collections.abc import Sequence
from hashlib import blake2b
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

from agentd.core.lru_cache import LruCache
from agentd.gateway.secrets.split_body import SplitBody

E = TypeVar("E")

LEAST = 16 * 1024
"""Bytes of a request from which on this is worth its while."""

MOST = 4 * 2**20
"""A larger one is not kept."""

CONVERSATIONS = 16
"""The number of conversations whose last request is kept ..."""

MOST_BYTES = 96 * 2**20
"""... and what all of that takes, about."""

_PART_BYTES = 300

_HEAD = 4096
"""Bytes at the beginning by which a conversation is known again."""
_PLACEHOLDER = b"SECRET_"
_END = attrgetter("end")


class SharedPrefix(NamedTuple, Generic[E]):
    """The shared prefix of a request."""

    size: int = 0
    """Bytes at its beginning that are the same as before."""
    before: SplitBody = SplitBody([], [], [])
    """The whole request that has them, too, taken apart."""
    elements: Sequence[E] = ()
    """The cached results of the elements in the prefix."""
    placeholder: int = -1
    """The offset of the first placeholder in them; -1: none."""

    def find_placeholder(self, body: bytes) -> int:
        """Return the offset of the request's first placeholder; -1 if there is none."""
        if self.placeholder >= 0:
            return self.placeholder
        return body.find(_PLACEHOLDER, max(self.size - len(_PLACEHOLDER) + 1, 0))


_NOTHING: SharedPrefix[Any] = SharedPrefix()


class _Previous(NamedTuple, Generic[E]):
    body: bytes
    taken: SplitBody
    elements: Sequence[E]
    placeholder: int


class PrefixCache(Generic[E]):
    """The last requests of some conversations, with the results for their parts."""

    def __init__(self) -> None:
        self._before: LruCache[tuple[str, bytes], _Previous[E]] = LruCache(
            CONVERSATIONS, MOST_BYTES
        )

    def find_shared(self, key_id: str, body: bytes) -> SharedPrefix[E]:
        """Return the cached results for the beginning of this request of an access key."""
        before = self._before.get(_name(key_id, body)) if LEAST <= len(body) <= MOST else None
        if before is None:
            return _NOTHING
        size = measure_common_prefix(before.body, body)
        known = bisect_left(before.taken.parts, size, key=_END)
        whole = before.placeholder + len(_PLACEHOLDER) <= size
        first = before.placeholder if whole else -1
        return SharedPrefix(size, before.taken, before.elements[:known], first)

    def store(
        self,
        key_id: str,
        body: bytes,
        taken: SplitBody,
        elements: Sequence[E],
        placeholder: int,
        weight: int = 0,
    ) -> None:
        """Remember a request and the results for its parts, for the next request.

        ``weight``: bytes that the elements take.
        """
        if LEAST <= len(body) <= MOST:
            before = _Previous(body, taken, elements, placeholder)
            weight += len(body) + _PART_BYTES * len(taken.parts)
            self._before.put(_name(key_id, body), before, weight)

    def clear(self) -> None:
        """Forget everything."""
        self._before.clear()


def measure_common_prefix(one: bytes, other: bytes) -> int:
    """Return the length of the common prefix. Compares in place: copies would cost more."""
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
