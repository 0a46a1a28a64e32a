"""Which days and moments a request asks about."""

import re
from contextlib import suppress
from datetime import date, timedelta, tzinfo
from typing import NamedTuple

from agentd.clock import Timestamp, iso, parse_iso
from agentd.errors import BadRequest
from agentd.proxy.local_days import start_of
from agentd.web.call import Call
from agentd.web.table import Parameter

USUAL_DAYS = 30
"""How many days are told when nobody says from when."""

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_DATE: dict[str, object] = {"type": "string", "pattern": f"^{_DAY.pattern}$", "format": "date"}
_MOMENT: dict[str, object] = {"type": "string", "minLength": 10, "maxLength": 40}

FROM_DAY = Parameter(
    "from", "query", "The first day (in time_zone of the settings); 29 days before 'to'.", _DATE
)
TO_DAY = Parameter("to", "query", "The last day, included; today.", _DATE)
FROM = Parameter(
    "from",
    "query",
    "Not before this day (in time_zone of the settings) or moment (ISO 8601).",
    _MOMENT,
)
TO = Parameter("to", "query", "Not after this day, or before this moment (ISO 8601).", _MOMENT)


class Days(NamedTuple):
    """From a first day to a last one, both included."""

    first: str
    last: str


def days_of(call: Call, today: str) -> Days:
    """The days that are asked about. ``BadRequest``."""
    last = _day("to", call.query("to")) or date.fromisoformat(today)
    usual = last - min(timedelta(USUAL_DAYS - 1), last - date.min)
    first = _day("from", call.query("from")) or usual
    if first > last:
        raise BadRequest("'from' is a day after 'to'", f"from={first}, to={last}")
    return Days(first.isoformat(), last.isoformat())


def moment_of(call: Call, name: str, zone: tzinfo) -> Timestamp:
    """A moment that is asked about, empty where it is absent: a day ``to`` is asked for whole.

    Days are those of the ``zone``.
    """
    text = call.query(name)
    if text is None:
        return ""
    if _DAY.fullmatch(text):
        day = _day(name, text)
        assert day
        with suppress(OverflowError):
            day += timedelta(days=name == "to")
        if day in (date.min, date.max):  # which no clock shows everywhere
            return f"{day}T00:00:00.000Z"
        return iso(start_of(day, zone))
    with suppress(ValueError):
        return iso(parse_iso(text))
    raise BadRequest(f"'{name}' is {text[:40]!r}", "Expected a day or a moment in ISO 8601.")


def _day(name: str, text: str | None) -> date | None:
    if text is None:
        return None
    if _DAY.fullmatch(text):
        with suppress(ValueError):
            return date.fromisoformat(text)
    raise BadRequest(f"'{name}' is {text[:40]!r}", "Expected a day such as 2026-01-31.")
