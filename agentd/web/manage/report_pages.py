"""Pages of reports that are counted anew for each question: those that follow tell of one count.

Rows are ordered by what was spent, and keys spend while somebody reads. A page that was cut from a
newer count would tell some rows twice and others never.
"""

import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar
from urllib.parse import parse_qsl

from agentd.clock import Clock
from agentd.errors import BadRequest
from agentd.web.call import Call

USUAL, MOST = 100, 1000
"""Rows of a page, when nobody says how many, and at most."""
REMEMBERED = 32
"""Counts of which further pages can be asked for."""
SECONDS = 600.0
"""For how long they can."""
CURSOR_PATTERN = r"^[0-9a-f]{1,16}-[0-9a-f]{1,16}\.[0-9]{1,9}$"

T = TypeVar("T")

_Question: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]
_PAGING = ("cursor", "limit", "format")


class ReportPage(NamedTuple, Generic[T]):
    """The count that a page tells of, and which of its rows are on the page."""

    counted: T
    first: int
    rows: int
    token: str

    @property
    def slice(self) -> slice:
        """The rows that are on it, if there are as many."""
        return slice(self.first, self.first + self.rows)


class _Remembered(NamedTuple):
    question: _Question
    counted: Any
    until: float


class ReportPages:
    """The counts whose first page was told lately."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._remembered: OrderedDict[str, _Remembered] = OrderedDict()

    async def open(self, call: Call, count: Callable[[], Awaitable[T]]) -> ReportPage[T]:
        """Return the page that is asked for: the first of a new ``count``, or a later one.

        Raises ``BadRequest`` for a cursor that no page of this report told, or not lately.
        """
        rows = call.number("limit", 1, MOST) or USUAL
        cursor = call.query("cursor")
        if cursor is None:
            return ReportPage(await count(), 0, rows, call.request_id)
        if not re.fullmatch(CURSOR_PATTERN, cursor):
            raise BadRequest("This is no cursor of a report", "Take the next of the page before.")
        token, _, first = cursor.partition(".")
        known = self._remembered.get(token)
        if known is None or known.until < self._clock.monotonic():
            raise BadRequest(
                "The pages of this report are not remembered any more",
                f"They are for {SECONDS / 60:.0f} minutes. Ask for the first one again.",
            )
        if known.question != _question_of(call):
            raise BadRequest("This cursor is of another report", "Ask for the first page.")
        return ReportPage(known.counted, int(first), rows, token)

    def follow(self, call: Call, page: ReportPage[T], of: int, counted: T | None = None) -> str:
        """Return the cursor of the page after this one ``of`` so many rows; empty at the end.

        ``counted`` is what further pages tell of, where this one was not cut from it.
        """
        if page.slice.stop >= of:
            return ""
        kept = page.counted if counted is None else counted
        until = self._clock.monotonic() + SECONDS
        self._remembered[page.token] = _Remembered(_question_of(call), kept, until)
        self._remembered.move_to_end(page.token)
        while len(self._remembered) > REMEMBERED:
            self._remembered.popitem(last=False)
        return f"{page.token}.{page.slice.stop}"


def _question_of(call: Call) -> _Question:
    """What is asked, whichever page of it and in whatever form."""
    pairs = parse_qsl(call.query_text, keep_blank_values=True)
    return call.path, tuple(sorted(pair for pair in pairs if pair[0] not in _PAGING))
