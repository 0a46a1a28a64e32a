"""A memory of what was met lately, shared by the threads that hide large bodies."""

from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """At most ``most`` values by their keys; what was not met for longest is forgotten."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._values: dict[K, V] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._values)

    def get(self, key: K) -> V | None:
        """The value, which is now met again."""
        with self._lock:
            value = self._values.pop(key, None)
            if value is not None:
                self._values[key] = value
            return value

    def put(self, key: K, value: V) -> None:
        """Remember it."""
        with self._lock:
            self._values.pop(key, None)
            self._values[key] = value
            if len(self._values) > self._most:
                del self._values[next(iter(self._values))]

    def items(self) -> list[tuple[K, V]]:
        """All, the one not met for longest first."""
        with self._lock:
            return list(self._values.items())

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._values.clear()
