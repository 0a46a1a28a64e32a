"""A thread-safe LRU cache, used by the threads that mask secrets in large bodies."""

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """A mapping that evicts the least recently used values.

    It holds at most ``max_items`` values with a total weight of ``max_weight``; 0: any weight.
    """

    def __init__(self, max_items: int, max_weight: int = 0) -> None:
        self._max_items = max_items
        self._max_weight = max_weight
        self._weight = 0
        self._lock = Lock()
        # In a plain dict, finding the first item slows down with every item removed before it.
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self._values)

    def get(self, key: K) -> V | None:
        """Return the value, now the most recently used one."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def get_all(self, keys: Iterable[K]) -> list[V | None]:
        """Return the values of several keys, which are now the most recently used ones."""
        found = []
        with self._lock:
            values = self._values
            for key in keys:
                entry = values.get(key)
                if entry is not None:
                    values.move_to_end(key)
                found.append(entry and entry[0])
        return found

    def put(self, key: K, value: V, weight: int = 0) -> bool:
        """Store a value; return False when it alone exceeds the maximum weight."""
        with self._lock:
            self._drop(key)
            if self._max_weight and weight > self._max_weight:
                return False
            self._values[key] = (value, weight)
            self._weight += weight
            while len(self._values) > self._max_items or self._weight > self._max_weight > 0:
                self._drop(next(iter(self._values)))
            return True

    def items(self) -> list[tuple[K, V]]:
        """Return all items, the least recently used first."""
        with self._lock:
            return [(key, value) for key, (value, _) in self._values.items()]

    def clear(self) -> None:
        """Remove all values."""
        with self._lock:
            self._values.clear()
            self._weight = 0

    def _drop(self, key: K) -> None:
        gone = self._values.pop(key, None)
        self._weight -= gone[1] if gone else 0
