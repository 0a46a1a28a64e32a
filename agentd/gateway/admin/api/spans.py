"""Query parameters for days and times."""

from contextlib import suppress
from datetime import date, timedelta, tzinfo

from agentd.core.clock import Timestamp, format_iso, parse_iso
from agentd.core.errors import BadRequest
from agentd.core.local_days import get_day_start
from agentd.http.parameters import DAY, parse_day
from agentd.http.request import Request
from agentd.http.routing import Parameter

DEFAULT_DAYS = 30
"""Days of a report if no start is given."""

_DATE: dict[str, object] = {"type": "string", "pattern": f"^{DAY.pattern}$", "format": "date"}
_MOMENT: dict[str, object] = {"type": "string", "minLength": 10, "maxLength": 40}

FROM_DAY = Parameter(
    "from",
    "query",
    "First day (in the configured time_zone); by default 29 days before 'to'.",
    _DATE,
)
TO_DAY = Parameter("to", "query", "Last day, included; today by default.", _DATE)
FROM = Parameter(
    "from",
    "query",
    "Start: a day (in the configured time_zone) or a time (ISO 8601).",
    _MOMENT,
)
TO = Parameter("to", "query", "End: a day, included, or a time (ISO 8601), excluded.", _MOMENT)


def parse_moment(call: Request, name: str, zone: tzinfo) -> Timestamp:
    """Parse a query parameter that is a time or a day of the ``zone``; empty if it is absent.

    A day given as ``to`` is included: the result is the beginning of the next day.
    """
    text = call.get_query(name)
    if text is None:
        return ""
    if DAY.fullmatch(text):
        day = parse_day(call, name)
        assert day
        with suppress(OverflowError):
            day += timedelta(days=name == "to")
        if day in (date.min, date.max):  # out of range in some time zones
            return f"{day}T00:00:00.000Z"
        return format_iso(get_day_start(day, zone))
    with suppress(ValueError):
        return format_iso(parse_iso(text))
    raise BadRequest(f"'{name}' is {text[:40]!r}", "Expected a day or an ISO 8601 time.")
