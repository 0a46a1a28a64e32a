"""Lists page by page, in the order of their names."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, islice
from typing import Generic, TypeVar

from agentd.errors import BadRequest
from agentd.web.call import Call
from agentd.web.table import Parameter

E = TypeVar("E")

USUAL = 50
MOST = 200

LIMIT = Parameter(
    "limit",
    "query",
    f"The most that is told at once; {USUAL} where it is absent.",
    {"type": "integer", "minimum": 1, "maximum": MOST},
)
CURSOR = Parameter("cursor", "query", "The next of the page before.", {"type": "string"})
NAME = Parameter("name", "query", "A part of the name, in capitals or not.", {"type": "string"})
ENABLED = Parameter("enabled", "query", "Only those that are, or are not.", {"type": "boolean"})
PAGING = (LIMIT, CURSOR, NAME, ENABLED)
"""What every list of resources takes."""


class _Shelf(Generic[E]):
    """Some entries in the order of their names, found by a part of a name without a look at each.

    No name has a line's end in it.
    """

    def __init__(self, entries: list[E], name: Callable[[E], str]) -> None:
        self.entries = entries
        self.names = [name(entry) for entry in entries]
        folded = [f"{one.casefold()}\n" for one in self.names]
        self._text = "".join(folded)
        self._starts = [0, *accumulate(map(len, folded))]

    def after(self, cursor: str, part: str) -> Iterator[E]:
        """Those behind a name that have a part in theirs, in capitals or not."""
        number = bisect_right(self.names, cursor) if cursor else 0
        if not part:
            yield from islice(self.entries, number, None)
        while part and (at := self._text.find(part, self._starts[number])) >= 0:
            number = bisect_right(self._starts, at)
            yield self.entries[number - 1]


class Listing(Generic[E]):
    """What ``entries`` are, paged. They are sorted once for as long as ``version`` is the same."""

    def __init__(
        self,
        version: Callable[[], object],
        entries: Callable[[], Iterable[E]],
        name: Callable[[E], str],
        enabled: Callable[[E], bool],
    ) -> None:
        self._version = version
        self._entries = entries
        self._name = name
        self._enabled = enabled
        self._sorted_of: object = None
        self._shelves: dict[bool | None, _Shelf[E]] = {}

    def page(self, call: Call) -> tuple[list[E], str]:
        """What the request wants, and where to go on. ``BadRequest`` for what is no filter."""
        limit = call.number("limit", 1, MOST) or USUAL
        part = (call.query("name") or "").casefold()
        shelf = self._shelf(flag(call, "enabled"))
        if "\n" in part:
            return [], ""
        found = list(islice(shelf.after(call.query("cursor") or "", part), limit + 1))
        if len(found) <= limit:
            return found, ""
        return found[:limit], self._name(found[limit - 1])

    def _shelf(self, enabled: bool | None) -> _Shelf[E]:
        """All of them, or those that are enabled or not."""
        now = self._version()
        if now is not self._sorted_of:
            self._shelves = {None: _Shelf(sorted(self._entries(), key=self._name), self._name)}
            self._sorted_of = now
        if enabled not in self._shelves:
            those = [one for one in self._shelves[None].entries if self._enabled(one) is enabled]
            self._shelves[enabled] = _Shelf(those, self._name)
        return self._shelves[enabled]


def flag(call: Call, name: str) -> bool | None:
    """A query parameter that is ``true`` or ``false``; None when it is absent; ``BadRequest``."""
    text = call.query(name)
    if text is None:
        return None
    if text not in ("true", "false"):
        raise BadRequest(f"{name} must be true or false")
    return text == "true"
