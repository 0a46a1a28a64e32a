"""A memory of what was met lately, shared by the threads that hide large bodies."""

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """At most ``most`` values by their keys; what was not met for longest is forgotten.

    ``heaviest`` bounds what all of them weigh together; 0: only their number counts.
    """

    def __init__(self, most: int, heaviest: int = 0) -> None:
        self._most = most
        self._heaviest = heaviest
        self._weight = 0
        self._lock = Lock()
        # A plain dict takes longer for its first item with each that was taken away before it.
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def __len__(self) -> int:
        """How many there are."""
        return len(self._values)

    def get(self, key: K) -> V | None:
        """The value, which is now met again."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V, weight: int = 0) -> bool:
        """Remember it; False: it is too heavy to be remembered at all."""
        with self._lock:
            self._drop(key)
            if self._heaviest and weight > self._heaviest:
                return False
            self._values[key] = (value, weight)
            self._weight += weight
            while len(self._values) > self._most or self._weight > self._heaviest > 0:
                self._drop(next(iter(self._values)))
            return True

    def items(self) -> list[tuple[K, V]]:
        """All, the one not met for longest first."""
        with self._lock:
            return [(key, value) for key, (value, _) in self._values.items()]

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._values.clear()
            self._weight = 0

    def _drop(self, key: K) -> None:
        gone = self._values.pop(key, None)
        self._weight -= gone[1] if gone else 0
