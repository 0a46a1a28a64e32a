"""Paging of reports: all pages of one report come from the same count.

Rows are ordered by cost, which changes while somebody reads. A page cut from a newer count would
repeat some rows and omit others.
"""

import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar
from urllib.parse import parse_qsl

from agentd.core.clock import Clock
from agentd.core.errors import BadRequest
from agentd.http.request import Request

DEFAULT_LIMIT, MAX_LIMIT = 100, 1000
"""Rows of a page: default and maximum."""
MAX_REPORTS = 32
"""Number of reports kept for further pages."""
SECONDS = 600.0
"""Seconds for which they are kept."""
CURSOR_PATTERN = r"^[0-9a-f]{1,16}-[0-9a-f]{1,16}\.[0-9]{1,9}$"

T = TypeVar("T")

_Question: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]
_PAGING = ("cursor", "limit", "format")


class ReportPage(NamedTuple, Generic[T]):
    """A report and which of its rows are on the page."""

    counted: T
    first: int
    rows: int
    token: str

    @property
    def slice(self) -> slice:
        """The rows of this page."""
        return slice(self.first, self.first + self.rows)


class _Remembered(NamedTuple):
    question: _Question
    counted: Any
    until: float


class ReportPages:
    """Reports whose first page was requested recently."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._remembered: OrderedDict[str, _Remembered] = OrderedDict()

    async def open(self, call: Request, count: Callable[[], Awaitable[T]]) -> ReportPage[T]:
        """Return the requested page: the first one of a new ``count``, or a later one.

        Raises ``BadRequest`` for a cursor that is invalid, expired or of another report.
        """
        rows = call.get_int("limit", 1, MAX_LIMIT) or DEFAULT_LIMIT
        cursor = call.get_query("cursor")
        if cursor is None:
            return ReportPage(await count(), 0, rows, call.request_id)
        if not re.fullmatch(CURSOR_PATTERN, cursor):
            raise BadRequest("Invalid cursor", "Use the 'next' of the previous page.")
        token, _, first = cursor.partition(".")
        known = self._remembered.get(token)
        if known is None or known.until < self._clock.monotonic():
            raise BadRequest(
                "The cursor has expired",
                f"Cursors are valid for {SECONDS / 60:.0f} minutes. Start at the first page.",
            )
        if known.question != _identify_report(call):
            raise BadRequest("The cursor is of another report", "Start at the first page.")
        return ReportPage(known.counted, int(first), rows, token)

    def follow(self, call: Request, page: ReportPage[T], of: int, counted: T | None = None) -> str:
        """Return the cursor of the next page of a report with ``of`` rows; empty on the last one.

        ``counted`` is the report for further pages, if it differs from this page's.
        """
        if page.slice.stop >= of:
            return ""
        kept = page.counted if counted is None else counted
        until = self._clock.monotonic() + SECONDS
        self._remembered[page.token] = _Remembered(_identify_report(call), kept, until)
        self._remembered.move_to_end(page.token)
        while len(self._remembered) > MAX_REPORTS:
            self._remembered.popitem(last=False)
        return f"{page.token}.{page.slice.stop}"


def _identify_report(call: Request) -> _Question:
    """Return the parameters that identify a report, without page and format."""
    pairs = parse_qsl(call.query_string, keep_blank_values=True)
    return call.path, tuple(sorted(pair for pair in pairs if pair[0] not in _PAGING))
