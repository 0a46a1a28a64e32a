"""Lists page by page, in the order of their names."""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import islice
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
        self._sorted: list[E] = []
        self._names: list[str] = []

    def page(self, call: Call) -> tuple[list[E], str]:
        """What the request wants, and where to go on. ``BadRequest`` for what is no filter."""
        limit = call.number("limit", 1, MOST) or USUAL
        part = (call.query("name") or "").casefold()
        enabled = flag(call, "enabled")
        cursor = call.query("cursor")
        self._sort()
        begin = bisect_right(self._names, cursor) if cursor else 0
        found: list[E] = []
        for entry in islice(self._sorted, begin, None):
            if part not in self._name(entry).casefold():
                continue
            if enabled is not None and self._enabled(entry) is not enabled:
                continue
            if len(found) == limit:
                return found, self._name(found[-1])
            found.append(entry)
        return found, ""

    def _sort(self) -> None:
        now = self._version()
        if now is not self._sorted_of:
            self._sorted = sorted(self._entries(), key=self._name)
            self._names = [self._name(entry) for entry in self._sorted]
            self._sorted_of = now


def flag(call: Call, name: str) -> bool | None:
    """A query parameter that is ``true`` or ``false``; None when it is absent; ``BadRequest``."""
    text = call.query(name)
    if text is None:
        return None
    if text not in ("true", "false"):
        raise BadRequest(f"{name} must be true or false")
    return text == "true"
