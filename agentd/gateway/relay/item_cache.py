"""The items of replies that later requests may refer to by their ids.

Only those that the gateway wrote itself, for a supplier of another dialect, are remembered: a
supplier of the caller's dialect remembers its own. They are as the supplier sent them, with
placeholders for secrets, which are restored in replies to later requests, too.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

MAX_BYTES = 16 * 2**20
"""The approximate maximum size of all keys' items; the least recently used are dropped first."""

MAX_AGE_SECONDS = 3600.0
"""The seconds for which an item is remembered after its last use."""

_OVERHEAD = 500
"""Bytes that an item takes beside its text, about."""


class _Item(NamedTuple):
    text: bytes
    used: float


class ItemCache:
    """Items by access key and id, in memory only."""

    def __init__(self, monotonic: Callable[[], float], max_bytes: int = MAX_BYTES) -> None:
        self._monotonic = monotonic
        self._max_bytes = max_bytes
        self._bytes = 0
        # In a plain dict, finding the first item gets slower with each deletion before it.
        self._items: OrderedDict[tuple[str, str], _Item] = OrderedDict()
        """The one that was not used for longest comes first."""

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self._items)

    def put(self, key_id: str, items: Mapping[str, bytes]) -> None:
        """Remember the items of a reply, as JSON by their ids."""
        for item_id, text in items.items():
            self._drop((key_id, item_id))
            self._bytes += len(text) + _OVERHEAD
            self._items[key_id, item_id] = _Item(text, self._monotonic())
        self._drop_old()

    def find(self, key_id: str, item_id: str) -> bytes | None:
        """Return an item of this key's earlier replies, and mark it as used."""
        self._drop_old()
        found = self._items.get((key_id, item_id))
        if found is None:
            return None
        self._items[key_id, item_id] = found._replace(used=self._monotonic())
        self._items.move_to_end((key_id, item_id))
        return found.text

    def forget_keys(self, lost: Collection[str]) -> None:
        """Drop all items of these keys."""
        for name in [name for name in self._items if name[0] in lost]:
            self._drop(name)

    def _drop_old(self) -> None:
        oldest = self._monotonic() - MAX_AGE_SECONDS
        while self._items:
            name, item = next(iter(self._items.items()))
            if self._bytes <= self._max_bytes and item.used > oldest:
                break
            self._drop(name)

    def _drop(self, name: tuple[str, str]) -> None:
        gone = self._items.pop(name, None)
        if gone is not None:
            self._bytes -= len(gone.text) + _OVERHEAD
