"""Query parameters and request headers that several routes share."""

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, timedelta
from typing import NamedTuple

from agentd.core.errors import BadRequest
from agentd.http.request import Request
from agentd.http.routing import Parameter

WAIT_LIMIT = 60.0
DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


def make_choice_parameter(name: str, description: str, choices: tuple[str, ...]) -> Parameter:
    """Return a query parameter that is one of ``choices``."""
    return Parameter(name, "query", description, {"type": "string", "enum": list(choices)})


def make_integer_parameter(name: str, description: str, least: int, most: int) -> Parameter:
    """Return a query parameter that is an integer from ``least`` to ``most``."""
    schema = {"type": "integer", "minimum": least, "maximum": most}
    return Parameter(name, "query", description, schema)


SINCE = Parameter(
    "since",
    "query",
    "Only messages from this ISO 8601 time on, inclusive; an invalid value is ignored.",
    {"type": "string"},
)
WAIT = Parameter(
    "wait",
    "query",
    "The most seconds to wait for the chat to become idle before answering.",
    {"type": "number", "minimum": 0, "maximum": WAIT_LIMIT},
)
IDEMPOTENCY_KEY = Parameter(
    "Idempotency-Key",
    "header",
    "A repetition with the same key and body within 24 hours has no further effect and returns"
    " the first answer.",
    {"type": "string", "minLength": 1, "maxLength": 255},
)
IF_MATCH = Parameter(
    "If-Match",
    "header",
    "Replace only the version with this ETag; without it the last write wins.",
    {"type": "string", "pattern": '^("[0-9]{1,16}"|[*])$'},
)
ETAG: Mapping[str, str] = {"ETag": "The version of what was returned, to send as If-Match."}
"""The headers of a response whose version a change can name."""


class DayRange(NamedTuple):
    """The first and the last of some days, as ISO dates."""

    first: str
    last: str


def parse_days(call: Request, today: str, usual_days: int) -> DayRange:
    """Parse the days ``from`` … ``to``; by default the ``usual_days`` up to ``today``.

    ``BadRequest``.
    """
    last = parse_day(call, "to") or date.fromisoformat(today)
    usual = last - min(timedelta(usual_days - 1), last - date.min)
    first = parse_day(call, "from") or usual
    if first > last:
        raise BadRequest("'from' is a day after 'to'", f"from={first}, to={last}")
    return DayRange(first.isoformat(), last.isoformat())


def parse_day(call: Request, name: str) -> date | None:
    """Parse a query parameter that is a day; None if it is absent. ``BadRequest``."""
    text = call.get_query(name)
    if text is None:
        return None
    if DAY.fullmatch(text):
        with suppress(ValueError):
            return date.fromisoformat(text)
    raise BadRequest(f"'{name}' is {text[:40]!r}", "Expected a day such as 2026-01-31.")
