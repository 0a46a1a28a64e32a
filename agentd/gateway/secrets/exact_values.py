"""Search for many exact values at once, in time linear in the text for any values.

One pattern of RE2 that held all values whole would grow with them, and a text that repeats itself
would be compared with a long value at every place. So the pattern holds only how each value begins,
which bounds it, and what may be meant is found by bisection among the values in their order.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from agentd.gateway.secrets.rules import compile_regex

HEAD = 8
"""Bytes that every value has at least: how it begins."""

LONGEST = 8 * 1024
"""Bytes of the longest value that can be searched."""

_NEAR = 64
"""Places behind one that only began like a value which are looked at without the pattern: a call of
it costs as much as so many of them, and in a text that repeats itself each may begin like one."""


class ExactValues:
    """The values; each has ``HEAD`` to ``MAX_KEY_BYTES`` bytes."""

    def __init__(self, values: Iterable[bytes]) -> None:
        self._values = sorted(set(values))
        self._longest = max(map(len, self._values), default=0)
        self._heads = frozenset(value[:HEAD] for value in self._values)
        self._begins: list[tuple[int, ...]] = []
        """For each value, the numbers of those that it begins with, itself included, by length."""
        for number, value in enumerate(self._values):
            before = self._begins[-1] if self._begins else ()
            while before and not value.startswith(self._values[before[-1]]):
                before = before[:-1]
            self._begins.append((*before, number))

    def is_any_in(self, text: bytes) -> bool:
        """Return whether this text contains one of the values."""
        return next(self.find(text), None) is not None

    def search(self, text: bytes, at: int) -> Any:
        """Return a match of the first place from ``at`` on where one may begin, or ``None``."""
        return self._pattern.search(text, at) if self._heads else None

    def find(self, text: bytes) -> Iterator[tuple[int, int]]:
        """Iterate over the places of values; the longest at each place, and none within another."""
        at = 0
        while found := self.search(text, at):
            at = found.start()
            for start in range(at, min(at + _NEAR, len(text) - HEAD + 1)):
                at = start + 1
                if text[start : start + HEAD] not in self._heads:
                    continue
                if end := self._end(text, start):
                    yield start, end
                    at = end
                    break

    def _end(self, text: bytes, start: int) -> int:
        """Return the end of the longest value that begins there; 0: none."""
        here = text[start : start + self._longest]
        near = bisect_right(self._values, here) - 1
        if near < 0:
            return 0
        # The last value in order that is no greater begins as long as any other that is here does.
        begins = self._begins[near]
        count = bisect_left(begins, 1, key=lambda one: not here.startswith(self._values[one]))
        return start + len(self._values[begins[count - 1]]) if count else 0

    @cached_property
    def _pattern(self) -> Any:
        heads = "|".join("".join(f"\\x{byte:02x}" for byte in head) for head in sorted(self._heads))
        return compile_regex(rf"(?:{heads})", groups=False, of_bytes=True)
