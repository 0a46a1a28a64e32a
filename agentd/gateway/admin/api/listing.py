"""Paged lists, ordered by name."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, islice
from typing import Generic, TypeVar

from agentd.core.folding import fold_text
from agentd.http.parameters import make_integer_parameter
from agentd.http.request import Request
from agentd.http.routing import Parameter

E = TypeVar("E")

DEFAULT_LIMIT = 50
MAX_LIMIT = 200

LIMIT = make_integer_parameter(
    "limit", f"Maximum number of items; {DEFAULT_LIMIT} by default.", 1, MAX_LIMIT
)
CURSOR = Parameter("cursor", "query", "The next of the previous page.", {"type": "string"})
NAME = Parameter("name", "query", "Part of the name, case-insensitive.", {"type": "string"})
ENABLED = Parameter("enabled", "query", "Only enabled, or only disabled.", {"type": "boolean"})
PAGING = (LIMIT, CURSOR, NAME, ENABLED)
"""The parameters of every list of resources."""


class _SortedEntries(Generic[E]):
    """Entries ordered by name, searchable by a part of the name without visiting each.

    Names contain no newline.
    """

    def __init__(self, entries: list[E], name: Callable[[E], str]) -> None:
        self.entries = entries
        self.names = [name(entry) for entry in entries]
        folded = [f"{fold_text(one)}\n" for one in self.names]
        self._text = "".join(folded)
        self._starts = [0, *accumulate(map(len, folded))]

    def iter_after(self, cursor: str, part: str) -> Iterator[E]:
        """Iterate over entries after a name whose folded name contains ``part``."""
        number = bisect_right(self.names, cursor) if cursor else 0
        if not part:
            yield from islice(self.entries, number, None)
        while part and (at := self._text.find(part, self._starts[number])) >= 0:
            number = bisect_right(self._starts, at)
            yield self.entries[number - 1]


class ResourceListing(Generic[E]):
    """Pages of ``entries``, which are sorted once as long as ``version`` stays the same object."""

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
        self._sorted_version: object = None
        self._sorted: dict[bool | None, _SortedEntries[E]] = {}

    def get_page(self, call: Request) -> tuple[list[E], str]:
        """Return the requested page and the next cursor. ``BadRequest`` for an invalid filter."""
        limit = call.get_int("limit", 1, MAX_LIMIT) or DEFAULT_LIMIT
        part = fold_text(call.get_query("name") or "")
        entries = self._get_sorted(call.get_optional_flag("enabled"))
        if "\n" in part:
            return [], ""
        found = list(islice(entries.iter_after(call.get_query("cursor") or "", part), limit + 1))
        if len(found) <= limit:
            return found, ""
        return found[:limit], self._name(found[limit - 1])

    def find(self, name: str) -> E | None:
        """Return the entry of this name."""
        entries, names = self._get_sorted(None).entries, self.names
        number = bisect_left(names, name)
        return entries[number] if names[number : number + 1] == [name] else None

    @property
    def names(self) -> list[str]:
        """The names of all entries, sorted."""
        return self._get_sorted(None).names

    def _get_sorted(self, enabled: bool | None) -> _SortedEntries[E]:
        """Return the index of all entries, or of the enabled or disabled ones."""
        now = self._version()
        if now is not self._sorted_version:
            self._sorted = {
                None: _SortedEntries(sorted(self._entries(), key=self._name), self._name)
            }
            self._sorted_version = now
        if enabled not in self._sorted:
            those = [one for one in self._sorted[None].entries if self._enabled(one) is enabled]
            self._sorted[enabled] = _SortedEntries(those, self._name)
        return self._sorted[enabled]
