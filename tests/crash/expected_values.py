"""The values that may be found under names after any crash. Pure: it neither reads nor asks.

Each name has one caller, so its requests have an order. A request without an answer happened as a
whole or not at all, so the values before and after it are possible; None is that there is nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Value: TypeAlias = str | int | bool | tuple["Value", ...] | None


@dataclass
class ExpectedValues:
    """What may be found under each name that was ever used."""

    possible: dict[str, set[Value]] = field(default_factory=dict)
    doubts: int = 0
    """Requests that were never answered."""

    def ask(self, name: str, value: Value) -> None:
        """Note that a name is about to be given this value: from now on it may have it."""
        self.possible.setdefault(name, {None}).add(value)

    def acknowledge(self, name: str, value: Value) -> None:
        """Note that it has this value, and no other."""
        self.possible[name] = {value}

    def get(self, name: str) -> Value:
        """Return the value of a name without doubts."""
        (value,) = self.possible.get(name, {None})
        return value

    def find_violations(self, found: Mapping[str, Value]) -> Iterator[str]:
        """Yield in words what was found and may not be, or was not found and must be."""
        for name in sorted(self.possible.keys() | found.keys()):
            possible, value = self.possible.get(name, {None}), found.get(name)
            if value not in possible:
                yield f"{name} is {value!r}, expected one of {sorted(possible, key=repr)!r}"

    def settle(self, found: Mapping[str, Value]) -> None:
        """Go on from what was found."""
        self.doubts += sum(len(possible) > 1 for possible in self.possible.values())
        self.possible = {name: {found.get(name)} for name in self.possible}
